//! The prompt of an agent (systems.md D6, B2, B6, C4), byte for byte.
//!
//! Pure: texts that somebody else read go in, one text comes out. Three blocks (soul, skills, tools)
//! are joined by `---`; what is empty is left out together with its separator.

/// What stands below `<available_skills>` (B6).
const SAVE_AS_SKILL: &str = "After completing a complex or multi-step task, consider whether the procedure should be saved as a skill for future reference.";

/// Descriptions are cut after this many characters: the longest that SKILL.md allows.
const MAX_LINE: usize = 1024;

/// What a prompt is built from, in the order in which it shall appear.
#[derive(Debug, Clone, Copy, Default)]
pub struct PromptInput<'a> {
    /// Contents of the soul file.
    pub soul: Option<&'a str>,
    /// The resolved skills.
    pub skills: &'a [PromptSkill],
    /// File name and description of each script.
    pub tools: &'a [(String, String)],
    /// MCP servers and the names of their tools.
    pub mcp: &'a [(String, Vec<String>)],
}

/// A skill as the prompt shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PromptSkill {
    /// Its name for people; a progressive skill's id.
    pub name: String,
    /// Its version.
    pub version: String,
    /// What it enables.
    pub description: String,
    /// Tags, shown on the line of a progressive skill.
    pub tags: Vec<String>,
    /// Contents of its context files in manifest order, variables already substituted.
    pub contexts: Vec<String>,
    /// SKILL.md only: one line until the agent reads it (C8).
    pub progressive: bool,
}

/// Builds the prompt; ends with one line end, or is empty.
///
/// Texts of files lose a byte order mark, blank lines around them and carriage returns; inside
/// they stay as they are. Names and descriptions are put on one line, whatever they hold.
#[must_use]
pub fn build(input: &PromptInput<'_>) -> String {
    let blocks: Vec<String> = [soul(input.soul), skills(input.skills), tools(input)]
        .into_iter()
        .filter(|block| !block.is_empty())
        .collect();
    let mut prompt = blocks.join("\n\n---\n\n");
    if !prompt.is_empty() {
        prompt.push('\n');
    }
    prompt
}

fn soul(text: Option<&str>) -> String {
    match text.map(tidy) {
        Some(text) if !text.is_empty() => format!("# Soul\n\n{text}"),
        _ => String::new(),
    }
}

fn skills(skills: &[PromptSkill]) -> String {
    let mut parts = Vec::new();
    for skill in skills.iter().filter(|s| !s.progressive) {
        parts.push(format!("## {} (v{})", one_line(&skill.name), one_line(&skill.version)));
        let mut texts: Vec<String> = skill.contexts.iter().map(|c| tidy(c)).collect();
        texts.retain(|t| !t.is_empty());
        if texts.is_empty() {
            texts.push(one_line(&skill.description));
            texts.retain(|t| !t.is_empty());
        }
        parts.append(&mut texts);
    }
    let lines: Vec<String> = skills.iter().filter(|s| s.progressive).map(progressive_line).collect();
    if !lines.is_empty() {
        parts.push(format!("<available_skills>\n{}\n</available_skills>", lines.join("\n")));
        parts.push(SAVE_AS_SKILL.to_owned());
    }
    if parts.is_empty() {
        return String::new();
    }
    format!("# Available Skills\n\n{}", parts.join("\n\n"))
}

/// `- name: description [tag, tag]` (B2).
fn progressive_line(skill: &PromptSkill) -> String {
    let mut line = item(&skill.name, &one_line(&skill.description));
    let tags: Vec<String> = skill.tags.iter().map(|t| one_line(t)).filter(|t| !t.is_empty()).collect();
    if !tags.is_empty() {
        line.push_str(&format!(" [{}]", tags.join(", ")));
    }
    without_tag(&line)
}

fn tools(input: &PromptInput<'_>) -> String {
    let mut parts = Vec::new();
    if !input.tools.is_empty() {
        let lines: Vec<String> =
            input.tools.iter().map(|(name, description)| item(name, &one_line(description))).collect();
        parts.push(format!("# Available Tools\n\n{}", lines.join("\n")));
    }
    if !input.mcp.is_empty() {
        let lines: Vec<String> = input
            .mcp
            .iter()
            .map(|(server, tools)| {
                let tools: Vec<String> = tools.iter().map(|t| one_line(t)).collect();
                item(server, &tools.join(", "))
            })
            .collect();
        parts.push(format!("# MCP Tools\n\n{}", lines.join("\n")));
    }
    parts.join("\n\n")
}

fn item(name: &str, text: &str) -> String {
    let name = one_line(name);
    if text.is_empty() { format!("- {name}") } else { format!("- {name}: {text}") }
}

/// A file's text without byte order mark, carriage returns and blank lines around it.
fn tidy(text: &str) -> String {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let text = text.replace("\r\n", "\n").replace('\r', "\n");
    let mut rest = text.trim_end();
    while let Some((line, after)) = rest.split_once('\n') {
        if !line.trim().is_empty() {
            break;
        }
        rest = after;
    }
    rest.to_owned()
}

/// One line of visible text: white space and control characters become single spaces; characters
/// that hide or reorder text (bidi controls, tags, zero width) are dropped; overlong text is cut.
pub(super) fn one_line(text: &str) -> String {
    let mut out = String::new();
    let mut gap = false;
    for (count, c) in text.chars().filter(|c| !hides(*c)).enumerate() {
        if count >= MAX_LINE {
            out.push('…');
            break;
        }
        if c.is_whitespace() || c.is_control() {
            gap = !out.is_empty();
        } else {
            if gap {
                out.push(' ');
                gap = false;
            }
            out.push(c);
        }
    }
    out
}

fn hides(c: char) -> bool {
    matches!(c,
        '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}'
        | '\u{feff}' | '\u{e0000}'..='\u{e007f}')
}

/// Keeps what an agent wrote from ending (or opening) the list that its line stands in.
fn without_tag(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(at) = rest.find('<') {
        out.push_str(&rest[..at]);
        let after = &rest[at + 1..];
        let word = after.trim_start_matches([' ', '/', '\\']);
        let is_tag =
            word.get(.."available_skills".len()).is_some_and(|w| w.eq_ignore_ascii_case("available_skills"));
        out.push_str(if is_tag { "&lt;" } else { "<" });
        rest = after;
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
#[path = "prompt_tests.rs"]
mod tests;
