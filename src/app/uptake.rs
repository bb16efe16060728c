//! Takes changes of the registry up into the world in force: only what changed, at once.
//!
//! A refresh reads everything anew; this does not. The lock is respected: a new version moves no agent that is locked
//! to another. Only agents whose skills changed are prepared again.

use std::{
    collections::BTreeSet,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use super::{
    faces::{ArtifactCache, HeldCache},
    hive::Hive,
    jobs::is_of_skill,
    skills::{Waiting, cache::ViewCache},
    world::{UpdateScope, World, resolve_one},
};
use crate::{
    db,
    error::Fault,
    ids::{AgentId, SkillId},
    registry::{
        file::{self, SkillsFile, Written},
        index::{Index, Owner, SkillEntry},
    },
    resolver::{
        Resolution,
        lock::{Lock, LockedAgent},
    },
};

/// `registry/skills.json` follows the registry with this delay, so that many changes cost one file.
const FILE_DELAY: Duration = Duration::from_secs(1);

/// A skill as it is now; none: it is gone.
pub type Change = (SkillId, Option<SkillEntry>);

/// What the hive holds for changes of its registry.
#[derive(Default)]
pub struct Desk {
    /// One change of the registry at a time.
    pub(super) changing: tokio::sync::Mutex<()>,
    /// Versions that wait to be published together.
    queue: Mutex<Vec<Waiting>>,
    /// Views that were asked for.
    pub(super) views: ViewCache,
    /// What the faces of other registries tell of versions.
    pub(super) artifacts: ArtifactCache,
    /// The skills of agents as MCP clients read them.
    pub(super) held: HeldCache,
    /// One world is put in force at a time.
    swap: Mutex<()>,
    /// The registry file is going to be written.
    file_due: AtomicBool,
    /// The registry that what is searched was last compared with.
    texts: Mutex<Option<Arc<Index>>>,
    /// The world knows the registry as the database has it.
    loaded: AtomicBool,
}

/// What a changed registry changed for agents.
#[derive(Debug, Default, PartialEq, Eq)]
struct Effect {
    /// Agents that get something else.
    agents: BTreeSet<AgentId>,
    /// Whether `skep.lock` is another.
    lock: bool,
}

impl Desk {
    /// Versions that wait to be published.
    pub(super) fn waiting(&self) -> MutexGuard<'_, Vec<Waiting>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether what is searched was not compared with this registry yet; from now on it is.
    pub(super) fn texts_differ_from(&self, index: &Arc<Index>) -> bool {
        let mut texts = self.texts.lock().unwrap_or_else(PoisonError::into_inner);
        let differ = texts.as_ref().is_none_or(|known| !Arc::ptr_eq(known, index));
        *texts = Some(index.clone());
        differ
    }

    /// Takes at most so many of those that wait, the first first.
    pub(super) fn take_waiting(&self, most: usize) -> Vec<Waiting> {
        let mut queue = self.waiting();
        let most = most.min(queue.len());
        queue.drain(..most).collect()
    }
}

impl World {
    /// Goes on with another registry, which differs in these skills.
    fn take_up(&mut self, index: Arc<Index>, changed: &BTreeSet<SkillId>) -> Effect {
        let before = std::mem::replace(&mut self.index, index);
        let mut effect = Effect::default();
        if !self.lock_known {
            // Nobody knows what the agents have; the next refresh resolves them.
            return effect;
        }
        let config = self.config.clone();
        for (id, agent) in &config.agents {
            let old = self.resolutions.get(id);
            let mut concerned = match old {
                Some(Ok(resolution)) => {
                    changed.iter().filter(|s| resolution.skills.contains_key(*s)).collect::<Vec<_>>()
                }
                // What was missing may be there now.
                Some(Err(_)) | None => changed.iter().collect(),
            };
            let is_own = |skill: &SkillId| {
                let owners = [&before, &self.index].map(|i| i.skills.get(skill).map(|entry| &entry.owner));
                owners.iter().flatten().any(|owner| matches!(owner, Owner::Agent(author) if author == id))
            };
            // What one of its own needs may be there now.
            let waits = matches!(old, Some(Ok(resolution)) if !resolution.left_out.is_empty());
            let named = |skill: &SkillId| agent.skills.iter().any(|r| r.id == *skill);
            concerned.extend(changed.iter().filter(|s| waits || named(s) || is_own(s)));
            if concerned.is_empty() {
                continue;
            }
            let (resolution, locked) =
                resolve_one(agent, &self.index, self.lock.agents.get(id), &UpdateScope::default());
            let altered = |resolution: &Arc<Resolution>| {
                concerned.iter().any(|skill| {
                    let version = resolution.skills.get(*skill).map(|r| &r.version);
                    version.is_some_and(|v| before.version(skill, v) != self.index.version(skill, v))
                })
            };
            if old != Some(&resolution) || resolution.as_ref().is_ok_and(altered) {
                effect.agents.insert(id.clone());
            }
            if self.lock.agents.get(id) != Some(&locked) {
                effect.lock = true;
                self.lock.agents.insert(id.clone(), locked);
            }
            self.resolutions.insert(id.clone(), resolution);
        }
        effect
    }
}

impl Hive {
    /// Reads the whole registry, once.
    pub(super) async fn load_registry(&self) -> Result<(), db::DbError> {
        if self.registry.loaded.load(Ordering::SeqCst) {
            return Ok(());
        }
        let _changing = self.registry.changing.lock().await;
        let index = Arc::new(self.db.read(db::skills::load_index).await?);
        let _swap = self.registry.swap.lock().unwrap_or_else(PoisonError::into_inner);
        let mut world = (*self.world()).clone();
        world.index = index;
        self.set_world(world);
        self.registry.loaded.store(true, Ordering::SeqCst);
        Ok(())
    }

    /// Shows changed skills (none: it is gone) to everybody. Call it in the order of the changes, `changing` held.
    pub(super) async fn take_up(self: &Arc<Self>, entries: Vec<Change>) {
        if entries.is_empty() {
            return;
        }
        let changed = entries.iter().map(|(id, _)| id.clone()).collect();
        let agents = self.swap_index(entries);
        self.write_registry_file_soon();
        self.resettle_skill_jobs(changed).await;
        if !agents.is_empty() {
            self.wake.notify_one();
            self.resettle_jobs().await;
            self.enable_waiting().await;
        }
    }

    /// As [`Self::take_up`], without what follows from it; answers which agents get something else.
    pub(super) fn swap_index(&self, entries: Vec<Change>) -> BTreeSet<AgentId> {
        let _swap = self.registry.swap.lock().unwrap_or_else(PoisonError::into_inner);
        let mut world = (*self.world()).clone();
        let mut index = (*world.index).clone();
        let changed: BTreeSet<SkillId> = entries.iter().map(|(id, _)| id.clone()).collect();
        for (id, entry) in entries {
            match entry {
                Some(entry) => index.skills.insert(id, Arc::new(entry)),
                None => index.skills.remove(&id),
            };
        }
        let old_lock = world.lock.clone();
        let effect = world.take_up(Arc::new(index), &changed);
        world.generation += 1;
        if !effect.agents.is_empty() {
            world.count_uses();
            world.mark(&effect.agents);
        }
        if effect.lock && world.lock_writable {
            self.write_lock(&old_lock, &mut world);
        }
        self.set_world(world);
        effect.agents
    }

    /// Locks an agent to other versions, and gives it those. `changing` is held.
    pub(super) fn lock_agent(&self, agent: &AgentId, locked: LockedAgent, resolution: Arc<Resolution>) {
        let _swap = self.registry.swap.lock().unwrap_or_else(PoisonError::into_inner);
        let mut world = (*self.world()).clone();
        let old = world.lock.clone();
        world.lock.agents.insert(agent.clone(), locked);
        world.resolutions.insert(agent.clone(), Ok(resolution));
        world.generation += 1;
        world.count_uses();
        world.mark(&[agent.clone()].into());
        if world.lock_writable {
            self.write_lock(&old, &mut world);
        }
        self.set_world(world);
    }

    /// Puts a world in force that was made from `base`, with what the registry became meanwhile. Answers whether it
    /// is another than the one before.
    pub(super) fn put_in_force(&self, mut world: World, base: &World) -> bool {
        let _swap = self.registry.swap.lock().unwrap_or_else(PoisonError::into_inner);
        let current = self.world();
        if !Arc::ptr_eq(&current.index, &world.index) {
            let changed = world.index.changed(&current.index);
            world.take_up(current.index.clone(), &changed);
        }
        world.count_uses();
        if world.lock_writable {
            self.write_lock(&current.lock, &mut world);
        }
        self.write_registry_file(&mut world);
        for fault in world.refused.iter().filter(|f| !base.refused.contains(f)) {
            tracing::error!(%fault, "refused; what was in force stays so");
        }
        // The first world is never the same: agents wait for it.
        if base.generation > 0 && world.same_as(&current) {
            return false;
        }
        world.generation = current.generation + 1;
        world.mark_all();
        self.set_world(world);
        self.wake.notify_one();
        true
    }

    fn write_lock(&self, old: &Lock, world: &mut World) {
        let changed = world.lock.agents.iter().filter(|(id, locked)| old.agents.get(*id) != Some(*locked));
        for (agent, locked) in changed {
            self.remember_lock(agent, old.agents.get(agent), locked);
        }
        let text = world.lock.to_string();
        // The operator may have changed it.
        if std::fs::read(self.paths.lock()).is_ok_and(|there| there == text.as_bytes()) {
            return;
        }
        if let Err(e) = super::world::write_atomically(&self.paths.lock(), text.as_bytes()) {
            world.refused.push(Fault::new("skep.lock", format!("cannot be written: {e}")));
        }
    }

    /// For a later rollback.
    fn remember_lock(&self, agent: &AgentId, before: Option<&LockedAgent>, now: &LockedAgent) {
        let (agent, states, at) = (agent.clone(), [before.cloned(), Some(now.clone())], self.now());
        let kept = self.db.write(move |tx| {
            states.iter().flatten().try_for_each(|state| db::lock_history::add(tx, &agent, state, at))
        });
        tokio::spawn(async move {
            let kept: Result<(), db::DbError> = kept.await;
            if let Err(e) = kept {
                tracing::error!("what skep.lock held cannot be kept for a rollback: {e}");
            }
        });
    }

    /// Notes which jobs of `skep.toml` do not run.
    pub(super) fn note_job_faults(&self, mut faults: Vec<Fault>) {
        let _swap = self.registry.swap.lock().unwrap_or_else(PoisonError::into_inner);
        let current = self.world();
        faults.extend(current.job_faults.iter().filter(|fault| is_of_skill(fault)).cloned());
        if current.job_faults != faults {
            let mut world = (*current).clone();
            world.job_faults = faults;
            self.set_world(world);
        }
    }

    fn write_registry_file(&self, world: &mut World) {
        let content = SkillsFile::new(&world.index, &world.used);
        if let Err(e) = self.write_skills_file(&content) {
            world.refused.push(Fault::new("registry/skills.json", format!("cannot be written: {e}")));
        }
    }

    fn write_skills_file(&self, content: &SkillsFile) -> std::io::Result<()> {
        if let Written::Repaired(why) = file::write(&self.paths.registry_file(), content)? {
            tracing::warn!("{why}");
        }
        Ok(())
    }

    /// The file is written a little later, once for all changes until then.
    fn write_registry_file_soon(self: &Arc<Self>) {
        if self.registry.file_due.swap(true, Ordering::SeqCst) {
            return;
        }
        let hive = self.clone();
        tokio::spawn(async move {
            tokio::select! {
                () = tokio::time::sleep(FILE_DELAY) => {}
                () = hive.stopping.cancelled() => {}
            }
            hive.registry.file_due.store(false, Ordering::SeqCst);
            let writing = tokio::task::spawn_blocking(move || {
                let world = hive.world();
                hive.write_skills_file(&SkillsFile::new(&world.index, &world.used))
            });
            match writing.await {
                Ok(Ok(())) => {}
                Ok(Err(e)) => tracing::error!("registry/skills.json cannot be written: {e}"),
                Err(e) => tracing::error!("writing registry/skills.json failed: {e}"),
            }
        });
    }
}
