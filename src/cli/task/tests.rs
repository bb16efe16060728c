use serde_json::json;

use super::{cancel::said, list, number, show::text};
use crate::{
    app::tasks::TaskView,
    cli::{job::tests::clock, ui::render_table},
};

/// A task with this on top of what is usual.
fn view(fields: &serde_json::Value) -> TaskView {
    let mut task = json!({
        "id": 7, "taskId": 7, "agent": "writer", "name": "look around", "status": "completed", "run": 12, "attempt": 1,
        "action": {"type": "tool_call", "toolName": "say", "parameters": {}}, "result": {"success": true}, "error": null,
        "created_at": "2026-01-02T06:00:00+01:00", "started_at": "2026-01-02T05:00:00.003Z",
        "finished_at": "2026-01-02T05:00:12.503Z", "duration_ms": 12500
    });
    for (key, value) in fields.as_object().unwrap() {
        task[key] = value.clone();
    }
    serde_json::from_value(task).unwrap()
}

fn waiting() -> TaskView {
    view(&json!({"id": 8, "status": "queued", "started_at": null, "finished_at": null, "result": null}))
}

fn failed() -> TaskView {
    view(&json!({"id": 9, "name": "hopeless", "status": "failed", "attempt": 4, "result": null,
        "error": "it ended with exit code 5:\nno disk"}))
}

#[test]
fn tasks_are_listed_with_what_came_of_them() {
    let rows = [failed(), waiting(), view(&json!({}))].iter().map(|task| list::row(task, &clock())).collect();
    insta::assert_snapshot!(render_table(&list::HEAD, rows, false), @r#"
    ID  TASK         AGENT   STATUS              ASKED       TOOK    ANSWER
    9   hopeless     writer  failed (attempt 4)  60 min ago  12.5 s  it ended with exit code 5: no disk
    8   look around  writer  queued              60 min ago  -
    7   look around  writer  completed           60 min ago  12.5 s  {"success":true}
    "#);
}

#[test]
fn a_task_is_shown_with_what_it_does_and_answered() {
    insta::assert_snapshot!(text(&view(&json!({})), &clock()), @r#"
    7  writer/look around

    status     completed
    asked      60 min ago · Fri 06:00
    run        12 (`skep run show 12` tells more)
    started    60 min ago · Fri 06:00
    took       12.5 s

    action:
    {
      "type": "tool_call",
      "toolName": "say",
      "parameters": {}
    }

    result:
    {
      "success": true
    }
    "#);
    insta::assert_snapshot!(text(&failed(), &clock()), @r#"
    9  writer/hopeless

    status     failed (attempt 4)
    asked      60 min ago · Fri 06:00
    run        12 (`skep run show 12` tells more)
    started    60 min ago · Fri 06:00
    took       12.5 s

    action:
    {
      "type": "tool_call",
      "toolName": "say",
      "parameters": {}
    }

    error:
    it ended with exit code 5:
    no disk
    "#);
    assert!(!text(&waiting(), &clock()).contains("started"));
}

#[test]
fn the_end_of_a_task_is_told_and_only_a_number_names_one() {
    assert_eq!(said(&failed()), "task 9 is over: it ended with exit code 5: no disk");
    assert_eq!(said(&view(&json!({}))), "task 7 completed");
    assert_eq!(said(&view(&json!({"status": "running"}))), "task 7 is being ended");
    assert_eq!(number("7"), Ok(7));
    for bad in ["0", "-1", "look around", ""] {
        assert!(number(bad).unwrap_err().contains("skep task list"), "{bad}");
    }
}
