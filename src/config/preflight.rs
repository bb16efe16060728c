//! `[[preflight]]`: checks before the runs of jobs of some kind (systems.md A11). What is written takes the place of the
//! rules that ship.
//!
//! Pure.

use serde_json::{Map, Value};
use toml::de::DeValue;

use super::{
    jobs::json,
    keys,
    reader::{Field, Reader, Table},
};
use crate::scheduler::preflight::{self, Mistake, Rule};

/// Reads the section.
pub(super) fn read(r: &mut Reader, root: &Table<'_, '_>) -> Vec<Rule> {
    let written = r.read(root, "preflight", |r, f| match f.value.get_ref() {
        DeValue::Array(_) => r.array(f, rule),
        _ => r.wrong_type(f, "an array of tables", "write [[preflight]] and its keys below"),
    });
    // An empty table says nothing.
    let rules: Vec<Rule> = written.into_iter().flatten().flatten().collect();
    if rules.is_empty() { preflight::defaults() } else { rules }
}

fn rule(r: &mut Reader, f: &Field<'_, '_>) -> Option<Option<Rule>> {
    let before = r.mistakes();
    let t = r.table(f, keys::PREFLIGHT)?;
    if t.fields().is_empty() {
        return Some(None);
    }
    let job = r.read(&t, "job", |r, f| {
        let written = r.string(f)?;
        let help = "write a regular expression such as \"meeting|prep\"".to_owned();
        r.accept(f, preflight::regex(written).map_err(|e| (format!("{} is no pattern: {e}", f.path), help)))
    });
    let requires = r.read(&t, "requires", |r, f| r.filled(f).map(str::to_owned));
    let check = [
        ("tool", r.read(&t, "tool", text)),
        ("args", r.read(&t, "args", |r, f| table(r, f, "{ key = \"value\" }"))),
        ("path", r.read(&t, "path", text)),
        ("run_if", r.read(&t, "run_if", run_if)),
    ];
    let check: Map<String, Value> =
        check.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))).collect();
    if r.mistakes() > before {
        return None;
    }
    let refused =
        |(place, what): Mistake| (format!("{}{}: {what}", f.path, place.replace('/', ".")), String::new());
    let check = r.accept(f, preflight::read(&check.into()).map_err(refused))?;
    let job = match job {
        Some(job) => job,
        None => preflight::regex("").ok()?,
    };
    Some(Some(Rule { job, requires, check }))
}

fn text(r: &mut Reader, f: &Field<'_, '_>) -> Option<Value> {
    r.filled(f).map(Value::from)
}

fn table(r: &mut Reader, f: &Field<'_, '_>, form: &str) -> Option<Value> {
    match f.value.get_ref() {
        DeValue::Table(_) => json(r, f),
        _ => r.wrong_type(f, "a table", &format!("write it as {form}")),
    }
}

fn run_if(r: &mut Reader, f: &Field<'_, '_>) -> Option<Value> {
    match f.value.get_ref() {
        DeValue::String(_) => text(r, f),
        _ => table(r, f, "\"not_empty\", \"empty\" or { equals = true }"),
    }
}
