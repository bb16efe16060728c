//! Skills that agents write themselves: from a file closed in a container to a version of the registry.
//!
//! One task for all agents. Events only say which folder to look at; a scan at the start and on a slow timer finds
//! what no event told. One folder of an agent at a time, so that no agent costs more than its share.

mod desk;
mod limit;
mod memo;
mod pace;
mod room;
mod sent;
mod take;
mod told;

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::sync::{Semaphore, mpsc};

pub use desk::Desk;
use room::{Done, Room, Work};
pub use told::rejected;

use super::hive::Hive;
use crate::{
    ids::AgentId,
    watcher::custom::{CustomWatcher, Touched},
};

/// Folders that are looked at at the same time.
const SLOTS: usize = 4;
/// A folder that could not be opened is tried again after this.
const AGAIN: Duration = Duration::from_secs(60);
/// However little happens, whether agents came or went is looked at this often.
const LOOK: Duration = Duration::from_secs(5);

/// Runs until the hive stops.
pub async fn run(hive: Arc<Hive>) {
    let watcher = match CustomWatcher::new() {
        Ok(watcher) => Some(Arc::new(watcher)),
        Err(e) => {
            tracing::warn!("{e}; skills that agents write are noticed every {} s", room::POLL.as_secs());
            None
        }
    };
    let (sender, mut done) = mpsc::unbounded_channel();
    let mut keeper = Keeper {
        hive: hive.clone(),
        watcher,
        rooms: BTreeMap::new(),
        slots: Arc::new(Semaphore::new(SLOTS)),
        sender,
        closed: BTreeMap::new(),
    };
    let mut met: Option<Instant> = None;
    loop {
        if met.is_none_or(|met| met.elapsed() >= LOOK) {
            keeper.meet_agents().await;
            met = Some(Instant::now());
        }
        let next = keeper.start_work(Instant::now());
        tokio::select! {
            touched = keeper.touched() => keeper.note(touched, Instant::now()),
            Some((agent, done)) = done.recv() => keeper.finish(&agent, done),
            () = hive.custom.changed.notified() => met = None,
            () = tokio::time::sleep_until(next.into()) => {}
            () = hive.stopping.cancelled() => return,
        }
    }
}

struct Keeper {
    hive: Arc<Hive>,
    watcher: Option<Arc<CustomWatcher>>,
    rooms: BTreeMap<AgentId, Room>,
    slots: Arc<Semaphore>,
    sender: mpsc::UnboundedSender<(AgentId, Done)>,
    /// Agents whose folder could not be opened, and since when.
    closed: BTreeMap<AgentId, Instant>,
}

impl Keeper {
    async fn touched(&self) -> BTreeMap<AgentId, Touched> {
        match &self.watcher {
            Some(watcher) => watcher.touched().await,
            None => std::future::pending().await,
        }
    }

    /// Opens a room for every agent whose folder is there, and closes those of agents that are gone.
    async fn meet_agents(&mut self) {
        let agents = self.hive.all_agents();
        let watcher = self.watcher.as_ref();
        self.rooms.retain(|id, room| {
            let stays = agents.iter().any(|agent| agent.id == *id && Arc::ptr_eq(agent, room.agent()));
            if let (false, Some(watcher)) = (stays, watcher) {
                watcher.forget(id);
            }
            stays
        });
        self.closed.retain(|_, since| since.elapsed() < AGAIN);
        for agent in agents {
            if self.rooms.contains_key(&agent.id)
                || self.closed.contains_key(&agent.id)
                || !agent.dir.custom().is_dir()
            {
                continue;
            }
            let id = agent.id.clone();
            match Room::open(&self.hive, agent, watcher).await {
                Ok(room) => {
                    self.rooms.insert(id, room);
                }
                Err(e) => {
                    tracing::warn!(agent = %id, "cannot look at the skills that it writes: {e}");
                    self.closed.insert(id, Instant::now());
                }
            }
        }
    }

    fn note(&mut self, touched: BTreeMap<AgentId, Touched>, now: Instant) {
        for (agent, touched) in touched {
            if let Some(room) = self.rooms.get_mut(&agent) {
                room.note(touched, now);
            }
        }
    }

    /// Starts what is due; answers when the next thing is.
    fn start_work(&mut self, now: Instant) -> Instant {
        let mut next = now + LOOK;
        let poll = self.hive.world().config.registry.poll;
        for (id, room) in &mut self.rooms {
            while let Some(work) = room.next_work(now, poll) {
                let (hive, watcher, slots) = (self.hive.clone(), self.watcher.clone(), self.slots.clone());
                let (sender, id) = (self.sender.clone(), id.clone());
                let agent = room.agent().clone();
                tokio::spawn(async move {
                    let _slot = match work {
                        // Short, and every moment before it is one in which files are missed.
                        Work::Watch(_) => None,
                        Work::Sweep { .. } | Work::Folder(_) => slots.acquire().await.ok(),
                    };
                    let done = perform(&hive, watcher, &agent, work).await;
                    // The hive stops: nobody waits for it any more.
                    sender.send((id, done)).unwrap_or_default();
                });
            }
            next = room.due(poll).map_or(next, |due| next.min(due));
        }
        next
    }

    fn finish(&mut self, agent: &AgentId, done: Done) {
        if let Some(room) = self.rooms.get_mut(agent) {
            room.finish(done, Instant::now());
        }
    }
}

async fn perform(
    hive: &Arc<Hive>,
    watcher: Option<Arc<CustomWatcher>>,
    agent: &Arc<crate::supervisor::agent::Agent>,
    work: Work,
) -> Done {
    match work {
        Work::Sweep { watch } => {
            let swept = room::sweep(agent.clone(), watcher.filter(|_| watch)).await;
            if let room::Done::Swept { found: Some(_), odd, .. } = &swept {
                told::odd(agent, odd).await;
            }
            swept
        }
        Work::Watch(names) => room::watch(agent.clone(), names, watcher).await,
        Work::Folder(folder) => {
            let began = Instant::now();
            let looked = room::look(agent.clone(), &folder).await;
            let (next, memo) = if looked.at_work && !folder.tell {
                (room::Next::Again, folder.memo.clone())
            } else {
                let taken = take::take(hive, agent, &folder.name, folder.memo.clone()).await;
                told::conclude(hive, agent, &folder, taken).await
            };
            Done::Folder { name: folder.name, signature: looked.signature, memo, next, cost: began.elapsed() }
        }
    }
}
