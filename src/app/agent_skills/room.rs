//! What is known of one agent's folder: what has to be looked at, and when.
//!
//! Decides only when; what is there is found out by `take`.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    io,
    sync::Arc,
    time::{Duration, Instant},
};

use rustix::fs::CWD;

use super::{
    memo::{self, Memo},
    pace::Pace,
};
use crate::{
    app::hive::Hive,
    registry::notice,
    supervisor::agent::Agent,
    watcher::{
        custom::{CustomWatcher, Touched},
        tree,
    },
};

/// Everything is compared with what it was this often, also when nothing was told.
const SWEEP: Duration = Duration::from_secs(60);
/// The same where the file system tells nothing.
pub const POLL: Duration = Duration::from_secs(2);
/// Folders of one agent that are looked at.
pub const MAX_FOLDERS: usize = 2_000;
/// A folder that cannot be named is told after this.
const TOLD: Duration = Duration::from_secs(1);
/// What comes to nothing may take one part in so many of the time, and is waited for at most so long.
const SHARE: u32 = 4;
const MOST_REST: Duration = Duration::from_secs(3);

/// One agent's.
pub struct Room {
    agent: Arc<Agent>,
    due: BTreeMap<String, Pace>,
    memos: BTreeMap<String, Memo>,
    signatures: HashMap<String, u64>,
    /// Folders whose inner folders have to be watched.
    unwatched: BTreeSet<String>,
    /// The folder that is being looked at, and its pace.
    working: Option<(String, Pace)>,
    sweeping: bool,
    /// Folders are being listened to.
    watching: bool,
    /// All watches have to be laid again, not before this time.
    rewatch: Option<Instant>,
    /// They are being laid.
    rewatching: bool,
    /// One more comparison, for what was written before they were laid.
    resweep: Option<Instant>,
    swept: Instant,
    /// Nothing is looked at before.
    rest_until: Option<Instant>,
    tells: bool,
}

/// What is to be done for an agent.
pub enum Work {
    /// Compare everything with what it was.
    Sweep {
        /// Watch its folder first.
        watch: bool,
    },
    /// Listen to these folders, before more is written into them.
    Watch(Vec<String>),
    /// Look at a folder.
    Folder(Folder),
}

/// A folder to look at.
#[derive(Debug, Clone)]
pub struct Folder {
    /// Its name below `/skills/custom`.
    pub name: String,
    /// What was last made of it.
    pub memo: Option<Memo>,
    /// Whether what is wrong is told now.
    pub tell: bool,
}

/// What comes next for a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// A version came of it.
    Registered,
    /// Nothing, until something happens in it.
    Rest,
    /// It may become right by itself.
    Again,
    /// Not before this time; with `true` nothing of this agent's.
    Wait(Instant, bool),
}

/// What was done.
pub enum Done {
    /// Everything was compared: the signature of each folder.
    Swept {
        /// By name; none: it could not be listed.
        found: Option<BTreeMap<String, Option<u64>>>,
        /// There are more than are looked at.
        crowded: bool,
        /// Names of folders that no skill can have.
        odd: Vec<String>,
    },
    /// These folders are listened to.
    Watched(Vec<String>),
    /// A folder was looked at.
    Folder {
        /// Its name.
        name: String,
        /// What it was before it was looked at.
        signature: Option<u64>,
        /// What was made of it.
        memo: Option<Memo>,
        /// What comes next.
        next: Next,
        /// How long it took.
        cost: Duration,
    },
}

impl Room {
    /// Begins with everything that is there, and with what was there before.
    ///
    /// # Errors
    /// The database fails, or the folder cannot be read.
    pub async fn open(
        hive: &Hive,
        agent: Arc<Agent>,
        watcher: Option<&Arc<CustomWatcher>>,
    ) -> Result<Self, String> {
        let memos: BTreeMap<_, _> =
            memo::load(hive, &agent.id).await.map_err(|e| e.to_string())?.into_iter().collect();
        let custom = agent.dir.custom();
        let said = |e: io::Error| format!("{}: {e}", custom.display());
        let tells = tree::tells(&tree::open_folder(CWD, custom.as_os_str()).map_err(said)?);
        let watched = match watcher {
            Some(watcher) => watcher.watch_root(&agent.id, &custom),
            None => Err(io::Error::other("no watcher")),
        };
        let now = Instant::now();
        let mut room = Self {
            agent,
            due: BTreeMap::new(),
            memos,
            signatures: HashMap::new(),
            unwatched: BTreeSet::new(),
            working: None,
            sweeping: false,
            watching: false,
            rewatch: None,
            rewatching: false,
            resweep: None,
            swept: now,
            rest_until: None,
            tells: tells && watched.is_ok(),
        };
        notice::sweep(&custom).map_err(said)?;
        let listed = tree::candidates(&custom, MAX_FOLDERS).map_err(said)?;
        room.resweep = (!listed.odd.is_empty()).then_some(now);
        room.look_at_all(listed.names, now);
        Ok(room)
    }

    fn look_at_all(&mut self, names: Vec<String>, now: Instant) {
        let known = self.memos.keys().cloned();
        for name in names.into_iter().chain(known.collect::<Vec<_>>()) {
            self.unwatched.insert(name.clone());
            self.due.entry(name).or_insert_with(|| Pace::at_once(now));
        }
    }

    pub(super) fn agent(&self) -> &Arc<Agent> {
        &self.agent
    }

    /// Takes note of what was touched.
    pub(super) fn note(&mut self, touched: Touched, now: Instant) {
        if touched.all {
            self.rewatch = Some(touched.muted_until.unwrap_or(now));
        }
        if touched.odd {
            let soon = now + TOLD;
            self.resweep = Some(self.resweep.map_or(soon, |at| at.min(soon)));
        }
        if touched.muted_until.is_some() {
            tracing::warn!(agent = %self.agent.id, "changes in its /skills/custom come in a flood; \
                it is looked at again in a while");
        }
        for (name, touch) in touched.folders {
            if touch.folders {
                self.unwatched.insert(name.clone());
            }
            self.touch(name, now, touch.open);
        }
    }

    fn touch(&mut self, name: String, now: Instant, open: bool) {
        if self.due.len() >= MAX_FOLDERS && !self.due.contains_key(&name) {
            return;
        }
        self.due.entry(name).and_modify(|p| p.touch(now, open)).or_insert_with(|| Pace::touched(now, open));
    }

    fn sweep_due(&self, poll: Option<Duration>) -> Instant {
        let pause = poll.unwrap_or(if self.tells { SWEEP } else { POLL });
        let at = self.swept + pause;
        [self.rewatch, self.resweep].into_iter().flatten().fold(at, Instant::min)
    }

    /// When there is something to do; none while something is done.
    pub(super) fn due(&self, poll: Option<Duration>) -> Option<Instant> {
        if self.watching {
            return None;
        }
        if !self.unwatched.is_empty() {
            return Some(self.swept);
        }
        if self.working.is_some() || self.sweeping {
            return None;
        }
        let folder = self.due.values().map(Pace::due).min();
        let folder = folder.map(|at| self.rest_until.map_or(at, |rest| rest.max(at)));
        let sweep = self.sweep_due(poll);
        Some(folder.map_or(sweep, |at| at.min(sweep)))
    }

    /// What is to be done now.
    pub(super) fn next_work(&mut self, now: Instant, poll: Option<Duration>) -> Option<Work> {
        if !self.watching && !self.unwatched.is_empty() {
            self.watching = true;
            return Some(Work::Watch(std::mem::take(&mut self.unwatched).into_iter().collect()));
        }
        if self.watching || self.working.is_some() || self.sweeping {
            return None;
        }
        if self.sweep_due(poll) <= now {
            self.sweeping = true;
            self.rewatching = self.rewatch.take_if(|at| *at <= now).is_some();
            self.resweep = None;
            return Some(Work::Sweep { watch: self.rewatching });
        }
        if self.rest_until.is_some_and(|rest| rest > now) {
            return None;
        }
        let first =
            self.due.iter().min_by_key(|(_, pace)| pace.due()).map(|(name, pace)| (name.clone(), *pace));
        let (name, pace) = first.filter(|(_, pace)| pace.due() <= now)?;
        self.due.remove(&name);
        let folder =
            Folder { memo: self.memos.get(&name).cloned(), tell: pace.may_tell(now), name: name.clone() };
        self.working = Some((name, pace));
        Some(Work::Folder(folder))
    }

    /// Takes note of what came of it.
    pub(super) fn finish(&mut self, done: Done, now: Instant) {
        match done {
            Done::Swept { found, crowded, .. } => self.swept(found, crowded, now),
            Done::Watched(names) => {
                self.watching = false;
                // What was written before was not heard of: it may still be being written.
                for name in names {
                    self.due.entry(name).and_modify(|pace| pace.touch(now, false));
                }
            }
            Done::Folder { name, signature, memo, next, cost } => {
                let pace = self.working.take().map(|(_, pace)| pace);
                match signature {
                    Some(signature) => self.signatures.insert(name.clone(), signature),
                    None => self.signatures.remove(&name),
                };
                match memo {
                    Some(memo) => self.memos.insert(name.clone(), memo),
                    None => self.memos.remove(&name),
                };
                if next != Next::Registered {
                    self.rest_until = Some(now + (cost * SHARE).min(MOST_REST));
                }
                let mut pace = pace.unwrap_or_else(|| Pace::touched(now, false));
                match next {
                    Next::Registered | Next::Rest => return,
                    Next::Again => pace.again(now),
                    Next::Wait(until, all) => {
                        pace.put_off(until);
                        if all {
                            self.rest_until = Some(until);
                        }
                    }
                }
                // What happened meanwhile counts more.
                self.due.entry(name).or_insert(pace);
            }
        }
    }

    fn swept(&mut self, found: Option<BTreeMap<String, Option<u64>>>, crowded: bool, now: Instant) {
        (self.sweeping, self.swept) = (false, now);
        {
            let mut state = self.agent.state();
            let warning =
                format!("it has more than {MAX_FOLDERS} folders in /skills/custom: not all are looked at");
            if crowded {
                state.custom.insert("..".to_owned(), warning);
            } else {
                state.custom.remove("..");
            }
        }
        let rewatched = std::mem::take(&mut self.rewatching);
        let Some(found) = found else {
            self.rewatch = rewatched.then_some(now + POLL).or(self.rewatch);
            return;
        };
        if rewatched {
            // Only what changed is looked at: it shall not wait behind everything that did not.
            self.unwatched.extend(found.keys().cloned());
            self.resweep = Some(now + POLL);
        }
        let gone: Vec<String> =
            self.memos.keys().filter(|name| !found.contains_key(*name)).cloned().collect();
        for name in gone {
            self.touch(name, now, false);
        }
        for (name, signature) in found {
            let working = self.working.as_ref().is_some_and(|(at, _)| *at == name);
            if !working && !self.due.contains_key(&name) && self.signatures.get(&name).copied() != signature {
                self.unwatched.insert(name.clone());
                self.touch(name, now, false);
            }
        }
    }
}

/// Compares everything with what it was; with a watcher, listens to the agent's folder again first.
pub async fn sweep(agent: Arc<Agent>, watcher: Option<Arc<CustomWatcher>>) -> Done {
    let swept = tokio::task::spawn_blocking(move || {
        let custom = agent.dir.custom();
        if let Some(watcher) = watcher {
            watcher.watch_root(&agent.id, &custom)?;
        }
        let tree::Listed { names, crowded, odd } = tree::candidates(&custom, MAX_FOLDERS)?;
        let signed = names.into_iter().map(|name| {
            let signature = tree::signature(&custom, &name);
            (name, signature)
        });
        Ok::<_, io::Error>((signed.collect(), crowded, odd))
    });
    match swept.await {
        Ok(Ok((found, crowded, odd))) => Done::Swept { found: Some(found), crowded, odd },
        Ok(Err(_)) | Err(_) => Done::Swept { found: None, crowded: false, odd: Vec::new() },
    }
}

/// What a folder looked like before its files were read.
pub struct Looked {
    /// See [`tree::signature`].
    pub signature: Option<u64>,
    /// Git is in the middle of something.
    pub at_work: bool,
}

/// Listens to folders and all that are in them.
pub async fn watch(agent: Arc<Agent>, names: Vec<String>, watcher: Option<Arc<CustomWatcher>>) -> Done {
    let Some(watcher) = watcher else { return Done::Watched(names) };
    let listened = names.clone();
    let watched = tokio::task::spawn_blocking(move || {
        let custom = agent.dir.custom();
        for name in listened {
            // Gone, or more than are listened to: the sweep goes on.
            if let Err(e) = watcher.watch_folder(&agent.id, &custom, &name) {
                tracing::debug!(agent = %agent.id, folder = name, "cannot listen to it: {e}");
            }
        }
    });
    if let Err(e) = watched.await {
        tracing::error!("listening to folders failed: {e}");
    }
    Done::Watched(names)
}

/// Looks at the names in a folder.
pub async fn look(agent: Arc<Agent>, folder: &Folder) -> Looked {
    let name = folder.name.clone();
    let looked = tokio::task::spawn_blocking(move || {
        let custom = agent.dir.custom();
        Looked { signature: tree::signature(&custom, &name), at_work: tree::git_at_work(&custom, &name) }
    });
    looked.await.unwrap_or(Looked { signature: None, at_work: false })
}
