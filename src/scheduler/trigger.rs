//! When a job fires: cron in a zone, an interval, one time, an event, or only by hand (scheduling.md).
//!
//! Pure: `now`, the last start and the zone are told, and every answer follows from them. It does not know missed
//! times, overlap or backoff; that is `due`.

mod calendar;
mod cron;
mod fields;
mod fires;
mod moments;

use std::{iter, time::Duration};

use jiff::{SignedDuration, Timestamp, civil};

pub use cron::CronSchedule;
pub use fires::Fires;
pub use moments::{MAX_EVERY, MIN_EVERY, check_at, parse_at, parse_every, zone};

/// Why a schedule is refused, in words for the one who wrote it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ScheduleError(pub String);

/// A fire time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fire {
    /// When.
    pub at: Timestamp,
    /// The wall-clock time that a clock change left out and that this one stands for; the first, if it stands for
    /// several.
    pub shifted_from: Option<civil::DateTime>,
}

impl Fire {
    fn on_time(at: Timestamp) -> Self {
        Self { at, shifted_from: None }
    }
}

/// What makes a job fire.
#[derive(Debug, Clone)]
pub enum Trigger {
    /// At the times of a cron expression.
    Cron(CronSchedule),
    /// So long after the last start; never run: after creation (systems.md A8).
    Interval(Duration),
    /// Once.
    OneShot(Timestamp),
    /// When an event of one of these names is raised.
    Event(Vec<String>),
    /// When somebody asks.
    Manual,
}

impl Trigger {
    /// The first fire time strictly after `after`; none if there is none before the year 10000.
    ///
    /// An interval counts from `anchor`, which itself is no fire time.
    #[must_use]
    pub fn next(&self, anchor: Timestamp, after: Timestamp) -> Option<Fire> {
        match self {
            Self::Cron(schedule) => schedule.next(after),
            Self::Interval(every) => interval(*every, anchor, after).map(Fire::on_time),
            Self::OneShot(at) => (*at > after).then(|| Fire::on_time(*at)),
            Self::Event(_) | Self::Manual => None,
        }
    }

    /// Every fire time strictly after `after`, in order.
    pub fn after(&self, anchor: Timestamp, after: Timestamp) -> Box<dyn Iterator<Item = Fire> + '_> {
        if let Self::Cron(schedule) = self {
            return Box::new(schedule.after(after));
        }
        Box::new(iter::successors(self.next(anchor, after), move |fire| self.next(anchor, fire.at)))
    }

    /// The fire times after `after` and not later than `until`, at most `limit` of them, and whether there are more.
    #[must_use]
    pub fn between(
        &self,
        anchor: Timestamp,
        after: Timestamp,
        until: Timestamp,
        limit: usize,
    ) -> (Vec<Fire>, bool) {
        let mut fires = self.after(anchor, after).take_while(|fire| fire.at <= until);
        let kept = fires.by_ref().take(limit).collect();
        (kept, fires.next().is_some())
    }
}

/// The first `anchor + k * every`, with k from 1, after `after`.
fn interval(every: Duration, anchor: Timestamp, after: Timestamp) -> Option<Timestamp> {
    let step = i128::try_from(every.as_nanos()).ok().filter(|step| *step > 0)?;
    let passed = after.as_nanosecond() - anchor.as_nanosecond();
    let k = passed.div_euclid(step).max(0).checked_add(1)?;
    let offset = SignedDuration::try_from_nanos_i128(k.checked_mul(step)?)?;
    anchor.checked_add(offset).ok()
}

#[cfg(test)]
mod tests;
