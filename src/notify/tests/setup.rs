//! Hives with targets and secrets, and an outbox that is worked off.

use std::{collections::BTreeMap, path::Path, sync::Arc, time::Duration};

use jiff::Timestamp;
use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::super::{
    Notice, NoticeKind, Pace, Targets,
    allow::AllowRule,
    outbox,
    send::{Outcome, deliver},
    target::Stamp,
};
use crate::{
    config::{
        self,
        model::{Notify, NotifyTarget, NotifyTo},
    },
    db::{self, Db, DbError},
    secrets::{
        store::{SecretStore, Secrets},
        template::Template,
    },
};

/// Whatever takes longer does not happen.
pub const PATIENCE: Duration = Duration::from_secs(30);

pub fn secrets(values: &[(&str, &str)]) -> Secrets {
    let dir = tempfile::tempdir().unwrap();
    let values: serde_json::Map<_, _> = values.iter().map(|(k, v)| ((*k).to_owned(), (*v).into())).collect();
    std::fs::write(dir.path().join("env.json"), serde_json::Value::Object(values).to_string()).unwrap();
    SecretStore::new(dir.path(), Path::new("env.json")).load().unwrap().secrets
}

/// Targets as a `skep.toml` says them.
pub fn targets(text: &str, values: &[(&str, &str)]) -> Arc<Targets> {
    let config = config::parse(text, "skep.toml").unwrap().0;
    Arc::new(Targets::resolve(&config.notify, &secrets(values)))
}

/// A webhook that the check of the configuration never saw.
pub fn unchecked(url: &str, allow: &[&str]) -> Targets {
    let to = NotifyTo::Webhook { url: Template::parse(url).unwrap(), secret: None, headers: BTreeMap::new() };
    let notify = Notify {
        interval_minutes: 0,
        allow: allow.iter().map(|rule| AllowRule::parse(rule).unwrap()).collect(),
        targets: vec![NotifyTarget { name: "webhook-1".into(), to }],
    };
    Targets::resolve(&notify, &Secrets::default())
}

/// One attempt to send a notice.
pub async fn attempt(targets: &Targets, name: &str) -> Outcome {
    attempt_within(targets, name, PATIENCE).await
}

pub async fn attempt_within(targets: &Targets, name: &str, patience: Duration) -> Outcome {
    let stamp = Stamp { id: "msg_1".into(), timestamp: 1_800_000_000 };
    deliver(targets.get(name).unwrap(), &targets.guard, &notice("told"), &stamp, patience).await
}

/// Why it was given up.
pub fn given_up(outcome: Outcome) -> String {
    match outcome {
        Outcome::GivenUp { reason } => reason,
        other => panic!("{other:?}"),
    }
}

/// Why it is tried again, and how long the target wants to be left alone.
pub fn retried(outcome: Outcome) -> (String, Option<Duration>) {
    match outcome {
        Outcome::Retry { reason, after } => (reason, after),
        other => panic!("{other:?}"),
    }
}

pub fn notice(title: &str) -> Notice {
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
        at: "2026-03-01T12:00:00Z".parse().unwrap(),
    }
}

pub fn quick() -> Pace {
    Pace {
        waits: vec![Duration::from_millis(20)],
        patience: Duration::from_secs(600),
        gather: Duration::from_millis(1),
        database: Duration::from_millis(20),
        ..Pace::default()
    }
}

/// A database in a folder of its own.
pub fn database() -> (tempfile::TempDir, Db) {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    (dir, db)
}

pub fn open(dir: &Path) -> Db {
    Db::open(&dir.join("skep.db")).unwrap()
}

/// A dispatcher; it ends with this value, or when it is stopped.
pub struct Running {
    task: JoinHandle<()>,
    stopping: DropGuard,
}

impl Running {
    pub async fn stop(self) {
        drop(self.stopping);
        tokio::time::timeout(PATIENCE, self.task).await.expect("it ends when it is told to").unwrap();
    }
}

pub fn clock() -> outbox::Clock {
    Arc::new(Timestamp::now)
}

pub fn start(db: &Db, targets: &Arc<Targets>, pace: Pace) -> Running {
    let (targets, stopping) = (targets.clone(), CancellationToken::new());
    let task =
        tokio::spawn(outbox::run(db.clone(), move || targets.clone(), clock(), pace, stopping.clone()));
    Running { task, stopping: stopping.drop_guard() }
}

pub async fn tell(db: &Db, names: &[&str], title: &str) {
    let names: Vec<String> = names.iter().map(ToString::to_string).collect();
    let notice = notice(title);
    db.write(move |tx| db::outbox::enqueue_all(tx, &names, &notice, Timestamp::now())).await.unwrap();
}

/// Waits until nothing is left to be sent to these; answers with the events that say why something was given up.
pub async fn settled(db: &Db, others: &[&str]) -> Vec<serde_json::Value> {
    let others: Vec<String> = others.iter().map(ToString::to_string).collect();
    let wait = async {
        let mut commits = db.commits();
        loop {
            let others = others.clone();
            if db.read(move |conn| db::outbox::heads(conn, &others, 1)).await.unwrap().is_empty() {
                return;
            }
            commits.changed().await.unwrap();
        }
    };
    tokio::time::timeout(PATIENCE, wait).await.expect("everything is delivered or given up");
    let events = db.read(|conn| db::events::after(conn, 0, 1000)).await;
    events.map_err(|e: DbError| e).unwrap().into_iter().map(|event| event.data).collect()
}
