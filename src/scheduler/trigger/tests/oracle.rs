//! Cron and policy P by definition, slowly: no parser, no search, one minute of the wall clock after the other.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{
    Timestamp, ToSpan as _,
    civil::{Date, Weekday},
    tz::{Offset, TimeZone},
};

pub const MINUTE: i64 = 60;
pub const HOUR: i64 = 3600;

/// Numbers in one field, and how they are written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Numbers {
    pub text: String,
    /// A bit for each.
    values: u64,
}

/// One item of a field.
#[derive(Debug, Clone, Copy)]
pub enum Item {
    One(i8),
    Range(i8, i8),
    Stepped(i8, i8, i8),
}

impl Numbers {
    pub fn star(first: i8, last: i8, step: i8) -> Self {
        let text = if step == 1 { "*".to_owned() } else { format!("*/{step}") };
        Self { text, values: bits((first..=last).filter(|v| (v - first) % step == 0)) }
    }

    pub fn list(items: &[Item]) -> Self {
        let text = |item: &Item| match item {
            Item::One(v) => v.to_string(),
            Item::Range(a, b) => format!("{a}-{b}"),
            Item::Stepped(a, b, n) => format!("{a}-{b}/{n}"),
        };
        let values = |item: &Item| match *item {
            Item::One(v) => (v..=v, 1),
            Item::Range(a, b) => (a..=b, 1),
            Item::Stepped(a, b, n) => (a..=b, n),
        };
        Self {
            text: items.iter().map(text).collect::<Vec<_>>().join(","),
            values: bits(items.iter().map(values).flat_map(|(span, step)| {
                let start = *span.start();
                span.filter(move |v| (v - start) % step == 0)
            })),
        }
    }

    pub fn one(value: i8) -> Self {
        Self::list(&[Item::One(value)])
    }

    pub fn starred(&self) -> bool {
        self.text.starts_with('*')
    }

    pub fn has(&self, value: i8) -> bool {
        self.values >> value & 1 == 1
    }
}

fn bits(values: impl Iterator<Item = i8>) -> u64 {
    values.fold(0, |bits, value| bits | 1 << value)
}

/// A day of the month or of the week that depends on the month.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Special {
    Last,
    LastWorkday,
    Nearest(i8),
    Nth(i8, i8),
    LastOf(i8),
}

impl Special {
    pub fn text(self) -> String {
        match self {
            Self::Last => "L".to_owned(),
            Self::LastWorkday => "LW".to_owned(),
            Self::Nearest(day) => format!("{day}W"),
            Self::Nth(weekday, nth) => format!("{weekday}#{nth}"),
            Self::LastOf(weekday) => format!("{weekday}L"),
        }
    }

    pub fn matches(self, date: Date) -> bool {
        let month = || date.first_of_month().series(1.day()).take_while(|d| d.month() == date.month());
        let works = |d: &Date| !matches!(d.weekday(), Weekday::Saturday | Weekday::Sunday);
        match self {
            Self::Last => month().last() == Some(date),
            Self::LastWorkday => month().filter(works).last() == Some(date),
            Self::Nearest(day) => {
                // Of two as near, none is: a weekend has a workday on one side only.
                month().any(|d| d.day() == day)
                    && month().filter(works).min_by_key(|d| (d.day() - day).abs()) == Some(date)
            }
            Self::Nth(weekday, nth) => {
                month().filter(|d| number(*d) == weekday % 7).nth(usize::try_from(nth - 1).unwrap())
                    == Some(date)
            }
            Self::LastOf(weekday) => month().filter(|d| number(*d) == weekday % 7).last() == Some(date),
        }
    }
}

/// Sunday is 0.
pub fn number(date: Date) -> i8 {
    date.weekday().to_sunday_zero_offset()
}

/// A schedule as a set of times.
#[derive(Debug, Clone)]
pub struct Plan {
    /// None: five fields.
    pub second: Option<Numbers>,
    pub minute: Numbers,
    pub hour: Numbers,
    pub day: Numbers,
    pub month: Numbers,
    /// 0 to 7.
    pub weekday: Numbers,
}

impl Plan {
    /// At these minutes of these hours, every day.
    pub fn daily(minute: Numbers, hour: Numbers) -> Self {
        Self {
            second: None,
            minute,
            hour,
            day: Numbers::star(1, 31, 1),
            month: Numbers::star(1, 12, 1),
            weekday: Numbers::star(0, 7, 1),
        }
    }

    pub fn text(&self) -> String {
        let Self { second, minute, hour, day, month, weekday } = self;
        let fields = second.iter().chain([minute, hour, day, month, weekday]);
        fields.map(|field| field.text.as_str()).collect::<Vec<_>>().join(" ")
    }

    pub fn wildcard(&self) -> bool {
        self.minute.starred() || self.hour.starred()
    }

    fn seconds(&self) -> Vec<i64> {
        self.second
            .as_ref()
            .map_or(vec![0], |second| (0..60).filter(|s| second.has(*s)).map(i64::from).collect())
    }

    pub fn date_matches(&self, date: Date) -> bool {
        let day = self.day.has(date.day());
        let weekday = self.weekday.has(number(date)) || number(date) == 0 && self.weekday.has(7);
        let both = self.day.starred() || self.weekday.starred();
        self.month.has(date.month()) && if both { day && weekday } else { day || weekday }
    }
}

/// What a zone's clock shows in a span of time, minute by minute.
pub struct Clock {
    start: i64,
    end: i64,
    /// Each minute with what the clock shows, in seconds since 1970 on that clock.
    shown: Vec<(i64, i64)>,
    /// Each minute of the wall clock that is shown for the first time in the span, with that instant.
    first: Vec<(i64, i64)>,
    /// Each minute of the wall clock that is left out, with the instant at which the clock goes on after it.
    skipped: Vec<(i64, i64)>,
}

impl Clock {
    /// `start` and `end` in seconds since 1970, on whole minutes.
    pub fn new(zone: &TimeZone, start: i64, end: i64) -> Self {
        assert_eq!((start % MINUTE, end % MINUTE), (0, 0));
        let mut clock = Self { start, end, shown: Vec::new(), first: Vec::new(), skipped: Vec::new() };
        // What is shown in the span may have been shown up to a day before it.
        let mut farthest = start - 26 * HOUR + offset(zone, start - 26 * HOUR);
        for at in minutes(start - 26 * HOUR + MINUTE, end) {
            let wall = at + offset(zone, at);
            assert_eq!(wall % MINUTE, 0, "the clock shows whole minutes");
            if at >= start {
                clock.shown.push((at, wall));
                if wall > farthest {
                    clock.first.push((at, wall));
                    clock.skipped.extend(minutes(farthest + MINUTE, wall - MINUTE).map(|wall| (at, wall)));
                }
            }
            farthest = farthest.max(wall);
        }
        clock
    }

    /// The fire times after the start and until the end, by the definition of policy P.
    pub fn fires(&self, plan: &Plan) -> BTreeSet<i64> {
        let mut dates = BTreeMap::new();
        let mut matches = |wall: i64| {
            let (day, minute) = (wall.div_euclid(24 * HOUR), wall.rem_euclid(24 * HOUR) / MINUTE);
            plan.hour.has(i8::try_from(minute / 60).unwrap())
                && plan.minute.has(i8::try_from(minute % 60).unwrap())
                && *dates.entry(day).or_insert_with(|| plan.date_matches(date(wall)))
        };
        let seconds = plan.seconds();
        let mut fires = BTreeSet::new();
        let shown = if plan.wildcard() { &self.shown } else { &self.first };
        for (at, wall) in shown {
            if matches(*wall) {
                fires.extend(seconds.iter().map(|s| at + s));
            }
        }
        if !plan.wildcard() {
            fires.extend(self.skipped.iter().filter(|(_, wall)| matches(*wall)).map(|(at, _)| *at));
        }
        fires.into_iter().filter(|at| *at > self.start && *at <= self.end).collect()
    }
}

/// What a wall clock that shows so many seconds since 1970 has as its date.
pub fn date(wall: i64) -> Date {
    Offset::UTC.to_datetime(second(wall)).date()
}

/// Every whole minute of a span, both ends included.
pub fn minutes(from: i64, to: i64) -> impl Iterator<Item = i64> {
    (0..=(to - from).div_euclid(MINUTE)).map(move |n| from + n * MINUTE)
}

pub fn offset(zone: &TimeZone, at: i64) -> i64 {
    i64::from(zone.to_offset(second(at)).seconds())
}

pub fn second(at: i64) -> Timestamp {
    Timestamp::from_second(at).unwrap()
}

/// The instants from `from` to `to` at which a zone's clock is changed, found by looking every fourth day
/// and then closer, not by asking for them.
pub fn changes(zone: &TimeZone, from: i64, to: i64) -> Vec<i64> {
    let mut changes = Vec::new();
    let step = 4 * 24 * HOUR;
    for start in (0..(to - from) / step).map(|n| from + n * step) {
        let (mut before, mut after) = (start, start + step);
        if offset(zone, before) == offset(zone, after) {
            continue;
        }
        while after - before > MINUTE {
            let middle = before + (after - before) / MINUTE / 2 * MINUTE;
            let same = offset(zone, middle) == offset(zone, before);
            (before, after) = if same { (middle, after) } else { (before, middle) };
        }
        changes.push(after);
    }
    changes
}
