//! Publishing: a staged copy becomes a version of the registry, durably, once.
//!
//! What an agent can write is never looked at here: callers stage a copy first (`Store::stage`, `Store::stage_files`).
//! Nothing of a refused version stays.

use std::sync::Arc;

use semver::Version;
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;
use utoipa::ToSchema;

use super::{
    batch::{Waiting, publish_batch},
    text::content,
};
use crate::{
    app::{
        Result,
        hive::Hive,
        jobs::OnceKey,
        sync::model_limits,
        types::{AppError, fault_pair},
    },
    config::model::AgentSkills,
    error::Fault,
    ids::{Digest, SkillId},
    registry::{
        index::{Owner, Trust},
        staging::Staged,
    },
    skill::{
        self,
        model::{Shape, Skill},
        source::{MANIFEST, SKILL_MD},
    },
};

/// Versions that are stored and registered together.
const BATCH: usize = 128;

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
    /// The version of a SKILL.md that states none, which nobody may have published before; none: the next one, or that
    /// of the same content.
    pub version: Option<Version>,
    /// How far it is trusted, when that does not follow from its publisher.
    pub trust: Option<Trust>,
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

/// What was judged good.
#[derive(Clone)]
pub(super) struct Judged {
    pub(super) skill: Skill,
    pub(super) digest: Digest,
    pub(super) publisher: Owner,
    pub(super) how: PublishOptions,
    pub(super) trust: Trust,
    pub(super) warnings: Vec<String>,
    /// What searches look through.
    pub(super) text: String,
}

impl Hive {
    /// Makes a staged copy a version of the registry. When this answers, it survives a power loss, and the registry
    /// shows it.
    ///
    /// # Errors
    /// Everything that is wrong with it (422), an id of somebody else's (403 to an agent, else 409), a version that
    /// exists with other content or is not newer than all others (409), a disk or database that fails (503).
    pub async fn publish(
        self: &Arc<Self>,
        publisher: &Owner,
        staged: Staged,
        how: PublishOptions,
    ) -> Result<Published> {
        let (staged, judged) = self.judge(publisher, staged, how).await?;
        let (answer, answered) = oneshot::channel();
        self.registry.waiting().push(Waiting::new(judged, staged, answer));
        // On its own, so that no caller who goes away takes others' versions along.
        let hive = self.clone();
        tokio::spawn(async move {
            let _changing = hive.registry.changing.lock().await;
            let batch = hive.registry.take_waiting(BATCH);
            if !batch.is_empty() {
                publish_batch(&hive, batch).await;
            }
        });
        let lost = || Err(AppError::Internal("publishing failed; the log tells why".into()));
        answered.await.unwrap_or_else(|_| lost())
    }

    /// Reads and checks a copy; tells everything that is wrong with it together.
    async fn judge(
        &self,
        publisher: &Owner,
        staged: Staged,
        how: PublishOptions,
    ) -> Result<(Staged, Judged)> {
        let world = self.world();
        let registry = &world.config.registry;
        let limits = model_limits(registry.limits);
        let trust = how.trust.unwrap_or(match (publisher, registry.agent_skills) {
            (Owner::BuiltIn | Owner::Operator, _) => Trust::Trusted,
            (Owner::Agent(_), AgentSkills::Auto) => Trust::Approved,
            (Owner::Agent(_), AgentSkills::Manual) => Trust::Pending,
        });
        let (staged, report, text) = tokio::task::spawn_blocking(move || {
            let report = skill::load::read(staged.source(), limits);
            let read = |path: &str| staged.read(path).ok().flatten();
            let text = report.skill.as_ref().map(|skill| content(skill, read));
            (staged, report, text.unwrap_or_default())
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
                let (digest, publisher) = (staged.digest(), publisher.clone());
                Ok((staged, Judged { skill, digest, publisher, how, trust, warnings, text }))
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
