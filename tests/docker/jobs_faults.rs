//! Jobs and runs through faults: supervisors that are killed at every step, hours of absence, clocks that jump.

use std::{
    collections::BTreeMap,
    fs,
    time::{Duration, Instant},
};

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::{
    engine_faults::eventually,
    faults::SmallDisk,
    hive::{PATIENCE, TestHive},
    jobs::{hive_with, is_over, write_skill},
};

/// Notes each start of a run in the workspace.
const NOTE: (&str, &str) = ("note.sh", "#!/bin/bash\necho $SKEP_RUN_ID >> notes\n");

/// How often each run started, as the script noted.
async fn notes(hive: &TestHive) -> BTreeMap<i64, u32> {
    let text = hive.sh("a", "cat notes 2>/dev/null").await["stdout"].as_str().unwrap().to_owned();
    let mut notes = BTreeMap::new();
    for run in text.lines().map(|line| line.parse().unwrap()) {
        *notes.entry(run).or_default() += 1;
    }
    notes
}

/// Waits until nothing waits or runs any more; all runs.
async fn settled(hive: &TestHive) -> Vec<Value> {
    let began = Instant::now();
    loop {
        let runs = hive.runs("").await;
        if runs.iter().all(is_over) {
            return runs;
        }
        assert!(began.elapsed() < PATIENCE, "never settled: {}", hive.log());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// No fire time has two runs of one attempt, and every run that is said to have run did so exactly once.
async fn nothing_lost_or_doubled(hive: &TestHive) {
    let runs = settled(hive).await;
    let notes = notes(hive).await;
    let mut seen = std::collections::BTreeSet::new();
    for run in &runs {
        let id = run["id"].as_i64().unwrap();
        if run["trigger"] == "schedule" || run["trigger"] == "catch_up" {
            let key = (run["job"].as_i64(), run["scheduled_at"].to_string(), run["attempt"].as_i64());
            assert!(seen.insert(key), "claimed twice: {run:#}");
        }
        let started = notes.get(&id).copied().unwrap_or(0);
        // What still waited when the test paused its job never starts.
        let began = run["started_at"].is_string();
        assert_eq!(started, u32::from(began), "{run:#}");
        if began {
            assert_eq!((&run["status"], &run["exit_code"]), (&json!("succeeded"), &json!(0)), "{run:#}");
        }
    }
    for id in notes.keys() {
        assert!(runs.iter().any(|run| run["id"] == *id), "run {id} ran and is not recorded");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_supervisor_killed_at_any_step_of_a_run_loses_and_doubles_nothing() {
    let mut hive = hive_with(&[NOTE], "").await;
    for n in 0..3 {
        let trigger = json!({ "schedule": "* * * * * *", "timezone": "UTC" });
        hive.make_job(json!({ "name": format!("j{n}"), "tool": "note", "trigger": trigger })).await;
    }
    for point in ["run.claimed", "run.leased", "run.started", "run.ended", "run.recorded"] {
        for count in [1, 2, 4] {
            hive.kill();
            hive.env = vec![("SKEP_KILL_AT".to_owned(), format!("{point}:{count}"))];
            hive.spawn();
            // It kills itself as soon as its agent is there and jobs come due.
            let (code, _) = hive.ended().await;
            assert_eq!(code, -1, "{point}:{count} was never reached: {}", hive.log());
        }
    }
    hive.env.clear();
    hive.start().await;
    hive.running("a").await;
    for job in 1..=3 {
        assert_eq!(hive.send("POST", &format!("/v1/jobs/{job}/pause"), None).await.0, 200);
    }
    assert!(hive.runs("status=succeeded").await.len() > 10);
    nothing_lost_or_doubled(&hive).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_supervisor_killed_at_random_moments_loses_and_doubles_nothing() {
    let mut hive = hive_with(&[NOTE], "").await;
    for n in 0..8 {
        hive.make_job(json!({ "name": format!("j{n}"), "tool": "note", "every": "1s", "overlap": "allow" }))
            .await;
    }
    let began = Instant::now();
    let mut kills = 0;
    while began.elapsed() < Duration::from_secs(15) {
        let nanos = Timestamp::now().subsec_nanosecond().unsigned_abs();
        tokio::time::sleep(Duration::from_millis(u64::from(nanos / 1_000) % 400)).await;
        hive.kill();
        hive.spawn();
        kills += 1;
    }
    hive.kill();
    hive.start().await;
    hive.running("a").await;
    for job in 1..=8 {
        assert_eq!(hive.send("POST", &format!("/v1/jobs/{job}/pause"), None).await.0, 200);
    }
    assert!(kills > 20, "{kills} kills");
    nothing_lost_or_doubled(&hive).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_go_on_without_their_supervisor_and_are_taken_up_again() {
    let long = "#!/bin/bash\nfor n in 1 2 3 4 5 6 7 8 9; do echo line $n; sleep 0.3; done; echo '{\"success\": true}' > r; exit 0\n";
    let ends = "#!/bin/bash\necho short; while [ ! -e go ]; do sleep 0.02; done; exit 7\n";
    let mut hive = hive_with(&[("long.sh", long), ("ends.sh", ends)], "").await;
    let long = hive.make_job(json!({ "name": "l", "tool": "long" })).await;
    let ends = hive.make_job(json!({ "name": "e", "tool": "ends" })).await;
    let (long, ends) = (hive.run(long).await, hive.run(ends).await);
    for run in [long, ends] {
        hive.run_until(run, "running", |r| r["status"] == "running").await;
    }
    hive.kill();
    // One comes to its end while nobody is there.
    fs::write(hive.agent_dir("a").join("workspace/go"), "").unwrap();
    tokio::time::sleep(Duration::from_millis(800)).await;
    hive.start().await;
    let ended = hive.over(ends).await;
    assert_eq!((&ended["status"], &ended["exit_code"]), (&json!("failed"), &json!(7)), "{ended:#}");
    let run = hive.over(long).await;
    assert_eq!((&run["status"], &run["exit_code"]), (&json!("succeeded"), &json!(0)), "{run:#}");
    let output = hive.text(&format!("/v1/runs/{long}/output")).await;
    let expected: String = (1..=9).map(|n| format!("line {n}\n")).collect();
    assert_eq!(output, expected, "complete, in order, nothing twice");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_a_run_is_when_it_was_also_while_nobody_was_there() {
    let ends = "#!/bin/bash\n: > began; while [ ! -e go ]; do sleep 0.02; done; date +%s.%N > ended\n";
    let mut hive = hive_with(&[("ends.sh", ends)], "").await;
    let job = hive.make_job(json!({ "name": "e", "tool": "ends" })).await;
    let run = hive.run(job).await;
    let workspace = hive.agent_dir("a").join("workspace");
    eventually("the run's beginning", async || workspace.join("began").exists()).await;
    hive.kill();
    fs::write(workspace.join("go"), "").unwrap();
    let noted = || fs::read_to_string(workspace.join("ended")).unwrap_or_default();
    eventually("the run's end", async || !noted().is_empty()).await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    hive.start().await;
    let over = hive.over(run).await;
    let ended: f64 = noted().trim().parse().unwrap();
    let finished: Timestamp = over["finished_at"].as_str().unwrap().parse().unwrap();
    let late = finished.as_millisecond() as f64 / 1e3 - ended;
    assert!((-0.1..2.5).contains(&late), "it was {late} s later: {over:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_was_cancelled_just_before_the_crash_is_ended_after_it() {
    let mut hive = hive_with(&[("long.sh", "#!/bin/bash\ntrap '' TERM\nsleep 600\n")], "").await;
    let job = hive.make_job(json!({ "name": "l", "tool": "long" })).await;
    let run = hive.run(job).await;
    hive.run_until(run, "running", |r| r["status"] == "running").await;
    assert_eq!(hive.send("POST", &format!("/v1/runs/{run}/cancel"), None).await.0, 202);
    hive.kill();
    hive.start().await;
    assert_eq!(hive.over(run).await["status"], "cancelled");
}

/// Moves the hive's clock, as seconds from the machine's.
fn move_clock(hive: &TestHive, seconds: i64) {
    fs::write(hive.path(".skep/clock"), seconds.to_string()).unwrap();
}

const HOUR: i64 = 3_600;

#[tokio::test(flavor = "multi_thread")]
async fn after_eight_hours_of_absence_each_job_does_what_its_policy_says() {
    let mut hive = hive_with(&[NOTE], "").await;
    let cron = |schedule: &str| json!({ "type": "cron", "schedule": schedule, "timezone": "UTC" });
    let job = |name: &str, more: Value| {
        let mut body = json!({ "name": name, "tool": "note" });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        body
    };
    let last = hive.make_job(job("last", json!({ "trigger": cron("* * * * *") }))).await;
    let skip = hive.make_job(job("skip", json!({ "trigger": cron("* * * * *"), "missed": "skip" }))).await;
    let all = hive.make_job(job("all", json!({ "trigger": cron("*/30 * * * *"), "missed": "all" }))).await;
    let soon = Timestamp::now().checked_add(jiff::SignedDuration::from_hours(2)).unwrap();
    let once = hive.make_job(job("once", json!({ "at": soon.to_string() }))).await;
    let old = Timestamp::now().checked_add(jiff::SignedDuration::from_hours(1)).unwrap();
    let within = json!({ "at": old.to_string(), "missed_within": "30m" });
    let expired = hive.make_job(job("expired", within)).await;
    hive.kill();
    move_clock(&hive, 8 * HOUR);
    hive.start().await;
    hive.running("a").await;
    hive.runs_until(all, "succeeded", 16).await;
    let runs = settled(&hive).await;
    let of = |job: i64, status: &str| -> Vec<&Value> {
        runs.iter()
            .filter(|r| r["job"] == job && r["status"] == status && r["trigger"] != "schedule")
            .collect()
    };
    let skipped = |job: i64| -> u64 {
        runs.iter()
            .filter(|r| r["job"] == job && r["status"] == "skipped")
            .map(|r| r["skipped"].as_u64().unwrap_or(1))
            .sum()
    };
    assert_eq!(of(last, "succeeded").len(), 1);
    assert!((479..=481).contains(&skipped(last)), "{}", skipped(last));
    assert_eq!(of(skip, "succeeded").len(), 0);
    assert!((480..=482).contains(&skipped(skip)), "{}", skipped(skip));
    assert_eq!(of(all, "succeeded").len(), 16);
    assert_eq!((of(once, "succeeded").len(), skipped(once)), (1, 0));
    assert_eq!((of(expired, "succeeded").len(), skipped(expired)), (0, 1));
    let done = hive.get(&format!("/v1/jobs/{once}")).await;
    assert_eq!((&done["enabled"], &done["next_fire_at"]), (&json!(false), &Value::Null));
    nothing_lost_or_doubled(&hive).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_jumps_a_year_ahead_and_back_floods_nothing_and_fires_nothing_twice() {
    let hive = hive_with(&[NOTE], "").await;
    let trigger = json!({ "type": "cron", "schedule": "*/2 * * * * *", "timezone": "UTC" });
    let job = hive.make_job(json!({ "name": "j", "tool": "note", "trigger": trigger })).await;
    hive.runs_until(job, "succeeded", 2).await;
    move_clock(&hive, 365 * 24 * HOUR);
    let began = Instant::now();
    while hive.runs(&format!("job={job}&status=skipped")).await.is_empty() {
        assert!(began.elapsed() < PATIENCE, "the jump is not noticed: {}", hive.log());
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let before = hive.runs(&format!("job={job}&status=succeeded")).await.len();
    assert!(before < 60, "{before} runs: a flood");
    move_clock(&hive, -HOUR);
    let next = |view: &Value| -> Timestamp { view["next_fire_at"].as_str().unwrap().parse().unwrap() };
    // It does not wait a year for its next fire time.
    let began = Instant::now();
    loop {
        let view = hive.get(&format!("/v1/jobs/{job}")).await;
        if next(&view) < Timestamp::now() {
            break;
        }
        assert!(began.elapsed() < PATIENCE, "it waits for {view:#}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(hive.send("POST", &format!("/v1/jobs/{job}/pause"), None).await.0, 200);
    nothing_lost_or_doubled(&hive).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_a_run_is_recorded_once_there_is_room_for_it() {
    let mut hive = TestHive::new("[agents.a]\nskills = [\"work@1.0.0\"]\nworkspace = \"./work\"\n");
    let disk = SmallDisk::at(hive.path(".skep"), "64m");
    fs::create_dir(hive.path("work")).unwrap();
    fs::set_permissions(hive.path("work"), std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
    let script = "#!/bin/bash\ntouch begun; while [ ! -e go ]; do sleep 0.02; done; exit 5\n";
    write_skill(&hive, &[("wait.sh", script)], &json!({}));
    hive.start().await;
    hive.running("a").await;
    let job = hive.make_job(json!({ "name": "w", "tool": "wait" })).await;
    let run = hive.run(job).await;
    eventually("it runs", async || hive.path("work/begun").exists()).await;
    disk.fill();
    let (status, refused) = hive.send("POST", &format!("/v1/jobs/{job}/run"), None).await;
    assert!(status == 503 || status == 409, "not taken, so not promised: {refused}");
    fs::write(hive.path("work/go"), "").unwrap();
    eventually("the full disk is told", async || hive.log().contains("cannot record the end of a run")).await;
    assert_eq!(hive.get(&format!("/v1/runs/{run}")).await["status"], "running");
    disk.free();
    let over = hive.over(run).await;
    assert_eq!((&over["status"], &over["exit_code"]), (&json!("failed"), &json!(5)), "{over:#}");
    for container in hive.containers() {
        crate::bare::docker(&["rm", "-f", &container]);
    }
    hive.kill();
    drop(disk);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gigabyte_of_output_and_a_line_of_100_mb_are_bounded_on_disk_and_in_memory() {
    let flood = "#!/bin/bash\necho begin; head -c 1000000000 /dev/zero; echo end\n";
    let line = "#!/bin/bash\nhead -c 100000000 /dev/zero | tr '\\0' x\n";
    let hive = hive_with(&[("flood.sh", flood), ("line.sh", line)], "").await;
    let mut runs = Vec::new();
    for tool in ["flood", "line"] {
        let job = hive.make_job(json!({ "name": tool, "tool": tool, "timeout": "5m" })).await;
        runs.push(hive.run(job).await);
    }
    for run in runs {
        let over = hive.over(run).await;
        assert_eq!(over["status"], "succeeded", "{over:#}");
        let kept = over["output_bytes"].as_u64().unwrap();
        assert!(kept < 9 << 20, "{kept} bytes are kept");
        let shown = hive.text(&format!("/v1/runs/{run}/output")).await;
        assert!(shown.contains("bytes not kept") && shown.len() < 9 << 20);
    }
    let status = fs::read_to_string(format!("/proc/{}/status", hive.pid())).unwrap();
    let most = status.lines().find(|line| line.starts_with("VmHWM")).unwrap();
    let most: u64 = most.split_whitespace().nth(1).unwrap().parse().unwrap();
    assert!(most < 200 << 10, "the supervisor took {most} KiB");
}
