//! Agents: how they stand, starting and stopping, their prompt and soul.

use jiff::Timestamp;

use super::{
    hive::Hive,
    types::{AgentSkill, AgentView, AppError, HiveView, MainView, UnavailableSkill},
    world::{UpdateScope, World, write_atomically},
};
use crate::{
    config::model::{Agent as AgentConfig, Network},
    db::{self, agents::Desired},
    ids::AgentId,
    supervisor::{
        agent::Agent,
        soul::MAX_SOUL,
        state::{Status, Wanted},
    },
    wire::{MainReport, MainState},
};

impl From<db::DbError> for AppError {
    fn from(error: db::DbError) -> Self {
        AppError::Unavailable(error.to_string())
    }
}

impl Hive {
    /// The hive itself.
    #[must_use]
    pub fn view(&self) -> HiveView {
        let world = self.world();
        HiveView {
            name: self.name.to_string(),
            root: self.paths.root.display().to_string(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            started_at: self.started_at.to_string(),
            engine: self.engine_down().unwrap_or_else(|| "ok".to_owned()),
            config_faults: world.refused.iter().map(ToString::to_string).collect(),
            warnings: world
                .warnings
                .iter()
                .chain(&world.source_faults)
                .chain(&world.job_faults)
                .map(ToString::to_string)
                .collect(),
            progress: self.progress(),
        }
    }

    /// Whether the supervisor does its work; the reason when not.
    ///
    /// # Errors
    /// Why it does not.
    pub async fn ready(&self) -> Result<(), String> {
        if let Some(down) = self.engine_down() {
            return Err(down);
        }
        self.db.read(|conn| db::meta::get(conn, "hive_id")).await.map(|_| ()).map_err(|e| e.to_string())
    }

    /// Every agent, by name.
    pub async fn agents(&self) -> Vec<AgentView> {
        let world = self.world();
        self.all_agents().iter().map(|agent| view(agent, &world)).collect()
    }

    /// One agent.
    ///
    /// # Errors
    /// There is none of that name.
    pub async fn agent(&self, id: &AgentId) -> Result<AgentView, AppError> {
        Ok(view(&*self.find_agent(id)?, &self.world()))
    }

    /// Wants it running; kept across restarts of the supervisor.
    ///
    /// # Errors
    /// There is none of that name, or the database fails.
    pub async fn start_agent(&self, id: &AgentId) -> Result<(), AppError> {
        self.want(id, Desired::Running).await?;
        let agent = self.find_agent(id)?;
        {
            let mut state = agent.state();
            state.retry_at = None;
            state.failures = 0;
            if matches!(state.preparation, Some(Err(_))) {
                state.prepared_for = 0;
            }
        }
        self.wake.notify_one();
        Ok(())
    }

    /// Wants it stopped; kept across restarts of the supervisor.
    ///
    /// # Errors
    /// There is none of that name, or the database fails.
    pub async fn stop_agent(&self, id: &AgentId) -> Result<(), AppError> {
        self.want(id, Desired::Stopped).await
    }

    /// Wants a new container.
    ///
    /// # Errors
    /// There is none of that name, or the database fails.
    pub async fn restart_agent(&self, id: &AgentId) -> Result<(), AppError> {
        let agent = self.find_agent(id)?;
        let container = agent.state().container.clone();
        if let Some(container) = container {
            let (key, doomed) = (restart_key(id), container.clone());
            // Kept, so that a supervisor that dies now leaves the promise to the next.
            let kept: Result<(), db::DbError> =
                self.db.write(move |tx| db::meta::set(tx, &key, &doomed)).await;
            kept?;
            agent.state().restart = Some(container);
        }
        // A rebuilt image, for one, is only noticed by preparing again.
        agent.state().prepared_for = 0;
        self.start_agent(id).await
    }

    async fn want(&self, id: &AgentId, desired: Desired) -> Result<(), AppError> {
        let agent = self.find_agent(id)?;
        if agent.state().wanted.is_none() {
            return Err(AppError::Conflict(format!("agent {id} is no longer in skep.toml")));
        }
        let name = id.clone();
        self.db
            .write(move |tx| db::agents::set_desired(tx, &name, desired, Timestamp::now()).map(|_| ()))
            .await
            .map_err(|e: db::DbError| AppError::from(e))?;
        agent.wanted(desired);
        self.wake.notify_one();
        Ok(())
    }

    /// The prompt as the agent reads it, with secrets masked.
    ///
    /// # Errors
    /// There is none of that name, or it cannot be prepared.
    pub async fn prompt(&self, id: &AgentId) -> Result<String, AppError> {
        let agent = self.find_agent(id)?;
        let preparation = agent.preparation().ok_or_else(|| not_prepared(&agent))?;
        Ok(self.world().masker.mask_str(&preparation.shown_prompt).into_owned())
    }

    /// The agent's soul.
    ///
    /// # Errors
    /// It has none.
    pub async fn soul(&self, id: &AgentId) -> Result<String, AppError> {
        let (_, path) = self.soul_path(id)?;
        tokio::fs::read_to_string(&path)
            .await
            .map_err(|e| AppError::Unavailable(format!("cannot read {}: {e}", path.display())))
    }

    /// Replaces the agent's soul: the operator's file, and at once what the container sees.
    ///
    /// # Errors
    /// It has none, the text is too large, or the file cannot be written.
    pub async fn set_soul(&self, id: &AgentId, text: &str) -> Result<(), AppError> {
        let (_, path) = self.soul_path(id)?;
        if text.len() as u64 > MAX_SOUL {
            let detail = format!("a soul has at most {MAX_SOUL} bytes");
            return Err(AppError::Invalid { detail, errors: Vec::new() });
        }
        write_atomically(&path, text.as_bytes())
            .map_err(|e| AppError::Unavailable(format!("cannot write {}: {e}", path.display())))?;
        self.refresh(&UpdateScope::default()).await;
        Ok(())
    }

    fn soul_path(&self, id: &AgentId) -> Result<(AgentConfig, std::path::PathBuf), AppError> {
        self.find_agent(id)?;
        let world = self.world();
        let config = world.config.agents.get(id);
        let config =
            config.ok_or_else(|| AppError::Conflict(format!("agent {id} is no longer in skep.toml")))?;
        let soul = config.soul.as_ref().ok_or_else(|| {
            AppError::NotFound(format!("agent {id} has no soul; give it one with `soul = \"souls/{id}.md\"`"))
        })?;
        Ok((config.clone(), self.paths.resolve(soul)))
    }
}

/// Under which the database keeps the container that a restart was asked for.
pub(super) fn restart_key(id: &AgentId) -> String {
    format!("restart/{id}")
}

pub(super) fn not_prepared(agent: &Agent) -> AppError {
    let why = agent.state().reason.clone().unwrap_or_else(|| "it was not looked at yet".to_owned());
    AppError::Conflict(format!("agent {} is not prepared: {why}", agent.id))
}

fn view(agent: &Agent, world: &World) -> AgentView {
    let preparation = agent.preparation();
    let config = world.config.agents.get(&agent.id).or(preparation.as_ref().map(|p| &p.config)).cloned();
    let link = agent.link.status();
    let status = agent.status();
    let state = agent.state();
    let status = match state.status {
        None if state.wanted != Some(Wanted::Running) => Status::Stopped,
        _ => status,
    };
    let mut warnings = preparation.as_ref().map(|p| p.warnings.clone()).unwrap_or_default();
    warnings.extend(state.custom.values().cloned());
    warnings.extend(state.servers.values().cloned());
    if let (Some(Err(why)), Status::Running | Status::Paused) = (&state.preparation, status) {
        warnings.push(format!("it runs as it was configured before: {why}"));
    }
    let skills = preparation.iter().flat_map(|p| &p.skills).map(|s| AgentSkill {
        id: s.skill.id.to_string(),
        version: s.version.to_string(),
        digest: s.digest.to_string(),
        owner: s.owner.clone(),
    });
    let missing = preparation.iter().flat_map(|p| &p.lacking).map(|m| m.name.to_string());
    let unavailable = preparation.iter().flat_map(|p| &p.usable.unavailable);
    let unavailable = unavailable
        .map(|(skill, missing)| UnavailableSkill { skill: skill.to_string(), missing: missing.clone() });
    AgentView {
        id: agent.id.to_string(),
        description: config.as_ref().map(|c| c.description.clone()).unwrap_or_default(),
        status,
        reason: state.reason.clone(),
        image: config.as_ref().map(|c| c.image.clone()).unwrap_or_default(),
        skills: skills.collect(),
        missing_secrets: missing.collect(),
        unavailable: unavailable.collect(),
        warnings,
        container_id: state.container.clone(),
        started_at: state.started_at.map(|t| t.to_string()),
        restarts: state.restarts,
        main: link.main.filter(|_| link.connected).map(|m| main_view(&m)),
        network: config
            .as_ref()
            .map_or("none", |c| match c.network {
                Network::None => "none",
                Network::Internet => "internet",
            })
            .to_owned(),
        memory: config.as_ref().map_or(0, |c| c.memory),
        disk_used: state.disk.map(|(used, _)| used),
    }
}

fn main_view(report: &MainReport) -> MainView {
    let mut view = MainView {
        state: "running".into(),
        pid: None,
        restarts: report.restarts,
        exit_code: None,
        oom: false,
        error: None,
    };
    match &report.state {
        MainState::Running { pid } => view.pid = Some(*pid),
        MainState::Backoff { last, error, .. } => {
            view.state = "backoff".into();
            view.exit_code = last.map(|e| e.code);
            view.oom = last.is_some_and(|e| e.oom);
            view.error.clone_from(error);
        }
        MainState::Done { exit } => {
            view.state = "done".into();
            view.exit_code = Some(exit.code);
            view.oom = exit.oom;
        }
    }
    view
}
