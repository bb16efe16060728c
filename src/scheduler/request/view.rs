//! A job's request part in the contract's form, and times as people read them.
//!
//! What [`view`] writes, `create` reads back to the same job.

use jiff::{Timestamp, tz::TimeZone};
use serde_json::{Map, Value, json};

use crate::{
    config::units::format_duration,
    ids::AgentId,
    scheduler::{
        job::{JobSpec, TriggerSpec},
        rules::{MISSED, OVERLAP},
        trigger::zone,
    },
};

/// The part of a job that a request may write. `timeout` and `missed_within` are null when the defaults hold.
#[must_use]
pub fn view(agent: &AgentId, name: &str, enabled: bool, spec: &JobSpec) -> Map<String, Value> {
    let span = |time: Option<_>| time.map(format_duration);
    let mut view = Map::new();
    let mut put = |key: &str, value: Value| view.insert(key.to_owned(), value);
    put("agent", agent.as_str().into());
    put("name", name.into());
    put("description", spec.description.as_str().into());
    put("enabled", enabled.into());
    put("trigger", trigger(&spec.trigger));
    if let Some(instructions) = &spec.instructions {
        put("instructions", instructions.as_str().into());
    }
    if let Some(tool) = &spec.tool {
        put("tool", tool.as_str().into());
        put("args", spec.args.clone().into());
    }
    if let Some(check) = &spec.preflight {
        put("preflight", serde_json::to_value(check).unwrap_or_default());
    }
    put("required_tools", spec.required_tools.clone().into());
    put("max_steps", spec.max_steps.into());
    put("timeout", span(spec.timeout).into());
    put("missed", word(&MISSED, &spec.missed).into());
    put("missed_within", span(spec.missed_within).into());
    put("overlap", word(&OVERLAP, &spec.overlap).into());
    put("retries", spec.retries.into());
    put("jitter", format_duration(spec.jitter).into());
    put("notify", notify(spec));
    view
}

fn notify(spec: &JobSpec) -> Value {
    let mut notify = json!({
        "on_completion": spec.notify.on_completion,
        "interval_minutes": spec.notify.interval_minutes,
    });
    if let Some(targets) = &spec.notify.targets {
        notify["targets"] = targets.clone().into();
    }
    notify
}

fn word<T: PartialEq>(choices: &[(&'static str, T)], value: &T) -> &'static str {
    choices.iter().find(|(_, is)| is == value).map_or("", |(name, _)| name)
}

/// A trigger in the contract's form.
#[must_use]
pub fn trigger(trigger: &TriggerSpec) -> Value {
    let kind = trigger.kind();
    match trigger {
        TriggerSpec::Cron { schedule, timezone } => {
            json!({"type": kind, "schedule": schedule, "timezone": timezone})
        }
        TriggerSpec::Interval { every } => json!({"type": kind, "every": every}),
        TriggerSpec::OneShot { at, timezone } => {
            let mut view = json!({"type": kind, "at": shown(*at, timezone.as_deref())});
            if let Some(zone) = timezone {
                view["timezone"] = zone.as_str().into();
            }
            view
        }
        TriggerSpec::Event { event } => json!({"type": kind, "event": event}),
        TriggerSpec::Manual => json!({"type": kind}),
    }
}

/// A time as RFC 3339 with the offset that holds in the zone then; in UTC without one.
#[must_use]
pub fn shown(at: Timestamp, zone_name: Option<&str>) -> String {
    let zone = zone_name.and_then(|name| zone(name).ok()).unwrap_or(TimeZone::UTC);
    at.display_with_offset(zone.to_offset(at)).to_string()
}
