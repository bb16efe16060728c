//! Watches the folders that agents write skills into: one inotify instance for the whole hive.
//!
//! Only notes which folders were touched and since when; what is there now, a scan finds out. Every name is opened
//! from the folder above it and no link is followed. An agent that floods is not listened to for a while, and whatever
//! may have been missed is answered as "look at everything".

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    ffi::{OsStr, OsString},
    io,
    mem::MaybeUninit,
    os::{
        fd::{AsRawFd, OwnedFd},
        unix::ffi::OsStrExt,
    },
    path::Path,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use rustix::{
    fs::{
        CWD,
        inotify::{CreateFlags, ReadFlags, Reader, WatchFlags, add_watch, init, remove_watch},
    },
    io::Errno,
};
use tokio::io::{Interest, unix::AsyncFd};

use super::tree::{self, NOTICE};
use crate::ids::AgentId;

/// Folders watched for one agent; what lies in further ones is found by the sweep.
const MAX_WATCHES: usize = 1_024;
/// Events of one agent in [`WINDOW`] above which it is not listened to for a while.
const FLOOD: u32 = if cfg!(test) { 2_000 } else { 20_000 };
const WINDOW: Duration = Duration::from_secs(1);
/// How long a flood is not listened to: at first, and at most. What comes after it waits no longer than that.
const MUTE: (Duration, Duration) = (Duration::from_secs(2), Duration::from_secs(5));
/// After so long without a flood the next one is a first one.
const CALM: Duration = Duration::from_secs(120);
/// Files being written that are remembered for one agent.
const MAX_OPEN: usize = 1_024;
/// Folders of one agent that are told apart; above, all of them are looked at.
const MAX_FOLDERS: usize = 2_000;
/// Reads of the kernel's queue before what was found is answered.
const READS: usize = 16;

const WATCHED: WatchFlags = WatchFlags::CREATE
    .union(WatchFlags::CLOSE_WRITE)
    .union(WatchFlags::MODIFY)
    .union(WatchFlags::ATTRIB)
    .union(WatchFlags::MOVED_FROM)
    .union(WatchFlags::MOVED_TO)
    .union(WatchFlags::DELETE)
    .union(WatchFlags::DELETE_SELF)
    .union(WatchFlags::MOVE_SELF)
    .union(WatchFlags::ONLYDIR)
    .union(WatchFlags::EXCL_UNLINK);

/// What was touched in one skill's folder.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Touch {
    /// Folders came or went: watches have to be laid anew.
    pub folders: bool,
    /// A file in it is being written at this moment.
    pub open: bool,
}

/// What was touched of one agent's.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Touched {
    /// By the name of the folder below `/skills/custom`.
    pub folders: BTreeMap<String, Touch>,
    /// Something was missed: everything has to be looked at.
    pub all: bool,
    /// A folder whose name is not UTF-8 came or went.
    pub odd: bool,
    /// It floods: nothing is heard of it until then; watch it anew.
    pub muted_until: Option<Instant>,
}

#[derive(Debug, Clone)]
struct Watch {
    agent: AgentId,
    /// The skill's folder it belongs to; none: the custom folder itself.
    folder: Option<String>,
}

#[derive(Debug, Default)]
struct Tree {
    watches: BTreeSet<i32>,
    touched: Touched,
    /// Files being written: the watch of their folder, their name, and the skill's folder.
    open: HashMap<(i32, OsString), String>,
    window: Option<(Instant, u32)>,
    mutes: u32,
    muted_at: Option<Instant>,
}

#[derive(Debug, Default)]
struct Table {
    watches: HashMap<i32, Watch>,
    trees: BTreeMap<AgentId, Tree>,
}

/// The watcher of all agents.
#[derive(Debug)]
pub struct CustomWatcher {
    inotify: AsyncFd<OwnedFd>,
    table: Mutex<Table>,
}

impl CustomWatcher {
    /// Watches nobody yet.
    ///
    /// # Errors
    /// When the system gives no more watchers.
    pub fn new() -> Result<Self, String> {
        let told = |e: io::Error| format!("cannot watch what agents write: {e}");
        let made = init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC).map_err(|e| told(e.into()))?;
        // SAFETY: an `OwnedFd` is open as long as it lives, and nothing takes it out of the `AsyncFd`.
        let inotify = unsafe { AsyncFd::register_with_interest(made, Interest::READABLE) };
        let inotify = inotify.map_err(|e| told(e.into()))?;
        Ok(Self { inotify, table: Mutex::default() })
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Listens to an agent's folder, not yet to those in it.
    ///
    /// # Errors
    /// It is not there, or the system gives no more watches.
    pub fn watch_root(&self, agent: &AgentId, custom: &Path) -> io::Result<()> {
        let root = tree::open_folder(CWD, custom.as_os_str())?;
        let mut table = self.table();
        table.trees.entry(agent.clone()).or_default();
        self.add(&mut table, agent, None, &root).map(|_| ())
    }

    /// Listens to a skill's folder and all that are in it. Answers whether all of them are listened to.
    ///
    /// # Errors
    /// It cannot be read, or the system gives no more watches.
    pub fn watch_folder(&self, agent: &AgentId, custom: &Path, folder: &str) -> io::Result<bool> {
        let mut room = true;
        tree::folders(custom, folder, &mut |found| {
            let mut table = self.table();
            room = table.trees.get(agent).is_some_and(|tree| tree.watches.len() < MAX_WATCHES);
            if room {
                self.add(&mut table, agent, Some(folder), found)?;
            }
            Ok(room)
        })?;
        Ok(room)
    }

    fn add(&self, table: &mut Table, agent: &AgentId, folder: Option<&str>, on: &OwnedFd) -> io::Result<i32> {
        // By its descriptor: whatever the name stands for by now.
        let path = format!("/proc/self/fd/{}", on.as_raw_fd());
        let watch = add_watch(self.inotify.get_ref(), path, WATCHED)?;
        let of = Watch { agent: agent.clone(), folder: folder.map(str::to_owned) };
        table.watches.insert(watch, of);
        if let Some(tree) = table.trees.get_mut(agent) {
            tree.watches.insert(watch);
        }
        Ok(watch)
    }

    /// Listens to an agent no more.
    pub fn forget(&self, agent: &AgentId) {
        let mut table = self.table();
        if let Some(tree) = table.trees.remove(agent) {
            self.remove(&mut table, &tree.watches);
        }
    }

    fn remove(&self, table: &mut Table, watches: &BTreeSet<i32>) {
        for watch in watches {
            table.watches.remove(watch);
            // Its folder may be gone, and the watch with it.
            remove_watch(self.inotify.get_ref(), *watch).unwrap_or_default();
        }
    }

    /// Waits until something was touched, and answers it by agent.
    pub async fn touched(&self) -> BTreeMap<AgentId, Touched> {
        loop {
            let Ok(mut ready) = self.inotify.readable().await else { return std::future::pending().await };
            if self.read(Instant::now()) {
                ready.clear_ready();
            }
            let found = self.take();
            if !found.is_empty() {
                return found;
            }
        }
    }

    fn take(&self) -> BTreeMap<AgentId, Touched> {
        let mut table = self.table();
        let mut found = BTreeMap::new();
        for (agent, tree) in &mut table.trees {
            let mut touched = std::mem::take(&mut tree.touched);
            for folder in tree.open.values() {
                if let Some(touch) = touched.folders.get_mut(folder) {
                    touch.open = true;
                }
            }
            if touched != Touched::default() {
                found.insert(agent.clone(), touched);
            }
        }
        found
    }

    /// Takes events from the kernel; true when there are no more.
    fn read(&self, now: Instant) -> bool {
        let mut buffer = vec![MaybeUninit::uninit(); 64 << 10];
        let mut table = self.table();
        for _ in 0..READS {
            let mut reader = Reader::new(self.inotify.get_ref(), &mut buffer);
            loop {
                match reader.next() {
                    Ok(event) => {
                        let name = event.file_name().map(|n| OsStr::from_bytes(n.to_bytes()));
                        let flooding = table.note(event.wd(), event.events(), name, now);
                        if let Some(agent) = flooding {
                            self.mute(&mut table, &agent, now);
                        }
                    }
                    Err(Errno::INTR) => continue,
                    // Nothing more, or nothing that could be helped: the sweep goes on.
                    Err(_) => return true,
                }
                if reader.is_buffer_empty() {
                    break;
                }
            }
        }
        false
    }

    fn mute(&self, table: &mut Table, agent: &AgentId, now: Instant) {
        let Some(tree) = table.trees.get_mut(agent) else { return };
        if tree.muted_at.is_none_or(|at| now.duration_since(at) > CALM) {
            tree.mutes = 0;
        }
        let pause = MUTE.0.saturating_mul(1 << tree.mutes.min(4)).min(MUTE.1);
        (tree.mutes, tree.muted_at) = (tree.mutes + 1, Some(now));
        tree.touched = Touched { all: true, muted_until: Some(now + pause), ..Touched::default() };
        tree.open.clear();
        // What is heard afterwards counts anew.
        tree.window = None;
        let watches = std::mem::take(&mut tree.watches);
        self.remove(table, &watches);
    }
}

impl Table {
    /// Notes one event. Answers an agent that floods.
    fn note(&mut self, watch: i32, what: ReadFlags, name: Option<&OsStr>, now: Instant) -> Option<AgentId> {
        if what.contains(ReadFlags::QUEUE_OVERFLOW) {
            self.trees.values_mut().for_each(|tree| tree.touched.all = true);
            return None;
        }
        let of = self.watches.get(&watch)?.clone();
        let tree = self.trees.get_mut(&of.agent)?;
        if what.contains(ReadFlags::IGNORED) {
            self.watches.remove(&watch);
            tree.watches.remove(&watch);
            tree.open.retain(|(folder, _), _| *folder != watch);
            return None;
        }
        match &of.folder {
            None => tree.note_root(what, name),
            Some(folder) => tree.note_folder(folder, watch, what, name),
        }
        let (began, count) =
            tree.window.filter(|(at, _)| now.duration_since(*at) < WINDOW).unwrap_or((now, 0));
        tree.window = Some((began, count + 1));
        (count + 1 > FLOOD).then_some(of.agent)
    }
}

impl Tree {
    fn touch(&mut self, folder: &str) -> Option<&mut Touch> {
        if self.touched.folders.len() >= MAX_FOLDERS && !self.touched.folders.contains_key(folder) {
            self.touched.all = true;
            return None;
        }
        Some(self.touched.folders.entry(folder.to_owned()).or_default())
    }

    /// In the custom folder itself: a skill's folder came, went or changed its mode.
    fn note_root(&mut self, what: ReadFlags, name: Option<&OsStr>) {
        let Some(name) = name else {
            self.touched.all |= what.intersects(ReadFlags::DELETE_SELF | ReadFlags::MOVE_SELF);
            return;
        };
        if what.contains(ReadFlags::MODIFY) {
            return;
        }
        self.touched.odd |= tree::is_odd(name);
        if let Some(folder) = tree::candidate(name)
            && let Some(touch) = self.touch(folder)
        {
            touch.folders = true;
        }
    }

    fn note_folder(&mut self, folder: &str, watch: i32, what: ReadFlags, name: Option<&OsStr>) {
        if name == Some(OsStr::new(NOTICE)) {
            return;
        }
        let moved = ReadFlags::CREATE | ReadFlags::MOVED_TO | ReadFlags::MOVED_FROM | ReadFlags::DELETE;
        let itself = what.intersects(ReadFlags::DELETE_SELF | ReadFlags::MOVE_SELF);
        let is_dir = what.contains(ReadFlags::ISDIR);
        let folders = itself || is_dir && what.intersects(moved);
        if let (Some(name), false) = (name, is_dir) {
            let key = (watch, name.to_owned());
            if what.intersects(ReadFlags::CREATE | ReadFlags::MODIFY) {
                if self.open.len() < MAX_OPEN {
                    self.open.insert(key, folder.to_owned());
                }
            } else if !what.contains(ReadFlags::ATTRIB) {
                self.open.remove(&key);
            }
        }
        if let Some(touch) = self.touch(folder) {
            touch.folders |= folders;
        }
    }
}

#[cfg(test)]
mod tests;
