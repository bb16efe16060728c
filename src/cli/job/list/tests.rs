use serde_json::json;

use super::*;
use crate::cli::{
    job::tests::{clock, job},
    ui::render_table,
};

#[test]
fn the_table_tells_when_each_job_fires_next_and_why_some_do_not() {
    let jobs = [
        job(&json!({})),
        job(&json!({"id": 8, "name": "weekly", "tier": "agent",
            "trigger": {"type": "cron", "schedule": "0 18 * * SUN", "timezone": "America/New_York"},
            "next_fire_at": "2026-01-04T18:00:00-05:00", "consecutive_failures": 2,
            "backoff_until": "2026-01-02T07:00:00Z",
            "last_run": {"id": 3, "at": "2026-01-02T05:40:00Z", "status": "timed_out", "summary": null}})),
        job(&json!({"id": 9, "name": "poll", "trigger": {"type": "interval", "every": "30m"},
            "next_fire_at": "2026-01-02T06:10:00Z", "waiting_reason": "agent writer is halted since 2026-01-02T06:00:00+01:00: lift it with `skep resume writer`",
            "last_run": {"id": 5, "at": "2026-01-02T05:40:00Z", "status": "succeeded", "summary": "ok"}})),
        job(&json!({"id": 10, "name": "once", "enabled": false, "disabled_reason": "it fired",
            "trigger": {"type": "one-shot", "at": "2025-12-24T18:00:00+01:00"}, "next_fire_at": null})),
        job(
            &json!({"id": 11, "name": "on-report", "trigger": {"type": "event", "event": ["report", "run:*"]},
            "next_fire_at": null, "waiting_reason": "waits for an event", "missing_tools": ["x", "y"]}),
        ),
        job(
            &json!({"id": 12, "agent": "a", "name": "by\u{1b}hand", "trigger": {"type": "manual"}, "enabled": false,
            "next_fire_at": null}),
        ),
    ];
    let rows = jobs.iter().map(|job| row(job, &clock())).collect();
    insta::assert_snapshot!(render_table(&HEAD, rows, false), @r"
    ID  AGENT   NAME          TIER    TRIGGER                          NEXT                   LAST                  STATE
    7   writer  morning-post  direct  0 9 * * MON-FRI                  in 2 h · Fri 09:00     -                     enabled
    8   writer  weekly        agent   0 18 * * SUN (America/New_York)  in 2 d · Sun 18:00     timed_out 20 min ago  enabled; 2 failures in a row
    9   writer  poll          direct  every 30m                        in 10 min · Fri 07:10  succeeded 20 min ago  agent writer is halted since Fri 06:00: lift it with `skep resume writer`
    10  writer  once          direct  once, 2025-12-24 18:00           -                      -                     disabled: it fired
    11  writer  on-report     direct  on report, run:*                 -                      -                     waits for an event; missing tools: x, y
    12  a       by hand       direct  manual                           -                      -                     disabled
    ");
}
