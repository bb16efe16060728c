//! The jobs of `skep.toml`.

use super::*;

const HOURLY: &str = "\n[[agents.writer.jobs]]\nname = 'hourly'\nevery = '1h'\ntool = 'read-file'\n";

fn with(line: &str) -> String {
    format!("{HOURLY}{line}\n")
}

async fn only(bench: &Bench) -> JobView {
    let mut jobs = bench.jobs().await;
    assert_eq!(jobs.len(), 1, "{jobs:?}");
    jobs.remove(0)
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_of_the_file_are_there_from_the_start_and_unchanged_they_are_not_written() {
    let bench = bench_with(HOURLY).await;
    let job = only(&bench).await;
    assert_eq!((job.origin.as_str(), job.enabled, job.agent.as_str()), ("config", true, "writer"));
    let last = bench.last_event().await;
    let mut commits = bench.hive.db.commits();
    commits.borrow_and_update();
    for _ in 0..3 {
        bench.refresh().await;
    }
    bench.configure(&format!("# a word\n{HOURLY}")).await;
    assert_eq!((only(&bench).await, bench.events(last).await), (job, vec![]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_job_is_changed_and_fires_from_now_on() {
    let bench = bench_with(HOURLY).await;
    let before = only(&bench).await;
    bench.configure(&with("description = 'New.'\nretries = 2")).await;
    let after = only(&bench).await;
    assert_eq!((after.id, after.description.as_str(), after.retries), (before.id, "New.", 2));
    assert_eq!(after.next_fire_at, before.next_fire_at);
    bench.configure(&HOURLY.replace("1h", "2h")).await;
    let row = bench.row(before.id).await;
    assert_eq!(row.next.unwrap().at, row.anchor + seconds(7200));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_leaves_the_file_is_removed_and_so_are_those_of_an_agent_that_does() {
    let more = format!("{HOURLY}[[agents.zoe.jobs]]\nname = 'z'\nmanual = true\ntool = 'x'\n");
    let bench = bench_with(&more).await;
    let own = bench.create(json!({"name": "own"})).await.job;
    assert_eq!(bench.names().await.len(), 3);
    bench.configure("").await;
    assert_eq!(bench.names().await, ["own"]);
    bench.configure(&more).await;
    let config = format!("{JOBS}{HOURLY}").replace("[agents.zoe]\n", "");
    fs::write(bench.root().join("skep.toml"), config).unwrap();
    bench.refresh().await;
    assert_eq!(bench.names().await, ["hourly", "own"]);
    assert_eq!(bench.job(own.id).await.origin, "api");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_is_taken_out_and_put_back_goes_on_as_the_same_job() {
    let bench = bench_with(HOURLY).await;
    let id = only(&bench).await.id;
    bench.hive.run_job(None, id, None).await.unwrap();
    let now = bench.hive.now();
    let run = bench.tick(now).await.leased.remove(0);
    let counted = "UPDATE job SET consecutive_failures = 3 WHERE id = ?1";
    bench.hive.db.write(move |tx| tx.execute(counted, [id]).map_err(db::DbError::from)).await.unwrap();
    let last = bench.last_event().await;
    bench.configure("").await;
    assert_eq!((bench.names().await, bench.events(last).await), (vec![], vec!["job:deleted".to_owned()]));
    assert!(bench.hive.job(None, id).await.is_err() && bench.hive.run_job(None, id, None).await.is_err());
    assert_eq!(bench.tick(now + seconds(7200)).await.leased, [], "it does not fire");
    let last = bench.last_event().await;
    bench.configure(&with("retries = 2")).await;
    let job = only(&bench).await;
    assert_eq!((job.id, job.retries, job.consecutive_failures, job.enabled), (id, 2, 3, true));
    assert!(job.next_fire_at.is_some());
    assert_eq!(bench.events(last).await, ["job:created"]);
    let refused = conflict(bench.hive.run_job(None, id, None).await);
    assert!(refused.contains(&format!("run {} of job {id} is not over", run.id)), "{refused}");
    bench.hive.pause_job(None, id).await.unwrap();
    bench.configure("").await;
    bench.configure(HOURLY).await;
    assert_eq!(only(&bench).await.disabled_reason.as_deref(), Some("paused by the operator"));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_name_of_a_job_that_left_the_file_is_free() {
    let bench = bench_with(HOURLY).await;
    let id = only(&bench).await.id;
    bench.configure("").await;
    let own = bench.create(json!({"name": "hourly"})).await.job;
    assert!(own.id > id && own.origin == "api");
    bench.configure(HOURLY).await;
    assert_eq!(only(&bench).await.id, own.id, "the file's is refused");
}

#[tokio::test(flavor = "multi_thread")]
async fn they_are_changed_in_the_file_alone_but_run_paused_and_resumed_here() {
    let bench = bench_with(HOURLY).await;
    let id = only(&bench).await.id;
    assert!(conflict(bench.update(id, json!({"every": "2h"})).await).contains("skep.toml: change it there"));
    assert!(conflict(bench.hive.delete_job(None, id).await).contains("skep.toml: change it there"));
    bench.hive.run_job(None, id, None).await.unwrap();
    bench.hive.pause_job(None, id).await.unwrap();
    for more in [with("retries = 1"), HOURLY.replace("1h", "3h"), with("enabled = false"), HOURLY.to_owned()]
    {
        bench.configure(&more).await;
        let job = only(&bench).await;
        assert_eq!(job.disabled_reason.as_deref(), Some("paused by the operator"), "{more}");
    }
    assert!(bench.hive.resume_job(None, id).await.unwrap().enabled);
    bench.refresh().await;
    assert!(only(&bench).await.enabled);
}

#[tokio::test(flavor = "multi_thread")]
async fn enabled_in_the_file_is_a_switch() {
    let bench = bench_with(&with("enabled = false")).await;
    let job = only(&bench).await;
    assert_eq!(job.disabled_reason.as_deref(), Some("skep.toml says `enabled = false`"));
    bench.configure(HOURLY).await;
    assert!(only(&bench).await.enabled);
    bench.configure(&with("enabled = false")).await;
    assert!(!only(&bench).await.enabled);
    // What the operator enables here stays so until the file changes its mind.
    bench.hive.resume_job(None, job.id).await.unwrap();
    bench.configure(&with("enabled = false\nretries = 1")).await;
    assert!(only(&bench).await.enabled);
}

#[tokio::test(flavor = "multi_thread")]
async fn switching_it_off_and_on_in_the_file_revives_a_job_that_failed_too_often() {
    let bench = bench_with(HOURLY).await;
    let job = only(&bench).await;
    let mut row = bench.row(job.id).await;
    (row.enabled, row.disabled_reason, row.consecutive_failures) = (false, Some("5 runs failed".into()), 5);
    let now = bench.hive.now();
    bench.hive.db.write(move |tx| db::jobs::update(tx, &row, "job:disabled", now)).await.unwrap();
    bench.configure(&with("retries = 1")).await;
    assert!(!only(&bench).await.enabled);
    bench.configure(&with("enabled = false")).await;
    assert_eq!(only(&bench).await.disabled_reason.as_deref(), Some("5 runs failed"));
    bench.configure(HOURLY).await;
    let revived = only(&bench).await;
    assert_eq!((revived.enabled, revived.consecutive_failures), (true, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_whose_tool_does_not_exist_waits_for_it_with_a_warning() {
    let late = HOURLY.replace("read-file", "late-tool");
    let bench = bench_with(&late).await;
    let job = only(&bench).await;
    assert_eq!((job.enabled, job.missing_tools), (false, vec!["late-tool".to_owned()]));
    assert!(job.disabled_reason.unwrap().contains("waits for the tool late-tool"));
    let warnings = bench.hive.view().warnings;
    assert!(warnings.iter().any(|w| w.contains("\"hourly\"") && w.contains("late-tool")), "{warnings:?}");
    bench.bring_late_tool().await;
    assert!(only(&bench).await.enabled);
    assert!(bench.hive.world().job_faults.is_empty());
    // It goes again: the job stays as it is, and the warning is back.
    bench.configure(&late).await;
    assert!(only(&bench).await.enabled);
    assert_eq!(bench.hive.world().job_faults.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_default_job_that_ships_disabled_enables_itself_once() {
    let late = HOURLY.replace("tool = 'read-file'", "instructions = 'Go.'\nrequired_tools = ['late-tool']");
    let late = format!("{late}enabled = false\n");
    let bench = bench_with(&late).await;
    assert!(!only(&bench).await.enabled && bench.hive.world().job_faults.is_empty());
    bench.bring_late_tool().await;
    let job = only(&bench).await;
    assert!(job.enabled);
    bench.hive.pause_job(None, job.id).await.unwrap();
    bench.configure(&late).await;
    bench.bring_late_tool().await;
    assert!(!only(&bench).await.enabled);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_another_job_has_is_refused_until_it_is_free() {
    let bench = bench().await;
    let own = bench.create(json!({"name": "hourly"})).await.job;
    bench.configure(HOURLY).await;
    assert_eq!(only(&bench).await.origin, "api");
    let faults = bench.hive.world().job_faults.clone();
    assert!(faults[0].message.contains(&format!("job {}", own.id)), "{faults:?}");
    bench.hive.delete_job(None, own.id).await.unwrap();
    bench.refresh().await;
    assert_eq!(only(&bench).await.origin, "config");
    assert!(bench.hive.world().job_faults.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_one_shot_that_fired_stays_fired_as_long_as_its_time_is_the_same() {
    let at = |seconds_ahead: i64| {
        let at = Timestamp::now() + seconds(seconds_ahead);
        HOURLY.replace("every = '1h'", &format!("at = '{at}'"))
    };
    let first = at(3600);
    let bench = bench_with(&first).await;
    let job = only(&bench).await;
    assert!(job.enabled);
    let due = bench.row(job.id).await.next.unwrap().at;
    assert_eq!(bench.tick(due).await.leased.len(), 1);
    bench.configure(&format!("{first}retries = 1\n")).await;
    let fired = only(&bench).await;
    assert_eq!((fired.disabled_reason.as_deref(), fired.retries), (Some("it fired"), 1));
    bench.configure(&at(-3600)).await;
    assert_eq!(only(&bench).await.disabled_reason.as_deref(), Some("its time passed without it"));
    bench.configure(&at(7200)).await;
    let again = only(&bench).await;
    assert!(again.enabled && again.next_fire_at.is_some() && again.id == job.id);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broken_file_changes_no_job() {
    let bench = bench_with(HOURLY).await;
    let before = only(&bench).await;
    fs::write(bench.root().join("skep.toml"), "[hive").unwrap();
    bench.hive.refresh(&UpdateScope::default()).await;
    assert_eq!(only(&bench).await, before);
    fs::remove_file(bench.root().join("skep.toml")).unwrap();
    bench.hive.refresh(&UpdateScope::default()).await;
    assert_eq!(only(&bench).await, before);
}
