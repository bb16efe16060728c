use std::{collections::BTreeMap, time::Duration};

use jiff::{Timestamp, ToSpan};

use super::*;
use crate::{
    db::jobs::{self, NewJob, Origin},
    runs::{
        result::Outcome,
        state::{Cause, RunStatus},
    },
    scheduler::job::{JobSpec, Missed, Overlap, TriggerSpec},
};

fn at(text: &str) -> Timestamp {
    format!("2026-03-02T{text}Z").parse().unwrap()
}

/// A database in memory with one agent that can run things.
struct Desk {
    conn: Connection,
    agents: BTreeMap<AgentId, Readiness>,
    limits: Runs,
}

impl Desk {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let db = crate::db::Db::open(&dir.path().join("skep.db")).unwrap();
        drop(db);
        let conn = Connection::open(dir.path().join("skep.db")).unwrap();
        conn.pragma_update(None, "foreign_keys", true).unwrap();
        conn.pragma_update(None, "synchronous", "off").unwrap();
        conn.set_prepared_statement_cache_capacity(crate::db::STATEMENTS);
        // The files may go: the connection keeps them.
        let ready = Readiness { alive_since: Some(at("00:00:00")), container: Some("c".into()) };
        Self { conn, agents: BTreeMap::from([("a".parse().unwrap(), ready)]), limits: Runs::default() }
    }

    fn job(&mut self, name: &str, spec: JobSpec, now: &str) -> i64 {
        self.job_of(Origin::Api, name, spec, now)
    }

    fn job_of(&mut self, origin: Origin, name: &str, spec: JobSpec, now: &str) -> i64 {
        let now = at(now);
        let next = spec.trigger.compile().unwrap().next(now, now);
        let new = NewJob {
            agent: "a".parse().unwrap(),
            name: name.into(),
            origin,
            spec,
            disabled_reason: None,
            auto_enable: false,
            next,
        };
        let tx = self.conn.transaction().unwrap();
        let id = jobs::insert(&tx, &new, now).unwrap().id;
        tx.commit().unwrap();
        id
    }

    fn tick(&mut self, now: Timestamp) -> Tick {
        let events = self.unseen();
        let next = std::sync::atomic::AtomicU64::new(u64::try_from(now.as_millisecond()).unwrap());
        let next_proc = |_: &AgentId| next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let world =
            World { now, agents: &self.agents, limits: self.limits, lease: "test", next_proc: &next_proc };
        let tx = self.conn.transaction().unwrap();
        let done = tick(&tx, &world, &events).unwrap();
        tx.commit().unwrap();
        done
    }

    fn unseen(&self) -> Vec<Raised> {
        events::raised(&self.conn, 0, 10_000).unwrap()
    }

    fn finish(&mut self, run: i64, status: RunStatus, now: Timestamp) -> Finished {
        self.finish_late(run, status, now, now)
    }

    /// Records at `now` what ended at `ended`.
    fn finish_late(&mut self, run: i64, status: RunStatus, ended: Timestamp, now: Timestamp) -> Finished {
        let outcome = match status {
            RunStatus::Succeeded => Outcome {
                status,
                exit_code: Some(0),
                result: None,
                error: None,
                warning: None,
                summary: None,
                lasting: false,
            },
            _ => Outcome::without_output(status, "no reason"),
        };
        let tx = self.conn.transaction().unwrap();
        let done =
            finish(&tx, run, &outcome, None, Some(ended), now, &|_, _, _, _| Ok(false)).unwrap().unwrap();
        tx.commit().unwrap();
        done
    }

    fn get(&self, job: i64) -> jobs::JobRow {
        jobs::get(&self.conn, job).unwrap().unwrap()
    }

    fn statuses(&self) -> Vec<(RunStatus, u32)> {
        let runs = super::super::runs::rows(&self.conn, "ORDER BY id", []).unwrap();
        runs.iter().map(|r| (r.status, r.skipped.map_or(1, |(n, _)| n))).collect()
    }
}

fn minutely() -> JobSpec {
    JobSpec::new(TriggerSpec::Cron { schedule: "* * * * *".into(), timezone: "UTC".into() })
}

#[test]
fn a_fire_time_is_claimed_and_leased_in_one_go_and_never_twice() {
    let mut desk = Desk::new();
    let job = desk.job("j", minutely(), "10:00:30");
    assert!(desk.tick(at("10:00:59")).leased.is_empty());
    let tick = desk.tick(at("10:01:00"));
    assert_eq!(tick.leased.len(), 1);
    assert_eq!((tick.leased[0].scheduled_at, tick.leased[0].cause), (at("10:01:00"), Cause::Schedule));
    assert_eq!(tick.next, Some(at("10:02:00")));
    assert!(desk.tick(at("10:01:00")).leased.is_empty());
    desk.finish(tick.leased[0].id, RunStatus::Succeeded, at("10:01:01"));
    // The clock goes back, and the job's next fire time with it.
    let row = desk.get(job);
    let tx = desk.conn.transaction().unwrap();
    let back = crate::scheduler::trigger::Fire { at: at("10:01:00"), shifted_from: None };
    jobs::set_next(&tx, job, &row.agent, "j", &row.spec, Some(&back)).unwrap();
    tx.commit().unwrap();
    assert!(desk.tick(at("10:01:00")).leased.is_empty());
    assert_eq!(desk.get(job).next.unwrap().at, at("10:02:00"));
}

#[test]
fn slots_of_the_hive_and_of_an_agent_hold() {
    let mut desk = Desk::new();
    desk.limits = Runs { max_running: 3, max_running_per_agent: 2, ..Runs::default() };
    desk.agents.insert("b".parse().unwrap(), desk.agents.values().next().unwrap().clone());
    for n in 0..5 {
        desk.job(&format!("j{n}"), minutely(), "10:00:30");
    }
    let tick = desk.tick(at("10:01:00"));
    assert_eq!(tick.leased.len(), 2);
    let first = tick.leased[0].id;
    assert!(desk.tick(at("10:01:01")).leased.is_empty());
    desk.finish(first, RunStatus::Succeeded, at("10:01:02"));
    assert_eq!(desk.tick(at("10:01:02")).leased.len(), 1);
}

#[test]
fn what_makes_up_for_missed_times_leaves_room_for_what_is_due() {
    let mut desk = Desk::new();
    desk.limits = Runs { max_running: 10, max_running_per_agent: 4, ..Runs::default() };
    let spec = JobSpec { missed: Missed::All, overlap: Overlap::Allow, ..minutely() };
    desk.job("all", spec, "10:00:30");
    desk.agents.values_mut().next().unwrap().alive_since = Some(at("10:30:30"));
    let tick = desk.tick(at("10:30:31"));
    assert_eq!(tick.leased.len(), 3, "one of the agent's four slots stays free");
    assert!(tick.leased.iter().all(|r| r.cause == Cause::CatchUp));
    let due = desk.tick(at("10:31:00"));
    assert_eq!(due.leased.iter().map(|r| r.cause).collect::<Vec<_>>(), [Cause::Schedule]);
}

#[test]
fn failures_back_off_and_the_fifth_disables_with_its_reason() {
    let mut desk = Desk::new();
    let job = desk.job("j", minutely(), "10:00:30");
    let mut now = at("10:01:00");
    for failure in 1..=5 {
        let tick = desk.tick(now);
        assert_eq!(tick.leased.len(), 1, "at {now}");
        let done = desk.finish(tick.leased[0].id, RunStatus::Failed, now);
        assert_eq!(done.disabled, failure == 5);
        if let Some(until) = desk.get(job).backoff_until {
            now = until;
        }
    }
    let row = desk.get(job);
    assert!(!row.enabled && row.next.is_none());
    assert!(row.disabled_reason.unwrap().contains("no reason"));
    let skipped: u32 = desk.statuses().iter().filter(|s| s.0 == RunStatus::Skipped).map(|s| s.1).sum();
    assert_eq!(skipped, 4 + 14 + 59, "every fire time inside a backoff is recorded");
}

#[test]
fn a_one_shot_disables_itself_and_is_tried_again_after_a_failure() {
    let mut desk = Desk::new();
    let job = desk.job(
        "once",
        JobSpec::new(TriggerSpec::OneShot { at: at("10:05:00"), timezone: None }),
        "10:00:00",
    );
    let tick = desk.tick(at("10:05:00"));
    assert!(!desk.get(job).enabled);
    desk.finish(tick.leased[0].id, RunStatus::Failed, at("10:05:10"));
    assert_eq!(desk.get(job).next.unwrap().at, at("10:06:10"));
    let again = desk.tick(at("10:06:10"));
    desk.finish(again.leased[0].id, RunStatus::Succeeded, at("10:06:11"));
    let row = desk.get(job);
    assert_eq!((row.enabled, row.next, row.consecutive_failures), (false, None, 0));
}

#[test]
fn retries_come_before_the_failure_counts() {
    let mut desk = Desk::new();
    let job = desk.job("j", JobSpec { retries: 1, ..minutely() }, "10:00:30");
    let first = desk.tick(at("10:01:00")).leased.remove(0);
    let done = desk.finish(first.id, RunStatus::TimedOut, at("10:01:05"));
    assert!(done.retry.is_some() && desk.get(job).consecutive_failures == 0);
    assert!(desk.tick(at("10:01:14")).leased.is_empty());
    let second = desk.tick(at("10:01:15")).leased.remove(0);
    assert_eq!((second.attempt, second.scheduled_at), (2, at("10:01:00")));
    let done = desk.finish(second.id, RunStatus::Failed, at("10:01:20"));
    assert_eq!((done.retry, desk.get(job).consecutive_failures), (None, 1));
}

#[test]
fn an_end_that_is_recorded_late_counts_from_when_it_was() {
    let mut desk = Desk::new();
    let job = desk.job("j", JobSpec { retries: 1, ..minutely() }, "10:00:30");
    let first = desk.tick(at("10:01:00")).leased.remove(0);
    let done = desk.finish_late(first.id, RunStatus::Failed, at("10:01:05"), at("12:00:00"));
    assert_eq!(done.run.finished_at, Some(at("10:01:05")));
    let retry = super::super::runs::get(&desk.conn, done.retry.unwrap()).unwrap().unwrap();
    assert_eq!((retry.due_at, retry.created_at), (at("12:00:00"), at("12:00:00")), "its pause is over");
    let second = desk.tick(at("12:00:00")).leased.remove(0);
    assert_eq!(second.id, retry.id);
    desk.finish_late(second.id, RunStatus::Failed, at("12:00:30"), at("15:00:00"));
    assert_eq!(desk.get(job).backoff_until, Some(at("12:01:30")), "the minute is over");
    let third = desk.tick(at("15:00:00")).leased.remove(0);
    for (told, believed) in [("09:00:00", "15:00:00"), ("23:00:00", "15:00:07")] {
        let tx = desk.conn.unchecked_transaction().unwrap();
        let outcome = Outcome::without_output(RunStatus::Lost, "no reason");
        let done =
            finish(&tx, third.id, &outcome, None, Some(at(told)), at("15:00:07"), &|_, _, _, _| Ok(false));
        assert_eq!(done.unwrap().unwrap().run.finished_at, Some(at(believed)), "{told}: clocks may be set");
    }
}

#[test]
fn replace_starts_only_when_the_old_run_is_over() {
    let mut desk = Desk::new();
    desk.job("j", JobSpec { overlap: Overlap::Replace, ..minutely() }, "10:00:30");
    let old = desk.tick(at("10:01:00")).leased.remove(0);
    let tick = desk.tick(at("10:02:00"));
    assert_eq!((tick.leased.len(), tick.end.len()), (0, 1));
    let done = desk.finish(old.id, RunStatus::Failed, at("10:02:05"));
    assert_eq!(done.run.status, RunStatus::Cancelled);
    assert_eq!(desk.tick(at("10:02:05")).leased.len(), 1);
}

#[test]
fn a_halted_agent_starts_nothing_and_its_past_is_missed() {
    let mut desk = Desk::new();
    let job = desk.job("j", minutely(), "10:00:30");
    desk.agents.values_mut().next().unwrap().alive_since = None;
    let tick = desk.tick(at("10:05:00"));
    assert!(tick.leased.is_empty() && tick.next.is_none() && desk.statuses().is_empty());
    desk.agents.values_mut().next().unwrap().alive_since = Some(at("10:05:30"));
    assert_eq!(desk.tick(at("10:05:30")).leased[0].scheduled_at, at("10:05:00"));
    assert_eq!(desk.get(job).next.unwrap().at, at("10:06:00"));
}

#[test]
fn an_agent_without_a_container_keeps_its_runs_waiting_until_they_expire() {
    let mut desk = Desk::new();
    let daily = TriggerSpec::Cron { schedule: "0 10 * * *".into(), timezone: "UTC".into() };
    let spec = JobSpec { missed_within: Some(Duration::from_secs(3600)), ..JobSpec::new(daily) };
    desk.job("j", spec, "09:00:00");
    desk.agents.values_mut().next().unwrap().container = None;
    assert!(desk.tick(at("10:00:00")).leased.is_empty());
    assert_eq!(desk.statuses(), [(RunStatus::Queued, 1)]);
    desk.agents.values_mut().next().unwrap().container = Some("d".into());
    assert!(desk.tick(at("11:00:01")).leased.is_empty());
    assert_eq!(desk.statuses(), [(RunStatus::Skipped, 1)]);
}

#[test]
fn a_cancelled_run_never_starts_or_ends_as_cancelled() {
    let mut desk = Desk::new();
    let job =
        desk.job("j", JobSpec { overlap: Overlap::Allow, ..JobSpec::new(TriggerSpec::Manual) }, "10:00:00");
    let now = at("10:01:00");
    let mut made = Vec::new();
    for _ in 0..2 {
        let tx = desk.conn.transaction().unwrap();
        made.push(claim_manual(&tx, job, 0, now, &mut Tick::default()).unwrap().id);
        tx.commit().unwrap();
    }
    let tx = desk.conn.transaction().unwrap();
    assert!(matches!(cancel(&tx, made[0], now).unwrap(), Cancelled::Dropped(_)));
    tx.commit().unwrap();
    let leased = desk.tick(now).leased;
    assert_eq!(leased.iter().map(|r| r.id).collect::<Vec<_>>(), [made[1]]);
    let tx = desk.conn.transaction().unwrap();
    assert!(matches!(cancel(&tx, made[1], now).unwrap(), Cancelled::Ending(_)));
    tx.commit().unwrap();
    let done = desk.finish(made[1], RunStatus::Failed, now);
    assert_eq!(done.run.status, RunStatus::Cancelled);
    assert_eq!(desk.get(job).consecutive_failures, 0);
}

#[test]
fn a_thousand_jobs_due_in_the_same_second_are_claimed_in_one_go() {
    let mut desk = Desk::new();
    for n in 0..1_000 {
        desk.job(&format!("j{n}"), minutely(), "10:00:30");
    }
    let tick = desk.tick(at("10:01:00"));
    assert_eq!(tick.leased.len(), 4);
    assert_eq!(desk.statuses().len(), 1_000);
    assert_eq!(tick.next, Some(at("10:02:00")));
}

#[test]
fn an_agent_that_floods_its_queue_is_held_to_a_bound_and_delays_nobody() {
    let mut desk = Desk::new();
    desk.agents.insert("b".parse().unwrap(), desk.agents.values().next().unwrap().clone());
    let every_second = TriggerSpec::Cron { schedule: "* * * * * *".into(), timezone: "UTC".into() };
    let flood = JobSpec { overlap: Overlap::Allow, missed: Missed::All, ..JobSpec::new(every_second) };
    for n in 0..3 {
        desk.job(&format!("flood {n}"), flood.clone(), "10:00:00");
    }
    // An hour and more passes in which nothing ends.
    let mut now = at("10:00:00");
    let mut ticks = 0;
    while now < at("12:00:00") || ticks < 5 {
        now += 10.minutes();
        desk.tick(now);
        ticks += 1;
    }
    let statuses = desk.statuses();
    let waiting = statuses.iter().filter(|s| s.0 == RunStatus::Queued).count();
    assert!(waiting <= 5_000, "{waiting} wait");
    let crowded: u32 = statuses.iter().filter(|s| s.0 == RunStatus::Skipped).map(|s| s.1).sum();
    assert!(crowded > 1_000, "what had no room is recorded: {crowded}");
}

mod clock;
mod events_heard;
mod kills;
mod model;
mod policies;
mod tasks;
mod year;
