//! Asks servers for their tools that never told of them: for a listing, or a name that nothing known has.

use std::{sync::Arc, time::Duration};

use futures_util::future::join_all;

use super::{plan, start};
use crate::{
    app::{Result, hive::Hive, tools::desk::ServerKey, types::AppError},
    ids::AgentId,
    supervisor::{agent::Agent, prepare::Preparation},
    tools::{self, Kind, Tool},
};

/// A listing waits no longer than this; what takes longer goes on, and is in the next one.
pub(super) const PATIENCE: Duration = Duration::from_secs(20);
/// What a start takes beside the handshake, so that one that fails is told of in the same listing.
pub(super) const MARGIN: Duration = Duration::from_secs(2);

/// Whether some server of an agent never told of its tools.
pub(in crate::app) fn undiscovered(hive: &Hive, preparation: &Preparation) -> bool {
    unknown(hive, preparation).next().is_some()
}

fn unknown<'a>(hive: &'a Hive, preparation: &'a Preparation) -> impl Iterator<Item = plan::Plan> + 'a {
    let plans = plan::all(preparation).filter_map(std::result::Result::ok);
    plans.filter(|plan| hive.tools.of_server(&plan.key, &plan.digest).is_none())
}

impl Hive {
    /// Starts the servers of a running agent that never told of their tools. Those that fail are warnings of the agent.
    pub(in crate::app) async fn discover(self: &Arc<Self>, agent: &AgentId) {
        let Ok(agent) = self.running_agent(agent) else { return };
        let Some(preparation) = agent.preparation() else { return };
        self.discover_with(&agent, &preparation).await;
    }

    async fn discover_with(self: &Arc<Self>, agent: &Arc<Agent>, preparation: &Preparation) {
        let starts = unknown(self, preparation).map(|plan| async {
            let patience = (plan.startup + MARGIN).min(PATIENCE);
            // Its failure is told as a warning.
            drop(tokio::time::timeout(patience, start::up(self, agent, plan)).await);
        });
        let starts: Vec<_> = starts.collect();
        join_all(starts).await;
    }

    /// The tool that a name means; servers that never told of theirs are asked for a name that nothing known has.
    ///
    /// # Errors
    /// No tool has that name, or several have; the database fails.
    pub(in crate::app) async fn find_tool(
        self: &Arc<Self>,
        agent: &AgentId,
        find: impl Fn(&[Tool]) -> Result<Tool>,
    ) -> Result<Tool> {
        match find(&self.tools(agent).await?) {
            // What another version told of its arguments is no measure for this one's.
            Ok(tool) if self.is_stale(agent, &tool) => {}
            Err(AppError::NotFound(_)) => {}
            other => return other,
        }
        self.discover(agent).await;
        find(&self.tools(agent).await?)
    }

    /// Whether a tool is known only from another version of its skill.
    fn is_stale(&self, agent: &AgentId, tool: &Tool) -> bool {
        let Kind::Server { skill, server } = &tool.kind else { return false };
        let key = ServerKey { agent: agent.clone(), skill: skill.clone(), server: server.clone() };
        let preparation = self.find_agent(agent).ok().and_then(|agent| agent.preparation());
        let prepared = preparation.as_ref().and_then(|p| p.skills.iter().find(|s| s.skill.id == *skill));
        prepared.is_some_and(|prepared| self.tools.of_server(&key, &prepared.digest).is_none())
    }

    /// As [`Self::find_tool`], by the agent's names.
    ///
    /// # Errors
    /// As [`Self::find_tool`].
    pub(in crate::app) async fn tool_named(self: &Arc<Self>, agent: &AgentId, name: &str) -> Result<Tool> {
        self.find_tool(agent, |tools| tools::find(tools, name).cloned().map_err(AppError::NotFound)).await
    }
}
