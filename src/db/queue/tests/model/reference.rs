//! What the queue should do, in plain Rust: no SQL, no batches, one fire time after the other.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    ops::{Op, Plan},
    *,
};
use crate::{
    runs::state::{self, Effect, SkipReason},
    scheduler::{due, trigger::Trigger},
};

#[derive(Debug, Clone)]
pub struct Agent {
    pub member: bool,
    pub halted: bool,
    pub container: bool,
    pub firing_since: Option<Timestamp>,
}

#[derive(Debug, Clone)]
pub struct Job {
    pub name: String,
    pub agent: usize,
    pub spec: JobSpec,
    pub trigger: Trigger,
    pub offset: Duration,
    pub enabled: bool,
    pub reason: Option<&'static str>,
    pub anchor: Timestamp,
    pub next: Option<Timestamp>,
    pub failures: u32,
    pub backoff: Option<Timestamp>,
    pub heard: usize,
    /// Fire times that were skipped when they came, and when that was recorded.
    pub skipped: BTreeMap<Timestamp, (SkipReason, Timestamp)>,
    /// Each fire time after this has one record.
    pub accounted_since: Timestamp,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    pub job: Option<i64>,
    pub name: String,
    pub agent: usize,
    pub spec: JobSpec,
    pub cause: Cause,
    pub at: Timestamp,
    pub attempt: u32,
    pub event: Option<usize>,
    pub status: RunStatus,
    pub reason: Option<SkipReason>,
    pub created: Timestamp,
    pub due: Timestamp,
    pub ended: Option<Timestamp>,
    pub ending: bool,
}

impl Run {
    pub fn waits(&self) -> bool {
        self.status == RunStatus::Queued
    }

    pub fn runs(&self) -> bool {
        self.status == RunStatus::Running
    }

    fn fires(&self) -> bool {
        matches!(self.cause, Cause::Schedule | Cause::CatchUp)
    }

    fn end(&mut self, status: RunStatus, now: Timestamp) {
        (self.status, self.ended) = (status, Some(now));
    }
}

/// The hive as it should be.
#[derive(Debug, Clone)]
pub struct Model {
    pub now: Timestamp,
    pub agents: [Agent; 2],
    pub hive_halted: bool,
    pub alive_since: Timestamp,
    pub limits: (u32, u32),
    pub jobs: BTreeMap<i64, Job>,
    pub made: i64,
    /// In the order in which they were queued.
    pub runs: Vec<Run>,
    /// What was raised; changes of jobs count as well.
    pub events: Vec<Option<(&'static str, Timestamp)>>,
    pub heard: usize,
    pub pruned: Option<Timestamp>,
    /// How many runs the last step started.
    pub started: usize,
}

/// Hours that no fire time is met in, between the clock changes of Europe and Australia.
pub fn begin() -> Timestamp {
    "2026-03-28T23:00:00Z".parse().unwrap()
}

impl Model {
    pub fn new() -> Self {
        let agent = Agent { member: true, halted: false, container: true, firing_since: Some(begin()) };
        Self {
            now: begin(),
            agents: [agent.clone(), agent],
            hive_halted: false,
            alive_since: begin(),
            limits: (3, 2),
            jobs: BTreeMap::new(),
            made: 0,
            runs: Vec::new(),
            events: Vec::new(),
            heard: 0,
            pruned: None,
            started: 0,
        }
    }

    /// The id of the nth job, counted around.
    pub fn job(&self, n: usize) -> Option<i64> {
        self.jobs.keys().nth(n.checked_rem(self.jobs.len())?).copied()
    }

    /// The place of the nth run of those, counted around.
    pub fn pick(&self, n: usize, those: impl Fn(&Run) -> bool) -> Option<usize> {
        let all: Vec<usize> = (0..self.runs.len()).filter(|i| those(&self.runs[*i])).collect();
        all.get(n.checked_rem(all.len())?).copied()
    }

    pub fn apply(&mut self, op: &Op) {
        self.started = 0;
        match op {
            Op::Add(plan) => self.add(plan),
            Op::Edit(n, plan) => self.edit(*n, plan),
            Op::Pause(n) => self.pause(*n),
            Op::Resume(n) => self.resume(*n),
            Op::Delete(n) => self.delete(*n),
            Op::Pass(seconds) => {
                self.now = whole(self.now + seconds.seconds());
                self.tick();
            }
            Op::Sleep(seconds) => {
                self.now = whole(self.now + seconds.seconds());
                self.alive_since = self.now;
                self.tick();
            }
            Op::Step(seconds) => self.step(*seconds),
            Op::Tick => self.tick(),
            Op::Finish(n, status) => self.finish(*n, *status),
            Op::Requeue(n) => self.requeue(*n),
            Op::Cancel(n) => self.cancel(*n),
            Op::Manual(n) => self.manual(*n),
            Op::Raise(name) => self.events.push(Some((name, self.now))),
            Op::Halt(n) => self.halt(*n, true),
            Op::Lift(n) => self.halt(*n, false),
            Op::Container(n, there) => self.agents[*n].container = *there,
            Op::Member(n, there) => self.agents[*n].member = *there,
            Op::Limits(all, each) => self.limits = (*all, *each),
            Op::Prune(seconds) => self.prune(*seconds),
            Op::Crash(_) => {
                self.alive_since = self.now;
                self.realign();
            }
        }
        self.refresh();
        // No two things happen in the same instant.
        self.now += 1.millisecond();
    }

    /// As the driver sees the agents.
    pub fn refresh(&mut self) {
        for agent in &mut self.agents {
            let fires = agent.member && !agent.halted && !self.hive_halted;
            agent.firing_since = if fires { agent.firing_since.or(Some(self.now)) } else { None };
        }
    }

    pub fn alive(&self, agent: usize) -> Option<Timestamp> {
        self.agents[agent].firing_since.map(|since| since.max(self.alive_since))
    }

    fn halt(&mut self, agent: Option<usize>, halted: bool) {
        match agent {
            Some(n) => self.agents[n].halted = halted,
            None => self.hive_halted = halted,
        }
        if agent.is_none() && !halted {
            self.agents.iter_mut().for_each(|agent| agent.halted = false);
        }
    }

    fn add(&mut self, plan: &Plan) {
        self.made += 1;
        let name = format!("j{}", self.made);
        let spec = plan.spec(self.now);
        let trigger = spec.trigger.compile().unwrap();
        self.events.push(None);
        let job = Job {
            agent: plan.agent,
            offset: due::jitter_offset(AGENTS[plan.agent], &name, spec.jitter),
            name,
            enabled: true,
            reason: None,
            anchor: self.now,
            next: trigger.next(self.now, self.now).map(|fire| fire.at),
            failures: 0,
            backoff: None,
            heard: self.events.len(),
            skipped: BTreeMap::new(),
            accounted_since: self.now,
            spec,
            trigger,
        };
        self.jobs.insert(self.made, job);
    }

    fn edit(&mut self, n: usize, plan: &Plan) {
        let Some(id) = self.job(n) else { return };
        let now = self.now;
        let job = self.jobs.get_mut(&id).unwrap();
        job.spec = plan.spec(now);
        job.trigger = job.spec.trigger.compile().unwrap();
        job.offset = due::jitter_offset(AGENTS[job.agent], &job.name, job.spec.jitter);
        self.changed(id);
        let job = &self.jobs[&id];
        if !job.enabled && job.reason != Some(jobs::FIRED) {
            self.drop_waiting(id, |run| run.cause != Cause::Manual);
        }
    }

    /// Somebody changed a job: it counts from now, and its failures are forgotten.
    fn changed(&mut self, id: i64) {
        self.events.push(None);
        let job = self.jobs.get_mut(&id).unwrap();
        (job.anchor, job.failures, job.backoff) = (self.now, 0, None);
        job.next = job.trigger.next(self.now, self.now).map(|fire| fire.at).filter(|_| job.enabled);
        (job.heard, job.accounted_since) = (self.events.len(), self.now);
    }

    fn pause(&mut self, n: usize) {
        let Some(id) = self.job(n) else { return };
        let job = self.jobs.get_mut(&id).unwrap();
        (job.enabled, job.reason) = (false, Some("paused"));
        self.changed(id);
        self.drop_waiting(id, |run| run.cause != Cause::Manual);
    }

    fn resume(&mut self, n: usize) {
        let Some(id) = self.job(n) else { return };
        let job = self.jobs.get_mut(&id).unwrap();
        (job.enabled, job.reason) = (true, None);
        self.changed(id);
    }

    fn delete(&mut self, n: usize) {
        let Some(id) = self.job(n) else { return };
        self.drop_waiting(id, |_| true);
        self.jobs.remove(&id);
        self.events.push(None);
        self.of(id).for_each(|run| run.job = None);
    }

    fn of(&mut self, id: i64) -> impl Iterator<Item = &mut Run> {
        self.runs.iter_mut().filter(move |run| run.job == Some(id))
    }

    fn drop_waiting(&mut self, id: i64, those: impl Fn(&Run) -> bool) {
        let now = self.now;
        self.of(id)
            .filter(|run| run.waits() && those(run))
            .for_each(|run| run.end(RunStatus::Cancelled, now));
    }

    fn prune(&mut self, seconds: i64) {
        let before = self.now - seconds.seconds();
        let gone = |run: &Run| run.ended.is_some_and(|at| at < before);
        let fired = self.runs.iter().filter(|r| gone(r) && r.fires() && r.status != RunStatus::Skipped);
        self.pruned = self.pruned.max(fired.map(|run| run.at).max());
        self.runs.retain(|run| !gone(run));
        for job in self.jobs.values_mut() {
            job.skipped.retain(|_, (_, recorded)| *recorded >= before);
            job.accounted_since = self.now;
        }
    }

    fn cancel(&mut self, n: usize) {
        let Some(i) = self.pick(n, |run| run.waits() || run.runs()) else { return };
        let (now, run) = (self.now, &mut self.runs[i]);
        match run.status {
            RunStatus::Queued => run.end(RunStatus::Cancelled, now),
            _ => run.ending = true,
        }
    }

    fn requeue(&mut self, n: usize) {
        let Some(i) = self.pick(n, Run::runs) else { return };
        let now = self.now;
        let starts = self.runs[i].job.is_some_and(|id| self.starts(&self.runs[i], &self.jobs[&id]));
        let run = &mut self.runs[i];
        if run.ending || !starts {
            run.end(RunStatus::Cancelled, now);
        } else {
            run.status = RunStatus::Queued;
        }
    }

    fn finish(&mut self, n: usize, status: RunStatus) {
        let Some(i) = self.pick(n, Run::runs) else { return };
        let now = self.now;
        let run = &mut self.runs[i];
        let status = if run.ending && status != RunStatus::Succeeded { RunStatus::Cancelled } else { status };
        run.end(status, now);
        let run = run.clone();
        let Some(id) = run.job else { return };
        let job = &self.jobs[&id];
        let asked = run.cause == Cause::Manual;
        if status.may_retry() && run.attempt <= run.spec.retries && self.starts(&run, job) {
            let due = state::retry_at(run.attempt, now).max(job.backoff.filter(|_| !asked).unwrap_or(now));
            let again = (run.attempt + 1, RunStatus::Queued);
            let (attempt, status) = again;
            self.runs.push(Run { attempt, status, created: now, due, ended: None, ending: false, ..run });
            return;
        }
        match state::effect(status, job.failures, now) {
            Effect::None => {}
            Effect::Reset => {
                self.count(id, 0, None);
                self.of(id).filter(|r| r.waits() && r.attempt == 1).for_each(|r| r.due = r.due.min(now));
            }
            Effect::BackOff(failures, until) => self.back_off(id, failures, until, asked),
            Effect::Disable(failures) => {
                self.count(id, failures, None);
                let job = self.jobs.get_mut(&id).unwrap();
                if job.enabled || job.reason == Some(jobs::FIRED) {
                    (job.enabled, job.reason, job.next) = (false, Some("failed"), None);
                    self.drop_waiting(id, |run| run.cause != Cause::Manual);
                }
            }
        }
    }

    fn starts(&self, run: &Run, job: &Job) -> bool {
        run.cause == Cause::Manual || job.enabled || job.reason == Some(jobs::FIRED)
    }

    fn count(&mut self, id: i64, failures: u32, until: Option<Timestamp>) {
        let job = self.jobs.get_mut(&id).unwrap();
        (job.failures, job.backoff) = (failures, until);
    }

    fn back_off(&mut self, id: i64, failures: u32, until: Timestamp, asked: bool) {
        self.count(id, failures, Some(until));
        self.of(id)
            .filter(|run| run.waits() && run.cause != Cause::Manual)
            .for_each(|run| run.due = run.due.max(until));
        let job = self.jobs.get_mut(&id).unwrap();
        if matches!(job.trigger, Trigger::OneShot(_)) && job.reason == Some(jobs::FIRED) && !asked {
            (job.enabled, job.reason, job.next) = (true, None, Some(until));
        }
    }

    /// Fire times that have a run or were skipped.
    pub fn decided(&self, id: i64) -> BTreeSet<Timestamp> {
        let runs = self.runs.iter().filter(|run| run.job == Some(id) && run.fires());
        runs.map(|run| run.at).chain(self.jobs[&id].skipped.keys().copied()).collect()
    }

    fn step(&mut self, seconds: i64) {
        self.now = whole(self.now + seconds.seconds());
        if seconds > 90 {
            self.alive_since = self.now;
        }
        self.alive_since = self.alive_since.min(self.now);
        let now = self.now;
        self.agents.iter_mut().for_each(|a| a.firing_since = a.firing_since.map(|since| since.min(now)));
        self.realign();
        self.tick();
    }

    fn realign(&mut self) {
        let now = self.now;
        for run in self.runs.iter_mut().filter(|run| run.waits() && run.due > now) {
            let wait = run.due.duration_since(run.created.max(now)).as_secs_f64().clamp(0.0, 3_600.0);
            let wait = (wait * 1_000.0).round() as i64;
            run.due = run.due.min(now + wait.milliseconds());
            run.created = run.created.min(now);
        }
        for id in self.jobs.keys().copied().collect::<Vec<_>>() {
            self.realign_job(id);
        }
    }

    fn realign_job(&mut self, id: i64) {
        let (now, pruned) = (self.now, self.pruned);
        let job = self.jobs.get_mut(&id).unwrap();
        job.accounted_since =
            job.accounted_since.min(now).max(pruned.unwrap_or(now.min(job.accounted_since)));
        if !job.enabled {
            return;
        }
        let latest = now + state::backoff(job.failures).unwrap_or_default();
        let was = job.backoff;
        job.backoff = was.map(|until| until.min(latest));
        let come = now - job.offset;
        let Some(next) = job.next.filter(|next| *next > come) else { return };
        let nearer = match &job.trigger {
            Trigger::OneShot(_) if was == Some(next) => job.backoff,
            Trigger::OneShot(_) => None,
            Trigger::Interval(_) => {
                job.anchor = job.anchor.min(come);
                job.trigger.next(job.anchor, come).map(|fire| fire.at)
            }
            _ => job.trigger.next(now, pruned.map_or(come, |at| at.max(come))).map(|fire| fire.at),
        };
        let Some(nearer) = nearer.filter(|nearer| *nearer < next) else { return };
        job.next = Some(nearer);
        job.skipped.retain(|at, _| *at <= come);
        let ahead = |r: &Run| r.fires() && r.status == RunStatus::Skipped && r.at > come;
        self.runs.retain(|run| run.job != Some(id) || !ahead(run));
    }
}

/// Clocks are looked at on the second, most of the time.
fn whole(at: Timestamp) -> Timestamp {
    Timestamp::from_second(at.as_second()).unwrap()
}
