//! A hive as a running supervisor holds it: what is configured, what is kept, what runs.
//!
//! Built once by the daemon; everything else borrows it. Its methods live with their nouns.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError, RwLock},
};

use jiff::Timestamp;
use sha2::{Digest as _, Sha256};
use tokio::sync::{Notify, mpsc};
use tokio_util::sync::CancellationToken;

use super::{
    agent_skills, figures::EndedRuns, runs::RunDesk, tools, types::AppError, uptake::Desk, world::World,
};
use crate::{
    db::Db,
    engine::{Engine, LABEL_ROOT, Listed},
    ids::{AgentId, HiveName},
    images::Images,
    init::door::Caller,
    paths::HivePaths,
    registry::store::Store,
    supervisor::agent::Agent,
};

/// Uids of agents begin above those of people and distributions.
const FIRST_UID: u32 = 1_000_000;
/// Uids that each hive of a host has for itself.
const UIDS_PER_HIVE: u32 = 1_000;

/// Everything a supervisor holds.
pub struct Hive {
    /// Its name; does not change while it runs.
    pub name: HiveName,
    /// Where its files are.
    pub paths: HivePaths,
    /// The container engine.
    pub engine: Arc<dyn Engine>,
    /// Images of that engine.
    pub images: Images,
    /// Its database.
    pub db: Db,
    /// Its store of skills.
    pub store: Store,
    /// The init program on the host, to be linked into every agent's door.
    pub init: PathBuf,
    /// When the supervisor started.
    pub started_at: Timestamp,
    /// Whether the supervisor may give each agent a uid of its own.
    pub privileged: bool,
    /// Wakes the driver: something happened, look at everything.
    pub wake: Notify,
    /// Wakes the driver of runs: a job, a run, a halt or an agent changed.
    pub due: Notify,
    /// Cancelled when the supervisor ends.
    pub stopping: CancellationToken,
    /// Where doors hand their callers.
    pub callers: mpsc::Sender<Caller>,
    /// What is known of runs beside their rows.
    pub runs: RunDesk,
    /// Runs that ended, for the metrics.
    pub(super) ended: tokio::sync::Mutex<EndedRuns>,
    /// Skills that agents write.
    pub custom: agent_skills::Desk,
    /// One refresh at a time.
    pub refreshing: tokio::sync::Mutex<()>,
    /// What is known of tools.
    pub tools: Arc<tools::Desk>,
    /// MCP servers of skills.
    pub(super) servers: tools::Servers,
    /// Changes of the registry.
    pub(super) registry: Desk,
    stop_agents: Mutex<bool>,
    world: RwLock<Arc<World>>,
    agents: RwLock<BTreeMap<AgentId, Arc<Agent>>>,
    progress: Mutex<BTreeMap<String, String>>,
    engine_down: Mutex<Option<String>>,
}

/// What the daemon builds a hive from.
pub struct Parts {
    /// See [`Hive`].
    pub name: HiveName,
    /// See [`Hive`].
    pub paths: HivePaths,
    /// See [`Hive`].
    pub engine: Arc<dyn Engine>,
    /// See [`Hive`].
    pub images: Images,
    /// See [`Hive`].
    pub db: Db,
    /// See [`Hive`].
    pub store: Store,
    /// See [`Hive`].
    pub init: PathBuf,
    /// The configuration it starts with.
    pub world: World,
    /// See [`Hive`].
    pub callers: mpsc::Sender<Caller>,
}

impl Hive {
    /// Puts the parts together; nothing runs yet.
    #[must_use]
    pub fn new(parts: Parts) -> Arc<Self> {
        Arc::new(Self {
            name: parts.name,
            paths: parts.paths,
            engine: parts.engine,
            images: parts.images,
            db: parts.db,
            store: parts.store,
            init: parts.init,
            started_at: Timestamp::now(),
            privileged: rustix::process::geteuid().is_root(),
            wake: Notify::new(),
            due: Notify::new(),
            stopping: CancellationToken::new(),
            callers: parts.callers,
            runs: RunDesk::default(),
            ended: tokio::sync::Mutex::default(),
            custom: agent_skills::Desk::default(),
            refreshing: tokio::sync::Mutex::new(()),
            tools: Arc::default(),
            servers: tools::Servers::default(),
            registry: Desk::default(),
            stop_agents: Mutex::new(false),
            world: RwLock::new(Arc::new(parts.world)),
            agents: RwLock::default(),
            progress: Mutex::default(),
            engine_down: Mutex::default(),
        })
    }

    /// The time that jobs and runs go by.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        super::clock::now(&self.paths)
    }

    /// The world as it stands: configuration, registry, resolutions, secrets.
    pub fn world(&self) -> Arc<World> {
        self.world.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Puts a new world in force; whom it concerns, the caller wakes.
    pub(super) fn set_world(&self, world: World) {
        let resolved = self.world().resolutions != world.resolutions;
        *self.world.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(world);
        if resolved {
            self.tools.changed();
        }
    }

    /// Every agent that is configured or still has something running.
    pub fn all_agents(&self) -> Vec<Arc<Agent>> {
        self.agents.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    /// An agent by name.
    ///
    /// # Errors
    /// When there is none, naming the nearest.
    pub fn find_agent(&self, id: &AgentId) -> Result<Arc<Agent>, AppError> {
        let agents = self.agents.read().unwrap_or_else(PoisonError::into_inner);
        agents.get(id).cloned().ok_or_else(|| {
            let nearest = agents
                .keys()
                .map(|known| (strsim::damerau_levenshtein(known.as_str(), id.as_str()), known))
                .filter(|(distance, _)| *distance <= 3)
                .min();
            let hint = nearest.map_or_else(
                || {
                    let names: Vec<&str> = agents.keys().map(AgentId::as_str).collect();
                    format!("the hive has: {}", names.join(", "))
                },
                |(_, known)| format!("did you mean {known}?"),
            );
            AppError::NotFound(format!("there is no agent {id} in skep.toml; {hint}"))
        })
    }

    /// Who is meant where nobody is named: `default_agent`, or the only one.
    pub fn default_agent(&self) -> Option<AgentId> {
        let config = self.world().config.clone();
        let mut all = config.agents.keys();
        let only = || all.next().filter(|_| all.next().is_none()).cloned();
        config.default_agent.clone().or_else(only)
    }

    pub(super) fn add_agent(&self, agent: Arc<Agent>) {
        self.agents.write().unwrap_or_else(PoisonError::into_inner).insert(agent.id.clone(), agent);
    }

    /// Drops an agent of which nothing is left.
    pub fn drop_agent(&self, id: &AgentId) {
        self.agents.write().unwrap_or_else(PoisonError::into_inner).remove(id);
    }

    /// The first uid of this hive's agents: a range of its own, by a hash of its folder.
    #[must_use]
    pub fn first_uid(&self) -> u32 {
        let hash = Sha256::digest(self.paths.root.as_os_str().as_encoded_bytes());
        let slot = u32::from_le_bytes([hash[0], hash[1], hash[2], 0]) % 1_000_000;
        FIRST_UID + slot * UIDS_PER_HIVE
    }

    /// Whether a container belongs to a hive of the same name in another folder, which still is one; that folder.
    #[must_use]
    pub fn stranger(&self, container: &Listed) -> Option<PathBuf> {
        let root = PathBuf::from(container.labels.get(LABEL_ROOT)?);
        (root != self.paths.root && HivePaths::new(root.clone()).state().exists()).then_some(root)
    }

    /// Says what long work is doing, under a key of its own; none ends it.
    pub fn set_progress(&self, key: &str, line: Option<String>) {
        let mut progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        match line {
            Some(line) => progress.insert(key.to_owned(), line),
            None => progress.remove(key),
        };
    }

    /// What long work is doing right now.
    pub fn progress(&self) -> Vec<String> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    /// Notes that the engine answers (none) or why it does not; true when that is new.
    pub fn note_engine(&self, down: Option<String>) -> bool {
        let mut state = self.engine_down.lock().unwrap_or_else(PoisonError::into_inner);
        let changed = state.is_some() != down.is_some();
        *state = down;
        changed
    }

    /// Why the engine does not answer; none when it does.
    pub fn engine_down(&self) -> Option<String> {
        self.engine_down.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Ends the supervisor; with `stop_agents` the agents go first.
    pub fn shutdown(&self, stop_agents: bool) {
        let mut flag = self.stop_agents.lock().unwrap_or_else(PoisonError::into_inner);
        *flag |= stop_agents;
        drop(flag);
        self.stopping.cancel();
        self.wake.notify_one();
    }

    /// Whether the agents are to be stopped with the supervisor.
    pub fn stops_agents(&self) -> bool {
        *self.stop_agents.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
