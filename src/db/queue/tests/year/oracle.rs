//! What each fire time had to become. Walks the calendar and the script, and takes from the queue only when its runs
//! began and ended; that they began in time, and why some did not, is judged by `starts`.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    Planned, When,
    script::{Course, DAY, Event, World as Outside, beginning},
    sim::Sim,
    starts, *,
};
use crate::{
    db::runs::RunRow,
    runs::state::{Effect, SkipReason, backoff, effect},
};

/// A run, and when it was made, began and was over.
#[derive(Debug, Clone)]
pub struct Known {
    pub row: RunRow,
    pub created: i64,
    pub started: Option<i64>,
    pub over: Option<i64>,
    /// It never was a run: its fire time was skipped when it came.
    pub born_skipped: bool,
    /// Its record went when the clock went back, before its time came.
    pub voided: Option<i64>,
}

impl Known {
    pub fn is_over(&self, real: i64) -> bool {
        self.over.is_some_and(|over| over <= real)
    }

    fn fires(&self) -> bool {
        matches!(self.row.cause, Cause::Schedule | Cause::CatchUp)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Run(Cause),
    Skip(SkipReason),
}

/// Fire times to come.
enum Ahead {
    /// All there are, and the place of the next one.
    Listed(Vec<Timestamp>, usize),
    /// Milliseconds, what they count from, and the next one.
    Every(i64, Timestamp, Timestamp),
    Once(Option<Timestamp>),
    Never,
}

struct Judge<'a> {
    n: usize,
    job: &'a Planned,
    outside: Outside,
    limit: Option<Duration>,
    /// By the time they were made.
    runs: Vec<Known>,
    /// All before this one are over.
    first: usize,
    offset: Duration,
    ahead: Ahead,
    enabled: bool,
    fired: bool,
    failures: u32,
    backoff: Option<Timestamp>,
    decided: BTreeMap<Timestamp, (Verdict, i64)>,
    rung: Vec<(Verdict, i64)>,
    /// When it disabled itself.
    disabled: BTreeSet<i64>,
}

/// Judges all; answers how many fire times there were.
pub fn judge(sim: &Sim<'_>, jobs: &[Planned], script: &[(i64, Event)], length: i64) -> usize {
    let rows = crate::db::runs::rows(&sim.conn, "", []).unwrap();
    let known = |row: &RunRow, voided: Option<i64>| {
        let over = sim.log.over.get(&row.id).copied();
        Known {
            created: sim.log.created[&row.id],
            started: sim.log.started.get(&row.id).copied(),
            over,
            born_skipped: row.status == RunStatus::Skipped && over.is_none(),
            row: row.clone(),
            voided,
        }
    };
    let mut all: Vec<Known> = rows.iter().map(|row| known(row, None)).collect();
    all.extend(sim.log.voided.iter().map(|(row, at)| known(row, Some(*at))));
    all.sort_by_key(|run| run.row.id);
    let course = Course::of(script);
    let mut judged = 0;
    for (n, job) in jobs.iter().enumerate() {
        let runs = all.iter().filter(|run| run.row.job == Some(sim.ids[n])).cloned().collect();
        let mut judge = Judge::new(n, job, runs);
        judge.live(script, length, &sim.log.asked);
        judge.compare();
        judge.compare_job(&jobs::get(&sim.conn, sim.ids[n]).unwrap().unwrap());
        starts::judge(job, &judge.runs, &judge.disabled, &course, length);
        judged += judge.decided.len() + judge.rung.len();
    }
    starts::judge_catch_ups(&all);
    judged
}

impl<'a> Judge<'a> {
    fn new(n: usize, job: &'a Planned, runs: Vec<Known>) -> Self {
        let begun = beginning();
        let far = begun + (500 * DAY).milliseconds();
        let ahead = match &job.when {
            When::Cron(_, calendar) => Ahead::Listed(calendar.fires(begun + 1.second(), far), 0),
            When::Every(_, every) => Ahead::Every(*every, begun, begun + every.milliseconds()),
            When::Once(at) => Ahead::Once(Some(at.parse().unwrap())),
            When::Ring => Ahead::Never,
        };
        let offset = crate::scheduler::due::jitter_offset(super::AGENTS[job.agent], job.name, job.jitter);
        Self {
            n,
            job,
            limit: job.spec().missed_limit(),
            outside: Outside::new(),
            runs,
            first: 0,
            offset,
            ahead,
            enabled: true,
            fired: false,
            failures: 0,
            backoff: None,
            decided: BTreeMap::new(),
            rung: Vec::new(),
            disabled: BTreeSet::new(),
        }
    }

    /// The year in the order in which it passed: what happens outside, and the beginnings and ends of the runs.
    fn live(&mut self, script: &[(i64, Event)], length: i64, asked: &[bool]) {
        enum Moment {
            Outside(Event),
            Over(usize),
            Started,
        }
        let mut moments: Vec<(i64, u8, Moment)> =
            script.iter().map(|(at, event)| (*at, 0, Moment::Outside(*event))).collect();
        for (i, run) in self.runs.iter().enumerate().filter(|(_, run)| run.started.is_some()) {
            moments.extend(run.over.map(|at| (at, 1, Moment::Over(i))));
            moments.extend(run.started.map(|at| (at, 2, Moment::Started)));
        }
        moments.sort_by_key(|(at, order, _)| (*at, *order));
        let (mut last, mut asked) = (0, asked.iter());
        for (at, _, moment) in moments.into_iter().filter(|(at, ..)| *at < length) {
            self.pass(last, at);
            last = at;
            match moment {
                Moment::Outside(event) => {
                    self.happen(event, at);
                    if let Event::Ask(job) = event {
                        let made = *asked.next().unwrap();
                        if job == self.n {
                            self.asked(at, made);
                        }
                    }
                }
                Moment::Over(i) => self.over(i, at),
                Moment::Started => self.started(at),
            }
            self.look(at);
        }
        self.pass(last, length - 1);
    }

    fn happen(&mut self, event: Event, real: i64) {
        self.outside.apply(event, real);
        let now = self.outside.clock(real);
        match event {
            Event::Up | Event::Crash(_) | Event::Step(_) => self.clock_may_be_back(real, now),
            Event::Raise => self.ring(real),
            Event::Enable(job) if job == self.n => self.enable(now),
            _ => {}
        }
    }

    /// Time passes; each fire time is looked at when it is due.
    fn pass(&mut self, from: i64, until: i64) {
        while self.firing()
            && let Some(next) = self.next()
        {
            let at = self.outside.real(next + self.offset).max(from);
            if at > until {
                return;
            }
            self.look(at);
        }
    }

    fn firing(&self) -> bool {
        self.enabled && self.outside.alive(self.job.agent).is_some()
    }

    /// The next fire time that is not decided.
    fn next(&mut self) -> Option<Timestamp> {
        match &mut self.ahead {
            Ahead::Listed(all, place) => {
                while self.decided.contains_key(all.get(*place)?) {
                    *place += 1;
                }
                all.get(*place).copied()
            }
            Ahead::Every(_, _, next) => Some(*next),
            Ahead::Once(at) => *at,
            Ahead::Never => None,
        }
    }

    fn look(&mut self, real: i64) {
        let now = self.outside.clock(real);
        let mut come = Vec::new();
        while self.firing()
            && let Some(at) = self.next().filter(|at| *at + self.offset <= now)
        {
            come.push(at);
            match &mut self.ahead {
                Ahead::Listed(_, place) => *place += 1,
                Ahead::Every(every, _, next) => *next += every.milliseconds(),
                Ahead::Once(at) => *at = None,
                Ahead::Never => {}
            }
        }
        if !come.is_empty() {
            self.decide(&come, real, now);
        }
    }

    /// Runs that have begun and are not over, and those that are in line.
    fn active(&mut self, real: i64, now: Timestamp) -> (usize, usize) {
        while self.runs.get(self.first).is_some_and(|run| run.born_skipped || run.is_over(real)) {
            self.first += 1;
        }
        let made = self.runs[self.first..].iter().take_while(|run| run.created < real);
        let there = made.filter(|run| !run.born_skipped && !run.is_over(real));
        let (begun, line): (Vec<&Known>, Vec<_>) =
            there.partition(|run| run.started.is_some_and(|at| at < real) || run.row.attempt > 1);
        let counts = |run: &&&Known| {
            let stale = self.limit.is_some_and(|limit| run.row.scheduled_at + limit < now);
            run.row.cause != Cause::CatchUp && !(stale && run.row.cause == Cause::Schedule)
        };
        (begun.len(), line.iter().filter(counts).count())
    }

    fn admits(&self, begun: usize, line: usize) -> bool {
        match self.job.overlap {
            Overlap::Skip => begun + line == 0,
            Overlap::Queue => line == 0,
            Overlap::Replace | Overlap::Allow => true,
        }
    }

    fn decide(&mut self, come: &[Timestamp], real: i64, now: Timestamp) {
        let alive = self.outside.alive(self.job.agent).unwrap();
        let (begun, mut line) = self.active(real, now);
        let limit = self.limit;
        for at in come {
            let missed = *at + self.offset < alive;
            let newest = come.last() == Some(at);
            let unwanted = match self.job.missed {
                Missed::Skip => true,
                Missed::Last => !newest,
                Missed::All => false,
            };
            let verdict = if missed && unwanted {
                Verdict::Skip(SkipReason::Missed)
            } else if missed && limit.is_some_and(|limit| *at + limit < now) {
                Verdict::Skip(SkipReason::Expired)
            } else if self.backoff.is_some_and(|until| *at < until) {
                Verdict::Skip(SkipReason::Backoff)
            } else if missed && self.job.missed == Missed::All {
                Verdict::Run(Cause::CatchUp)
            } else if !self.admits(begun, line) {
                Verdict::Skip(SkipReason::Overlap)
            } else if missed {
                Verdict::Run(Cause::CatchUp)
            } else {
                line += 1;
                Verdict::Run(Cause::Schedule)
            };
            self.decided.insert(*at, (verdict, real));
            self.after(*at, verdict, now);
        }
    }

    /// What a one-shot and an interval make of it.
    fn after(&mut self, at: Timestamp, verdict: Verdict, now: Timestamp) {
        match (&mut self.ahead, verdict) {
            (Ahead::Once(next), Verdict::Skip(SkipReason::Backoff)) => *next = self.backoff,
            (Ahead::Once(_), verdict) => {
                self.enabled = false;
                self.fired = matches!(verdict, Verdict::Run(_));
            }
            (Ahead::Every(every, anchor, next), Verdict::Run(cause)) => {
                *anchor = if cause == Cause::Schedule { at } else { now - self.offset };
                *next = *anchor + every.milliseconds();
            }
            _ => {}
        }
    }

    /// An interval counts from the last start, unless that was on time.
    fn started(&mut self, real: i64) {
        let start = self.outside.clock(real) - self.offset;
        if let Ahead::Every(every, anchor, next) = &mut self.ahead
            && self.enabled
            && start.duration_since(*anchor).as_millis() >= 1_000
        {
            (*anchor, *next) = (start, start + every.milliseconds());
        }
    }

    fn over(&mut self, i: usize, real: i64) {
        let run = &self.runs[i];
        let (status, asked) = (run.row.status, run.row.cause == Cause::Manual);
        let again = |other: &&Known| {
            other.row.attempt == run.row.attempt + 1 && other.created == real && same_chain(other, run)
        };
        let at_once = self.runs.partition_point(|other| other.created < real);
        if self.runs[at_once..].iter().take_while(|other| other.created == real).any(|other| again(&other)) {
            return;
        }
        let now = self.outside.clock(real);
        match effect(status, self.failures, now) {
            Effect::None => {}
            Effect::Reset => (self.failures, self.backoff) = (0, None),
            Effect::BackOff(failures, until) => {
                (self.failures, self.backoff) = (failures, Some(until));
                if let Ahead::Once(next) = &mut self.ahead
                    && self.fired
                    && !asked
                {
                    (*next, self.enabled, self.fired) = (Some(until), true, false);
                }
            }
            Effect::Disable(failures) => {
                (self.failures, self.backoff) = (failures, None);
                if self.enabled || self.fired {
                    self.disabled.insert(real);
                }
                (self.enabled, self.fired) = (false, false);
            }
        }
    }

    fn enable(&mut self, now: Timestamp) {
        if self.enabled || matches!(self.ahead, Ahead::Once(_)) {
            return;
        }
        (self.enabled, self.failures, self.backoff) = (true, 0, None);
        match &mut self.ahead {
            Ahead::Listed(all, place) => *place = all.partition_point(|at| *at <= now),
            Ahead::Every(every, anchor, next) => (*anchor, *next) = (now, now + every.milliseconds()),
            Ahead::Once(_) | Ahead::Never => {}
        }
    }

    /// What lies ahead of the clock has not come.
    fn clock_may_be_back(&mut self, real: i64, now: Timestamp) {
        if !self.enabled {
            return;
        }
        let was = self.backoff;
        let latest = now + backoff(self.failures).unwrap_or_default();
        self.backoff = was.map(|until| until.min(latest));
        let come = now - self.offset;
        let back = match &mut self.ahead {
            Ahead::Listed(all, place) => {
                let first = all.partition_point(|at| *at <= come);
                let back = first < *place;
                *place = first.min(*place);
                back
            }
            Ahead::Every(every, anchor, next) if *next > come => {
                *anchor = (*anchor).min(come);
                let passed = come.duration_since(*anchor).as_millis() as i64;
                let nearer = *anchor + ((passed / *every + 1) * *every).milliseconds();
                let back = nearer < *next;
                *next = nearer.min(*next);
                back
            }
            Ahead::Once(next) => {
                *next = if *next == was && was.is_some() { self.backoff } else { *next };
                false
            }
            _ => false,
        };
        if back {
            // Also what waited in vain for its turn has not come.
            let in_vain: BTreeSet<Timestamp> = self
                .runs
                .iter()
                .filter(|run| run.voided == Some(real) && !run.born_skipped)
                .map(|run| run.row.scheduled_at)
                .collect();
            self.decided.retain(|at, (verdict, _)| {
                *at <= come || matches!(verdict, Verdict::Run(_)) && !in_vain.contains(at)
            });
        }
    }

    fn ring(&mut self, real: i64) {
        let now = self.outside.clock(real);
        if !self.enabled || !matches!(self.job.when, When::Ring) {
            return;
        }
        let (begun, line) = self.active(real, now);
        let verdict = if self.backoff.is_some_and(|until| now < until) {
            Verdict::Skip(SkipReason::Backoff)
        } else if self.admits(begun, line) {
            Verdict::Run(Cause::Event)
        } else {
            Verdict::Skip(SkipReason::Overlap)
        };
        self.rung.push((verdict, real));
    }

    fn asked(&mut self, real: i64, made: bool) {
        let (begun, line) = self.active(real, self.outside.clock(real));
        assert_eq!(made, self.admits(begun, line), "{} was asked for at {real}", self.job.name);
        let there = self.runs.iter().filter(|run| run.row.cause == Cause::Manual && run.created == real);
        assert_eq!(there.count(), usize::from(made), "{} at {real}", self.job.name);
    }

    /// What the database says of each fire time.
    fn compare(&self) {
        let name = self.job.name;
        let verdict_of = |run: &Known| match run.born_skipped {
            true => Verdict::Skip(reason(&run.row)),
            false => Verdict::Run(run.row.cause),
        };
        let first = |run: &&Known| run.row.attempt == 1 && run.voided.is_none();
        let mut found = BTreeMap::new();
        for run in self.runs.iter().filter(first).filter(|run| run.fires() && run.row.skipped.is_none()) {
            let twice = found.insert(run.row.scheduled_at, (verdict_of(run), run.created));
            assert_eq!(twice, None, "{name}: two records of {}", run.row.scheduled_at);
        }
        for run in self.runs.iter().filter(first).filter(|run| run.row.skipped.is_some()) {
            let (count, until) = run.row.skipped.unwrap();
            let entry = (verdict_of(run), run.created);
            let covered: Vec<Timestamp> = self
                .decided
                .range(run.row.scheduled_at..=until)
                .filter(|(at, decided)| **decided == entry && !found.contains_key(*at))
                .map(|(at, _)| *at)
                .collect();
            assert_eq!(covered.len(), count as usize, "{name}: {:?}", run.row);
            found.extend(covered.into_iter().map(|at| (at, entry)));
        }
        for (at, decided) in &self.decided {
            assert_eq!(found.get(at), Some(decided), "{name} at {at}: the database, the oracle");
        }
        assert_eq!(
            found.len(),
            self.decided.len(),
            "{name}: {:?}",
            found.keys().find(|at| !self.decided.contains_key(at))
        );
        let rings = self.runs.iter().filter(first).filter(|run| run.row.cause == Cause::Event);
        let rung: Vec<_> = rings.map(|run| (verdict_of(run), run.created)).collect();
        assert_eq!(rung, self.rung, "{name}");
    }

    fn compare_job(&self, row: &jobs::JobRow) {
        let name = self.job.name;
        assert_eq!((row.enabled, row.consecutive_failures), (self.enabled, self.failures), "{name}");
        assert_eq!(row.backoff_until, self.backoff, "{name}");
    }
}

fn reason(row: &RunRow) -> SkipReason {
    use SkipReason::{Backoff, Expired, Missed, Overlap};
    let named = |reason: &SkipReason| row.reason.as_deref() == Some(reason.as_str());
    [Missed, Expired, Overlap, Backoff].into_iter().find(named).unwrap()
}

/// Whether one is another attempt of the other.
pub fn same_chain(one: &Known, other: &Known) -> bool {
    let what = |run: &Known| (run.row.cause, run.row.scheduled_at, run.row.event);
    what(one) == what(other)
}
