//! Skill documents (systems.md B1 to B3, C9): read, written and changed as ordinary skills that hold a SKILL.md.
//!
//! Each edit is a version of its own, made from the one before it or not at all, so that edits at the same time lose
//! nothing. An agent changes its own alone; its documents are pending like every skill that it writes. The operator's
//! are also written to the hive's skill folder, where they outlive `.skep`.

mod filled;
mod folder;
mod remove;
mod snapshot;
mod tools;
mod write;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

pub use tools::{
    create_skill, delete_skill, disable_skill, enable_skill, list_skills, read_skill, skill_management, tool,
    update_skill,
};

use self::{
    filled::{Reader, filled},
    snapshot::{Snapshot, source, visible},
};
use super::{Result, hive::Hive, skills::trust_name, types::AppError};
use crate::{
    db::{self, documents::Counted},
    ids::{AgentId, SkillId},
    registry::index::{SkillEntry, VersionEntry},
    skill::{
        document::{Mistake, Text},
        model::{Shape, Skill},
    },
};

/// A document (B1).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DocumentView {
    /// Its slug: the id of the skill that it is.
    #[schema(example = "quarterly-reports")]
    pub name: String,
    /// For people.
    #[schema(example = "Quarterly reports")]
    pub title: String,
    /// Tells when to read it; stands in the prompt.
    #[schema(example = "How the quarterly reports are built")]
    pub description: String,
    /// The markdown; left out of lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "# Quarterly reports\n\n- Headers are bold.\n")]
    pub content: Option<String>,
    /// For finding it.
    pub tags: Vec<String>,
    /// `user` (the operator, or built in) or `agent`.
    #[schema(example = "user")]
    pub source: String,
    /// 1 when it was made, one more for each change since.
    #[schema(example = 3)]
    pub version: u64,
    /// Disabled ones are not listed unless asked for.
    pub enabled: bool,
    /// RFC 3339.
    #[schema(example = "2026-03-01T12:00:00Z")]
    pub created_on: String,
    /// RFC 3339.
    #[schema(example = "2026-03-02T08:30:00Z")]
    pub modified_on: String,
    /// `built-in`, `operator` or the agent that wrote it.
    #[schema(example = "operator")]
    pub owner: String,
    /// The skill's version that it is.
    #[schema(example = "0.0.2")]
    pub skill_version: String,
    /// Of that version: `trusted`, `approved`, `pending`, `rejected`.
    #[schema(example = "trusted")]
    pub trust: String,
}

/// What came of deleting a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Deleted {
    /// False when there was none.
    pub deleted: bool,
}

/// Whether a document is enabled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Enabled {
    /// Which.
    pub name: String,
    /// Whether it is.
    pub enabled: bool,
}

/// What is wrong with a request for a document.
pub(super) fn invalid(mistakes: Vec<Mistake>) -> AppError {
    let first = mistakes.first().map(|m| m.detail.clone()).unwrap_or_default();
    let detail = match mistakes.len() {
        0 | 1 => first,
        many => format!("{many} mistakes, the first one: {first}"),
    };
    AppError::Invalid { detail, errors: mistakes.into_iter().map(|m| (m.pointer, m.detail)).collect() }
}

fn no_document(slug: &SkillId) -> AppError {
    AppError::NotFound(format!("there is no skill document {slug}"))
}

/// A document as lists show it.
fn listed(entry: &SkillEntry, version: &VersionEntry, skill: &Skill, counted: &Counted) -> DocumentView {
    DocumentView {
        name: entry.id.to_string(),
        title: Text::title_of(skill),
        description: skill.description.clone(),
        content: None,
        tags: skill.tags.clone(),
        source: source(&entry.owner).as_str().to_owned(),
        version: counted.version,
        enabled: entry.enabled,
        created_on: counted.created_on.to_string(),
        modified_on: counted.modified_on.to_string(),
        owner: entry.owner.clone().into(),
        skill_version: version.version.to_string(),
        trust: trust_name(version.trust),
    }
}

impl Hive {
    /// Documents by name, without contents. An agent sees its own and what the operator trusts.
    ///
    /// # Errors
    /// The database fails.
    pub async fn documents(
        &self,
        caller: Option<&AgentId>,
        tag: Option<String>,
        include_disabled: bool,
    ) -> Result<Vec<DocumentView>> {
        let (world, caller) = (self.world(), caller.cloned());
        let grants = Reader::grants(self, caller.as_ref());
        self.db
            .read(move |conn| {
                let reader = caller.as_ref().map(|agent| Reader { world: &world, agent, grants: &grants });
                let counts = db::documents::all(conn)?;
                let mut views = Vec::new();
                for entry in world.index.skills.values().filter(|e| include_disabled || e.enabled) {
                    let Some(version) = visible(entry, caller.as_ref()) else { continue };
                    let Some(counted) = counts.get(&entry.id) else { continue };
                    let Some(skill) = db::skills::manifest(conn, &entry.id, &version.version)? else {
                        continue;
                    };
                    if skill.shape == Shape::SkillMd
                        && tag.as_ref().is_none_or(|tag| skill.tags.contains(tag))
                    {
                        let view = listed(entry, version, &skill, counted);
                        views.push(filled(reader.as_ref(), view, entry, version, &skill));
                    }
                }
                Ok(views)
            })
            .await
    }

    /// One document with its content; for an agent with its variables (see `filled`).
    ///
    /// # Errors
    /// There is none that the caller may see, or it cannot be read.
    pub async fn document(&self, caller: Option<&AgentId>, slug: &SkillId) -> Result<DocumentView> {
        let snapshot = self.snapshot(caller, slug).await?;
        // Who disabled it does not want it followed; its author can enable it again.
        if !snapshot.entry.enabled && !snapshot.is_of(caller) && caller.is_some() {
            return Err(AppError::NotFound(format!("the skill document {slug} is disabled")));
        }
        let (world, grants) = (self.world(), Reader::grants(self, caller));
        let reader = caller.map(|agent| Reader { world: &world, agent, grants: &grants });
        let Snapshot { entry, version, skill, .. } = &snapshot;
        Ok(filled(reader.as_ref(), snapshot.view(), entry, version, skill))
    }

    async fn snapshot(&self, caller: Option<&AgentId>, slug: &SkillId) -> Result<Snapshot> {
        Snapshot::read(self, caller, slug).await?.ok_or_else(|| no_document(slug))
    }
}

#[cfg(test)]
mod tests;
