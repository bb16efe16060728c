//! What people write for a zone, an interval and a single time.
//!
//! Reads and checks; never looks at the clock.

use std::time::Duration;

use jiff::{
    Timestamp, civil,
    fmt::temporal::{Pieces, PiecesOffset, TimeZoneAnnotationKind},
    tz::{self, AmbiguousOffset, TimeZone},
};

use super::ScheduleError;
use crate::config::units::parse_duration;

/// The shortest interval.
pub const MIN_EVERY: Duration = Duration::from_secs(1);
/// The longest interval.
pub const MAX_EVERY: Duration = Duration::from_secs(10 * 365 * 86_400);
/// How far a one-shot's time may lie in the past when it is created (scheduling.md).
const AT_GRACE: i64 = 60;
/// Bytes of a time or of a zone's name; the longest there are have about sixty and thirty.
const MAX_LENGTH: usize = 128;

/// The time zone with that IANA name, in any case of letters.
///
/// # Errors
/// It is not known; the error names the nearest that is.
pub fn zone(name: &str) -> Result<TimeZone, ScheduleError> {
    let name = name.trim();
    if name.is_empty() || name.len() > MAX_LENGTH {
        return Err(ScheduleError("name a time zone such as `Europe/Berlin` or `UTC`".to_owned()));
    }
    match tz::db().get(name) {
        Ok(zone) if !zone.is_unknown() => Ok(zone),
        _ => Err(ScheduleError(match nearest_zone(name) {
            Some(near) => format!("the time zone `{name}` is not known: did you mean `{near}`?"),
            None => {
                format!("the time zone `{name}` is not known: write one such as `Europe/Berlin` or `UTC`")
            }
        })),
    }
}

/// The known zone whose name, or whose city, is written most like `name`.
fn nearest_zone(name: &str) -> Option<String> {
    let plain = |name: &str| name.to_lowercase().replace(' ', "_");
    let written = plain(name);
    let distance = |known: &str| {
        let known = plain(known);
        let city = known.rsplit_once('/').map_or(known.as_str(), |(_, city)| city);
        // The whole name goes first.
        let whole = strsim::damerau_levenshtein(&written, &known) * 2;
        whole.min(strsim::damerau_levenshtein(&written, city) * 2 + 1)
    };
    tz::db()
        .available()
        .map(|known| known.as_str().to_owned())
        .min_by_key(|known| (distance(known), known.clone()))
}

/// An interval such as `30m`.
///
/// # Errors
/// It cannot be read, or is shorter than [`MIN_EVERY`] or longer than [`MAX_EVERY`].
pub fn parse_every(text: &str) -> Result<Duration, ScheduleError> {
    let refuse = |reason: &str| ScheduleError(format!("the interval `{}` {reason}", shown(text)));
    let every = parse_duration(text).map_err(|e| refuse(&format!("cannot be read: {e}")))?;
    if every < MIN_EVERY {
        return Err(refuse("is too short: write at least `1s`"));
    }
    if every > MAX_EVERY {
        return Err(refuse("is too long: write at most ten years, `3650d`"));
    }
    Ok(every)
}

/// A single time: RFC 3339 with an offset, RFC 9557 with a zone in brackets, or neither, and then in `zone`. A time
/// that a clock change leaves out is the moment the clock goes on; of one that comes twice, the first is meant.
/// Fractions of a millisecond are dropped.
///
/// # Errors
/// It cannot be read, names an unknown zone, or an offset that its zone does not have then.
pub fn parse_at(text: &str, zone: &str) -> Result<Timestamp, ScheduleError> {
    const FORM: &str =
        "write one such as `2026-12-24T18:00:00` (in the job's time zone) or `2026-12-24T18:00:00Z`";
    let text = text.trim();
    let unread = || ScheduleError(format!("`{}` cannot be read as a time: {FORM}", shown(text)));
    let pieces = Some(text).filter(|text| text.len() <= MAX_LENGTH).map(Pieces::parse);
    let pieces = pieces.and_then(Result::ok).ok_or_else(unread)?;
    let Some(time) = pieces.time() else {
        return Err(ScheduleError(format!("`{text}` has no time of day: {FORM}")));
    };
    let wall = pieces.date().to_datetime(time);
    let named = match pieces.time_zone_annotation().map(tz_annotation) {
        Some(name) => Some(self::zone(&name.ok_or_else(unread)?)?),
        None => None,
    };
    let far = |_| ScheduleError(format!("`{text}` lies outside the years that can be counted"));
    let at = match (pieces.offset(), named) {
        (None, None) => resolve(wall, &self::zone(zone)?).map_err(far)?,
        (None, Some(named)) => resolve(wall, &named).map_err(far)?,
        (Some(offset), named) => {
            let at = offset.to_numeric_offset().to_timestamp(wall).map_err(far)?;
            // `Z` says nothing of the offset there.
            let claims = matches!(offset, PiecesOffset::Numeric(_));
            if let Some(named) =
                named.filter(|zone| claims && zone.to_offset(at) != offset.to_numeric_offset())
            {
                let right = named.to_offset(at);
                return Err(ScheduleError(format!(
                    "the offset of `{text}` is not that of its zone, {right} then: leave one of the two out"
                )));
            }
            at
        }
    };
    Timestamp::from_millisecond(at.as_millisecond()).map_err(far)
}

fn tz_annotation(annotation: &jiff::fmt::temporal::TimeZoneAnnotation<'_>) -> Option<String> {
    match annotation.kind() {
        TimeZoneAnnotationKind::Named(name) => Some(name.as_str().to_owned()),
        _ => None,
    }
}

/// The first instant at which the clock shows `wall` or has gone past it.
fn resolve(wall: civil::DateTime, zone: &TimeZone) -> Result<Timestamp, jiff::Error> {
    match zone.to_ambiguous_timestamp(wall).offset() {
        AmbiguousOffset::Unambiguous { offset } | AmbiguousOffset::Fold { before: offset, .. } => {
            offset.to_timestamp(wall)
        }
        AmbiguousOffset::Gap { before, after } => {
            // Read with the offset of afterwards, it lies before the change.
            let early = after.to_timestamp(wall)?;
            let change = zone.following(early).find(|change| change.offset() == after);
            change.map_or_else(|| before.to_timestamp(wall), |change| Ok(change.timestamp()))
        }
    }
}

/// Whether a one-shot may still be set for `at`.
///
/// # Errors
/// It is more than a minute ago; the error says how long.
pub fn check_at(at: Timestamp, now: Timestamp) -> Result<(), ScheduleError> {
    let ago = now.duration_since(at);
    if ago <= jiff::SignedDuration::from_secs(AT_GRACE) {
        return Ok(());
    }
    let ago = long(ago.as_secs());
    Err(ScheduleError(format!("`{at}` is in the past, {ago} ago: write a time that is still to come")))
}

/// A length of time for people, in the largest unit of which it has two.
fn long(seconds: i64) -> String {
    const UNITS: [(&str, i64); 4] =
        [("years", 365 * 86_400), ("days", 86_400), ("hours", 3600), ("minutes", 60)];
    let fits = UNITS.iter().find(|(_, length)| seconds >= 2 * length);
    let (unit, length) = fits.unwrap_or(&("seconds", 1));
    format!("{} {unit}", seconds / length)
}

/// The beginning of what somebody wrote.
fn shown(text: &str) -> String {
    if text.chars().count() <= 40 { text.to_owned() } else { text.chars().take(40).chain(['…']).collect() }
}
