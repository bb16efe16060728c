//! Asks servers for their tools that never told of them: for a listing, or a name that nothing known has.

use std::{collections::BTreeSet, iter, sync::Arc, time::Duration};

use futures_util::future::join_all;

use super::{declared, plan, start};
use crate::{
    app::{Result, hive::Hive, tools::desk::ServerKey, types::AppError},
    ids::AgentId,
    supervisor::{agent::Agent, prepare::Preparation},
    tools::{self, Kind, Tool},
};

/// A listing waits no longer than this; what takes longer goes on, and is in the next one.
pub(super) const PATIENCE: Duration = Duration::from_secs(20);
/// A call by a bare name waits no longer than this: most likely no server has it, and one that is mute would hold up every
/// slip of a model.
const BARE_PATIENCE: Duration = Duration::from_secs(5);
/// What a start takes beside the handshake, so that one that fails is told of in the same listing.
pub(super) const MARGIN: Duration = Duration::from_secs(2);

/// Whether some server of an agent never told of its tools.
pub(in crate::app) fn undiscovered(hive: &Hive, preparation: &Preparation) -> bool {
    unknown(hive, preparation).next().is_some()
}

fn unknown<'a>(hive: &'a Hive, preparation: &'a Preparation) -> impl Iterator<Item = plan::Plan> + 'a {
    let plans = plan::all(preparation).filter_map(std::result::Result::ok);
    let agent = hive.find_agent(&preparation.config.id).ok();
    plans.filter(move |plan| is_unknown(hive, agent.as_deref(), plan))
}

/// Whether a server never told of its tools, or had none and was started otherwise then.
fn is_unknown(hive: &Hive, agent: Option<&Agent>, plan: &plan::Plan) -> bool {
    hive.tools.of_server(&plan.key, &plan.digest).is_none_or(|told| {
        told.tools.is_empty() && agent.is_some_and(|agent| hive.servers.may_have_some(agent, plan))
    })
}

/// The servers that may have a tool of this name, and how long they are waited for.
fn meant(
    preparation: &Preparation,
    mut servers: BTreeSet<ServerKey>,
    name: &str,
) -> (BTreeSet<ServerKey>, Duration) {
    let of = |group: &str, key: &ServerKey| key.skill.as_str() == group || key.server == group;
    let named = |group: &str| {
        let skills = &preparation.skills;
        skills.iter().any(|prepared| prepared.skill.id.as_str() == group)
            || servers.iter().any(|key| of(group, key))
    };
    match name.split_once('/') {
        Some((group, _)) if named(group) => {
            servers.retain(|key| of(group, key));
            (servers, PATIENCE)
        }
        Some((tools::HIVE, _)) => (BTreeSet::new(), Duration::ZERO),
        _ => (servers, BARE_PATIENCE),
    }
}

/// For a start by this plan, so that one that fails is told of with its reason.
fn patience(plan: &plan::Plan) -> Duration {
    plan.startup + MARGIN
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
            let patience = patience(&plan).min(PATIENCE);
            // Its failure is told as a warning.
            drop(tokio::time::timeout(patience, start::up(self, agent, plan)).await);
        });
        let starts: Vec<_> = starts.collect();
        join_all(starts).await;
    }

    /// The tool that `find` takes `name` for; where nothing known has that name, servers that never told of their tools
    /// are asked: the one that it names, else all of them, for a shorter time.
    ///
    /// # Errors
    /// No tool has that name, or several have; the database fails.
    pub(in crate::app) async fn find_tool(
        self: &Arc<Self>,
        agent: &AgentId,
        name: &str,
        find: impl Fn(&[Tool]) -> Result<Tool>,
    ) -> Result<Tool> {
        let stale = match find(&self.tools(agent).await?) {
            // What another version told of its arguments is no measure for this one's.
            Ok(tool) => match self.stale(agent, &tool) {
                Some(server) => Some(server),
                None => return Ok(tool),
            },
            Err(AppError::NotFound(_)) => None,
            Err(other) => return Err(other),
        };
        let untold = match self.running_agent(agent).ok().and_then(|a| Some((a.preparation()?, a))) {
            Some((preparation, agent)) => {
                let declared = declared(&preparation);
                let (asked, most) = match stale {
                    Some(server) => ([server].into(), PATIENCE),
                    None => meant(&preparation, declared, name),
                };
                self.ask_servers(&agent, &preparation, asked, most).await
            }
            None => Vec::new(),
        };
        find(&self.tools(agent).await?).map_err(|e| match e {
            AppError::NotFound(why) => {
                AppError::NotFound(iter::once(why).chain(untold).collect::<Vec<_>>().join("; "))
            }
            other => other,
        })
    }

    /// Asks those of some servers that never told of their tools, all at once; which did not tell, and why.
    async fn ask_servers(
        self: &Arc<Self>,
        agent: &Arc<Agent>,
        preparation: &Preparation,
        asked: BTreeSet<ServerKey>,
        most: Duration,
    ) -> Vec<String> {
        let untold = |key: &ServerKey, plan: &std::result::Result<plan::Plan, String>| match plan {
            Ok(plan) => is_unknown(self, Some(agent), plan),
            Err(_) => self.tools.last_of_server(key).is_none(),
        };
        let planned = asked.into_iter().map(|key| (plan::one(preparation, &key), key));
        let asks = planned.filter(|(plan, key)| untold(key, plan)).map(|(plan, key)| async move {
            let why = match plan {
                Ok(plan) => {
                    let patience = patience(&plan).min(most);
                    match tokio::time::timeout(patience, start::up(self, agent, plan)).await {
                        Ok(Ok(_)) => return None,
                        Ok(Err(why)) => why,
                        Err(_) => {
                            format!("it has not answered within {} s; ask again later", patience.as_secs())
                        }
                    }
                }
                Err(why) => why,
            };
            let named = format!("the MCP server {} of skill {} ", key.server, key.skill);
            let why = why.strip_prefix(&named).map_or_else(|| why.clone(), |rest| format!("it {rest}"));
            Some(format!("server {} of skill {} has not told its tools: {why}", key.server, key.skill))
        });
        join_all(asks).await.into_iter().flatten().collect()
    }

    /// The server of a tool that is known only from another version of its skill.
    fn stale(&self, agent: &AgentId, tool: &Tool) -> Option<ServerKey> {
        let Kind::Server { skill, server } = &tool.kind else { return None };
        let key = ServerKey { agent: agent.clone(), skill: skill.clone(), server: server.clone() };
        let preparation = self.find_agent(agent).ok().and_then(|agent| agent.preparation());
        let prepared = preparation.as_ref().and_then(|p| p.skills.iter().find(|s| s.skill.id == *skill));
        let stale = prepared.is_some_and(|prepared| self.tools.of_server(&key, &prepared.digest).is_none());
        stale.then_some(key)
    }

    /// As [`Self::find_tool`], by the agent's names.
    ///
    /// # Errors
    /// As [`Self::find_tool`].
    pub(in crate::app) async fn tool_named(self: &Arc<Self>, agent: &AgentId, name: &str) -> Result<Tool> {
        self.find_tool(agent, name, |tools| tools::find(tools, name).cloned().map_err(AppError::NotFound))
            .await
    }
}
