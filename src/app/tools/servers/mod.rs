//! MCP servers of skills, as agents have them: started when they are used, ended when they are not.
//!
//! One process for each agent, skill, version and server, in the agent's container; remote ones are connections. What a
//! server told of its tools last is kept, so that they are listed without it. Nothing starts because an agent was
//! prepared, unless a job of it waits for tools.

mod answer;
mod call;
mod discover;
mod keep;
mod local;
mod plan;
mod slot;
mod start;
mod watch;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use self::slot::Slot;
pub(in crate::app) use self::{call::call, discover::undiscovered};
use crate::{
    app::{hive::Hive, tools::desk::ServerKey},
    ids::AgentId,
    supervisor::{
        agent::Agent,
        prepare::{Preparation, PreparedSkill},
    },
    tools::Tool,
};

/// The servers that were used.
#[derive(Default)]
pub struct Servers {
    slots: Mutex<BTreeMap<ServerKey, Arc<Slot>>>,
}

impl Servers {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<ServerKey, Arc<Slot>>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn slot(&self, key: &ServerKey) -> Arc<Slot> {
        self.lock().entry(key.clone()).or_default().clone()
    }
}

/// The tools that the servers of a skill told of last.
pub(in crate::app) fn told(hive: &Hive, agent: &AgentId, prepared: &PreparedSkill) -> Vec<Tool> {
    let mut tools = Vec::new();
    for server in &prepared.skill.mcp_servers {
        let skill = prepared.skill.id.clone();
        let key = ServerKey { agent: agent.clone(), skill, server: server.name.clone() };
        if let Some(told) = hive.tools.last_of_server(&key) {
            let names = told.tools.iter();
            tools.extend(
                names.map(|tool| Tool::of_server(key.skill.clone(), &key.server, &tool.name, prepared.own)),
            );
        }
    }
    tools
}

/// After an agent was prepared: ends what it has no more, or has in another version, once nothing uses it, and forgets
/// the tools of skills that left.
pub async fn settle(hive: &Arc<Hive>, agent: &Arc<Agent>) {
    let Some(preparation) = agent.preparation() else { return };
    let wanted: BTreeMap<ServerKey, u64> =
        plan::all(&preparation).filter_map(Result::ok).map(|plan| (plan.key, plan.hash)).collect();
    hive.servers.lock().retain(|key, slot| {
        if key.agent != agent.id {
            return true;
        }
        let hash = wanted.get(key);
        slot.keep_only(hash.copied());
        hash.is_some()
    });
    let declared = declared(&preparation);
    agent.state().servers.retain(|key, _| wanted.contains_key(key));
    keep::forget(hive, &agent.id, &declared).await;
}

fn declared(preparation: &Preparation) -> BTreeSet<ServerKey> {
    let of = |prepared: &PreparedSkill| {
        let (agent, skill) = (preparation.config.id.clone(), prepared.skill.id.clone());
        let names = prepared.skill.mcp_servers.iter().map(|server| server.name.clone());
        names
            .map(|server| ServerKey { agent: agent.clone(), skill: skill.clone(), server })
            .collect::<Vec<_>>()
    };
    preparation.skills.iter().flat_map(of).collect()
}
