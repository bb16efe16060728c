//! What the reference validator of the agentskills.io format (skills-ref 0.1) says about a SKILL.md,
//! in its own words: one YAML subset (no flow style, anchors, tags), six keys, limits on three.
//!
//! It says nothing about our own keys or files.

use super::yaml::{Document, Kind, Node, Oddity, document};

const ALLOWED: [&str; 6] = ["allowed-tools", "compatibility", "description", "license", "metadata", "name"];
const MAX_NAME: usize = 64;
const MAX_DESCRIPTION: usize = 1024;
const MAX_COMPATIBILITY: usize = 500;

/// What the reference validator says about a whole SKILL.md in a folder of that name.
#[must_use]
pub fn file_spec_errors(content: &str, folder: Option<&str>) -> Vec<String> {
    let Some(rest) = content.strip_prefix("---") else {
        return vec!["SKILL.md must start with YAML frontmatter (---)".into()];
    };
    if !rest.contains("---") {
        return vec!["SKILL.md frontmatter not properly closed with ---".into()];
    }
    spec_errors(rest, folder)
}

/// What the reference validator says about a frontmatter block; empty when it is valid.
///
/// Like the reference, it takes the first `---` for the end, also within a value.
#[must_use]
pub fn spec_errors(frontmatter: &str, folder: Option<&str>) -> Vec<String> {
    let block = frontmatter.split("---").next().unwrap_or_default();
    let block = block.replace("\r\n", "\n").replace('\r', "\n");
    let doc = match document(&block, 1) {
        Ok(doc) => doc,
        Err(e) => {
            return vec![format!(
                "Invalid YAML in frontmatter: {} at line {}, column {}",
                e.message, e.line, e.column
            )];
        }
    };
    if let Some(message) = outside_of_subset(&doc) {
        return vec![format!("Invalid YAML in frontmatter: {message}")];
    }
    let Some(entries) = doc.root.entries() else {
        return vec!["SKILL.md frontmatter must be a YAML mapping".into()];
    };
    let mut errors = Vec::new();
    unexpected(entries, &mut errors);
    match doc.root.get("name") {
        None => errors.push("Missing required field in frontmatter: name".into()),
        Some(node) => name_errors(node, folder, &mut errors),
    }
    match doc.root.get("description") {
        None => errors.push("Missing required field in frontmatter: description".into()),
        Some(node) => match string(node).filter(|s| !s.trim().is_empty()) {
            None => errors.push("Field 'description' must be a non-empty string".into()),
            Some(text) => too_long("Description", text, MAX_DESCRIPTION, &mut errors),
        },
    }
    match doc.root.get("compatibility").map(string) {
        None => {}
        Some(None) => errors.push("Field 'compatibility' must be a string".into()),
        Some(Some(text)) => too_long("Compatibility", text, MAX_COMPATIBILITY, &mut errors),
    }
    errors
}

/// The reference reads every scalar as a string, also `true`, `1` and nothing at all.
fn string(node: &Node) -> Option<&str> {
    match &node.kind {
        Kind::Scalar { text, .. } => Some(text),
        _ => None,
    }
}

fn outside_of_subset(doc: &Document) -> Option<String> {
    if let Some((what, line, column)) = doc.oddity {
        let found = match what {
            Oddity::Flow => "Found ugly disallowed JSONesque flow mapping",
            Oddity::Anchor => "Found confusing disallowed anchor token",
            Oddity::Tab => "found character '\\t' that cannot start any token",
            Oddity::Tag => "Found disallowed tag tokens (do not specify types in markup)",
        };
        return Some(format!("While scanning line {line}, column {column}: {found}"));
    }
    if let Some(e) = &doc.duplicate {
        let key = e.message.trim_start_matches("duplicate key ");
        return Some(format!(
            "While parsing line {}, column {}: Duplicate key {} found",
            e.line,
            e.column,
            key.replace('"', "'")
        ));
    }
    doc.uneven.map(|(line, column)| {
        format!(
            "While parsing line {line}, column {column}: Found mapping with indentation inconsistent with previous mapping"
        )
    })
}

fn unexpected(entries: &[(String, Node)], errors: &mut Vec<String>) {
    let mut extra: Vec<&str> =
        entries.iter().map(|(key, _)| key.as_str()).filter(|key| !ALLOWED.contains(key)).collect();
    if extra.is_empty() {
        return;
    }
    extra.sort_unstable();
    let allowed: Vec<String> = ALLOWED.iter().map(|a| format!("'{a}'")).collect();
    errors.push(format!(
        "Unexpected fields in frontmatter: {}. Only [{}] are allowed.",
        extra.join(", "),
        allowed.join(", ")
    ));
}

fn too_long(what: &str, text: &str, max: usize, errors: &mut Vec<String>) {
    let length = text.chars().count();
    if length > max {
        errors.push(format!("{what} exceeds {max} character limit ({length} chars)"));
    }
}

fn name_errors(node: &Node, folder: Option<&str>, errors: &mut Vec<String>) {
    let Some(name) = string(node).map(str::trim).filter(|s| !s.is_empty()) else {
        errors.push("Field 'name' must be a non-empty string".into());
        return;
    };
    too_long(&format!("Skill name '{name}'"), name, MAX_NAME, errors);
    if name != name.to_lowercase() {
        errors.push(format!("Skill name '{name}' must be lowercase"));
    }
    if name.starts_with('-') || name.ends_with('-') {
        errors.push("Skill name cannot start or end with a hyphen".into());
    }
    if name.contains("--") {
        errors.push("Skill name cannot contain consecutive hyphens".into());
    }
    if !name.chars().all(|c| c.is_alphanumeric() || c == '-') {
        errors.push(format!(
            "Skill name '{name}' contains invalid characters. Only letters, digits, and hyphens are allowed."
        ));
    }
    if let Some(folder) = folder
        && folder != name
    {
        errors.push(format!("Directory name '{folder}' must match skill name '{name}'"));
    }
}
