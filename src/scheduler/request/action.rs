//! What a requested job does: one tool call, or instructions to the agent (systems.md A1, A2).
//!
//! A plan of one step is a tool call. A longer one is dropped, and its tools are those that the agent may call.

use serde_json::{Map, Value};

use super::{
    Desk,
    keys::{self, Known, STEP},
    reader::{Field, Place, Reader, elements, structured},
};
use crate::scheduler::{job::JobSpec, preflight, rules};

/// An `execution_plan`.
enum Plan {
    /// Counts as not written.
    Empty,
    Call {
        tool: String,
        args: Map<String, Value>,
    },
    /// The tools of several steps.
    Steps(Vec<String>),
}

/// Reads tool, arguments, plan, instructions and required tools, and checks that they make a job.
pub(super) fn read(desk: &mut Desk<'_>, spec: &mut JobSpec) {
    let before = desk.r.faults.len();
    let plan_field = desk.root.take_value("execution_plan");
    let plan = plan_field.and_then(|field| plan(&mut desk.r, field)).unwrap_or(Plan::Empty);
    let called = desk.root.get("tool").or_else(|| desk.root.get("args")).cloned();
    if let Some(field) = called.filter(|_| !matches!(plan, Plan::Empty)) {
        let what = format!("{} and execution_plan both say what is called", field.key);
        desk.r.fault(&field.place, what, "keep one of them");
    }
    let instructed = desk.root.get("instructions").is_some();
    let removed = desk.root.take("tool").inspect(|field| tool(desk, spec, field));
    if removed.is_some_and(|field| field.value.is_null()) {
        spec.args.clear();
    }
    desk.set("args", &mut spec.args, Map::new(), |r, f| args(r, f.clone()));
    desk.set("required_tools", &mut spec.required_tools, Vec::new(), |r, f| r.names(f.clone(), rules::tool));
    desk.set("instructions", &mut spec.instructions, None, |r, f| {
        let text = r.text(f)?;
        let text = r.accept(&f.place, rules::instructions(text))?;
        Some(Some(text).filter(|text| !text.trim().is_empty()))
    });
    desk.set("preflight", &mut spec.preflight, None, |r, f| {
        let field = structured(f.clone());
        let read = preflight::read(&field.value);
        let place =
            |below: &str| below.split('/').skip(1).fold(field.place.clone(), |place, key| place.child(key));
        read.map_err(|(below, what)| r.fault(&place(&below), what, "")).ok().map(Some)
    });
    let steps = follow(desk, plan, spec);
    if desk.r.faults.len() == before {
        complete(desk, spec, steps, instructed);
    }
}

/// Sets or removes the tool.
fn tool(desk: &mut Desk<'_>, spec: &mut JobSpec, field: &Field) {
    spec.tool = match field.value {
        Value::Null => None,
        _ => name(&mut desk.r, field),
    };
}

fn name(r: &mut Reader, field: &Field) -> Option<String> {
    let name = r.text(field).map(rules::tool)?;
    r.accept(&field.place, name)
}

fn args(r: &mut Reader, field: Field) -> Option<Map<String, Value>> {
    let place = field.place.clone();
    let args = r.object(field)?;
    r.accept(&place, rules::args(args))
}

/// Applies a plan; answers with how many steps were dropped.
fn follow(desk: &mut Desk<'_>, plan: Plan, spec: &mut JobSpec) -> usize {
    match plan {
        Plan::Empty => 0,
        Plan::Call { tool, args } => {
            (spec.tool, spec.args) = (Some(tool), args);
            0
        }
        Plan::Steps(tools) => {
            (spec.tool, spec.args) = (None, Map::new());
            let count = tools.len();
            for tool in tools {
                if !spec.required_tools.contains(&tool) {
                    spec.required_tools.push(tool);
                }
            }
            desk.notes.push(format!(
                "the plan of {count} steps was dropped, since a direct job makes one call: the agent follows the \
                 instructions and may call {}",
                spec.required_tools.join(", ")
            ));
            count
        }
    }
}

/// What an action lacks.
fn complete(desk: &mut Desk<'_>, spec: &JobSpec, steps: usize, instructed: bool) {
    let place = |key: &str| Place::default().child(key);
    match (&spec.tool, &spec.instructions) {
        (None, None) if steps > 0 => {
            let what =
                format!("a plan of {steps} steps is left to the agent, and there are no instructions for it");
            desk.r.fault(&place("instructions"), what, "write instructions, or a plan of one step");
        }
        (None, None) => {
            let remedy = "write instructions for the agent, or a tool and its args";
            desk.r.fault(&place("instructions"), "a job needs something to do", remedy);
        }
        (Some(tool), Some(_)) if instructed && desk.old.is_some() => {
            desk.notes.push(format!(
                "the job still calls {tool} and nothing else: with tool null, the agent follows the instructions"
            ));
        }
        _ => {}
    }
    if spec.tool.is_none() && !spec.args.is_empty() {
        desk.r.fault(&place("args"), "args go to a tool, and none is named", "write tool, or leave them out");
    }
}

/// Reads a plan: a list of steps, one step, or either as JSON in a string.
fn plan(r: &mut Reader, field: Field) -> Option<Plan> {
    let before = r.faults.len();
    let field = structured(field);
    let steps = match &field.value {
        Value::Array(list) => elements(&field, list),
        Value::Object(_) => vec![field],
        Value::String(text) if text.trim().is_empty() => Vec::new(),
        _ => {
            r.fault(&field.place, format!("{} must be a list of steps", field.key), STEP_FORM);
            return None;
        }
    };
    let plan = match steps.as_slice() {
        [] => Plan::Empty,
        [step] => call(r, step)?,
        steps => Plan::Steps(steps.iter().filter_map(|step| tool_of(r, step)).collect()),
    };
    (r.faults.len() == before).then_some(plan)
}

const STEP_FORM: &str = "write [{\"id\": …, \"toolName\": …, \"parameters\": {…}}]";

fn call(r: &mut Reader, step: &Field) -> Option<Plan> {
    let mut scope = r.scope(step, &[STEP], false)?;
    let args = scope.take_value("args").map(|field| args(r, field));
    Some(Plan::Call { tool: tool_of(r, step)?, args: args.unwrap_or_else(|| Some(Map::new()))? })
}

/// The tool of a step; nothing else of it is looked at.
fn tool_of(r: &mut Reader, step: &Field) -> Option<String> {
    let is_tool = |key: &str| matches!(keys::look_up(key, &[STEP], false), Known::Word("tool"));
    let map = step.value.as_object();
    match map.and_then(|map| map.iter().find(|(key, _)| is_tool(key))) {
        Some((key, value)) => {
            name(r, &Field { place: step.place.child(key), key: key.clone(), value: value.clone() })
        }
        None => {
            r.fault(&step.place, format!("{} names no tool", step.key), STEP_FORM);
            None
        }
    }
}
