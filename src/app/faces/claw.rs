//! What ClawHub's v1 API tells of skills, in its own names and shapes (milliseconds, camelCase).
//!
//! Yanked versions are what is soft-deleted there: in no list, and gone (410) when asked for by name. The license is
//! left out: that API knows only the one that its own terms demand.

use std::collections::BTreeMap;

use semver::Version;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{Candidate, Shown, Slug, Which, latest, open};
use crate::{
    app::{
        Result,
        hive::Hive,
        skills::{Archive, SkillFilter, blocking},
        types::AppError,
    },
    ids::{AgentId, SkillId},
    registry::index::VersionEntry,
};

/// A skill as lists and its own page show it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClawSkill {
    /// Its id.
    pub slug: String,
    /// Its name for people.
    pub display_name: String,
    /// What it enables.
    pub summary: String,
    /// Its tags.
    pub topics: Vec<String>,
    /// Versions by tag: `latest` alone.
    pub tags: BTreeMap<String, String>,
    /// Empty: nothing is counted here.
    pub stats: BTreeMap<String, u64>,
    /// When its first version came, in milliseconds since 1970.
    pub created_at: i64,
    /// When a version came or changed last, in milliseconds since 1970.
    pub updated_at: i64,
}

/// A version as lists show it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClawVersion {
    /// Its version.
    pub version: String,
    /// When it was published, in milliseconds since 1970.
    pub created_at: i64,
    /// Why it is deprecated, if it is; else empty.
    pub changelog: String,
}

/// A skill of a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClawListed {
    /// The skill.
    #[serde(flatten)]
    pub skill: ClawSkill,
    /// Its newest version.
    pub latest_version: ClawVersion,
}

/// Whose a skill is, or who calls.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClawOwner {
    /// `built-in`, `operator` or an agent.
    pub handle: String,
    /// The same.
    pub display_name: String,
    /// None.
    pub image: Option<String>,
}

/// A skill's own page.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClawDetail {
    /// The skill.
    pub skill: ClawSkill,
    /// Its newest version; null when all are yanked.
    pub latest_version: Option<ClawVersion>,
    /// Whose it is.
    pub owner: ClawOwner,
    /// Null: nothing that is shown is flagged.
    pub moderation: Option<BTreeMap<String, bool>>,
}

/// A skill that a search found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClawHit {
    /// One over its place among the results: only the order is known.
    pub score: f64,
    /// Its id.
    pub slug: String,
    /// Its name for people.
    pub display_name: String,
    /// What it enables.
    pub summary: String,
    /// Its newest version.
    pub version: String,
    /// When a version came or changed last, in milliseconds since 1970.
    pub updated_at: i64,
    /// `built-in`, `operator` or an agent.
    pub owner_handle: String,
    /// The same.
    pub owner: ClawOwner,
}

/// A file of a version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ClawFile {
    /// Relative to the skill's folder.
    pub path: String,
    /// Bytes.
    pub size: u64,
    /// SHA-256 of its content, in hex.
    pub sha256: String,
}

/// A version with its files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClawVersionDetail {
    /// The version.
    #[serde(flatten)]
    pub version: ClawVersion,
    /// By path.
    pub files: Vec<ClawFile>,
}

/// Which version a folder is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClawResolved {
    /// The skill.
    pub slug: String,
    /// The version whose files have that fingerprint; null when there is none.
    #[serde(rename = "match")]
    pub matched: Option<ClawNamed>,
    /// The newest version; null when all are yanked.
    pub latest_version: Option<ClawNamed>,
}

/// A version's name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ClawNamed {
    /// Its version.
    pub version: String,
}

/// In which order skills are listed. Nothing is counted here, so that orders by stars and downloads are those by time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub enum ClawSort {
    /// What changed last comes first.
    #[default]
    Updated,
    /// As `updated`.
    #[serde(alias = "default")]
    Recommended,
    /// What came last comes first.
    #[serde(alias = "newest")]
    CreatedAt,
    /// By slug.
    Name,
    /// As `updated`.
    #[serde(alias = "installs", alias = "installsCurrent", alias = "installsAllTime")]
    Downloads,
    /// As `updated`.
    #[serde(alias = "rating")]
    Stars,
    /// As `updated`.
    Trending,
}

impl Shown {
    fn skill(&self) -> ClawSkill {
        let entry = &self.entry;
        let tags = latest(entry).map(|v| ("latest".to_owned(), v.version.to_string()));
        ClawSkill {
            slug: entry.id.to_string(),
            display_name: self.about.name.clone(),
            summary: self.about.description.clone(),
            topics: self.about.tags.clone(),
            tags: tags.into_iter().collect(),
            stats: BTreeMap::new(),
            created_at: entry.registered_at.as_millisecond(),
            updated_at: entry.updated_at.as_millisecond(),
        }
    }

    fn version(&self) -> ClawVersion {
        ClawVersion {
            version: self.version.version.to_string(),
            created_at: self.at.as_millisecond(),
            changelog: self
                .version
                .deprecated
                .as_ref()
                .map(|why| format!("Deprecated: {why}"))
                .unwrap_or_default(),
        }
    }
}

/// Who a handle is.
#[must_use]
pub fn whoami(caller: Option<&AgentId>) -> ClawOwner {
    named(caller.map_or("operator", AgentId::as_str).to_owned())
}

fn named(handle: String) -> ClawOwner {
    ClawOwner { display_name: handle.clone(), handle, image: None }
}

impl Hive {
    /// Every skill that others may use and whose slug begins with `prefix`, in order.
    #[must_use]
    pub fn claw_skills(&self, sort: ClawSort, prefix: &str) -> Vec<Candidate> {
        let world = self.world();
        let named = world.index.skills.values().filter(|entry| entry.id.as_str().starts_with(prefix));
        let mut all: Vec<Candidate> = named.filter_map(Candidate::of).collect();
        match sort {
            ClawSort::Name => {}
            ClawSort::CreatedAt => all.sort_by_key(|c| std::cmp::Reverse(c.entry.registered_at)),
            _ => all.sort_by_key(|c| std::cmp::Reverse(c.entry.updated_at)),
        }
        all
    }

    /// A page of them as it is shown.
    ///
    /// # Errors
    /// The database fails.
    pub async fn claw_listed(&self, page: Vec<Candidate>) -> Result<Vec<ClawListed>> {
        let shown = self.shown(page.into_iter().map(|c| (c.entry, c.version)).collect()).await?;
        Ok(shown.iter().map(|s| ClawListed { skill: s.skill(), latest_version: s.version() }).collect())
    }

    /// At most `limit` skills with these words, the best first; with `exact` the one of that slug.
    ///
    /// # Errors
    /// The database fails.
    pub async fn claw_search(&self, q: &str, exact: bool, limit: usize) -> Result<Vec<ClawHit>> {
        let found: Vec<Candidate> = if exact {
            let world = self.world();
            let entry = q.trim().parse::<SkillId>().ok().and_then(|id| world.index.skills.get(&id));
            entry.and_then(Candidate::of).into_iter().collect()
        } else {
            let filter = SkillFilter { q: Some(q.to_owned()), ..SkillFilter::default() };
            let found = self.skills(filter).await?;
            found.iter().filter_map(|f| Candidate::of(f.entry())).take(limit).collect()
        };
        let shown = self.shown(found.into_iter().map(|c| (c.entry, c.version)).collect()).await?;
        let hits = shown.iter().enumerate().map(|(place, s)| ClawHit {
            score: 1.0 / (place as f64 + 1.0),
            slug: s.entry.id.to_string(),
            display_name: s.about.name.clone(),
            summary: s.about.description.clone(),
            version: s.version.version.to_string(),
            updated_at: s.entry.updated_at.as_millisecond(),
            owner_handle: s.entry.owner.clone().into(),
            owner: named(s.entry.owner.clone().into()),
        });
        Ok(hits.collect())
    }

    /// A skill's own page.
    ///
    /// # Errors
    /// There is none that others may use; the database fails.
    pub async fn claw_skill(&self, slug: &Slug) -> Result<ClawDetail> {
        let entry = self.open_skill(slug)?;
        let newest = latest(&entry);
        // With all versions yanked, the skill is still told of.
        let version = newest.or_else(|| open(&entry).max_by_key(|v| v.rank())).cloned();
        let asked = version.map(|version| (entry.clone(), version)).into_iter().collect();
        let shown = self.shown(asked).await?.pop().ok_or_else(|| gone(&slug.id))?;
        Ok(ClawDetail {
            skill: shown.skill(),
            latest_version: newest.map(|_| shown.version()),
            owner: named(entry.owner.clone().into()),
            moderation: None,
        })
    }

    /// The versions of a skill, newest first.
    ///
    /// # Errors
    /// There is no such skill that others may use; the database fails.
    pub async fn claw_versions(&self, slug: &Slug) -> Result<Vec<ClawVersion>> {
        let entry = self.open_skill(slug)?;
        let asked: Vec<_> = open(&entry).filter(|v| !v.yanked).map(|v| (entry.clone(), v.clone())).collect();
        Ok(self.shown(asked).await?.iter().rev().map(Shown::version).collect())
    }

    /// A version with its files, and the name of its skill.
    ///
    /// # Errors
    /// Others may not use it; it is yanked; its content is missing or altered; the database fails.
    pub async fn claw_version(&self, slug: &Slug, which: &Which) -> Result<(ClawVersionDetail, String)> {
        let (entry, version) = self.open_version(slug, which)?;
        let files = self.files(&slug.id, &version).await?;
        let files = files.list().into_iter().map(|(path, info)| ClawFile {
            path: path.to_owned(),
            size: info.size,
            sha256: hex::encode(info.digest),
        });
        let shown = self.shown(vec![(entry, version)]).await?.pop().ok_or_else(|| gone(&slug.id))?;
        Ok((ClawVersionDetail { version: shown.version(), files: files.collect() }, shown.about.name))
    }

    /// One file.
    ///
    /// # Errors
    /// There is none; others may not use the version; it is yanked; its content is missing.
    pub async fn claw_file(&self, slug: &Slug, which: &Which, path: &str) -> Result<Vec<u8>> {
        let (_, version) = self.open_version(slug, which)?;
        let (files, name) = (self.files(&slug.id, &version).await?, path.to_owned());
        let read = blocking(move || files.read(&name)).await??;
        read.ok_or_else(|| {
            AppError::NotFound(format!("{}@{} has no file {path:?}", slug.id, version.version))
        })
    }

    /// A version as a zip, and its name.
    ///
    /// # Errors
    /// Others may not use it; it is yanked; its content is missing or altered.
    pub async fn claw_download(&self, slug: &Slug, which: &Which) -> Result<(Version, Archive)> {
        let (_, version) = self.open_version(slug, which)?;
        let zip = self.zip(&slug.id, &version).await?;
        Ok((version.version, zip))
    }

    /// Which version has this fingerprint; the newest of several. Yanked ones count, so that who has one learns of it.
    ///
    /// # Errors
    /// There is no such skill that others may use; content is missing or altered.
    pub async fn claw_resolve(&self, slug: &Slug, fingerprint: &[u8; 32]) -> Result<ClawResolved> {
        let entry = self.open_skill(slug)?;
        let name = |v: &VersionEntry| ClawNamed { version: v.version.to_string() };
        let versions: Vec<&VersionEntry> = open(&entry).collect();
        let mut matched = None;
        for version in versions.into_iter().rev() {
            if self.artifact(&slug.id, version).await?.fingerprints.contains(fingerprint) {
                matched = Some(name(version));
                break;
            }
        }
        Ok(ClawResolved { slug: slug.id.to_string(), matched, latest_version: latest(&entry).map(name) })
    }
}

fn gone(id: &SkillId) -> AppError {
    AppError::NotFound(format!("{id} is no longer in the registry"))
}
