//! What is said about published versions: yanked, deprecated, approved, rejected; enabling and deleting skills.
//!
//! Never changes what a version is. An agent may withdraw what it owns; it never judges.

use std::sync::Arc;

use serde_json::{Value, json};

use super::list::{find, version_view};
use crate::{
    app::{
        Result, agent_skills,
        hive::Hive,
        types::{AppError, SkillVersionView, SkillView},
        world::World,
    },
    db,
    ids::{AgentId, SkillId},
    registry::index::{Owner, SkillEntry, Trust},
};

/// Characters of a message.
const MAX_MESSAGE: usize = 1_000;

/// What is said about a version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Hidden from new resolutions; locks still work.
    Yank,
    /// No longer hidden.
    Unyank,
    /// Whoever resolves it is warned with this message; none: no longer.
    Deprecate(Option<String>),
    /// Others may resolve it, and it is given what it asks for.
    Approve,
    /// Nobody resolves it; why, for its author.
    Reject(Option<String>),
}

impl Verdict {
    fn event(&self) -> &'static str {
        match self {
            Self::Yank => "skill:yanked",
            Self::Unyank => "skill:unyanked",
            Self::Deprecate(Some(_)) => "skill:deprecated",
            Self::Deprecate(None) => "skill:undeprecated",
            Self::Approve => "skill:approved",
            Self::Reject(_) => "skill:rejected",
        }
    }

    fn message(&self) -> Option<&String> {
        match self {
            Self::Deprecate(message) | Self::Reject(message) => message.as_ref(),
            Self::Yank | Self::Unyank | Self::Approve => None,
        }
    }

    /// An agent withdraws; what the operator withdrew it does not bring back.
    fn is_for_agents(&self) -> bool {
        matches!(self, Self::Yank | Self::Deprecate(_))
    }
}

impl Hive {
    /// Says something about a version; saying it again changes nothing.
    ///
    /// # Errors
    /// There is no such version; the caller may not; what was never an agent's is to be judged; the message is too
    /// long; the database fails.
    pub async fn judge_version(
        self: &Arc<Self>,
        caller: Option<&AgentId>,
        id: &SkillId,
        version: &semver::Version,
        verdict: Verdict,
    ) -> Result<SkillVersionView> {
        if verdict.message().is_some_and(|m| m.chars().count() > MAX_MESSAGE) {
            let detail = format!("a message has at most {MAX_MESSAGE} characters");
            return Err(AppError::Invalid { errors: vec![("/message".into(), detail.clone())], detail });
        }
        let _changing = self.registry.changing.lock().await;
        let world = self.world();
        let entry = find(&world, id)?;
        may_change(caller, entry, verdict.is_for_agents())?;
        let there = entry.versions.get(version).ok_or_else(|| no_version(entry, version))?;
        let judged = matches!(verdict, Verdict::Approve | Verdict::Reject(_));
        if judged && there.trust == Trust::Trusted {
            return Err(AppError::Conflict(format!(
                "{id}@{version} is {}'s own and trusted: only what agents wrote is approved or rejected; yank it to \
                 keep it from new resolutions",
                String::from(entry.owner.clone())
            )));
        }
        let mut after = there.clone();
        match &verdict {
            Verdict::Yank => after.yanked = true,
            Verdict::Unyank => after.yanked = false,
            Verdict::Deprecate(message) => after.deprecated.clone_from(message),
            Verdict::Approve => after.trust = Trust::Approved,
            Verdict::Reject(_) => after.trust = Trust::Rejected,
        }
        if after == *there {
            return Ok(version_view(there));
        }
        let data = json!({
            "skill": { "id": id, "version": version, "digest": there.digest },
            "by": by(caller),
            "reason": verdict.message(),
        });
        let author = match (&verdict, &entry.owner) {
            (Verdict::Reject(_), Owner::Agent(author)) => self.find_agent(author).ok(),
            _ => None,
        };
        let told = (id.clone(), version.clone(), verdict.message().cloned());
        let (name, id, version) = (verdict.event(), id.clone(), version.clone());
        self.change(&id.clone(), name, data, move |tx, now| match &verdict {
            Verdict::Yank => db::skills::set_yanked(tx, &id, &version, true, now),
            Verdict::Unyank => db::skills::set_yanked(tx, &id, &version, false, now),
            Verdict::Deprecate(message) => db::skills::deprecate(tx, &id, &version, message.as_deref(), now),
            Verdict::Approve => db::skills::set_trust(tx, &id, &version, Trust::Approved, now),
            Verdict::Reject(_) => db::skills::set_trust(tx, &id, &version, Trust::Rejected, now),
        })
        .await?;
        if let Some(author) = author {
            agent_skills::rejected(&author, &told.0, &told.1, told.2.as_deref()).await;
        }
        Ok(version_view(&after))
    }

    /// Enables or disables a whole skill: a disabled one is not resolved anew.
    ///
    /// # Errors
    /// There is none; the caller may not; the database fails.
    pub async fn enable_skill(
        self: &Arc<Self>,
        caller: Option<&AgentId>,
        id: &SkillId,
        enabled: bool,
    ) -> Result<SkillView> {
        may_change(caller, find(&self.world(), id)?, false)?;
        self.set_skill_enabled(caller, id, enabled).await?;
        self.skill(id)
    }

    /// As [`Self::enable_skill`], for a caller who may.
    pub(in crate::app) async fn set_skill_enabled(
        self: &Arc<Self>,
        caller: Option<&AgentId>,
        id: &SkillId,
        enabled: bool,
    ) -> Result<()> {
        let _changing = self.registry.changing.lock().await;
        if find(&self.world(), id)?.enabled == enabled {
            return Ok(());
        }
        let name = if enabled { "skill:enabled" } else { "skill:disabled" };
        let data = json!({ "skill": { "id": id }, "by": by(caller) });
        let skill = id.clone();
        self.change(id, name, data, move |tx, now| db::skills::set_enabled(tx, &skill, enabled, now)).await
    }

    /// Deletes a skill with all versions; none of them can be published again with other content.
    ///
    /// # Errors
    /// There is none; the caller may not; agents or skills use it, each named; it would come back from its source.
    pub async fn delete_skill(self: &Arc<Self>, caller: Option<&AgentId>, id: &SkillId) -> Result<()> {
        let _changing = self.registry.changing.lock().await;
        let world = self.world();
        let entry = find(&world, id)?;
        may_change(caller, entry, true)?;
        if entry.owner == Owner::BuiltIn {
            return Err(AppError::Conflict(format!("{id} is built in and cannot be deleted: disable it")));
        }
        self.must_be_unused(entry)?;
        let skill = id.clone();
        let sources = self.db.read(move |conn| db::skills::sources(conn, &skill)).await?;
        if let Some(source) = sources.iter().find(|s| entry.owner == Owner::Operator && self.has_source(s)) {
            return Err(AppError::Conflict(format!(
                "{id} has its source in {source}, from where it would come back: remove that folder first"
            )));
        }
        let data = json!({ "skill": { "id": id }, "by": by(caller) });
        let skill = id.clone();
        self.change(id, "skill:deleted", data, move |tx, _| db::skills::remove(tx, &skill)).await
    }

    /// Refuses while agents or other skills use it, each named.
    pub(in crate::app) fn must_be_unused(&self, entry: &SkillEntry) -> Result<()> {
        let users = users(&self.world(), entry);
        if users.is_empty() {
            return Ok(());
        }
        let names: Vec<&str> = users.iter().map(|(_, detail)| detail.as_str()).collect();
        let detail = format!("{} is in use: {}; take it away there first", entry.id, names.join("; "));
        Err(AppError::InUse { detail, errors: users })
    }

    fn has_source(&self, place: &str) -> bool {
        let config = self.world().config.clone();
        let folder = self.paths.root.join(place);
        config.registry.sources.iter().any(|source| folder.starts_with(self.paths.resolve(source)))
            && folder.is_dir()
    }

    /// Makes a change and tells of it in one transaction, then shows it. `changing` is held.
    async fn change(
        self: &Arc<Self>,
        id: &SkillId,
        event: &'static str,
        data: Value,
        work: impl FnOnce(&db::Tx<'_>, jiff::Timestamp) -> std::result::Result<bool, db::DbError> + Send + 'static,
    ) -> Result<()> {
        let (now, skill) = (self.now(), id.clone());
        let entry = self
            .db
            .write(move |tx| {
                if work(tx, now)? {
                    db::events::append(tx, now, event, &data)?;
                }
                db::skills::entry(tx, &skill)
            })
            .await?;
        self.take_up(vec![(id.clone(), entry)]).await;
        self.align_text().await;
        Ok(())
    }
}

fn by(caller: Option<&AgentId>) -> &str {
    caller.map_or("operator", AgentId::as_str)
}

fn may_change(caller: Option<&AgentId>, entry: &SkillEntry, withdraws: bool) -> Result<()> {
    let Some(agent) = caller else { return Ok(()) };
    if !withdraws {
        return Err(AppError::Forbidden(format!("agent {agent} may not do this; it is the operator's")));
    }
    if entry.owner != Owner::Agent(agent.clone()) {
        return Err(AppError::Forbidden(format!(
            "the skill {} belongs to {}, not to agent {agent}",
            entry.id,
            String::from(entry.owner.clone())
        )));
    }
    Ok(())
}

/// There is the skill, but not that version of it.
pub(super) fn no_version(entry: &SkillEntry, version: &semver::Version) -> AppError {
    let there: Vec<String> = entry.versions.keys().rev().take(5).map(ToString::to_string).collect();
    AppError::NotFound(format!("{} has no version {version}; it has {}", entry.id, there.join(", ")))
}

/// Who needs a skill: agents that have, lock or name it, and skills that depend on it.
fn users(world: &World, entry: &SkillEntry) -> Vec<(String, String)> {
    let id = &entry.id;
    let agents = world.config.agents.values().filter_map(|agent| {
        let locked = world.lock.agents.get(&agent.id).and_then(|locked| locked.get(id));
        let named = agent.skills.iter().find(|r| r.id == *id);
        let how = match (locked, named) {
            // That its author has it by itself is no use.
            (Some(_), None) if entry.owner == Owner::Agent(agent.id.clone()) => return None,
            (Some(locked), _) => format!("agent {} has {id}@{}", agent.id, locked.version),
            (None, Some(named)) => format!("agent {} names {named} in skep.toml", agent.id),
            (None, None) => return None,
        };
        Some((format!("/agents/{}", agent.id), how))
    });
    let skills = world.index.skills.values().filter(|other| other.id != *id).filter_map(|other| {
        let usable = other.versions.values().rev().filter(|v| !v.yanked && v.trust != Trust::Rejected);
        let by = usable.into_iter().find(|v| v.dependencies.iter().any(|d| d.id == *id))?;
        Some((format!("/skills/{}", other.id), format!("skill {}@{} needs it", other.id, by.version)))
    });
    agents.chain(skills).collect()
}
