//! `[[agents.<id>.jobs]]`: each job checked whole, with the hive's zone filled in.
//!
//! Pure. The rules for single values are `scheduler::rules`', which requests obey as well. A one-shot in the past is
//! no mistake here: the file stays as it is after the job fired.

use std::{collections::BTreeSet, ops::RangeInclusive, time::Duration};

use serde_json::{Map, Number, Value};
use toml::de::DeValue;

use super::{
    keys,
    model::Job,
    reader::{Field, Reader, Table},
};
use crate::scheduler::{
    job::{JobNotify, JobSpec, TriggerSpec},
    preflight, rules,
};

/// What a job needs to know of its agent and hive.
pub(super) struct Owner<'a> {
    /// The agent's name.
    pub(super) agent: &'a str,
    /// The hive's zone.
    pub(super) zone: &'a str,
    /// Whether the agent has a command that follows instructions.
    pub(super) has_command: bool,
}

/// The jobs of one agent; those with a mistake are left out after it was told.
pub(super) fn read(r: &mut Reader, f: &Field<'_, '_>, owner: &Owner<'_>) -> Option<Vec<Job>> {
    let help = format!("write [[{}]] and its keys below", f.path);
    if !matches!(f.value.get_ref(), DeValue::Array(_)) {
        return r.wrong_type(f, "an array of tables", &help);
    }
    let mut names = BTreeSet::new();
    r.array(f, |r, f| match f.value.get_ref() {
        DeValue::Table(_) => job(r, f, owner, &mut names),
        _ => r.wrong_type(f, "a table", &help),
    })
}

fn job(r: &mut Reader, f: &Field<'_, '_>, owner: &Owner<'_>, names: &mut BTreeSet<String>) -> Option<Job> {
    let before = r.mistakes();
    let table = r.table(f, keys::JOB)?;
    // What seems to be missing may be the key that was misspelt.
    let misspelt = r.mistakes() > before;
    let name = name(r, f, &table, owner, names, misspelt);
    let trigger = trigger(r, f, &table, owner.zone, misspelt);
    let mut spec = JobSpec::new(trigger.unwrap_or(TriggerSpec::Manual));
    action(r, &table, &mut spec);
    complete(r, f, &table, owner, misspelt);
    policies(r, &table, &mut spec);
    let enabled = r.read(&table, "enabled", Reader::boolean).unwrap_or(true);
    name.filter(|_| r.mistakes() == before).map(|name| Job { name, enabled, spec })
}

fn name(
    r: &mut Reader,
    f: &Field<'_, '_>,
    table: &Table<'_, '_>,
    owner: &Owner<'_>,
    names: &mut BTreeSet<String>,
    misspelt: bool,
) -> Option<String> {
    if table.field("name").is_none() && !misspelt {
        r.fault(
            &f.span(),
            format!("{} has no name", f.path),
            "add name = \"…\", unique among the agent's jobs",
        );
    }
    r.read(table, "name", |r, f| {
        let written = r.string(f)?;
        let name = r.accept(f, rules::name(written))?;
        if !names.insert(name.clone()) {
            let message = format!("agent {:?} has two jobs named {name:?}", owner.agent);
            r.fault(&f.span(), message, "give each a name of its own: its runs are listed under it");
        }
        Some(name)
    })
}

fn trigger(
    r: &mut Reader,
    f: &Field<'_, '_>,
    table: &Table<'_, '_>,
    hive_zone: &str,
    misspelt: bool,
) -> Option<TriggerSpec> {
    let manual = r.read(table, "manual", Reader::boolean);
    let written = |key: &&str| table.field(key).is_some() && (*key != "manual" || manual != Some(false));
    let kinds: Vec<&str> =
        ["schedule", "every", "at", "event", "manual"].into_iter().filter(written).collect();
    let zone = r.read(table, "timezone", |r, f| {
        let written = r.filled(f)?;
        r.accept(f, rules::zone(written))
    });
    match kinds[..] {
        [kind] => {
            if let Some(f) = table.field("timezone").filter(|_| !matches!(kind, "schedule" | "at")) {
                r.warn(&f.key, format!("{} has no effect on {kind}", f.path), "remove it");
            }
            r.read(table, kind, |r, f| one_trigger(r, f, kind, zone.as_deref().unwrap_or(hive_zone)))
        }
        [] if misspelt => None,
        [] => {
            let help = "add schedule = \"0 9 * * *\", every = \"30m\", at = \"2026-12-24T18:00:00\", \
                event = [\"report\"], or manual = true";
            r.fault(&f.span(), format!("{} has no trigger", f.path), help);
            None
        }
        [first, second, ..] => {
            let span = table.field(second).map_or(f.span(), |f| f.key);
            let message = format!("{} has two triggers: {first} and {second}", f.path);
            r.fault(&span, message, "keep one of them, and write another job for the other");
            None
        }
    }
}

fn one_trigger(r: &mut Reader, f: &Field<'_, '_>, kind: &str, zone: &str) -> Option<TriggerSpec> {
    match kind {
        "schedule" => {
            let written = r.filled(f)?;
            r.accept(f, rules::cron(written, zone))
        }
        "every" => {
            let written = r.timed(f)?;
            r.accept(f, rules::interval(written))
        }
        "at" => {
            let written = match f.value.get_ref() {
                DeValue::Datetime(at) => at.to_string(),
                _ => r.filled(f)?.to_owned(),
            };
            r.accept(f, rules::one_shot(&written, zone))
        }
        "event" => {
            let before = r.mistakes();
            let names = match f.value.get_ref() {
                DeValue::String(_) => event(r, f).into_iter().collect(),
                _ => r.array(f, event)?,
            };
            (r.mistakes() == before).then(|| r.accept(f, rules::events(names))).flatten()
        }
        _ => Some(TriggerSpec::Manual),
    }
}

fn event(r: &mut Reader, f: &Field<'_, '_>) -> Option<String> {
    let written = r.string(f)?;
    r.accept(f, rules::event(written))
}

/// What the job does.
fn action(r: &mut Reader, table: &Table<'_, '_>, spec: &mut JobSpec) {
    spec.tool = r.read(table, "tool", tool);
    spec.args = r.read(table, "args", args).unwrap_or_default();
    spec.instructions = r.read(table, "instructions", |r, f| {
        let written = r.filled(f)?;
        r.accept(f, rules::instructions(written))
    });
    let mut seen = BTreeSet::new();
    let tools = r.read(table, "required_tools", |r, f| {
        r.array(f, |r, f| {
            let name = tool(r, f)?;
            if !seen.insert(name.clone()) {
                r.fault(&f.span(), format!("tool {name:?} is listed twice"), "remove one of them");
            }
            Some(name)
        })
    });
    spec.required_tools = tools.unwrap_or_default();
    spec.preflight = r.read(table, "preflight", |r, f| {
        inline(r, f, "{ tool = \"…\" }")?;
        let before = r.mistakes();
        let value = json(r, f).filter(|_| r.mistakes() == before)?;
        let refused = |(place, what): preflight::Mistake| {
            (format!("{}{}: {what}", f.path, place.replace('/', ".")), String::new())
        };
        r.accept(f, preflight::read(&value).map_err(refused))
    });
}

/// What an action lacks.
fn complete(r: &mut Reader, f: &Field<'_, '_>, table: &Table<'_, '_>, owner: &Owner<'_>, misspelt: bool) {
    match (table.field("tool"), table.field("instructions")) {
        (None, None) if !misspelt => {
            let help = "add tool = \"…\" for one call without a model, or instructions = \"…\" for the agent";
            r.fault(&f.span(), format!("{} has neither tool nor instructions", f.path), help);
        }
        (None, Some(instructions)) if !owner.has_command => {
            let message = format!("agent {:?} has no command that could follow instructions", owner.agent);
            let help = format!("add command = [\"…\"] to [agents.{}], or a tool to this job", owner.agent);
            r.fault(&instructions.key, message, help);
        }
        _ => {}
    }
    if let Some(args) = table.field("args").filter(|_| table.field("tool").is_none() && !misspelt) {
        r.fault(&args.key, format!("{} go to a tool, and none is named", args.path), "add tool = \"…\"");
    }
}

fn tool(r: &mut Reader, f: &Field<'_, '_>) -> Option<String> {
    let written = r.string(f)?;
    r.accept(f, rules::tool(written))
}

fn args(r: &mut Reader, f: &Field<'_, '_>) -> Option<Map<String, Value>> {
    inline(r, f, "{ key = \"value\" }")?;
    let before = r.mistakes();
    let Some(Value::Object(args)) = json(r, f).filter(|_| r.mistakes() == before) else {
        return None;
    };
    r.accept(f, rules::args(args))
}

/// A value as JSON; dates and times become strings.
pub(super) fn json(r: &mut Reader, f: &Field<'_, '_>) -> Option<Value> {
    Some(match f.value.get_ref() {
        DeValue::String(text) => Value::from(text.as_ref()),
        DeValue::Integer(_) => Value::from(r.integer(f)?),
        DeValue::Float(n) => {
            let finite = n.as_str().parse().ok().and_then(Number::from_f64);
            let refused = || (format!("{}: JSON has no {}", f.path, n.as_str()), "write a number".to_owned());
            Value::Number(r.accept(f, finite.ok_or_else(refused))?)
        }
        DeValue::Boolean(b) => Value::from(*b),
        DeValue::Datetime(at) => Value::from(at.to_string()),
        DeValue::Array(_) => Value::from(r.array(f, json)?),
        DeValue::Table(_) => {
            let table = r.open(f)?;
            let all = table.fields().into_iter();
            Value::Object(all.filter_map(|(key, f)| Some((key.to_owned(), json(r, &f)?))).collect())
        }
    })
}

/// A table that stands in one line more often than not.
fn inline(r: &mut Reader, f: &Field<'_, '_>, form: &str) -> Option<()> {
    match f.value.get_ref() {
        DeValue::Table(_) => Some(()),
        _ => r.wrong_type(f, "a table", &format!("write it as {form}")),
    }
}

fn policies(r: &mut Reader, table: &Table<'_, '_>, spec: &mut JobSpec) {
    let text = |r: &mut Reader, f: &Field<'_, '_>| {
        let written = r.string(f)?;
        r.accept(f, rules::description(written))
    };
    spec.description = r.read(table, "description", text).unwrap_or_default();
    let steps = r.read(table, "max_steps", |r, f| count(r, f, &rules::STEPS));
    spec.max_steps = steps.unwrap_or(spec.max_steps);
    spec.timeout = r.read(table, "timeout", |r, f| duration(r, f, &rules::TIMEOUT));
    spec.missed = r.read(table, "missed", |r, f| r.choice(f, &rules::MISSED)).unwrap_or_default();
    spec.missed_within = r.read(table, "missed_within", |r, f| duration(r, f, &rules::MISSED_WITHIN));
    spec.overlap = r.read(table, "overlap", |r, f| r.choice(f, &rules::OVERLAP)).unwrap_or_default();
    spec.retries = r.read(table, "retries", |r, f| count(r, f, &rules::RETRIES)).unwrap_or_default();
    spec.jitter = r.read(table, "jitter", |r, f| duration(r, f, &rules::JITTER)).unwrap_or_default();
    spec.notify = r.read(table, "notify", notify).unwrap_or_default();
}

fn notify(r: &mut Reader, f: &Field<'_, '_>) -> Option<JobNotify> {
    inline(r, f, "{ on_completion = false }")?;
    let table = r.table(f, keys::JOB_NOTIFY)?;
    let ours = JobNotify::default();
    let minutes = r.read(&table, "interval_minutes", |r, f| count(r, f, &rules::NOTIFY_INTERVAL));
    Some(JobNotify {
        on_completion: r.read(&table, "on_completion", Reader::boolean).unwrap_or(ours.on_completion),
        interval_minutes: minutes.unwrap_or(ours.interval_minutes),
        targets: r.read(&table, "targets", |r, f| {
            r.array(f, |r, f| {
                let written = r.string(f)?;
                r.accept(f, rules::target(written))
            })
        }),
    })
}

/// A whole number within bounds.
pub(super) fn count(r: &mut Reader, f: &Field<'_, '_>, range: &RangeInclusive<i64>) -> Option<u32> {
    let written = r.integer(f)?;
    r.accept(f, rules::count(&f.path, written, range))
}

/// A duration within bounds.
pub(super) fn duration(
    r: &mut Reader,
    f: &Field<'_, '_>,
    range: &RangeInclusive<Duration>,
) -> Option<Duration> {
    let written = r.timed(f)?;
    r.accept(f, rules::duration(&f.path, written, range))
}
