//! Publishing: a staged copy becomes a version of the registry, durably, once.
//!
//! What an agent can write is never looked at here: callers stage a copy first (`Store::stage`, `Store::stage_files`).
//! Nothing of a refused version stays.

use semver::Version;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::trust_name;
use crate::{
    app::{
        Result,
        hive::Hive,
        jobs::{OnceKey, once},
        sync::{announce, model_limits},
        types::{AppError, fault_pair},
        world::UpdateScope,
    },
    config::model::AgentSkills,
    db::{
        self,
        skills::{NewVersion, RegisterError, Registered},
    },
    error::Fault,
    ids::{Digest, SkillId},
    registry::{
        index::{Owner, SkillEntry, Trust},
        staging::Staged,
        store::StoreError,
    },
    skill::{
        self,
        model::{Shape, Skill},
        source::{MANIFEST, SKILL_MD},
    },
};

/// What may be published at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Only {
    /// The first version of a skill that is not there yet; else 409.
    NewSkill,
    /// A further version of a skill that is there; else 404.
    NewVersion,
}

/// How a version is published.
#[derive(Debug, Clone, Default)]
pub struct PublishOptions {
    /// Where it came from, for people: `upload`, `skills/x`, `agent writer`.
    pub source: String,
    /// Also when it is not newer than all others.
    pub allow_older: bool,
    /// Only a new skill, or only a further version; none: both.
    pub only: Option<Only>,
    /// The id that it must have.
    pub expect_id: Option<SkillId>,
    /// Also what is odd but loads is an error.
    pub strict: bool,
    /// A repeat under this key is answered the same.
    pub key: Option<OnceKey>,
}

/// What publishing did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// The first version of a new skill.
    Created,
    /// A further version.
    Updated,
    /// The same content was there already; nothing changed.
    Same,
}

/// A published version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Published {
    /// The skill.
    pub id: String,
    /// Its version; a SKILL.md without one was given it.
    pub version: String,
    /// `sha256:…` of its content.
    pub digest: String,
    /// What was done.
    pub outcome: Outcome,
    /// `trusted`, `approved`, `pending`, `rejected`.
    pub trust: String,
    /// What is odd about it, but loads.
    pub warnings: Vec<String>,
}

/// A version that was judged and waits to be stored.
struct Judged {
    skill: Skill,
    staged: Staged,
    publisher: Owner,
    how: PublishOptions,
    trust: Trust,
    warnings: Vec<String>,
}

/// What a version becomes, by the rules alone.
#[derive(Debug, PartialEq, Eq)]
struct Decided {
    version: Version,
    same: bool,
}

impl Hive {
    /// Makes a staged copy a version of the registry. When this answers, it survives a power loss, and the registry
    /// shows it.
    ///
    /// # Errors
    /// Everything that is wrong with it (422), an id of somebody else's (403 to an agent, else 409), a version that
    /// exists with other content or is not newer than all others (409), a disk or database that fails (503).
    pub async fn publish(&self, publisher: &Owner, staged: Staged, how: PublishOptions) -> Result<Published> {
        let judged = self.judge(publisher, staged, how).await?;
        let now = self.now();
        let store = self.store.clone();
        let Judged { skill, staged, publisher, how, trust, warnings } = judged;
        let digest = staged.digest();
        tokio::task::spawn_blocking(move || store.put(staged))
            .await
            .map_err(|e| AppError::Internal(format!("storing failed: {e}")))??;
        let published = self
            .db
            .write(move |tx| {
                once(tx, how.key.as_ref(), now, || {
                    let entry = db::skills::entry(tx, &skill.id)?;
                    let retired = db::skills::retired(tx, &skill.id)?;
                    let decided = decide(&skill, digest, &publisher, &how, entry.as_ref(), &retired)?;
                    let new = NewVersion {
                        skill: Skill { version: decided.version, ..skill },
                        digest,
                        owner: publisher,
                        trust,
                        source: how.source.clone(),
                    };
                    let outcome = db::skills::register(tx, &new, now)?;
                    if outcome != Registered::Same {
                        announce(tx, &new, outcome)?;
                    }
                    let known = entry.and_then(|e| e.versions.get(&new.skill.version).map(|v| v.trust));
                    Ok(Published {
                        id: new.skill.id.to_string(),
                        version: new.skill.version.to_string(),
                        digest: digest.to_string(),
                        outcome: outcome.into(),
                        trust: trust_name(known.unwrap_or(trust)),
                        warnings,
                    })
                })
            })
            .await?;
        self.refresh(&UpdateScope::default()).await;
        Ok(published)
    }

    /// Reads and checks a copy; tells everything that is wrong with it together.
    async fn judge(&self, publisher: &Owner, staged: Staged, how: PublishOptions) -> Result<Judged> {
        let world = self.world();
        let registry = &world.config.registry;
        let limits = model_limits(registry.limits);
        let trust = match (publisher, registry.agent_skills) {
            (Owner::BuiltIn | Owner::Operator, _) => Trust::Trusted,
            (Owner::Agent(_), AgentSkills::Auto) => Trust::Approved,
            (Owner::Agent(_), AgentSkills::Manual) => Trust::Pending,
        };
        let (staged, report) = tokio::task::spawn_blocking(move || {
            let report = skill::load::read(staged.source(), limits);
            (staged, report)
        })
        .await
        .map_err(|e| AppError::Internal(format!("checking the skill failed: {e}")))?;
        let mut errors = if how.strict { report.strict() } else { report.errors };
        if let (Some(skill), Some(expected)) = (&report.skill, &how.expect_id)
            && skill.id != *expected
        {
            let file = if skill.shape == Shape::SkillMd { SKILL_MD } else { MANIFEST };
            errors.push(Fault::new(file, format!("the id is {}, expected was {expected}", skill.id)));
        }
        let warnings = report.warnings.iter().map(ToString::to_string).collect();
        match report.skill {
            Some(skill) if errors.is_empty() => {
                Ok(Judged { skill, staged, publisher: publisher.clone(), how, trust, warnings })
            }
            _ => Err(invalid(&errors)),
        }
    }
}

/// Faults of a skill as a refusal.
fn invalid(faults: &[Fault]) -> AppError {
    let errors: Vec<_> = faults.iter().map(fault_pair).collect();
    let first = faults.first().map(ToString::to_string).unwrap_or_default();
    let detail = match errors.len() {
        0 | 1 => format!("the skill is refused: {first}"),
        many => format!("the skill is refused for {many} reasons, the first one: {first}"),
    };
    AppError::Invalid { detail, errors }
}

/// Which version this is, and whether it is there already. `retired`: what was deleted, never to be reused.
fn decide(
    skill: &Skill,
    digest: Digest,
    publisher: &Owner,
    how: &PublishOptions,
    entry: Option<&SkillEntry>,
    retired: &[(Version, Digest)],
) -> Result<Decided> {
    let id = &skill.id;
    match (entry, how.only) {
        (Some(entry), _) if entry.owner != *publisher => return Err(not_owned(id, &entry.owner, publisher)),
        (Some(_), Some(Only::NewSkill)) => {
            return Err(AppError::Conflict(format!(
                "there is a skill {id} already: publish a new version of it, or choose another id"
            )));
        }
        (None, Some(Only::NewVersion)) => {
            return Err(AppError::NotFound(format!(
                "there is no skill {id} in the registry: register it first (POST /v1/skills)"
            )));
        }
        _ => {}
    }
    let there = entry.into_iter().flat_map(|e| e.versions.values().map(|v| (&v.version, v.digest)));
    let all: Vec<(&Version, Digest)> = there.chain(retired.iter().map(|(v, d)| (v, *d))).collect();
    let version = if skill.shape == Shape::SkillMd && skill.version == Version::new(0, 0, 0) {
        version_for(digest, &all)
    } else {
        skill.version.clone()
    };
    let known = entry.and_then(|e| e.versions.get(&version));
    if let Some((_, published)) = all.iter().find(|(v, d)| **v == version && *d != digest) {
        let refused = RegisterError::OtherContent {
            skill: format!("{id}@{version}"),
            published: *published,
            given: digest,
        };
        return Err(refused.into());
    }
    let newest = entry.and_then(|e| e.versions.keys().next_back());
    if let (None, Some(newest), false) = (known, newest.filter(|n| **n > version), how.allow_older) {
        return Err(AppError::Conflict(format!(
            "{id}@{version} is not newer than {newest}: give it a higher version, or allow an older one \
             (?allow_older=true)"
        )));
    }
    Ok(Decided { same: known.is_some(), version })
}

/// For a SKILL.md that states no version: that of the same content, else `0.0.0` and a patch more for each change
/// (contract.md 2).
fn version_for(digest: Digest, all: &[(&Version, Digest)]) -> Version {
    if let Some((same, _)) = all.iter().find(|(_, d)| *d == digest) {
        return (*same).clone();
    }
    let newest = all.iter().map(|(v, _)| *v).max();
    newest.map_or(Version::new(0, 0, 0), |v| Version::new(v.major, v.minor, v.patch + 1))
}

fn not_owned(id: &SkillId, owner: &Owner, publisher: &Owner) -> AppError {
    let owner = String::from(owner.clone());
    match publisher {
        Owner::Agent(agent) => AppError::Forbidden(format!(
            "the skill id {id} belongs to {owner}: agent {agent} may publish versions only of its own skills; choose \
             another id"
        )),
        Owner::Operator | Owner::BuiltIn => {
            AppError::Conflict(format!("the skill id {id} belongs to {owner}; choose another id"))
        }
    }
}

impl From<RegisterError> for AppError {
    fn from(error: RegisterError) -> Self {
        match error {
            RegisterError::Db(e) => e.into(),
            refused => Self::Conflict(refused.to_string()),
        }
    }
}

impl From<StoreError> for AppError {
    fn from(error: StoreError) -> Self {
        match &error {
            StoreError::Io { source, .. } => Self::Unavailable(format!("{error}: {source}")),
            StoreError::Missing(_) | StoreError::Altered { .. } => Self::Unavailable(error.to_string()),
        }
    }
}

impl From<Registered> for Outcome {
    fn from(registered: Registered) -> Self {
        match registered {
            Registered::NewSkill => Self::Created,
            Registered::NewVersion => Self::Updated,
            Registered::Same => Self::Same,
        }
    }
}
