use std::time::Duration;

use super::*;
use crate::{
    db::Db,
    notify::{Notice, NoticeKind},
};

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + seconds).unwrap()
}

fn notice(title: &str) -> Notice {
    Notice {
        kind: NoticeKind::RunFailed,
        hive: "demo".into(),
        agent: "writer".into(),
        job: Some((3, "morning-post".into())),
        run: Some(17),
        status: "failed".into(),
        title: title.into(),
        text: String::new(),
        error: Some("exit code 1".into()),
        summary: None,
        at: at(0),
    }
}

fn fresh() -> (tempfile::TempDir, Db) {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(&dir.path().join("skep.db")).unwrap();
    (dir, db)
}

async fn put(db: &Db, targets: &'static [&'static str], title: &'static str, seconds: i64) {
    db.write(move |tx| enqueue_all(tx, targets, &notice(title), at(seconds))).await.unwrap();
}

/// Target, title and attempts of the heads.
async fn shown(db: &Db, busy: &[&str], limit: u32) -> Vec<String> {
    let busy: Vec<String> = busy.iter().map(ToString::to_string).collect();
    let heads = db.read(move |conn| heads(conn, &busy, limit)).await.unwrap();
    heads
        .iter()
        .map(|p| format!("{} {} {}", p.target, p.notice.as_ref().unwrap().title, p.attempts))
        .collect()
}

#[tokio::test]
async fn each_target_gets_its_oldest_notice_first_and_waits_for_nobody_else() {
    let (_dir, db) = fresh();
    assert_eq!(db.read(newest).await.unwrap(), 0);
    put(&db, &["a", "b"], "first", 0).await;
    put(&db, &["b", "a", "c"], "second", 1).await;
    assert_eq!(db.read(newest).await.unwrap(), 5);
    assert_eq!(shown(&db, &[], 10).await, ["a first 0", "b first 0", "c second 0"]);
    assert_eq!(shown(&db, &["a"], 10).await, ["b first 0", "c second 0"]);
    assert_eq!(shown(&db, &[], 2).await, ["a first 0", "b first 0"]);
    db.write(|tx| failed(tx, 1, "no", at(60))).await.unwrap();
    assert_eq!(shown(&db, &[], 10).await, ["b first 0", "c second 0", "a first 1"], "a's second one waits");
    db.write(|tx| delivered(tx, 1, at(61))).await.unwrap();
    db.write(|tx| delivered(tx, 2, at(61))).await.unwrap();
    assert_eq!(shown(&db, &[], 10).await, ["b second 0", "a second 0", "c second 0"]);
    assert_eq!(db.read(newest).await.unwrap(), 5);
}

#[tokio::test]
async fn what_is_given_up_is_told_as_an_event() {
    let (_dir, db) = fresh();
    put(&db, &["a"], "first", 0).await;
    let head = db.read(|conn| heads(conn, &[], 1)).await.unwrap().remove(0);
    assert_eq!((head.created_at, head.next_at, head.notice.clone()), (at(0), at(0), Some(notice("first"))));
    db.write(move |tx| given_up(tx, &head, "gone", at(9))).await.unwrap();
    assert!(shown(&db, &[], 10).await.is_empty());
    let event = db.read(|conn| events::after(conn, 0, 10)).await.unwrap().remove(0);
    assert_eq!((event.name.as_str(), event.at), ("notify:failed", at(9)));
    let told = json!({
        "id": 1, "target": "a", "notice": "run:failed", "agent": "writer", "job": 3, "run": 17, "attempts": 1, "error": "gone",
    });
    assert_eq!(event.data, told);
    let raised = db.read(|conn| events::raised(conn, 0, 10)).await.unwrap();
    assert_eq!(raised[0].job, Some(3), "that job does not wait for it");
}

#[tokio::test]
async fn a_notice_is_stored_cut_and_comes_back() {
    let (_dir, db) = fresh();
    let long = Notice { error: Some("🐝".repeat(100_000)), ..notice("long") };
    let id = db.write(move |tx| enqueue(tx, "a", &long, at(0))).await.unwrap();
    let head = db.read(|conn| heads(conn, &[], 1)).await.unwrap().remove(0);
    let error = head.notice.unwrap().error.unwrap();
    assert_eq!(head.id, id);
    assert!(error.chars().count() <= 4000 && error.ends_with("(cut)"));
}

#[tokio::test]
async fn a_notice_that_cannot_be_read_is_handed_out_all_the_same() {
    let (_dir, db) = fresh();
    put(&db, &["a"], "first", 0).await;
    let spoil =
        |tx: &Transaction<'_>| tx.execute("UPDATE notification SET notice = '{}'", []).map_err(DbError::from);
    db.write(spoil).await.unwrap();
    let head = db.read(|conn| heads(conn, &[], 1)).await.unwrap().remove(0);
    assert_eq!((head.id, head.notice), (1, None));
}

#[tokio::test]
async fn only_old_notices_that_are_over_are_forgotten() {
    let (_dir, db) = fresh();
    put(&db, &["a", "b"], "old", 0).await;
    put(&db, &["a"], "new", 100).await;
    put(&db, &["c", "c"], "old", 20).await;
    for id in [2, 3, 4] {
        db.write(move |tx| delivered(tx, id, at(101))).await.unwrap();
    }
    assert_eq!(db.write(|tx| prune(tx, at(0), 9)).await.unwrap(), 0);
    assert_eq!(
        db.write(|tx| prune(tx, at(50), 9)).await.unwrap(),
        1,
        "3 is new, and what comes later is newer"
    );
    assert_eq!(shown(&db, &[], 10).await, ["a old 0", "c old 0"], "they are not over");
    assert_eq!(db.write(|tx| prune(tx, at(101), 1)).await.unwrap(), 1, "no more than asked");
    assert_eq!(db.write(|tx| prune(tx, at(101), 9)).await.unwrap(), 1);
    assert_eq!(db.read(newest).await.unwrap(), 5);
}

#[tokio::test]
async fn a_long_backlog_of_one_target_hides_nobody_elses_notices() {
    let (_dir, db) = fresh();
    let many = |tx: &Transaction<'_>| {
        (0..20_000).try_for_each(|_| enqueue(tx, "dead", &notice("x"), at(0)).map(|_| ()))?;
        enqueue(tx, "alive", &notice("y"), at(1)).map(|_| ())
    };
    db.write(many).await.unwrap();
    assert_eq!(shown(&db, &[], 8).await, ["dead x 0", "alive y 0"]);
    assert_eq!(shown(&db, &["dead"], 8).await, ["alive y 0"]);
    let start = std::time::Instant::now();
    for _ in 0..10 {
        db.read(|conn| heads(conn, &["dead".into()], 8)).await.unwrap();
    }
    println!("{:?} a look", start.elapsed() / 10);
    assert!(start.elapsed() < Duration::from_secs(60));
}
