//! What is not reached, however it is written.

use super::{
    super::send::Outcome,
    server::{Answer, Server},
    setup::{attempt, given_up, unchecked},
};

#[tokio::test]
async fn a_name_that_leads_to_this_machine_is_refused_unless_it_is_allowed() {
    let server = Server::start(&[Answer::Status(200)]).await;
    let port = server.address.port();
    let url = format!("http://LocalHost:{port}/");
    let elsewhere = format!("127.0.0.1:{}", port ^ 1);
    for allow in
        [&[][..] as &[&str], &[elsewhere.as_str()], &["localhost:1"], &["10.0.0.0/8", "other.host", "host"]]
    {
        let reason = given_up(attempt(&unchecked(&url, allow), "webhook-1").await);
        assert!(reason.starts_with("localhost leads to a loopback address"), "{reason}");
        assert!(reason.contains(&format!(":{port}\" to notify.allow")), "{reason}");
    }
    assert_eq!(server.asked().len(), 0);
    let here = format!("127.0.0.1:{port}");
    for allow in ["localhost", "127.0.0.0/8", &here] {
        assert_eq!(attempt(&unchecked(&url, &[allow]), "webhook-1").await, Outcome::Delivered, "{allow}");
    }
    assert_eq!(server.asked().len(), 3);
}

#[tokio::test]
async fn an_address_of_this_machine_is_refused_in_every_spelling() {
    let server = Server::start(&[Answer::Status(200)]).await;
    let port = server.address.port();
    for host in [
        "127.0.0.1",
        "127.1",
        "2130706433",
        "0x7f000001",
        "0177.0.0.1",
        "[::ffff:127.0.0.1]",
        "0.0.0.0",
        "[::]",
        "[::1]",
    ] {
        let reason = given_up(attempt(&unchecked(&format!("http://{host}:{port}/"), &[]), "webhook-1").await);
        assert!(reason.contains("where notices are not sent"), "{host}: {reason}");
    }
    assert_eq!(server.asked().len(), 0);
    let allowed = unchecked(&format!("http://[::ffff:127.0.0.1]:{port}/"), &["127.0.0.1"]);
    assert_eq!(attempt(&allowed, "webhook-1").await, Outcome::Delivered);
}

#[tokio::test]
async fn a_redirect_is_not_followed_even_to_where_it_could_go() {
    let behind = Server::start(&[Answer::Status(200)]).await;
    let to: &'static str = behind.url("/").leak();
    for status in [301, 302, 303, 307, 308] {
        let headers: &'static [(&str, &str)] = vec![("location", to)].leak();
        let before = Server::start(&[Answer::With(status, headers, String::new())]).await;
        let only_the_first = before.address.to_string();
        for allow in [only_the_first.as_str(), "127.0.0.0/8"] {
            let reason = given_up(attempt(&unchecked(&before.url("/"), &[allow]), "webhook-1").await);
            assert!(
                reason.contains(&status.to_string()) && reason.contains("redirects are not followed"),
                "{reason}"
            );
        }
        assert_eq!(before.asked().len(), 2);
    }
    assert_eq!(behind.asked().len(), 0);
}

#[tokio::test]
async fn one_port_that_is_allowed_opens_no_other() {
    let (open, closed) =
        (Server::start(&[Answer::Status(200)]).await, Server::start(&[Answer::Status(200)]).await);
    let rule = open.address.to_string();
    for host in ["127.0.0.1", "localhost"] {
        let url = |server: &Server| format!("http://{host}:{}/", server.address.port());
        assert_eq!(attempt(&unchecked(&url(&open), &[&rule]), "webhook-1").await, Outcome::Delivered);
        given_up(attempt(&unchecked(&url(&closed), &[&rule]), "webhook-1").await);
    }
    assert_eq!(closed.asked().len(), 0);
}
