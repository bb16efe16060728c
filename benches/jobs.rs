//! What jobs and runs cost: how exactly they start, how fast a crowd drains, what ten thousand of them and a million
//! runs of history weigh.
//!
//! Each figure stands beside its peer, measured in the same run. Nothing is asserted here: the table says `reached`
//! or `missed`.
#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]

#[allow(dead_code, reason = "each benchmark uses a part of it")]
mod support;

use std::{
    hint::black_box,
    process::{Command, ExitCode},
    str::FromStr,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use jiff::{Timestamp, tz::TimeZone};
use serde_json::{Value, json};
use skep::{
    db::{
        self, Db,
        runs::{RunFilter, list, prune},
    },
    runs::state::RunStatus,
    scheduler::trigger::CronSchedule,
};
use support::{
    Result, docker,
    hive::Hive,
    load::scale,
    machine::{self, mib},
    stats::{Samples, show},
    table::Table,
};

/// Prints when its first instruction ran.
const STAMP: &str = "#!/bin/bash\necho $EPOCHREALTIME\n";
const NOTHING: &str = "#!/bin/sh\n";
/// Jobs that fire every second while starts are measured, at different moments of it.
const TICKING: usize = 10;
const AGENT: &str = "a000";

#[tokio::main(flavor = "multi_thread", worker_threads = 1)]
async fn main() -> ExitCode {
    support::run(measure).await
}

async fn measure(table: &mut Table) -> Result<()> {
    next_fire(table)?;
    history(scale("SKEP_BENCH_RUNS", 1_000_000), table).await?;
    let jobs = scale("SKEP_BENCH_JOBS", 10_000);
    let mut hive = Hive::new("j-", 1)?;
    hive.script("stamp", STAMP)?;
    hive.script("nothing", NOTHING)?;
    hive.extend("[runs]\nmax_running = 10\nmax_running_per_agent = 10\n", "skills = [\"bench@1.0.0\"]")?;
    hive.up()?;
    hive.until(AGENT, "running").await?;
    starts(&hive, jobs, table).await?;
    weight(&mut hive, jobs, table).await?;
    crowd(&hive, scale("SKEP_BENCH_CROWD", 1_000), table).await
}

/// Computing fire times, beside the library that parses the expressions.
fn next_fire(table: &mut Table) -> Result<()> {
    let from: Timestamp = "2026-01-01T00:00:00Z".parse()?;
    let zone = "America/New_York";
    for expression in ["*/5 * * * *", "0 9 * * MON-FRI", "0 0 29 2 *"] {
        let ours = CronSchedule::parse(expression, zone)?;
        let theirs = croner::Cron::from_str(expression)?;
        let (mut mine, mut plain) = (Samples::new(), Samples::new());
        for _ in 0..20 {
            let began = Instant::now();
            let mut at = from;
            for _ in 0..200 {
                at = black_box(ours.next(at)).ok_or("no fire time")?.at;
            }
            mine.add(began.elapsed() / 200);
            let began = Instant::now();
            let mut at = from.to_zoned(TimeZone::get(zone)?);
            for _ in 0..200 {
                at = black_box(theirs.find_next_occurrence(&at, false)?);
            }
            plain.add(began.elapsed() / 200);
        }
        let micros = |d: Duration| format!("{:.2} µs", d.as_secs_f64() * 1e6);
        table.ratio(
            &format!("next fire time of {expression:?}"),
            mine.median(),
            ("croner alone", plain.median()),
            None,
        );
        println!("    {} beside {}", micros(mine.median()), micros(plain.median()));
    }
    Ok(())
}

/// A long history: lists, filters, pruning.
async fn history(runs: usize, table: &mut Table) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("skep.db");
    drop(Db::open(&path)?);
    let conn = rusqlite::Connection::open(&path)?;
    conn.execute_batch(&format!(
        "PRAGMA synchronous = off;
         INSERT INTO job (agent, name, origin, spec, trigger_type, enabled, anchor_at, created_at, updated_at)
         WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000)
         SELECT 'a' || (i % 20), 'job ' || i, 'api', '{{}}', 'manual', 1, '2026-01-01T00:00:00.000Z',
                '2026-01-01T00:00:00.000Z', '2026-01-01T00:00:00.000Z' FROM n;
         INSERT INTO run (job_id, agent, job_name, tier, cause, scheduled_at, status, due_at, created_at, started_at,
                          finished_at, exit_code, result, summary)
         WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {runs})
         SELECT i % 1000 + 1, 'a' || ((i % 1000 + 1) % 20), 'job ' || (i % 1000 + 1), 'direct', 'schedule', t,
                CASE WHEN i % 97 = 0 THEN 'failed' WHEN i % 50000 = 0 THEN 'lost' ELSE 'succeeded' END, t, t, t, t, 0,
                '{{\"success\":true}}', 'done'
         FROM (SELECT i, strftime('%Y-%m-%dT%H:%M:%S.000Z', 1767225600 + i * 30, 'unixepoch') AS t FROM n);"
    ))?;
    drop(conn);
    let db = Db::open(&path)?;
    let count = |filter: RunFilter, before: Option<i64>| {
        let db = db.clone();
        async move { db.read(move |conn| list(conn, &filter, before, 100)).await }
    };
    let agent = Some("a7".parse()?);
    let middle = i64::try_from(runs / 2)?;
    let questions = [
        ("the newest", RunFilter::default(), None),
        ("from the middle", RunFilter::default(), Some(middle)),
        ("of an agent", RunFilter { agent: agent.clone(), ..RunFilter::default() }, None),
        ("of a job, from the middle", RunFilter { job: Some(41), ..RunFilter::default() }, Some(middle)),
        ("lost ones of an agent", RunFilter { agent, status: Some(RunStatus::Lost), job: None }, None),
        ("failed ones", RunFilter { status: Some(RunStatus::Failed), ..RunFilter::default() }, None),
    ];
    let mut worst = Duration::ZERO;
    for (what, filter, before) in questions {
        let mut samples = Samples::new();
        for _ in 0..20 {
            let began = Instant::now();
            black_box(count(filter.clone(), before).await?);
            samples.since(began);
        }
        println!("    list 100 of {runs} runs, {what}: {}", show(samples.percentile(99)));
        worst = worst.max(samples.percentile(99));
    }
    let aim = Some((worst < Duration::from_millis(50), "< 50 ms"));
    table.figure(&format!("list and filter {runs} runs, slowest p99 of six questions"), show(worst), aim);
    let mut pruned = Samples::new();
    let before = Timestamp::from_second(1_767_225_600 + 30 * middle)?;
    for _ in 0..50 {
        let began = Instant::now();
        let gone: std::result::Result<usize, db::DbError> = db.write(move |tx| prune(tx, before, 25)).await;
        black_box(gone?);
        pruned.since(began);
    }
    let slowest = pruned.percentile(99);
    let aim = Some((slowest < Duration::from_millis(50), "< 50 ms"));
    table.figure("prune 25 of them, as one transaction does, p99", show(slowest), aim);
    Ok(())
}

fn now_micros() -> i128 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i128::try_from(since.as_micros()).unwrap_or_default()
}

/// `seconds.micros`, as bash prints the time.
fn stamp_micros(text: &str) -> Option<i128> {
    let (seconds, micros) = text.trim().split_once('.')?;
    Some(seconds.parse::<i128>().ok()? * 1_000_000 + micros.parse::<i128>().ok()?)
}

/// What the interpreter itself takes: no container, no supervisor.
fn shell_alone() -> Result<Samples> {
    let mut alone = Samples::new();
    for _ in 0..100 {
        let before = now_micros();
        let output = std::process::Command::new("bash").args(["-c", "echo $EPOCHREALTIME"]).output()?;
        let began = stamp_micros(&String::from_utf8(output.stdout)?).ok_or("no stamp")?;
        alone.add(Duration::from_micros(u64::try_from(began - before)?));
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(alone)
}

/// From the due time to the script's first instruction, with more and more jobs loaded.
async fn starts(hive: &Hive, most: usize, table: &mut Table) -> Result<()> {
    let container = hive.container(AGENT);
    let mut peer = Samples::new();
    for _ in 0..60 {
        let before = now_micros();
        let text = docker(&["exec", &container, "/skills/bench/scripts/stamp.sh"])?;
        let after = stamp_micros(&text).ok_or("no stamp")?;
        peer.add(Duration::from_micros(u64::try_from(after - before)?));
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    table.figure(
        "of it bash alone, from fork to the same instruction, p50",
        show(shell_alone()?.percentile(50)),
        None,
    );
    let mut loaded = 0;
    for jobs in [1, 100, most] {
        let fillers = (loaded..jobs).map(|n| json!({
            "agent": AGENT, "name": format!("filler {n}"), "tool": "nothing",
            "trigger": { "type": "cron", "schedule": format!("{} {} 1 1 *", n % 60, n % 24), "timezone": "UTC" },
        }));
        hive.post_all("/v1/jobs", fillers.collect()).await?;
        loaded = jobs;
        let mut ticking = Vec::new();
        for n in 0..TICKING {
            let job = json!({ "agent": AGENT, "name": format!("tick {n} of {jobs}"), "tool": "stamp", "every": "1s" });
            ticking.push(hive.post("/v1/jobs", Some(&job)).await?["id"].as_i64().ok_or("no id")?);
            tokio::time::sleep(Duration::from_millis(87)).await;
        }
        tokio::time::sleep(Duration::from_secs(scale("SKEP_BENCH_SECONDS", 30) as u64)).await;
        let mut late = Samples::new();
        for job in ticking {
            hive.post(&format!("/v1/jobs/{job}/pause"), None).await?;
            let page = hive.get(&format!("/v1/runs?job={job}&status=succeeded&limit=1000")).await?;
            for run in page["items"].as_array().ok_or("no runs")? {
                let due: Timestamp = run["scheduled_at"].as_str().ok_or("no time")?.parse()?;
                let began = run["result"].as_f64().map(|s| format!("{s:.6}"));
                let began = began.or_else(|| run["result"].as_str().map(str::to_owned));
                let stamp = began.and_then(|s| stamp_micros(&s)).ok_or("no stamp")?;
                let passed = stamp - i128::from(due.as_microsecond());
                late.add(Duration::from_micros(
                    u64::try_from(passed).map_err(|_| "a run began before its time")?,
                ));
            }
        }
        for (percent, aim, text) in [(50, 3, "< 3 ms"), (99, 15, "< 15 ms")] {
            let ours = late.percentile(percent);
            let name = format!("due time to first instruction, {jobs} jobs, p{percent} of {}", late.count());
            table.ratio(&name, ours, ("docker exec", peer.percentile(percent)), None);
            table.figure(&name, show(ours), Some((ours < Duration::from_millis(aim), text)));
        }
    }
    Ok(())
}

/// Memory, idle processor use and start-up with all jobs.
async fn weight(hive: &mut Hive, jobs: usize, table: &mut Table) -> Result<()> {
    let mut restarts = Samples::new();
    for _ in 0..5 {
        hive.kill()?;
        let began = Instant::now();
        hive.up()?;
        hive.until(AGENT, "running").await?;
        restarts.since(began);
    }
    table.figure(
        &format!("restart of the supervisor until its agent runs, {jobs} jobs"),
        show(restarts.median()),
        None,
    );
    tokio::time::sleep(Duration::from_secs(3)).await;
    let memory = hive.memory()?;
    table.figure(
        &format!("supervisor's memory, {jobs} jobs"),
        format!("{} ({} PSS)", mib(memory.rss), mib(memory.pss)),
        None,
    );
    let (began, before) = (Instant::now(), machine::cpu(hive.pid())?);
    tokio::time::sleep(Duration::from_secs(65)).await;
    let used = machine::cpu(hive.pid())?.saturating_sub(before);
    let percent = 100.0 * used.as_secs_f64() / began.elapsed().as_secs_f64();
    table.figure(
        &format!("supervisor's processor use, idle, {jobs} jobs"),
        format!("{percent:.2} %"),
        Some((percent < 0.5, "< 0.5 %")),
    );
    Ok(())
}

/// Many jobs due in the same second.
async fn crowd(hive: &Hive, count: usize, table: &mut Table) -> Result<()> {
    let at = Timestamp::now().checked_add(jiff::SignedDuration::from_secs(20))?;
    let at = Timestamp::from_second(at.as_second())?;
    let jobs = (0..count).map(|n| {
        json!({
            "agent": AGENT, "name": format!("crowd {n}"), "tool": "nothing", "at": at.to_string(),
            "notify": { "on_completion": false },
        })
    });
    hive.post_all("/v1/jobs", jobs.collect()).await?;
    let last_before = newest(hive).await?;
    loop {
        let page = hive.get("/v1/runs?status=queued&limit=1").await?;
        let running = hive.get("/v1/runs?status=running&limit=1").await?;
        let empty = |page: &Value| page["items"].as_array().is_some_and(Vec::is_empty);
        if newest(hive).await? >= last_before + i64::try_from(count)? && empty(&page) && empty(&running) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let (mut done, mut last, mut next) = (0, at, String::new());
    loop {
        let page = hive.get(&format!("/v1/runs?status=succeeded&limit=1000{next}")).await?;
        for run in page["items"].as_array().ok_or("no runs")? {
            if run["id"].as_i64() > Some(last_before) {
                done += 1;
                last = last.max(run["finished_at"].as_str().ok_or("no time")?.parse()?);
            }
        }
        match page["next"].as_str() {
            Some(cursor) if done < count => next = format!("&cursor={cursor}"),
            _ => break,
        }
    }
    if done != count {
        let others = hive.get("/v1/runs?limit=3").await?;
        return Err(format!("{done} of {count} runs succeeded; the newest: {others:#}").into());
    }
    let ours = Duration::try_from(last.duration_since(at))?;
    let container = hive.container(AGENT);
    let began = Instant::now();
    let status = Command::new("bash")
        .args(["-c", "seq $1 | xargs -P 10 -I{} docker exec $2 /skills/bench/scripts/nothing.sh", "bash"])
        .args([count.to_string(), container])
        .status()?;
    if !status.success() {
        return Err("the loop of docker exec failed".into());
    }
    let name = format!("{count} jobs due in the same second, drained, 10 at a time");
    table.ratio(&name, ours, ("xargs -P 10 docker exec", began.elapsed()), None);
    Ok(())
}

async fn newest(hive: &Hive) -> Result<i64> {
    let page = hive.get("/v1/runs?limit=1").await?;
    Ok(page["items"][0]["id"].as_i64().unwrap_or(0))
}
