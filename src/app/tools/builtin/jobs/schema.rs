//! What models are told of the job tools: every field of the documents' schema, with its default. Types are wide where
//! the normaliser takes more than one form (systems.md A6), so that no checker refuses what it would have mended.

use serde_json::{Value, json};

use super::super::Described;

pub(super) const STORE: &str = "memory_store_skill";
pub(super) const UPDATE: &str = "memory_update_skill";
pub(super) const LIST: &str = "memory_list_skills";
pub(super) const GET: &str = "memory_get_skill";
pub(super) const DELETE: &str = "memory_delete_skill";

pub(in super::super) fn tools() -> Vec<Described> {
    let tool = |name, description: &str, input_schema| Described {
        name,
        description: description.to_owned(),
        input_schema,
    };
    vec![
        tool(
            STORE,
            "Create a skill: an action on a schedule, on an event or on demand. With an execution_plan of one step it \
             makes that tool call without a model; else the agent follows the instructions, with required_tools alone. \
             The reply tells its id and its next three fire times.",
            store(),
        ),
        tool(UPDATE, "Change any field of a skill; what is left out stays.", update()),
        tool(
            LIST,
            "List skills, all or filtered.",
            json!({"type": "object", "properties": {
                "enabled": {"type": ["boolean", "string"], "description": "Only enabled, or only disabled ones."},
                "trigger_type": {"type": "string", "enum": ["cron", "event", "manual"]},
                "agent_id": {"type": "string", "description": "Only this agent's."},
            }}),
        ),
        tool(GET, "Get a single skill by its id.", by_id()),
        tool(DELETE, "Delete a skill by its id. What runs of it goes on; its history stays.", by_id()),
    ]
}

fn id() -> Value {
    json!({"type": ["integer", "string"], "description": "The skill's id, as memory_list_skills tells it."})
}

fn by_id() -> Value {
    json!({"type": "object", "properties": {"id": id()}, "required": ["id"]})
}

fn store() -> Value {
    json!({"type": "object", "properties": fields(true), "required": ["name", "instructions"]})
}

fn update() -> Value {
    let mut properties = fields(false);
    properties["id"] = id();
    json!({"type": "object", "properties": properties, "required": ["id"]})
}

/// The fields of a skill; their defaults are those of a new one.
fn fields(new: bool) -> Value {
    let mut fields = json!({
        "name": {"type": "string", "description": "Unique among the agent's skills."},
        "description": {"type": "string", "description": "What the skill does, in brief."},
        "instructions": {"type": "string", "description": "What the agent shall do, in plain words."},
        "trigger_type": {"type": "string",
            "description": "cron, event or manual. Left out: it follows from trigger_config."},
        "trigger_config": trigger_config(),
        "required_tools": {"type": ["array", "string"], "items": {"type": "string"},
            "description": "Exact tool names from get_tool_catalog. The agent may call these alone."},
        "execution_plan": {"type": ["array", "object", "string"],
            "items": {"type": "object", "properties": {
                "id": {"type": "string"},
                "toolName": {"type": "string"},
                "parameters": {"type": ["object", "string"]},
            }},
            "description": "One step {id, toolName, parameters}: this call is made, and no model asked. More than one \
                step is left to the agent."},
        "max_steps": {"type": ["integer", "string"], "default": 10,
            "description": "Tool calls that the agent may make at most."},
        "notify_on_completion": {"type": ["boolean", "string", "integer"], "default": true,
            "description": "Tell the user when it is done. False when the plan sends a message itself."},
        "notify_interval_minutes": {"type": ["integer", "string"], "default": 0,
            "description": "Minutes between two notices at least; 0: as the hive says."},
        "agent_id": {"type": "string", "description": "Which agent owns the skill; left out: the one that asks."},
        "enabled": {"type": ["boolean", "string", "integer"], "default": true,
            "description": "False: it enables itself once all of its tools exist."},
    });
    if !new && let Some(fields) = fields.as_object_mut() {
        for field in fields.values_mut().filter_map(Value::as_object_mut) {
            field.remove("default");
        }
    }
    fields
}

fn trigger_config() -> Value {
    json!({
        "type": ["object", "string"],
        "description": "One of schedule, interval_minutes, at, in_minutes and in_hours; event for an event skill; none for \
            a manual one. \"In 5 minutes\" is in_minutes, \"every 5 minutes\" is schedule or interval_minutes.",
        "properties": {
            "schedule": {"type": "string", "description": "Cron: five fields, or six with seconds first."},
            "timezone": {"type": "string", "description": "IANA name; only when the user asks for one."},
            "interval_minutes": {"type": ["number", "string"]},
            "at": {"type": "string", "description": "Once, at this time: 2026-02-14T15:00:00."},
            "in_minutes": {"type": ["number", "string"], "description": "Once, so many minutes from now."},
            "in_hours": {"type": ["number", "string"], "description": "Once, so many hours from now."},
            "event": {"type": ["array", "string"], "items": {"type": "string"},
                "description": "Names of events of the hive."},
        },
    })
}
