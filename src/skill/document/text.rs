//! What a document says, out of a SKILL.md and into one.
//!
//! Lenient in, strict out: what is written satisfies the agentskills.io format, with our own keys under `metadata`.
//! Frontmatter that means nothing here is kept, comments and layout of it are not; the content is kept byte for byte.

use semver::Version;
use serde_json::Value;

use super::{
    MAX_DESCRIPTION, MAX_TAGS, MAX_TITLE,
    args::Mistake,
    emit::{entry, quoted},
};
use crate::{
    error::Fault,
    ids::SkillId,
    skill::{
        draft::Draft,
        fields::Fields,
        manifest::not_utf8,
        model::Skill,
        skill_md::{OURS, decoded, printable, split, tree},
        source::SKILL_MD,
        yaml::{Kind, Node},
    },
};

/// What a document says.
#[derive(Debug, Clone, PartialEq)]
pub struct Text {
    /// For people, on one line.
    pub title: String,
    /// Shown in the prompt, so that an agent knows when to read it.
    pub description: String,
    /// For finding it.
    pub tags: Vec<String>,
    /// The markdown.
    pub content: String,
    pub(super) kept: Kept,
}

/// Frontmatter that is passed on as it was.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Kept {
    top: Vec<(String, Node)>,
    metadata: Vec<(String, Node)>,
}

impl Text {
    /// A new document's, checked.
    ///
    /// # Errors
    /// Everything that is wrong, by parameter.
    pub fn new(title: &str, description: &str, tags: &[String], content: &str) -> Result<Self, Vec<Mistake>> {
        let text = Self {
            title: title.trim().to_owned(),
            description: description.trim().to_owned(),
            tags: distinct(tags),
            content: content.to_owned(),
            kept: Kept::default(),
        };
        let mistakes = text.mistakes();
        if mistakes.is_empty() { Ok(text) } else { Err(mistakes) }
    }

    /// What no document may say, by parameter.
    #[must_use]
    pub fn mistakes(&self) -> Vec<Mistake> {
        let mut found = Vec::new();
        let mut check = |pointer: String, text: &str, max: usize, lines: bool| {
            let count = text.chars().count();
            let control = |c: char| c.is_control() && !(lines && matches!(c, '\n' | '\t'));
            let wrong = match count {
                0 => Some("must not be empty".to_owned()),
                _ if count > max => Some(format!("has {count} characters; at most {max} are allowed")),
                _ if text.chars().any(control) => Some("must not hold control characters".to_owned()),
                _ => None,
            };
            let name = pointer.trim_start_matches('/').replace('/', " ");
            found.extend(wrong.map(|wrong| Mistake::new(pointer, format!("{name} {wrong}"))));
        };
        check("/title".into(), &self.title, MAX_TITLE, false);
        check("/description".into(), &self.description, MAX_DESCRIPTION, true);
        for (i, tag) in self.tags.iter().enumerate() {
            check(format!("/tags/{i}"), tag, MAX_TAGS.1, false);
        }
        if self.tags.len() > MAX_TAGS.0 {
            let detail = format!("there are {} tags; at most {} are allowed", self.tags.len(), MAX_TAGS.0);
            found.push(Mistake::new("/tags", detail));
        }
        if self.content.contains('\0') {
            found.push(Mistake::new("/content", "content must not hold NUL characters"));
        }
        found
    }

    /// Out of a SKILL.md. A title it does not state is its name.
    ///
    /// # Errors
    /// It has no frontmatter that can be read.
    pub fn from_skill_md(slug: &SkillId, bytes: &[u8]) -> Result<Self, Fault> {
        let raw = std::str::from_utf8(bytes).map_err(|e| not_utf8(SKILL_MD, bytes, e.valid_up_to()))?;
        let raw = raw.strip_prefix('\u{feff}').unwrap_or(raw);
        let (block, body) = split(raw)?;
        let root = tree(&mut Draft::new(SKILL_MD), &block.replace("\r\n", "\n"))?;
        let Some(entries) = root.entries() else {
            return Err(Fault::new(SKILL_MD, "The frontmatter must be a YAML map of keys and values"));
        };
        let metadata = root.get("metadata");
        let ours = |key: &str| root.get(key).or_else(|| metadata?.get(key));
        let line = |key: &str| ours(key).and_then(Node::text).map(|text| printable(text, false));
        let title = line("title").or_else(|| line("name")).filter(|text| !text.is_empty());
        let mut fields = Fields::new(SKILL_MD, false);
        let tags = ours("tags").map(|node| decoded(node).unwrap_or_else(|| node.clone()));
        let tags = tags.map(|node| fields.texts("tags", &node)).unwrap_or_default();
        let tags: Vec<String> =
            tags.iter().map(|tag| printable(tag, false)).filter(|tag| !tag.is_empty()).collect();
        let description = root.get("description").and_then(Node::text);
        Ok(Self {
            title: title.unwrap_or_else(|| slug.to_string()),
            description: description.map(|text| printable(text, true)).unwrap_or_default(),
            tags: distinct(&tags),
            content: body.strip_prefix("\r\n").or_else(|| body.strip_prefix('\n')).unwrap_or(body).to_owned(),
            kept: Kept::of(entries),
        })
    }

    /// The title that the SKILL.md of a skill gives it.
    #[must_use]
    pub fn title_of(skill: &Skill) -> String {
        let stated = skill.extra.get("title").or_else(|| skill.extra.get("metadata")?.get("title"));
        let stated = match stated {
            Some(Value::String(text)) => printable(text, false),
            Some(Value::Number(number)) => number.to_string(),
            _ => String::new(),
        };
        if stated.is_empty() { skill.name.clone() } else { stated }
    }

    /// The SKILL.md. One that states a version states `version` instead.
    #[must_use]
    pub fn to_skill_md(&self, slug: &SkillId, version: &Version) -> String {
        let mut metadata: Vec<(String, Node)> = Vec::new();
        if self.title != slug.as_str() {
            metadata.push(("title".into(), string(&self.title)));
        }
        if !self.tags.is_empty() {
            metadata.push(("tags".into(), string(&Value::from(self.tags.clone()).to_string())));
        }
        metadata.extend(self.kept.metadata.iter().map(|(key, node)| match key.as_str() {
            "version" => (key.clone(), string(&version.to_string())),
            _ => (key.clone(), node.clone()),
        }));
        let mut out = format!("---\nname: {}\n", quoted(slug.as_str()));
        entry(&mut out, 0, "description", &string(&self.description));
        for (key, node) in &self.kept.top {
            entry(&mut out, 0, key, node);
        }
        if !metadata.is_empty() {
            entry(&mut out, 0, "metadata", &map(metadata));
        }
        out.push_str("---\n\n");
        out.push_str(&self.content);
        out
    }
}

/// Each once, without blanks around it, in the order given.
pub(super) fn distinct(tags: &[String]) -> Vec<String> {
    let mut out: Vec<String> = Vec::new();
    for tag in tags.iter().map(|tag| tag.trim()) {
        if !out.iter().any(|known| known == tag) {
            out.push(tag.to_owned());
        }
    }
    out
}

impl Kept {
    fn of(entries: &[(String, Node)]) -> Self {
        let mut kept = Self::default();
        let own = |key: &str| matches!(key, "title" | "tags");
        for (key, node) in entries {
            match key.as_str() {
                "name" | "description" | "metadata" => {}
                key if own(key) => {}
                key if OURS.contains(&key) => kept.metadata.push((key.to_owned(), as_text(node))),
                _ => kept.top.push((key.clone(), plain(node))),
            }
        }
        let metadata = entries.iter().find(|(key, _)| key == "metadata").map(|(_, node)| node);
        match metadata.map(|node| (node, node.entries())) {
            Some((_, Some(inner))) => {
                for (key, node) in inner.iter().filter(|(key, _)| !own(key)) {
                    // At the top level it counts more.
                    if !kept.metadata.iter().any(|(known, _)| known == key) {
                        let ours = OURS.contains(&key.as_str());
                        kept.metadata.push((key.clone(), if ours { as_text(node) } else { plain(node) }));
                    }
                }
            }
            Some((node, None)) if !node.is_null() => kept.metadata.push(("value".into(), plain(node))),
            _ => {}
        }
        kept
    }
}

/// A key of ours as the format wants what stands under `metadata`: a string, lists and maps as JSON in one.
fn as_text(node: &Node) -> Node {
    match &node.kind {
        Kind::Scalar { .. } => plain(node),
        Kind::Seq(_) | Kind::Map(_) => string(&node.to_json().to_string()),
    }
}

/// The same without its place.
fn plain(node: &Node) -> Node {
    let kind = match &node.kind {
        Kind::Scalar { text, plain } => Kind::Scalar { text: text.clone(), plain: *plain },
        Kind::Seq(items) => Kind::Seq(items.iter().map(plain).collect()),
        Kind::Map(entries) => Kind::Map(entries.iter().map(|(k, v)| (k.clone(), plain(v))).collect()),
    };
    Node { kind, line: 0, column: 0 }
}

fn string(text: &str) -> Node {
    Node { kind: Kind::Scalar { text: text.to_owned(), plain: false }, line: 0, column: 0 }
}

fn map(entries: Vec<(String, Node)>) -> Node {
    Node { kind: Kind::Map(entries), line: 0, column: 0 }
}
