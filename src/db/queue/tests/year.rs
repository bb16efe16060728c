//! A hive that is left alone for a year, with clock changes in several zones, kills, outages, halts and a clock that is
//! set: an oracle that knows only the calendar and the policies says what each fire time had to become.

mod calendar;
mod oracle;
mod script;
mod sim;
mod starts;

use jiff::ToSpan;

use self::calendar::Calendar;
use super::*;

const AGENTS: [&str; 3] = ["alpha", "beta", "gamma"];

/// When a job fires, for the queue and spelled out for the oracle.
#[derive(Debug, Clone)]
pub enum When {
    Cron(&'static str, Calendar),
    /// Milliseconds.
    Every(&'static str, i64),
    Once(&'static str),
    Ring,
}

/// A job of the year.
#[derive(Debug, Clone)]
pub struct Planned {
    pub name: &'static str,
    pub agent: usize,
    pub when: When,
    pub missed: Missed,
    pub within: Option<Duration>,
    pub overlap: Overlap,
    pub retries: u32,
    pub jitter: Duration,
    /// Of a hundred attempts, so many fail.
    pub fails: i64,
    /// No attempt takes longer, in minutes.
    pub longest: i64,
}

impl Planned {
    fn new(name: &'static str, agent: usize, when: When) -> Self {
        Self {
            name,
            agent,
            when,
            missed: Missed::Last,
            within: None,
            overlap: Overlap::Skip,
            retries: 0,
            jitter: Duration::ZERO,
            fails: 5,
            longest: 2,
        }
    }

    fn spec(&self) -> JobSpec {
        let trigger = match &self.when {
            When::Cron(schedule, calendar) => {
                TriggerSpec::Cron { schedule: (*schedule).into(), timezone: calendar.zone.into() }
            }
            When::Every(every, _) => TriggerSpec::Interval { every: (*every).into() },
            When::Once(at) => TriggerSpec::OneShot { at: at.parse().unwrap(), timezone: None },
            When::Ring => TriggerSpec::Event { event: vec!["ring".into()] },
        };
        JobSpec {
            missed: self.missed,
            missed_within: self.within,
            overlap: self.overlap,
            retries: self.retries,
            jitter: self.jitter,
            ..JobSpec::new(trigger)
        }
    }

    fn new_job(&self, now: Timestamp) -> NewJob {
        let spec = self.spec();
        NewJob {
            agent: AGENTS[self.agent].parse().unwrap(),
            name: self.name.into(),
            origin: Origin::Api,
            next: spec.trigger.compile().unwrap().next(now, now),
            spec,
            disabled_reason: None,
            auto_enable: false,
        }
    }
}

/// How long an attempt takes, in milliseconds, and how it ends: the same whenever it is asked.
fn fate(job: &Planned, at: Timestamp, attempt: u32) -> (i64, RunStatus) {
    let seed = job.name.bytes().fold(u64::from(attempt), |sum, byte| sum.wrapping_mul(131) + u64::from(byte));
    let mut random = script::Random(seed ^ at.as_millisecond().cast_unsigned());
    let (dice, long) = (random.below(100), random.below(8) == 0);
    let most = if long { job.longest * script::MINUTE } else { 20_000 };
    // Never whole seconds: it ends at no fire time.
    let length = 1_000 + random.below(most) / 1_000 * 1_000 + 1 + random.below(200);
    let status = match dice {
        n if n < job.fails => RunStatus::Failed,
        98 => RunStatus::TimedOut,
        99 => RunStatus::Lost,
        _ => RunStatus::Succeeded,
    };
    (length, status)
}

/// A cron job with everything spelled out twice.
fn cron(
    name: &'static str,
    schedule: &'static str,
    zone: &'static str,
    hours: impl IntoIterator<Item = i8>,
    minutes: impl IntoIterator<Item = i8>,
) -> Planned {
    let calendar = Calendar {
        zone,
        hours: hours.into_iter().collect(),
        minutes: minutes.into_iter().collect(),
        seconds: vec![0],
        days: calendar::every_day,
        wildcard: schedule.split(' ').take(2).any(|field| field.starts_with('*')),
    };
    Planned::new(name, name.len() % 3, When::Cron(schedule, calendar))
}

fn on(days: fn(jiff::civil::Date) -> bool, mut job: Planned) -> Planned {
    if let When::Cron(_, calendar) = &mut job.when {
        calendar.days = days;
    }
    job
}

const BERLIN: &str = "Europe/Berlin";
const NEW_YORK: &str = "America/New_York";
const LORD_HOWE: &str = "Australia/Lord_Howe";

fn jobs_of_the_year() -> Vec<Planned> {
    use Missed::{All, Skip};
    use Overlap::{Allow, Queue, Replace};
    let hours = |n: u64| Some(Duration::from_secs(n * 3_600));
    let seconds = Duration::from_secs;
    let mut jobs = vec![
        // Fixed times in the gap and in the hour that comes twice.
        Planned { missed: All, ..cron("berlin half past two", "30 2 * * *", BERLIN, [2], [30]) },
        Planned { overlap: Queue, ..cron("berlin two and three", "0,30 2,3 * * *", BERLIN, [2, 3], [0, 30]) },
        cron("new york half past one", "30 1 * * *", NEW_YORK, [1], [30]),
        cron("new york half past two", "30 2 * * *", NEW_YORK, [2], [30]),
        Planned { missed: All, ..cron("lord howe", "15 2 * * *", LORD_HOWE, [2], [15]) },
        Planned { missed: Skip, ..cron("lord howe fold", "45 1 * * *", LORD_HOWE, [1], [45]) },
        // Midnight itself is left out there.
        cron("cairo midnight", "0 0 * * *", "Africa/Cairo", [0], [0]),
        cron("santiago midnight", "0 0 * * *", "America/Santiago", [0], [0]),
        cron("apia", "0 12 * * *", "Pacific/Apia", [12], [0]),
        // Wildcards.
        Planned {
            overlap: Allow,
            missed: All,
            within: hours(6),
            ..cron("berlin nights", "*/30 1-3 * * *", BERLIN, 1..=3, [0, 30])
        },
        Planned {
            overlap: Queue,
            longest: 70,
            ..cron("new york nights", "*/30 0-3 * * *", NEW_YORK, 0..=3, [0, 30])
        },
        Planned {
            longest: 12,
            ..cron("lord howe nights", "*/15 1-2 * * *", LORD_HOWE, 1..=2, [0, 15, 30, 45])
        },
        Planned {
            longest: 300,
            fails: 9,
            ..cron("often", "7 */2 * * *", "Africa/Casablanca", (0..24).step_by(2), [7])
        },
        Planned {
            overlap: Replace,
            longest: 400,
            missed: All,
            ..cron("replaced", "20 */2 * * *", NEW_YORK, (0..24).step_by(2), [20])
        },
        // Days.
        on(calendar::workday, cron("workdays", "0 9 * * MON-FRI", BERLIN, [9], [0])),
        on(calendar::last_of_month, cron("last of the month", "0 18 L * *", BERLIN, [18], [0])),
        on(calendar::second_monday, cron("second monday", "30 12 * * MON#2", NEW_YORK, [12], [30])),
        on(calendar::thirteenth_or_friday, cron("13th or friday", "0 6 13 * FRI", "UTC", [6], [0])),
        // Failures.
        Planned { retries: 2, fails: 45, ..cron("retried", "0 6,18 * * *", "UTC", [6, 18], [0]) },
        Planned { fails: 70, longest: 30, ..cron("failing", "*/20 4-6 * * *", "UTC", 4..=6, [0, 20, 40]) },
        Planned {
            fails: 60,
            retries: 1,
            overlap: Queue,
            longest: 40,
            missed: All,
            ..cron("failing in line", "*/15 14-15 * * *", "UTC", 14..=15, [0, 15, 30, 45])
        },
        Planned {
            jitter: seconds(600),
            within: hours(2),
            ..cron("jitter", "0 3,4 * * *", "Asia/Kathmandu", [3, 4], [0])
        },
        // Intervals.
        Planned { longest: 500, ..Planned::new("every six hours", 0, When::Every("6h", 6 * script::HOUR)) },
        Planned { missed: Skip, ..Planned::new("every 4 hours", 1, When::Every("4h", 4 * script::HOUR)) },
        Planned {
            missed: All,
            overlap: Allow,
            longest: 500,
            ..Planned::new("every five hours", 2, When::Every("5h", 5 * script::HOUR))
        },
        Planned {
            jitter: seconds(900),
            overlap: Queue,
            longest: 2_000,
            ..Planned::new("every day", 2, When::Every("1d", script::DAY))
        },
        Planned { fails: 55, ..Planned::new("every three hours", 1, When::Every("3h", 3 * script::HOUR)) },
        // Once, and when it rings.
        Planned { fails: 0, ..Planned::new("once", 0, When::Once("2026-03-29T01:10:00Z")) },
        Planned { fails: 100, ..Planned::new("once in vain", 1, When::Once("2026-07-14T12:00:00Z")) },
        Planned { longest: 900, ..Planned::new("ring", 0, When::Ring) },
        Planned { overlap: Allow, fails: 40, ..Planned::new("ring allowed", 1, When::Ring) },
    ];
    let mut quick = on(calendar::first_of_march, cron("seconds", "*/10 0-1 12 1 3 *", "UTC", [12], [0, 1]));
    if let When::Cron(_, calendar) = &mut quick.when {
        (calendar.seconds, calendar.wildcard) = ((0..60).step_by(10).collect(), false);
    }
    jobs.push(quick);
    jobs
}

#[test]
fn a_hive_that_is_left_alone_for_a_year_does_exactly_what_its_policies_say() {
    let (seed, length) = (20_260_101, 365 * script::DAY);
    let jobs = jobs_of_the_year();
    let script = script::write(seed, length, jobs.len());
    let mut sim = sim::Sim::begin(&jobs);
    sim.live(&script, length);
    let judged = oracle::judge(&sim, &jobs, &script, length);
    println!("{} looks, {} runs, {judged} fire times judged", sim.log.looks, sim.log.created.len());
    let whole: String = sim.conn.query_row("PRAGMA integrity_check", [], |r| r.get(0)).unwrap();
    assert_eq!(whole, "ok");
}
