//! Values of a skill's variables (systems.md C3) and their place in its text (C4).
//!
//! Reads no file and no environment: both are handed in.

use std::collections::BTreeMap;

use serde_json::Value;

use super::model::Var;
use crate::ids::SkillId;

/// What stands for a secret wherever a person might read.
pub const MASK: &str = "***";

/// A value found for a variable.
#[derive(Clone, PartialEq, Eq)]
pub struct Found {
    /// The value.
    pub value: String,
    /// Whether it must not be shown.
    pub secret: bool,
}

impl std::fmt::Debug for Found {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let value = if self.secret { MASK } else { &self.value };
        f.debug_tuple("Found").field(&value).finish()
    }
}

/// The outcome for a skill.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Resolved {
    /// Values by name; a variable that no source has is not in it.
    pub values: BTreeMap<String, Found>,
    /// Required variables without a value, in the order of declaration: the skill is unavailable.
    pub unresolved_required: Vec<String>,
}

/// Resolves variables; the first source that has one wins: the skill's `vars.json`, `variables.json`
/// under the skill's id, the same under `_global`, the environment, the default.
///
/// `env` gives the agent's granted secrets (marked secret), then the allowed part of the supervisor's
/// environment. An empty default does not satisfy `required`.
pub fn resolve(
    vars: &[Var],
    per_skill: Option<&Value>,
    global: Option<&Value>,
    skill: &SkillId,
    env: impl Fn(&str) -> Option<Found>,
) -> Resolved {
    let section = |name: &str| global.and_then(|g| g.get(name));
    let files = [per_skill, section(skill.as_str()), section("_global")];
    let mut resolved = Resolved::default();
    for var in vars {
        let from_files = files
            .iter()
            .find_map(|file| as_text(file.as_ref()?.get(&var.name)?))
            .map(|value| Found { value, secret: false });
        let found = from_files.or_else(|| env(&var.name)).or_else(|| {
            let usable = |d: &String| !(var.required && d.is_empty());
            var.default.clone().filter(usable).map(|value| Found { value, secret: false })
        });
        match found {
            Some(mut found) => {
                found.secret |= var.secret;
                resolved.values.insert(var.name.clone(), found);
            }
            None if var.required => resolved.unresolved_required.push(var.name.clone()),
            None => {}
        }
    }
    resolved
}

/// A value as text; a number or a list as JSON. `null` is none.
#[must_use]
pub fn as_text(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(s) => Some(s.clone()),
        other => Some(other.to_string()),
    }
}

/// Puts values for `{{NAME}}`; what is unknown stays as it is, and what is put in is not searched again.
/// With `mask`, secret values become `***`.
#[must_use]
pub fn substitute(content: &str, values: &BTreeMap<String, Found>, mask: bool) -> String {
    let mut out = String::with_capacity(content.len());
    let mut rest = content;
    while let Some(at) = rest.find("{{") {
        let inner = &rest[at + 2..];
        let found = inner.find("}}").and_then(|end| values.get(&inner[..end]).map(|found| (end, found)));
        match found {
            Some((end, found)) => {
                out.push_str(&rest[..at]);
                out.push_str(if mask && found.secret { MASK } else { &found.value });
                rest = &inner[end + 2..];
            }
            None => {
                out.push_str(&rest[..=at]);
                rest = &rest[at + 1..];
            }
        }
    }
    out.push_str(rest);
    out
}

/// Puts values for `${NAME}` of an MCP server's environment (systems.md C5): the skill's variables, then
/// the container's environment. The error lists the names that nobody has.
pub fn expand(
    text: &str,
    values: &BTreeMap<String, Found>,
    env: impl Fn(&str) -> Option<String>,
) -> Result<String, Vec<String>> {
    let mut out = String::with_capacity(text.len());
    let mut missing = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find("${") {
        out.push_str(&rest[..at]);
        let inner = &rest[at + 2..];
        let name =
            inner.find('}').map(|end| &inner[..end]).filter(|n| n.parse::<crate::ids::SecretName>().is_ok());
        let Some(name) = name else {
            out.push_str("${");
            rest = inner;
            continue;
        };
        match values.get(name).map(|f| f.value.clone()).or_else(|| env(name)) {
            Some(value) => out.push_str(&value),
            None => missing.push(name.to_owned()),
        }
        rest = &inner[name.len() + 1..];
    }
    out.push_str(rest);
    if missing.is_empty() { Ok(out) } else { Err(missing) }
}
