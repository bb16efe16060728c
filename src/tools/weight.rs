//! How much work it is to check a value against a schema, found out without doing it. Pure.
//!
//! Schemas come from skills, and a few references that each name the next one twice are more work than a machine can do.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};

/// Looks at parts of a schema for one check, above which nothing is checked: about a second.
const MOST: u64 = 4_000_000;
/// How deep parts of a schema lie in each other, references followed: checking recurses.
const DEEPEST: usize = 256;

/// Keywords whose schemas are for the same value …
const SAME: &[&str] = &["allOf", "anyOf", "oneOf", "not", "if", "then", "else"];
/// … those of them with a name each …
const SAME_NAMED: &[&str] = &["dependentSchemas", "dependencies"];
/// … and the same for the values in it.
const INNER: &[&str] = &[
    "items",
    "prefixItems",
    "additionalItems",
    "contains",
    "additionalProperties",
    "propertyNames",
    "unevaluatedItems",
    "unevaluatedProperties",
];
const INNER_NAMED: &[&str] = &["properties", "patternProperties"];

/// Whether a value can be checked against a schema in bounded time and depth. False too where that cannot be told.
#[must_use]
pub(super) fn is_bearable(schema: &Value, value: &Value) -> bool {
    let (values, depth) = measure(value);
    let Some(places) = places(schema) else { return false };
    let mut weigher = Weigher { places, known: HashMap::new(), open: HashSet::new() };
    weigher.weigh(schema, depth).is_some_and(|looks| looks.saturating_mul(values) <= MOST)
}

/// How many values lie in a value, itself included, and how deep.
fn measure(value: &Value) -> (u64, usize) {
    let inner: Vec<&Value> = match value {
        Value::Array(items) => items.iter().collect(),
        Value::Object(fields) => fields.values().collect(),
        _ => return (1, 1),
    };
    let each = inner.into_iter().map(measure);
    let (values, depth) = each.fold((0, 0), |(n, d), (values, depth)| (n + values, d.max(depth)));
    (values + 1, depth + 1)
}

/// What references name: every part by its pointer, and some by an anchor. None where that cannot be told: pointers in a
/// part with an identity of its own begin there, and an anchor may stand twice.
fn places(schema: &Value) -> Option<HashMap<String, &Value>> {
    let old = schema.get("$schema").and_then(Value::as_str).is_some_and(|name| name.contains("draft-04"));
    let mut places = HashMap::new();
    let mut rest = vec![(String::from("#"), schema)];
    while let Some((place, part)) = rest.pop() {
        match part {
            Value::Object(fields) => {
                let text = |key: &str| fields.get(key).and_then(Value::as_str);
                if place != "#" && (text("$id").is_some() || old && text("id").is_some()) {
                    return None;
                }
                for anchor in ["$anchor", "$dynamicAnchor"].into_iter().filter_map(text) {
                    if places.insert(format!("#{anchor}"), part).is_some() {
                        return None;
                    }
                }
                let escaped = |key: &str| key.replace('~', "~0").replace('/', "~1");
                rest.extend(fields.iter().map(|(key, part)| (format!("{place}/{}", escaped(key)), part)));
            }
            Value::Array(items) => {
                rest.extend(items.iter().enumerate().map(|(n, part)| (format!("{place}/{n}"), part)));
            }
            _ => continue,
        }
        places.insert(place, part);
    }
    Some(places)
}

/// A part of a schema, and how deep the values are that it is for.
type Place = (*const Value, usize);

struct Weigher<'s> {
    places: HashMap<String, &'s Value>,
    known: HashMap<Place, u64>,
    /// Looked at now; what comes back to one of them has no end.
    open: HashSet<Place>,
}

impl<'s> Weigher<'s> {
    /// Looks at this and all below for one value of this depth; none: without end, too deep, or unknown.
    fn weigh(&mut self, schema: &'s Value, depth: usize) -> Option<u64> {
        let Value::Object(fields) = schema else { return Some(1) };
        if depth == 0 {
            return Some(0);
        }
        let place = (std::ptr::from_ref(schema), depth);
        if let Some(looks) = self.known.get(&place) {
            return Some(*looks);
        }
        if self.open.len() >= DEEPEST || !self.open.insert(place) {
            return None;
        }
        let looks = self.below(fields, depth)?;
        self.open.remove(&place);
        self.known.insert(place, looks);
        (looks <= MOST).then_some(looks)
    }

    fn below(&mut self, fields: &'s Map<String, Value>, depth: usize) -> Option<u64> {
        let (mut same, mut inner) = (Vec::new(), Vec::new());
        for (key, value) in fields {
            let key = key.as_str();
            match key {
                "$ref" | "$dynamicRef" | "$recursiveRef" => same.push(self.meant(value.as_str()?)?),
                _ if SAME.contains(&key) => same.extend(listed(value)),
                _ if SAME_NAMED.contains(&key) => same.extend(named(value)),
                _ if INNER.contains(&key) => inner.extend(listed(value)),
                _ if INNER_NAMED.contains(&key) => inner.extend(named(value)),
                _ => {}
            }
        }
        // What was not evaluated is found out by evaluating all once more.
        let again = if fields.keys().any(|key| key.starts_with("unevaluated")) { 2 } else { 1 };
        let mut looks: u64 = 1;
        for part in same {
            looks = looks.saturating_add(self.weigh(part, depth)?.saturating_mul(again));
        }
        for part in inner {
            looks = looks.saturating_add(self.weigh(part, depth - 1)?);
        }
        Some(looks)
    }

    fn meant(&self, reference: &str) -> Option<&'s Value> {
        self.places.get(reference).copied()
    }
}

fn listed(value: &Value) -> Vec<&Value> {
    match value {
        Value::Array(all) => all.iter().collect(),
        one => vec![one],
    }
}

fn named(value: &Value) -> Vec<&Value> {
    value.as_object().into_iter().flat_map(Map::values).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// References of which each names the next one twice.
    fn doubling(steps: usize) -> Value {
        let step = |n: usize| json!({"$ref": format!("#/definitions/d{n}")});
        let mut definitions: Map<String, Value> =
            (0..steps).map(|n| (format!("d{n}"), json!({"allOf": [step(n + 1), step(n + 1)]}))).collect();
        definitions.insert(format!("d{steps}"), json!({"type": "string"}));
        json!({"definitions": definitions, "properties": {"a": step(0)}})
    }

    #[test]
    fn what_doubles_with_each_step_is_not_borne_and_was_not_tried() {
        assert!(is_bearable(&doubling(10), &json!({"a": 5})));
        assert!(!is_bearable(&doubling(30), &json!({"a": 5})));
        assert!(!is_bearable(&doubling(60), &json!({"a": 5})));
        // With each step into the value.
        let tree = json!({"$defs": {"t": {"items": {"allOf": [{"$ref": "#/$defs/t"}, {"$ref": "#/$defs/t"}]}}},
            "$ref": "#/$defs/t"});
        let nested = |depth| (0..depth).fold(json!(1), |inner, _| json!([inner]));
        assert!(is_bearable(&tree, &nested(5)));
        assert!(!is_bearable(&tree, &nested(60)));
    }

    #[test]
    fn what_comes_back_to_itself_or_lies_too_deep_is_not_borne() {
        for schema in [
            json!({"$ref": "#"}),
            json!({"$defs": {"a": {"allOf": [{"$ref": "#/$defs/a"}]}}, "$ref": "#/$defs/a"}),
            json!({"$defs": {"a": {"$anchor": "x", "not": {"$ref": "#x"}}}, "$ref": "#x"}),
            json!({"$ref": "https://example.com/s.json"}),
            json!({"$ref": 7}),
            json!({"$defs": {"a": {"$anchor": "x"}, "b": {"$anchor": "x"}}, "$ref": "#x"}),
            json!({"$defs": {"a": {"$id": "a", "$ref": "#/$defs/b"}}, "$ref": "#/$defs/a"}),
        ] {
            assert!(!is_bearable(&schema, &json!({"a": 1})), "{schema}");
        }
        let chain: Map<String, Value> = (0..10_000)
            .map(|n| (format!("d{n}"), json!({"$ref": format!("#/$defs/d{}", n + 1)})))
            .chain([("d10000".to_owned(), json!({}))])
            .collect();
        assert!(!is_bearable(&json!({"$defs": chain, "$ref": "#/$defs/d0"}), &json!(1)));
    }

    #[test]
    fn usual_schemas_are_borne_with_long_arguments() {
        let tree = json!({"$defs": {"node": {"type": "object", "properties": {
            "children": {"type": "array", "items": {"$ref": "#/$defs/node"}}, "name": {"type": "string"}}}},
            "$ref": "#/$defs/node"});
        let node =
            (0..30).fold(json!({}), |inner, _| json!({"name": "a", "children": [inner, {"name": "b"}]}));
        assert!(is_bearable(&tree, &node));
        let fields: Map<String, Value> =
            (0..100).map(|n| (format!("f{n}"), json!({"type": "string", "minLength": 1}))).collect();
        assert!(is_bearable(&json!({"properties": fields}), &json!({"rows": vec![1; 30_000]})));
        assert!(is_bearable(
            &json!({"properties": {"a/b~c d": {}}, "not": {"$ref": "#/properties/a~1b~0c d"}}),
            &json!({})
        ));
        assert!(is_bearable(&json!(true), &json!({})));
    }
}
