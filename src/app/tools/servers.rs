//! MCP servers of skills, as an agent has them.

use crate::{
    app::{hive::Hive, tools::desk::ServerKey},
    ids::AgentId,
    supervisor::prepare::PreparedSkill,
    tools::Tool,
};

/// The tools that the servers of a skill told of last.
pub(in crate::app) fn told(hive: &Hive, agent: &AgentId, prepared: &PreparedSkill) -> Vec<Tool> {
    let mut tools = Vec::new();
    for server in &prepared.skill.mcp_servers {
        let skill = prepared.skill.id.clone();
        let key = ServerKey { agent: agent.clone(), skill, server: server.name.clone() };
        if let Some(told) = hive.tools.of_server(&key, &prepared.digest) {
            let names = told.tools.iter();
            tools.extend(
                names.map(|tool| Tool::of_server(key.skill.clone(), &key.server, &tool.name, prepared.own)),
            );
        }
    }
    tools
}
