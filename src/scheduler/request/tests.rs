//! Requests as clients and models write them, and what becomes of them.

use serde_json::{Value, json};

use super::*;
use crate::scheduler::job::Tier;

mod annabelle;
mod contract;
mod previews;
mod properties;
mod seed;
mod updates;

/// 2026-02-14, noon in New York.
const NOW: &str = "2026-02-14T17:00:00Z";
const ZONE: &str = "America/New_York";

fn id(name: &str) -> AgentId {
    name.parse().unwrap()
}

/// Reads with the hive in New York and its default agent `thinker`.
fn with_context<T>(how: impl FnOnce(&Context<'_>) -> T) -> T {
    let default_agent = id("thinker");
    let now = NOW.parse().unwrap();
    how(&Context { now, zone: ZONE, caller: None, default_agent: Some(&default_agent) })
}

fn created(body: &Value) -> Draft {
    with_context(|ctx| create(body, ctx)).unwrap_or_else(|faults| panic!("{body}\n{faults:#?}"))
}

fn refused(body: &Value) -> Vec<(String, String)> {
    let faults = with_context(|ctx| create(body, ctx)).map(|draft| panic!("{body}\n{draft:#?}"));
    faults.unwrap_err().into_iter().map(|fault| (fault.pointer, fault.detail)).collect()
}

/// The one fault of a body.
fn only(body: &Value) -> (String, String) {
    let mut all = refused(body);
    assert_eq!(all.len(), 1, "{body}\n{all:#?}");
    all.remove(0)
}

/// A body with a name and something to do, and these keys.
fn body(keys: &Value) -> Value {
    let mut body = json!({"name": "x", "instructions": "Do it."});
    body.as_object_mut().unwrap().extend(keys.as_object().unwrap().clone());
    body
}

fn cron(schedule: &str, zone: &str) -> TriggerSpec {
    TriggerSpec::Cron { schedule: schedule.into(), timezone: zone.into() }
}

fn once(at: &str, zone: &str) -> TriggerSpec {
    TriggerSpec::OneShot { at: at.parse().unwrap(), timezone: Some(zone.into()) }
}

fn every(text: &str) -> TriggerSpec {
    TriggerSpec::Interval { every: text.into() }
}
