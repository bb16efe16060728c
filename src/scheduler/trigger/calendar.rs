//! The wall-clock times that a cron expression names, in a form in which the next one is found in a few steps.
//!
//! The parser library says which days match, asked when needed and once for each kind of month: its length and its
//! first weekday decide. Knows no zones.

use std::sync::OnceLock;

use croner::{Cron, CronComponent, Weekday};
use jiff::{
    ToSpan as _,
    civil::{self, Date, DateTime, Time},
};

/// Four lengths of a month, from 28 days, and seven weekdays that it may begin with.
const KINDS: usize = 4 * 7;

/// What matches; the bit of its number stands for each second, minute, hour, month and day of a month.
#[derive(Debug, Clone)]
pub(super) struct Calendar {
    cron: Cron,
    seconds: u64,
    minutes: u64,
    hours: u64,
    months: u64,
    days: [OnceLock<u64>; KINDS],
}

impl Calendar {
    pub(super) fn new(cron: Cron) -> Self {
        let bits = |field: &CronComponent| field.values().iter().fold(0, |bits, value| bits | 1 << value);
        let pattern = &cron.pattern;
        Self {
            seconds: bits(&pattern.seconds),
            minutes: bits(&pattern.minutes),
            hours: bits(&pattern.hours),
            months: bits(&pattern.months),
            days: [const { OnceLock::new() }; KINDS],
            cron,
        }
    }

    /// Whether no date ever matches: 30 February, 31 April.
    pub(super) fn is_empty(&self) -> bool {
        // Twenty-eight years have months of every length that begin in every way that there is.
        let mut months = (2001..2029).flat_map(|year| (1..=12).map(move |month| civil::date(year, month, 1)));
        months.all(|month| self.days_of(month) == 0)
    }

    /// The first matching second from `from` on; none before the year 10000.
    pub(super) fn next(&self, from: DateTime) -> Option<DateTime> {
        let (date, time) = (from.date(), from.time());
        if has(self.days_of(date.first_of_month()), date.day())
            && let Some(time) = self.time_from(time)
        {
            return Some(date.to_datetime(time));
        }
        let midnight = self.time_from(Time::midnight())?;
        Some(self.date_after(date)?.to_datetime(midnight))
    }

    fn date_after(&self, date: Date) -> Option<Date> {
        let mut month = date.first_of_month();
        let mut day = first(self.days_of(month), date.day() + 1);
        while day.is_none() {
            month = match first(self.months, month.month() + 1) {
                Some(later) => Date::new(month.year(), later, 1),
                None => Date::new(month.year() + 1, first(self.months, 1)?, 1),
            }
            .ok()?;
            day = first(self.days_of(month), 1);
        }
        Date::new(month.year(), month.month(), day?).ok()
    }

    fn time_from(&self, from: Time) -> Option<Time> {
        let (hour, minute) = (from.hour(), from.minute());
        if has(self.hours, hour) {
            if has(self.minutes, minute)
                && let Some(second) = first(self.seconds, from.second())
            {
                return Time::new(hour, minute, second, 0).ok();
            }
            if let Some(minute) = first(self.minutes, minute + 1) {
                return Time::new(hour, minute, first(self.seconds, 0)?, 0).ok();
            }
        }
        let hour = first(self.hours, hour + 1)?;
        Time::new(hour, first(self.minutes, 0)?, first(self.seconds, 0)?, 0).ok()
    }

    /// The matching days of the month that begins with `month`.
    fn days_of(&self, month: Date) -> u64 {
        if !has(self.months, month.month()) {
            return 0;
        }
        *self.days[kind(month)].get_or_init(|| matching_days(&self.cron, month))
    }
}

/// Which of the kinds the month is that begins with `month`.
fn kind(month: Date) -> usize {
    let (length, weekday) = (month.days_in_month(), month.weekday().to_sunday_zero_offset());
    usize::try_from((length - 28) * 7 + weekday).unwrap_or(0)
}

fn matching_days(cron: &Cron, month: Date) -> u64 {
    let mut days = 0;
    for date in month.series(1.day()).take_while(|date| date.month() == month.month()) {
        let weekday =
            Weekday::from_days_from_sunday(date.weekday().to_sunday_zero_offset().unsigned_abs().into());
        let (year, month) = (i32::from(date.year()), u32::from(date.month().unsigned_abs()));
        let day = u32::from(date.day().unsigned_abs());
        // It refuses only dates that do not exist.
        if cron.pattern.day_match(year, month, day, weekday).unwrap_or(false) {
            days |= 1 << day;
        }
    }
    days
}

fn has(bits: u64, number: i8) -> bool {
    bits >> number & 1 == 1
}

/// The first number from `from` on.
fn first(bits: u64, from: i8) -> Option<i8> {
    let left = bits >> from << from;
    if left == 0 { None } else { i8::try_from(left.trailing_zeros()).ok() }
}
