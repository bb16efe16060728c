//! Whether arguments are what a tool's schema wants, in words that a model can act on. Pure.

use jsonschema::{PatternOptions, Validator};
use serde_json::Value;

use super::weight::is_bearable;

/// Mistakes that are told at once.
const MOST: usize = 10;
/// Characters of one of them: a hostile schema or a long argument does not fill a model's memory.
const MOST_OF_ONE: usize = 300;

/// A mistake in the arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mistake {
    /// JSON pointer to the argument; empty: all of them.
    pub pointer: String,
    /// What is wrong with it.
    pub detail: String,
}

/// What is wrong with the arguments. Nothing is, where the schema itself is wrong, refers to anything outside of it, or is
/// more work than can be borne: the tool decides then. May take a second, so not for a thread that others wait for.
#[must_use]
pub fn mistakes(schema: &Value, args: &Value) -> Vec<Mistake> {
    if !is_bearable(schema, args) {
        return Vec::new();
    }
    let Some(validator) = validator(schema) else { return Vec::new() };
    let told = |error: jsonschema::ValidationError<'_>| Mistake {
        pointer: error.instance_path().to_string(),
        detail: shortened(&error.to_string()),
    };
    validator.iter_errors(args).take(MOST).map(told).collect()
}

/// Patterns are matched in linear time: schemas come from skills.
fn validator(schema: &Value) -> Option<Validator> {
    jsonschema::options().with_pattern_options(PatternOptions::regex()).build(schema).ok()
}

fn shortened(text: &str) -> String {
    if text.chars().count() <= MOST_OF_ONE {
        return text.to_owned();
    }
    let start: String = text.chars().take(MOST_OF_ONE).collect();
    format!("{start}…")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_mistake_names_its_argument_and_what_is_wanted() {
        let schema = json!({"type": "object", "required": ["path"], "additionalProperties": false,
            "properties": {"path": {"type": "string"}, "lines": {"type": "integer", "minimum": 1}}});
        assert_eq!(mistakes(&schema, &json!({"path": "a", "lines": 2})), []);
        let told = mistakes(&schema, &json!({"lines": 0, "paht": "a"}));
        let told: Vec<String> = told.into_iter().map(|m| format!("{} {}", m.pointer, m.detail)).collect();
        let told = told.join("\n");
        for part in [
            "\"path\" is a required property",
            "'paht' was unexpected",
            "/lines 0 is less than the minimum of 1",
        ] {
            assert!(told.contains(part), "{told}");
        }
    }

    #[test]
    fn a_schema_that_is_wrong_or_reaches_outside_decides_nothing() {
        for schema in [
            json!({"type": 12}),
            json!({"$ref": "https://example.com/s.json"}),
            json!({"$ref": "file:///etc/passwd"}),
        ] {
            assert_eq!(mistakes(&schema, &json!({"a": 1})), [], "{schema}");
        }
    }

    #[test]
    fn a_schema_that_explodes_or_never_ends_decides_nothing_at_once() {
        let step = |n: usize| json!({"$ref": format!("#/definitions/d{n}")});
        let mut all: serde_json::Map<String, Value> =
            (0..60).map(|n| (format!("d{n}"), json!({"allOf": [step(n + 1), step(n + 1)]}))).collect();
        all.insert("d60".to_owned(), json!({"type": "string"}));
        let explodes = json!({"definitions": all, "properties": {"a": step(0)}});
        for schema in [explodes, json!({"$ref": "#"})] {
            assert_eq!(mistakes(&schema, &json!({"a": 1})), []);
        }
    }

    #[test]
    fn a_pattern_that_explodes_and_a_long_argument_are_no_trouble() {
        let schema =
            json!({"properties": {"a": {"type": "string", "pattern": "^(a+)+$"}, "b": {"type": "integer"}}});
        let args = json!({"a": format!("{}!", "a".repeat(10_000)), "b": "b".repeat(100_000)});
        let told = mistakes(&schema, &args);
        assert_eq!(told.len(), 2);
        assert!(told.iter().all(|m| m.detail.len() < 2_000));
    }
}
