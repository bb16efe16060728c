//! The registry as clients of other registries read it: ClawHub's API, and agent-skills discovery.
//!
//! Shows only what others may use: enabled skills, versions that are trusted or approved. Read-only; what these
//! protocols count and we do not (stars, downloads) is left out rather than made up.

mod artifact;
pub mod claw;
pub mod discovery;
mod fingerprint;
pub mod held;

pub(super) use artifact::ArtifactCache;
pub(super) use held::HeldCache;

use std::sync::Arc;

use jiff::Timestamp;
use semver::Version;

use super::{Result, hive::Hive, skills::find, types::AppError};
use crate::{
    db::{self, DbError},
    ids::SkillId,
    registry::index::{About, SkillEntry, Trust, VersionEntry},
};

/// A skill with the version by which it is shown.
struct Shown {
    entry: Arc<SkillEntry>,
    version: VersionEntry,
    about: About,
    /// When the version was published.
    at: Timestamp,
}

/// A skill to list; what lists show of it is looked up for one page.
#[derive(Debug, Clone)]
pub struct Candidate {
    entry: Arc<SkillEntry>,
    version: VersionEntry,
}

impl Candidate {
    fn of(entry: &Arc<SkillEntry>) -> Option<Self> {
        Some(Self { entry: entry.clone(), version: latest(entry)?.clone() })
    }

    /// Its slug.
    #[must_use]
    pub fn slug(&self) -> &str {
        self.entry.id.as_str()
    }
}

/// Versions that others may use, yanked ones included, oldest first.
fn open(entry: &SkillEntry) -> impl Iterator<Item = &VersionEntry> {
    let usable = |v: &&VersionEntry| matches!(v.trust, Trust::Trusted | Trust::Approved);
    entry.versions.values().filter(|_| entry.enabled).filter(usable)
}

/// The version that who names none gets: the newest, stable before pre-release.
fn latest(entry: &SkillEntry) -> Option<&VersionEntry> {
    open(entry).filter(|v| !v.yanked).max_by_key(|v| v.rank())
}

/// Whether what an entry says of itself is what this version says: its newest one may be one that others do not see.
fn is_about(entry: &SkillEntry, version: &VersionEntry) -> bool {
    entry.latest().is_some_and(|newest| newest.version == version.version)
}

/// Which skill is asked for.
#[derive(Debug, Clone)]
pub struct Slug {
    /// Its id.
    pub id: SkillId,
    /// It must belong to this one: `built-in`, `operator` or an agent.
    pub owner: Option<String>,
}

/// Which version is asked for.
#[derive(Debug, Clone, Default)]
pub struct Which {
    /// Exactly this one; goes before the tag.
    pub version: Option<Version>,
    /// The only tag is `latest`.
    pub tag: Option<String>,
}

impl Hive {
    /// A skill that others may use.
    fn open_skill(&self, slug: &Slug) -> Result<Arc<SkillEntry>> {
        let (world, id) = (self.world(), &slug.id);
        let entry = find(&world, id)?;
        if let Some(owner) = slug.owner.as_ref().filter(|owner| **owner != String::from(entry.owner.clone()))
        {
            return Err(AppError::NotFound(format!("there is no skill {id} of {owner} in the registry")));
        }
        if open(entry).next().is_none() {
            return Err(AppError::NotFound(format!("the skill {id} has no version that others may use")));
        }
        Ok(entry.clone())
    }

    /// A version that may be taken: 404 for what others may not use, 410 for what is yanked.
    fn open_version(&self, slug: &Slug, which: &Which) -> Result<(Arc<SkillEntry>, VersionEntry)> {
        let (entry, id) = (self.open_skill(slug)?, &slug.id);
        let found = match which {
            Which { version: Some(version), .. } => {
                open(&entry).find(|v| v.version == *version).ok_or_else(|| {
                    AppError::NotFound(format!("{id} has no version {version} that others may use"))
                })?
            }
            Which { tag: Some(tag), .. } if tag != "latest" => {
                return Err(AppError::NotFound(format!("{id} has no tag {tag:?}; there is latest alone")));
            }
            _ => latest(&entry).ok_or_else(|| AppError::Gone(format!("every version of {id} is yanked")))?,
        };
        if found.yanked {
            return Err(AppError::Gone(format!("{id}@{} is yanked; take another version", found.version)));
        }
        let found = found.clone();
        Ok((entry, found))
    }

    /// What is told of skills besides their entries, in one read. What is gone meanwhile is left out.
    async fn shown(&self, asked: Vec<(Arc<SkillEntry>, VersionEntry)>) -> Result<Vec<Shown>> {
        let shown = self.db.read(move |conn| {
            let mut shown = Vec::new();
            for (entry, version) in asked {
                let Some((_, at)) = db::skills::origin(conn, &entry.id, &version.version)? else { continue };
                let mut about = entry.about.clone();
                if !is_about(&entry, &version)
                    && let Some(skill) = db::skills::manifest(conn, &entry.id, &version.version)?
                {
                    about = About { name: skill.name, description: skill.description, tags: skill.tags };
                }
                shown.push(Shown { entry, version, about, at });
            }
            Ok::<_, DbError>(shown)
        });
        Ok(shown.await?)
    }
}
