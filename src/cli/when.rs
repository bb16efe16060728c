//! Times and spans as people read them, as of one look at the clock.
//!
//! A time that names an offset is shown in it: a job's next fire time stands in the job's own zone, as its schedule
//! does. A time in UTC is shown in the zone of this machine.

use jiff::{
    Timestamp, Zoned,
    fmt::temporal::{Pieces, PiecesOffset},
    tz::TimeZone,
};

use super::ui::{plain, since};

/// The time, and the zone of whoever reads.
#[derive(Debug, Clone)]
pub(super) struct Clock {
    pub(super) now: Timestamp,
    pub(super) zone: TimeZone,
}

impl Clock {
    /// This machine's.
    pub(super) fn here() -> Self {
        Self { now: Timestamp::now(), zone: TimeZone::system() }
    }

    /// `Mon 09:00` within six days, else with the date; the text itself when it is no time.
    pub(super) fn wall(&self, rfc3339: &str) -> String {
        let Some(at) = self.read(rfc3339) else { return plain(rfc3339) };
        let today = self.now.to_zoned(at.time_zone().clone());
        let days = (at.date() - today.date()).get_days().abs();
        let day = match () {
            () if days < 7 => "%a",
            () if at.year() == today.year() => "%-d %b",
            () => "%Y-%m-%d",
        };
        let time = if at.second() == 0 { "%H:%M" } else { "%H:%M:%S" };
        at.strftime(&format!("{day} {time}")).to_string()
    }

    /// `in 3 h`; `now` when it has come.
    pub(super) fn until(&self, rfc3339: &str) -> String {
        let Ok(then) = rfc3339.parse::<Timestamp>() else { return plain(rfc3339) };
        let seconds = then.as_second() - self.now.as_second();
        match seconds {
            ..=0 => "now".to_owned(),
            1..120 => format!("in {seconds} s"),
            120..7200 => format!("in {} min", seconds / 60),
            7200..172_800 => format!("in {} h", seconds / 3600),
            _ => format!("in {} d", seconds / 86_400),
        }
    }

    /// `in 3 h · Mon 09:00`.
    pub(super) fn coming(&self, rfc3339: &str) -> String {
        format!("{} · {}", self.until(rfc3339), self.wall(rfc3339))
    }

    /// `5 min ago`.
    pub(super) fn ago(&self, rfc3339: &str) -> String {
        format!("{} ago", since(rfc3339, self.now))
    }

    /// `5 min ago · Mon 09:00`.
    pub(super) fn past(&self, rfc3339: &str) -> String {
        format!("{} · {}", self.ago(rfc3339), self.wall(rfc3339))
    }

    /// How long something took that began then, or takes when it has no end yet.
    pub(super) fn took(&self, begin: &str, end: Option<&str>) -> String {
        let end = end.map_or(Some(self.now), |end| end.parse().ok());
        match (begin.parse::<Timestamp>(), end) {
            (Ok(begin), Some(end)) => span(end.as_millisecond() - begin.as_millisecond()),
            _ => "-".to_owned(),
        }
    }

    /// A sentence, its times as [`Clock::wall`] tells them.
    pub(super) fn eased(&self, text: &str) -> String {
        let word = |word: &str| {
            let (time, rest) =
                word.split_at(word.trim_end_matches(|c: char| !c.is_ascii_alphanumeric()).len());
            let is_time = time.len() >= "2026-01-02T06:00Z".len() && self.read(time).is_some();
            if is_time { format!("{}{rest}", self.wall(time)) } else { word.to_owned() }
        };
        plain(text).split(' ').map(word).collect::<Vec<_>>().join(" ")
    }

    /// In the offset that is written, or in the zone of this machine.
    pub(super) fn read(&self, rfc3339: &str) -> Option<Zoned> {
        let at: Timestamp = rfc3339.parse().ok()?;
        let zone = match Pieces::parse(rfc3339).ok()?.offset()? {
            PiecesOffset::Numeric(written) => TimeZone::fixed(written.offset()),
            _ => self.zone.clone(),
        };
        Some(at.to_zoned(zone))
    }
}

/// Milliseconds in one or two units.
fn span(millis: i64) -> String {
    let millis = millis.max(0);
    let seconds = millis / 1000;
    match seconds {
        0 => format!("{millis} ms"),
        1..60 => format!("{seconds}.{} s", millis % 1000 / 100),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        3600..86_400 => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
        _ => format!("{} d {} h", seconds / 86_400, seconds % 86_400 / 3600),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clock() -> Clock {
        // A Friday.
        Clock { now: "2026-01-02T06:00:00Z".parse().unwrap(), zone: TimeZone::get("Europe/Berlin").unwrap() }
    }

    #[test]
    fn a_time_is_shown_in_the_offset_that_it_names_and_utc_in_the_readers_zone() {
        for (at, shown) in [
            ("2026-01-02T09:00:00+01:00", "in 2 h · Fri 09:00"),
            ("2026-01-02T09:00:00-05:00", "in 8 h · Fri 09:00"),
            ("2026-01-02T08:00:00Z", "in 2 h · Fri 09:00"),
            ("2026-01-02T06:00:40.250Z", "in 40 s · Fri 07:00:40"),
            ("2026-01-08T23:59:00+01:00", "in 6 d · Thu 23:59"),
            ("2026-01-09T00:00:00+01:00", "in 6 d · 9 Jan 00:00"),
            ("2027-01-01T00:00:00+01:00", "in 363 d · 2027-01-01 00:00"),
            ("2026-01-02T07:00:00+01:00", "now · Fri 07:00"),
            ("later", "later · later"),
        ] {
            assert_eq!(clock().coming(at), shown, "{at}");
        }
        assert_eq!(clock().past("2026-01-01T23:00:00-06:00"), "60 min ago · Thu 23:00");
        assert_eq!(clock().past("2025-12-20T05:00:00Z"), "13 d ago · 2025-12-20 06:00");
    }

    #[test]
    fn times_in_a_sentence_are_eased() {
        for (text, eased) in [
            ("halted since 2026-01-02T06:00:40.469+01:00: lift it", "halted since Fri 06:00:40: lift it"),
            ("(2026-01-01T23:00:00Z), 2026 T 12:00", "(2026-01-01T23:00:00Z), 2026 T 12:00"),
            ("due at 2026-01-03T09:00:00-05:00", "due at Sat 09:00"),
            ("two  blanks\nand ä", "two  blanks and ä"),
            ("", ""),
        ] {
            assert_eq!(clock().eased(text), eased);
        }
    }

    #[test]
    fn a_span_is_told_in_units_that_fit_it() {
        let begin = "2026-01-02T05:00:00Z";
        for (end, told) in [
            (Some("2026-01-02T05:00:00.034Z"), "34 ms"),
            (Some("2026-01-02T05:00:12.390Z"), "12.3 s"),
            (Some("2026-01-02T05:03:05Z"), "3 min 5 s"),
            (None, "1 h 0 min"),
            (Some("2026-01-04T07:00:00Z"), "2 d 2 h"),
            (Some("2026-01-02T04:59:00Z"), "0 ms"),
            (Some("?"), "-"),
        ] {
            assert_eq!(clock().took(begin, end), told, "{end:?}");
        }
    }
}
