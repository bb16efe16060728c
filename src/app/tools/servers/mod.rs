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
mod offers;
mod plan;
mod slot;
mod start;
mod watch;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::watch as watch_channel;

pub use self::offers::FollowedResource;
use self::slot::Slot;
pub(in crate::app) use self::{call::call, discover::undiscovered};
use crate::{
    app::{hive::Hive, tools::desk::ServerKey},
    ids::AgentId,
    mcp::{Line, Offers, Speaker},
    secrets::mask::Masker,
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
    /// What they offer beside tools, as they told last, each with the plan's hash.
    offers: Mutex<BTreeMap<ServerKey, (u64, Arc<Offers>)>>,
    /// Those that told of no tools when they were started last, with what they were started as.
    empty: Mutex<BTreeMap<ServerKey, (u64, u64)>>,
    /// How often some server offered something else.
    changes: watch_channel::Sender<u64>,
}

impl Servers {
    /// A server that was started by this plan told of no tools.
    fn has_none(&self, agent: &Agent, plan: &plan::Plan) {
        let mut empty = self.empty.lock().unwrap_or_else(PoisonError::into_inner);
        empty.insert(plan.key.clone(), start_of(agent, plan));
    }

    /// Whether it is worth asking a server again that told of no tools: another start may find some.
    fn may_have_some(&self, agent: &Agent, plan: &plan::Plan) -> bool {
        let empty = self.empty.lock().unwrap_or_else(PoisonError::into_inner);
        empty.get(&plan.key) != Some(&start_of(agent, plan))
    }

    /// Wakes whenever some server has other prompts or resources.
    fn changes(&self) -> watch_channel::Receiver<u64> {
        self.changes.subscribe()
    }

    fn known_offers(&self, key: &ServerKey, hash: u64) -> Option<Arc<Offers>> {
        self.offers().get(key).filter(|(of, _)| *of == hash).map(|(_, offers)| offers.clone())
    }

    fn times_changed(&self) -> u64 {
        *self.changes.borrow()
    }

    /// Unless some changed while they were asked for: then they are asked for again.
    fn keep_offers(&self, key: ServerKey, hash: u64, times: u64, offers: &Arc<Offers>) {
        if self.times_changed() == times {
            self.offers().insert(key, (hash, offers.clone()));
        }
    }

    /// A server offers something else now.
    fn forget_offers(&self, key: &ServerKey) {
        self.offers().remove(key);
        self.changes.send_modify(|times| *times += 1);
    }

    fn offers(&self) -> MutexGuard<'_, BTreeMap<ServerKey, (u64, Arc<Offers>)>> {
        self.offers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<ServerKey, Arc<Slot>>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn slot(&self, key: &ServerKey) -> Arc<Slot> {
        self.lock().entry(key.clone()).or_default().clone()
    }
}

/// A server on the line to the client that calls, by the name that people know it by.
fn speaker(line: Line, key: &ServerKey, masker: Masker) -> Speaker {
    let name = format!("MCP server {} of skill {}, agent {}", key.server, key.skill, key.agent);
    Speaker::new(line, masker, name)
}

/// What a server is started as: by a plan, with its values, in a container.
fn start_of(agent: &Agent, plan: &plan::Plan) -> (u64, u64) {
    (plan.hash, agent.link.status().generation)
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
    hive.servers.offers().retain(|key, (hash, _)| key.agent != agent.id || wanted.get(key) == Some(hash));
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
