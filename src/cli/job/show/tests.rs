use serde_json::json;

use super::*;
use crate::cli::job::tests::{clock, job};

#[test]
fn a_tool_call_is_shown_in_the_words_of_skep_toml() {
    let job = job(&json!({"description": "Greets", "retries": 2, "jitter": "30s", "missed": "all",
        "notify": {"on_completion": false, "interval_minutes": 60, "targets": ["phone"]}}));
    let fires = ["2026-01-02T09:00:00+01:00", "2026-01-05T09:00:00+01:00", "2026-01-20T09:00:00+01:00"];
    insta::assert_snapshot!(text(&job, &fires.map(str::to_owned), &clock()), @r#"
    7  writer/morning-post
    Greets

    state           enabled
    trigger         0 9 * * MON-FRI
    next            in 2 h · Fri 09:00
    then            Mon 09:00, 20 Jan 09:00
    tier            direct (one tool call, no model)
    tool            post-twitter
    args            {"content":"Good morning"}
    timeout         1m
    missed          all, within 1d
    overlap         skip
    retries         2
    jitter          30s
    notify          failures, to phone, at most every 60 min
    last run        none yet
    made by         the operator
    created         24 h ago · Thu 07:00
    updated         24 h ago · Thu 07:00
    "#);
}

#[test]
fn instructions_stand_below_everything_else() {
    let job =
        job(&json!({"tier": "agent", "tool": null, "args": null, "instructions": "Read.\nThen write.\n",
        "required_tools": ["read-file"], "missing_tools": ["read-file"], "enabled": false,
        "disabled_reason": "paused", "missed": "skip", "origin": "config",
        "last_run": {"id": 12, "at": "2026-01-02T05:55:00Z", "status": "failed", "summary": "no\nway"}}));
    insta::assert_snapshot!(text(&job, &[], &clock()), @r"
    7  writer/morning-post

    state           disabled: paused; missing tools: read-file
    trigger         0 9 * * MON-FRI
    tier            agent (its agent follows the instructions)
    required_tools  read-file
    max_steps       10
    timeout         1m
    missed          skip
    overlap         skip
    retries         0
    notify          failures and successes
    last run        12 failed 5 min ago · Fri 06:55: no way
    made by         skep.toml
    created         24 h ago · Thu 07:00
    updated         24 h ago · Thu 07:00

    Read.
    Then write.
    ");
}
