//! What is done about the fire times of a job that have come (scheduling.md: missed, overlap, backoff).
//!
//! Pure: told the job, the time and what is still running, it answers what to claim and what to skip. It does not
//! know slots, leases or agents.

use std::{collections::BTreeSet, iter, time::Duration};

use jiff::{Timestamp, civil};
use sha2::{Digest as _, Sha256};

use super::{
    job::{JobSpec, Missed, Overlap},
    trigger::{Fire, Trigger},
};
use crate::runs::state::{Cause, SkipReason};

/// Fire times that are decided in one go; what is left comes with the next look.
pub const BATCH: usize = 1_000;
/// More skips of one reason than this are recorded as one row.
const BULK: usize = 10;

/// A job whose next fire time has come.
#[derive(Debug, Clone)]
pub struct DueJob<'a> {
    /// What it is.
    pub spec: &'a JobSpec,
    /// Its trigger, compiled.
    pub trigger: &'a Trigger,
    /// What an interval counts from: the last start, or its creation.
    pub anchor: Timestamp,
    /// Its next fire time.
    pub next: Fire,
    /// What each of its fire times is put off by.
    pub offset: Duration,
    /// Nothing starts before, after failures.
    pub backoff_until: Option<Timestamp>,
    /// Its runs that are not over.
    pub active: Active,
    /// Fire times from `next` on that were decided before: there are some after the clock went back.
    pub decided: &'a Decided,
}

/// How many runs of a job are not over; what counts is whether there are any of a kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Active {
    /// That run, or wait for their next attempt.
    pub running: u32,
    /// That wait for their first start, without those that make up for missed times: they yield to what is due now.
    pub waiting: u32,
}

/// Fire times that have a run, or were recorded as skipped.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Decided {
    /// One by one.
    pub times: BTreeSet<Timestamp>,
    /// In bulk: from the first to the last.
    pub spans: Vec<(Timestamp, Timestamp)>,
}

impl Decided {
    fn holds(&self, at: Timestamp) -> bool {
        self.times.contains(&at) || self.spans.iter().any(|(from, until)| (*from..=*until).contains(&at))
    }
}

/// A fire time to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// When it was to fire.
    pub at: Timestamp,
    /// The wall-clock time that a clock change left out.
    pub shifted_from: Option<civil::DateTime>,
    /// On time, or made up for.
    pub cause: Cause,
}

/// One fire time, or several in a row, not to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skip {
    /// The first.
    pub from: Timestamp,
    /// The last.
    pub until: Timestamp,
    /// How many.
    pub count: usize,
    /// Why.
    pub reason: SkipReason,
}

/// What to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// To run, in order.
    pub claims: Vec<Claim>,
    /// To record.
    pub skips: Vec<Skip>,
    /// What still runs or waits of this job is ended first, but for what waits to make up for missed times.
    pub replace: bool,
    /// What waits to make up for earlier missed times is no longer the last: it is recorded as missed.
    pub supersede: bool,
    /// The fire time after these; it may have come too.
    pub next: Option<Fire>,
    /// What an interval counts from now.
    pub anchor: Timestamp,
    /// Fire times that were looked at.
    pub looked_at: usize,
}

/// Decides about the fire times of a job that have come by `now`. Those before `alive_since` are missed: the
/// supervisor was down, the agent halted or the machine asleep.
#[must_use]
pub fn plan(job: &DueJob<'_>, alive_since: Timestamp, now: Timestamp) -> Plan {
    let Come { fires, looked_at, next } = come(job, now);
    let due = |fire: &Fire| put_off(fire.at, job.offset);
    let missed = fires.partition_point(|fire| due(fire) < alive_since);
    let (missed, current) = fires.split_at(missed);
    // More has come than fits one look, so that none of these is the last.
    let last = next.as_ref().is_none_or(|next| due(next) > now);
    let plan = Plan {
        claims: Vec::new(),
        skips: Vec::new(),
        replace: false,
        supersede: false,
        next,
        anchor: job.anchor,
        looked_at,
    };
    let mut desk = Desk { job, now, plan, active: job.active };
    desk.missed(missed, last && current.is_empty());
    for fire in current {
        desk.current(fire);
    }
    let mut plan = desk.plan;
    plan.supersede =
        job.spec.missed == Missed::Last && plan.claims.iter().any(|claim| claim.cause == Cause::CatchUp);
    match (job.trigger, job.backoff_until, plan.claims.last()) {
        (Trigger::Interval(_), _, claim) if last => {
            plan.anchor = match (claim.map(|claim| claim.cause), fires.last()) {
                (None, _) => job.anchor,
                (Some(Cause::Schedule), Some(fire)) => fire.at,
                (Some(_), _) => before(now, job.offset),
            };
            plan.next = job.trigger.next(plan.anchor, before(now, job.offset).max(plan.anchor));
        }
        // A one-shot has no next fire time: it is tried when the backoff ends.
        (Trigger::OneShot(_), Some(until), None)
            if plan.skips.iter().any(|skip| skip.reason == SkipReason::Backoff) =>
        {
            plan.next = Some(Fire { at: until, shifted_from: None });
        }
        _ => {}
    }
    plan.skips = gathered(plan.skips);
    plan
}

struct Come {
    fires: Vec<Fire>,
    looked_at: usize,
    next: Option<Fire>,
}

/// The fire times that have come and are not decided, and the one after them.
fn come(job: &DueJob<'_>, now: Timestamp) -> Come {
    let mut come = Come { fires: Vec::new(), looked_at: 0, next: Some(job.next.clone()) };
    let mut later = match job.trigger {
        // Whatever it says: it may name its time more exactly than the database.
        Trigger::OneShot(_) => Box::new(iter::empty()),
        // What it counts from may have changed since these were noted.
        Trigger::Interval(_) => job.trigger.after(job.next.at, job.next.at),
        trigger => trigger.after(job.anchor, job.next.at),
    };
    while come.looked_at < BATCH
        && let Some(fire) = come.next.take_if(|fire| put_off(fire.at, job.offset) <= now)
    {
        come.looked_at += 1;
        come.next = later.next();
        if !job.decided.holds(fire.at) {
            come.fires.push(fire);
        }
    }
    come
}

struct Desk<'a> {
    job: &'a DueJob<'a>,
    now: Timestamp,
    plan: Plan,
    active: Active,
}

impl Desk<'_> {
    fn missed(&mut self, fires: &[Fire], last_runs: bool) {
        for (n, fire) in fires.iter().enumerate() {
            let wanted = match self.job.spec.missed {
                Missed::Skip => false,
                Missed::Last => last_runs && n + 1 == fires.len(),
                Missed::All => true,
            };
            let too_old =
                self.job.spec.missed_limit().is_some_and(|limit| put_off(fire.at, limit) < self.now);
            if !wanted {
                self.skip(fire, SkipReason::Missed);
            } else if too_old {
                self.skip(fire, SkipReason::Expired);
            } else if self.in_backoff(fire) {
                self.skip(fire, SkipReason::Backoff);
            } else if self.job.spec.missed == Missed::All || self.admit() {
                self.claim(fire, Cause::CatchUp);
            } else {
                self.skip(fire, SkipReason::Overlap);
            }
        }
    }

    /// Whether the one run that makes up for missed times may wait beside what is not over.
    fn admit(&mut self) -> bool {
        let admission = overlap(self.job.spec.overlap, self.active);
        self.plan.replace |= admission == Admission::AfterEnding;
        admission != Admission::Refused
    }

    fn current(&mut self, fire: &Fire) {
        if self.in_backoff(fire) {
            return self.skip(fire, SkipReason::Backoff);
        }
        match overlap(self.job.spec.overlap, self.active) {
            Admission::Refused => return self.skip(fire, SkipReason::Overlap),
            Admission::AfterEnding => {
                self.plan.replace = true;
                // What this very look claimed is replaced as well.
                for claim in self.plan.claims.extract_if(.., |claim| claim.cause == Cause::Schedule) {
                    self.plan.skips.push(Skip::one(claim.at, SkipReason::Overlap));
                }
                self.active = Active::default();
            }
            Admission::Admitted => {}
        }
        self.active.waiting += 1;
        self.claim(fire, Cause::Schedule);
    }

    fn in_backoff(&self, fire: &Fire) -> bool {
        self.job.backoff_until.is_some_and(|until| fire.at < until)
    }

    fn claim(&mut self, fire: &Fire, cause: Cause) {
        self.plan.claims.push(Claim { at: fire.at, shifted_from: fire.shifted_from, cause });
    }

    fn skip(&mut self, fire: &Fire, reason: SkipReason) {
        self.plan.skips.push(Skip::one(fire.at, reason));
    }
}

impl Skip {
    fn one(at: Timestamp, reason: SkipReason) -> Self {
        Self { from: at, until: at, count: 1, reason }
    }
}

/// Many skips in a row for one reason become one.
fn gathered(mut skips: Vec<Skip>) -> Vec<Skip> {
    skips.sort_by_key(|skip| skip.from);
    let mut all: Vec<Skip> = Vec::new();
    for group in skips.chunk_by(|a, b| a.reason == b.reason) {
        match group {
            [first, .., last] if group.len() > BULK => {
                all.push(Skip { until: last.until, count: group.len(), ..first.clone() });
            }
            _ => all.extend_from_slice(group),
        }
    }
    all
}

/// What a job's overlap policy says of one more run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission {
    /// It may wait for its turn.
    Admitted,
    /// Once what is there is ended.
    AfterEnding,
    /// It does not run.
    Refused,
}

/// Decides about one more run of a job of which some are not over.
#[must_use]
pub fn overlap(policy: Overlap, active: Active) -> Admission {
    let Active { running, waiting } = active;
    match policy {
        Overlap::Allow => Admission::Admitted,
        _ if running + waiting == 0 => Admission::Admitted,
        Overlap::Skip => Admission::Refused,
        Overlap::Queue if waiting == 0 => Admission::Admitted,
        Overlap::Queue => Admission::Refused,
        Overlap::Replace => Admission::AfterEnding,
    }
}

/// A time and so much more; the end of time at most.
#[must_use]
pub fn put_off(at: Timestamp, by: Duration) -> Timestamp {
    at.checked_add(by).unwrap_or(Timestamp::MAX)
}

/// A time and so much less; the beginning of time at least.
#[must_use]
pub fn before(at: Timestamp, by: Duration) -> Timestamp {
    at.checked_sub(by).unwrap_or(Timestamp::MIN)
}

/// What the fire times of a job are put off by: a part of its jitter that stays the same for its agent and name.
#[must_use]
pub fn jitter_offset(agent: &str, name: &str, jitter: Duration) -> Duration {
    let most = u64::try_from(jitter.as_millis()).unwrap_or(u64::MAX);
    if most == 0 {
        return Duration::ZERO;
    }
    let hash = Sha256::digest(format!("{agent}\n{name}"));
    let [a, b, c, d, e, f, g, h, ..] = hash.0;
    Duration::from_millis(u64::from_le_bytes([a, b, c, d, e, f, g, h]) % most)
}

#[cfg(test)]
mod tests;
