//! What targets are sent, and what their answers mean.

use std::time::Duration;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use sha2::{Digest as _, Sha256};

use super::{
    super::send::Outcome,
    server::{Answer, Asked, Server},
    setup::{attempt, attempt_within, notice, retried, targets, unchecked},
};

/// RFC 2104, from its text.
fn hmac_sha256(key: &[u8], message: &[u8]) -> Vec<u8> {
    let mut block = [0_u8; 64];
    if key.len() > 64 {
        block[..32].copy_from_slice(&Sha256::digest(key));
    } else {
        block[..key.len()].copy_from_slice(key);
    }
    let (inner, outer) = (block.map(|b| b ^ 0x36), block.map(|b| b ^ 0x5c));
    let first = Sha256::digest([&inner[..], message].concat());
    Sha256::digest([&outer[..], &first[..]].concat()).to_vec()
}

/// As a receiver verifies it.
fn is_signed(asked: &Asked, key: &[u8]) -> bool {
    let header = |name: &str| asked.headers.get(name).cloned().unwrap_or_default();
    let signed = format!("{}.{}.{}", header("webhook-id"), header("webhook-timestamp"), asked.body);
    header("webhook-signature") == format!("v1,{}", STANDARD.encode(hmac_sha256(key, signed.as_bytes())))
}

#[tokio::test]
async fn a_webhook_is_posted_signed_with_its_headers() {
    let server = Server::start(&[Answer::Status(204)]).await;
    let text = format!(
        "[notify]\nallow = ['127.0.0.1']\n[[notify.webhook]]\nurl = '{}'\nsecret = 'SIGNING'\n\
         headers = {{ Authorization = 'Bearer ${{TOKEN}}', X-Team = 'bees' }}\n",
        server.url("/hooks/${PATH}?x=1")
    );
    let key = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";
    for (secret, bytes) in [
        (key, STANDARD.decode(&key[6..]).unwrap()),
        ("plain text", b"plain text".to_vec()),
        (&"long".repeat(40), "long".repeat(40).into_bytes()),
    ] {
        let targets = targets(&text, &[("SIGNING", secret), ("TOKEN", "t0ken"), ("PATH", "T0/B0")]);
        assert_eq!(attempt(&targets, "webhook-1").await, Outcome::Delivered);
        let asked = server.asked().pop().unwrap();
        assert!(is_signed(&asked, &bytes), "{asked:?}");
        assert!(!is_signed(&asked, b"another"));
    }
    let asked = server.asked().pop().unwrap();
    assert_eq!(asked.line, "POST /hooks/T0/B0?x=1 HTTP/1.1");
    assert_eq!(asked.json(), notice("told").webhook());
    for (name, value) in [
        ("content-type", "application/json"),
        ("authorization", "Bearer t0ken"),
        ("x-team", "bees"),
        ("webhook-id", "msg_1"),
        ("webhook-timestamp", "1800000000"),
        ("user-agent", concat!("skep/", env!("CARGO_PKG_VERSION"))),
    ] {
        assert_eq!(asked.headers[name], value);
    }
}

#[tokio::test]
async fn a_webhook_without_a_secret_is_not_signed() {
    let server = Server::start(&[Answer::Status(200)]).await;
    assert_eq!(attempt(&unchecked(&server.url("/"), &["127.0.0.1"]), "webhook-1").await, Outcome::Delivered);
    let asked = server.asked().remove(0);
    assert!(!asked.headers.contains_key("webhook-signature") && asked.headers.contains_key("webhook-id"));
}

#[tokio::test]
async fn telegram_is_asked_to_send_a_message() {
    let server = Server::start(&[Answer::Status(200)]).await;
    for base in [server.url(""), server.url("/"), server.url("/api/")] {
        let text = format!(
            "[notify]\nallow = ['127.0.0.1']\n[[notify.telegram]]\nchat_id = 42\ntoken = 'TOKEN'\nbase_url = '{base}'"
        );
        for token in ["123:AB-c_d", "../x?y#z"] {
            let targets = targets(&text, &[("TOKEN", token)]);
            assert_eq!(attempt(&targets, "telegram-1").await, Outcome::Delivered);
        }
    }
    let asked = server.asked();
    let lines: Vec<_> = asked.iter().map(|a| a.line.as_str()).collect();
    let (plain, odd) =
        ("POST /bot123:AB-c_d/sendMessage HTTP/1.1", "POST /bot..%2Fx%3Fy%23z/sendMessage HTTP/1.1");
    let below =
        ["POST /api/bot123:AB-c_d/sendMessage HTTP/1.1", "POST /api/bot..%2Fx%3Fy%23z/sendMessage HTTP/1.1"];
    assert_eq!(lines, [plain, odd, plain, odd, below[0], below[1]]);
    assert_eq!(asked[0].json(), notice("told").telegram("42"));
    assert!(!asked[0].headers.contains_key("webhook-id"));
}

#[tokio::test]
async fn ntfy_is_sent_a_publication() {
    let server = Server::start(&[Answer::Status(200)]).await;
    let text = format!(
        "[notify]\nallow = ['127.0.0.1']\n[[notify.ntfy]]\nurl = '{}'\ntopic = 'bees'\ntoken = 'TOKEN'\npriority = 5",
        server.url("")
    );
    assert_eq!(attempt(&targets(&text, &[("TOKEN", "tk_x")]), "ntfy-1").await, Outcome::Delivered);
    let asked = server.asked().remove(0);
    assert_eq!(
        (asked.line.as_str(), asked.headers["authorization"].as_str()),
        ("POST / HTTP/1.1", "Bearer tk_x")
    );
    assert_eq!(asked.json(), notice("told").ntfy("bees", Some(5)));
}

#[tokio::test]
async fn each_answer_means_delivered_later_or_never() {
    for (status, meaning) in [
        (200, "delivered"),
        (201, "delivered"),
        (202, "delivered"),
        (204, "delivered"),
        (299, "delivered"),
        (408, "later"),
        (425, "later"),
        (429, "later"),
        (500, "later"),
        (502, "later"),
        (503, "later"),
        (504, "later"),
        (599, "later"),
        (300, "never"),
        (304, "never"),
        (400, "never"),
        (401, "never"),
        (403, "never"),
        (404, "never"),
        (410, "never"),
        (422, "never"),
    ] {
        let server = Server::start(&[Answer::Status(status)]).await;
        match attempt(&unchecked(&server.url("/"), &["127.0.0.1"]), "webhook-1").await {
            Outcome::Delivered => assert_eq!(meaning, "delivered", "{status}"),
            Outcome::Retry { reason, after } => {
                assert_eq!((meaning, after), ("later", None), "{status}");
                assert!(reason.starts_with(&format!("127.0.0.1 answered {status}")), "{reason}");
            }
            Outcome::GivenUp { reason } => {
                assert_eq!(meaning, "never", "{status}");
                assert!(reason.starts_with(&format!("127.0.0.1 answered {status}")), "{reason}");
            }
        }
        assert_eq!(server.asked().len(), 1);
    }
}

#[tokio::test]
async fn a_target_says_how_long_it_wants_to_be_left_alone() {
    let asks = |headers, body: &str| Answer::With(429, headers, body.to_owned());
    let telegrams =
        r#"{"ok":false,"error_code":429,"description":"Too Many Requests","parameters":{"retry_after":7}}"#;
    for (answer, seconds) in [
        (asks(&[("retry-after", "120")], ""), 120),
        (asks(&[("retry-after", "999999999")], ""), 3600),
        (asks(&[("retry-after", "Sun, 01 Jan 2090 00:00:00 GMT")], ""), 3600),
        (asks(&[("retry-after", "120")], telegrams), 120),
        (asks(&[], telegrams), 7),
    ] {
        let server = Server::start(&[answer]).await;
        let text = format!(
            "[notify]\nallow = ['127.0.0.1']\n[[notify.telegram]]\nchat_id = 42\ntoken = 'T'\nbase_url = '{}'",
            server.url("")
        );
        let (_, after) = retried(attempt(&targets(&text, &[("T", "1:x")]), "telegram-1").await);
        assert_eq!(after, Some(Duration::from_secs(seconds)));
    }
}

#[tokio::test]
async fn whatever_does_not_answer_is_tried_again() {
    let hangs = Server::start(&[Answer::Hang]).await;
    let targets = unchecked(&hangs.url("/"), &["127.0.0.1"]);
    let (reason, _) = retried(attempt_within(&targets, "webhook-1", Duration::from_millis(100)).await);
    assert_eq!(reason, "127.0.0.1 did not answer within 100ms");
    let closes = Server::start(&[Answer::Close]).await;
    let (reason, _) = retried(attempt(&unchecked(&closes.url("/"), &["127.0.0.1"]), "webhook-1").await);
    assert!(reason.starts_with("127.0.0.1 broke off"), "{reason}");
    let gone = closes.url("/");
    drop(closes);
    let (reason, _) = retried(attempt(&unchecked(&gone, &["127.0.0.1"]), "webhook-1").await);
    assert!(reason.starts_with("cannot connect to 127.0.0.1: "), "{reason}");
    let (reason, _) = retried(attempt(&unchecked("http://no-such-host.invalid/", &[]), "webhook-1").await);
    assert!(reason.starts_with("cannot connect to no-such-host.invalid: "), "{reason}");
}

#[tokio::test]
async fn a_server_that_speaks_no_tls_is_not_sent_anything() {
    let server = Server::start(&[Answer::Status(200)]).await;
    let url = server.url("/").replace("http:", "https:");
    retried(attempt_within(&unchecked(&url, &["127.0.0.1"]), "webhook-1", Duration::from_secs(5)).await);
    assert!(server.asked().is_empty());
}

#[tokio::test]
async fn an_answer_without_an_end_is_read_only_at_its_beginning() {
    for status in [200, 400, 500] {
        let server = Server::start(&[Answer::Endless(status)]).await;
        match attempt(&unchecked(&server.url("/"), &["127.0.0.1"]), "webhook-1").await {
            Outcome::Delivered => assert_eq!(status, 200),
            Outcome::Retry { reason, .. } | Outcome::GivenUp { reason } => {
                assert!(reason.ends_with(&"x".repeat(200)) && reason.len() < 300, "{reason}");
            }
        }
        // What the kernel took for both ends is not read.
        assert!(server.sent() < 64 << 20, "{} bytes", server.sent());
    }
}

#[tokio::test]
async fn no_reason_tells_a_secret() {
    const CANARY: &str = "123456:canary-cAnArY_7";
    let echo = format!("no bot at /bot{CANARY}/sendMessage, {}", STANDARD.encode(CANARY));
    let mut padded = " ".repeat(100);
    padded.push_str(&echo);
    let echoes =
        Server::start(&[Answer::With(404, &[], padded), Answer::With(500, &[], echo), Answer::Hang]).await;
    let closed = Server::start(&[Answer::Close]).await;
    let (closed_url, echoes_url) = (closed.url(""), echoes.url(""));
    let text = |base: &str| {
        format!(
            "[notify]\nallow = ['127.0.0.1']\n[[notify.telegram]]\nchat_id = 42\ntoken = 'T'\nbase_url = '{base}'\n\
             [[notify.webhook]]\nurl = '{base}/${{T}}'\nheaders = {{ X = '${{T}}' }}\n\
             [[notify.ntfy]]\nurl = '{base}'\ntopic = 'x'\ntoken = 'T'\n"
        )
    };
    let mut reasons = Vec::new();
    let no_tls = echoes_url.replace("http:", "https:");
    for (base, token) in [
        (&echoes_url, CANARY.to_owned()),
        (&closed_url, CANARY.to_owned()),
        (&no_tls, CANARY.to_owned()),
        (&"http://127.0.0.1:1".to_owned(), CANARY.to_owned()),
        (&"http://no-such-host.invalid".to_owned(), CANARY.to_owned()),
        (&echoes_url, format!("{CANARY}\nX: y")),
    ] {
        let targets = targets(&text(base), &[("T", &token)]);
        reasons.extend(targets.problems().map(|(_, why)| why.to_owned()));
        for name in ["telegram-1", "webhook-1", "ntfy-1"] {
            match attempt_within(&targets, name, Duration::from_millis(500)).await {
                Outcome::Retry { reason, .. } | Outcome::GivenUp { reason } => reasons.push(reason),
                Outcome::Delivered => panic!("{name}"),
            }
        }
    }
    assert!(reasons.iter().any(|r| r.contains("no bot at /bot***/sendMessage, ***")), "{reasons:#?}");
    assert!(!reasons.concat().to_lowercase().contains("canary"), "{reasons:#?}");
}

#[tokio::test]
async fn a_secret_that_is_not_set_is_waited_for() {
    let text = "[[notify.telegram]]\nchat_id = 1\ntoken = 'A'\n[[notify.ntfy]]\nurl = 'https://x.example'\ntopic = 't'\n\
                token = 'B'\n[[notify.webhook]]\nurl = 'https://x.example/${C}'\n[[notify.webhook]]\nurl = 'https://x.example'\n\
                secret = 'D'\n[[notify.webhook]]\nurl = 'https://x.example'\nheaders = { X = '${E}' }\n\
                [[notify.webhook]]\nurl = 'https://x.example'\n";
    let none = targets(text, &[("B", "")]);
    for (name, secret) in
        [("telegram-1", 'A'), ("ntfy-1", 'B'), ("webhook-1", 'C'), ("webhook-2", 'D'), ("webhook-3", 'E')]
    {
        let (reason, _) = retried(attempt(&none, name).await);
        assert_eq!(reason, format!("the secret {secret} is not set: set it with `skep secret set {secret}`"));
    }
    assert_eq!(none.problems().count(), 5);
    assert_eq!(none.names().count(), 6);
    let wrong =
        targets("[[notify.webhook]]\nurl = 'https://x.example'\nsecret = 'D'\n", &[("D", "whsec_???")]);
    let (reason, _) = retried(attempt(&wrong, "webhook-1").await);
    assert!(reason.contains("the secret D begins with whsec_"), "{reason}");
}

#[test]
fn every_secret_that_is_named_is_told() {
    let text = "[[notify.telegram]]\nchat_id = 1\ntoken = 'A'\n[[notify.ntfy]]\nurl = 'https://x.example'\ntopic = 't'\n\
                token = 'B'\n[[notify.webhook]]\nurl = 'https://x.example/${C}'\nsecret = 'D'\nheaders = { X = '${E}${A}' }\n";
    let notify = crate::config::parse(text, "skep.toml").unwrap().0.notify;
    let names: Vec<String> =
        super::super::target::named_secrets(&notify).iter().map(ToString::to_string).collect();
    assert_eq!(names, ["A", "B", "C", "D", "E"]);
}
