//! The skills that an agent resolved, file by file, as MCP clients read them (SEP-2640). Never one that it did not
//! resolve: what others wrote and nobody approved stays unseen.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use serde_json::{Map, Value};

use super::artifact::Files;
use crate::{
    app::{Result, hive::Hive, skills::blocking, types::AppError},
    ids::{AgentId, Digest, SkillId},
    registry::index::VersionEntry,
    skill::source::SKILL_MD,
};

/// Contents whose listing is kept; above it all are dropped, and read again as they are asked for.
const MOST: usize = 4_096;

/// A skill as an agent has it.
#[derive(Debug)]
pub struct HeldSkill {
    /// Its id.
    pub id: SkillId,
    /// What its SKILL.md says above the text.
    pub frontmatter: Map<String, Value>,
    /// Its files by path, the SKILL.md that agents see included.
    pub files: Vec<HeldFile>,
    content: Arc<Files>,
}

/// A file of a skill.
#[derive(Debug)]
pub struct HeldFile {
    /// In the skill's folder.
    pub path: String,
    /// Bytes.
    pub size: u64,
    /// SHA-256 of its content.
    pub digest: Digest,
}

impl HeldSkill {
    /// As its SKILL.md names it.
    #[must_use]
    pub fn name(&self) -> &str {
        self.frontmatter.get("name").and_then(Value::as_str).unwrap_or(self.id.as_str())
    }

    /// What it is for; empty when it does not say.
    #[must_use]
    pub fn description(&self) -> &str {
        self.frontmatter.get("description").and_then(Value::as_str).unwrap_or_default()
    }
}

/// What was read, by the digest of the content and the skill's id.
#[derive(Default)]
pub struct HeldCache {
    known: Mutex<HashMap<(SkillId, Digest), Arc<HeldSkill>>>,
}

impl HeldCache {
    fn get(&self, id: &SkillId, digest: &Digest) -> Option<Arc<HeldSkill>> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(&(id.clone(), *digest)).cloned()
    }

    fn put(&self, digest: Digest, skill: &Arc<HeldSkill>) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MOST {
            known.clear();
        }
        known.insert((skill.id.clone(), digest), skill.clone());
    }
}

impl Hive {
    /// The skills that an agent resolved, by id.
    ///
    /// # Errors
    /// The database fails. A skill whose content is missing or altered is left out and told in the log.
    pub async fn held_skills(&self, agent: &AgentId) -> Result<Vec<Arc<HeldSkill>>> {
        let world = self.world();
        let Some(Ok(resolution)) = world.resolutions.get(agent) else { return Ok(Vec::new()) };
        let mut held = Vec::new();
        for (id, resolved) in &resolution.skills {
            if let Some(known) = self.registry.held.get(id, &resolved.digest) {
                held.push(known);
                continue;
            }
            let entry = world.index.skills.get(id).and_then(|entry| entry.versions.get(&resolved.version));
            let Some(entry) = entry.filter(|entry| entry.digest == resolved.digest) else { continue };
            match self.held_skill(id, entry).await {
                Ok(skill) => {
                    self.registry.held.put(resolved.digest, &skill);
                    held.push(skill);
                }
                Err(e) => tracing::warn!(skill = %id, "left out of an agent's MCP skills: {e}"),
            }
        }
        Ok(held)
    }

    async fn held_skill(&self, id: &SkillId, version: &VersionEntry) -> Result<Arc<HeldSkill>> {
        let (content, id) = (self.files(id, version).await?, id.clone());
        let read = blocking(move || {
            let text = content.read(SKILL_MD)?.unwrap_or_default();
            let file = |(path, info): (&str, crate::skill::source::FileInfo)| HeldFile {
                path: path.to_owned(),
                size: info.size,
                digest: Digest(info.digest),
            };
            let files = content.list().into_iter().map(file).collect();
            let frontmatter = frontmatter(&String::from_utf8_lossy(&text)).unwrap_or_default();
            Ok(Arc::new(HeldSkill { id, frontmatter, files, content }))
        });
        read.await?
    }

    /// One file of a skill.
    ///
    /// # Errors
    /// There is no such file, or its content is missing.
    pub async fn held_file(&self, skill: &HeldSkill, path: &str) -> Result<Vec<u8>> {
        let (content, path, id) = (skill.content.clone(), path.to_owned(), skill.id.clone());
        let (read, path) = blocking(move || (content.read(&path), path)).await?;
        read?.ok_or_else(|| AppError::NotFound(format!("{id} has no file {path:?}")))
    }
}

/// The block above the text as JSON; none when it is no mapping.
fn frontmatter(text: &str) -> Option<Map<String, Value>> {
    let (block, _) = text.trim_start_matches('\u{feff}').strip_prefix("---")?.split_once("\n---")?;
    serde_saphyr::from_str(block).ok()
}
