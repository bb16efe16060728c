//! What the list of an agent's tools does not show, and why: servers that failed, tools whose names cannot be called,
//! skills that miss something.

use super::{desk::ServerKey, servers};
use crate::{
    app::hive::Hive,
    ids::AgentId,
    supervisor::{prepare::Preparation, state::Status},
};

/// Names in a warning.
const NAMED: usize = 5;

impl Hive {
    /// Why the agent has fewer tools than its skills bring, in sentences.
    #[must_use]
    pub fn lacking_tools(&self, agent: &AgentId) -> Vec<String> {
        let Ok(agent) = self.find_agent(agent) else { return Vec::new() };
        let Some(preparation) = agent.preparation() else { return Vec::new() };
        let mut lacking: Vec<String> = preparation
            .usable
            .unavailable
            .iter()
            .map(|(skill, missing)| format!("skill {skill} cannot be used: it misses {}", missing.join(", ")))
            .collect();
        let failed: Vec<String> = agent.state().servers.values().cloned().collect();
        let retried =
            |why: String| format!("{why} (it is started again when its tools are listed or called)");
        lacking.extend(failed.into_iter().map(retried));
        if agent.status() != Status::Running && servers::undiscovered(self, &preparation) {
            lacking.push(format!(
                "agent {0} does not run, so not all of its MCP servers could tell of their tools: `skep start {0}`",
                agent.id
            ));
        }
        lacking.extend(self.unnameable(&agent.id, &preparation));
        lacking
    }

    fn unnameable(&self, agent: &AgentId, preparation: &Preparation) -> Vec<String> {
        let servers = preparation.skills.iter().flat_map(|prepared| {
            let skill = &prepared.skill.id;
            prepared.skill.mcp_servers.iter().map(move |server| ServerKey {
                agent: agent.clone(),
                skill: skill.clone(),
                server: server.name.clone(),
            })
        });
        let told = servers.filter_map(|key| {
            let left_out = self.tools.last_of_server(&key)?.left_out.clone();
            let named: Vec<String> = left_out.iter().take(NAMED).map(|name| format!("{name:?}")).collect();
            let more = if left_out.len() > NAMED { " and more" } else { "" };
            (!named.is_empty()).then(|| {
                format!(
                    "the MCP server {} of skill {} has tools that cannot be called, because of their names: {}{more} (a \
                     name has 1 to 128 characters, and no blanks, control or invisible characters)",
                    key.server,
                    key.skill,
                    named.join(", ")
                )
            })
        });
        told.collect()
    }
}
