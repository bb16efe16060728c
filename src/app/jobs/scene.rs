//! What jobs are judged against: the world, the time, halts, where agents stand, and their tools.
//!
//! A snapshot, taken before a transaction and moved into it.

use std::{collections::BTreeMap, sync::Arc};

use jiff::Timestamp;

use super::{Result, invalid};
use crate::{
    app::{
        hive::Hive,
        tools::{Desk, known},
        types::AppError,
        world::World,
    },
    config::model::Agent as AgentConfig,
    db::{self, DbError, jobs::JobRow},
    ids::AgentId,
    scheduler::{
        job::{JobSpec, Tier},
        request::Context,
    },
    supervisor::state::{Status, Wanted},
    tools::{self, Tool},
};

/// The snapshot; tools and halts are read when they are first asked for.
pub(super) struct Scene {
    pub(super) now: Timestamp,
    pub(super) world: Arc<World>,
    /// Agents whose runs do not start, and why.
    pub(super) standing: BTreeMap<AgentId, String>,
    desk: Arc<Desk>,
    tools: BTreeMap<AgentId, Vec<Tool>>,
    halts: Option<Vec<(Option<AgentId>, Timestamp)>>,
}

/// A tool that a job needs and does not have.
pub(super) struct Missing {
    /// As the job names it.
    pub(super) name: String,
    /// JSON pointer to it.
    pub(super) pointer: String,
    /// Why it is none.
    pub(super) detail: String,
}

/// The names of missing tools.
pub(super) fn names(missing: Vec<Missing>) -> Vec<String> {
    missing.into_iter().map(|missing| missing.name).collect()
}

impl Scene {
    /// The hive as it is.
    pub(super) fn of(hive: &Hive) -> Self {
        Self::with(hive, hive.world())
    }

    /// With a world that need not be in force yet.
    pub(super) fn with(hive: &Hive, world: Arc<World>) -> Self {
        let mut standing = BTreeMap::new();
        for agent in hive.all_agents() {
            let (wanted, reason) = {
                let state = agent.state();
                (state.wanted, state.reason.clone().unwrap_or_default())
            };
            let why = match (wanted, agent.status()) {
                (Some(Wanted::Stopped), _) => "is stopped: start it with `skep start`".to_owned(),
                (_, status @ (Status::Failed | Status::Paused)) => {
                    format!("is {}: {reason}", status.as_str())
                }
                _ => continue,
            };
            standing.insert(agent.id.clone(), format!("agent {} {why}", agent.id));
        }
        Self {
            now: hive.now(),
            world,
            standing,
            desk: hive.tools.clone(),
            tools: BTreeMap::new(),
            halts: None,
        }
    }

    /// What requests are read against.
    pub(super) fn context<'a>(&'a self, caller: Option<&'a AgentId>) -> Context<'a> {
        let config = &self.world.config;
        Context { now: self.now, zone: &config.zone, caller, default_agent: config.default_agent.as_ref() }
    }

    /// An agent of `skep.toml`.
    pub(super) fn agent(&self, id: &AgentId) -> Option<&AgentConfig> {
        self.world.config.agents.get(id)
    }

    /// An agent that a request names.
    ///
    /// # Errors
    /// There is none of that name; the nearest is told.
    pub(super) fn named(&self, id: &AgentId) -> Result<&AgentConfig> {
        self.agent(id).ok_or_else(|| {
            let known = || self.world.config.agents.keys().map(AgentId::as_str);
            let help = match crate::config::keys::nearest(id.as_str(), known()) {
                Some(near) => format!("did you mean {near}?"),
                None => format!("the hive has: {}", known().collect::<Vec<_>>().join(", ")),
            };
            invalid(vec![("/agent".into(), format!("there is no agent {id} in skep.toml; {help}"))])
        })
    }

    /// Every target that a job names is one of `[notify]`.
    pub(super) fn know_targets(&self, spec: &JobSpec) -> Result<()> {
        let known = || self.world.config.notify.targets.iter().map(|target| target.name.as_str());
        let named = spec.notify.targets.iter().flatten().enumerate();
        let unknown = named.filter(|(_, name)| known().all(|target| target != **name));
        let errors: Vec<_> = unknown
            .map(|(n, name)| {
                let help = match crate::config::keys::nearest(name, known()) {
                    Some(near) => format!("did you mean {near:?}?"),
                    None if known().next().is_none() => "it has none".to_owned(),
                    None => format!("it has: {}", known().collect::<Vec<_>>().join(", ")),
                };
                (format!("/notify/targets/{n}"), format!("[notify] has no target {name:?}; {help}"))
            })
            .collect();
        if errors.is_empty() { Ok(()) } else { Err(invalid(errors)) }
    }

    /// The halts in force; the hive's as none.
    pub(super) fn halts(
        &mut self,
        conn: &db::Conn,
    ) -> std::result::Result<&[(Option<AgentId>, Timestamp)], DbError> {
        if self.halts.is_none() {
            self.halts = Some(db::queue::halts(conn)?);
        }
        Ok(self.halts.as_deref().unwrap_or_default())
    }

    /// The tools that a job needs and its agent does not have now.
    pub(super) fn missing(
        &mut self,
        conn: &db::Conn,
        agent: &AgentId,
        spec: &JobSpec,
    ) -> std::result::Result<Vec<Missing>, DbError> {
        if spec.needed_tools().next().is_none() {
            return Ok(Vec::new());
        }
        if !self.tools.contains_key(agent) {
            self.tools.insert(agent.clone(), known(conn, &self.world, &self.desk, agent)?);
        }
        let tools = &self.tools[agent];
        let required = spec.required_tools.iter().enumerate();
        let required = required.map(|(n, name)| (format!("/required_tools/{n}"), name));
        let named = spec.tool.iter().map(|name| ("/tool".to_owned(), name)).chain(required);
        Ok(named
            .filter_map(|(pointer, name)| {
                let detail = tools::find(tools, name).err()?;
                Some(Missing { name: name.clone(), pointer, detail })
            })
            .collect())
    }

    /// Whether runs of the job can start at all.
    ///
    /// # Errors
    /// 409: its agent has gone or has no command, or a tool does not exist.
    pub(super) fn must_be_able(&mut self, conn: &db::Conn, job: &JobRow) -> Result<()> {
        let gone = || AppError::Conflict(format!("agent {} is no longer in skep.toml", job.agent));
        let agent = self.agent(&job.agent).ok_or_else(gone)?;
        if let Some(why) = no_command(agent, &job.spec) {
            return Err(AppError::Conflict(why));
        }
        match self.missing(conn, &job.agent, &job.spec)?.first() {
            Some(missing) => Err(AppError::Conflict(missing.detail.clone())),
            None => Ok(()),
        }
    }
}

/// Why an agent cannot execute a job of the agent tier.
pub(super) fn no_command(agent: &AgentConfig, spec: &JobSpec) -> Option<String> {
    (spec.tier() == Tier::Agent && agent.command.is_none()).then(|| {
        format!(
            "agent {0} has no `command` that could follow instructions: add one to [agents.{0}] in skep.toml, or name \
             a `tool`",
            agent.id
        )
    })
}
