//! The index of agent-skills discovery 0.2.0 (`/.well-known/agent-skills/index.json`), and what it points at.
//!
//! Each url names its version, so that bytes and digest agree also when a new version comes in between.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{Candidate, Slug, Which, is_about};
use crate::{
    app::{Result, hive::Hive, skills::Archive},
    ids::{SkillId, is_hidden},
    skill::source::SKILL_MD,
};

/// What tells clients how to read the index.
const SCHEMA: &str = "https://schemas.agentskills.io/discovery/0.2.0/schema.json";
/// Longest description of the format, in UTF-16, as some clients count.
const MAX_DESCRIPTION: usize = 1_024;

/// The index.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DiscoveryIndex {
    /// Which edition of the format this is.
    #[serde(rename = "$schema")]
    pub schema: String,
    /// By name.
    pub skills: Vec<DiscoverySkill>,
}

/// A skill of the index.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DiscoverySkill {
    /// Its id.
    pub name: String,
    /// `skill-md`: the url gives its SKILL.md, which is all of it; `archive`: a zip.
    #[serde(rename = "type")]
    pub kind: String,
    /// What it does and when to use it.
    pub description: String,
    /// Where it is, relative to the origin of the index.
    pub url: String,
    /// `sha256:…` of the bytes at the url.
    pub digest: String,
}

/// Whether a name is one of the format: it is stricter about hyphens than ids are.
fn is_name(id: &str) -> bool {
    !id.ends_with('-') && !id.contains("--")
}

/// One line that is not too long; the name when there is nothing to say.
fn description(id: &SkillId, text: &str) -> String {
    let visible: String = text.chars().filter(|c| c.is_whitespace() || !is_hidden(*c)).collect();
    let mut line = visible.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.is_empty() {
        line = id.to_string();
    }
    let mut length = 0;
    let fits = |c: &char| {
        length += c.len_utf16();
        length <= MAX_DESCRIPTION
    };
    line.chars().take_while(fits).collect()
}

impl Hive {
    /// The index of all skills that others may use and whose names the format allows.
    ///
    /// # Errors
    /// The database fails. A version whose content is missing or altered is left out and told in the log.
    pub async fn discovery_index(&self) -> Result<DiscoveryIndex> {
        let world = self.world();
        let named = world.index.skills.values().filter(|entry| is_name(entry.id.as_str()));
        let (known, unknown): (Vec<Candidate>, Vec<Candidate>) =
            named.filter_map(Candidate::of).partition(|c| is_about(&c.entry, &c.version));
        let asked = unknown.into_iter().map(|c| (c.entry, c.version)).collect();
        let read = self.shown(asked).await?.into_iter().map(|s| (s.entry, s.version, s.about.description));
        let known = known.into_iter().map(|c| {
            let description = c.entry.about.description.clone();
            (c.entry, c.version, description)
        });
        let mut all: Vec<_> = known.chain(read).collect();
        all.sort_by(|a, b| a.0.id.cmp(&b.0.id));
        let mut skills = Vec::new();
        for (entry, version, text) in all {
            let (id, number) = (&entry.id, &version.version);
            let artifact = match self.artifact(id, &version).await {
                Ok(artifact) => artifact,
                Err(e) => {
                    tracing::warn!(skill = %id, version = %number, "left out of the index of skills: {e}");
                    continue;
                }
            };
            let (kind, file) = if artifact.alone { ("skill-md", SKILL_MD) } else { ("archive", "skill.zip") };
            skills.push(DiscoverySkill {
                name: id.to_string(),
                kind: kind.to_owned(),
                description: description(id, &text),
                url: format!("/.well-known/agent-skills/{id}/{number}/{file}"),
                digest: artifact.digest.to_string(),
            });
        }
        Ok(DiscoveryIndex { schema: SCHEMA.to_owned(), skills })
    }

    /// The SKILL.md of a version: its own, or the one that agents see.
    ///
    /// # Errors
    /// Others may not use it; it is yanked; its content is missing or altered.
    pub async fn discovery_text(&self, slug: &Slug, which: &Which) -> Result<Vec<u8>> {
        self.claw_file(slug, which, SKILL_MD).await
    }

    /// A version as a zip.
    ///
    /// # Errors
    /// As for [`Self::discovery_text`].
    pub async fn discovery_archive(&self, slug: &Slug, which: &Which) -> Result<Archive> {
        Ok(self.claw_download(slug, which).await?.1)
    }
}
