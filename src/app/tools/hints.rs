//! What MCP servers say of their tools beside description and schema.

use serde_json::{Value, json};

use super::{desk::ServerKey, types::ToolView};
use crate::{app::hive::Hive, ids::AgentId};

/// Tools of the hive that change nothing.
const READS: [&str; 6] = [
    "get_tool_catalog",
    "list_skills",
    "read_skill",
    "memory_list_skills",
    "memory_get_skill",
    "get_job_status",
];

impl Hive {
    /// MCP's annotations of a tool of an agent, where they are known.
    #[must_use]
    pub fn tool_hints(&self, agent: &AgentId, tool: &ToolView) -> Option<Value> {
        if tool.kind == "hive" {
            return READS
                .contains(&tool.name.as_str())
                .then(|| json!({ "readOnlyHint": true, "openWorldHint": false }));
        }
        if tool.kind != "mcp" {
            return None;
        }
        let skill = tool.skill.as_ref()?.parse().ok()?;
        let world = self.world();
        let resolution = world.resolutions.get(agent)?.as_ref().ok()?;
        let digest = resolution.skills.get(&skill)?.digest;
        let key = ServerKey { agent: agent.clone(), skill, server: tool.server.clone() };
        let told = self.tools.of_server(&key, &digest)?;
        let bare = tool.name.strip_prefix(&format!("{}/", tool.server)).unwrap_or(&tool.name);
        told.tools.iter().find(|told| told.name == bare)?.annotations.clone()
    }
}
