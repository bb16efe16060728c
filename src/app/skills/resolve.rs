//! What references resolve to, and leaving locked versions behind on request.

use std::time::Duration;

use crate::{
    app::{
        hive::Hive,
        types::{AppError, ChangeView, LockedView, ResolveView, UpdateRequest},
        world::{UpdateScope, World, read_lock, resolve_all},
    },
    ids::{AgentId, SkillId, SkillRef},
    resolver::{
        explain::explain,
        lock,
        solve::{Request, Resolution, Update, solve},
    },
    supervisor::{agent::Agent, state::Wanted},
};

impl Hive {
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
        let changes: Vec<ChangeView> = lock::diff(&lock, &next).into_iter().map(Into::into).collect();
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
    pub(super) async fn settled(&self) {
        let world = self.world();
        let prepared = |agent: &Agent| {
            let state = agent.state();
            state.prepared_for >= world.due(&agent.id) && !state.busy || state.wanted != Some(Wanted::Running)
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
        own: resolution.own.contains(id),
    });
    ResolveView {
        agent: agent.map(ToString::to_string),
        locked: locked.collect(),
        warnings: resolution.warnings.clone(),
        error: None,
        explanation: explained.then(|| explain(resolution)),
    }
}

impl From<lock::Change> for ChangeView {
    fn from(change: lock::Change) -> Self {
        Self {
            agent: change.agent.to_string(),
            id: change.id.to_string(),
            from: change.from.map(|v| v.to_string()),
            to: change.to.map(|v| v.to_string()),
        }
    }
}
