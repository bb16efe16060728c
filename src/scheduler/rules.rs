//! Rules for the values of a job, whether `skep.toml` or a request holds them.
//!
//! Pure: each takes what was written, some with the name it was written under, and answers with the value or with
//! (what is wrong, remedy). What values mean for each other is said by whoever reads them.

use std::{ops::RangeInclusive, time::Duration};

use jiff::Timestamp;
use serde_json::{Map, Value};

use super::{
    job::{MAX_ARGS, MAX_INSTRUCTIONS, MAX_NAME, Missed, Overlap, TriggerSpec},
    trigger::{self, ScheduleError},
};
use crate::{
    config::units::{format_duration, parse_duration},
    ids::is_hidden,
};

/// A value, or what is wrong and what to do about it.
pub type Checked<T> = Result<T, (String, String)>;

/// Attempts after the first.
pub const RETRIES: RangeInclusive<i64> = 0..=10;
/// Tool calls of an agent-tier run.
pub const STEPS: RangeInclusive<i64> = 1..=1_000;
/// Minutes between two notices; a year at most.
pub const NOTIFY_INTERVAL: RangeInclusive<i64> = 0..=527_040;
/// Time limit of a run.
pub const TIMEOUT: RangeInclusive<Duration> = SECOND..=Duration::from_secs(7 * 86_400);
/// How old a missed fire time may be.
pub const MISSED_WITHIN: RangeInclusive<Duration> = SECOND..=Duration::from_secs(366 * 86_400);
/// What fire times may be put off by.
pub const JITTER: RangeInclusive<Duration> = Duration::ZERO..=Duration::from_secs(86_400);
/// What may be written for `missed`.
pub const MISSED: [(&str, Missed); 3] =
    [("skip", Missed::Skip), ("last", Missed::Last), ("all", Missed::All)];
/// What may be written for `overlap`.
pub const OVERLAP: [(&str, Overlap); 4] = [
    ("skip", Overlap::Skip),
    ("queue", Overlap::Queue),
    ("replace", Overlap::Replace),
    ("allow", Overlap::Allow),
];

const SECOND: Duration = Duration::from_secs(1);
/// Characters of a description.
const MAX_DESCRIPTION: usize = 10_000;
/// Characters of the name of a tool, an event or a target.
const MAX_WORD: usize = 200;

fn refuse<T>(what: impl Into<String>, remedy: impl Into<String>) -> Checked<T> {
    Err((what.into(), remedy.into()))
}

/// A text in quotes, cut short when it is long.
#[must_use]
pub fn quoted(text: &str) -> String {
    match text.char_indices().nth(80) {
        Some((cut, _)) => format!("{:?}…", &text[..cut]),
        None => format!("{text:?}"),
    }
}

/// A job's name, without blanks around it.
///
/// # Errors
/// It is blank, too long, a number, or holds characters that nobody sees.
pub fn name(written: &str) -> Checked<String> {
    let name = written.trim();
    if name.is_empty() {
        return refuse("the name of a job is empty", "write a name such as \"morning-post\"");
    }
    if name.chars().count() > MAX_NAME {
        return refuse(
            format!("the name of a job has at most {MAX_NAME} characters: {}", quoted(name)),
            "write a shorter name, and the rest as description",
        );
    }
    if name.parse::<i64>().is_ok() || name.bytes().all(|b| b.is_ascii_digit()) {
        return refuse(
            format!("{name:?} cannot be the name of a job: jobs are asked for by number too"),
            format!("add a word to it, such as \"job-{}\"", name.trim_start_matches(['+', '-'])),
        );
    }
    if let Some(hidden) = name.chars().find(|c| is_hidden(*c)) {
        return refuse(
            format!("the name of a job holds {}, which nobody sees: {}", code(hidden), shown(name)),
            "write a name of one line without it",
        );
    }
    Ok(name.to_owned())
}

/// A description.
///
/// # Errors
/// It is too long, or holds characters that nobody sees.
pub fn description(written: &str) -> Checked<String> {
    if written.chars().count() > MAX_DESCRIPTION {
        return refuse(
            format!("a description has at most {MAX_DESCRIPTION} characters"),
            "write a shorter one",
        );
    }
    // Lines are fine, and so are the joiners that some scripts and pictures are written with.
    let plain = |c: &char| matches!(c, '\n' | '\r' | '\t' | '\u{200c}' | '\u{200d}');
    if let Some(hidden) = written.chars().filter(|c| !plain(c)).find(|c| is_hidden(*c)) {
        return refuse(format!("a description holds {}, which nobody sees", code(hidden)), "remove it");
    }
    Ok(written.to_owned())
}

/// A character by its number.
fn code(c: char) -> String {
    format!("U+{:04X}", u32::from(c))
}

/// A text in quotes, what nobody sees spelt out.
fn shown(text: &str) -> String {
    let spelt = |c: char| if is_hidden(c) { c.escape_unicode().to_string() } else { c.to_string() };
    format!("\"{}\"", text.chars().map(spelt).collect::<String>())
}

/// What an agent is told. They go to a process as one argument.
///
/// # Errors
/// They are too long or hold a NUL.
pub fn instructions(written: &str) -> Checked<String> {
    if written.len() > MAX_INSTRUCTIONS {
        return refuse(
            format!("instructions have {} bytes, at most {MAX_INSTRUCTIONS} are possible", written.len()),
            "write them into a skill or a file of the workspace, and name it here",
        );
    }
    no_nul("the instructions", written)?;
    Ok(written.to_owned())
}

fn no_nul(what: &str, written: &str) -> Checked<()> {
    if written.contains('\0') {
        return refuse(format!("there is a NUL character in {what}"), "remove \\u0000");
    }
    Ok(())
}

/// Arguments of a tool.
///
/// # Errors
/// They do not fit one argument of a process.
pub fn args(written: Map<String, Value>) -> Checked<Map<String, Value>> {
    let bytes = serde_json::to_string(&written).map_or(usize::MAX, |json| json.len());
    if bytes > MAX_ARGS {
        return refuse(
            format!("args have {bytes} bytes as JSON, at most {MAX_ARGS} are possible"),
            "write the data to a file of the workspace, and name it here",
        );
    }
    Ok(written)
}

/// The name of a tool, `<skill>/<tool>` included. Whether there is one is not asked here.
///
/// # Errors
/// No tool can be called so.
pub fn tool(written: &str) -> Checked<String> {
    word("tool", written, "write its name alone, such as \"read-file\"")
}

/// The name of a target of `[notify]`.
///
/// # Errors
/// No target can be called so.
pub fn target(written: &str) -> Checked<String> {
    word("target", written, "write the name of a target in [notify]")
}

fn word(what: &str, written: &str, remedy: &str) -> Checked<String> {
    let name = written.trim();
    if name.is_empty() {
        return refuse(format!("the name of a {what} is empty"), remedy);
    }
    if name.chars().count() > MAX_WORD || name.chars().any(is_hidden) {
        return refuse(
            format!("{} cannot be the name of a {what}", shown(&name.chars().take(80).collect::<String>())),
            remedy,
        );
    }
    Ok(name.to_owned())
}

/// The name of an event that a job waits for; `*` at the end stands for the rest.
///
/// # Errors
/// No event can be called so.
pub fn event(written: &str) -> Checked<String> {
    let remedy = "write a name such as \"report\" or \"report:*\"";
    let name = word("event", written, remedy)?;
    let before = name.strip_suffix('*').unwrap_or(&name);
    if before.contains('*') {
        return refuse(format!("{} holds * before its end", quoted(&name)), remedy);
    }
    if before.contains(char::is_whitespace) {
        return refuse(format!("{} holds blanks", quoted(&name)), remedy);
    }
    Ok(name)
}

/// A whole number within bounds.
///
/// # Errors
/// It is out of them.
pub fn count(what: &str, written: i64, range: &RangeInclusive<i64>) -> Checked<u32> {
    let (least, most) = (range.start(), range.end());
    u32::try_from(written).ok().filter(|_| range.contains(&written)).ok_or_else(|| {
        (
            format!("{what} must be from {least} to {most}, not {written}"),
            "write a number within these bounds".to_owned(),
        )
    })
}

/// A duration with its unit, within bounds.
///
/// # Errors
/// It has no unit, or is out of them.
pub fn duration(what: &str, written: &str, range: &RangeInclusive<Duration>) -> Checked<Duration> {
    let read = parse_duration(written)
        .map_err(|remedy| (format!("{what} is not a duration: {}", quoted(written)), remedy))?;
    if !range.contains(&read) {
        let (least, most) = (format_duration(*range.start()), format_duration(*range.end()));
        return refuse(
            format!("{what} must be from {least} to {most}, not {}", quoted(written.trim())),
            "write a time within these bounds",
        );
    }
    Ok(read)
}

/// A time zone in its own spelling.
///
/// # Errors
/// It is not known.
pub fn zone(written: &str) -> Checked<String> {
    let zone = trigger::zone(written).map_err(reason)?;
    Ok(zone.iana_name().unwrap_or(written.trim()).to_owned())
}

/// A cron trigger, its expression checked.
///
/// # Errors
/// Why the expression is refused.
pub fn cron(schedule: &str, zone: &str) -> Checked<TriggerSpec> {
    compiled(TriggerSpec::Cron { schedule: schedule.trim().to_owned(), timezone: zone.to_owned() })
}

/// An interval.
///
/// # Errors
/// Why it is refused.
pub fn interval(every: &str) -> Checked<TriggerSpec> {
    compiled(TriggerSpec::Interval { every: every.trim().to_owned() })
}

fn compiled(trigger: TriggerSpec) -> Checked<TriggerSpec> {
    trigger.compile().map_err(reason)?;
    Ok(trigger)
}

/// A one-shot, past or future; without an offset it is read in `zone`.
///
/// # Errors
/// It cannot be read.
pub fn one_shot(at: &str, zone: &str) -> Checked<TriggerSpec> {
    let at = trigger::parse_at(at, zone).map_err(reason)?;
    Ok(TriggerSpec::OneShot { at, timezone: Some(zone.to_owned()) })
}

/// Whether a one-shot may still be set for `at`.
///
/// # Errors
/// It is more than a minute ago.
pub fn still_to_come(at: Timestamp, now: Timestamp) -> Checked<()> {
    trigger::check_at(at, now).map_err(reason)
}

/// An event trigger of one or more names.
///
/// # Errors
/// There is none.
pub fn events(names: Vec<String>) -> Checked<TriggerSpec> {
    if names.is_empty() {
        return refuse("event names no event", "write a name, such as [\"report\"]");
    }
    Ok(TriggerSpec::Event { event: names })
}

/// What a schedule is refused for, and the remedy that the reason may end with.
fn reason(e: ScheduleError) -> (String, String) {
    const BEGINNINGS: [&str; 4] = [": did you mean ", ": leave ", ": write ", ". Write "];
    let remedy = BEGINNINGS.iter().filter_map(|begin| e.0.rfind(begin)).max();
    match remedy {
        Some(at) => (e.0[..at].to_owned(), e.0[at + 2..].replace("Write ", "write ")),
        None => (e.0, String::new()),
    }
}
