//! `[notify]`: what is accepted, and how mistakes are told.

use std::collections::BTreeMap;

use super::{
    super::{
        model::{Notify, NotifyTarget, NotifyTo},
        parse,
    },
    faults, only, warnings,
};

fn notify(text: &str) -> Notify {
    parse(text, "skep.toml").unwrap().0.notify
}

#[test]
fn every_kind_of_target_is_understood() {
    let text = r#"
        [notify]
        interval_minutes = 30
        allow = ["127.0.0.1:9000", "10.0.0.0/8", "hooks.lan"]
        [[notify.webhook]]
        url = "https://hooks.example.com/${PATH_KEY}?a=b"
        secret = "HOOK_SECRET"
        headers = { Authorization = "Bearer ${HOOK_TOKEN}", X-Team = "bees" }
        [[notify.webhook]]
        name = "near"
        url = "http://127.0.0.1:9000/"
        [[notify.telegram]]
        chat_id = -1001234
        token = "TELEGRAM_TOKEN"
        [[notify.telegram]]
        chat_id = "@bees"
        token = "TELEGRAM_TOKEN"
        base_url = "http://10.1.2.3:8081"
        [[notify.ntfy]]
        url = "https://ntfy.sh"
        topic = "bees_1"
        token = "NTFY_TOKEN"
        priority = 4
        [[notify.ntfy]]
        url = "http://hooks.lan/ntfy/"
        topic = "x"
    "#;
    let notify = notify(text);
    assert_eq!(warnings(text), Vec::<String>::new());
    assert_eq!(notify.interval_minutes, 30);
    assert_eq!(
        notify.allow.iter().map(ToString::to_string).collect::<Vec<_>>(),
        ["127.0.0.1:9000", "10.0.0.0/8", "hooks.lan"]
    );
    let names: Vec<_> = notify.targets.iter().map(|t| t.name.as_str()).collect();
    assert_eq!(names, ["webhook-1", "near", "telegram-1", "telegram-2", "ntfy-1", "ntfy-2"]);
    let NotifyTo::Webhook { url, secret, headers } = &notify.targets[0].to else { panic!() };
    assert_eq!(url.to_string(), "https://hooks.example.com/${PATH_KEY}?a=b");
    assert_eq!(secret.as_ref().unwrap().as_str(), "HOOK_SECRET");
    let headers: BTreeMap<_, _> = headers.iter().map(|(k, v)| (k.as_str(), v.to_string())).collect();
    assert_eq!(headers["authorization"], "Bearer ${HOOK_TOKEN}");
    assert_eq!(headers["x-team"], "bees");
    let telegram = |chat_id: &str, base_url: &str| NotifyTo::Telegram {
        base_url: base_url.into(),
        chat_id: chat_id.into(),
        token: "TELEGRAM_TOKEN".parse().unwrap(),
    };
    assert_eq!(notify.targets[2].to, telegram("-1001234", "https://api.telegram.org"));
    assert_eq!(notify.targets[3].to, telegram("@bees", "http://10.1.2.3:8081"));
    assert_eq!(
        notify.targets[4],
        NotifyTarget {
            name: "ntfy-1".into(),
            to: NotifyTo::Ntfy {
                url: "https://ntfy.sh".into(),
                topic: "bees_1".into(),
                token: Some("NTFY_TOKEN".parse().unwrap()),
                priority: Some(4),
            },
        }
    );
}

#[test]
fn a_hive_that_says_nothing_notifies_nobody() {
    assert_eq!(notify(""), Notify::default());
    assert_eq!(notify("[notify]"), Notify::default());
    assert_eq!(notify("[notify]\nwebhook = []"), Notify::default());
}

#[test]
fn mistakes_are_told_with_a_remedy() {
    const HOOK: &str = "[[notify.webhook]]\nurl = 'https://x.example'\n";
    const CHAT: &str = "[[notify.telegram]]\nchat_id = 1\ntoken = 'T'\n";
    const NTFY: &str = "[[notify.ntfy]]\nurl = 'https://x.example'\ntopic = 't'\n";
    #[rustfmt::skip]
    const CASES: &[(&str, &str, &str, &str)] = &[
        ("", "[notify]\ninterval_minutes = -1", "from 0 to", "such as 30"),
        ("", "[notify]\ninterval_minutes = 525601", "from 0 to", "such as 30"),
        ("", "[notify]\ninterval_minutes = '5m'", "a whole number", "without quotes"),
        ("", "[notify]\nallow = 'hooks.lan'", "an array", "[\"hooks.lan\"]"),
        ("", "[notify]\nallow = ['*']", "\"*\" is not a host", "hooks.lan"),
        ("", "[notify]\nallow = ['10.0.0.1/8']", "not a host", "\"10.0.0.0/8\""),
        ("", "[notify]\nemail = 1", "unknown key \"email\"", "known keys are"),
        ("", "[notify]\nwebhooks = 1", "unknown key \"webhooks\"", "did you mean \"webhook\"?"),
        ("", "[notify.webhook]\nurl = 'https://x.example'", "an array of tables, not a table", "[[notify.webhook]]"),
        ("", "[[notify.webhook]]\n", "notify.webhook[0] has no url", "add url = "),
        ("", "[[notify.telegram]]\ntoken = 'T'", "has no chat_id", "add chat_id"),
        ("", "[[notify.telegram]]\nchat_id = 1", "has no token", "name of a secret"),
        ("", "[[notify.ntfy]]\nurl = 'https://x.example'", "has no topic", "add topic"),
        ("", "[[notify.ntfy]]\ntopic = 'x'", "has no url", "https://ntfy.sh"),
        (HOOK, "uri = 1", "unknown key \"uri\"", "did you mean \"url\"?"),
        (HOOK, "name = 'Ops'", "\"Ops\" is not a valid name", "lowercase"),
        (HOOK, "name = ''", "is empty", ""),
        (HOOK, "secret = 'whsec_abc/def=='", "notify.webhook[0].secret is not the name of a secret", "skep secret set"),
        (HOOK, "headers = { 'A B' = 'x' }", "not a name of a header", "X-Team"),
        (HOOK, "headers = { Host = 'x' }", "set by skep itself", "remove"),
        (HOOK, "headers = { Webhook-Signature = 'x' }", "set by skep itself", "remove"),
        (HOOK, "headers = { A = 'x', a = 'y' }", "written twice", "remove"),
        (HOOK, "headers = { A = \"x\\ny\" }", "control character", "one line"),
        (HOOK, "headers = { A = '${x' }", "not closed", "${NAME}"),
        (HOOK, "headers = { A = 5 }", "must be a string", "\"5\""),
        (HOOK, "headers = ['A: b']", "must be a table", ""),
        (CHAT, "base_url = 'api.telegram.org'", "not an HTTP address", "https://"),
        (CHAT, "base_url = 'https://x.example/?a'", "more than a path", "remove"),
        (NTFY, "priority = 6", "from 1 to 5", "3 for the usual"),
        (NTFY, "priority = 'high'", "a whole number", ""),
        ("", "[[notify.telegram]]\ntoken = 'T'\nchat_id = 'me'", "\"me\" is not a Telegram chat", "8304042211"),
        ("", "[[notify.telegram]]\ntoken = '123:ABC'\nchat_id = 1", "not the name of a secret", "skep secret set"),
        ("", "[[notify.ntfy]]\nurl = 'https://x.example'\ntopic = 'a/b'", "not a topic", "letters"),
        ("", "[[notify.ntfy]]\nurl = 'https://x.example/t/'\ntopic = 't'", "ends with the topic", "server alone"),
        (HOOK, "name = 'a'\n[[notify.ntfy]]\nname = 'a'\nurl = 'https://x.example'\ntopic = 't'", "called \"a\"", "a name of its own"),
        (HOOK, "name = 'webhook-2'\n[[notify.webhook]]\nurl = 'https://x.example'", "called \"webhook-2\"", "a name of its own"),
    ];
    for (before, line, message, help) in CASES {
        let text = format!("{before}{line}\n");
        let (_, _, told, advice) = only(&text);
        assert!(told.contains(message), "{text}: {told}");
        assert!(advice.contains(help), "{text}: {advice}");
    }
}

#[test]
fn addresses_are_checked_without_being_repeated() {
    #[rustfmt::skip]
    const CASES: &[(&str, &str, &str)] = &[
        ("hooks.example.com/canary", "not an HTTP address", "https://"),
        ("ftp://hooks.example.com/canary", "not an HTTP address", "https://"),
        ("https://canary@hooks.example.com", "holds a user name or password", "${NAME}"),
        ("https://u:canary@hooks.example.com", "holds a user name or password", "${NAME}"),
        ("https://${CANARY}/", "has a secret in its host", "behind the host"),
        ("https://hooks.example.com${CANARY}", "has a secret in its host", "behind the host"),
        ("https://hooks.example.com:${CANARY}/", "not an HTTP address", "https://"),
        ("https://hooks.example.com/${canary", "not closed", "${NAME}"),
        ("http://127.0.0.1:9000/canary", "127.0.0.1 is a loopback address", "add \"127.0.0.1:9000\" to notify.allow"),
        ("http://127.1/canary", "127.0.0.1 is a loopback address", "add \"127.0.0.1:80\" to notify.allow"),
        ("http://2130706433/canary", "127.0.0.1 is a loopback address", "add \"127.0.0.1:80\" to notify.allow"),
        ("http://0x7f.0.0.1/", "a loopback address", "notify.allow"),
        ("https://[::1]/canary", "[::1] is a loopback address", "add \"[::1]:443\" to notify.allow"),
        ("https://[::ffff:7f00:1]/", "a loopback address", "add \"127.0.0.1:443\" to notify.allow"),
        ("https://169.254.169.254/", "a link-local address", "notify.allow"),
        ("https://192.168.0.1/", "a private address", "notify.allow"),
        ("https://0.0.0.0/", "an unspecified address", "notify.allow"),
        ("http://localhost:9000/", "localhost leads to a loopback address", "add \"127.0.0.1:9000\" to notify.allow"),
        ("http://a.localhost./", "leads to a loopback address", "notify.allow"),
    ];
    for (url, message, help) in CASES {
        let text = format!("[[notify.webhook]]\nurl = '{url}'\n");
        let (line, column, told, advice) = only(&text);
        assert_eq!((line, column), (2, 7), "{text}");
        assert!(told.contains(message), "{text}: {told}");
        assert!(advice.contains(help), "{text}: {advice}");
        assert!(!format!("{told}{advice}").contains("canary"), "{told} {advice}");
    }
    for base in ["http://10.0.0.1", "http://localhost"] {
        let telegram = format!("[[notify.telegram]]\nchat_id = 1\ntoken = 'T'\nbase_url = '{base}'");
        let ntfy = format!("[[notify.ntfy]]\ntopic = 't'\nurl = '{base}'");
        for text in [telegram, ntfy] {
            assert!(only(&text).2.contains("where notices are not sent"), "{text}");
        }
    }
}

#[test]
fn what_is_allowed_may_be_written() {
    for (allow, url) in [
        ("127.0.0.1", "http://127.0.0.1:9000/"),
        ("127.0.0.1:9000", "http://127.0.0.1:9000/"),
        ("127.0.0.1:9000", "http://localhost:9000/"),
        ("::1", "http://localhost:9000/"),
        ("localhost", "http://localhost:9000/"),
        ("192.168.0.0/16", "https://192.168.7.7"),
        ("::1", "https://[::1]/"),
    ] {
        notify(&format!("[notify]\nallow = ['{allow}']\n[[notify.webhook]]\nurl = '{url}'"));
    }
    let other = "[notify]\nallow = ['127.0.0.1:9000']\n[[notify.webhook]]\nurl = 'http://127.0.0.1:9001/'";
    assert_eq!(faults(other).len(), 1);
}

#[test]
fn secrets_in_clear_over_the_internet_are_warned_of() {
    let telegram = |base: &str, allow: &str| {
        warnings(&format!(
            "[notify]\nallow = [{allow}]\n[[notify.telegram]]\nchat_id = 1\ntoken = 'T'\nbase_url = '{base}'"
        ))
    };
    assert!(telegram("http://bots.example.com", "")[0].contains("can be read on the way (use https)"));
    assert!(telegram("https://bots.example.com", "").is_empty());
    assert!(telegram("http://bots.lan", "'bots.lan'").is_empty());
    assert!(telegram("http://10.0.0.1", "'10.0.0.0/8'").is_empty());
    assert!(warnings("[[notify.webhook]]\nurl = 'http://x.example/a'\nsecret = 'S'").is_empty());
    assert_eq!(warnings("[[notify.webhook]]\nurl = 'http://x.example/${A}'").len(), 1);
}
