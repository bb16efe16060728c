//! Which tools an agent has, and what they say of themselves.

use std::{collections::HashMap, sync::Arc};

use serde_json::Value;

use super::{
    ask, builtin,
    desk::{Described, Desk, Edition, Scripts, ServerKey},
    types::ToolView,
};
use crate::{
    app::{Result, hive::Hive, types::AppError, world::World},
    db::{self, DbError},
    ids::{AgentId, Digest},
    registry::store::Store,
    sandbox::describe::script_description,
    supervisor::state::Status,
    tools::{
        Kind, Tool,
        catalogue::{self, Listed},
    },
};

/// The tools of every skill that an agent resolved, with those that its servers told of last, and the hive's own.
///
/// # Errors
/// The database fails.
pub fn known(
    conn: &db::Conn,
    world: &World,
    desk: &Desk,
    agent: &AgentId,
) -> std::result::Result<Vec<Tool>, DbError> {
    let mut tools = builtin::tools();
    let Some(Ok(resolution)) = world.resolutions.get(agent) else { return Ok(tools) };
    for (skill, resolved) in &resolution.skills {
        let Some(manifest) = db::skills::manifest(conn, skill, &resolved.version)? else { continue };
        let own = resolution.own.contains(skill);
        let scripts = manifest.scripts.into_iter();
        tools.extend(scripts.map(|path| Tool::script(skill.clone(), resolved.version.clone(), path, own)));
        for server in manifest.mcp_servers {
            let key = ServerKey { agent: agent.clone(), skill: skill.clone(), server: server.name };
            let Some(told) = desk.last_of_server(&key) else { continue };
            let names = told.tools.iter();
            tools.extend(names.map(|tool| Tool::of_server(skill.clone(), &key.server, &tool.name, own)));
        }
    }
    Ok(tools)
}

impl Hive {
    /// The tools of an agent by name only.
    ///
    /// # Errors
    /// The database fails.
    pub async fn tools(self: &Arc<Self>, agent: &AgentId) -> Result<Arc<Vec<Tool>>> {
        let edition = self.edition(agent);
        if let Some(tools) = self.tools.last_tools(agent, edition) {
            return Ok(tools);
        }
        let (hive, whose) = (self.clone(), agent.clone());
        let read = self.db.read(move |conn| known(conn, &hive.world(), &hive.tools, &whose));
        let tools = Arc::new(read.await.map_err(|e: DbError| AppError::Internal(e.to_string()))?);
        self.tools.keep_tools(agent, edition, &tools);
        Ok(tools)
    }

    /// Taken before what it stands for is read: what changes meanwhile makes it old.
    fn edition(&self, agent: &AgentId) -> Edition {
        let runs = self.find_agent(agent).is_ok_and(|agent| agent.status() == Status::Running);
        (self.world().generation, self.tools.times_changed(), runs)
    }

    /// The tools of an agent with what they say of themselves, by group and name.
    ///
    /// # Errors
    /// There is no such agent; the database or the store fails.
    pub async fn catalogue(self: &Arc<Self>, agent: &AgentId) -> Result<Arc<Vec<Listed>>> {
        self.find_agent(agent)?;
        self.discover(agent).await;
        let edition = self.edition(agent);
        if let Some(listed) = self.tools.last_listed(agent, edition) {
            return Ok(listed);
        }
        let tools = self.tools(agent).await?;
        let (hive, agent) = (self.clone(), agent.clone());
        let (there, whose) = (hive.clone(), agent.clone());
        let describe = move || describe(&there, &whose, &tools);
        let described = tokio::task::spawn_blocking(describe).await;
        let mut listed = described.map_err(|e| AppError::Internal(e.to_string()))?;
        let whole = ask::ask(&hive, &agent, &mut listed).await;
        let listed = Arc::new(listed);
        if whole && self.edition(&agent) == edition {
            self.tools.keep_listed(&agent, edition, &listed);
        }
        Ok(listed)
    }

    /// The catalogue as edges show it; a name that several tools have is written in full.
    ///
    /// # Errors
    /// As [`Hive::catalogue`].
    pub async fn tool_views(self: &Arc<Self>, agent: &AgentId) -> Result<Vec<ToolView>> {
        let listed = self.catalogue(agent).await?;
        let tools: Vec<Tool> = listed.iter().map(|listed| listed.tool.clone()).collect();
        let mut times: HashMap<&str, u32> = HashMap::new();
        for tool in &tools {
            *times.entry(&tool.name).or_default() += 1;
        }
        Ok(listed
            .iter()
            .cloned()
            .map(|Listed { tool, description, input_schema }| {
                let alone = times[tool.name.as_str()] == 1 && !tool.name.contains('/');
                ToolView {
                    name: if alone { tool.name.clone() } else { tool.name_among(&tools) },
                    kind: match tool.kind {
                        Kind::Script(_) => "script",
                        Kind::Server { .. } => "mcp",
                        Kind::Hive => "hive",
                    }
                    .to_owned(),
                    skill: tool.skill().map(ToString::to_string),
                    server: tool.group,
                    description: Some(description).filter(|text| !text.is_empty()),
                    input_schema,
                }
            })
            .collect())
    }
}

/// The schema of a tool's arguments, when something says it.
pub(super) async fn schema(hive: &Arc<Hive>, agent: &AgentId, tool: &Tool) -> Option<Value> {
    // What nobody has read before is a few small files of the store.
    let mut listed = describe(hive, agent, std::slice::from_ref(tool));
    ask::ask(hive, agent, &mut listed).await;
    listed.into_iter().next().and_then(|listed| listed.input_schema).filter(Value::is_object)
}

/// Reads what scripts say of themselves where nobody did before. Blocks.
fn describe(hive: &Hive, agent: &AgentId, tools: &[Tool]) -> Vec<Listed> {
    let world = hive.world();
    let resolution = world.resolutions.get(agent).and_then(|r| r.as_ref().ok());
    let digest = |tool: &Tool| Some(resolution?.skills.get(tool.skill()?)?.digest);
    let mut missing: HashMap<Digest, Vec<&Tool>> = HashMap::new();
    for tool in tools.iter().filter(|tool| matches!(tool.kind, Kind::Script(_))) {
        let Kind::Script(script) = &tool.kind else { continue };
        let unknown = |digest: &Digest| {
            !hive.tools.of_scripts(digest).is_some_and(|scripts| scripts.contains_key(&script.path))
        };
        if let Some(digest) = digest(tool).filter(unknown) {
            missing.entry(digest).or_default().push(tool);
        }
    }
    for (digest, tools) in missing {
        hive.tools.learn_scripts(digest, scripts(&hive.store, &digest, &tools));
    }
    let mut seen: HashMap<Digest, Option<Scripts>> = HashMap::new();
    let mut listed: Vec<Listed> = tools
        .iter()
        .map(|tool| {
            let digest = digest(tool);
            let (description, input_schema) = match (&tool.kind, digest) {
                (Kind::Script(script), Some(digest)) => {
                    let scripts = seen.entry(digest).or_insert_with(|| hive.tools.of_scripts(&digest));
                    let said = scripts.as_ref().and_then(|scripts| scripts.get(&script.path)).cloned();
                    said.map_or_else(Default::default, |said| (said.description, said.input_schema))
                }
                (Kind::Server { skill, server }, Some(_)) => {
                    let key =
                        ServerKey { agent: agent.clone(), skill: skill.clone(), server: server.clone() };
                    let told = hive.tools.last_of_server(&key);
                    let told = told.as_ref().and_then(|told| told.tools.iter().find(|t| t.name == tool.name));
                    told.map_or_else(Default::default, |told| {
                        (told.description.clone(), Some(told.input_schema.clone()))
                    })
                }
                (Kind::Hive, _) => builtin::described(&tool.name),
                _ => Default::default(),
            };
            Listed { tool: tool.clone(), description, input_schema }
        })
        .collect();
    catalogue::sort(&mut listed);
    listed
}

fn scripts(store: &Store, digest: &Digest, tools: &[&Tool]) -> HashMap<String, Described> {
    let folder = store.path(digest);
    let read = |path: &str| {
        let bytes = std::fs::read(folder.join(path)).ok()?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    };
    let described = tools.iter().filter_map(|tool| {
        let Kind::Script(script) = &tool.kind else { return None };
        let schema = read(&script.schema_path());
        let text = read(&script.path).unwrap_or_default();
        let described = Described {
            description: script_description(&text, schema.as_deref()).unwrap_or_default(),
            ask: schema.is_none() && text.contains("--describe"),
            input_schema: schema.and_then(|text| serde_json::from_str(&text).ok()),
        };
        Some((script.path.clone(), described))
    });
    described.collect()
}
