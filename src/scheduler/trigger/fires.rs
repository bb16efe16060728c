//! The fire times of a calendar in a zone, by the daylight-saving policy of scheduling.md ("policy P").
//!
//! Walks the stretches between the zone's clock changes, in each of which the wall clock runs evenly. Looks at
//! no second by itself: the calendar answers what comes next.

use jiff::{
    Timestamp, civil,
    tz::{Offset, TimeZone},
};

use super::{Fire, calendar::Calendar};

/// Two places' clocks differ by less: offsets lie within 26 hours of UTC.
const WIDEST_CHANGE: i64 = 52 * 3600;

/// Fire times in order, each later than the one before; ends with the year 9999.
#[derive(Debug)]
pub struct Fires<'s> {
    calendar: &'s Calendar,
    zone: &'s TimeZone,
    wildcard: bool,
    /// Seconds from UTC in this stretch.
    offset: i64,
    /// The clock change that ends it.
    change: Option<Change>,
    /// The first second of the wall clock that is not dealt with. In seconds since 1970 on that clock; for a fixed
    /// schedule it never goes back.
    open: i64,
}

#[derive(Debug, Clone, Copy)]
struct Change {
    at: i64,
    offset: i64,
}

impl<'s> Fires<'s> {
    pub(super) fn new(calendar: &'s Calendar, zone: &'s TimeZone, wildcard: bool, after: Timestamp) -> Self {
        let passed = after.as_second() - i64::from(after.subsec_nanosecond() < 0);
        let offset = offset_at(zone, passed);
        let mut open = passed + offset + 1;
        if !wildcard {
            // In the second pass of a time that comes twice, the clock has already been ahead.
            open = farthest(zone, passed).map_or(open, |shown| open.max(shown));
        }
        Self { calendar, zone, wildcard, offset, change: change_after(zone, passed), open }
    }

    /// Steps over a clock change. What a fixed schedule misses in the gap fires at its end, once.
    fn cross(&mut self, change: Change) -> Option<Fire> {
        let ends = change.at + self.offset;
        let begins = change.at + change.offset;
        self.offset = change.offset;
        self.change = change_after(self.zone, change.at);
        if self.wildcard {
            self.open = begins;
            return None;
        }
        self.open = self.open.max(ends);
        let missed = self.calendar.next(wall(self.open)?).filter(|time| seconds(*time) < begins)?;
        self.open = begins + 1;
        Some(Fire { at: Timestamp::from_second(change.at).ok()?, shifted_from: Some(missed) })
    }
}

impl Iterator for Fires<'_> {
    type Item = Fire;

    fn next(&mut self) -> Option<Fire> {
        loop {
            let due = seconds(self.calendar.next(wall(self.open)?)?);
            let at = due - self.offset;
            match self.change {
                Some(change) if change.at <= at => {
                    if let Some(fire) = self.cross(change) {
                        return Some(fire);
                    }
                }
                _ => {
                    self.open = due + 1;
                    return Timestamp::from_second(at).ok().map(Fire::on_time);
                }
            }
        }
    }
}

/// The first clock change after a second.
fn change_after(zone: &TimeZone, second: i64) -> Option<Change> {
    let change = zone.following(timestamp(second)).next()?;
    let at = change.timestamp().as_second();
    (at > second).then(|| Change { at, offset: i64::from(change.offset().seconds()) })
}

/// The second of the wall clock up to which changes until now had brought it; none without a recent change.
fn farthest(zone: &TimeZone, now: i64) -> Option<i64> {
    zone.preceding(timestamp(now + 1))
        .map(|change| change.timestamp().as_second())
        .take_while(|at| *at > now - WIDEST_CHANGE)
        .map(|at| at + offset_at(zone, at - 1))
        .max()
}

fn offset_at(zone: &TimeZone, second: i64) -> i64 {
    i64::from(zone.to_offset(timestamp(second)).seconds())
}

/// Before the first or after the last instant, that one.
fn timestamp(second: i64) -> Timestamp {
    let within = second.clamp(Timestamp::MIN.as_second(), Timestamp::MAX.as_second());
    Timestamp::from_second(within).unwrap_or(Timestamp::MAX)
}

/// The wall clock so many seconds after it showed 1970. None: past the last year.
fn wall(second: i64) -> Option<civil::DateTime> {
    let within = second.max(Timestamp::MIN.as_second());
    Timestamp::from_second(within).ok().map(|second| Offset::UTC.to_datetime(second))
}

fn seconds(wall: civil::DateTime) -> i64 {
    Offset::UTC.to_timestamp(wall).map_or(i64::MAX / 2, Timestamp::as_second)
}
