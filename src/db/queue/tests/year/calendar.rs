//! Fire times by brute force: every wall-clock time that a schedule names, day after day, put on the time line by the
//! daylight-saving policy. It shares nothing with the scheduler.

use jiff::{
    Timestamp, ToSpan,
    civil::{self, Date, Weekday},
    tz::{AmbiguousOffset, TimeZone},
};

/// A schedule, spelled out.
#[derive(Debug, Clone)]
pub struct Calendar {
    pub zone: &'static str,
    pub hours: Vec<i8>,
    pub minutes: Vec<i8>,
    pub seconds: Vec<i8>,
    pub days: fn(Date) -> bool,
    /// Its minute or hour field begins with a star.
    pub wildcard: bool,
}

pub fn every_day(_: Date) -> bool {
    true
}

pub fn workday(date: Date) -> bool {
    !matches!(date.weekday(), Weekday::Saturday | Weekday::Sunday)
}

pub fn last_of_month(date: Date) -> bool {
    date.tomorrow().unwrap().day() == 1
}

pub fn second_monday(date: Date) -> bool {
    date.weekday() == Weekday::Monday && (8..=14).contains(&date.day())
}

pub fn first_of_march(date: Date) -> bool {
    (date.month(), date.day()) == (3, 1)
}

pub fn thirteenth_or_friday(date: Date) -> bool {
    date.day() == 13 || date.weekday() == Weekday::Friday
}

impl Calendar {
    /// Every fire time from `from` until `until`, in order.
    pub fn fires(&self, from: Timestamp, until: Timestamp) -> Vec<Timestamp> {
        let zone = TimeZone::get(self.zone).unwrap();
        let mut fires = Vec::new();
        let mut date = civil::date(2025, 12, 30);
        while date < civil::date(2027, 4, 1) {
            if (self.days)(date) {
                self.day(date, &zone, &mut fires);
            }
            date += 1.day();
        }
        fires.sort();
        fires.dedup();
        fires.retain(|at| (from..=until).contains(at));
        fires
    }

    fn day(&self, date: Date, zone: &TimeZone, fires: &mut Vec<Timestamp>) {
        for hour in &self.hours {
            for minute in &self.minutes {
                for second in &self.seconds {
                    self.put(date.at(*hour, *minute, *second, 0), zone, fires);
                }
            }
        }
    }

    fn put(&self, wall: civil::DateTime, zone: &TimeZone, fires: &mut Vec<Timestamp>) {
        match zone.to_ambiguous_timestamp(wall).offset() {
            AmbiguousOffset::Unambiguous { offset } => fires.push(offset.to_timestamp(wall).unwrap()),
            AmbiguousOffset::Gap { .. } if self.wildcard => {}
            AmbiguousOffset::Gap { after, .. } => {
                // The clock that was set forward already shows it before it was set.
                let before = after.to_timestamp(wall).unwrap();
                fires.push(zone.following(before).next().unwrap().timestamp());
            }
            AmbiguousOffset::Fold { before, after } => {
                fires.push(before.to_timestamp(wall).unwrap());
                if self.wildcard {
                    fires.push(after.to_timestamp(wall).unwrap());
                }
            }
        }
    }
}
