//! What is done about the fire times of a job that have come (scheduling.md: missed, overlap, backoff).
//!
//! Pure: told the job, the time and what is still running, it answers what to claim and what to skip. It does not
//! know slots, leases or agents.

use std::time::Duration;

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
    /// Its runs that run.
    pub running: u32,
    /// Its runs that wait, without those that make up for missed times.
    pub waiting: u32,
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
    /// What still runs or waits of this job is ended first.
    pub replace: bool,
    /// The fire time after these; it may have come too.
    pub next: Option<Fire>,
    /// What an interval counts from now.
    pub anchor: Timestamp,
}

/// Decides about the fire times of a job that have come by `now`. Those before `alive_since` are missed: the
/// supervisor was down, the agent halted or the machine asleep.
#[must_use]
pub fn plan(job: &DueJob<'_>, alive_since: Timestamp, now: Timestamp) -> Plan {
    let (fires, next) = come(job, now);
    let due = |fire: &Fire| put_off(fire.at, job.offset);
    let missed = fires.partition_point(|fire| due(fire) < alive_since);
    let (missed, current) = fires.split_at(missed);
    // More has come than fits one look, so that none of these is the last.
    let last = next.as_ref().is_none_or(|next| due(next) > now);
    let mut desk =
        Desk { job, now, plan: Plan::empty(job.anchor), running: job.running, waiting: job.waiting };
    desk.missed(missed, last && current.is_empty());
    for fire in current {
        desk.current(fire);
    }
    let claimed = desk.plan.claims.last().map(|claim| claim.cause);
    let mut plan = desk.plan;
    plan.next = next;
    if let (Trigger::Interval(_), Some(cause)) = (job.trigger, claimed) {
        plan.anchor = match (cause, fires.last()) {
            (Cause::Schedule, Some(fire)) => fire.at,
            _ => now,
        };
        if last {
            plan.next = job.trigger.next(plan.anchor, plan.anchor);
        }
    }
    plan.skips = gathered(plan.skips);
    plan
}

/// The fire times that have come, and the one after them.
fn come(job: &DueJob<'_>, now: Timestamp) -> (Vec<Fire>, Option<Fire>) {
    let mut fires = Vec::new();
    let mut next = Some(job.next.clone());
    while let Some(fire) = next.take_if(|fire| put_off(fire.at, job.offset) <= now && fires.len() < BATCH) {
        next = job.trigger.next(job.anchor, fire.at);
        fires.push(fire);
    }
    (fires, next)
}

impl Plan {
    fn empty(anchor: Timestamp) -> Self {
        Self { claims: Vec::new(), skips: Vec::new(), replace: false, next: None, anchor }
    }
}

struct Desk<'a> {
    job: &'a DueJob<'a>,
    now: Timestamp,
    plan: Plan,
    running: u32,
    waiting: u32,
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
            } else {
                self.claim(fire, Cause::CatchUp);
            }
        }
    }

    fn current(&mut self, fire: &Fire) {
        if self.in_backoff(fire) {
            return self.skip(fire, SkipReason::Backoff);
        }
        match overlap(self.job.spec.overlap, self.running, self.waiting) {
            Admission::Refused => return self.skip(fire, SkipReason::Overlap),
            Admission::AfterEnding => {
                self.plan.replace = true;
                // What this very look claimed is replaced as well.
                for claim in std::mem::take(&mut self.plan.claims) {
                    self.plan.skips.push(Skip::one(claim.at, SkipReason::Overlap));
                }
                (self.running, self.waiting) = (0, 0);
            }
            Admission::Admitted => {}
        }
        self.waiting += 1;
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

/// Decides about one more run of a job of which some run and some wait.
#[must_use]
pub fn overlap(policy: Overlap, running: u32, waiting: u32) -> Admission {
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
