//! What is wanted, as one value: configuration, registry, resolutions and secrets that belong together.
//!
//! A refresh reads everything anew and puts the new world in force as a whole; a file with a
//! mistake leaves the old one in force and is told.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    path::Path,
    sync::Arc,
};

use jiff::Timestamp;

use super::{agents::restart_key, hive::Hive, sync, variables::Variables};
use crate::{
    config::{
        load::{self, ConfigError, Loaded},
        model::{Agent as AgentConfig, Config},
    },
    db,
    engine::EngineError,
    error::Fault,
    ids::{AgentId, SkillId},
    registry::{file::UsedBy, index::Index},
    resolver::{
        lock::{Lock, LockedAgent},
        own::with_own,
        solve::{Request, Resolution, Update, solve},
    },
    secrets::{SecretValue, mask::Masker, store::Secrets},
    supervisor::agent::Agent,
};

/// Replaced values that are still masked.
const MAX_RETIRED: usize = 1_000;

/// What is wanted.
#[derive(Debug, Clone)]
pub struct World {
    /// Counts the worlds that were in force; see [`World::due`].
    pub generation: u64,
    /// Since when all agents, and since when some, get what they get.
    due_all: u64,
    due: BTreeMap<AgentId, u64>,
    /// The configuration in force.
    pub config: Arc<Config>,
    /// What is accepted in it but probably not meant.
    pub warnings: Vec<Fault>,
    /// Mistakes of a newer `skep.toml`, `skep.lock` or secrets file that was refused.
    pub refused: Vec<Fault>,
    /// Faults of skill sources.
    pub source_faults: Vec<Fault>,
    /// Jobs of `skep.toml` that were refused, or wait for their tools.
    pub job_faults: Vec<Fault>,
    /// Every skill.
    pub index: Arc<Index>,
    /// What each agent gets, or why it cannot.
    pub resolutions: BTreeMap<AgentId, Resolved>,
    /// `skep.lock` as it stands.
    pub lock: Lock,
    /// Whether it was ever read: until then nobody knows which versions are locked.
    pub lock_known: bool,
    /// Whether it could be read last: a file with faults is left for the operator to mend.
    pub lock_writable: bool,
    /// Which agents resolved which skills.
    pub used: Arc<UsedBy>,
    /// What the souls of agents that have one say, or why they cannot be read.
    pub souls: BTreeMap<AgentId, Result<String, String>>,
    /// The secrets.
    pub secrets: Arc<Secrets>,
    /// Masks them, and those that they replaced: what was started before still holds the old ones.
    pub masker: Masker,
    /// Values that were in force before, since the supervisor started.
    retired: Arc<Vec<SecretValue>>,
    /// What variables of skills may take their values from.
    pub variables: Arc<Variables>,
    /// Ids of the images that agents name, as far as they are there.
    pub images: BTreeMap<String, String>,
}

impl World {
    /// The first world, from a configuration alone; a refresh completes it.
    #[must_use]
    pub fn new(loaded: Loaded) -> Self {
        Self {
            generation: 0,
            config: Arc::new(loaded.config),
            warnings: loaded.warnings,
            refused: Vec::new(),
            source_faults: Vec::new(),
            job_faults: Vec::new(),
            index: Arc::default(),
            resolutions: BTreeMap::new(),
            lock: Lock::default(),
            lock_known: false,
            lock_writable: false,
            used: Arc::default(),
            due_all: 0,
            due: BTreeMap::new(),
            souls: BTreeMap::new(),
            secrets: Arc::default(),
            masker: Masker::new([]),
            retired: Arc::default(),
            variables: Arc::default(),
            images: BTreeMap::new(),
        }
    }

    /// Whether an agent that was prepared from `other` is prepared from this one too.
    pub(super) fn same_as(&self, other: &Self) -> bool {
        // The content of a bundle is read when agents are prepared.
        self.config.ca_bundle.is_none()
            && self.config == other.config
            && self.images == other.images
            && self.resolutions == other.resolutions
            && self.secrets == other.secrets
            && self.variables == other.variables
            && self.souls == other.souls
            && self.index == other.index
            && self.lock == other.lock
            && self.lock_known == other.lock_known
            && (&self.warnings, &self.refused, &self.source_faults, &self.job_faults)
                == (&other.warnings, &other.refused, &other.source_faults, &other.job_faults)
    }

    /// Masks these values too, and those that they replace.
    pub(super) fn mask_also(&mut self, values: Vec<SecretValue>) {
        let new: Vec<SecretValue> =
            values.into_iter().filter(|value| !self.retired.contains(value)).collect();
        if new.is_empty() {
            return;
        }
        self.retired =
            Arc::new(new.into_iter().chain(self.retired.iter().cloned()).take(MAX_RETIRED).collect());
        let values = self.secrets.iter().map(|(_, value)| value).chain(self.retired.iter());
        self.masker = Masker::new(values);
    }

    /// Counts anew which agents resolved which skills.
    pub(super) fn count_uses(&mut self) {
        let mut used: BTreeMap<SkillId, BTreeSet<AgentId>> = BTreeMap::new();
        for (agent, resolution) in &self.resolutions {
            for id in resolution.iter().flat_map(|r| r.skills.keys()) {
                used.entry(id.clone()).or_default().insert(agent.clone());
            }
        }
        // The same stays the same: views that were made with it hold.
        if *self.used != used {
            self.used = Arc::new(used);
        }
    }

    /// These agents get something else than before.
    pub(super) fn mark(&mut self, agents: &BTreeSet<AgentId>) {
        self.due.extend(agents.iter().map(|agent| (agent.clone(), self.generation)));
    }

    /// All agents may get something else than before.
    pub(super) fn mark_all(&mut self) {
        self.due.clear();
        self.due_all = self.generation;
    }

    /// An agent that was prepared for an older generation is to be prepared again.
    #[must_use]
    pub fn due(&self, agent: &AgentId) -> u64 {
        self.due.get(agent).copied().unwrap_or(0).max(self.due_all)
    }
}

/// What of the lock a refresh may leave behind.
#[derive(Debug, Clone, Default)]
pub struct UpdateScope {
    /// Only these agents; none: all.
    pub agents: Option<BTreeSet<AgentId>>,
    /// How far.
    pub update: Update,
}

impl UpdateScope {
    fn of(&self, agent: &AgentId) -> Update {
        match &self.agents {
            Some(agents) if !agents.contains(agent) => Update::None,
            _ => self.update.clone(),
        }
    }
}

/// What an agent gets, or why it cannot.
pub type Resolved = Result<Arc<Resolution>, String>;

/// Resolves every agent against a lock: what each gets, and the lock that follows.
pub fn resolve_all(
    config: &Config,
    index: &Index,
    lock: &Lock,
    scope: &UpdateScope,
) -> (BTreeMap<AgentId, Resolved>, Lock) {
    let mut resolutions = BTreeMap::new();
    let mut next = Lock::default();
    for (id, agent) in &config.agents {
        let (resolution, locked) = resolve_one(agent, index, lock.agents.get(id), scope);
        next.agents.insert(id.clone(), locked);
        resolutions.insert(id.clone(), resolution);
    }
    (resolutions, next)
}

/// Resolves one agent against what is locked for it: what it gets, and what is locked from then on.
pub fn resolve_one(
    agent: &AgentConfig,
    index: &Index,
    locked: Option<&LockedAgent>,
    scope: &UpdateScope,
) -> (Resolved, LockedAgent) {
    let update = scope.of(&agent.id);
    let request = Request { agent: Some(&agent.id), skills: &agent.skills, lock: locked, update };
    match solve(index, &request) {
        Ok(resolution) => {
            let locked = resolution.locked();
            (Ok(Arc::new(with_own(index, &agent.id, resolution))), locked)
        }
        // What was locked stays so: a fault that goes away must not cost the versions.
        Err(conflict) => (Err(conflict.to_string()), locked.cloned().unwrap_or_default()),
    }
}

/// Without a lock to hold them to, agents with skills could be given other versions than they have.
fn hold_unlocked(config: &Config, resolutions: &mut BTreeMap<AgentId, Resolved>) {
    for (id, resolution) in resolutions {
        if config.agents.get(id).is_some_and(|agent| !agent.skills.is_empty()) {
            *resolution = Err("skep.lock cannot be read, so its versions are not known; mend the file, or \
                               remove it to resolve anew"
                .to_owned());
        }
    }
}

impl Hive {
    /// Reads configuration, secrets, skill sources and lock anew and puts the new world in force.
    pub async fn refresh(&self, scope: &UpdateScope) {
        let guard = self.refreshing.lock().await;
        let old = self.world();
        let mut world = World { refused: Vec::new(), ..(*old).clone() };
        self.read_config(&mut world);
        self.read_secrets(&mut world);
        self.read_souls(&mut world);
        if let Err(e) = self.load_registry().await {
            world.refused.push(Fault::new(".skep/skep.db", e.to_string()));
        }
        world.source_faults = sync::sync_sources(self, &world.config).await.faults;
        self.read_variables(&mut world).await;
        world.index = self.world().index.clone();
        self.resolve_world(&mut world, scope);
        if let Err(e) = self.sync_agents(&world.config).await {
            world.refused.push(Fault::new(".skep/skep.db", e.to_string()));
        }
        self.sync_config_jobs(&old, &mut world).await;
        self.sync_skill_jobs(&old, &mut world).await;
        for fault in world.source_faults.iter().filter(|f| !old.source_faults.contains(f)) {
            tracing::warn!(%fault, "a skill source has a fault");
        }
        for fault in world.job_faults.iter().filter(|f| !old.job_faults.contains(f)) {
            tracing::warn!(%fault, "a job does not run");
        }
        self.read_images(&mut world).await;
        if !self.put_in_force(world, &old) {
            self.retry_impossible();
        }
        self.enable_waiting().await;
        self.align_text().await;
        drop(guard);
    }

    /// Resolves every agent against `skep.lock` as it stands.
    fn resolve_world(&self, world: &mut World, scope: &UpdateScope) {
        match read_lock(&self.paths.lock()) {
            Ok(lock) => {
                let (resolutions, next) = resolve_all(&world.config, &world.index, &lock, scope);
                (world.resolutions, world.lock, world.lock_known) = (resolutions, next, true);
                world.lock_writable = true;
            }
            Err(faults) => {
                let (mut resolutions, _) = resolve_all(&world.config, &world.index, &world.lock, scope);
                if !world.lock_known {
                    hold_unlocked(&world.config, &mut resolutions);
                }
                world.resolutions = resolutions;
                world.lock_writable = false;
                world.refused.extend(faults);
            }
        }
    }

    /// Ids of the images that agents name; as before while the engine does not answer.
    async fn read_images(&self, world: &mut World) {
        let names: BTreeSet<String> = world.config.agents.values().map(|a| a.image.clone()).collect();
        let mut images = BTreeMap::new();
        for name in names {
            match self.engine.image(&name).await {
                Ok(image) => {
                    images.insert(name, image.id);
                }
                Err(EngineError::Unavailable(_)) => return,
                Err(_) => {}
            }
        }
        world.images = images;
    }

    /// What made an agent impossible to prepare may be gone although the world is as it was.
    fn retry_impossible(&self) {
        for agent in self.all_agents() {
            let mut state = agent.state();
            if matches!(state.preparation, Some(Err(_))) {
                state.prepared_for = 0;
            }
        }
        self.wake.notify_one();
    }

    fn read_config(&self, world: &mut World) {
        match load::load(&self.paths.root) {
            Ok(loaded) => {
                let changes = crate::config::changed(&world.config, &loaded.config);
                for key in &changes.restart {
                    let message = format!("a changed {key} takes effect when the supervisor is restarted");
                    let help = format!(
                        "end the supervisor alone with `kill {}` (its agents run on), then `skep up -d`",
                        std::process::id()
                    );
                    world.refused.push(Fault::new(load::FILE, message).help(help));
                }
                world.config = Arc::new(loaded.config);
                world.warnings = loaded.warnings;
            }
            Err(ConfigError::Invalid { faults, .. }) => world.refused.extend(faults),
            Err(e) => world.refused.push(Fault::new(load::FILE, e.to_string())),
        }
    }

    fn read_secrets(&self, world: &mut World) {
        match self.secret_store(&world.config).load() {
            Ok(loaded) => {
                let known = |value: &SecretValue| loaded.secrets.iter().any(|(_, new)| new == value);
                let gone = world.secrets.iter().map(|(_, value)| value).filter(|value| !known(value));
                let retired: Vec<SecretValue> = gone.chain(world.retired.iter()).cloned().collect();
                world.retired = Arc::new(retired.into_iter().take(MAX_RETIRED).collect());
                let values = loaded.secrets.iter().map(|(_, value)| value).chain(world.retired.iter());
                world.masker = Masker::new(values);
                world.secrets = Arc::new(loaded.secrets);
                // The old warnings stay when skep.toml was refused.
                let new: Vec<Fault> =
                    loaded.warnings.into_iter().filter(|w| !world.warnings.contains(w)).collect();
                world.warnings.extend(new);
            }
            Err(e) => {
                world
                    .refused
                    .push(Fault::new(world.config.secrets_file.display().to_string(), e.to_string()));
            }
        }
    }

    fn read_souls(&self, world: &mut World) {
        let with_soul = world.config.agents.values().filter_map(|a| Some((&a.id, a.soul.as_ref()?)));
        let souls = with_soul.map(|(id, soul)| {
            let text = fs::read_to_string(self.paths.resolve(soul))
                .map_err(|e| format!("cannot read its soul {}: {e}", soul.display()));
            (id.clone(), text)
        });
        world.souls = souls.collect();
    }

    /// Makes a handle for each configured agent, and tells the others that they are not wanted.
    async fn sync_agents(&self, config: &Arc<Config>) -> Result<(), db::DbError> {
        let first_uid = self.first_uid();
        let names: Vec<(AgentId, bool)> =
            config.agents.values().map(|a| (a.id.clone(), a.autostart)).collect();
        let rows = self
            .db
            .write(move |tx| {
                names
                    .iter()
                    .map(|(id, autostart)| {
                        let desired = if *autostart {
                            db::agents::Desired::Running
                        } else {
                            db::agents::Desired::Stopped
                        };
                        let row = db::agents::ensure(tx, id, first_uid, desired, Timestamp::now())?;
                        Ok((row, db::meta::get(tx, &restart_key(id))?))
                    })
                    .collect::<Result<Vec<_>, db::DbError>>()
            })
            .await?;
        for agent in self.all_agents() {
            if !config.agents.contains_key(&agent.id) {
                agent.unwanted();
            }
        }
        for (row, restart) in rows {
            match self.find_agent(&row.id) {
                Ok(agent) => agent.wanted(row.desired),
                Err(_) => {
                    let agent = Agent::new(self, &row);
                    agent.state().restart = restart;
                    self.add_agent(agent);
                }
            }
        }
        Ok(())
    }
}

/// Reads `skep.lock`; a missing one is empty.
///
/// # Errors
/// Its faults.
pub fn read_lock(path: &Path) -> Result<Lock, Vec<Fault>> {
    match fs::read_to_string(path) {
        Ok(text) => Lock::parse(&text),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(Lock::default()),
        Err(e) => Err(vec![Fault::new("skep.lock", format!("cannot be read: {e}"))]),
    }
}

/// Writes a file of the operator's: whole or not at all.
///
/// # Errors
/// Of the file system.
pub fn write_atomically(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let folder = path.parent().ok_or_else(|| io::Error::other("no folder"))?;
    let mut file = tempfile::Builder::new()
        .permissions(std::os::unix::fs::PermissionsExt::from_mode(0o644))
        .tempfile_in(folder)?;
    io::Write::write_all(&mut file, bytes)?;
    file.as_file().sync_all()?;
    file.persist(path).map_err(|e| e.error)?;
    fs::File::open(folder)?.sync_all()
}
