//! What may happen to a hive, and how often the test lets it happen.

use proptest::prelude::*;

use super::*;

/// A kind of job.
#[derive(Debug, Clone)]
pub struct Plan {
    pub agent: usize,
    pub trigger: Kind,
    pub missed: Missed,
    pub within: Option<u64>,
    pub overlap: Overlap,
    pub retries: u32,
    pub jitter: u64,
}

/// Triggers that come often enough to be met.
#[derive(Debug, Clone, Copy)]
pub enum Kind {
    Cron(&'static str, &'static str),
    Every(&'static str),
    Once(i64),
    Event(&'static str),
    Manual,
}

impl Plan {
    pub fn spec(&self, now: Timestamp) -> JobSpec {
        let trigger = match self.trigger {
            Kind::Cron(schedule, timezone) => {
                TriggerSpec::Cron { schedule: schedule.into(), timezone: timezone.into() }
            }
            Kind::Every(every) => TriggerSpec::Interval { every: every.into() },
            Kind::Once(seconds) => TriggerSpec::OneShot { at: now + seconds.seconds(), timezone: None },
            Kind::Event(name) => TriggerSpec::Event { event: vec![name.into()] },
            Kind::Manual => TriggerSpec::Manual,
        };
        JobSpec {
            missed: self.missed,
            missed_within: self.within.map(Duration::from_secs),
            overlap: self.overlap,
            retries: self.retries,
            jitter: Duration::from_secs(self.jitter),
            ..JobSpec::new(trigger)
        }
    }
}

/// What happens. A number picks one of those that there are.
#[derive(Debug, Clone)]
pub enum Op {
    Add(Plan),
    Edit(usize, Plan),
    Pause(usize),
    Resume(usize),
    Delete(usize),
    /// So many seconds pass, and the driver looks.
    Pass(i64),
    /// As [`Self::Pass`], but nobody noticed them passing.
    Sleep(i64),
    /// The clock is set.
    Step(i64),
    Tick,
    Finish(usize, RunStatus),
    Requeue(usize),
    Cancel(usize),
    Manual(usize),
    Raise(&'static str),
    Halt(Option<usize>),
    Lift(Option<usize>),
    Container(usize, bool),
    /// An agent leaves the hive, or comes back.
    Member(usize, bool),
    Limits(u32, u32),
    /// What ended so many seconds ago leaves the history.
    Prune(i64),
    /// The supervisor is killed, maybe in the middle of something, and starts again.
    Crash(Option<Box<Op>>),
}

pub fn plan() -> impl Strategy<Value = Plan> {
    let kind = prop_oneof![
        6 => prop::sample::select(vec![
            Kind::Cron("* * * * *", "UTC"),
            Kind::Cron("*/5 * * * *", "Europe/Berlin"),
            Kind::Cron("30 2 * * *", "Europe/Berlin"),
            Kind::Cron("0,30 * * * *", "Australia/Lord_Howe"),
            Kind::Cron("20,50 * * * * *", "UTC"),
        ]),
        4 => prop::sample::select(vec![Kind::Every("30s"), Kind::Every("7m"), Kind::Every("1h")]),
        2 => (0..900_i64).prop_map(Kind::Once),
        1 => prop::sample::select(vec![Kind::Event("ping"), Kind::Event("p*")]),
        1 => Just(Kind::Manual),
    ];
    let missed = prop::sample::select(vec![Missed::Skip, Missed::Last, Missed::Last, Missed::All]);
    let overlap = prop::sample::select(vec![
        Overlap::Skip,
        Overlap::Skip,
        Overlap::Queue,
        Overlap::Replace,
        Overlap::Allow,
    ]);
    let within = prop::option::weighted(0.3, prop::sample::select(vec![60_u64, 400, 4_000]));
    let jitter = prop_oneof![3 => Just(0_u64), 1 => Just(25)];
    (0..2_usize, kind, missed, within, overlap, 0..3_u32, jitter).prop_map(
        |(agent, trigger, missed, within, overlap, retries, jitter)| Plan {
            agent,
            trigger,
            missed,
            within,
            overlap,
            retries,
            jitter,
        },
    )
}

fn seconds() -> impl Strategy<Value = i64> {
    prop_oneof![6 => 0..90_i64, 3 => 60..1_000_i64, 1 => 1_000..9_000_i64]
}

fn simple() -> BoxedStrategy<Op> {
    let pick = || 0..64_usize;
    let outcome = prop_oneof![
        4 => Just(RunStatus::Succeeded),
        5 => Just(RunStatus::Failed),
        1 => Just(RunStatus::TimedOut),
        2 => Just(RunStatus::Lost),
    ];
    let agent = || prop_oneof![3 => (0..2_usize).prop_map(Some), 1 => Just(None)];
    prop_oneof![
        8 => plan().prop_map(Op::Add),
        2 => (pick(), plan()).prop_map(|(n, plan)| Op::Edit(n, plan)),
        2 => pick().prop_map(Op::Pause),
        4 => pick().prop_map(Op::Resume),
        1 => pick().prop_map(Op::Delete),
        30 => seconds().prop_map(Op::Pass),
        4 => seconds().prop_map(Op::Sleep),
        4 => (seconds(), any::<bool>()).prop_map(|(s, back)| Op::Step(if back { -s } else { s })),
        10 => Just(Op::Tick),
        30 => (pick(), outcome).prop_map(|(n, status)| Op::Finish(n, status)),
        3 => pick().prop_map(Op::Requeue),
        3 => pick().prop_map(Op::Cancel),
        6 => pick().prop_map(Op::Manual),
        4 => prop::sample::select(vec!["ping", "pong", "other"]).prop_map(Op::Raise),
        1 => agent().prop_map(Op::Halt),
        3 => agent().prop_map(Op::Lift),
        4 => (0..2_usize, prop::bool::weighted(0.7)).prop_map(|(n, there)| Op::Container(n, there)),
        2 => (0..2_usize, prop::bool::weighted(0.7)).prop_map(|(n, there)| Op::Member(n, there)),
        2 => (1..6_u32, 1..4_u32).prop_map(|(all, each)| Op::Limits(all, each)),
        1 => seconds().prop_map(Op::Prune),
    ]
    .boxed()
}

pub fn op() -> BoxedStrategy<Op> {
    let during = prop::option::of(simple().prop_map(Box::new));
    prop_oneof![14 => simple(), 1 => during.prop_map(Op::Crash)].boxed()
}
