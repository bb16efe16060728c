//! A supervisor that is killed at any moment, again and again, on a real file: what it told anybody is there afterwards,
//! and nothing is there twice (hazards 1 and 18).

use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader, Write},
    process::{Child, Command, Stdio},
};

use super::*;
use crate::db::{Db, meta, runs};

const ROUNDS: u64 = 120;

/// Fire times come every second of a clock that runs a thousand times as fast as ours.
fn kinds() -> Vec<JobSpec> {
    let every = |every: &str| JobSpec::new(TriggerSpec::Interval { every: every.into() });
    let secondly = TriggerSpec::Cron { schedule: "* * * * * *".into(), timezone: "UTC".into() };
    vec![
        JobSpec { overlap: Overlap::Allow, missed: Missed::All, ..JobSpec::new(secondly) },
        JobSpec { retries: 2, ..every("1s") },
        JobSpec { overlap: Overlap::Queue, ..every("2s") },
        JobSpec { overlap: Overlap::Replace, missed: Missed::Skip, ..every("3s") },
        JobSpec::new(TriggerSpec::Event { event: vec!["run:*".into()] }),
    ]
}

fn say(what: &str) {
    println!("{what}");
    std::io::stdout().flush().unwrap();
}

#[tokio::test]
#[ignore = "the process that what_a_killed_supervisor_told_is_there_and_nothing_twice starts and kills"]
async fn the_supervisor_that_is_killed() {
    let db = Db::open(std::path::Path::new("skep.db")).unwrap();
    let mut now: Timestamp = match db.read(|c| meta::get(c, "now")).await.unwrap() {
        Some(text) => text.parse().unwrap(),
        None => at("00:00:00"),
    };
    let alive = now;
    db.write(move |tx| {
        for (n, spec) in kinds().into_iter().enumerate() {
            if jobs::get(tx, n as i64 + 1)?.is_none() {
                let next = spec.trigger.compile().unwrap().next(now, now);
                let (agent, name) = ("a".parse().unwrap(), format!("j{n}"));
                let (disabled_reason, auto_enable, origin) = (None, false, Origin::Api);
                let new = NewJob { agent, name, origin, spec, disabled_reason, auto_enable, next };
                jobs::insert(tx, &new, now).unwrap();
            }
        }
        realign(tx, now)
    })
    .await
    .unwrap();
    let mut running: Vec<i64> = db.read(runs::running).await.unwrap().iter().map(|run| run.id).collect();
    loop {
        now += 700.milliseconds();
        let leased = db.write(move |tx| look(tx, alive, now)).await.unwrap();
        for run in leased {
            say(&format!("leased {run}"));
            running.push(run);
        }
        // Some go on for longer.
        while running.len() > 3 {
            let run = running.remove(0);
            let status = if run % 7 == 0 { RunStatus::Lost } else { RunStatus::Succeeded };
            let outcome = Outcome::without_output(status, "so it ended");
            let done = db
                .write(move |tx| finish(tx, run, &outcome, None, None, now, &|_, _, _, _| Ok(false)))
                .await
                .unwrap();
            let retry = done.unwrap().retry.map(|id| format!(" and {id}")).unwrap_or_default();
            say(&format!("ended {run}{retry}"));
        }
    }
}

/// One look; the clock is written with it, so that a supervisor goes on where the last one was.
fn look(tx: &Transaction<'_>, alive: Timestamp, now: Timestamp) -> Result<Vec<i64>, DbError> {
    let cursor = meta::get(tx, "cursor")?.map_or(0, |text| text.parse().unwrap());
    let raised = events::raised(tx, cursor, 500)?;
    let ready = Readiness { alive_since: Some(alive), container: Some("c".into()) };
    let world = World {
        now,
        agents: &BTreeMap::from([("a".parse().unwrap(), ready)]),
        limits: Runs { max_running: 6, max_running_per_agent: 6, ..Runs::default() },
        lease: "killed",
        next_proc: &|_| 7,
    };
    let tick = tick(tx, &world, &raised)?;
    if let Some(last) = raised.last() {
        meta::set(tx, "cursor", &last.id.to_string())?;
    }
    meta::set(tx, "now", &crate::db::time(now))?;
    Ok(tick.leased.iter().map(|run| run.id).collect())
}

/// What was told of each run.
#[derive(Debug, Default)]
struct Told {
    leased: BTreeMap<i64, usize>,
    ended: BTreeMap<i64, usize>,
    retries: Vec<i64>,
}

impl Told {
    fn hear(&mut self, line: &str) -> bool {
        let words: Vec<&str> = line.split(' ').collect();
        let number = |word: &&str| word.parse::<i64>().ok();
        match (words.first(), words.get(1).and_then(number)) {
            (Some(&"leased"), Some(run)) => *self.leased.entry(run).or_default() += 1,
            (Some(&"ended"), Some(run)) => {
                *self.ended.entry(run).or_default() += 1;
                self.retries.extend(words.get(3).and_then(number));
            }
            _ => return false,
        }
        true
    }
}

fn start(dir: &std::path::Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "db::queue::tests::kills::the_supervisor_that_is_killed",
            "--ignored",
            "--nocapture",
        ])
        .current_dir(dir)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

#[test]
fn what_a_killed_supervisor_told_is_there_and_nothing_twice() {
    let dir = tempfile::tempdir().unwrap();
    let mut told = Told::default();
    let mut heard = 0;
    for round in 0..ROUNDS {
        let mut child = start(dir.path());
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        // It is killed between any two words that it says, and in the middle of what it does.
        let wanted = 1 + usize::try_from(round % 11).unwrap();
        let said = lines.by_ref().filter(|line| told.hear(line)).take(wanted).count();
        assert_eq!(said, wanted, "it ended by itself in round {round}");
        std::thread::sleep(Duration::from_micros(round * 211 % 4_000));
        child.kill().unwrap();
        heard += said + lines.filter(|line| told.hear(line)).count();
        child.wait().unwrap();
        if round % 20 == 19 {
            judge(&dir.path().join("skep.db"), &told);
        }
    }
    assert!(heard > 500, "{heard} is too little to say anything");
}

fn judge(path: &std::path::Path, told: &Told) {
    let conn = crate::db::connect(path).unwrap();
    let whole: String = conn.query_row("PRAGMA integrity_check", [], |r| r.get(0)).unwrap();
    assert_eq!(whole, "ok");
    let rows = runs::rows(&conn, "ORDER BY id", []).unwrap();
    let there: BTreeMap<i64, &RunRow> = rows.iter().map(|run| (run.id, run)).collect();
    for (run, times) in &told.leased {
        assert_eq!(*times, 1, "run {run} was started again");
        assert!(there.get(run).is_some_and(|run| run.started_at.is_some()), "run {run} is lost");
    }
    for (run, times) in &told.ended {
        assert_eq!(*times, 1, "the end of run {run} was told again");
        assert!(there[run].status.is_over(), "{:?}", there[run]);
    }
    assert!(told.retries.iter().all(|run| there.contains_key(run)), "a next attempt is lost");
    let fires = |run: &&RunRow| matches!(run.cause, Cause::Schedule | Cause::CatchUp);
    let mut once = std::collections::BTreeSet::new();
    for run in rows.iter().filter(fires) {
        assert!(once.insert((run.job, run.scheduled_at, run.attempt)), "twice: {run:?}");
    }
    // Each second of the job of every second has one record.
    let of_first: Vec<&RunRow> = rows.iter().filter(|run| run.job == Some(1)).collect();
    let records: u32 = of_first.iter().map(|run| run.skipped.map_or(1, |(count, _)| count)).sum();
    let last = of_first.iter().map(|run| run.skipped.map_or(run.scheduled_at, |(_, until)| until)).max();
    assert_eq!(i64::from(records), last.unwrap().as_second() - at("00:00:00").as_second());
    let events: i64 =
        conn.query_row("SELECT count(*) FROM event WHERE name = 'run:started'", [], |r| r.get(0)).unwrap();
    let started = rows.iter().filter(|run| run.started_at.is_some()).count();
    assert_eq!(events, i64::try_from(started).unwrap(), "a start and its event are one");
}
