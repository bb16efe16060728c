//! When a job fires.

use std::time::Duration;

use jiff::{Timestamp, civil, tz::TimeZone};

/// Why a schedule is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ScheduleError(pub String);

/// A fire time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fire {
    /// When.
    pub at: Timestamp,
    /// The wall-clock time that a clock change left out.
    pub shifted_from: Option<civil::DateTime>,
}

/// A cron expression in a zone.
#[derive(Debug, Clone)]
pub struct CronSchedule {
    cron: croner::Cron,
    zone: TimeZone,
}

impl CronSchedule {
    /// Reads it.
    ///
    /// # Errors
    /// Why it is refused.
    pub fn parse(expression: &str, name: &str) -> Result<Self, ScheduleError> {
        let cron = expression.parse().map_err(|e: croner::errors::CronError| ScheduleError(e.to_string()))?;
        Ok(Self { cron, zone: zone(name)? })
    }

    /// The next fire time.
    #[must_use]
    pub fn next(&self, after: Timestamp) -> Option<Fire> {
        let after = after.to_zoned(self.zone.clone());
        let at = self.cron.find_next_occurrence(&after, false).ok()?.timestamp();
        Some(Fire { at, shifted_from: None })
    }
}

/// A zone by name.
///
/// # Errors
/// It is not known.
pub fn zone(name: &str) -> Result<TimeZone, ScheduleError> {
    TimeZone::get(name).map_err(|e| ScheduleError(e.to_string()))
}

/// An interval.
///
/// # Errors
/// Why it is refused.
pub fn parse_every(text: &str) -> Result<Duration, ScheduleError> {
    crate::config::units::parse_duration(text).map_err(ScheduleError)
}

/// A trigger.
#[derive(Debug, Clone)]
pub enum Trigger {
    /// Cron.
    Cron(CronSchedule),
    /// Every so long.
    Interval(Duration),
    /// Once.
    OneShot(Timestamp),
    /// On events.
    Event(Vec<String>),
    /// On demand.
    Manual,
}

impl Trigger {
    /// The first fire time after `after`.
    #[must_use]
    pub fn next(&self, anchor: Timestamp, after: Timestamp) -> Option<Fire> {
        let at = match self {
            Self::Cron(cron) => return cron.next(after),
            Self::Interval(every) => {
                let every = i64::try_from(every.as_millis()).ok()?;
                let passed = after.as_millisecond() - anchor.as_millisecond();
                let k = (passed.div_euclid(every) + 1).max(1);
                Timestamp::from_millisecond(anchor.as_millisecond() + k * every).ok()?
            }
            Self::OneShot(at) if *at > after => *at,
            _ => return None,
        };
        Some(Fire { at, shifted_from: None })
    }
}
