//! A check out of what a request or `skep.toml` says of it, as JSON.

use serde_json::{Map, Value};

use super::{Preflight, RunIf};
use crate::{config::keys::nearest, scheduler::rules};

const KEYS: [&str; 4] = ["tool", "args", "path", "run_if"];
/// How else models name them.
const ALIASES: [(&str, &str); 6] = [
    ("toolName", "tool"),
    ("tool_name", "tool"),
    ("params", "args"),
    ("parameters", "args"),
    ("runIf", "run_if"),
    ("condition", "run_if"),
];

/// JSON pointer below the check, and what is wrong there.
pub type Mistake = (String, String);

/// Reads a check, `{tool, args?, path?, run_if?}`.
///
/// # Errors
/// The first thing that is wrong with it.
pub fn read(value: &Value) -> Result<Preflight, Mistake> {
    let at = |key: &str, detail: String| (format!("/{key}"), detail);
    let Value::Object(map) = value else {
        return Err((String::new(), format!("preflight must be an object {{{}}}", KEYS.join(", "))));
    };
    let mut fields: Map<String, Value> = Map::new();
    for (key, value) in map.iter().filter(|(_, value)| !value.is_null()) {
        let alias = ALIASES.iter().find(|(alias, _)| alias == key).map(|(_, key)| *key);
        let Some(known) = KEYS.into_iter().find(|known| known == key).or(alias) else {
            let help = nearest(key, KEYS).map_or_else(
                || format!("known keys are {}", KEYS.join(", ")),
                |near| format!("did you mean {near:?}?"),
            );
            return Err(at(key, format!("unknown key {key:?} ({help})")));
        };
        fields.insert(known.to_owned(), value.clone());
    }
    let tool = fields.get("tool").and_then(Value::as_str);
    let tool =
        tool.ok_or_else(|| at("tool", "preflight needs the tool that is called before the run".to_owned()))?;
    let tool = rules::tool(tool).map_err(|(what, remedy)| at("tool", format!("{what} ({remedy})")))?;
    let args = match fields.remove("args") {
        None => Map::new(),
        Some(Value::Object(args)) => args,
        Some(_) => return Err(at("args", "args must be an object".to_owned())),
    };
    let args = rules::args(args).map_err(|(what, remedy)| at("args", format!("{what} ({remedy})")))?;
    let path = match fields.remove("path") {
        None => None,
        Some(Value::String(path)) if !path.is_empty() && path.split('.').all(|name| !name.is_empty()) => {
            Some(path)
        }
        Some(_) => {
            return Err(at("path", "path must be names with dots between them: \"data.events\"".to_owned()));
        }
    };
    let run_if = match fields.remove("run_if") {
        None => RunIf::default(),
        Some(written) => serde_json::from_value(written).map_err(|_| {
            let forms = "\"not_empty\", \"empty\", {\"equals\": …}, {\"not_equals\": …} or {\"at_least\": 3}";
            at("run_if", format!("run_if must be {forms}"))
        })?,
    };
    Ok(Preflight { tool, args, path, run_if })
}
