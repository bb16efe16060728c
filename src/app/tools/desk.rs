//! What a supervisor remembers of tools: what scripts say of themselves, and which tools MCP servers had when they last
//! told. Bounded by what agents resolve.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::watch;

use crate::{
    ids::{AgentId, Digest, SkillId},
    tools::{Tool, catalogue::Listed},
};

/// A server of a skill as an agent has it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ServerKey {
    /// In whose container it runs, or in whose name it is called.
    pub agent: AgentId,
    /// The skill that brings it.
    pub skill: SkillId,
    /// Its name in the skill.
    pub server: String,
}

/// The tools that a server had when it last told.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ServerTools {
    /// Content of the skill that it came with: another may have other tools.
    pub digest: Digest,
    /// The tools.
    pub tools: Vec<ServerTool>,
    /// Names that cannot be called, the first of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<String>,
}

/// A tool as its server describes it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ServerTool {
    /// Its name.
    pub name: String,
    /// What it does.
    #[serde(default)]
    pub description: String,
    /// JSON Schema of its arguments.
    pub input_schema: Value,
    /// JSON Schema of its structured results, if it says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Value>,
    /// MCP's hints about it, as they came.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotations: Option<Value>,
}

/// What a script says of itself.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Described {
    pub(super) description: String,
    pub(super) input_schema: Option<Value>,
    /// It may say more when it is asked with `--describe`.
    pub(super) ask: bool,
}

/// Descriptions of the scripts of one content, by path.
pub(super) type Scripts = Arc<HashMap<String, Described>>;

/// What a listing depends on: the world, what servers told, and whether scripts could be asked.
pub(super) type Edition = (u64, u64, bool);

/// The last listing of each agent, with what it depended on.
type Last<T> = Mutex<HashMap<AgentId, (Edition, Arc<Vec<T>>)>>;

/// See the module.
#[derive(Debug, Default)]
pub struct Desk {
    tools: Last<Tool>,
    listed: Last<Listed>,
    scripts: Mutex<HashMap<Digest, Scripts>>,
    servers: Mutex<BTreeMap<ServerKey, Arc<ServerTools>>>,
    changes: watch::Sender<u64>,
}

impl Desk {
    /// What a server told of last, also when another version of its skill is in force by now: until that one is asked,
    /// its tools are taken to be the same.
    #[must_use]
    pub fn last_of_server(&self, key: &ServerKey) -> Option<Arc<ServerTools>> {
        lock(&self.servers).get(key).cloned()
    }

    /// What a server had, if it was of this content.
    #[must_use]
    pub fn of_server(&self, key: &ServerKey, digest: &Digest) -> Option<Arc<ServerTools>> {
        lock(&self.servers).get(key).filter(|known| known.digest == *digest).cloned()
    }

    /// Remembers what a server has; true when that is new.
    pub fn learn(&self, key: ServerKey, tools: ServerTools) -> bool {
        let mut servers = lock(&self.servers);
        if servers.get(&key).is_some_and(|known| **known == tools) {
            return false;
        }
        servers.insert(key, Arc::new(tools));
        self.changed();
        true
    }

    /// Forgets the servers of an agent that are not among these; which they were.
    pub(super) fn forget(&self, agent: &AgentId, has: &BTreeSet<ServerKey>) -> Vec<ServerKey> {
        let gone = |key: &ServerKey| key.agent == *agent && !has.contains(key);
        let gone: Vec<ServerKey> =
            lock(&self.servers).extract_if(.., |key, _| gone(key)).map(|(key, _)| key).collect();
        if !gone.is_empty() {
            self.changed();
        }
        gone
    }

    /// Tells those who wait for it that some agent has other tools.
    pub fn changed(&self) {
        self.changes.send_modify(|times| *times += 1);
    }

    /// Wakes whenever some agent has other tools.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// How often some agent got other tools.
    pub(super) fn times_changed(&self) -> u64 {
        *self.changes.borrow()
    }

    pub(super) fn last_tools(&self, agent: &AgentId, edition: Edition) -> Option<Arc<Vec<Tool>>> {
        last(&self.tools, agent, edition)
    }

    pub(super) fn keep_tools(&self, agent: &AgentId, edition: Edition, tools: &Arc<Vec<Tool>>) {
        lock(&self.tools).insert(agent.clone(), (edition, tools.clone()));
    }

    pub(super) fn last_listed(&self, agent: &AgentId, edition: Edition) -> Option<Arc<Vec<Listed>>> {
        last(&self.listed, agent, edition)
    }

    pub(super) fn keep_listed(&self, agent: &AgentId, edition: Edition, listed: &Arc<Vec<Listed>>) {
        lock(&self.listed).insert(agent.clone(), (edition, listed.clone()));
    }

    pub(super) fn of_scripts(&self, digest: &Digest) -> Option<Scripts> {
        lock(&self.scripts).get(digest).cloned()
    }

    pub(super) fn learn_scripts(&self, digest: Digest, scripts: HashMap<String, Described>) {
        let mut all = lock(&self.scripts);
        let known = all.entry(digest).or_default();
        let mut together = HashMap::clone(known);
        together.extend(scripts);
        *known = Arc::new(together);
    }
}

fn last<T>(all: &Last<T>, agent: &AgentId, edition: Edition) -> Option<Arc<Vec<T>>> {
    lock(all).get(agent).filter(|(of, _)| *of == edition).map(|(_, last)| last.clone())
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
