//! `[tools]`: what calls are given and what is taken from them (systems.md A15, A16).
//!
//! Pure.

use serde_json::{Map, Value};

use super::{
    jobs::json,
    keys,
    reader::{Field, Reader, Table},
};
use crate::tools::normalise::{Defaults, Rules, Strip};

/// Reads the section. Strip rules that are written take the place of ours.
pub(super) fn read(r: &mut Reader, root: &Table<'_, '_>) -> Rules {
    let mut rules = Rules::default();
    let Some(t) = r.read(root, "tools", |r, f| r.table(f, keys::TOOLS)) else {
        return rules;
    };
    rules.defaults = r.read(&t, "defaults", defaults).unwrap_or_default();
    if let Some(strip) = r.read(&t, "strip", |r, f| r.array(f, strip)) {
        rules.strip = strip;
    }
    rules
}

/// `[agents.<id>.tools]`.
pub(super) fn of_agent(r: &mut Reader, f: &Field<'_, '_>) -> Option<Defaults> {
    let t = r.table(f, keys::AGENT_TOOLS)?;
    r.read(&t, "defaults", defaults)
}

fn defaults(r: &mut Reader, f: &Field<'_, '_>) -> Option<Defaults> {
    let table = r.open(f)?;
    let tools = table.fields().into_iter();
    Some(tools.filter_map(|(tool, f)| Some((tool.to_owned(), parameters(r, &f)?))).collect())
}

fn parameters(r: &mut Reader, f: &Field<'_, '_>) -> Option<Map<String, Value>> {
    let table = r.open(f)?;
    let all = table.fields().into_iter();
    Some(all.filter_map(|(name, f)| Some((name.to_owned(), json(r, &f)?))).collect())
}

fn strip(r: &mut Reader, f: &Field<'_, '_>) -> Option<Strip> {
    let t = r.table(f, keys::STRIP)?;
    let tools = r.read(&t, "tools", |r, f| r.filled(f).map(str::to_owned));
    let parameters = r.read(&t, "parameters", |r, f| r.array(f, |r, f| r.filled(f).map(str::to_owned)));
    for key in ["tools", "parameters"] {
        if t.field(key).is_none() {
            r.fault(
                &f.span(),
                format!("{} has no \"{key}\"", f.path),
                "write tools = \"name_*\" and parameters = [\"…\"]",
            );
        }
    }
    Some(Strip { tools: tools?, parameters: parameters? })
}
