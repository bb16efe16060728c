//! Why a job does not fire, and when it fires next.

use super::*;

async fn why(bench: &Bench, id: i64) -> Option<String> {
    bench.job(id).await.waiting_reason
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_never_fires_by_itself_says_so() {
    let bench = bench().await;
    let manual = bench.create(json!({"name": "m", "manual": true})).await.job;
    assert_eq!(manual.waiting_reason.as_deref(), Some("it is manual: it runs when somebody asks"));
    let event = bench.create(json!({"name": "e", "event": ["report", "crm:*"]})).await.job;
    let says = "it waits for an event named report or crm:*";
    assert_eq!(event.waiting_reason.as_deref(), Some(says));
    let next = bench.hive.job_fires(None, event.id, 5).await.unwrap();
    assert_eq!((next.fires.len(), next.reason.as_deref()), (0, Some(says)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_whose_agent_is_halted_or_stopped_says_so() {
    let bench = bench().await;
    let job = bench.create(json!({})).await.job;
    assert_eq!(why(&bench, job.id).await, None);
    bench.hive.halt(Some(agent("writer"))).await.unwrap();
    assert!(why(&bench, job.id).await.unwrap().starts_with("agent writer is halted since "));
    bench.hive.halt(None).await.unwrap();
    assert!(why(&bench, job.id).await.unwrap().starts_with("the hive is halted since "));
    bench.hive.resume(None).await.unwrap();
    bench.hive.stop_agent(&agent("writer")).await.unwrap();
    assert!(why(&bench, job.id).await.unwrap().starts_with("agent writer is stopped"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_whose_agent_left_the_file_stays_and_says_so() {
    let bench = bench().await;
    let job = bench.create(json!({"agent": "reader"})).await.job;
    let config = JOBS.replace("[agents.reader]\nskills = [\"basic-tools@^1\"]\n", "");
    fs::write(bench.root().join("skep.toml"), config).unwrap();
    bench.refresh().await;
    assert_eq!(why(&bench, job.id).await.as_deref(), Some("agent reader is no longer in skep.toml"));
    bench.hive.pause_job(None, job.id).await.unwrap();
    assert!(conflict(bench.hive.resume_job(None, job.id).await).contains("no longer in skep.toml"));
    assert!(conflict(bench.hive.run_job(None, job.id, None).await).contains("no longer in skep.toml"));
    bench.hive.delete_job(None, job.id).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_whose_tool_went_says_so() {
    let bench = bench().await;
    bench.bring_late_tool().await;
    let job = bench.create(json!({"tool": "late-tool"})).await.job;
    bench.configure("").await;
    let now = bench.job(job.id).await;
    assert_eq!((now.enabled, now.missing_tools), (true, vec!["late-tool".to_owned()]));
    assert!(now.waiting_reason.unwrap().starts_with("its runs fail: the agent has no tool \"late-tool\""));
}

#[tokio::test(flavor = "multi_thread")]
async fn fire_times_are_told_in_the_jobs_zone_with_its_jitter() {
    let bench = bench().await;
    let cron = json!({"schedule": "0 9 * * *", "timezone": "America/New_York"});
    let job = bench.create(cron).await.job;
    let next = bench.hive.job_fires(None, job.id, 4).await.unwrap();
    assert_eq!((next.fires.len(), next.wildcard, next.reason), (4, false, None));
    assert!(next.fires.iter().all(|at| at.contains("T09:00:00-0")), "{:?}", next.fires);
    let often = bench.create(json!({"name": "b", "schedule": "*/5 * * * *", "jitter": "4m"})).await;
    let first: Timestamp = often.next_fires[0].parse().unwrap();
    assert!(first >= bench.row(often.job.id).await.next.unwrap().at);
    assert!(bench.hive.job_fires(None, often.job.id, 1).await.unwrap().wildcard);
    let hourly = bench.create(json!({"name": "c", "every": "1h"})).await;
    let times: Vec<Timestamp> = hourly.next_fires.iter().map(|at| at.parse().unwrap()).collect();
    assert_eq!((times[1], times[2]), (times[0] + seconds(3600), times[0] + seconds(7200)));
    let once = bench.create(json!({"name": "d", "in_hours": 2})).await;
    assert_eq!(once.next_fires.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_schedule_is_previewed_in_the_hives_zone() {
    let bench = bench().await;
    let body = json!({"schedule": "30 2 * * *", "after": "2026-03-28T12:00:00+01:00", "count": 2});
    let shown = bench.hive.preview_schedule(None, &body).unwrap();
    assert_eq!(shown.fires, ["2026-03-29T03:00:00+02:00", "2026-03-30T02:30:00+02:00"], "the gap is jumped");
    assert!(bench.hive.preview_schedule(None, &json!({"schedule": "0 0 30 2 *"})).is_err());
}
