//! What a background task does (systems.md A21): one tool call, or several in a row of which later ones get what earlier
//! ones answered, written `{{step.field}}`. Pure: it reads and fills in; calls are others'.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// Steps of a workflow.
pub const MAX_STEPS: usize = 50;

/// A step of a workflow.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// What later steps call it.
    pub id: String,
    /// The tool.
    #[serde(rename = "toolName")]
    pub tool: String,
    /// Its arguments, with placeholders.
    #[serde(default)]
    pub parameters: Map<String, Value>,
}

/// What a task does.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// One call.
    ToolCall {
        /// The tool.
        tool: String,
        /// Its arguments.
        parameters: Map<String, Value>,
    },
    /// Several, in order.
    Workflow(Vec<Step>),
}

/// What is wrong with an action: JSON pointer below it, and what to do.
pub type Faults = Vec<(String, String)>;

/// Keys as they are printed first, and what else they are taken for.
const TYPE: &[&str] = &["type"];
const TOOL: &[&str] = &["toolName", "tool_name", "tool"];
const PARAMETERS: &[&str] = &["parameters", "params", "args", "arguments"];
const STEPS: &[&str] = &["workflowSteps", "workflow_steps", "steps"];
const ID: &[&str] = &["id"];
/// Steps run in their order, so that what one of them depends on is said twice.
const ORDER: &[&str] = &["dependsOn", "depends_on", "name", "description"];

impl Action {
    /// Reads an action, `{type: tool_call | workflow, toolName, parameters | workflowSteps}`; also as JSON in a string, as
    /// models write it.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub fn read(value: &Value) -> Result<Self, Faults> {
        let value = unpacked(value);
        let Some(action) = value.as_object() else {
            return Err(vec![(String::new(), format!("action must be an object: {FORM}"))]);
        };
        let mut faults = Faults::new();
        check_keys(action, &[TYPE, TOOL, PARAMETERS, STEPS, ID, ORDER], "", &mut faults);
        let steps = get(action, STEPS);
        let kind = match action.get("type").filter(|kind| !kind.is_null()) {
            None if steps.is_some() => "workflow",
            None => "tool_call",
            Some(kind) if kind == "tool_call" => "tool_call",
            Some(kind) if kind == "workflow" => "workflow",
            Some(_) => {
                faults.push(("/type".to_owned(), "type is \"tool_call\" or \"workflow\"".to_owned()));
                return Err(faults);
            }
        };
        let read = if kind == "workflow" {
            Self::Workflow(read_steps(steps.as_ref(), &mut faults))
        } else {
            if let Some((key, _)) = steps {
                faults.push((format!("/{key}"), format!("{key} belongs to an action of type workflow")));
            }
            let tool = tool(action, "", &mut faults);
            Self::ToolCall { tool, parameters: parameters(action, "", &mut faults) }
        };
        if faults.is_empty() { Ok(read) } else { Err(faults) }
    }

    /// As it is printed.
    #[must_use]
    pub fn shown(&self) -> Value {
        match self {
            Self::ToolCall { tool, parameters } => {
                json!({"type": "tool_call", "toolName": tool, "parameters": parameters})
            }
            Self::Workflow(steps) => json!({"type": "workflow", "workflowSteps": steps}),
        }
    }

    /// The calls that it makes: place, tool, arguments.
    #[must_use]
    pub fn calls(&self) -> Vec<(String, &str, &Map<String, Value>)> {
        match self {
            Self::ToolCall { tool, parameters } => vec![(String::new(), tool, parameters)],
            Self::Workflow(steps) => {
                let named = |(n, step): (usize, _)| {
                    let step: &Step = step;
                    (format!("/workflowSteps/{n}"), step.tool.as_str(), &step.parameters)
                };
                steps.iter().enumerate().map(named).collect()
            }
        }
    }
}

const FORM: &str = "{\"type\": \"tool_call\", \"toolName\": …, \"parameters\": {…}} or {\"type\": \"workflow\", \
                    \"workflowSteps\": [{\"id\": …, \"toolName\": …, \"parameters\": {…}}]}";

fn read_steps(given: Option<&(&str, Value)>, faults: &mut Faults) -> Vec<Step> {
    let Some((key, value)) = given else {
        faults.push(("/workflowSteps".to_owned(), "a workflow needs workflowSteps".to_owned()));
        return Vec::new();
    };
    let value = unpacked(value);
    let list = match value.as_array() {
        Some(list) if !list.is_empty() && list.len() <= MAX_STEPS => list,
        _ => {
            let what = format!("{key} must be a list of 1 to {MAX_STEPS} steps {{id, toolName, parameters}}");
            faults.push((format!("/{key}"), what));
            return Vec::new();
        }
    };
    let mut steps: Vec<Step> = Vec::new();
    for (n, value) in list.iter().enumerate() {
        let place = format!("/{key}/{n}");
        let value = unpacked(value);
        let Some(step) = value.as_object() else {
            faults.push((place, "a step must be an object {id, toolName, parameters}".to_owned()));
            continue;
        };
        check_keys(step, &[ID, TOOL, PARAMETERS, ORDER], &place, faults);
        let id = match get(step, ID).map(|(_, id)| id) {
            None => format!("step{}", n + 1),
            Some(Value::Number(id)) => id.to_string(),
            Some(Value::String(id)) if is_name(&id) => id,
            Some(_) => {
                let what = "the id of a step has letters, digits, `-` and `_`".to_owned();
                faults.push((format!("{place}/id"), what));
                continue;
            }
        };
        if steps.iter().any(|step| step.id == id) {
            faults.push((format!("{place}/id"), format!("two steps are called {id:?}: name them apart")));
        }
        let step =
            Step { tool: tool(step, &place, faults), parameters: parameters(step, &place, faults), id };
        check_placeholders(&step, &steps, &place, faults);
        steps.push(step);
    }
    steps
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_alphanumeric() || matches!(c, '-' | '_'))
}

/// A placeholder that begins with the id of a step to come, or of itself, is never filled in.
fn check_placeholders(step: &Step, before: &[Step], place: &str, faults: &mut Faults) {
    let mut names = Vec::new();
    gather(&Value::Object(step.parameters.clone()), &mut names);
    for name in names {
        let first = name.split('.').next().unwrap_or_default();
        if before.iter().all(|earlier| earlier.id != first) {
            let known: Vec<&str> = before.iter().map(|step| step.id.as_str()).collect();
            let help = match known.as_slice() {
                [] => "it is the first step".to_owned(),
                known => format!("before it come {}", known.join(", ")),
            };
            faults.push((
                format!("{place}/parameters"),
                format!("{{{{{name}}}}} is no answer of an earlier step: {help}"),
            ));
        }
    }
}

fn gather(value: &Value, names: &mut Vec<String>) {
    match value {
        Value::String(text) => {
            names.extend(pieces(text).into_iter().filter_map(|piece| match piece {
                Piece::Place(name) => Some(name.to_owned()),
                Piece::Text(_) => None,
            }));
        }
        Value::Array(list) => list.iter().for_each(|value| gather(value, names)),
        Value::Object(map) => map.values().for_each(|value| gather(value, names)),
        _ => {}
    }
}

fn get<'k>(map: &Map<String, Value>, names: &[&'k str]) -> Option<(&'k str, Value)> {
    let found = |name: &&'k str| Some((*name, map.get(*name).filter(|value| !value.is_null())?.clone()));
    names.iter().find_map(found)
}

fn check_keys(map: &Map<String, Value>, known: &[&[&str]], place: &str, faults: &mut Faults) {
    for (key, value) in map {
        if !value.is_null() && known.iter().all(|names| !names.contains(&key.as_str())) {
            let names: Vec<&str> =
                known.iter().take(known.len() - 1).filter_map(|n| n.first()).copied().collect();
            faults.push((
                format!("{place}/{key}"),
                format!("unknown key {key:?} (known are {})", names.join(", ")),
            ));
        }
    }
}

fn tool(map: &Map<String, Value>, place: &str, faults: &mut Faults) -> String {
    match get(map, TOOL) {
        Some((_, Value::String(name))) if !name.trim().is_empty() => name.trim().to_owned(),
        _ => {
            let what = "toolName is missing: the exact name of a tool, as get_tool_catalog tells it";
            faults.push((format!("{place}/toolName"), what.to_owned()));
            String::new()
        }
    }
}

fn parameters(map: &Map<String, Value>, place: &str, faults: &mut Faults) -> Map<String, Value> {
    match get(map, PARAMETERS).map(|(key, value)| (key, unpacked(&value))) {
        None => Map::new(),
        Some((_, Value::Object(parameters))) => parameters,
        Some((key, _)) => {
            faults.push((format!("{place}/{key}"), format!("{key} must be an object")));
            Map::new()
        }
    }
}

/// An object or a list that came as JSON in a string.
fn unpacked(value: &Value) -> Value {
    let Value::String(text) = value else { return value.clone() };
    match serde_json::from_str(text) {
        Ok(unpacked @ (Value::Object(_) | Value::Array(_))) => unpacked,
        _ => value.clone(),
    }
}

/// What the steps so far answered, by id.
pub type Answers = Map<String, Value>;

/// The parameters of a step with every placeholder filled in. A value that is nothing but a placeholder becomes what was
/// answered, with its type; within other text it becomes text.
///
/// # Errors
/// What a placeholder names was not answered.
pub fn filled(parameters: &Map<String, Value>, answers: &Answers) -> Result<Map<String, Value>, String> {
    parameters.iter().map(|(key, value)| Ok((key.clone(), fill(value, answers)?))).collect()
}

/// Whether parameters have placeholders: what a tool gets is not known before.
#[must_use]
pub fn waits(parameters: &Map<String, Value>) -> bool {
    parameters.values().any(has_place)
}

fn has_place(value: &Value) -> bool {
    match value {
        Value::String(text) => pieces(text).iter().any(|piece| matches!(piece, Piece::Place(_))),
        Value::Array(list) => list.iter().any(has_place),
        Value::Object(map) => waits(map),
        _ => false,
    }
}

fn fill(value: &Value, answers: &Answers) -> Result<Value, String> {
    match value {
        Value::String(text) => fill_text(text, answers),
        Value::Array(list) => list.iter().map(|value| fill(value, answers)).collect(),
        Value::Object(map) => filled(map, answers).map(Value::Object),
        other => Ok(other.clone()),
    }
}

fn fill_text(text: &str, answers: &Answers) -> Result<Value, String> {
    let pieces = pieces(text);
    if let [Piece::Place(name)] = pieces.as_slice() {
        return answered(name, answers).cloned();
    }
    let mut filled = String::new();
    for piece in pieces {
        match piece {
            Piece::Text(text) => filled.push_str(text),
            Piece::Place(name) => match answered(name, answers)? {
                Value::String(text) => filled.push_str(text),
                other => filled.push_str(&other.to_string()),
            },
        }
    }
    Ok(filled.into())
}

/// What `step`, `step.field` or `step.list.0.field` answered. `step.result` is all of it, unless it has such a field; a
/// field of what a tool wrapped as `{success, result}` or `{success, data}` is found there too.
fn answered<'a>(name: &str, answers: &'a Answers) -> Result<&'a Value, String> {
    let mut path = name.split('.');
    let step = path.next().unwrap_or_default();
    let mut value =
        answers.get(step).ok_or_else(|| format!("{{{{{name}}}}}: no step {step:?} ran before"))?;
    let mut place = step.to_owned();
    for (depth, field) in path.enumerate() {
        let found = match value {
            Value::Object(map) if depth == 0 => {
                let wrapped = || ["result", "data"].iter().find_map(|key| within(map.get(*key)?, field));
                map.get(field).or_else(|| if map.contains_key("success") { wrapped() } else { None })
            }
            other => within(other, field),
        };
        value = match found {
            Some(found) => found,
            None if depth == 0 && field == "result" => value,
            None => return Err(format!("{{{{{name}}}}}: {place} answered no {field:?}; {}", told(value))),
        };
        place = format!("{place}.{field}");
    }
    Ok(value)
}

fn within<'a>(value: &'a Value, field: &str) -> Option<&'a Value> {
    match value {
        Value::Object(map) => map.get(field),
        Value::Array(list) => field.parse::<usize>().ok().and_then(|n| list.get(n)),
        _ => None,
    }
}

/// What there is instead, for whoever mends the placeholder.
fn told(value: &Value) -> String {
    match value {
        Value::Object(map) if map.is_empty() => "its answer is empty".to_owned(),
        Value::Object(map) => {
            let keys: Vec<&str> = map.keys().map(String::as_str).take(20).collect();
            format!("it has {}", keys.join(", "))
        }
        Value::Array(list) => format!("it is a list of {}", list.len()),
        Value::Null => "it is null".to_owned(),
        Value::String(_) => "it is text".to_owned(),
        Value::Bool(_) | Value::Number(_) => format!("it is {value}"),
    }
}

enum Piece<'t> {
    Text(&'t str),
    Place(&'t str),
}

/// A text cut at its placeholders; braces around anything but a dotted name are text.
fn pieces(text: &str) -> Vec<Piece<'_>> {
    let (mut pieces, mut from, mut at) = (Vec::new(), 0, 0);
    while let Some(open) = text[at..].find("{{").map(|found| at + found) {
        let Some(close) = text[open..].find("}}").map(|found| open + found) else { break };
        let name = text[open + 2..close].trim();
        if !name.split('.').all(is_name) {
            at = open + 1;
            continue;
        }
        if from < open {
            pieces.push(Piece::Text(&text[from..open]));
        }
        pieces.push(Piece::Place(name));
        (from, at) = (close + 2, close + 2);
    }
    if from < text.len() {
        pieces.push(Piece::Text(&text[from..]));
    }
    pieces
}

#[cfg(test)]
mod tests;
