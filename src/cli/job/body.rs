//! The body of `POST /v1/jobs` from the flags of `skep job add`. Only what was written is in it: defaults and rules
//! are the supervisor's.

use std::time::Duration;

use serde_json::{Map, Value, json};

use super::add::Args;
use crate::config::units::parse_duration;

/// A JSON object.
pub(super) type Object = Map<String, Value>;
/// An argument of a tool.
pub(super) type Argument = (String, Value);

/// Reads a JSON object.
pub(super) fn object(text: &str) -> Result<Object, String> {
    match serde_json::from_str(text) {
        Ok(Value::Object(object)) => Ok(object),
        Ok(_) => Err("write a JSON object, such as '{\"content\": \"hello\"}'".to_owned()),
        Err(e) => Err(format!("this is no JSON: {e}")),
    }
}

/// Reads `key=text` or `key:=json`.
pub(super) fn argument(text: &str) -> Result<Argument, String> {
    let form = "write KEY=TEXT, or KEY:=JSON";
    let (key, value) = text.split_once('=').ok_or(form)?;
    let (key, value) = match key.strip_suffix(':') {
        Some(key) => {
            let json = serde_json::from_str(value);
            (key, json.map_err(|e| format!("what follows {key}:= is no JSON: {e}"))?)
        }
        None => (key, Value::from(value)),
    };
    if key.is_empty() { Err(form.to_owned()) } else { Ok((key.to_owned(), value)) }
}

/// Reads a span of time.
pub(super) fn span(text: &str) -> Result<Duration, String> {
    parse_duration(text)
}

/// The body.
pub(super) fn of(args: &Args, instructions: Option<String>) -> Value {
    let mut body = Object::new();
    put(&mut body, "agent", args.agent.as_ref().map(ToString::to_string));
    put(&mut body, "name", args.name.clone());
    put(&mut body, "description", args.description.clone());
    trigger(args, &mut body);
    let action = &args.action;
    put(&mut body, "tool", action.tool.clone());
    let single: Object = action.arg.iter().cloned().collect();
    put(&mut body, "args", action.args.clone().or(Some(single).filter(|args| !args.is_empty())));
    put(&mut body, "instructions", instructions);
    put(&mut body, "required_tools", several(&action.required_tools));
    put(&mut body, "max_steps", action.max_steps);
    policy(args, &mut body);
    Value::Object(body)
}

fn trigger(args: &Args, body: &mut Object) {
    let trigger = &args.trigger;
    put(body, "schedule", trigger.schedule.clone());
    put(body, "every", trigger.every.clone());
    put(body, "at", trigger.at.clone());
    // Counted by the supervisor's clock.
    put(body, "in_minutes", trigger.after.map(|after| after.as_secs_f64() / 60.0));
    put(body, "event", several(&trigger.event));
    put(body, "manual", Some(true).filter(|_| trigger.manual));
    put(body, "timezone", trigger.timezone.clone());
}

fn policy(args: &Args, body: &mut Object) {
    let policy = &args.policy;
    put(body, "timeout", policy.timeout.clone());
    put(body, "missed", policy.missed.clone());
    put(body, "missed_within", policy.missed_within.clone());
    put(body, "overlap", policy.overlap.clone());
    put(body, "retries", policy.retries);
    put(body, "jitter", policy.jitter.clone());
    let mut notify = Object::new();
    let told = match (policy.no_notify, policy.notify_on_completion) {
        (true, _) => Some(false),
        (_, true) => Some(true),
        _ => None,
    };
    put(&mut notify, "on_completion", told);
    put(&mut notify, "interval_minutes", policy.notify_interval);
    put(&mut notify, "targets", several(&policy.notify_targets));
    put(body, "notify", Some(notify).filter(|notify| !notify.is_empty()));
    put(body, "enabled", Some(false).filter(|_| policy.disabled));
}

fn put(body: &mut Object, key: &str, value: Option<impl Into<Value>>) {
    if let Some(value) = value {
        body.insert(key.to_owned(), value.into());
    }
}

fn several(names: &[String]) -> Option<Value> {
    if names.is_empty() { None } else { Some(json!(names)) }
}

#[cfg(test)]
mod tests;
