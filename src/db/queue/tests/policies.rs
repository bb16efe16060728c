//! Missed and overlapping runs, retries, backoffs, and jobs that change while their runs wait.

use super::*;

fn interval(every: &str) -> JobSpec {
    JobSpec::new(TriggerSpec::Interval { every: every.into() })
}

impl Desk {
    fn ready(&mut self) -> &mut Readiness {
        self.agents.values_mut().next().unwrap()
    }

    pub(super) fn tx<T>(&mut self, work: impl FnOnce(&Transaction<'_>) -> T) -> T {
        let tx = self.conn.transaction().unwrap();
        let done = work(&tx);
        tx.commit().unwrap();
        done
    }

    fn change(&mut self, job: i64, now: &str, change: impl FnOnce(&mut jobs::JobRow)) {
        let mut row = self.get(job);
        change(&mut row);
        self.tx(|tx| jobs::update(tx, &row, "job:updated", at(now)).unwrap());
    }

    fn pause(&mut self, job: i64, now: &str) {
        self.change(job, now, |row| {
            (row.enabled, row.disabled_reason) = (false, Some("paused".to_owned()));
        });
    }

    /// Status, reason, attempt and fire time of each run.
    pub(super) fn history(&self) -> Vec<String> {
        let runs = crate::db::runs::rows(&self.conn, "ORDER BY id", []).unwrap();
        let line = |r: &RunRow| {
            let reason = r.reason.as_deref().map(|reason| format!(" {reason}")).unwrap_or_default();
            let attempt = if r.attempt > 1 { format!(" #{}", r.attempt) } else { String::new() };
            format!("{} {}{reason}{attempt}", r.scheduled_at.strftime("%H:%M:%S"), r.status.as_str())
        };
        runs.iter().map(line).collect()
    }
}

#[test]
fn a_run_between_two_attempts_is_not_over() {
    let mut desk = Desk::new();
    desk.job("j", JobSpec { retries: 3, ..interval("5s") }, "10:00:00");
    let first = desk.tick(at("10:00:05")).leased.remove(0);
    desk.finish(first.id, RunStatus::Failed, at("10:00:06"));
    assert!(desk.tick(at("10:00:10")).leased.is_empty(), "it is tried again at 10:00:16");
    assert!(desk.tick(at("10:00:15")).leased.is_empty());
    assert_eq!(desk.tick(at("10:00:16")).leased[0].attempt, 2);
    let expected =
        ["10:00:05 failed", "10:00:05 running #2", "10:00:10 skipped overlap", "10:00:15 skipped overlap"];
    assert_eq!(desk.history(), expected);
}

#[test]
fn what_is_queued_behind_a_run_waits_for_its_last_attempt() {
    let mut desk = Desk::new();
    desk.job("j", JobSpec { retries: 1, overlap: Overlap::Queue, ..interval("5s") }, "10:00:00");
    let first = desk.tick(at("10:00:05")).leased.remove(0);
    desk.finish(first.id, RunStatus::Lost, at("10:00:06"));
    assert!(desk.tick(at("10:00:10")).leased.is_empty());
    let again = desk.tick(at("10:00:16")).leased.remove(0);
    assert_eq!((again.scheduled_at, again.attempt), (at("10:00:05"), 2));
    desk.finish(again.id, RunStatus::Succeeded, at("10:00:17"));
    assert_eq!(desk.tick(at("10:00:17")).leased[0].scheduled_at, at("10:00:10"));
}

#[test]
fn what_waits_while_its_job_backs_off_starts_at_the_end_of_the_backoff() {
    let mut desk = Desk::new();
    let job = desk.job("j", JobSpec { overlap: Overlap::Queue, ..interval("5m") }, "10:00:00");
    let first = desk.tick(at("10:05:00")).leased.remove(0);
    assert!(desk.tick(at("10:10:00")).leased.is_empty());
    desk.finish(first.id, RunStatus::Failed, at("10:10:30"));
    let tick = desk.tick(at("10:10:30"));
    assert!(tick.leased.is_empty(), "the job does not start for a minute");
    assert_eq!(tick.next, Some(at("10:11:30")));
    let manual = desk.tx(|tx| claim_manual(tx, job, 0, at("10:10:40"), &mut Tick::default()));
    let refused = manual.unwrap_err().to_string();
    assert!(refused.starts_with("run 2 of job 1 waits already"), "{refused}");
    assert_eq!(desk.tick(at("10:11:30")).leased[0].scheduled_at, at("10:10:00"));
}

#[test]
fn a_success_ends_the_backoff_of_what_waits() {
    let mut desk = Desk::new();
    let job = desk.job("j", JobSpec { overlap: Overlap::Allow, ..interval("5m") }, "10:00:00");
    let first = desk.tick(at("10:05:00")).leased.remove(0);
    desk.ready().container = None;
    desk.tick(at("10:10:00"));
    desk.finish(first.id, RunStatus::Failed, at("10:10:30"));
    let asked = desk.tx(|tx| claim_manual(tx, job, 0, at("10:10:31"), &mut Tick::default())).unwrap();
    desk.ready().container = Some("c".into());
    let leased = desk.tick(at("10:10:32")).leased;
    assert_eq!(leased.iter().map(|r| r.id).collect::<Vec<_>>(), [asked.id], "somebody asked for it");
    desk.finish(asked.id, RunStatus::Succeeded, at("10:10:33"));
    assert_eq!(desk.tick(at("10:10:33")).leased[0].scheduled_at, at("10:10:00"));
}

#[test]
fn of_a_job_that_is_disabled_nothing_starts_that_waits_but_what_somebody_asked_for() {
    let mut desk = Desk::new();
    let spec = JobSpec { overlap: Overlap::Allow, retries: 1, ..minutely() };
    let job = desk.job("j", spec, "10:00:30");
    let running = desk.tick(at("10:01:00")).leased.remove(0);
    desk.ready().container = None;
    desk.tick(at("10:02:00"));
    let asked = desk.tx(|tx| claim_manual(tx, job, 0, at("10:02:01"), &mut Tick::default())).unwrap();
    desk.pause(job, "10:02:02");
    let done = desk.finish(running.id, RunStatus::Failed, at("10:02:03"));
    assert_eq!(done.retry, None, "it is not tried again either");
    desk.ready().container = Some("c".into());
    let leased = desk.tick(at("10:02:04")).leased;
    assert_eq!(leased.iter().map(|r| r.id).collect::<Vec<_>>(), [asked.id]);
    assert_eq!(desk.history(), ["10:01:00 failed", "10:02:00 cancelled", "10:02:01 running"]);
}

#[test]
fn a_one_shot_that_fired_still_runs_when_its_words_are_changed() {
    let mut desk = Desk::new();
    desk.ready().container = None;
    let once = JobSpec::new(TriggerSpec::OneShot { at: at("10:05:00"), timezone: None });
    let job = desk.job("once", once, "10:00:00");
    desk.tick(at("10:05:00"));
    desk.change(job, "10:05:01", |row| row.spec.description = "in other words".into());
    desk.ready().container = Some("c".into());
    assert_eq!(desk.tick(at("10:05:02")).leased.len(), 1);
}

#[test]
fn of_a_job_that_is_deleted_nothing_starts_and_nothing_is_tried_again() {
    let mut desk = Desk::new();
    let job = desk.job("j", JobSpec { overlap: Overlap::Allow, retries: 1, ..minutely() }, "10:00:30");
    let running = desk.tick(at("10:01:00")).leased.remove(0);
    desk.ready().container = None;
    desk.tick(at("10:02:00"));
    desk.tx(|tx| jobs::remove(tx, job, at("10:02:01")).unwrap());
    desk.ready().container = Some("c".into());
    assert!(desk.tick(at("10:02:02")).leased.is_empty());
    let done = desk.finish(running.id, RunStatus::Lost, at("10:02:03"));
    assert_eq!(done.retry, None);
    assert_eq!(desk.history(), ["10:01:00 lost", "10:02:00 cancelled"]);
}

#[test]
fn a_run_that_never_started_is_not_put_back_when_its_job_is_disabled_or_deleted() {
    let mut desk = Desk::new();
    let made = ["a", "b"].map(|name| desk.job(name, minutely(), "10:00:30"));
    let leased = desk.tick(at("10:01:00")).leased;
    desk.pause(made[0], "10:01:01");
    desk.tx(|tx| jobs::remove(tx, made[1], at("10:01:01")).unwrap());
    for run in &leased {
        assert!(desk.tx(|tx| requeue(tx, run.id, at("10:01:02")).unwrap()));
    }
    assert_eq!(desk.history(), ["10:01:00 cancelled", "10:01:00 cancelled"]);
}

#[test]
fn the_fifth_failure_drops_what_waits() {
    let mut desk = Desk::new();
    let job = desk.job("j", JobSpec { overlap: Overlap::Allow, ..minutely() }, "10:00:30");
    let mut failing = Vec::new();
    for minute in 1..=4 {
        failing.extend(desk.tick(at(&format!("10:0{minute}:00"))).leased);
    }
    desk.limits.max_running = 4;
    desk.tick(at("10:05:00"));
    for run in &failing {
        desk.finish(run.id, RunStatus::Failed, at("10:05:01"));
    }
    let fifth = desk.tx(|tx| claim_manual(tx, job, 0, at("10:05:02"), &mut Tick::default())).unwrap();
    desk.tick(at("10:05:02"));
    assert!(desk.finish(fifth.id, RunStatus::Failed, at("10:05:03")).disabled);
    assert_eq!(desk.history()[4], "10:05:00 cancelled");
}

#[test]
fn of_several_outages_the_last_missed_time_runs_once() {
    let mut desk = Desk::new();
    desk.job("j", minutely(), "10:00:30");
    desk.ready().container = None;
    for hour in 11..14 {
        let back = at(&format!("{hour}:00:30"));
        desk.ready().alive_since = Some(back);
        desk.tick(back);
    }
    desk.ready().container = Some("c".into());
    let leased = desk.tick(at("13:00:40")).leased;
    assert_eq!(leased.iter().map(|r| r.scheduled_at).collect::<Vec<_>>(), [at("13:00:00")]);
    let accounted: u32 = desk.statuses().iter().map(|s| s.1).sum();
    assert_eq!(accounted, 180, "each of the minutes since 10:01 has one record");
}

#[test]
fn a_run_that_waited_too_long_is_in_nobodys_way() {
    let mut desk = Desk::new();
    let hourly = TriggerSpec::Cron { schedule: "0 * * * *".into(), timezone: "UTC".into() };
    let spec = JobSpec { missed_within: Some(Duration::from_secs(5400)), ..JobSpec::new(hourly) };
    desk.job("j", spec, "09:30:00");
    desk.ready().container = None;
    for hour in 10..=12 {
        desk.tick(at(&format!("{hour}:00:00")));
    }
    desk.ready().container = Some("c".into());
    assert_eq!(desk.tick(at("12:30:00")).leased[0].scheduled_at, at("12:00:00"));
    assert_eq!(desk.history(), ["10:00:00 skipped expired", "11:00:00 skipped overlap", "12:00:00 running"]);
}

#[test]
fn replacing_a_run_leaves_what_makes_up_for_each_missed_time() {
    let mut desk = Desk::new();
    let spec = JobSpec { missed: Missed::All, overlap: Overlap::Replace, ..minutely() };
    desk.job("j", spec, "10:00:30");
    desk.ready().alive_since = Some(at("10:03:30"));
    let first = desk.tick(at("10:03:30")).leased.remove(0);
    assert_eq!(desk.tick(at("10:04:00")).end[0].id, first.id);
    desk.finish(first.id, RunStatus::Cancelled, at("10:04:01"));
    let mut order = Vec::new();
    while let Some(run) = desk.tick(at("10:04:02")).leased.pop() {
        order.push(run.scheduled_at.strftime("%H:%M").to_string());
        desk.finish(run.id, RunStatus::Succeeded, at("10:04:02"));
    }
    assert_eq!(order, ["10:04", "10:02", "10:03"]);
}

#[test]
fn each_interval_counts_from_the_last_start_whatever_delayed_it() {
    let mut desk = Desk::new();
    let jitter = Duration::from_secs(40);
    let job = desk.job("j", JobSpec { jitter, ..interval("30m") }, "10:00:00");
    let first = desk.tick(at("11:00:00")).next.unwrap();
    let mut starts = vec![first];
    desk.tick(first);
    for _ in 0..3 {
        let run: i64 =
            desk.conn.query_row("SELECT id FROM run WHERE status = 'running'", [], |r| r.get(0)).unwrap();
        let last = *starts.last().unwrap();
        desk.finish(run, RunStatus::Succeeded, last + 1.minute());
        let next = desk.tick(last + 1.minute()).next.unwrap();
        assert_eq!(desk.tick(next).leased.len(), 1);
        starts.push(next);
    }
    assert!(starts.windows(2).all(|pair| pair[0] + 30.minutes() == pair[1]), "{starts:?}");
    // It waits for its agent.
    let run: i64 = desk.conn.query_row("SELECT max(id) FROM run", [], |r| r.get(0)).unwrap();
    desk.finish(run, RunStatus::Succeeded, starts[3] + 1.minute());
    desk.ready().container = None;
    desk.tick(starts[3] + 30.minutes());
    desk.ready().container = Some("c".into());
    let late = starts[3] + 47.minutes();
    assert_eq!(desk.tick(late).leased.len(), 1);
    assert_eq!(desk.tick(late).next, Some(late + 30.minutes()));
    assert!(desk.get(job).anchor < late);
}

#[test]
fn an_interval_that_missed_more_than_one_look_decides_accounts_for_all_of_it() {
    let mut desk = Desk::new();
    let spec = JobSpec { missed: Missed::All, overlap: Overlap::Allow, ..interval("1s") };
    desk.job("j", spec, "10:00:00");
    desk.ready().alive_since = Some(at("10:40:00.5"));
    while desk.tick(at("10:40:00.5")).next.is_some_and(|next| next <= at("10:40:00.5")) {}
    assert_eq!(desk.statuses().len(), 2_400);
}

#[test]
fn a_one_shot_that_comes_within_the_backoff_runs_at_its_end() {
    let mut desk = Desk::new();
    let once = JobSpec::new(TriggerSpec::OneShot { at: at("10:05:00"), timezone: None });
    let job = desk.job("once", once, "10:00:00");
    let asked = desk.tx(|tx| claim_manual(tx, job, 0, at("10:04:30"), &mut Tick::default())).unwrap();
    desk.tick(at("10:04:30"));
    desk.finish(asked.id, RunStatus::Failed, at("10:04:40"));
    let tick = desk.tick(at("10:05:00"));
    assert_eq!((tick.leased.len(), tick.next), (0, Some(at("10:05:40"))));
    assert_eq!(desk.tick(at("10:05:40")).leased.len(), 1);
    assert_eq!(desk.get(job).disabled_reason.as_deref(), Some(jobs::FIRED));
}

#[test]
fn the_only_slot_makes_up_for_missed_times_when_nothing_else_wants_it() {
    let mut desk = Desk::new();
    desk.limits.max_running = 1;
    desk.job("missed", minutely(), "10:00:30");
    desk.job("due", minutely(), "10:00:30");
    desk.ready().alive_since = Some(at("10:01:30"));
    let first = desk.tick(at("10:01:30")).leased.remove(0);
    assert_eq!(first.cause, Cause::CatchUp);
    desk.tick(at("10:02:00"));
    desk.finish(first.id, RunStatus::Succeeded, at("10:02:01"));
    let next = desk.tick(at("10:02:01")).leased.remove(0);
    assert_eq!((next.cause, next.scheduled_at), (Cause::Schedule, at("10:02:00")));
}

#[test]
fn a_limit_that_is_lowered_ends_nothing_and_starts_nothing_before_it_holds() {
    let mut desk = Desk::new();
    for n in 0..4 {
        desk.job(&format!("j{n}"), minutely(), "10:00:30");
    }
    let running = desk.tick(at("10:01:00")).leased;
    assert_eq!(running.len(), 4);
    desk.limits.max_running = 2;
    desk.job("late", minutely(), "10:01:30");
    for (n, run) in running.iter().enumerate() {
        let leased = desk.tick(at("10:02:00")).leased.len();
        assert_eq!(leased, usize::from(n > 2), "with {} running", 4 - n);
        desk.finish(run.id, RunStatus::Succeeded, at("10:02:01"));
    }
}

#[test]
fn an_event_is_heard_by_jobs_that_were_there_whatever_the_clock_says() {
    let mut desk = Desk::new();
    let raise = |desk: &mut Desk, now: &str| {
        desk.tx(|tx| events::append(tx, at(now), "report", &json!({})).unwrap());
    };
    raise(&mut desk, "10:00:00");
    let spec = JobSpec::new(TriggerSpec::Event { event: vec!["report".into()] });
    desk.job("j", spec, "10:00:00");
    assert!(desk.tick(at("10:00:01")).leased.is_empty(), "that was before its time");
    // The clock goes back.
    raise(&mut desk, "09:00:00");
    assert_eq!(desk.tick(at("09:00:01")).leased.len(), 1);
}
