//! `queue_task` and `get_job_status` (systems.md A21).

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::{
    Behalf, Described,
    jobs::{answered, number, wrong},
};
use crate::app::{
    Result,
    hive::Hive,
    tasks::{TaskRequest, TaskView},
};

const QUEUE: &str = "queue_task";
const STATUS: &str = "get_job_status";

pub(super) fn tools() -> Vec<Described> {
    let step = json!({"type": "object", "properties": {
        "id": {"type": "string", "description": "What later steps call it; left out: step1, step2, …"},
        "toolName": {"type": "string"},
        "parameters": {"type": ["object", "string"],
            "description": "\"{{step1.field}}\" stands for what an earlier step answered."},
    }});
    let action = json!({"type": ["object", "string"], "properties": {
        "type": {"type": "string", "enum": ["tool_call", "workflow"]},
        "toolName": {"type": "string", "description": "tool_call: the exact name of a tool."},
        "parameters": {"type": ["object", "string"], "description": "tool_call: its arguments."},
        "workflowSteps": {"type": ["array", "string"], "items": step, "description": "workflow: the calls, in order."},
    }});
    vec![
        Described {
            name: QUEUE,
            description: "Queue a one-off task in the background: a tool call, or a workflow of several. Answers with a \
                          taskId at once; ask get_job_status what became of it. It is tried up to four times, from its \
                          first step on: what it does may happen more than once."
                .to_owned(),
            input_schema: json!({"type": "object", "required": ["name", "action"], "additionalProperties": false,
                "properties": {
                "name": {"type": "string", "description": "What the task is called."},
                "action": action,
                "agent_id": {"type": "string", "description": "In whose container it runs; left out: the one that asks."},
                "agent": {"type": "string", "description": "The same as agent_id."},
            }}),
        },
        Described {
            name: STATUS,
            description: "Tell where a background task stands: queued, running, completed or failed, with its result or \
                          error."
                .to_owned(),
            input_schema: json!({"type": "object", "properties": {
                "taskId": {"type": ["integer", "string"], "description": "As queue_task answered it."},
            }}),
        },
    ]
}

pub(super) fn is_one(name: &str) -> bool {
    matches!(name, QUEUE | STATUS)
}

/// None: it is no tool of this kind.
pub(super) async fn call(
    hive: &Arc<Hive>,
    behalf: &Behalf,
    name: &str,
    args: &Map<String, Value>,
) -> Option<Result<Value>> {
    Some(match name {
        QUEUE => answered(queue(hive, behalf, args)).await,
        STATUS => answered(status(hive, behalf, args)).await,
        _ => return None,
    })
}

async fn queue(hive: &Arc<Hive>, behalf: &Behalf, args: &Map<String, Value>) -> Result<Value> {
    let text = |key: &str| args.get(key).and_then(Value::as_str).map(str::to_owned);
    let agent = match (text("agent_id"), text("agent")) {
        (Some(one), Some(other)) if one != other => {
            return Err(wrong("agent", format!("agent_id says {one:?} and agent says {other:?}: name one")));
        }
        (one, other) => one.or(other).unwrap_or_else(|| behalf.agent.to_string()),
    };
    let request = TaskRequest {
        name: text("name").unwrap_or_default(),
        action: args.get("action").cloned().unwrap_or_default(),
        agent: Some(agent),
    };
    hive.queue_task(behalf.caller.as_ref(), request, None).await.map(shown)
}

async fn status(hive: &Arc<Hive>, behalf: &Behalf, args: &Map<String, Value>) -> Result<Value> {
    let given = ["taskId", "task_id", "jobId", "job_id", "id"].into_iter().find_map(|key| args.get(key));
    let id = given.and_then(number);
    let id = id.ok_or_else(|| wrong("taskId", "say which task: its taskId, as queue_task answered it"))?;
    hive.task(behalf.caller.as_ref(), id).await.map(shown)
}

fn shown(task: TaskView) -> Value {
    serde_json::to_value(task).unwrap_or_default()
}
