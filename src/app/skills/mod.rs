//! Skills: listing, what references resolve to, publishing.

mod publish;

use std::time::Duration;

pub use publish::{Only, Outcome, PublishOptions, Published};

use crate::app::{
    hive::Hive,
    types::{AppError, ChangeView, LockedView, ResolveView, SkillVersionView, SkillView, UpdateRequest},
    world::{UpdateScope, World, read_lock, resolve_all},
};
use crate::{
    db,
    ids::{AgentId, SkillId, SkillRef},
    registry::index::{SkillEntry, Trust, VersionEntry},
    resolver::{
        explain::explain,
        lock,
        solve::{Request, Resolution, Update, solve},
    },
    skill::model::Skill,
    supervisor::{agent::Agent, state::Wanted},
};

/// Which skills a listing has.
#[derive(Debug, Clone, Default)]
pub struct SkillFilter {
    /// Of this owner.
    pub owner: Option<String>,
    /// With this tag.
    pub tag: Option<String>,
    /// With these words in id, name, description or tags.
    pub q: Option<String>,
    /// Disabled ones too.
    pub include_disabled: bool,
}

impl SkillFilter {
    fn admits(&self, view: &SkillView) -> bool {
        let words = |text: &str, q: &str| {
            let text = text.to_lowercase();
            q.to_lowercase().split_whitespace().all(|word| text.contains(word))
        };
        let text = || format!("{} {} {} {}", view.id, view.name, view.description, view.tags.join(" "));
        (self.include_disabled || view.enabled)
            && self.owner.as_ref().is_none_or(|owner| view.owner == *owner)
            && self.tag.as_ref().is_none_or(|tag| view.tags.contains(tag))
            && self.q.as_ref().is_none_or(|q| words(&text(), q))
    }
}

impl Hive {
    /// Skills by id.
    ///
    /// # Errors
    /// The database fails.
    pub async fn skills(&self, filter: SkillFilter) -> Result<Vec<SkillView>, AppError> {
        let world = self.world();
        let latest: Vec<_> = world
            .index
            .skills
            .values()
            .map(|entry| (entry.id.clone(), entry.latest().map(|v| v.version.clone())))
            .collect();
        let manifests = self
            .db
            .read(move |conn| {
                latest
                    .into_iter()
                    .map(|(id, version)| match version {
                        Some(version) => db::skills::manifest(conn, &id, &version),
                        None => Ok(None),
                    })
                    .collect::<Result<Vec<_>, db::DbError>>()
            })
            .await?;
        let views =
            world.index.skills.values().zip(manifests).map(|(e, m)| skill_view(&world, e, m.as_ref()));
        Ok(views.filter(|view| filter.admits(view)).collect())
    }

    /// One skill.
    ///
    /// # Errors
    /// There is none of that id, naming the nearest; or the database fails.
    pub async fn skill(&self, id: &SkillId) -> Result<SkillView, AppError> {
        let world = self.world();
        let Some(entry) = world.index.skills.get(id) else {
            let hint = world.index.nearest(id.as_str()).map(|n| format!("; did you mean {n}?"));
            return Err(AppError::NotFound(format!(
                "there is no skill {id} in the registry{}",
                hint.unwrap_or_default()
            )));
        };
        let manifest = match entry.latest() {
            Some(latest) => {
                let (id, version) = (id.clone(), latest.version.clone());
                self.db.read(move |conn| db::skills::manifest(conn, &id, &version)).await?
            }
            None => None,
        };
        Ok(skill_view(&world, entry, manifest.as_ref()))
    }

    /// What an agent has, or what a list of references would resolve to.
    ///
    /// # Errors
    /// There is no such agent; for a list, why there is no solution.
    pub async fn resolve(
        &self,
        agent: Option<&AgentId>,
        skills: &[SkillRef],
        explained: bool,
    ) -> Result<ResolveView, AppError> {
        let world = self.world();
        let Some(id) = agent else {
            let request = Request { agent: None, skills, lock: None, update: Update::None };
            let resolution =
                solve(&world.index, &request).map_err(|conflict| AppError::Conflict(conflict.to_string()))?;
            return Ok(resolve_view(None, &resolution, explained));
        };
        self.find_agent(id)?;
        match world.resolutions.get(id) {
            Some(Ok(resolution)) => Ok(resolve_view(Some(id), resolution, explained)),
            Some(Err(why)) => Ok(ResolveView {
                agent: Some(id.to_string()),
                locked: Vec::new(),
                warnings: Vec::new(),
                error: Some(why.clone()),
                explanation: None,
            }),
            None => Err(AppError::Conflict(format!("agent {id} is no longer in skep.toml"))),
        }
    }

    /// Re-resolves within the ranges of `skep.toml`, rewrites `skep.lock` and swaps; or only shows the changes.
    ///
    /// # Errors
    /// An unknown agent or skill, a `skep.lock` with faults, a set of skills that cannot be resolved.
    pub async fn update(&self, request: UpdateRequest) -> Result<Vec<ChangeView>, AppError> {
        let world = self.world();
        let scope = self.scope(&request, &world)?;
        let lock = read_lock(&self.paths.lock()).map_err(|faults| {
            let list: Vec<String> = faults.iter().map(ToString::to_string).collect();
            AppError::Conflict(format!("skep.lock cannot be read: {}", list.join("; ")))
        })?;
        let (resolutions, next) = resolve_all(&world.config, &world.index, &lock, &scope);
        let failed = resolutions.iter().find_map(|(id, r)| r.as_ref().err().map(|why| (id, why)));
        if let Some((id, why)) = failed {
            return Err(AppError::Conflict(format!("agent {id} cannot be resolved: {why}")));
        }
        let changes: Vec<ChangeView> = lock::diff(&lock, &next)
            .into_iter()
            .map(|change| ChangeView {
                agent: change.agent.to_string(),
                id: change.id.to_string(),
                from: change.from.map(|v| v.to_string()),
                to: change.to.map(|v| v.to_string()),
            })
            .collect();
        if !request.dry_run {
            self.refresh(&scope).await;
            // The driver may still be at work on the world before.
            if !changes.is_empty() {
                self.settled().await;
            }
        }
        Ok(changes)
    }

    /// Waits until every agent was prepared from the present world, half a minute at most.
    async fn settled(&self) {
        let generation = self.world().generation;
        let prepared = |agent: &Agent| {
            let state = agent.state();
            state.prepared_for >= generation && !state.busy || state.wanted != Some(Wanted::Running)
        };
        let wait = async {
            while !self.all_agents().iter().all(|agent| prepared(agent)) {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(30), wait).await.unwrap_or_default();
    }

    fn scope(&self, request: &UpdateRequest, world: &World) -> Result<UpdateScope, AppError> {
        let invalid = |detail: String| AppError::Invalid { detail, errors: Vec::new() };
        let mut scope = UpdateScope { agents: None, update: Update::All };
        if !request.agents.is_empty() {
            let parse = |name: &String| -> Result<AgentId, AppError> {
                let id: AgentId =
                    name.parse().map_err(|e: crate::ids::InvalidName| invalid(e.to_string()))?;
                self.find_agent(&id).map(|agent| agent.id.clone())
            };
            scope.agents = Some(request.agents.iter().map(parse).collect::<Result<_, _>>()?);
        }
        if !request.skills.is_empty() {
            let parse = |name: &String| -> Result<SkillId, AppError> {
                let id: SkillId =
                    name.parse().map_err(|e: crate::ids::InvalidName| invalid(e.to_string()))?;
                if world.index.skills.contains_key(&id) {
                    return Ok(id);
                }
                Err(AppError::NotFound(format!("there is no skill {id} in the registry")))
            };
            scope.update = Update::Only(request.skills.iter().map(parse).collect::<Result<_, _>>()?);
        }
        Ok(scope)
    }
}

fn resolve_view(agent: Option<&AgentId>, resolution: &Resolution, explained: bool) -> ResolveView {
    let locked = resolution.skills.iter().map(|(id, skill)| LockedView {
        id: id.to_string(),
        version: skill.version.to_string(),
        digest: skill.digest.to_string(),
    });
    ResolveView {
        agent: agent.map(ToString::to_string),
        locked: locked.collect(),
        warnings: resolution.warnings.clone(),
        error: None,
        explanation: explained.then(|| explain(resolution)),
    }
}

fn trust_name(trust: Trust) -> String {
    match trust {
        Trust::Trusted => "trusted",
        Trust::Approved => "approved",
        Trust::Pending => "pending",
        Trust::Rejected => "rejected",
    }
    .to_owned()
}

fn skill_view(world: &World, entry: &SkillEntry, latest: Option<&Skill>) -> SkillView {
    let version = |v: &VersionEntry| SkillVersionView {
        version: v.version.to_string(),
        digest: v.digest.to_string(),
        yanked: v.yanked,
        deprecated: v.deprecated.clone(),
        trust: trust_name(v.trust),
    };
    let name = latest.map_or_else(|| entry.id.to_string(), |s| s.name.clone());
    let owner: String = entry.owner.clone().into();
    SkillView {
        id: entry.id.to_string(),
        title: name.clone(),
        name,
        description: latest.map(|s| s.description.clone()).unwrap_or_default(),
        tags: latest.map(|s| s.tags.clone()).unwrap_or_default(),
        source: match &entry.owner {
            crate::registry::index::Owner::BuiltIn => "built-in",
            crate::registry::index::Owner::Operator => "user",
            crate::registry::index::Owner::Agent(_) => "agent",
        }
        .to_owned(),
        owner,
        versions: entry.versions.values().rev().map(version).collect(),
        latest_version: entry.latest().map(|v| v.version.to_string()),
        used_by: world.used_by().get(&entry.id).into_iter().flatten().map(ToString::to_string).collect(),
        enabled: entry.enabled,
        trust: entry.latest().map(|v| trust_name(v.trust)).unwrap_or_default(),
        registered_at: entry.registered_at.to_string(),
        updated_at: entry.updated_at.to_string(),
    }
}
