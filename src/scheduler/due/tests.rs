use jiff::ToSpan;

use super::*;
use crate::scheduler::job::TriggerSpec;

fn at(text: &str) -> Timestamp {
    format!("2026-03-02T{text}Z").parse().unwrap()
}

/// Every minute of UTC.
fn every_minute() -> JobSpec {
    JobSpec::new(TriggerSpec::Cron { schedule: "* * * * *".into(), timezone: "UTC".into() })
}

struct Case {
    spec: JobSpec,
    next: &'static str,
    alive: &'static str,
    now: &'static str,
    backoff: Option<&'static str>,
    running: u32,
    waiting: u32,
    decided: Decided,
}

impl Default for Case {
    fn default() -> Self {
        Self {
            spec: every_minute(),
            next: "10:00:00",
            alive: "00:00:00",
            now: "10:00:00",
            backoff: None,
            running: 0,
            waiting: 0,
            decided: Decided::default(),
        }
    }
}

impl Case {
    fn plan(&self) -> Plan {
        let trigger = self.spec.trigger.compile().unwrap();
        let job = DueJob {
            spec: &self.spec,
            trigger: &trigger,
            anchor: at("09:00:00"),
            next: Fire { at: at(self.next), shifted_from: None },
            offset: jitter_offset("a", "j", self.spec.jitter),
            backoff_until: self.backoff.map(at),
            active: Active { running: self.running, waiting: self.waiting },
            decided: &self.decided,
        };
        plan(&job, at(self.alive), at(self.now))
    }
}

fn claims(plan: &Plan) -> Vec<(String, Cause)> {
    plan.claims.iter().map(|c| (c.at.strftime("%H:%M").to_string(), c.cause)).collect()
}

fn skips(plan: &Plan) -> Vec<(String, String, usize, SkipReason)> {
    let hm = |t: Timestamp| t.strftime("%H:%M").to_string();
    plan.skips.iter().map(|s| (hm(s.from), hm(s.until), s.count, s.reason)).collect()
}

fn hm(text: &str) -> String {
    text.to_owned()
}

#[test]
fn a_fire_time_that_has_come_is_claimed_and_the_next_one_follows() {
    let plan = Case::default().plan();
    assert_eq!(claims(&plan), [(hm("10:00"), Cause::Schedule)]);
    assert!(plan.skips.is_empty());
    assert_eq!(plan.next.unwrap().at, at("10:01:00"));
    let early = Case { now: "09:59:59", ..Case::default() }.plan();
    assert!(early.claims.is_empty());
    assert_eq!(early.next.unwrap().at, at("10:00:00"));
}

#[test]
fn of_missed_times_the_last_runs_by_default_and_the_others_are_recorded() {
    let case = Case { alive: "12:00:30", now: "12:00:31", ..Case::default() };
    let plan = case.plan();
    assert_eq!(claims(&plan), [(hm("12:00"), Cause::CatchUp)]);
    assert_eq!(skips(&plan), [(hm("10:00"), hm("11:59"), 120, SkipReason::Missed)]);
}

#[test]
fn missed_times_are_skipped_or_all_run_as_the_job_says() {
    let case = |missed| Case {
        spec: JobSpec { missed, ..every_minute() },
        alive: "10:02:30",
        now: "10:02:31",
        ..Case::default()
    };
    let skip = case(Missed::Skip).plan();
    assert!(skip.claims.is_empty());
    assert_eq!(skip.skips.len(), 3, "a few are recorded one by one");
    assert_eq!(skip.next.unwrap().at, at("10:03:00"));
    let all = case(Missed::All).plan();
    let expected = ["10:00", "10:01", "10:02"].map(|t| (hm(t), Cause::CatchUp));
    assert_eq!(claims(&all), expected);
}

#[test]
fn a_missed_time_that_is_too_old_expires() {
    let spec =
        JobSpec { missed: Missed::All, missed_within: Some(Duration::from_secs(90)), ..every_minute() };
    let plan = Case { spec, alive: "10:03:30", now: "10:03:30", ..Case::default() }.plan();
    assert_eq!(claims(&plan), ["10:02", "10:03"].map(|t| (hm(t), Cause::CatchUp)));
    assert!(skips(&plan).iter().all(|s| s.3 == SkipReason::Expired));
    assert_eq!(plan.skips.len(), 2);
}

#[test]
fn what_comes_on_time_makes_up_for_the_last_missed_one() {
    let plan = Case { alive: "10:01:30", now: "10:02:00", ..Case::default() }.plan();
    assert_eq!(claims(&plan), [(hm("10:02"), Cause::Schedule)]);
    assert_eq!(plan.skips.len(), 2);
}

#[test]
fn a_year_of_missed_times_is_decided_in_batches_and_only_the_last_one_runs() {
    let end = at("10:00:00") + (365 * 24).hours();
    let mut next = Fire { at: at("10:00:00"), shifted_from: None };
    let spec = every_minute();
    let trigger = spec.trigger.compile().unwrap();
    let (mut claimed, mut skipped) = (0, 0);
    loop {
        let job = DueJob {
            spec: &spec,
            trigger: &trigger,
            anchor: at("09:00:00"),
            next,
            offset: Duration::ZERO,
            backoff_until: None,
            active: Active::default(),
            decided: &Decided::default(),
        };
        let plan = plan(&job, end, end);
        claimed += plan.claims.len();
        skipped += plan.skips.iter().map(|s| s.count).sum::<usize>();
        next = plan.next.unwrap();
        if next.at > end {
            break;
        }
    }
    assert_eq!((claimed, claimed + skipped), (1, 365 * 24 * 60 + 1));
}

#[test]
fn fire_times_within_the_backoff_are_skipped_and_the_one_at_its_end_runs() {
    let case = |now| Case { backoff: Some("10:02:00"), now, ..Case::default() };
    assert_eq!(
        skips(&case("10:01:00").plan()),
        [
            (hm("10:00"), hm("10:00"), 1, SkipReason::Backoff),
            (hm("10:01"), hm("10:01"), 1, SkipReason::Backoff)
        ]
    );
    assert_eq!(claims(&case("10:02:00").plan()), [(hm("10:02"), Cause::Schedule)]);
}

#[test]
fn the_overlap_policy_decides_while_a_run_is_not_over() {
    let case = |overlap, running, waiting| {
        let spec = JobSpec { overlap, ..every_minute() };
        let plan = Case { spec, running, waiting, ..Case::default() }.plan();
        (plan.claims.len(), plan.skips.len(), plan.replace)
    };
    assert_eq!(case(Overlap::Skip, 1, 0), (0, 1, false));
    assert_eq!(case(Overlap::Skip, 0, 1), (0, 1, false));
    assert_eq!(case(Overlap::Queue, 1, 0), (1, 0, false));
    assert_eq!(case(Overlap::Queue, 1, 1), (0, 1, false));
    assert_eq!(case(Overlap::Replace, 1, 0), (1, 0, true));
    assert_eq!(case(Overlap::Allow, 3, 9), (1, 0, false));
}

#[test]
fn an_interval_counts_from_the_last_start() {
    let spec = JobSpec::new(TriggerSpec::Interval { every: "30m".into() });
    let on_time = Case { spec: spec.clone(), next: "10:00:00", now: "10:00:02", ..Case::default() }.plan();
    assert_eq!(on_time.anchor, at("10:00:00"), "an on-time start does not drift");
    assert_eq!(on_time.next.unwrap().at, at("10:30:00"));
    let late = Case { spec, next: "10:00:00", alive: "11:45:00", now: "11:45:00", ..Case::default() }.plan();
    assert_eq!(claims(&late), [(hm("11:30"), Cause::CatchUp)]);
    assert_eq!(late.next.unwrap().at, at("12:15:00"));
}

#[test]
fn an_interval_counts_from_a_start_that_made_up_for_missed_times_only_when_none_is_left() {
    let every = |missed| JobSpec {
        missed,
        overlap: Overlap::Allow,
        ..JobSpec::new(TriggerSpec::Interval { every: "1s".into() })
    };
    let case = Case { spec: every(Missed::All), alive: "11:00:00", now: "11:00:00", ..Case::default() };
    let plan = case.plan();
    assert_eq!((plan.claims.len(), plan.anchor), (BATCH, at("09:00:00")));
    assert_eq!(plan.next.unwrap().at, at("10:16:40"), "the next of the missed ones");
}

#[test]
fn jitter_does_not_make_an_interval_longer() {
    let jitter = Duration::from_secs(30);
    let spec = JobSpec { jitter, ..JobSpec::new(TriggerSpec::Interval { every: "30m".into() }) };
    let offset = jitter_offset("a", "j", jitter);
    let late = Case { spec, alive: "11:45:00", now: "11:45:00", ..Case::default() }.plan();
    assert_eq!(put_off(late.next.unwrap().at, offset), at("12:15:00"));
}

#[test]
fn what_was_decided_before_is_neither_claimed_nor_recorded_again() {
    let times = BTreeSet::from([at("10:01:00")]);
    let decided = Decided { times, spans: vec![(at("10:03:00"), at("10:20:00"))] };
    let spec = JobSpec { overlap: Overlap::Allow, ..every_minute() };
    let plan = Case { spec, decided, now: "10:21:30", ..Case::default() }.plan();
    let expected = ["10:00", "10:02", "10:21"].map(|t| (hm(t), Cause::Schedule));
    assert_eq!((claims(&plan), skips(&plan), plan.looked_at), (expected.to_vec(), vec![], 22));
    assert_eq!(plan.next.unwrap().at, at("10:22:00"));
}

#[test]
fn one_run_makes_up_for_missed_times_as_the_overlap_policy_lets_it() {
    let case = |missed, overlap, running, waiting| {
        let spec = JobSpec { missed, overlap, ..every_minute() };
        let case =
            Case { spec, running, waiting, alive: "10:02:30", now: "10:02:30", ..Case::default() }.plan();
        (case.claims.len(), case.replace, case.supersede)
    };
    assert_eq!(case(Missed::Last, Overlap::Skip, 0, 0), (1, false, true));
    assert_eq!(case(Missed::Last, Overlap::Skip, 1, 0), (0, false, false));
    assert_eq!(case(Missed::Last, Overlap::Queue, 1, 0), (1, false, true));
    assert_eq!(case(Missed::Last, Overlap::Queue, 1, 1), (0, false, false));
    assert_eq!(case(Missed::Last, Overlap::Replace, 1, 0), (1, true, true));
    assert_eq!(case(Missed::Last, Overlap::Allow, 1, 1), (1, false, true));
    assert_eq!(case(Missed::All, Overlap::Skip, 1, 0), (3, false, false), "each of them runs");
}

#[test]
fn a_one_shot_that_comes_within_the_backoff_is_tried_at_its_end() {
    let spec = JobSpec::new(TriggerSpec::OneShot { at: at("10:00:00"), timezone: None });
    let plan = Case { spec, backoff: Some("10:04:00"), ..Case::default() }.plan();
    assert_eq!(skips(&plan), [(hm("10:00"), hm("10:00"), 1, SkipReason::Backoff)]);
    assert_eq!(plan.next.unwrap().at, at("10:04:00"));
}

#[test]
fn a_one_shot_fires_once_also_when_its_time_is_finer_than_what_is_stored() {
    let spec = JobSpec::new(TriggerSpec::OneShot { at: at("10:00:00.0004"), timezone: None });
    let plan = Case { spec, ..Case::default() }.plan();
    assert_eq!((plan.claims.len(), plan.next), (1, None));
}

#[test]
fn an_overdue_one_shot_fires_once_however_old() {
    let spec = JobSpec::new(TriggerSpec::OneShot { at: at("10:00:00"), timezone: None });
    let trigger = spec.trigger.compile().unwrap();
    let job = DueJob {
        spec: &spec,
        trigger: &trigger,
        anchor: at("09:00:00"),
        next: Fire { at: at("10:00:00"), shifted_from: None },
        offset: Duration::ZERO,
        backoff_until: None,
        active: Active::default(),
        decided: &Decided::default(),
    };
    let now = at("10:00:00") + (90 * 24).hours();
    let plan = plan(&job, now, now);
    assert_eq!(plan.claims.len(), 1);
    assert_eq!((plan.next, plan.skips.len()), (None, 0));
}

#[test]
fn jitter_puts_each_job_off_by_a_part_that_stays_the_same() {
    let most = Duration::from_secs(30);
    let offsets: Vec<Duration> = (0..200).map(|n| jitter_offset("a", &format!("job {n}"), most)).collect();
    assert!(offsets.iter().all(|o| *o < most));
    assert_eq!(offsets[3], jitter_offset("a", "job 3", most));
    let late = offsets.iter().filter(|o| **o >= most / 2).count();
    assert!((60..140).contains(&late), "{late} of 200 lie in the later half");
    let spec = JobSpec { jitter: most, ..every_minute() };
    let offset = jitter_offset("a", "j", most);
    assert!(offset > Duration::ZERO);
    assert!(Case { spec, ..Case::default() }.plan().claims.is_empty(), "its time comes later");
}
