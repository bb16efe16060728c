//! What happens to the hive in a year, and when: made from a seed, the same each time.

use jiff::{Timestamp, ToSpan};

use super::AGENTS;

pub const DAY: i64 = 24 * HOUR;
pub const HOUR: i64 = 60 * MINUTE;
pub const MINUTE: i64 = 60_000;

/// Numbers that look random (SplitMix64).
#[derive(Debug, Clone)]
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, n: i64) -> i64 {
        i64::try_from(self.next() % u64::try_from(n).unwrap()).unwrap()
    }
}

/// Something that happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// The supervisor is killed; what runs goes on.
    Down,
    Up,
    /// It is killed and starts again at once; in the middle of a transaction or between two.
    Crash(bool),
    /// An agent is halted, or the hive.
    Halt(Option<usize>),
    Lift(Option<usize>),
    /// The container goes, and what runs in it is lost.
    Gone(usize),
    Back(usize),
    /// The clock is set by so many milliseconds.
    Step(i64),
    /// Somebody raises the event that jobs wait for.
    Raise,
    /// Somebody asks for a run.
    Ask(usize),
    /// Somebody enables the job again.
    Enable(usize),
}

/// The world as far as the queue is told of it. Time that really passes is in milliseconds since it began.
#[derive(Debug, Clone)]
pub struct World {
    pub up: bool,
    pub skew: i64,
    hive_halted: bool,
    halted: [bool; 3],
    pub container: [bool; 3],
    alive_since: Timestamp,
    firing_since: [Option<Timestamp>; 3],
}

pub fn beginning() -> Timestamp {
    "2026-01-01T00:00:00Z".parse().unwrap()
}

impl World {
    pub fn new() -> Self {
        let begun = beginning();
        Self {
            up: true,
            skew: 0,
            hive_halted: false,
            halted: [false; 3],
            container: [true; 3],
            alive_since: begun,
            firing_since: [Some(begun); 3],
        }
    }

    /// What the clock shows.
    pub fn clock(&self, real: i64) -> Timestamp {
        beginning() + (real + self.skew).milliseconds()
    }

    /// When it is that the clock shows this.
    pub fn real(&self, clock: Timestamp) -> i64 {
        clock.as_millisecond() - beginning().as_millisecond() - self.skew
    }

    /// Since when an agent's jobs fire; none: they do not.
    pub fn alive(&self, agent: usize) -> Option<Timestamp> {
        self.firing_since[agent].filter(|_| self.up).map(|since| since.max(self.alive_since))
    }

    pub fn apply(&mut self, event: Event, real: i64) {
        match event {
            Event::Down => self.up = false,
            Event::Up | Event::Crash(_) => {
                self.up = true;
                self.alive_since = self.clock(real);
            }
            Event::Halt(agent) => *self.halt(agent) = true,
            Event::Lift(Some(agent)) => self.halted[agent] = false,
            Event::Lift(None) => (self.hive_halted, self.halted) = (false, [false; 3]),
            Event::Gone(agent) => self.container[agent] = false,
            Event::Back(agent) => self.container[agent] = true,
            Event::Step(by) => {
                self.skew += by;
                let now = self.clock(real);
                if by > 90_000 {
                    self.alive_since = now;
                }
                self.alive_since = self.alive_since.min(now);
                self.firing_since = self.firing_since.map(|since| since.map(|at| at.min(now)));
            }
            Event::Raise | Event::Ask(_) | Event::Enable(_) => {}
        }
        let now = self.clock(real);
        for agent in 0..AGENTS.len() {
            let fires = !self.hive_halted && !self.halted[agent];
            let since = self.firing_since[agent];
            self.firing_since[agent] = if fires { since.or(Some(now)) } else { None };
        }
    }

    fn halt(&mut self, agent: Option<usize>) -> &mut bool {
        agent.map_or(&mut self.hive_halted, |agent| &mut self.halted[agent])
    }
}

/// The world after each thing that happened.
pub struct Course(Vec<(i64, World)>);

impl Course {
    pub fn of(script: &[(i64, Event)]) -> Self {
        let mut world = World::new();
        let mut course = vec![(0, world.clone())];
        for (at, event) in script {
            world.apply(*event, *at);
            course.push((*at, world.clone()));
        }
        Self(course)
    }

    pub fn at(&self, real: i64) -> &World {
        &self.0[self.0.partition_point(|(at, _)| *at <= real) - 1].1
    }

    /// Whether the clock was set between.
    pub fn was_set(&self, from: i64, until: i64) -> bool {
        self.at(from - 1).skew != self.at(until).skew
    }

    /// From when to when an agent's runs could start.
    pub fn ready(&self, agent: usize, length: i64) -> Vec<(i64, i64)> {
        let (mut spans, mut since) = (Vec::new(), None);
        for (at, world) in &self.0 {
            let open = world.alive(agent).is_some() && world.container[agent];
            match (since, open) {
                (Some(from), false) => {
                    spans.push((from, *at));
                    since = None;
                }
                (None, true) => since = Some(*at),
                _ => {}
            }
        }
        spans.extend(since.map(|from| (from, length)));
        spans
    }
}

/// The year, in order. Nothing happens on a whole second, so that nothing happens at once with a fire time.
pub fn write(seed: u64, length: i64, jobs: usize) -> Vec<(i64, Event)> {
    let mut random = Random(seed);
    let mut script = Vec::new();
    let mut put = |at: i64, event| script.push((at / 1_000 * 1_000 + 250 + script.len() as i64 % 500, event));
    for _ in 0..150 {
        put(random.below(length), Event::Crash(random.below(2) == 0));
    }
    for _ in 0..60 {
        put(random.below(length), Event::Raise);
        let job = random.below(i64::try_from(jobs).unwrap());
        put(random.below(length), Event::Ask(usize::try_from(job).unwrap()));
    }
    for n in 0..40 {
        let (agent, at) = (n % 3, random.below(length));
        put(at, Event::Gone(agent));
        put(at + random.below(if n % 8 == 0 { 40 * HOUR } else { 30 * MINUTE }), Event::Back(agent));
        if n < 10 {
            let whose = if n == 0 { None } else { Some(n % 2) };
            let at = random.below(length);
            put(at, Event::Halt(whose));
            put(at + random.below(30 * HOUR), Event::Lift(whose));
        }
    }
    for by in [-HOUR, -HOUR, -20 * MINUTE, -3_000, 45_000, 10 * MINUTE, 5 * HOUR, -5 * HOUR + 7_000] {
        put(random.below(length - 10 * DAY), Event::Step(by));
    }
    // Far forward, and back when somebody sees it.
    let wrong = length / 3 + random.below(length / 3);
    put(wrong, Event::Step(23 * DAY + 4_321_000));
    put(wrong + 2 * HOUR, Event::Step(-23 * DAY - 4_321_000));
    for month in 1..12 {
        for job in 0..jobs {
            put(month * 30 * DAY + random.below(DAY), Event::Enable(job));
        }
    }
    script.sort_by_key(|(at, _)| *at);
    let mut script = without_outages(script, &outages(&mut random, length));
    script.retain(|(at, _)| *at < length);
    script
}

/// When nobody is there: minutes mostly, sometimes days; some of them over a clock change.
fn outages(random: &mut Random, length: i64) -> Vec<(i64, i64)> {
    let mut outages: Vec<(i64, i64)> = (0..45)
        .map(|n| {
            let most = if n % 9 == 0 { 3 * DAY } else { [5 * MINUTE, 3 * HOUR, 14 * HOUR][n % 3] };
            let from = random.below(length);
            (from, from + 1_000 + random.below(most))
        })
        .collect();
    for change in ["2026-03-29T00:30:00Z", "2026-04-04T14:40:00Z", "2026-11-01T04:50:00Z"] {
        let at: Timestamp = change.parse().unwrap();
        let from = at.as_millisecond() - beginning().as_millisecond();
        outages.push((from, from + HOUR));
    }
    outages.sort_unstable();
    let mut apart: Vec<(i64, i64)> = Vec::new();
    for (from, until) in outages {
        if apart.last().is_none_or(|last| last.1 + MINUTE < from) {
            apart.push((from / 1_000 * 1_000 + 777, until / 1_000 * 1_000 + 888));
        }
    }
    apart
}

/// What would happen while nobody is there happens when somebody is back.
fn without_outages(script: Vec<(i64, Event)>, outages: &[(i64, i64)]) -> Vec<(i64, Event)> {
    let mut all: Vec<(i64, Event)> =
        outages.iter().flat_map(|(from, until)| [(*from, Event::Down), (*until, Event::Up)]).collect();
    for (n, (at, event)) in script.into_iter().enumerate() {
        let within = outages.iter().find(|(from, until)| (*from..=*until).contains(&at));
        all.push((within.map_or(at, |(_, until)| until + 5_000 + n as i64 % 1_000), event));
    }
    all.sort_by_key(|(at, _)| *at);
    all
}
