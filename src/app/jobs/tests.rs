//! Jobs on a hive with a fake engine: no run is ever started, what is due is claimed by hand.

mod config;
mod enabling;
mod making;
mod waiting;

use std::{collections::BTreeMap, fs, path::Path, sync::Arc};

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::{JobFilter, Result};
use crate::{
    api::tests::setup::{JOBS, hive_with},
    app::{
        Hive,
        job_types::{JobView, JobWritten},
        types::AppError,
        world::UpdateScope,
    },
    config::model::Runs,
    db::{
        self,
        jobs::JobRow,
        queue::{Readiness, Tick, World},
    },
    ids::AgentId,
};

/// A hive in a folder of its own.
struct Bench {
    hive: Arc<Hive>,
    dir: tempfile::TempDir,
}

async fn bench() -> Bench {
    bench_with("").await
}

/// With more at the end of its `skep.toml`.
async fn bench_with(more: &str) -> Bench {
    let dir = tempfile::tempdir().unwrap();
    let hive = hive_with(dir.path(), &format!("{JOBS}{more}")).await;
    Bench { hive, dir }
}

fn agent(name: &str) -> AgentId {
    name.parse().unwrap()
}

fn seconds(n: i64) -> SignedDuration {
    SignedDuration::from_secs(n)
}

/// Whatever a refusal says: each place and what is wrong there.
fn places(refused: Result<JobWritten>) -> Vec<(String, String)> {
    match refused.unwrap_err() {
        AppError::Invalid { errors, .. } => errors,
        other => panic!("{other:?}"),
    }
}

fn conflict<T: std::fmt::Debug>(refused: Result<T>) -> String {
    match refused.unwrap_err() {
        AppError::Conflict(why) => why,
        other => panic!("{other:?}"),
    }
}

impl Bench {
    async fn try_create(&self, body: Value) -> Result<JobWritten> {
        self.hive.create_job(None, body, None).await
    }

    /// A job named `a` that reads a file each hour, with these keys.
    async fn create(&self, more: Value) -> JobWritten {
        let mut body = json!({"name": "a", "tool": "read-file", "args": {"path": "x"}});
        let fields = body.as_object_mut().unwrap();
        fields.extend(more.as_object().unwrap().clone());
        let triggers = ["every", "at", "in_minutes", "in_hours", "event", "manual", "schedule"];
        if !triggers.iter().any(|key| fields.contains_key(*key)) {
            fields.insert("every".into(), "1h".into());
        }
        self.try_create(body).await.unwrap()
    }

    async fn update(&self, id: i64, body: Value) -> Result<JobWritten> {
        self.hive.update_job(None, id, body).await
    }

    async fn job(&self, id: i64) -> JobView {
        self.hive.job(None, id).await.unwrap()
    }

    async fn row(&self, id: i64) -> JobRow {
        self.hive.db.read(move |conn| db::jobs::get(conn, id)).await.unwrap().unwrap()
    }

    async fn jobs(&self) -> Vec<JobView> {
        self.hive.jobs(None, JobFilter::default(), 0, 100).await.unwrap()
    }

    async fn names(&self) -> Vec<String> {
        self.jobs().await.into_iter().map(|job| job.name).collect()
    }

    /// Names of the events since the last one with this id.
    async fn events(&self, after: i64) -> Vec<String> {
        let batch = self.hive.events(after, None, 1000).await.unwrap();
        batch.events.into_iter().map(|event| event.name).collect()
    }

    async fn last_event(&self) -> i64 {
        self.hive.events(0, None, 100_000).await.unwrap().position
    }

    /// Claims and leases what is due at `now`, as if every agent ran.
    async fn tick(&self, now: Timestamp) -> Tick {
        self.tick_with(now, Some("container")).await
    }

    async fn tick_with(&self, now: Timestamp, container: Option<&'static str>) -> Tick {
        let work = move |tx: &db::Tx<'_>| {
            let ready =
                Readiness { alive_since: Some(Timestamp::MIN), container: container.map(ToOwned::to_owned) };
            let agents: BTreeMap<AgentId, Readiness> =
                ["reader", "writer", "zoe"].map(|name| (agent(name), ready.clone())).into();
            let limits = Runs { max_running: 100, max_running_per_agent: 100, ..Runs::default() };
            let world = World { now, agents: &agents, limits, lease: "test", next_proc: &|_| 1 };
            db::queue::tick(tx, &world, &[])
        };
        self.hive.db.write(work).await.unwrap()
    }

    /// Another end of `skep.toml`, read at once.
    async fn configure(&self, more: &str) {
        fs::write(self.root().join("skep.toml"), format!("{JOBS}{more}")).unwrap();
        self.refresh().await;
    }

    async fn refresh(&self) {
        self.hive.refresh(&UpdateScope::default()).await;
        assert_eq!(self.hive.world().refused, [], "the file is accepted");
    }

    fn root(&self) -> &Path {
        self.dir.path()
    }

    /// A skill with a tool `late-tool`, which `late = "…"` in [`LATE`] gives to `writer`.
    async fn bring_late_tool(&self) {
        let folder = self.root().join("skills/late@1.0.0");
        fs::create_dir_all(folder.join("scripts")).unwrap();
        let manifest = json!({
            "id": "late", "name": "Late", "version": "1.0.0", "description": "Comes late.",
            "scripts": ["scripts/late-tool.sh"],
        });
        fs::write(folder.join("manifest.json"), manifest.to_string()).unwrap();
        fs::write(folder.join("scripts/late-tool.sh"), "#!/bin/sh\n").unwrap();
        let config = fs::read_to_string(self.root().join("skep.toml")).unwrap();
        let given = config.replace("\"alpha-tools@0.0.0\"", "\"late@1.0.0\", \"alpha-tools@0.0.0\"");
        fs::write(self.root().join("skep.toml"), given).unwrap();
        self.refresh().await;
        assert!(self.hive.tools(&agent("writer")).await.unwrap().iter().any(|t| t.name == "late-tool"));
    }
}
