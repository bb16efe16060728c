//! Checks before a run (systems.md A11): a tool is called, and the run starts only when its answer says that there is
//! something to do. Pure: which check holds for a job, what it is called with, what an answer means.
//!
//! A check that fails means run: whoever calls decides that, here are answers alone.

mod read;

use jiff::{SignedDuration, Timestamp};
use regex::{Regex, RegexBuilder};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

pub use self::read::{Mistake, read};
use super::{job::JobSpec, request::shown};

/// A tool call, and what its answer must be for the run to start.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Preflight {
    /// The tool.
    pub tool: String,
    /// Its arguments; `{{now}}`, `{{now+2h}}` and `{{now-1d}}` are times.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub args: Map<String, Value>,
    /// Where in the answer to look: names and numbers with dots between them, `*` for each of a list or an object; none:
    /// all of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// What must be there.
    #[serde(default)]
    pub run_if: RunIf,
}

/// What a run starts on.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunIf {
    /// There is something.
    #[default]
    NotEmpty,
    /// There is nothing.
    Empty,
    /// It is this.
    Equals(Value),
    /// It is anything else.
    NotEquals(Value),
    /// It is a number, and so large; of a list, it is so long.
    AtLeast(f64),
}

/// A check for all jobs of some kind.
#[derive(Debug, Clone, Serialize)]
pub struct Rule {
    /// What a job's name must match, letters of either case.
    #[serde(serialize_with = "pattern")]
    pub job: Regex,
    /// A tool that it must require.
    pub requires: Option<String>,
    /// The check.
    #[serde(flatten)]
    pub check: Preflight,
}

impl PartialEq for Rule {
    fn eq(&self, other: &Self) -> bool {
        let parts = |rule: &Self| (rule.job.as_str().to_owned(), rule.requires.clone());
        parts(self) == parts(other) && self.check == other.check
    }
}

fn pattern<S: serde::Serializer>(regex: &Regex, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(regex.as_str())
}

/// A pattern of names.
///
/// # Errors
/// Why it is none.
pub fn regex(written: &str) -> Result<Regex, String> {
    let built = RegexBuilder::new(written).case_insensitive(true).size_limit(1 << 20).build();
    built.map_err(|e| e.to_string().replace('\n', " "))
}

impl Rule {
    fn fits(&self, name: &str, spec: &JobSpec) -> bool {
        let has = |tool: &String| spec.needed_tools().any(|needed| needed == tool);
        self.requires.as_ref().is_none_or(has) && self.job.is_match(name)
    }
}

/// The two that the source ships: calendar jobs look at all calendars for the next two hours, e-mail jobs for new mail.
#[must_use]
pub fn defaults() -> Vec<Rule> {
    let rule = |job: &str, tool: &str, args: Value| {
        let args = args.as_object().cloned().unwrap_or_default();
        let check = Preflight { tool: tool.to_owned(), args, path: None, run_if: RunIf::NotEmpty };
        Some(Rule { job: regex(job).ok()?, requires: Some(tool.to_owned()), check })
    };
    let soon = json!({"calendar_id": "all", "time_min": "{{now}}", "time_max": "{{now+2h}}"});
    [rule("meeting|prep", "gmail_list_events", soon), rule("email", "gmail_get_new_emails", json!({}))]
        .into_iter()
        .flatten()
        .collect()
}

/// The check of a job: its own, else the first rule that fits.
#[must_use]
pub fn of<'a>(name: &str, spec: &'a JobSpec, rules: &'a [Rule]) -> Option<&'a Preflight> {
    let rule = || rules.iter().find(|rule| rule.fits(name, spec)).map(|rule| &rule.check);
    spec.preflight.as_ref().or_else(rule)
}

impl Preflight {
    /// The arguments with times filled in, in this zone.
    #[must_use]
    pub fn arguments(&self, now: Timestamp, zone: &str) -> Map<String, Value> {
        let fill = |value: &Value| fill(value, now, zone);
        self.args.iter().map(|(key, value)| (key.clone(), fill(value))).collect()
    }

    /// Whether an answer means that there is something to do.
    #[must_use]
    pub fn holds(&self, answer: &Value) -> bool {
        let answer = unwrapped(answer);
        let found = match self.path.as_deref() {
            None => vec![answer],
            Some(path) => at(answer, path),
        };
        let size = |value: &Value| match value {
            Value::Array(list) => list.len() as f64,
            other => other.as_f64().unwrap_or(f64::NAN),
        };
        match &self.run_if {
            RunIf::NotEmpty => found.iter().any(|value| !is_nothing(value)),
            RunIf::Empty => found.iter().all(|value| is_nothing(value)),
            RunIf::Equals(wanted) => found.iter().any(|value| same(value, wanted)),
            RunIf::NotEquals(wanted) => !found.iter().any(|value| same(value, wanted)),
            RunIf::AtLeast(least) => found.iter().any(|value| size(value) >= *least),
        }
    }
}

/// `1` and `1.0` are the same number.
fn same(a: &Value, b: &Value) -> bool {
    a == b || a.as_f64().is_some_and(|a| b.as_f64() == Some(a))
}

/// What a tool answered as `{success: true, data | result}`.
fn unwrapped(answer: &Value) -> &Value {
    let inner = || ["data", "result"].iter().find_map(|key| answer.get(*key));
    if answer.get("success") == Some(&Value::Bool(true)) { inner().unwrap_or(answer) } else { answer }
}

/// Every value at a path.
fn at<'a>(value: &'a Value, path: &str) -> Vec<&'a Value> {
    let mut found = vec![value];
    for name in path.split('.') {
        found = found
            .into_iter()
            .flat_map(|value| match (value, name) {
                (Value::Array(list), "*") => list.iter().collect(),
                (Value::Object(map), "*") => map.values().collect(),
                (Value::Array(list), index) => {
                    index.parse().ok().and_then(|n: usize| list.get(n)).into_iter().collect()
                }
                (Value::Object(map), key) => map.get(key).into_iter().collect::<Vec<_>>(),
                _ => Vec::new(),
            })
            .collect();
    }
    found
}

/// Whether an answer tells of nothing: it is null, false, zero, an empty text, list or object; or an object whose lists
/// are all empty, whatever stands beside them, or, without any list, whose counts are all zero.
fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Bool(true) => false,
        Value::Number(n) => n.as_f64() == Some(0.0),
        Value::String(text) => text.trim().is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => {
            let (mut lists, mut counts) = (Vec::new(), Vec::new());
            gather(map, &mut lists, &mut counts);
            match (lists.as_slice(), counts.as_slice()) {
                ([], []) => map.is_empty(),
                ([], counts) => counts.iter().all(|n| *n == 0.0),
                (lists, _) => lists.iter().all(|n| *n == 0),
            }
        }
    }
}

/// Lengths of the lists of an object and of those in it, and its counts.
fn gather(map: &Map<String, Value>, lists: &mut Vec<usize>, counts: &mut Vec<f64>) {
    for (key, value) in map {
        match value {
            Value::Array(list) => lists.push(list.len()),
            Value::Object(inner) => gather(inner, lists, counts),
            Value::Number(n) if is_count(key) => counts.push(n.as_f64().unwrap_or(1.0)),
            _ => {}
        }
    }
}

fn is_count(key: &str) -> bool {
    let key = key.to_ascii_lowercase();
    key.contains("count") || key.contains("total") || key.contains("size")
}

fn fill(value: &Value, now: Timestamp, zone: &str) -> Value {
    match value {
        Value::String(text) => fill_text(text, now, zone).into(),
        Value::Array(list) => list.iter().map(|value| fill(value, now, zone)).collect(),
        Value::Object(map) => {
            let filled = map.iter().map(|(key, value)| (key.clone(), fill(value, now, zone)));
            Value::Object(filled.collect())
        }
        other => other.clone(),
    }
}

fn fill_text(text: &str, now: Timestamp, zone: &str) -> String {
    let (mut out, mut rest) = (String::new(), text);
    while let Some(open) = rest.find("{{") {
        let Some(close) = rest[open..].find("}}").map(|n| open + n) else { break };
        out.push_str(&rest[..open]);
        match time(rest[open + 2..close].trim(), now) {
            Some(at) => out.push_str(&shown(at, Some(zone))),
            None => out.push_str(&rest[open..close + 2]),
        }
        rest = &rest[close + 2..];
    }
    out + rest
}

/// `now`, `now+2h`, `now-15m`.
fn time(word: &str, now: Timestamp) -> Option<Timestamp> {
    let rest = word.strip_prefix("now")?.trim();
    if rest.is_empty() {
        return Some(now);
    }
    let (back, span) = match (rest.strip_prefix('+'), rest.strip_prefix('-')) {
        (Some(span), _) => (false, span),
        (_, Some(span)) => (true, span),
        _ => return None,
    };
    let span = crate::config::units::parse_duration(span.trim()).ok()?;
    let span = SignedDuration::try_from(span).ok()?;
    if back { now.checked_sub(span) } else { now.checked_add(span) }.ok()
}

#[cfg(test)]
mod tests;
