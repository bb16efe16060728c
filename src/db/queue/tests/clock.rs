//! The clock goes forward and back: nothing fires twice, and nothing waits for a time that was withdrawn.

use jiff::Span;

use super::*;

impl Desk {
    fn step_to(&mut self, now: Timestamp) -> usize {
        for ready in self.agents.values_mut() {
            ready.alive_since = Some(now);
        }
        let tx = self.conn.transaction().unwrap();
        let changed = realign(&tx, now).unwrap();
        tx.commit().unwrap();
        changed
    }

    /// Ticks as the timer says until `until`, each run succeeding at once; answers the fire times that ran.
    fn drive(&mut self, from: Timestamp, until: Timestamp) -> Vec<Timestamp> {
        let (mut now, mut ran, mut looks) = (from, Vec::new(), 0);
        while now <= until {
            looks += 1;
            assert!(looks < 2_000, "it looks again and again at {now}: {:?}", self.history());
            let mut tick = self.tick(now);
            while !tick.leased.is_empty() {
                for run in std::mem::take(&mut tick.leased) {
                    ran.push(run.scheduled_at);
                    self.finish(run.id, RunStatus::Succeeded, now);
                }
                tick = self.tick(now);
            }
            now = tick.next.unwrap_or(Timestamp::MAX).max(now);
        }
        ran
    }

    /// Fire times that are not accounted for exactly once, of the minutes from 10:01 until `until`.
    fn unaccounted(&self, until: &str) -> Vec<Timestamp> {
        let runs = crate::db::runs::rows(&self.conn, "", []).unwrap();
        let (own, bulk): (Vec<_>, Vec<_>) = runs.iter().partition(|r| r.skipped.is_none());
        let counted: u32 = bulk.iter().filter_map(|r| r.skipped).map(|(count, _)| count).sum();
        let expected = minutes("10:01:00", until);
        assert_eq!(own.len() + counted as usize, expected.len());
        let once = |at: Timestamp| {
            let spans = bulk.iter().filter(|r| r.scheduled_at <= at && at <= r.skipped.unwrap().1).count();
            match own.iter().filter(|r| r.scheduled_at == at).count() {
                0 => spans == 1,
                n => n == 1,
            }
        };
        expected.into_iter().filter(|at| !once(*at)).collect()
    }
}

fn minutes(from: &str, until: &str) -> Vec<Timestamp> {
    let (mut now, mut all) = (at(from), Vec::new());
    while now <= at(until) {
        all.push(now);
        now += 1.minute();
    }
    all
}

#[test]
fn an_hour_back_fires_nothing_twice_and_then_goes_on() {
    let mut desk = Desk::new();
    let job = desk.job("j", minutely(), "10:00:30");
    assert_eq!(desk.drive(at("10:00:30"), at("11:30:30")), minutes("10:01:00", "11:30:00"));
    assert_eq!(desk.step_to(at("10:30:30")), 1);
    assert_eq!(desk.get(job).next.unwrap().at, at("10:31:00"));
    assert_eq!(desk.drive(at("10:30:30"), at("11:32:30")), minutes("11:31:00", "11:32:00"));
    assert_eq!(desk.unaccounted("11:32:30"), []);
}

#[test]
fn weeks_forward_and_back_cost_one_run_and_no_later_one() {
    let mut desk = Desk::new();
    let ahead = |text: &str| {
        at(text).to_zoned(jiff::tz::TimeZone::UTC).checked_add(Span::new().days(20)).unwrap().timestamp()
    };
    desk.job("j", minutely(), "10:00:30");
    let hourly = TriggerSpec::Interval { every: "1h".into() };
    let every = desk.job("i", JobSpec::new(hourly), "10:00:30");
    desk.drive(at("10:00:30"), at("10:05:30"));
    desk.step_to(ahead("10:05:30"));
    let ran = desk.drive(ahead("10:05:30"), ahead("10:06:30"));
    assert_eq!(ran.iter().filter(|t| t.strftime("%S").to_string() == "00").count(), 2, "{ran:?}");
    assert_eq!(ran.len(), 3, "the interval made up for one");
    assert_eq!(desk.step_to(at("10:06:30")), 2);
    assert_eq!(desk.get(every).next.unwrap().at, at("11:06:30"));
    assert_eq!(desk.drive(at("10:06:30"), at("10:20:30")), minutes("10:07:00", "10:20:00"));
    let skipped: u32 = desk.statuses().iter().filter(|s| s.0 == RunStatus::Skipped).map(|s| s.1).sum();
    assert_eq!(skipped, 1, "only 10:06 came and went while the clock was wrong");
    assert_eq!(desk.step_to(at("10:20:30")), 0, "once is enough");
}

#[test]
fn a_record_that_stands_for_many_is_cut_where_the_clock_goes_back() {
    let mut desk = Desk::new();
    desk.job("j", JobSpec { missed: Missed::Skip, ..minutely() }, "10:00:30");
    desk.ready_since("14:00:30");
    desk.drive(at("14:00:30"), at("14:03:30"));
    assert_eq!(desk.statuses()[0], (RunStatus::Skipped, 240));
    desk.step_to(at("12:30:30"));
    assert_eq!(desk.statuses()[0], (RunStatus::Skipped, 150));
    let ran = desk.drive(at("12:30:30"), at("14:05:30"));
    assert_eq!(ran.len(), 92, "14:01 to 14:03 ran before");
    assert_eq!(desk.unaccounted("14:05:30"), []);
}

#[test]
fn a_backoff_and_a_retry_that_were_noted_ahead_come_nearer() {
    let mut desk = Desk::new();
    let failing = desk.job("f", JobSpec { overlap: Overlap::Queue, ..minutely() }, "10:00:30");
    let once = JobSpec::new(TriggerSpec::OneShot { at: at("15:00:00"), timezone: None });
    let once = desk.job("once", once, "10:00:30");
    let retried = desk.job("r", JobSpec { retries: 1, ..JobSpec::new(TriggerSpec::Manual) }, "10:00:30");
    let noon = at("15:00:00");
    desk.ready_since("15:00:00");
    desk.tx_manual(retried, noon);
    for run in desk.tick(noon).leased {
        desk.finish(run.id, RunStatus::Failed, noon);
    }
    desk.step_to(at("11:00:30"));
    assert_eq!(desk.get(failing).backoff_until, Some(at("11:01:30")));
    assert_eq!(desk.get(once).next.unwrap().at, at("11:01:30"));
    let ran = desk.drive(at("11:00:30"), at("11:03:00"));
    // The retry first; the minutely job once its backoff is over; the one-shot.
    assert_eq!(ran, [at("15:00:00"), at("11:01:30"), at("11:02:00"), at("11:03:00")]);
}

#[test]
fn what_is_no_longer_in_the_history_does_not_fire_again_either() {
    let mut desk = Desk::new();
    let job = desk.job("j", minutely(), "10:00:30");
    desk.drive(at("10:00:30"), at("12:00:30"));
    let tx = desk.conn.transaction().unwrap();
    assert_eq!(crate::db::runs::prune(&tx, at("11:30:30"), 1_000).unwrap(), 90);
    tx.commit().unwrap();
    desk.step_to(at("10:30:30"));
    assert_eq!(desk.get(job).next.unwrap().at, at("11:31:00"));
    assert_eq!(desk.drive(at("10:30:30"), at("12:01:30")), [at("12:01:00")]);
}

#[test]
fn a_clock_that_was_not_set_yet_changes_nothing() {
    let mut desk = Desk::new();
    let job = desk.job("j", minutely(), "10:00:30");
    let before = desk.get(job);
    assert_eq!(desk.step_to("1970-01-01T00:00:10Z".parse().unwrap()), 0);
    assert!(desk.tick("1970-01-01T00:00:10Z".parse().unwrap()).leased.is_empty());
    assert_eq!(desk.get(job), before);
}

#[test]
fn every_job_is_brought_nearer_also_when_there_are_more_than_one_look_takes() {
    let mut desk = Desk::new();
    let daily = TriggerSpec::Cron { schedule: "0 9 * * *".into(), timezone: "Europe/Berlin".into() };
    let tx = desk.conn.transaction().unwrap();
    for n in 0..1_100 {
        let new = NewJob {
            agent: "a".parse().unwrap(),
            name: format!("j{n}"),
            origin: Origin::Api,
            spec: JobSpec::new(daily.clone()),
            disabled_reason: None,
            auto_enable: false,
            next: Some(crate::scheduler::trigger::Fire { at: at("23:00:00"), shifted_from: None }),
        };
        jobs::insert(&tx, &new, at("00:00:00")).unwrap();
    }
    tx.commit().unwrap();
    assert_eq!(desk.step_to(at("07:00:00")), 1_100);
    assert_eq!(desk.step_to(at("07:00:00")), 0);
}

impl Desk {
    fn ready_since(&mut self, since: &str) {
        self.agents.values_mut().next().unwrap().alive_since = Some(at(since));
    }

    fn tx_manual(&mut self, job: i64, now: Timestamp) {
        let tx = self.conn.transaction().unwrap();
        claim_manual(&tx, job, 0, now, &mut Tick::default()).unwrap();
        tx.commit().unwrap();
    }
}

#[test]
fn what_was_missed_stays_counted_by_its_own_interval_when_the_job_was_edited_before_the_clock_went_back() {
    let mut desk = Desk::new();
    let every = |text: &str| JobSpec {
        missed: Missed::Skip,
        overlap: Overlap::Skip,
        ..JobSpec::new(TriggerSpec::Interval { every: text.into() })
    };
    let job = desk.job("j", every("30s"), "10:00:00");
    // One look after six minutes: one of twelve times runs, eleven are in one record.
    desk.tick(at("10:06:00"));
    let bulk = |desk: &Desk| {
        let runs = crate::db::runs::rows(&desk.conn, "", []).unwrap();
        runs.iter().find_map(|run| Some((run.scheduled_at, run.skipped?)))
    };
    let (from, (count, until)) = bulk(&desk).unwrap();
    assert!(count > 5 && until > from);
    let mut row = desk.get(job);
    (row.spec, row.anchor) = (every("7m"), at("10:06:00"));
    row.next = row.spec.trigger.compile().unwrap().next(at("10:06:00"), at("10:06:00"));
    let tx = desk.conn.transaction().unwrap();
    jobs::update(&tx, &row, "job:updated", at("10:06:00")).unwrap();
    tx.commit().unwrap();
    desk.step_to(at("10:03:10"));
    let (still_from, (left, last)) = bulk(&desk).unwrap();
    let expected = (1..count).map(|n| from + 30.seconds() * i64::from(n)).filter(|t| *t <= at("10:03:10"));
    assert_eq!((still_from, last), (from, expected.clone().max().unwrap()));
    assert_eq!(left as usize, 1 + expected.count());
}
