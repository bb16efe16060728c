//! What the tests of this folder share.

use jiff::tz::TimeZone;
use serde_json::json;

use crate::{app::job_types::JobView, cli::when::Clock};

/// A Friday morning in Berlin.
pub fn clock() -> Clock {
    Clock { now: "2026-01-02T06:00:00Z".parse().unwrap(), zone: TimeZone::get("Europe/Berlin").unwrap() }
}

/// A job with this on top of what is usual.
pub fn job(fields: &serde_json::Value) -> JobView {
    let mut job = json!({
        "id": 7, "agent": "writer", "name": "morning-post", "description": "", "origin": "api", "enabled": true,
        "disabled_reason": null, "waiting_reason": null, "tier": "direct",
        "trigger": {"type": "cron", "schedule": "0 9 * * MON-FRI", "timezone": "Europe/Berlin"},
        "tool": "post-twitter", "args": {"content": "Good morning"}, "required_tools": [], "missing_tools": [],
        "max_steps": 10, "timeout": "1m", "missed": "last", "missed_within": "1d", "overlap": "skip", "retries": 0,
        "jitter": "0s", "notify": {"on_completion": true, "interval_minutes": 0},
        "next_fire_at": "2026-01-02T09:00:00+01:00", "last_run": null, "consecutive_failures": 0,
        "backoff_until": null, "last_notified_at": null, "created_at": "2026-01-01T06:00:00Z",
        "updated_at": "2026-01-01T06:00:00Z"
    });
    for (key, value) in fields.as_object().unwrap() {
        job[key] = value.clone();
    }
    serde_json::from_value(job).unwrap()
}
