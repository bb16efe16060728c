//! What the fields of a cron expression may hold, and what to write instead of anything else.
//!
//! The parser library is looser: it reads names in any field, drops empty items and whatever follows a `W`, and
//! names no field when it refuses. So every item is checked here and written anew in numbers for it. Never
//! decides when something fires.

use super::ScheduleError;

/// Bytes of an expression.
const MAX_LENGTH: usize = 256;

const NICKNAMES: [(&str, &str); 7] = [
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
    ("@monthly", "0 0 1 * *"),
    ("@weekly", "0 0 * * 0"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@hourly", "0 * * * *"),
];

const MONTHS: [&str; 12] =
    ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"];
const WEEKDAYS: [&str; 7] = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Number,
    Month,
    MonthDay,
    Weekday,
}

#[derive(Debug)]
struct Field {
    kind: Kind,
    name: &'static str,
    first: u16,
    last: u16,
    /// Its values, in words.
    values: &'static str,
    /// What else it may hold.
    special: &'static str,
}

const fn field(
    kind: Kind,
    name: &'static str,
    (first, last): (u16, u16),
    values: &'static str,
    special: &'static str,
) -> Field {
    Field { kind, name, first, last, values, special }
}

const FIELDS: [Field; 6] = [
    field(Kind::Number, "second", (0, 59), "0 to 59", ""),
    field(Kind::Number, "minute", (0, 59), "0 to 59", ""),
    field(Kind::Number, "hour", (0, 23), "0 to 23", ""),
    field(Kind::MonthDay, "day of month", (1, 31), "1 to 31", "`L`, `LW`, `15W`, "),
    field(Kind::Month, "month", (1, 12), "1 to 12 or JAN to DEC", ""),
    field(Kind::Weekday, "day of week", (0, 7), "0 to 7 or SUN to SAT", "`FRI#2`, `FRIL`, "),
];

/// An expression that the parser library can be trusted with.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Normal {
    /// Six fields in numbers.
    pub(super) text: String,
    /// Its minute or hour starts with `*`.
    pub(super) wildcard: bool,
    /// Its day of the month or of the week starts with `*`: a day must match both.
    pub(super) both_days: bool,
}

/// Checks an expression and writes it in numbers.
pub(super) fn normal(expression: &str) -> Result<Normal, ScheduleError> {
    let expression = expression.trim();
    let refuse = |reason: String| Err(ScheduleError(reason));
    if expression.is_empty() {
        return refuse(
            "the schedule is empty: write five fields such as `0 9 * * MON-FRI`, or `@daily`".into(),
        );
    }
    if ["TZ=", "CRON_TZ="].iter().any(|prefix| expression.starts_with(prefix)) {
        return refuse("a zone does not belong in the schedule: leave `TZ=` out and set `timezone`".into());
    }
    if expression.len() > MAX_LENGTH {
        return refuse(format!(
            "the schedule is longer than {MAX_LENGTH} characters: write ranges or steps, or several jobs"
        ));
    }
    let expression = if expression.starts_with('@') { nickname(expression)? } else { expression };
    let mut fields: Vec<&str> = expression.split_whitespace().collect();
    match fields.len() {
        5 => fields.insert(0, "0"),
        6 => {}
        7 => {
            return refuse(format!(
                "`{expression}` has 7 fields, and a year cannot be set: leave it out, or use `at` for one date"
            ));
        }
        count => {
            return refuse(format!(
                "`{expression}` has {count} field{}: write five (minute, hour, day of month, month, day of week), \
                 or six with the second first",
                if count == 1 { "" } else { "s" }
            ));
        }
    }
    let mut normal = Vec::with_capacity(FIELDS.len());
    for (field, text) in FIELDS.iter().zip(fields) {
        normal.push(field.normal(text).map_err(ScheduleError)?);
    }
    let starred = |field: usize| normal[field].starts_with('*');
    let (wildcard, both_days) = (starred(1) || starred(2), starred(3) || starred(5));
    Ok(Normal { text: normal.join(" "), wildcard, both_days })
}

fn nickname(written: &str) -> Result<&'static str, ScheduleError> {
    let known = NICKNAMES.iter().find(|(name, _)| name.eq_ignore_ascii_case(written));
    known.map(|(_, expression)| *expression).ok_or_else(|| {
        let names = NICKNAMES.map(|(name, _)| name).join(", ");
        ScheduleError(format!(
            "the nickname `{written}` is not known: write one of {names}, five fields, or `every`"
        ))
    })
}

impl Field {
    /// The field in numbers, or what is wrong with it.
    fn normal(&self, text: &str) -> Result<String, String> {
        if text == "?" && matches!(self.kind, Kind::MonthDay | Kind::Weekday) {
            return Ok("*".to_owned());
        }
        let text = text.to_ascii_uppercase();
        let items: Vec<String> = text.split(',').map(|item| self.item(item)).collect::<Result<_, _>>()?;
        let name = self.name;
        let listed = |item: &str| items.iter().any(|i| i == item);
        if items.len() > 1 && listed("*") {
            return Err(format!("the {name} `{text}` lists `*`, which means every one: write `*` alone"));
        }
        if listed("L") && listed("LW") {
            return Err(format!("the {name} `{text}` lists `L` and `LW`: write one of them, or two jobs"));
        }
        Ok(items.join(","))
    }

    fn item(&self, item: &str) -> Result<String, String> {
        if item.is_empty() {
            return Err(format!("the {} has a comma with nothing before or after it: remove it", self.name));
        }
        if let Some((range, step)) = item.split_once('/') {
            return self.step(item, range, step);
        }
        if item == "*" {
            return Ok("*".to_owned());
        }
        if let Some(special) = self.special(item) {
            return special;
        }
        match item.split_once('-') {
            Some((from, to)) => self.range(item, from, to),
            None => self.value(item, item).map(|value| value.to_string()),
        }
    }

    /// `L`, `LW`, `15W`, `FRIL`, `FRI#2`.
    fn special(&self, item: &str) -> Option<Result<String, String>> {
        let with =
            |value: &str, suffix: &str| Some(self.value(item, value).map(|value| format!("{value}{suffix}")));
        match self.kind {
            Kind::MonthDay if matches!(item, "L" | "LW") => Some(Ok(item.to_owned())),
            Kind::MonthDay => item.strip_suffix('W').and_then(|day| with(day, "W")),
            Kind::Weekday if item == "L" => Some(Err(
                "the day of week `L` needs a day: write `SATL` for the month's last Saturday".into(),
            )),
            Kind::Weekday => {
                let last = item.strip_suffix("#L").or_else(|| item.strip_suffix('L'));
                match (last, item.split_once('#')) {
                    (Some(day), _) => with(day, "L"),
                    (None, Some((day, nth))) if matches!(nth, "1" | "2" | "3" | "4" | "5") => {
                        with(day, &format!("#{nth}"))
                    }
                    (None, Some((day, nth))) => Some(Err(format!(
                        "the day of week `{item}` asks for number `{nth}`: write `{day}#1` to `{day}#5`, \
                         or `{day}L` for the last in a month"
                    ))),
                    (None, None) => None,
                }
            }
            Kind::Number | Kind::Month => None,
        }
    }

    fn step(&self, item: &str, range: &str, step: &str) -> Result<String, String> {
        let name = self.name;
        let last = self.last_written();
        let count = last - self.first + 1;
        let Some(step) = number(step) else {
            return Err(format!("the {name} `{item}` has no number after the `/`: write one such as `*/5`"));
        };
        if step == 0 {
            return Err(format!("the {name} `{item}` has a step of zero: write 1 or more"));
        }
        if step > count {
            return Err(format!(
                "the {name} `{item}` has a step longer than the field: write at most {count}, or use `every`"
            ));
        }
        let range = match range.split_once('-') {
            Some((from, to)) => self.range(item, from, to)?,
            None if range == "*" => "*".to_owned(),
            None if range.is_empty() => {
                return Err(format!("the {name} `{item}` has a step but no range: write `*/{step}`"));
            }
            None => {
                let (from, to) = (self.word(self.value(item, range)?), self.word(last));
                return Err(format!(
                    "the {name} `{item}` has a step but no range: write `{from}-{to}/{step}`, or `*/{step}`"
                ));
            }
        };
        Ok(format!("{range}/{step}"))
    }

    fn range(&self, item: &str, from: &str, to: &str) -> Result<String, String> {
        let (start, mut end) = (self.value(item, from)?, self.value(item, to)?);
        if self.kind == Kind::Weekday && to == "SUN" && start > 0 {
            end = 7;
        }
        if start > end {
            let word = |value| self.word(value);
            let span = |a, b| if a == b { word(a) } else { format!("{}-{}", word(a), word(b)) };
            let (last, rest) = (self.last_written(), span(self.first, end));
            let over = if start > last { rest } else { format!("{},{rest}", span(start, last)) };
            return Err(format!(
                "the {} `{item}` ends before it starts: write `{}`, or `{over}` to go over the end",
                self.name,
                span(end, start),
            ));
        }
        Ok(format!("{start}-{end}"))
    }

    /// A number or a name within the field.
    fn value(&self, item: &str, text: &str) -> Result<u16, String> {
        let Self { name, values, special, first, last, .. } = self;
        if let Some((_, value)) = self.names().iter().zip(*first..).find(|(known, _)| **known == text) {
            return Ok(value);
        }
        if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit()) {
            return Err(format!(
                "the {name} `{item}` cannot be read: write {values}, {special}`*`, `a-b`, `*/n`, or a list of these"
            ));
        }
        number(text)
            .filter(|value| (*first..=*last).contains(value))
            .ok_or_else(|| format!("the {name} `{text}` is out of range: write {values}"))
    }

    fn names(&self) -> &'static [&'static str] {
        match self.kind {
            Kind::Month => &MONTHS,
            Kind::Weekday => &WEEKDAYS,
            Kind::Number | Kind::MonthDay => &[],
        }
    }

    /// The last value; Saturday, as Sunday is the first.
    fn last_written(&self) -> u16 {
        if self.kind == Kind::Weekday { 6 } else { self.last }
    }

    /// A value as people write it.
    fn word(&self, value: u16) -> String {
        let mut names = self.names().iter().cycle().skip(usize::from(value - self.first));
        names.next().map_or_else(|| value.to_string(), ToString::to_string)
    }
}

fn number(text: &str) -> Option<u16> {
    // `parse` alone would take a sign.
    text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse().ok())?
}
