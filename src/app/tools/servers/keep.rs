//! What servers told of their tools, kept beyond their processes and the supervisor's; and what is wrong with them.

use std::{
    collections::{BTreeSet, HashSet},
    sync::Arc,
};

use serde_json::{Value, json};

use super::plan::Plan;
use crate::{
    app::{
        hive::Hive,
        tools::desk::{ServerKey, ServerTool, ServerTools},
    },
    db::{self, DbError},
    ids::{AgentId, is_hidden},
    mcp::RemoteTool,
    secrets::mask::Masker,
    supervisor::agent::Agent,
};

/// Keys of `meta`.
const PREFIX: &str = "mcp:";
/// Characters of a tool's name.
const MAX_NAME: usize = 128;
/// Names that cannot be called, of those that are remembered.
const MAX_ODD: usize = 20;
/// Told when the tools of a server are others.
const CHANGED: &str = "tools:changed";

fn meta_key(key: &ServerKey) -> String {
    format!("{PREFIX}{}/{}/{}", key.agent, key.skill, key.server)
}

fn parse_key(text: &str) -> Option<ServerKey> {
    let mut parts = text.strip_prefix(PREFIX)?.splitn(3, '/');
    let (agent, skill, server) = (parts.next()?, parts.next()?, parts.next()?);
    Some(ServerKey { agent: agent.parse().ok()?, skill: skill.parse().ok()?, server: server.to_owned() })
}

/// Takes up what a server tells of its tools; who waits for them is told.
pub(super) async fn learn(hive: &Arc<Hive>, agent: &Agent, plan: &Plan, tools: Vec<RemoteTool>) {
    let masker = hive.world().masker.clone();
    let (tools, left_out) = usable(tools, &masker);
    if tools.is_empty() {
        hive.servers.has_none(agent, plan);
    }
    let tools = ServerTools { digest: plan.digest, tools, left_out };
    let text = serde_json::to_string(&tools).unwrap_or_default();
    if !hive.tools.learn(plan.key.clone(), tools) {
        return;
    }
    tell(hive, vec![plan.key.clone()], Some(text)).await;
    // The prompt names them.
    agent.state().prepared_for = 0;
    hive.wake.notify_one();
}

/// Those with names that can be called, each once, and the other names; without secrets.
fn usable(tools: Vec<RemoteTool>, masker: &Masker) -> (Vec<ServerTool>, Vec<String>) {
    let mut seen = HashSet::new();
    let named = |tool: &RemoteTool| {
        (1..=MAX_NAME).contains(&tool.name.chars().count())
            && !tool.name.contains(|c: char| c.is_control() || c.is_whitespace() || is_hidden(c))
            && masker.mask_str(&tool.name) == tool.name
    };
    let (tools, odd): (Vec<_>, Vec<_>) = tools.into_iter().partition(named);
    let short = |tool: RemoteTool| masker.mask_str(&tool.name).chars().take(MAX_NAME).collect();
    let odd = odd.into_iter().take(MAX_ODD).map(short).collect();
    let tools = tools.into_iter().filter(|tool| seen.insert(tool.name.clone()));
    let masked = |value: Value| masker.mask_json(&value);
    let tools = tools.map(|tool| ServerTool {
        name: tool.name,
        description: masker.mask_str(&tool.description).into_owned(),
        input_schema: masked(tool.input_schema),
        output_schema: tool.output_schema.map(masked),
        annotations: tool.annotations.map(masked),
    });
    (tools.collect(), odd)
}

/// Forgets the tools of an agent's servers that it does not have any more.
pub(super) async fn forget(hive: &Arc<Hive>, agent: &AgentId, has: &BTreeSet<ServerKey>) {
    let gone = hive.tools.forget(agent, has);
    if !gone.is_empty() {
        tell(hive, gone, None).await;
    }
}

/// Writes what changed (none: it is gone) and tells of it.
async fn tell(hive: &Arc<Hive>, keys: Vec<ServerKey>, text: Option<String>) {
    let now = hive.now();
    let written = hive.db.write(move |tx| {
        for key in keys {
            match &text {
                Some(text) => db::meta::set(tx, &meta_key(&key), text)?,
                None => db::meta::remove(tx, &meta_key(&key))?,
            }
            let data = json!({ "agent": key.agent, "skill": key.skill, "server": key.server });
            db::events::append(tx, now, CHANGED, &data)?;
        }
        Ok::<_, DbError>(())
    });
    if let Err(e) = written.await {
        tracing::error!(error = %e, "cannot record the tools of an MCP server");
    }
    hive.enable_waiting().await;
    hive.due.notify_one();
}

/// What is wrong with a server, for the operator.
pub(super) fn warn(agent: &Agent, key: &ServerKey, why: &str) {
    let warning = format!("the MCP server {} of skill {}: {why}", key.server, key.skill);
    agent.state().servers.insert(key.clone(), warning);
}

/// Nothing is wrong with it any more.
pub(super) fn well(agent: &Agent, key: &ServerKey) {
    agent.state().servers.remove(key);
}

impl Hive {
    /// Reads what servers told of their tools before this supervisor; before agents and jobs are looked at.
    ///
    /// # Errors
    /// The database fails.
    pub async fn recall_tools(&self) -> Result<(), DbError> {
        for (key, text) in self.db.read(|conn| db::meta::under(conn, PREFIX)).await? {
            if let (Some(key), Ok(tools)) = (parse_key(&key), serde_json::from_str(&text)) {
                self.tools.learn(key, tools);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::secrets::SecretValue;

    #[test]
    fn a_name_with_a_secret_in_it_cannot_be_called() {
        let masker = Masker::new(&[SecretValue::new("hunter22-hunter22").unwrap()]);
        let tool = |name: &str| RemoteTool {
            name: name.to_owned(),
            description: String::new(),
            input_schema: json!({}),
            output_schema: None,
            annotations: None,
        };
        let (tools, odd) = usable(vec![tool("a"), tool("leak_hunter22-hunter22")], &masker);
        let names: Vec<&str> = tools.iter().map(|tool| tool.name.as_str()).collect();
        assert_eq!((names, odd), (vec!["a"], vec!["leak_***".to_owned()]));
    }
}
