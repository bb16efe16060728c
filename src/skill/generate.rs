//! A SKILL.md for skills that have only a manifest: agent programs notice no other folders.
//!
//! Writes what the reference validator accepts, from the manifest and the names of its files.

use super::model::Skill;

const MAX_DESCRIPTION: usize = 1024;

/// The text of a SKILL.md; `contexts` are the skill's context files as `(path, text)`, in order.
///
/// The context files are pointed to, and each is described by its first heading.
#[must_use]
pub fn generate(skill: &Skill, contexts: &[(&str, &str)]) -> String {
    let mut out = format!(
        "---\nname: {}\ndescription: {}\nmetadata:\n  version: {}\n---\n\n# {}\n\n{}\n",
        skill.id,
        quoted(&cut(&one_line(&skill.description), MAX_DESCRIPTION)),
        quoted(&skill.version.to_string()),
        one_line(&skill.name),
        skill.description.trim(),
    );
    if !contexts.is_empty() {
        out.push_str("\n## Instructions\n\nRead before use:\n\n");
        for (path, text) in contexts {
            let title = text
                .lines()
                .find_map(|l| l.strip_prefix("# "))
                .map(|t| format!(": {}", one_line(t)))
                .unwrap_or_default();
            out.push_str(&format!("- `{path}`{title}\n"));
        }
    }
    if !skill.scripts.is_empty() {
        out.push_str(
            "\n## Scripts\n\nEach takes one JSON object as its first argument, and prints JSON with `success`.\n\n",
        );
        for script in &skill.scripts {
            out.push_str(&format!("- `{script}`\n"));
        }
    }
    out
}

/// Runs of blanks and control characters become one blank; `---` would end the frontmatter for simple
/// readers.
fn one_line(text: &str) -> String {
    let mut out = text
        .split(|c: char| c.is_whitespace() || c.is_control())
        .filter(|w| !w.is_empty())
        .collect::<Vec<_>>()
        .join(" ");
    while out.contains("---") {
        out = out.replace("---", "\u{2014}");
    }
    out
}

fn cut(text: &str, max: usize) -> String {
    if text.chars().count() <= max {
        return text.to_owned();
    }
    let mut out: String = text.chars().take(max - 1).collect();
    out.truncate(out.trim_end().len());
    out.push('\u{2026}');
    out
}

/// A double-quoted YAML scalar; the text has no control characters.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}
