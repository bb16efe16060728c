//! A job in the columns of the Annabelle documents, with what this hive knows beside them. Pure.

use serde_json::{Map, Value, json};

use crate::{
    app::job_types::{JobView, JobWritten},
    config::units::parse_duration,
    runs::state::RunStatus,
};

/// `cron`, `event` or `manual`: an interval and a one-shot are `cron` there.
pub(super) fn trigger_type(job: &JobView) -> &'static str {
    match job.trigger.kind.as_str() {
        "event" => "event",
        "manual" => "manual",
        _ => "cron",
    }
}

/// A job that was made or changed: with its next fire times, and what was changed on the way in.
pub(super) fn written(written: &JobWritten) -> Value {
    let mut view = shown(&written.job);
    view["next_fires"] = written.next_fires.clone().into();
    view["notes"] = written.warnings.clone().into();
    view
}

/// A job.
pub(super) fn shown(job: &JobView) -> Value {
    let last = job.last_run.as_ref();
    json!({
        "id": job.id,
        "agent_id": job.agent,
        "name": job.name,
        "description": job.description,
        "enabled": job.enabled,
        "disabled_reason": job.disabled_reason,
        "trigger_type": trigger_type(job),
        "trigger_config": trigger_config(job),
        "instructions": job.instructions,
        "tier": job.tier,
        "required_tools": job.required_tools,
        "missing_tools": job.missing_tools,
        "execution_plan": plan(job),
        "max_steps": job.max_steps,
        "notify_on_completion": job.notify.on_completion,
        "notify_interval_minutes": job.notify.interval_minutes,
        "next_fire_at": job.next_fire_at,
        "last_run_at": last.map(|run| &run.at),
        "last_run_status": last.map(|run| outcome(run.status)),
        "last_run_summary": last.map(|run| &run.summary),
        "last_notified_at": job.last_notified_at,
        "created_at": job.created_at,
        "updated_at": job.updated_at,
    })
}

/// `success` or `error` (contract.md 5): every end but success.
fn outcome(status: RunStatus) -> &'static str {
    if status == RunStatus::Succeeded { "success" } else { "error" }
}

fn trigger_config(job: &JobView) -> Value {
    let trigger = &job.trigger;
    let mut config = Map::new();
    let mut put = |key: &str, value: Option<Value>| {
        if let Some(value) = value {
            config.insert(key.to_owned(), value);
        }
    };
    put("schedule", trigger.schedule.clone().map(Value::from));
    put("interval_minutes", trigger.every.as_deref().and_then(minutes));
    put("at", trigger.at.clone().map(Value::from));
    put("event", trigger.event.clone().map(Value::from));
    put("timezone", trigger.timezone.clone().map(Value::from));
    config.into()
}

/// An interval in minutes, whole where it is.
fn minutes(every: &str) -> Option<Value> {
    let seconds = parse_duration(every).ok()?.as_secs_f64();
    #[expect(clippy::cast_possible_truncation, reason = "whole, and far within bounds")]
    let whole = (seconds % 60.0 == 0.0).then_some((seconds / 60.0) as i64);
    Some(whole.map_or_else(|| json!(seconds / 60.0), Value::from))
}

fn plan(job: &JobView) -> Value {
    job.tool.as_ref().map_or(
        Value::Null,
        |tool| json!([{"id": "step1", "toolName": tool, "parameters": job.args.clone().unwrap_or_default()}]),
    )
}
