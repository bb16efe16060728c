//! The outbox worked off: order, retries, hanging targets, restarts.

use std::{sync::Arc, time::Duration};

use jiff::{Timestamp, ToSpan};

use super::{
    super::{Pace, Targets},
    server::{Answer, Server},
    setup::{clock, database, open, quick, settled, start, targets, tell},
};
use crate::db;

/// Webhooks of these names at these servers.
fn hooks(servers: &[(&str, &Server)]) -> Arc<Targets> {
    let tables: String = servers
        .iter()
        .map(|(name, server)| format!("[[notify.webhook]]\nname = '{name}'\nurl = '{}'\n", server.url("/")))
        .collect();
    targets(&format!("[notify]\nallow = ['127.0.0.1']\n{tables}"), &[])
}

fn titles(server: &Server) -> Vec<String> {
    server.asked().iter().map(|asked| asked.json()["data"]["title"].as_str().unwrap().to_owned()).collect()
}

fn ids(server: &Server) -> Vec<String> {
    server.asked().iter().map(|asked| asked.headers["webhook-id"].clone()).collect()
}

#[tokio::test]
async fn notices_arrive_once_and_in_order_also_those_written_before_it_began() {
    let (_dir, db) = database();
    let (a, b) = (Server::start(&[Answer::Status(200)]).await, Server::start(&[Answer::Status(200)]).await);
    tell(&db, &["a", "b"], "first").await;
    let running = start(&db, &hooks(&[("a", &a), ("b", &b)]), quick());
    for title in ["second", "third", "fourth"] {
        tell(&db, &["a", "b"], title).await;
    }
    tell(&db, &["b"], "fifth").await;
    assert!(settled(&db, &[]).await.is_empty());
    running.stop().await;
    assert_eq!(titles(&a), ["first", "second", "third", "fourth"]);
    assert_eq!(titles(&b), ["first", "second", "third", "fourth", "fifth"]);
    let mut all = [ids(&a), ids(&b)].concat();
    all.sort();
    all.dedup();
    assert_eq!(all.len(), 9, "each has an id of its own");
}

#[tokio::test]
async fn a_failure_is_tried_again_with_the_same_id_and_keeps_the_order() {
    let (_dir, db) = database();
    let server = Server::start(&[
        Answer::Status(500),
        Answer::Close,
        Answer::With(429, &[("retry-after", "0")], String::new()),
        Answer::Status(200),
    ])
    .await;
    let running = start(&db, &hooks(&[("a", &server)]), quick());
    tell(&db, &["a"], "first").await;
    tell(&db, &["a"], "second").await;
    assert!(settled(&db, &[]).await.is_empty());
    running.stop().await;
    assert_eq!(titles(&server), ["first", "first", "first", "first", "second"]);
    let ids = ids(&server);
    assert!(ids[..4].iter().all(|id| *id == ids[0]) && ids[4] != ids[0], "{ids:?}");
    assert!(ids[0].starts_with("msg_demo_1_"), "{ids:?}");
}

#[tokio::test]
async fn a_target_that_hangs_delays_nobody_else() {
    let (_dir, db) = database();
    let (hung, well) = (Server::start(&[Answer::Hang]).await, Server::start(&[Answer::Status(200)]).await);
    let running = start(&db, &hooks(&[("hung", &hung), ("well", &well)]), quick());
    for _ in 0..50 {
        tell(&db, &["hung"], "waits").await;
    }
    hung.wait_for(1).await;
    for _ in 0..5 {
        tell(&db, &["well"], "arrives").await;
    }
    settled(&db, &["hung"]).await;
    assert_eq!(well.asked().len(), 5);
    assert_eq!(hung.asked().len(), 1, "one at a time");
    running.stop().await;
}

#[tokio::test]
async fn more_targets_that_hang_than_are_sent_to_at_once_hold_nobody_up_for_good() {
    let (_dir, db) = database();
    let hung = Server::start(&[Answer::Hang]).await;
    let well = Server::start(&[Answer::Status(200)]).await;
    let names: Vec<String> = (0..20).map(|n| format!("hung-{n}")).collect();
    let mut servers: Vec<(&str, &Server)> = names.iter().map(|name| (name.as_str(), &hung)).collect();
    servers.push(("well", &well));
    let pace = Pace { patience: Duration::from_millis(300), ..quick() };
    let running = start(&db, &hooks(&servers), pace);
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    tell(&db, &names, "waits").await;
    tell(&db, &["well"], "arrives").await;
    assert_eq!(well.wait_for(1).await.len(), 1);
    running.stop().await;
}

#[tokio::test]
async fn after_a_restart_exactly_what_is_pending_is_sent() {
    let (dir, db) = database();
    let before = Server::start(&[Answer::Status(200), Answer::Hang]).await;
    let pace = Pace { drain: Duration::ZERO, ..quick() };
    let running = start(&db, &hooks(&[("a", &before)]), pace.clone());
    for title in ["first", "second", "third"] {
        tell(&db, &["a"], title).await;
    }
    before.wait_for(2).await;
    running.stop().await;
    drop(db);

    let db = open(dir.path());
    let after = Server::start(&[Answer::Status(200)]).await;
    let running = start(&db, &hooks(&[("a", &after)]), pace);
    settled(&db, &[]).await;
    running.stop().await;
    assert_eq!(titles(&before), ["first", "second"]);
    assert_eq!(titles(&after), ["second", "third"]);
    assert_eq!(ids(&before)[1], ids(&after)[0], "so that the receiver can tell that it is the same");
}

#[tokio::test]
async fn what_answers_while_it_is_stopped_is_not_sent_again() {
    let (_dir, db) = database();
    let server = Server::start(&[Answer::Slow(Duration::from_millis(200))]).await;
    let targets = hooks(&[("a", &server)]);
    let running = start(&db, &targets, Pace { drain: Duration::from_secs(20), ..quick() });
    tell(&db, &["a"], "first").await;
    server.wait_for(1).await;
    running.stop().await;
    settled(&db, &[]).await;
    assert_eq!(server.asked().len(), 1);
}

#[tokio::test]
async fn what_cannot_be_delivered_is_given_up_and_told() {
    let (_dir, db) = database();
    let refuses = Server::start(&[Answer::With(403, &[], "no such hook".into())]).await;
    let fails = Server::start(&[Answer::Status(500)]).await;
    let here = hooks(&[("refuses", &refuses), ("fails", &fails)]);
    let running = start(&db, &here, Pace { give_up: Duration::ZERO, ..quick() });
    tell(&db, &["refuses", "fails", "left"], "first").await;
    tell(&db, &["spoilt"], "second").await;
    let mut events = settled(&db, &[]).await;
    running.stop().await;
    events.sort_by_key(|event| event["target"].to_string());
    let told: Vec<String> = events.iter().map(|e| format!("{}: {}", e["target"], e["error"])).collect();
    assert_eq!(told.len(), 4);
    assert!(told[0].contains("fails") && told[0].contains("answered 500"), "{told:?}");
    assert!(told[1].contains("[notify] has no target"), "{told:?}");
    assert!(told[2].contains("answered 403") && told[2].contains("no such hook"), "{told:?}");
    assert_eq!((refuses.asked().len(), fails.asked().len()), (1, 1));
}

#[tokio::test]
async fn a_row_of_another_version_is_given_up() {
    let (_dir, db) = database();
    tell(&db, &["a"], "first").await;
    let spoil = |tx: &db::Tx<'_>| {
        tx.execute("UPDATE notification SET notice = '{\"kind\":\"moon:landed\"}'", [])
            .map_err(db::DbError::from)
    };
    db.write(spoil).await.unwrap();
    let server = Server::start(&[Answer::Status(200)]).await;
    let running = start(&db, &hooks(&[("a", &server)]), quick());
    let events = settled(&db, &[]).await;
    running.stop().await;
    assert!(events[0]["error"].as_str().unwrap().contains("cannot be read"), "{events:?}");
    assert!(server.asked().is_empty());
}

#[tokio::test]
async fn a_clock_that_was_set_back_holds_no_notice() {
    let (_dir, db) = database();
    tell(&db, &["a"], "first").await;
    let ahead = Timestamp::now() + (365 * 24).hours();
    db.write(move |tx| db::outbox::failed(tx, 1, "no", ahead)).await.unwrap();
    let server = Server::start(&[Answer::Status(200)]).await;
    let running = start(&db, &hooks(&[("a", &server)]), quick());
    settled(&db, &[]).await;
    running.stop().await;
    assert_eq!(titles(&server), ["first"]);
}

#[tokio::test]
async fn targets_are_asked_for_anew_and_only_when_there_is_something_to_send() {
    use std::sync::atomic::{AtomicUsize, Ordering};
    let (_dir, db) = database();
    let (old, new) =
        (Server::start(&[Answer::Status(500)]).await, Server::start(&[Answer::Status(200)]).await);
    let (first, second) = (hooks(&[("a", &old)]), hooks(&[("a", &new)]));
    let asked = Arc::new(AtomicUsize::new(0));
    let counter = asked.clone();
    let current = move || {
        let time = counter.fetch_add(1, Ordering::SeqCst);
        if time == 0 { first.clone() } else { second.clone() }
    };
    let stopping = tokio_util::sync::CancellationToken::new();
    let task =
        tokio::spawn(super::super::outbox::run(db.clone(), current, clock(), quick(), stopping.clone()));
    for n in 0..50 {
        db.write(move |tx| db::meta::set(tx, "x", &n.to_string())).await.unwrap();
    }
    assert_eq!(asked.load(Ordering::SeqCst), 0, "commits of others cost no look at targets");
    tell(&db, &["a"], "first").await;
    settled(&db, &[]).await;
    stopping.cancel();
    task.await.unwrap();
    assert_eq!((old.asked().len(), new.asked().len()), (1, 1));
}
