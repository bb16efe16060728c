//! One document as the registry has it at one moment: what an edit is made from.

use semver::Version;

use super::{DocumentView, listed, no_document};
use crate::{
    app::{Result, hive::Hive, types::AppError},
    db::{self, documents::Counted},
    ids::{AgentId, SkillId},
    registry::index::{Owner, SkillEntry, Trust, VersionEntry},
    skill::{
        document::{Source, Text},
        model::{Shape, Skill},
        source::SKILL_MD,
    },
};

/// A document, the version that its caller sees, and its file.
pub(super) struct Snapshot {
    pub entry: SkillEntry,
    pub version: VersionEntry,
    pub counted: Counted,
    pub text: Text,
    /// The SKILL.md as it is stored.
    pub file: Vec<u8>,
    /// Where this version came from, for people.
    pub origin: String,
    /// The next semantic version.
    pub next: Version,
    pub skill: Skill,
}

/// Who wrote it, as B1 tells it.
pub(super) fn source(owner: &Owner) -> Source {
    match owner {
        Owner::BuiltIn | Owner::Operator => Source::User,
        Owner::Agent(_) => Source::Agent,
    }
}

/// Whose the caller's documents are.
pub(super) fn owner_of(caller: Option<&AgentId>) -> Owner {
    caller.map_or(Owner::Operator, |agent| Owner::Agent(agent.clone()))
}

/// The version that the caller sees: others' only when they are trusted or approved.
pub(super) fn visible<'a>(entry: &'a SkillEntry, caller: Option<&AgentId>) -> Option<&'a VersionEntry> {
    match caller {
        Some(agent) if entry.owner != Owner::Agent(agent.clone()) => {
            let open = |v: &&VersionEntry| matches!(v.trust, Trust::Trusted | Trust::Approved) && !v.yanked;
            let newest = |v: &&VersionEntry| (v.version.pre.is_empty(), v.version.clone());
            entry.versions.values().filter(open).max_by_key(newest)
        }
        _ => entry.latest(),
    }
}

/// The version after all that there ever were: `0.0.0`, then a patch more for each.
pub(super) fn next_version<'a>(all: impl Iterator<Item = &'a Version>) -> Version {
    all.max().map_or(Version::new(0, 0, 0), |v| Version::new(v.major, v.minor, v.patch + 1))
}

impl Snapshot {
    /// Reads it; none when there is no such skill, or none that the caller may see.
    ///
    /// # Errors
    /// The skill is no document, or it cannot be read.
    pub(super) async fn read(hive: &Hive, caller: Option<&AgentId>, slug: &SkillId) -> Result<Option<Self>> {
        let (id, caller) = (slug.clone(), caller.cloned());
        let found = hive
            .db
            .read(move |conn| {
                let Some(entry) = db::skills::entry(conn, &id)? else { return Ok::<_, AppError>(None) };
                let Some(version) = visible(&entry, caller.as_ref()).cloned() else { return Ok(None) };
                let manifest = db::skills::manifest(conn, &id, &version.version)?;
                let counted = db::documents::get(conn, &id)?;
                let origin = db::documents::origin(conn, &id, &version.version)?.unwrap_or_default();
                let retired = db::skills::retired(conn, &id)?;
                let next = next_version(entry.versions.keys().chain(retired.iter().map(|(v, _)| v)));
                Ok(manifest
                    .zip(counted)
                    .map(|(skill, counted)| (entry, version, skill, counted, origin, next)))
            })
            .await?;
        let Some((entry, version, skill, counted, origin, next)) = found else { return Ok(None) };
        if skill.shape != Shape::SkillMd {
            return Err(AppError::NotFound(format!(
                "{slug} is no skill document: it has a manifest.json; its files are in /skills/{slug}"
            )));
        }
        let (store, digest) = (hive.store.clone(), version.digest);
        let file = tokio::task::spawn_blocking(move || store.read(&digest, SKILL_MD))
            .await
            .map_err(|e| AppError::Internal(format!("reading {slug} failed: {e}")))??
            .ok_or_else(|| no_document(slug))?;
        let text = Text::from_skill_md(slug, &file)
            .map_err(|fault| AppError::Conflict(format!("the document {slug} cannot be read: {fault}")))?;
        Ok(Some(Self { entry, version, counted, text, file, origin, next, skill }))
    }

    /// Whether it belongs to the caller.
    pub(super) fn is_of(&self, caller: Option<&AgentId>) -> bool {
        self.entry.owner == owner_of(caller)
    }

    /// Refuses what the caller may not change: an agent what is not its own, everybody what is built in.
    pub(super) fn changeable(&self, caller: Option<&AgentId>) -> Result<()> {
        let id = &self.entry.id;
        match (caller, &self.entry.owner) {
            (None, Owner::BuiltIn) => Err(AppError::Conflict(format!(
                "{id} is built in and cannot be changed: make a document of your own under another name"
            ))),
            (Some(agent), _) if !self.is_of(caller) => Err(AppError::Forbidden(format!(
                "the document {id} belongs to {}: agent {agent} changes only its own",
                String::from(self.entry.owner.clone())
            ))),
            _ => Ok(()),
        }
    }

    /// Refuses when the caller saw another version than this.
    pub(super) fn matches(&self, seen: Option<u64>) -> Result<()> {
        match seen {
            Some(seen) if seen != self.counted.version => Err(AppError::Changed(format!(
                "the document {} has version {} by now, not {seen}: read it again and repeat the change",
                self.entry.id, self.counted.version
            ))),
            _ => Ok(()),
        }
    }

    /// With its content.
    pub(super) fn view(&self) -> DocumentView {
        DocumentView {
            title: self.text.title.clone(),
            content: Some(self.text.content.clone()),
            ..listed(&self.entry, &self.version, &self.skill, &self.counted)
        }
    }
}
