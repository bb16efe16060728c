//! Reads the values of a request and gathers every fault with its place, so that all are told at once.
//!
//! Takes what models write for what they mean: numbers and booleans as strings, lists and objects as JSON in a string
//! (systems.md A6). It guesses nothing else.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::{
    Fault,
    keys::{self, Known, Word},
};
use crate::{
    config::keys::nearest,
    scheduler::rules::{Checked, quoted},
};

/// Where a value stands (RFC 6901). What is inside of a string has the place of the string.
#[derive(Debug, Clone, Default)]
pub(super) struct Place {
    pointer: String,
    in_string: bool,
}

impl Place {
    pub(super) fn child(&self, key: &str) -> Self {
        if self.in_string {
            return self.clone();
        }
        let key = key.replace('~', "~0").replace('/', "~1");
        Self { pointer: format!("{}/{key}", self.pointer), in_string: false }
    }
}

/// A value, and the key it was written under.
#[derive(Debug, Clone)]
pub(super) struct Field {
    pub(super) place: Place,
    pub(super) key: String,
    pub(super) value: Value,
}

/// The known keys of an object by their first names.
#[derive(Debug, Default)]
pub(super) struct Scope {
    fields: BTreeMap<&'static str, Field>,
}

impl Scope {
    /// A key that is written, null or not.
    pub(super) fn take(&mut self, name: &str) -> Option<Field> {
        self.fields.remove(name)
    }

    /// A key that is written and not null.
    pub(super) fn take_value(&mut self, name: &str) -> Option<Field> {
        self.take(name).filter(|field| !field.value.is_null())
    }

    pub(super) fn get(&self, name: &str) -> Option<&Field> {
        self.fields.get(name).filter(|field| !field.value.is_null())
    }

    /// Adds a key; when it is there already, both must say the same.
    pub(super) fn add(&mut self, r: &mut Reader, name: &'static str, field: Field) {
        match self.fields.get(name) {
            Some(first) if first.value != field.value && !first.value.is_null() => {
                if !field.value.is_null() {
                    let what = format!("{} and {} mean the same and differ", first.key, field.key);
                    r.fault(&field.place, what, "keep one of them");
                }
            }
            _ => drop(self.fields.insert(name, field)),
        }
    }
}

/// Gathers faults while values are read.
#[derive(Debug, Default)]
pub(super) struct Reader {
    pub(super) faults: Vec<Fault>,
}

impl Reader {
    pub(super) fn fault(&mut self, place: &Place, what: impl Into<String>, remedy: impl AsRef<str>) {
        let (what, remedy) = (what.into(), remedy.as_ref());
        let detail = if remedy.is_empty() { what } else { format!("{what} ({remedy})") };
        self.faults.push(Fault { pointer: place.pointer.clone(), detail });
    }

    /// Takes a checked value, or records why it was refused.
    pub(super) fn accept<T>(&mut self, place: &Place, checked: Checked<T>) -> Option<T> {
        checked.map_err(|(what, remedy)| self.fault(place, what, remedy)).ok()
    }

    fn wrong_type<T>(&mut self, field: &Field, wanted: &str, remedy: &str) -> Option<T> {
        let found = match &field.value {
            Value::Null => "null".to_owned(),
            Value::Bool(b) => b.to_string(),
            Value::Number(n) => n.to_string(),
            Value::String(text) => quoted(text),
            Value::Array(_) => "a list".to_owned(),
            Value::Object(_) => "an object".to_owned(),
        };
        self.fault(&field.place, format!("{} must be {wanted}, not {found}", field.key), remedy);
        None
    }

    /// The keys of an object. `whole_job` allows for what only the supervisor writes.
    pub(super) fn scope(
        &mut self,
        field: &Field,
        lists: &[&'static [Word]],
        whole_job: bool,
    ) -> Option<Scope> {
        let Value::Object(map) = &field.value else {
            return self.wrong_type(field, "an object", "");
        };
        let mut scope = Scope::default();
        for (key, value) in map {
            let field = Field { place: field.place.child(key), key: key.clone(), value: value.clone() };
            match keys::look_up(key, lists, whole_job) {
                Known::Word(name) => scope.add(self, name, field),
                Known::ReadOnly => {}
                Known::Later if value.is_null() => {}
                Known::Later => {
                    let what = format!("{key} is not supported by this version yet");
                    self.fault(&field.place, what, "leave it out");
                }
                Known::No(remedy) => {
                    self.fault(&field.place, format!("unknown key {}", quoted(key)), remedy);
                }
            }
        }
        Some(scope)
    }

    pub(super) fn object(&mut self, field: Field) -> Option<Map<String, Value>> {
        let field = structured(field);
        match field.value {
            Value::Object(map) => Some(map),
            _ => self.wrong_type(&field, "an object", ""),
        }
    }

    pub(super) fn text<'f>(&mut self, field: &'f Field) -> Option<&'f str> {
        match &field.value {
            Value::String(text) => Some(text),
            Value::Bool(_) | Value::Number(_) => self.wrong_type(field, "a string", "put it in quotes"),
            _ => self.wrong_type(field, "a string", ""),
        }
    }

    /// A time span with its unit. A bare number is refused: it could be seconds or minutes.
    pub(super) fn timed<'f>(&mut self, field: &'f Field) -> Option<&'f str> {
        match &field.value {
            Value::String(text) => Some(text),
            Value::Number(n) => {
                self.wrong_type(field, "a duration", &format!("write the unit: \"{n}s\" or \"{n}m\""))
            }
            _ => self.wrong_type(field, "a duration", "write it with its unit: \"15m\""),
        }
    }

    pub(super) fn boolean(&mut self, field: &Field) -> Option<bool> {
        let word = match &field.value {
            Value::Bool(b) => return Some(*b),
            Value::Number(n) => n.to_string(),
            Value::String(text) => text.trim().to_ascii_lowercase(),
            _ => String::new(),
        };
        match word.as_str() {
            "true" | "1" => Some(true),
            "false" | "0" => Some(false),
            _ => self.wrong_type(field, "true or false", ""),
        }
    }

    pub(super) fn integer(&mut self, field: &Field) -> Option<i64> {
        /// Whole numbers up to here are exact in JSON (RFC 8259, section 6).
        const EXACT: f64 = 9_007_199_254_740_991.0;
        let number = number(&field.value).filter(|n| n.fract() == 0.0 && n.abs() <= EXACT);
        // No JSON number of this size is out of an i64's bounds.
        #[expect(clippy::cast_possible_truncation, reason = "whole, and within bounds")]
        let whole = number.map(|n| n as i64);
        whole.or_else(|| self.wrong_type(field, "a whole number", ""))
    }

    /// A number of units of `millis` milliseconds each; fractions are possible.
    pub(super) fn millis(&mut self, field: &Field, millis: f64) -> Option<i64> {
        /// A hundred years.
        const MOST: f64 = 3_155_760_000_000.0;
        let Some(number) = number(&field.value) else {
            return self.wrong_type(field, "a number", "");
        };
        let span = (number * millis).round();
        if !(0.0..=MOST).contains(&span) {
            let what = format!("{} must be from 0 to a hundred years, not {}", field.key, field.value);
            self.fault(&field.place, what, "");
            return None;
        }
        #[expect(clippy::cast_possible_truncation, reason = "whole, and within bounds")]
        Some(span as i64)
    }

    /// A list of names, each checked; one name may stand without the list.
    pub(super) fn names(
        &mut self,
        field: Field,
        check: impl Fn(&str) -> Checked<String>,
    ) -> Option<Vec<String>> {
        let before = self.faults.len();
        let field = structured(field);
        let list = match &field.value {
            Value::String(text) if text.trim().is_empty() => Vec::new(),
            Value::String(_) => vec![field],
            Value::Array(list) => elements(&field, list),
            _ => return self.wrong_type(&field, "a list of strings", ""),
        };
        let mut names = Vec::new();
        for element in list {
            let name = self.text(&element).map(&check).and_then(|name| self.accept(&element.place, name));
            names.extend(name.filter(|name| !names.contains(name)));
        }
        (self.faults.len() == before).then_some(names)
    }

    /// One of the words of `choices`.
    pub(super) fn choice<T: Copy>(&mut self, field: &Field, choices: &[(&str, T)]) -> Option<T> {
        let written = self.text(field)?.trim().to_lowercase().replace('_', "-");
        if let Some((_, value)) = choices.iter().find(|(name, _)| *name == written) {
            return Some(*value);
        }
        let names = || choices.iter().map(|(name, _)| *name);
        let remedy = nearest(&written, names()).map_or_else(
            || format!("use {}", names().map(|n| format!("\"{n}\"")).collect::<Vec<_>>().join(" or ")),
            |near| format!("did you mean \"{near}\"?"),
        );
        self.fault(&field.place, format!("{} cannot be {}", field.key, quoted(&written)), remedy);
        None
    }
}

/// The elements of a list, with their places.
pub(super) fn elements(field: &Field, list: &[Value]) -> Vec<Field> {
    let element = |(n, value): (usize, &Value)| {
        let place = field.place.child(&n.to_string());
        Field { place, key: format!("{}[{n}]", field.key), value: value.clone() }
    };
    list.iter().enumerate().map(element).collect()
}

/// A list or an object that came as JSON in a string is unpacked.
pub(super) fn structured(mut field: Field) -> Field {
    if let Value::String(text) = &field.value
        && let Ok(value @ (Value::Array(_) | Value::Object(_))) = serde_json::from_str(text)
    {
        field.place.in_string = true;
        field.value = value;
    }
    field
}

fn number(value: &Value) -> Option<f64> {
    let number = match value {
        Value::Number(n) => n.as_f64(),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    };
    number.filter(|n: &f64| n.is_finite())
}
