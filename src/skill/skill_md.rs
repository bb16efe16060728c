//! `SKILL.md` (the agentskills.io format, with our own keys of systems.md A19, A20, C1 to C6): bytes
//! in, a draft out.
//!
//! Lenient: only a missing description, unreadable YAML, an unusable id or a list of variables refuse the
//! file; everything else that is wrong is told and passed over.

use semver::Version;
use serde_json::{Map, Value};

use super::{
    draft::Draft,
    fields::{Fields, shown},
    manifest::not_utf8,
    repair,
    source::SKILL_MD,
    strict,
    yaml::{self, Kind, Node},
};
use crate::{
    error::Fault,
    ids::{SkillId, SkillRef},
};

/// Keys of our own, read at the top level or under `metadata`.
pub(super) const OURS: [&str; 12] = [
    "version",
    "dependencies",
    "requires",
    "vars",
    "mcp",
    "tags",
    "keywords",
    "priority",
    "trigger_config",
    "next_skill",
    "conditional_next_skills",
    "nodeVersion",
];

/// Splits a folder's name into id and version (`id` or `id@version`).
pub(super) fn folder_parts(folder: &str) -> (&str, Option<&str>) {
    match folder.split_once('@') {
        Some((id, version)) => (id, Some(version)),
        None => (folder, None),
    }
}

/// Reads a SKILL.md that stands in a folder of that name.
pub(super) fn parse(bytes: &[u8], limit: u64, folder: Option<&str>) -> Draft {
    let mut draft = Draft::new(SKILL_MD);
    if let Err(fault) = read(&mut draft, bytes, limit, folder) {
        draft.errors.push(fault);
    }
    draft
}

fn read(draft: &mut Draft, bytes: &[u8], limit: u64, folder: Option<&str>) -> Result<(), Fault> {
    if bytes.len() as u64 > limit {
        return Err(Fault::new(SKILL_MD, format!("is larger than {limit} bytes")));
    }
    let raw = std::str::from_utf8(bytes).map_err(|e| not_utf8(SKILL_MD, bytes, e.valid_up_to()))?;
    let folder = folder.map(folder_parts);
    draft.spec_errors = strict::file_spec_errors(raw, folder.map(|(id, _)| id));
    let text = raw.strip_prefix('\u{feff}').unwrap_or(raw);
    let text = text.replace("\r\n", "\n");
    let (block, body) = split(&text)?;
    let root = tree(draft, block)?;
    let Some(entries) = root.entries() else {
        return Err(Fault::new(SKILL_MD, "The frontmatter must be a YAML map of keys and values").at(2, 1));
    };
    draft.body = Some(body.to_owned());
    let mut fields = Fields::new(SKILL_MD, false);
    standard_keys(draft, &root);
    our_keys(draft, &mut fields, &root);
    keep_the_rest(draft, entries);
    draft.lenient.append(&mut fields.problems);
    identity(draft, folder);
    Ok(())
}

/// The frontmatter and the markdown below it.
pub(super) fn split(text: &str) -> Result<(&str, &str), Fault> {
    let mut lines = text.split_inclusive('\n');
    let first = lines.next().unwrap_or_default();
    if first.trim_end() != "---" {
        return Err(Fault::new(SKILL_MD, "There is no YAML frontmatter")
            .at(1, 1)
            .help("begin with a line `---`, then `description: …`, then a line `---`"));
    }
    let start = first.len();
    let mut at = start;
    for line in lines {
        if line.trim_end() == "---" {
            return Ok((&text[start..at], &text[at + line.len()..]));
        }
        at += line.len();
    }
    Err(Fault::new(SKILL_MD, "The frontmatter is not closed").at(1, 1).help("end it with a line `---`"))
}

/// The block as a tree, repaired where quoting a value is enough.
pub(super) fn tree(draft: &mut Draft, block: &str) -> Result<Node, Fault> {
    let error = match yaml::parse(block, 2) {
        Ok(root) => return Ok(root),
        Err(e) => e,
    };
    let repaired = [false, true].into_iter().find_map(|marked| {
        let (text, repairs) = repair::quote_colons(block, marked)?;
        Some((yaml::parse(&text, 2).ok()?, repairs))
    });
    if let Some((root, repairs)) = repaired {
        for r in repairs {
            let message = format!("A value with a colon needs quotes; read as: {}", shown(&r.now));
            draft
                .lenient
                .push(Fault::new(SKILL_MD, message).at(r.line + 1, 1).help("put the value in quotes"));
        }
        return Ok(root);
    }
    Err(Fault::new(SKILL_MD, format!("Invalid YAML: {}", shown(&error.message))).at(error.line, error.column))
}

fn standard_keys(draft: &mut Draft, root: &Node) {
    draft.name = root.get("name").and_then(Node::text).map(|s| printable(s, false)).filter(|s| !s.is_empty());
    match root.get("description") {
        Some(node) => match node.text().map(|s| printable(s, true)).filter(|s| !s.is_empty()) {
            Some(text) => draft.description = Some(text),
            None => draft.errors.push(
                Fault::new(SKILL_MD, "Missing description")
                    .at(node.line, node.column)
                    .help("`description` must be a text that is not empty"),
            ),
        },
        None => draft.errors.push(
            Fault::new(SKILL_MD, "Missing description").help("add `description: …` to the frontmatter"),
        ),
    }
}

/// Trimmed, with blanks for control characters.
pub(super) fn printable(text: &str, lines: bool) -> String {
    let text = text.trim();
    text.replace(|c: char| c.is_control() && !(lines && matches!(c, '\n' | '\t')), " ")
}

/// Under `metadata` the format allows only strings, so a list or a map may stand there as JSON.
pub(super) fn decoded(node: &Node) -> Option<Node> {
    let text = node.text()?.trim();
    if !text.starts_with(['{', '[']) {
        return None;
    }
    let value: Value = serde_json::from_str(text).ok()?;
    let mut out = Node::from_json(&value);
    (out.line, out.column) = (node.line, node.column);
    Some(out)
}

fn our_keys(draft: &mut Draft, fields: &mut Fields, root: &Node) {
    let metadata = root.get("metadata");
    for key in OURS {
        let top = root.get(key);
        let Some(node) = top.or_else(|| metadata?.get(key)) else {
            continue;
        };
        let node = decoded(node).unwrap_or_else(|| node.clone());
        let before = fields.problems.len();
        our_key(draft, fields, key, &node);
        if fields.problems.len() > before {
            draft.extra.entry(key.to_owned()).or_insert(node.to_json());
        }
    }
}

fn our_key(draft: &mut Draft, fields: &mut Fields, key: &str, node: &Node) {
    if node.is_null() {
        return;
    }
    let keep = |draft: &mut Draft, value: Value| {
        draft.extra.insert(key.to_owned(), value);
    };
    match key {
        "version" => {
            draft.version_text = fields.text(key, node);
            if let Some(text) = draft.version_text.clone() {
                draft.version = lenient_version(fields, node, &text);
            }
        }
        "dependencies" => draft.dependencies.extend(skill_refs(fields, key, node)),
        "requires" => requires(draft, fields, node),
        "vars" => {
            draft.vars = fields.vars(node);
            if matches!(node.kind, Kind::Seq(_)) {
                // Not passed over: what its author calls secret would be shown.
                draft.errors.extend(fields.problems.pop());
            }
        }
        // Named after the skill when its id is known.
        "mcp" => draft.mcp_servers.extend(fields.mcp("", node)),
        "tags" => draft.tags = fields.texts(key, node),
        "keywords" => {
            let words = fields.texts(key, node);
            keep(draft, words.into());
        }
        "priority" => match node.text().map(str::parse::<i64>) {
            Some(Ok(n)) => keep(draft, n.into()),
            _ => fields.problem(node, "priority must be a whole number"),
        },
        "next_skill" => {
            if let Some(text) = fields.text(key, node) {
                keep(draft, text.into());
            }
        }
        "trigger_config" | "conditional_next_skills" => match node.entries() {
            Some(_) => keep(draft, node.to_json()),
            None => fields.problem(node, format!("{key} must be a map, not {}", node.type_name())),
        },
        "nodeVersion" => match node.text().map(super::manifest::node_range) {
            Some(Ok(range)) => draft.node_version = Some(range),
            Some(Err(reason)) => fields.problem(node, reason),
            None => fields.problem(node, "nodeVersion must be a string"),
        },
        _ => {}
    }
}

fn skill_refs(fields: &mut Fields, key: &str, node: &Node) -> Vec<SkillRef> {
    fields.parsed(key, node, |s| s.parse::<SkillRef>().map_err(|e| e.to_string()))
}

fn requires(draft: &mut Draft, fields: &mut Fields, node: &Node) {
    let Some(entries) = node.entries() else {
        fields.problem(node, format!("requires must be a map, not {}", node.type_name()));
        return;
    };
    for (key, value) in entries.iter().filter(|(_, v)| !v.is_null()) {
        let path = format!("requires.{key}");
        match key.as_str() {
            "env" => draft.required_env = fields.env_names(&path, value),
            "binary" => {
                draft.binaries = fields.parsed(&path, value, |s| {
                    let bad = |c: char| c.is_control() || c.is_whitespace() || c == '/';
                    if s.is_empty() || s.contains(bad) {
                        Err(format!("{s:?} is not the name of a program"))
                    } else {
                        Ok(s.to_owned())
                    }
                });
            }
            "skills" => draft.dependencies.extend(skill_refs(fields, &path, value)),
            _ => fields.problem(value, format!("{path} is not known")),
        }
    }
}

/// `1.2.3`; also `v1.2.3`, `1.2` and `1`, which real files have, with a warning.
fn lenient_version(fields: &mut Fields, node: &Node, text: &str) -> Option<Version> {
    let trimmed = text.trim();
    if let Ok(version) = Version::parse(trimmed) {
        return Some(version);
    }
    let bare = trimmed.strip_prefix(['v', 'V']).unwrap_or(trimmed);
    let padded = format!("{bare}{}", ".0".repeat(2_usize.saturating_sub(bare.matches('.').count())));
    match Version::parse(&padded) {
        Ok(version) => {
            fields.problem(
                node,
                format!("Invalid version format (must be semver): {text:?} is read as {version}"),
            );
            Some(version)
        }
        Err(_) => {
            fields.problem(node, format!("Invalid version format (must be semver): {text:?} is passed over"));
            None
        }
    }
}

/// Unknown keys stay as they are; so does what is left of `metadata`.
fn keep_the_rest(draft: &mut Draft, entries: &[(String, Node)]) {
    for (key, node) in entries {
        if matches!(key.as_str(), "name" | "description") || OURS.contains(&key.as_str()) {
            continue;
        }
        let value = match (key.as_str(), &node.kind) {
            ("metadata", Kind::Map(inner)) => {
                let rest: Map<String, Value> = inner
                    .iter()
                    .filter(|(k, _)| !OURS.contains(&k.as_str()))
                    .map(|(k, v)| (k.clone(), v.to_json()))
                    .collect();
                if rest.is_empty() {
                    continue;
                }
                Value::Object(rest)
            }
            _ => node.to_json(),
        };
        draft.extra.insert(key.clone(), value);
    }
}

/// Id, name and version from the file and its folder: the folder's name is the id; without a folder,
/// or with one that cannot be an id, the name is, made to fit.
fn identity(draft: &mut Draft, folder: Option<(&str, Option<&str>)>) {
    let from_folder = folder.map(|(id, _)| id.to_owned());
    let usable = |s: &String| s.parse::<SkillId>().is_ok();
    draft.id = from_folder
        .clone()
        .filter(usable)
        .or_else(|| draft.name.clone().filter(usable))
        .or_else(|| draft.name.as_deref().map(slug).filter(usable))
        .or(from_folder);
    if let (Some(id), Some(name)) = (&draft.id, &draft.name)
        && id != name
    {
        draft.lenient.push(Fault::new(
            SKILL_MD,
            format!("The name {:?} is not the id; the id is {}", shown(name), shown(id)),
        ));
    }
    if draft.name.is_none() && draft.id.is_none() {
        draft.errors.push(Fault::new(SKILL_MD, "Missing name").help("add `name: …` to the frontmatter"));
    }
    if let Some((_, Some(version))) = folder {
        match (Version::parse(version), &draft.version) {
            (Ok(v), None) => draft.version = Some(v),
            (Ok(v), Some(own)) if v != *own => draft.lenient.push(Fault::new(
                SKILL_MD,
                format!("The folder says version {v}, the file {own}; the file is right"),
            )),
            (Ok(_), Some(_)) => {}
            (Err(_), _) => draft.lenient.push(Fault::new(
                SKILL_MD,
                format!("The folder's version {:?} is not semver", shown(version)),
            )),
        }
    }
}

/// Lowercase letters, digits and single hyphens, at most 64.
fn slug(name: &str) -> String {
    let mut out = String::new();
    for c in name.chars().flat_map(char::to_lowercase) {
        if c.is_ascii_alphanumeric() {
            out.push(c);
        } else if !out.is_empty() && !out.ends_with('-') {
            out.push('-');
        }
        if out.len() == 64 {
            break;
        }
    }
    out.trim_end_matches('-').to_owned()
}
