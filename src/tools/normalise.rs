//! Sets right what models get wrong in the arguments of a call, and relaxes the schemas that they are shown
//! (systems.md A15, A16). Pure.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Map, Number, Value, json};

/// Default parameters: by tool, then by parameter.
pub type Defaults = BTreeMap<String, Map<String, Value>>;

/// `[tools]`: what is added to calls and taken from them.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Rules {
    /// Parameters that a call is given when it leaves them out.
    pub defaults: Defaults,
    /// Parameters that models invent.
    pub strip: Vec<Strip>,
}

/// Parameters that are taken from every call of some tools.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Strip {
    /// Names of tools; `*` stands for anything.
    pub tools: String,
    /// Names of parameters.
    pub parameters: Vec<String>,
}

impl Default for Rules {
    /// As the source ships them: `teamId` and `slug` of `vercel_*`.
    fn default() -> Self {
        let parameters = ["teamId", "slug"].map(str::to_owned).to_vec();
        Self { defaults: Defaults::new(), strip: vec![Strip { tools: "vercel_*".to_owned(), parameters }] }
    }
}

/// Characters of a chat's id; a longer one is invented.
const MOST_OF_A_CHAT_ID: usize = 20;

/// The arguments as the tool gets them. In this order: `"true"` and `"false"` become booleans and digits numbers where
/// the schema does not want text; nulls are dropped; stripped parameters go; defaults come in. Rules name a tool as it is
/// called, `group/tool` before `tool`.
#[must_use]
pub fn arguments(
    rules: &Rules,
    own: &Defaults,
    (group, tool): (&str, &str),
    schema: Option<&Value>,
    args: Map<String, Value>,
) -> Map<String, Value> {
    let mut args: Map<String, Value> = args
        .into_iter()
        .map(|(name, value)| {
            let value = typed(property(schema, &name), value);
            (name, value)
        })
        .collect();
    args.retain(|name, value| !value.is_null() || wants_null(schema, name));
    let whole = format!("{group}/{tool}");
    let named = |pattern: &str| matches(pattern, if pattern.contains('/') { &whole } else { tool });
    for strip in rules.strip.iter().filter(|strip| named(&strip.tools)) {
        for parameter in &strip.parameters {
            args.remove(parameter);
        }
    }
    // The agent's own come first.
    let of = |all| [Defaults::get(all, &whole), Defaults::get(all, tool)];
    for defaults in [own, &rules.defaults].into_iter().flat_map(of).flatten() {
        for (name, value) in defaults {
            if args.get(name).is_none_or(|given| is_invented(tool, name, given)) {
                args.insert(name.clone(), value.clone());
            }
        }
    }
    args
}

/// The one parameter of which the source knows what models invent for it.
fn is_invented(tool: &str, name: &str, value: &Value) -> bool {
    (tool, name) == ("telegram_send_message", "chat_id")
        && value.as_str().is_none_or(|id| id.chars().count() > MOST_OF_A_CHAT_ID)
}

fn property<'a>(schema: Option<&'a Value>, name: &str) -> Option<&'a Value> {
    schema?.get("properties")?.get(name)
}

/// Types that a schema names; empty when it names none.
fn types(schema: &Value) -> Vec<&str> {
    match schema.get("type") {
        Some(Value::String(one)) => vec![one],
        Some(Value::Array(many)) => many.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

fn typed(schema: Option<&Value>, value: Value) -> Value {
    let Value::String(text) = &value else { return value };
    let wanted = schema.map(types).unwrap_or_default();
    if wanted.contains(&"string") {
        return value;
    }
    let number = wanted.iter().any(|t| matches!(*t, "number" | "integer"));
    match text.trim() {
        "true" if wanted.is_empty() || wanted.contains(&"boolean") => Value::Bool(true),
        "false" if wanted.is_empty() || wanted.contains(&"boolean") => Value::Bool(false),
        digits if number => digits.parse::<Number>().map_or(value, Value::Number),
        _ => value,
    }
}

/// A null that says something: the parameter is required and may be null.
fn wants_null(schema: Option<&Value>, name: &str) -> bool {
    let required = schema.and_then(|s| s.get("required")?.as_array());
    required.is_some_and(|all| all.iter().any(|r| r == name))
        && property(schema, name).is_some_and(|p| types(p).contains(&"null"))
}

/// Whether a name is one that a pattern with `*` means.
fn matches(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = parts.next().and_then(|first| name.strip_prefix(first)) else { return false };
    let Some(last) = pattern.rsplit_once('*').map(|(_, last)| last) else { return rest.is_empty() };
    let between = parts.clone().count().saturating_sub(1);
    for part in parts.take(between) {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

/// A schema as models are shown it: numbers and booleans also accept strings, optional properties also accept null.
/// [`arguments`] undoes what that lets through.
#[must_use]
pub fn relaxed(schema: &Value) -> Value {
    let Value::Object(schema) = schema else { return schema.clone() };
    let required: Vec<&str> = schema
        .get("required")
        .and_then(Value::as_array)
        .map(|all| all.iter().filter_map(Value::as_str).collect())
        .unwrap_or_default();
    let mut out = schema.clone();
    if let Some(Value::Object(properties)) = out.get_mut("properties") {
        for (name, property) in properties {
            *property = relaxed_property(property, required.contains(&name.as_str()));
        }
    }
    Value::Object(out)
}

fn relaxed_property(property: &Value, required: bool) -> Value {
    let mut all: Vec<String> = types(property).into_iter().map(str::to_owned).collect();
    let Value::Object(property) = property else { return property.clone() };
    let mut out = property.clone();
    if all.is_empty() {
        return Value::Object(out);
    }
    let add = |all: &mut Vec<String>, name: &str| {
        if !all.iter().any(|t| t == name) {
            all.push(name.to_owned());
        }
    };
    let restricted = out.contains_key("enum") || out.contains_key("const");
    if all.iter().any(|t| matches!(t.as_str(), "number" | "integer" | "boolean")) && !restricted {
        add(&mut all, "string");
    }
    if !required && !restricted {
        add(&mut all, "null");
    }
    out.insert("type".to_owned(), if all.len() == 1 { json!(all[0]) } else { json!(all) });
    Value::Object(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(tool: &str, schema: Option<&Value>, args: Value) -> Value {
        let mut rules = Rules::default();
        let chat = Map::from_iter([("chat_id".to_owned(), json!("8304042211"))]);
        rules.defaults.insert("telegram_send_message".into(), chat);
        let Value::Object(args) = args else { panic!() };
        Value::Object(arguments(&rules, &Defaults::new(), ("g", tool), schema, args))
    }

    #[test]
    fn booleans_written_as_text_become_booleans_unless_text_is_wanted() {
        assert_eq!(
            call("t", None, json!({"a": "true", "b": "false", "c": "truth"})),
            json!({"a": true, "b": false, "c": "truth"})
        );
        let schema = json!({"properties": {"text": {"type": "string"}, "on": {"type": "boolean"}, "n": {"type": "integer"}}});
        let args = json!({"text": "true", "on": "true", "n": "12", "other": "12"});
        assert_eq!(
            call("t", Some(&schema), args),
            json!({"text": "true", "on": true, "n": 12, "other": "12"})
        );
    }

    #[test]
    fn nulls_are_dropped_unless_they_are_asked_for() {
        let schema = json!({"required": ["due"], "properties": {"due": {"type": ["string", "null"]}}});
        assert_eq!(call("t", Some(&schema), json!({"due": null, "note": null})), json!({"due": null}));
    }

    #[test]
    fn invented_parameters_of_some_tools_go() {
        let args = json!({"teamId": "x", "slug": "y", "name": "z"});
        assert_eq!(call("vercel_deploy", None, args.clone()), json!({"name": "z"}));
        assert_eq!(call("other", None, args.clone()), args);
    }

    #[test]
    fn a_chat_that_is_missing_invented_or_no_text_becomes_the_primary_one() {
        for chat in [
            json!({}),
            json!({"chat_id": 12}),
            json!({"chat_id": "123456789012345678901"}),
            json!({"chat_id": null}),
        ] {
            assert_eq!(call("telegram_send_message", None, chat), json!({"chat_id": "8304042211"}));
        }
        let own = json!({"chat_id": "12345678901234567890"});
        assert_eq!(call("telegram_send_message", None, own.clone()), own, "20 characters are fine");
        assert_eq!(call("other", None, json!({})), json!({}));
    }

    #[test]
    fn the_agents_defaults_come_before_the_hives() {
        let of = |value: &str| {
            Defaults::from([("t".to_owned(), Map::from_iter([("unit".to_owned(), json!(value))]))])
        };
        let rules = Rules { defaults: of("hive"), strip: Vec::new() };
        assert_eq!(arguments(&rules, &of("own"), ("g", "t"), None, Map::new())["unit"], "own");
        assert_eq!(arguments(&rules, &Defaults::new(), ("g", "t"), None, Map::new())["unit"], "hive");
    }

    #[test]
    fn a_rule_for_one_servers_tool_is_not_for_anothers() {
        let of = |tool: &str| {
            Defaults::from([(tool.to_owned(), Map::from_iter([("unit".to_owned(), json!(tool))]))])
        };
        let strip = |tools: &str| Strip { tools: tools.to_owned(), parameters: vec!["a".to_owned()] };
        let rules = Rules { defaults: of("g/t"), strip: vec![strip("g/*")] };
        let args = || Map::from_iter([("a".to_owned(), json!(1))]);
        let given = |group| Value::Object(arguments(&rules, &of("t"), (group, "t"), None, args()));
        assert_eq!(given("g"), json!({"unit": "t"}), "the agent's own still come first");
        assert_eq!(given("other"), json!({"a": 1, "unit": "t"}));
        let given = |group| Value::Object(arguments(&rules, &Defaults::new(), (group, "t"), None, args()));
        assert_eq!((given("g"), given("other")), (json!({"unit": "g/t"}), json!({"a": 1})));
    }

    #[test]
    fn a_star_stands_for_anything() {
        for (pattern, name, is) in [
            ("vercel_*", "vercel_deploy", true),
            ("vercel_*", "vercel", false),
            ("*", "x", true),
            ("*_send_*", "gmail_send_mail", true),
            ("a*a", "a", false),
            ("exact", "exact", true),
            ("exact", "exactly", false),
        ] {
            assert_eq!(matches(pattern, name), is, "{pattern} {name}");
        }
    }

    #[test]
    fn models_are_shown_schemas_that_take_text_for_numbers_and_null_for_what_is_optional() {
        let schema = json!({"type": "object", "required": ["n"], "properties": {
            "n": {"type": "number"}, "on": {"type": "boolean"}, "name": {"type": "string"},
            "kind": {"type": "string", "enum": ["a"]}, "any": {}}});
        assert_eq!(
            relaxed(&schema)["properties"],
            json!({
            "n": {"type": ["number", "string"]}, "on": {"type": ["boolean", "string", "null"]},
            "name": {"type": ["string", "null"]}, "kind": {"type": "string", "enum": ["a"]}, "any": {}})
        );
    }
}
