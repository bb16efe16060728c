//! Pausing, resuming, one-shots, and jobs that wait for their tools (systems.md A7, A9, A12).

use super::*;
use crate::runs::{result::Outcome, state::RunStatus};

impl Bench {
    /// Ends a run that was leased.
    async fn finish(&self, id: i64, status: RunStatus, now: Timestamp) {
        let outcome = Outcome::without_output(status, "it broke");
        let done = self
            .hive
            .db
            .write(move |tx| db::queue::finish(tx, id, &outcome, None, None, now, &|_, _, _, _| Ok(false)));
        done.await.unwrap().unwrap();
    }

    /// Runs a job now, and lets it fail.
    async fn fail(&self, job: i64) {
        let run = self.hive.run_job(None, job, None).await.unwrap();
        let now = self.hive.now();
        self.tick(now).await;
        self.finish(run.id, RunStatus::Failed, now).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_job_fires_nothing_and_resumed_nothing_of_the_past() {
    let bench = bench().await;
    let job = bench.create(json!({"every": "1s"})).await.job;
    let paused = bench.hive.pause_job(None, job.id).await.unwrap();
    assert_eq!(paused.disabled_reason.as_deref(), Some("paused by the operator"));
    assert_eq!((paused.enabled, paused.next_fire_at), (false, None));
    let fires = bench.hive.job_fires(None, job.id, 3).await.unwrap();
    assert_eq!((fires.fires.len(), fires.reason), (0, paused.disabled_reason));
    tokio::time::sleep(std::time::Duration::from_millis(2100)).await;
    assert_eq!(bench.tick(bench.hive.now()).await.leased, []);
    let before = bench.hive.now();
    let resumed = bench.hive.resume_job(None, job.id).await.unwrap();
    assert_eq!((resumed.enabled, resumed.disabled_reason), (true, None));
    let next: Timestamp = resumed.next_fire_at.unwrap().parse().unwrap();
    assert!(next >= before + SignedDuration::from_millis(990), "{next} after {before}");
}

#[tokio::test(flavor = "multi_thread")]
async fn pausing_twice_is_pausing_once() {
    let bench = bench().await;
    let job = bench.create(json!({})).await.job;
    let last = bench.last_event().await;
    for _ in 0..2 {
        bench.hive.pause_job(None, job.id).await.unwrap();
    }
    for _ in 0..2 {
        bench.hive.resume_job(None, job.id).await.unwrap();
    }
    assert_eq!(bench.events(last).await, ["job:paused", "job:resumed"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn resuming_forgets_failures() {
    let bench = bench().await;
    let job = bench.create(json!({"manual": true})).await.job;
    for n in 1..=5 {
        bench.fail(job.id).await;
        assert_eq!(bench.job(job.id).await.consecutive_failures, n);
    }
    let disabled = bench.job(job.id).await;
    assert!(disabled.disabled_reason.unwrap().contains("5 runs in a row failed, the last one: it broke"));
    let resumed = bench.hive.resume_job(None, job.id).await.unwrap();
    assert_eq!((resumed.enabled, resumed.consecutive_failures, resumed.backoff_until), (true, 0, None));
    // Also those of a job that is enabled and waits.
    bench.fail(job.id).await;
    let waiting = bench.job(job.id).await;
    assert!(waiting.waiting_reason.unwrap().starts_with("its last run failed: nothing starts before "));
    assert_eq!(bench.hive.resume_job(None, job.id).await.unwrap().backoff_until, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_one_shot_that_fired_needs_a_new_time() {
    let bench = bench().await;
    let job = bench.create(json!({"in_minutes": 1})).await.job;
    let at: Timestamp = job.trigger.at.clone().unwrap().parse().unwrap();
    assert_eq!(bench.tick(at).await.leased.len(), 1);
    let fired = bench.job(job.id).await;
    assert_eq!((fired.enabled, fired.disabled_reason.as_deref()), (false, Some("it fired")));
    // A minute ago, as the clock of the test cannot go on by itself.
    let row = bench.row(job.id).await;
    let past = bench.hive.now() - seconds(60);
    let mut spec = row.spec.clone();
    spec.trigger = crate::scheduler::job::TriggerSpec::OneShot { at: past, timezone: None };
    let now = bench.hive.now();
    let work = move |tx: &db::Tx<'_>| db::jobs::update(tx, &JobRow { spec, ..row }, "job:updated", now);
    bench.hive.db.write(work).await.unwrap();
    assert!(conflict(bench.hive.resume_job(None, job.id).await).ends_with("has passed: set a new `at`"));
    assert!(conflict(bench.update(job.id, json!({"enabled": true})).await).contains("has passed"));
    let off = bench.update(job.id, json!({"in_minutes": 2, "enabled": false})).await.unwrap().job;
    assert!(!off.enabled, "as was written");
    let again = bench.update(job.id, json!({"in_minutes": 3})).await.unwrap();
    assert!(again.job.enabled && again.next_fires.len() == 1, "{again:?}");
    assert!(again.warnings.iter().any(|w| w.contains("enables it again")), "{again:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_made_disabled_enables_itself_once_when_its_tools_come() {
    let bench = bench().await;
    let body = json!({"name": "later", "every": "1h", "instructions": "Go.", "enabled": false,
                      "required_tools": ["read-file", "late-tool"]});
    let job = bench.try_create(body).await.unwrap().job;
    assert_eq!((job.enabled, job.missing_tools.as_slice()), (false, ["late-tool".to_owned()].as_slice()));
    assert!(job.disabled_reason.unwrap().contains("waits for the tool late-tool"));
    bench.refresh().await;
    assert!(!bench.job(job.id).await.enabled);
    let last = bench.last_event().await;
    bench.bring_late_tool().await;
    let enabled = bench.job(job.id).await;
    assert!(enabled.enabled && enabled.missing_tools.is_empty() && enabled.next_fire_at.is_some());
    assert_eq!(bench.events(last).await.iter().filter(|name| *name == "job:enabled").count(), 1);
    // Once: what somebody disables later stays so.
    bench.update(job.id, json!({"enabled": false})).await.unwrap();
    bench.configure("").await;
    bench.bring_late_tool().await;
    assert!(!bench.job(job.id).await.enabled);
}

#[tokio::test(flavor = "multi_thread")]
async fn of_jobs_made_disabled_only_those_with_required_tools_enable_themselves_and_no_one_shot() {
    let bench = bench().await;
    let make = async |name: &str, more: Value| {
        bench.create(json!({"name": name, "enabled": false}).merged(more)).await
    };
    let plain = make("plain", json!({})).await.job;
    assert_eq!((plain.enabled, plain.disabled_reason.as_deref()), (false, Some("it was made disabled")));
    let once = make("once", json!({"tool": "late-tool", "in_hours": 5})).await.job;
    assert_eq!(once.missing_tools, ["late-tool"]);
    let direct = make("direct", json!({"tool": "late-tool"})).await.job;
    let paused = make("paused", json!({"tool": "late-tool"})).await.job;
    bench.hive.pause_job(None, paused.id).await.unwrap();
    let told = make("told", json!({"tool": "late-tool"})).await.job;
    bench.update(told.id, json!({"enabled": false})).await.unwrap();
    bench.bring_late_tool().await;
    let enabled = async |id| bench.job(id).await.enabled;
    assert!(
        !enabled(plain.id).await
            && !enabled(once.id).await
            && !enabled(paused.id).await
            && !enabled(told.id).await
    );
    assert!(enabled(direct.id).await);
    // All that it requires is there: at once.
    let ready = make("ready", json!({"required_tools": ["write-file"]})).await;
    let told = ready.warnings.join("\n");
    assert!(ready.job.enabled && told.contains("enabled itself at once"), "{told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_its_failures_disabled_does_not_enable_itself_again() {
    let bench = bench().await;
    let body = json!({"name": "later", "enabled": false, "tool": "late-tool", "manual": true});
    let job = bench.create(body).await.job;
    bench.bring_late_tool().await;
    assert!(bench.job(job.id).await.enabled);
    for _ in 1..=5 {
        bench.fail(job.id).await;
    }
    assert!(!bench.job(job.id).await.enabled);
    bench.configure("").await;
    bench.bring_late_tool().await;
    bench.hive.enable_waiting().await;
    let left = bench.job(job.id).await;
    assert!(!left.enabled && left.disabled_reason.unwrap().contains("5 runs in a row failed"));
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_enabled_whose_tools_are_missing() {
    let bench = bench().await;
    let job = bench.create(json!({"name": "a", "enabled": false, "tool": "late-tool"})).await.job;
    assert!(conflict(bench.hive.resume_job(None, job.id).await).contains("no tool \"late-tool\""));
    assert_eq!(places(bench.update(job.id, json!({"enabled": true})).await)[0].0, "/tool");
    let other = bench.create(json!({"name": "b"})).await.job;
    assert_eq!(places(bench.update(other.id, json!({"tool": "late-tool"})).await)[0].0, "/tool");
    let off = bench.update(other.id, json!({"tool": "late-tool", "enabled": false})).await.unwrap().job;
    assert_eq!(off.missing_tools, ["late-tool"]);
    assert_eq!(off.disabled_reason.as_deref(), Some("paused by the operator"));
}

trait Merged {
    fn merged(self, more: Value) -> Value;
}

impl Merged for Value {
    fn merged(mut self, more: Value) -> Value {
        self.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        self
    }
}
