//! The reference's look at what is due, and at what can start.

use super::{
    reference::{Job, Model, Run},
    *,
};
use crate::{
    runs::state::SkipReason,
    scheduler::{due::put_off, trigger::Trigger},
};

/// What is done about one fire time.
enum Verdict {
    Run(Cause),
    Skip(SkipReason),
}

impl Model {
    pub fn tick(&mut self) {
        self.refresh();
        for n in self.heard..self.events.len() {
            if let Some((name, at)) = self.events[n] {
                self.hear(n, name, at);
            }
        }
        self.heard = self.events.len();
        loop {
            let due = self.due();
            for id in &due {
                self.decide(*id);
            }
            self.lease(false);
            self.lease(true);
            // A one-shot that comes within a backoff that is over by now comes again at once.
            if due.is_empty() {
                return;
            }
        }
    }

    /// The jobs whose time has come, the latest first.
    fn due(&self) -> Vec<i64> {
        let come = |(id, job): (&i64, &Job)| {
            let due = put_off(job.next?, job.offset);
            (due <= self.now && self.alive(job.agent).is_some()).then_some((due, *id))
        };
        let mut due: Vec<_> = self.jobs.iter().filter_map(come).collect();
        due.sort_by_key(|(due, id)| (std::cmp::Reverse(*due), *id));
        due.into_iter().map(|(_, id)| id).collect()
    }

    /// Runs that run or are between two attempts, and runs that wait for their first start.
    fn active(&mut self, id: i64) -> (usize, usize) {
        let now = self.now;
        let of = |run: &&mut Run| run.job == Some(id) && run.waits() && run.cause == Cause::Schedule;
        self.runs.iter_mut().filter(of).filter(|run| too_late(run, now)).for_each(|run| expire(run, now));
        let those = |f: &dyn Fn(&Run) -> bool| self.runs.iter().filter(|r| r.job == Some(id) && f(r)).count();
        let running = those(&|run| run.runs() || run.waits() && run.attempt > 1);
        (running, those(&|run| run.waits() && run.attempt == 1 && run.cause != Cause::CatchUp))
    }

    /// Whether one more may wait, and whether the others are ended for it.
    fn admits(policy: Overlap, running: usize, waiting: usize) -> (bool, bool) {
        let free = running + waiting == 0;
        match policy {
            Overlap::Allow => (true, false),
            Overlap::Skip => (free, false),
            Overlap::Queue => (waiting == 0, false),
            Overlap::Replace => (true, !free),
        }
    }

    fn decide(&mut self, id: i64) {
        let job = self.jobs[&id].clone();
        let (now, alive) = (self.now, self.alive(job.agent).unwrap());
        let done = self.decided(id);
        let (mut fires, mut next) = (Vec::new(), job.next);
        while let Some(at) = next.filter(|at| put_off(*at, job.offset) <= now) {
            fires.push(at);
            let once = matches!(job.trigger, Trigger::OneShot(_));
            next = if once { None } else { job.trigger.next(job.anchor, at).map(|fire| fire.at) };
        }
        fires.retain(|at| !done.contains(at));
        let (mut running, mut waiting) = self.active(id);
        let (mut claims, mut skips, mut replace) = (Vec::new(), Vec::new(), false);
        for (n, at) in fires.iter().enumerate() {
            let missed = put_off(*at, job.offset) < alive;
            match verdict(&job, *at, missed, n + 1 == fires.len(), now, (running, waiting)) {
                Verdict::Skip(reason) => skips.push((*at, reason)),
                Verdict::Run(cause) => {
                    let counts = cause == Cause::Schedule || job.spec.missed == Missed::Last;
                    if counts && Self::admits(job.spec.overlap, running, waiting).1 {
                        replace = true;
                        (running, waiting) = (0, 0);
                        let gone = claims.extract_if(.., |(_, cause)| *cause == Cause::Schedule);
                        skips.extend(gone.map(|(at, _)| (at, SkipReason::Overlap)).collect::<Vec<_>>());
                    }
                    waiting += usize::from(cause == Cause::Schedule);
                    claims.push((*at, cause));
                }
            }
        }
        if replace {
            self.replace(id);
        }
        if job.spec.missed == Missed::Last && claims.iter().any(|(_, cause)| *cause == Cause::CatchUp) {
            let stale =
                |r: &&mut Run| r.job == Some(id) && r.waits() && r.attempt == 1 && r.cause == Cause::CatchUp;
            for run in self.runs.iter_mut().filter(stale) {
                (run.status, run.reason, run.ended) =
                    (RunStatus::Skipped, Some(SkipReason::Missed), Some(now));
            }
        }
        for (at, cause) in &claims {
            self.queue(id, *cause, *at, None);
        }
        self.move_on(id, &fires, &claims, &skips, next);
    }

    /// The job after its look.
    fn move_on(
        &mut self,
        id: i64,
        fires: &[Timestamp],
        claims: &[(Timestamp, Cause)],
        skips: &[(Timestamp, SkipReason)],
        next: Option<Timestamp>,
    ) {
        let now = self.now;
        let job = self.jobs.get_mut(&id).unwrap();
        job.skipped.extend(skips.iter().map(|(at, reason)| (*at, (*reason, now))));
        job.next = next;
        match (&job.trigger, claims.last()) {
            (Trigger::Interval(_), Some((_, cause))) => {
                job.anchor =
                    if *cause == Cause::Schedule { *fires.last().unwrap() } else { now - job.offset };
                job.next = job.trigger.next(job.anchor, job.anchor).map(|fire| fire.at);
            }
            (Trigger::OneShot(_), None) if skips.iter().any(|(_, r)| *r == SkipReason::Backoff) => {
                job.next = job.backoff;
            }
            (Trigger::OneShot(_), claim) => {
                let reason = if claim.is_some() { jobs::FIRED } else { "passed" };
                (job.enabled, job.reason) = (false, Some(reason));
            }
            _ => {}
        }
    }

    fn replace(&mut self, id: i64) {
        let now = self.now;
        for run in self.runs.iter_mut().filter(|run| run.job == Some(id)) {
            if run.runs() {
                run.ending = true;
            } else if run.waits() && (run.attempt > 1 || run.cause != Cause::CatchUp) {
                (run.status, run.ended) = (RunStatus::Cancelled, Some(now));
            }
        }
    }

    fn queue(&mut self, id: i64, cause: Cause, at: Timestamp, event: Option<usize>) {
        let job = &self.jobs[&id];
        self.runs.push(Run {
            job: Some(id),
            name: job.name.clone(),
            agent: job.agent,
            spec: job.spec.clone(),
            cause,
            at,
            attempt: 1,
            event,
            status: RunStatus::Queued,
            reason: None,
            created: self.now,
            due: self.now,
            ended: None,
            ending: false,
        });
    }

    fn hear(&mut self, n: usize, name: &str, at: Timestamp) {
        let hears = |job: &Job| match &job.trigger {
            Trigger::Event(names) if job.enabled && n >= job.heard => {
                names[0] == name || names[0] == "p*" && name.starts_with('p')
            }
            _ => false,
        };
        let those: Vec<i64> = self.jobs.iter().filter(|(_, job)| hears(job)).map(|(id, _)| *id).collect();
        for id in those {
            if !self.agents[self.jobs[&id].agent].member {
                continue;
            }
            let (running, waiting) = self.active(id);
            let job = &self.jobs[&id];
            let (admitted, ends) = Self::admits(job.spec.overlap, running, waiting);
            if job.backoff.is_some_and(|until| at < until) || !admitted {
                continue;
            }
            if ends {
                self.replace(id);
            }
            self.queue(id, Cause::Event, at, Some(n));
        }
    }

    pub fn manual(&mut self, n: usize) {
        let Some(id) = self.job(n) else { return };
        let before = self.clone();
        let (running, waiting) = self.active(id);
        let (admitted, ends) = Self::admits(self.jobs[&id].spec.overlap, running, waiting);
        if !admitted {
            *self = before;
            return;
        }
        if ends {
            self.replace(id);
        }
        self.queue(id, Cause::Manual, self.now, None);
    }

    fn lease(&mut self, catch_up: bool) {
        let mut order: Vec<usize> = (0..self.runs.len()).filter(|i| self.runs[*i].waits()).collect();
        order.sort_by_key(|i| (self.runs[*i].due, *i));
        for i in order {
            let run = &self.runs[i];
            let agent = &self.agents[run.agent];
            let open = self.alive(run.agent).is_some() && agent.container && run.due <= self.now;
            if !open
                || (run.cause == Cause::CatchUp) != catch_up
                || self.blocked(i)
                || !self.fits(run.agent, catch_up)
            {
                continue;
            }
            let now = self.now;
            if too_late(run, now) {
                expire(&mut self.runs[i], now);
                continue;
            }
            self.runs[i].status = RunStatus::Running;
            self.started += 1;
            if let (Trigger::Interval(_), Some(id)) =
                (&self.runs[i].spec.trigger.compile().unwrap(), self.runs[i].job)
            {
                self.count_from_start(id);
            }
        }
    }

    /// When the driver is to look again.
    pub fn next_look(&self) -> Option<Timestamp> {
        let firing = self.jobs.values().filter(|job| self.alive(job.agent).is_some());
        let due = firing.filter_map(|job| Some(put_off(job.next?, job.offset)));
        let later = self.runs.iter().filter(|run| run.waits() && run.due > self.now).map(|run| run.due);
        due.chain(later).min()
    }

    /// A run that must be alone waits for the others of its job.
    fn blocked(&self, i: usize) -> bool {
        let run = &self.runs[i];
        let before = |(j, other): (usize, &Run)| {
            let retry = other.waits() && other.attempt > 1 && (run.attempt == 1 || j < i);
            j != i && other.job == run.job && (other.runs() || retry)
        };
        run.spec.overlap != Overlap::Allow && run.job.is_some() && self.runs.iter().enumerate().any(before)
    }

    fn fits(&self, agent: usize, catch_up: bool) -> bool {
        let running = |f: &dyn Fn(&Run) -> bool| {
            u32::try_from(self.runs.iter().filter(|run| run.runs() && f(run)).count()).unwrap()
        };
        let (all, each) = self.limits;
        // One slot stays free for what is due, where there is more than one.
        let reserve = |limit: u32| if catch_up && limit > 1 { limit - 1 } else { limit };
        running(&|_| true) < reserve(all)
            && running(&|run| run.agent == agent) < reserve(each)
            && (!catch_up || running(&|run| run.cause == Cause::CatchUp) < 4)
    }

    fn count_from_start(&mut self, id: i64) {
        let now = self.now;
        let job = self.jobs.get_mut(&id).unwrap();
        let Trigger::Interval(every) = job.trigger else { return };
        let start = now - job.offset;
        let late = start.duration_since(job.anchor).as_millis() >= 1_000;
        if late && job.enabled && job.next.is_none_or(|next| put_off(next, job.offset) > now) {
            (job.anchor, job.next) = (start, Some(start + every));
        }
    }
}

fn verdict(
    job: &Job,
    at: Timestamp,
    missed: bool,
    last: bool,
    now: Timestamp,
    (running, waiting): (usize, usize),
) -> Verdict {
    let backoff = job.backoff.is_some_and(|until| at < until);
    let (admitted, _) = Model::admits(job.spec.overlap, running, waiting);
    let too_old = job.spec.missed_limit().is_some_and(|limit| put_off(at, limit) < now);
    let unwanted = match job.spec.missed {
        Missed::Skip => true,
        Missed::Last => !last,
        Missed::All => false,
    };
    match (missed, job.spec.missed) {
        (true, _) if unwanted => Verdict::Skip(SkipReason::Missed),
        (true, _) if too_old => Verdict::Skip(SkipReason::Expired),
        _ if backoff => Verdict::Skip(SkipReason::Backoff),
        (true, Missed::All) => Verdict::Run(Cause::CatchUp),
        _ if !admitted => Verdict::Skip(SkipReason::Overlap),
        (true, _) => Verdict::Run(Cause::CatchUp),
        (false, _) => Verdict::Run(Cause::Schedule),
    }
}

fn too_late(run: &Run, now: Timestamp) -> bool {
    let first = run.attempt == 1 && matches!(run.cause, Cause::Schedule | Cause::CatchUp);
    first && run.spec.missed_limit().is_some_and(|limit| put_off(run.at, limit) < now)
}

fn expire(run: &mut Run, now: Timestamp) {
    (run.status, run.reason, run.ended) = (RunStatus::Skipped, Some(SkipReason::Expired), Some(now));
}
