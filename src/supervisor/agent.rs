//! One agent as the supervisor remembers it between two looks: its link, its last specification, its
//! failures. What really runs is the engine's knowledge and is read anew each time.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use jiff::{SignedDuration, Timestamp};

use super::{
    prepare::Preparation,
    state::{Status, Wanted},
};
use crate::{
    app::{hive::Hive, tools::ServerKey},
    db::agents::{AgentRow, Desired},
    engine::Inspected,
    ids::AgentId,
    init::link::Link,
    paths::AgentDir,
};

/// Pause after the first failure, and the most.
const BACKOFF: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

/// The same for what could not be prepared: an image that cannot be had, a disk that is full. It may cost more
/// than a start.
const REPREPARE: (Duration, Duration) = (Duration::from_secs(2), Duration::from_secs(300));

/// A container that lives on for so long after its memory ran out did not die of it.
const SURVIVED: SignedDuration = SignedDuration::from_secs(1);

/// An agent.
pub struct Agent {
    /// Its name.
    pub id: AgentId,
    /// Uid and gid of its processes.
    pub user: (u32, u32),
    /// Its folder on the host.
    pub dir: AgentDir,
    /// The link to its init.
    pub link: Arc<Link>,
    state: Mutex<AgentState>,
    door: Mutex<Option<tokio::task::JoinHandle<()>>>,
}

/// What changes.
#[derive(Default)]
pub struct AgentState {
    /// Where it stands.
    pub status: Option<Status>,
    /// Why, when it is not as wanted.
    pub reason: Option<String>,
    /// What the operator wants; none: it left `skep.toml`.
    pub wanted: Option<Wanted>,
    /// Its specification and all that goes with it, or why there is none.
    pub preparation: Option<Result<Arc<Preparation>, String>>,
    /// Generation of the world that it was prepared from.
    pub prepared_for: u64,
    /// Its container.
    pub container: Option<String>,
    /// Whether the engine was asked for its container at all.
    pub seen: bool,
    /// Pid of the container's main process, once known.
    pub pid: i32,
    /// The init's limits as they were when it came up ([`init_limits`]).
    pub limits: Option<String>,
    /// What the engine told of its container when its init was proven; the adoption takes it.
    pub inspected: Option<Inspected>,
    /// The container that was compared with its specification, and what was compared.
    pub verified: Option<(String, String)>,
    /// The container that was asked which programs it has, and its answers.
    pub binaries: Option<(String, BTreeMap<String, bool>)>,
    /// When the init was last seen to be away.
    pub away_since: Option<Instant>,
    /// When to prepare again what could not be prepared.
    pub prepare_at: Option<Instant>,
    /// Preparations that failed in a row.
    pub unprepared: u32,
    /// Failures in a row.
    pub failures: u32,
    /// When the next attempt is due.
    pub retry_at: Option<Instant>,
    /// The container that was to be replaced when a restart was asked for.
    pub restart: Option<String>,
    /// When the engine last told that a container ran out of memory, and which.
    pub out_of_memory: Option<(String, Timestamp)>,
    /// An action is under way.
    pub busy: bool,
    /// When the last action ended: an older listing says nothing about this agent.
    pub settled: Option<Instant>,
    /// Restarts after it ended by itself.
    pub restarts: u32,
    /// When its container started.
    pub started_at: Option<Timestamp>,
    /// When it came up last.
    pub running_since: Option<Instant>,
    /// Bytes of workspace and custom, as last measured, and whether that is over the limit.
    pub disk: Option<(u64, bool)>,
    /// What is wrong with the skills that it writes, by their folders.
    pub custom: BTreeMap<String, String>,
    /// What is wrong with its MCP servers.
    pub servers: BTreeMap<ServerKey, String>,
    /// When a process that posed as its init was last told of, and how many came since.
    pub impostors: Option<(Instant, u64)>,
}

impl Agent {
    /// The engine never forgets that any process of a container was killed for memory. One that lived on for a
    /// while lost a child then, and ended for another reason.
    pub fn survived_memory(&self, there: &Inspected) -> bool {
        let finished: Option<Timestamp> = there.state.finished_at.as_deref().and_then(|t| t.parse().ok());
        let state = self.state();
        let (Some((container, told)), Some(finished)) = (&state.out_of_memory, finished) else {
            return false;
        };
        *container == there.id && finished.duration_since(*told) > SURVIVED
    }

    /// From its row in the database.
    #[must_use]
    pub fn new(hive: &Hive, row: &AgentRow) -> Arc<Self> {
        let own = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        let seed = u64::try_from(hive.started_at.as_millisecond()).unwrap_or(0);
        let agent = Arc::new(Self {
            id: row.id.clone(),
            user: if hive.privileged { (row.uid, row.uid) } else { own },
            dir: hive.paths.agent(&row.id),
            link: Link::new(seed),
            state: Mutex::default(),
            door: Mutex::default(),
        });
        agent.wanted(row.desired);
        agent.state().restarts = row.restarts;
        agent
    }

    /// Its state, for a moment: never held across an await.
    pub fn state(&self) -> MutexGuard<'_, AgentState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes note of what the operator wants. A change of mind clears an old failure.
    pub fn wanted(&self, desired: Desired) {
        let wanted = match desired {
            Desired::Running => Wanted::Running,
            Desired::Stopped => Wanted::Stopped,
        };
        let mut state = self.state();
        if state.wanted != Some(wanted) {
            state.wanted = Some(wanted);
            state.failures = 0;
            state.retry_at = None;
        }
    }

    /// It left `skep.toml`.
    pub fn unwanted(&self) {
        self.state().wanted = None;
    }

    /// Its status as people see it: `running` means that the init is connected at this moment.
    pub fn status(&self) -> Status {
        let connected = self.link.status().connected;
        match self.state().status {
            Some(Status::Running) if !connected => Status::Starting,
            Some(status) => status,
            None => Status::Pending,
        }
    }

    /// What it was last prepared with.
    pub fn preparation(&self) -> Option<Arc<Preparation>> {
        self.state().preparation.as_ref().and_then(|p| p.as_ref().ok().cloned())
    }

    /// Counts a failure and sets the time of the next attempt.
    pub fn failed(&self, reason: String) {
        let mut state = self.state();
        if state.running_since.is_some_and(|since| since.elapsed() >= BACKOFF.1) {
            state.failures = 0;
        }
        state.running_since = None;
        let pause = BACKOFF.0.saturating_mul(1 << state.failures.min(6)).min(BACKOFF.1);
        state.failures += 1;
        state.retry_at = Some(Instant::now() + pause);
        state.reason = Some(reason);
    }

    /// Counts a preparation that failed, and sets the time of the next.
    pub fn unprepared(&self) {
        let mut state = self.state();
        let pause = REPREPARE.0.saturating_mul(1 << state.unprepared.min(8)).min(REPREPARE.1);
        state.unprepared += 1;
        state.prepare_at = Some(Instant::now() + pause);
    }

    /// When it is due to be prepared again, if it is wanted at all.
    pub fn prepares_at(&self) -> Option<Instant> {
        let state = self.state();
        state.prepare_at.filter(|_| state.wanted == Some(Wanted::Running))
    }

    /// Time left before the next attempt.
    pub fn backoff(&self) -> Option<Duration> {
        let retry_at = self.state().retry_at?;
        retry_at.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())
    }

    /// Its container is gone: nothing that was known of it holds.
    pub fn container_gone(&self) {
        self.link.container_gone();
        let mut state = self.state();
        state.container = None;
        state.pid = 0;
        state.limits = None;
        state.inspected = None;
        state.verified = None;
        state.binaries = None;
        state.away_since = None;
        state.started_at = None;
    }

    /// Whether its door is kept.
    pub fn has_door(&self) -> bool {
        let door = self.door.lock().unwrap_or_else(PoisonError::into_inner);
        door.as_ref().is_some_and(|d| !d.is_finished())
    }

    /// Keeps the task that answers its door; an older one ends.
    pub fn set_door(&self, task: Option<tokio::task::JoinHandle<()>>) {
        let mut door = self.door.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(old) = std::mem::replace(&mut *door, task) {
            old.abort();
        }
    }
}

/// The resource limits of a process in the kernel's own words; none when it is gone.
pub fn init_limits(pid: i32) -> Option<String> {
    std::fs::read_to_string(format!("/proc/{pid}/limits")).ok().filter(|limits| !limits.is_empty())
}
