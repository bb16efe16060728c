//! Back to versions that an agent had before: the lock of an earlier time, swapped without a restart.

use std::sync::Arc;

use semver::Version;

use super::judge::no_version;
use crate::{
    app::{
        Result,
        hive::Hive,
        types::{AppError, ChangeView, RollbackRequest},
        world::{UpdateScope, World, resolve_one},
    },
    db,
    ids::{AgentId, SkillId},
    resolver::lock::{self, Lock, Locked, LockedAgent},
};

/// States of a lock that are looked through.
const LOOKED_AT: usize = 100;

impl Hive {
    /// Gives an agent what it had before: everything, or one skill, or one skill in a certain version.
    ///
    /// # Errors
    /// There is no such agent or version; there is nothing to go back to; `skep.toml` no longer admits it.
    pub async fn rollback(
        self: &Arc<Self>,
        agent: &AgentId,
        to: &RollbackRequest,
    ) -> Result<Vec<ChangeView>> {
        self.find_agent(agent)?;
        let name = agent.clone();
        // Behind what is still being written of it.
        let history = self.db.write(move |tx| db::lock_history::recent(tx, &name, LOOKED_AT)).await?;
        let changes = {
            let _changing = self.registry.changing.lock().await;
            let world = self.world();
            let config = world
                .config
                .agents
                .get(agent)
                .ok_or_else(|| AppError::Conflict(format!("agent {agent} is no longer in skep.toml")))?;
            let now = world.lock.agents.get(agent).cloned().unwrap_or_default();
            let wanted = self.wanted(agent, &now, &history, to)?;
            if !to.force {
                not_yanked(&world, &now, &wanted)?;
            }
            let (resolution, locked) =
                resolve_one(config, &world.index, Some(&wanted), &UpdateScope::default());
            let resolution = resolution
                .map_err(|why| AppError::Conflict(format!("agent {agent} cannot go back: {why}")))?;
            if let Some((id, missed)) = wanted.iter().find(|(id, l)| locked.get(*id).is_some_and(|n| n != *l))
            {
                return Err(AppError::Conflict(format!(
                    "agent {agent} cannot go back to {id}@{}: what skep.toml names does not admit it; change it there",
                    missed.version
                )));
            }
            let (old, new) = (one(agent, now), one(agent, locked.clone()));
            let changes = lock::diff(&old, &new);
            if !changes.is_empty() {
                self.lock_agent(agent, locked, resolution);
            }
            changes
        };
        if !changes.is_empty() {
            self.wake.notify_one();
            self.resettle_jobs().await;
            self.settled().await;
        }
        Ok(changes.into_iter().map(Into::into).collect())
    }

    /// The lock to go back to.
    fn wanted(
        &self,
        agent: &AgentId,
        now: &LockedAgent,
        history: &[LockedAgent],
        to: &RollbackRequest,
    ) -> Result<LockedAgent> {
        let Some(id) = &to.skill else {
            if to.version.is_some() {
                let detail = "a version to go back to needs the skill that it is of".to_owned();
                return Err(AppError::Invalid { errors: vec![("/version".into(), detail.clone())], detail });
            }
            let before = history.iter().skip_while(|state| *state == now).find(|state| *state != now);
            return before.cloned().ok_or_else(|| {
                AppError::Conflict(format!(
                    "agent {agent} has had no other skills yet: there is nothing to go back to"
                ))
            });
        };
        let (id, version) = named(id, to.version.as_deref())?;
        let current = now.get(&id).ok_or_else(|| {
            AppError::NotFound(format!("agent {agent} has no skill {id}; see GET /v1/agents/{agent}"))
        })?;
        let world = self.world();
        let entry = super::list::find(&world, &id)?;
        let earlier = match version {
            Some(version) => {
                let there = entry.versions.get(&version).ok_or_else(|| no_version(entry, &version))?;
                Locked { version, digest: there.digest }
            }
            None => {
                let states = history.iter().filter_map(|state| state.get(&id));
                states.into_iter().find(|locked| *locked != current).cloned().ok_or_else(|| {
                    AppError::Conflict(format!(
                        "agent {agent} has had no other version of {id} than {}",
                        current.version
                    ))
                })?
            }
        };
        let mut wanted = now.clone();
        wanted.insert(id, earlier);
        Ok(wanted)
    }
}

/// Refuses to bring a yanked version back: it was withdrawn for a reason.
fn not_yanked(world: &World, now: &LockedAgent, wanted: &LockedAgent) -> Result<()> {
    let comes_back = |(id, locked): &(&SkillId, &Locked)| {
        let yanked = world.index.version(id, &locked.version).is_some_and(|version| version.yanked);
        yanked && now.get(*id) != Some(*locked)
    };
    match wanted.iter().find(comes_back) {
        Some((id, locked)) => Err(AppError::Conflict(format!(
            "{id}@{} is yanked: name another version, or add `force` (--force) to go back to it all the same",
            locked.version
        ))),
        None => Ok(()),
    }
}

fn one(agent: &AgentId, locked: LockedAgent) -> Lock {
    Lock { agents: [(agent.clone(), locked)].into() }
}

fn named(id: &str, version: Option<&str>) -> Result<(SkillId, Option<Version>)> {
    let wrong = |pointer: &str, detail: String| AppError::Invalid {
        errors: vec![(pointer.to_owned(), detail.clone())],
        detail,
    };
    let id: SkillId = id.parse().map_err(|e: crate::ids::InvalidName| wrong("/skill", e.0))?;
    let version = version.map(|text| {
        text.parse::<Version>().map_err(|e| wrong("/version", format!("{text:?} is no version: {e}")))
    });
    Ok((id, version.transpose()?))
}
