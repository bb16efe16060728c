//! A cron expression in a zone, read and checked once, so that its fire times cost little.

use std::sync::Arc;

use croner::parser::{CronParser, Seconds, Year};
use jiff::{Timestamp, tz::TimeZone};

use super::{
    Fire, ScheduleError,
    calendar::Calendar,
    fields::{self, Normal},
    fires::Fires,
    moments,
};

/// A cron expression in a zone.
#[derive(Debug, Clone)]
pub struct CronSchedule {
    expression: String,
    zone_name: String,
    zone: TimeZone,
    pub(super) calendar: Arc<Calendar>,
    wildcard: bool,
}

impl CronSchedule {
    /// Reads an expression of 5 fields, or 6 with seconds first, or a nickname such as `@daily`, in the zone with
    /// that IANA name.
    ///
    /// A day must match both its fields (of the month, of the week) if one of them starts with `*`, and else one
    /// of them, as in Vixie cron.
    ///
    /// # Errors
    /// Which field cannot be read and what to write; that it never fires; that the zone is not known.
    pub fn parse(expression: &str, zone: &str) -> Result<Self, ScheduleError> {
        let Normal { text, wildcard, both_days } = fields::normal(expression)?;
        let expression = expression.trim().to_owned();
        let unread = |e| ScheduleError(format!("`{expression}` cannot be read as a schedule: {e}"));
        let parser = CronParser::builder()
            .seconds(Seconds::Required)
            .year(Year::Disallowed)
            .dom_and_dow(both_days)
            .build();
        let calendar = Arc::new(Calendar::new(parser.parse(&text).map_err(unread)?));
        if calendar.is_empty() {
            return Err(ScheduleError(format!(
                "`{expression}` never fires: no date matches its days and months. Write a date that comes"
            )));
        }
        let zone = moments::zone(zone)?;
        let zone_name = zone.iana_name().unwrap_or("UTC").to_owned();
        Ok(Self { expression, zone_name, zone, calendar, wildcard })
    }

    /// The first fire time strictly after `after`; none if there is none before the year 10000.
    #[must_use]
    pub fn next(&self, after: Timestamp) -> Option<Fire> {
        self.after(after).next()
    }

    /// Every fire time strictly after `after`, in order.
    #[must_use]
    pub fn after(&self, after: Timestamp) -> Fires<'_> {
        Fires::new(&self.calendar, &self.zone, self.wildcard, after)
    }

    /// Whether its minute or hour starts with `*`: it then fires at whatever time the clock shows, so that a time
    /// left out is skipped and a time that comes twice fires twice. Else it is fixed: a time left out fires when
    /// the clock goes on, and a time that comes twice fires at its first.
    #[must_use]
    pub fn is_wildcard(&self) -> bool {
        self.wildcard
    }

    /// As it was written.
    #[must_use]
    pub fn expression(&self) -> &str {
        &self.expression
    }

    /// The zone's IANA name.
    #[must_use]
    pub fn zone(&self) -> &str {
        &self.zone_name
    }
}
