//! What the tests of this folder share.

use serde_json::json;

use crate::app::job_types::RunView;

/// A run with this on top of what is usual.
pub fn view(fields: &serde_json::Value) -> RunView {
    let mut run = json!({
        "id": 12, "agent": "writer", "job": 7, "job_name": "morning-post", "tier": "direct", "trigger": "schedule",
        "scheduled_at": "2026-01-02T06:00:00+01:00", "started_at": "2026-01-02T05:00:00.003Z",
        "finished_at": "2026-01-02T05:00:12.503Z", "attempt": 1, "status": "succeeded", "exit_code": 0,
        "result": {"success": true}, "error": null, "summary": "posted", "steps": 0, "output_bytes": 120
    });
    for (key, value) in fields.as_object().unwrap() {
        run[key] = value.clone();
    }
    serde_json::from_value(run).unwrap()
}
