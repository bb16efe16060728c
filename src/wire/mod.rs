//! Messages between the supervisor and the init of a container.
//!
//! The only module that both programs use. A frame is a length, a count of passed descriptors
//! and a postcard payload; `socket` moves frames, `spool` is the format of kept output.
//! Nothing here knows tokio or the host's other rooms.

pub mod socket;
pub mod spool;

use serde::{Deserialize, Serialize};

/// First bytes of a link. No HTTP request begins with a zero, so one socket serves both.
pub const MAGIC: [u8; 4] = *b"\0SK1";

/// Changes when a message changes shape; an init of another version is replaced with its container.
pub const VERSION: u16 = 3;

/// Bytes of payload a frame may have.
pub const MAX_FRAME: usize = 4 << 20;

/// Where the init finds the supervisor, inside the container.
pub const SOCKET: &str = "/skep/api.sock";

/// Known to one init and its supervisor.
pub type Key = [u8; 16];

/// A process tree, named by the supervisor; never used twice in the life of a container.
pub type ProcId = u64;

/// The id that the agent's `main` process reports under.
pub const MAIN: ProcId = 0;

/// From the init to the supervisor.
#[derive(Debug, Serialize, Deserialize)]
pub enum FromInit {
    /// First message of every link.
    Hello(Hello),
    /// The program runs. Descriptors: with `Io::Stream` standard input's write end, then output's and error's
    /// read ends; with `Io::Pty` the terminal's master.
    Started {
        /// Which.
        id: ProcId,
        /// Its pid inside the container.
        pid: i32,
    },
    /// It could not be started.
    Failed {
        /// Which.
        id: ProcId,
        /// What failed, in words.
        stage: String,
        /// The system's error number.
        errno: i32,
    },
    /// Captured output has grown to this logical offset.
    Output {
        /// Which.
        id: ProcId,
        /// End of the spool.
        end: u64,
    },
    /// The program ended, and every descendant is proven dead.
    Exited {
        /// Which.
        id: ProcId,
        /// How.
        exit: Exit,
        /// `Exit::ended_ms`. An older init does not send it; nothing may follow it.
        #[serde(deserialize_with = "if_sent")]
        ended_ms: Option<u64>,
    },
    /// The state of `main` changed.
    Main(MainReport),
    /// Answer to `ToInit::Ping`.
    Pong {
        /// The number that was sent.
        token: u64,
    },
    /// The runner of a tree was forked; told before anything of that tree.
    Forked(Tree),
}

/// From the supervisor to the init.
#[derive(Debug, Serialize, Deserialize)]
pub enum ToInit {
    /// The link is accepted.
    Welcome {
        /// Shown at the next hello: the proof where a peer's pid tells nothing (gVisor).
        key: Key,
        /// Milliseconds between SIGTERM and SIGKILL when the container is stopped.
        stop_grace_ms: u64,
    },
    /// Starts a process tree. Descriptors: with `Io::Capture` the spool's three segments.
    Start(Start),
    /// Signals the program's process group.
    Signal {
        /// Which.
        id: ProcId,
        /// Signal number.
        signal: i32,
    },
    /// SIGTERM, `grace_ms`, SIGKILL, until the whole tree is proven dead.
    End {
        /// Which.
        id: ProcId,
        /// Milliseconds of grace; 0 kills at once.
        grace_ms: u64,
    },
    /// The exit was recorded; the init may drop it.
    Forget {
        /// Which.
        id: ProcId,
    },
    /// Replaces `main` (none: ends it). Descriptors: the spool's three segments, when there is one.
    SetMain(Option<Main>),
    /// Asks for a sign of life.
    Ping {
        /// Echoed.
        token: u64,
    },
}

/// What the init knows when it dials in: all that a new supervisor needs to take up its work.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Hello {
    /// `VERSION` of the init.
    pub version: u16,
    /// The key of an earlier welcome; none at the first link, before any other process was started.
    pub key: Option<Key>,
    /// `/proc/self/mountinfo`: an engine does not tell of a mount that was lost.
    pub mountinfo: String,
    /// Landlock version that the kernel offers; 6 and above keep process trees apart.
    pub landlock: i32,
    /// Every process tree that was not forgotten.
    pub processes: Vec<ProcReport>,
    /// `main`, once it was set.
    pub main: Option<MainReport>,
    /// `Exit::ended_ms` of the trees that are over. An older init does not send it; nothing may follow it.
    #[serde(deserialize_with = "if_sent")]
    pub ended_ms: Vec<(ProcId, u64)>,
    /// The trees whose runners live, `main`'s among them. An init of version 2 does not send it.
    #[serde(deserialize_with = "if_sent")]
    pub trees: Vec<Tree>,
}

/// Reads the last field of a message of which an older init knows nothing: what is not there is empty. So inits that
/// run on over an upgrade, and what runs below them, need not be replaced.
fn if_sent<'de, D: serde::Deserializer<'de>, T: Deserialize<'de> + Default>(from: D) -> Result<T, D::Error> {
    Ok(T::deserialize(from).unwrap_or_default())
}

impl Hello {
    /// Gives every exit the time that was sent beside it.
    pub fn date_exits(&mut self) {
        for report in &mut self.processes {
            let sent = self.ended_ms.iter().find(|(id, _)| *id == report.id);
            if let (Some(exit), Some((_, at))) = (&mut report.exit, sent) {
                exit.ended_ms = Some(*at);
            }
        }
    }
}

/// A process tree, reported after a reconnect.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ProcReport {
    /// Which.
    pub id: ProcId,
    /// Pid inside the container.
    pub pid: i32,
    /// End of the captured output.
    pub end: u64,
    /// Set once it is over.
    pub exit: Option<Exit>,
}

/// Below which process a tree is. All of it is below its runner, whatever forks, and nothing else is: so a process
/// that stands at the agent's door is known by its ancestors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tree {
    /// Which.
    pub id: ProcId,
    /// Pid of its runner inside the container; 0: not forked yet.
    pub runner: i32,
    /// As in [`Start::held_to`].
    pub held_to: Option<i64>,
}

/// Environment variables. Secrets travel here, so that printing it for people shows names only.
#[derive(Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Environment(pub Vec<(String, String)>);

impl std::fmt::Debug for Environment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.0.iter().map(|(name, _)| name)).finish()
    }
}

/// So far ahead of its time a process can be made ready.
pub const MOST_AHEAD: std::time::Duration = std::time::Duration::from_millis(50);

/// A process to start.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Start {
    /// Its id from now on.
    pub id: ProcId,
    /// Program and arguments; the program is looked up in `PATH` of `env`.
    pub argv: Vec<String>,
    /// Environment on top of the container's; secrets travel here.
    pub env: Environment,
    /// Working directory.
    pub cwd: String,
    /// Microseconds since 1970 before which its program is not executed, all else being ready; at most
    /// [`MOST_AHEAD`] is waited for.
    pub not_before_us: Option<u64>,
    /// Milliseconds until it is ended; none: no limit.
    pub timeout_ms: Option<u64>,
    /// Milliseconds between SIGTERM and SIGKILL at the timeout.
    pub grace_ms: u64,
    /// Ended when the link breaks: somebody is waiting at the other end.
    pub bound: bool,
    /// The run that its processes are held to at the agent's door; none: they may there what the agent may.
    pub held_to: Option<i64>,
    /// What its streams are.
    pub io: Io,
}

/// What a process's standard streams are.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Io {
    /// Output is written to a spool by the init, with or without a supervisor.
    Capture {
        /// Given to standard input, then closed.
        stdin: Vec<u8>,
        /// Bounds of the spool.
        spool: spool::Bounds,
    },
    /// Pipes whose other ends go to the supervisor.
    Stream,
    /// A terminal whose master goes to the supervisor.
    Pty {
        /// Height in characters.
        rows: u16,
        /// Width in characters.
        cols: u16,
    },
}

/// How a process tree ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exit {
    /// Exit code, or 128 + signal as shells say it.
    pub code: i32,
    /// The signal that killed it.
    pub signal: Option<i32>,
    /// It was ended because its time was up.
    pub timed_out: bool,
    /// It ended badly, and the kernel killed something of this container for memory while it ran.
    pub oom: bool,
    /// Its runner was killed: the tree is dead, its own exit code is not known.
    pub lost: bool,
    /// When all of it was dead, by the wall clock, in milliseconds since 1970; none: its init did not note it. Sent
    /// beside it, so that the message keeps its shape.
    #[serde(skip)]
    pub ended_ms: Option<u64>,
}

/// The agent's long-running process.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Main {
    /// Hash of all that follows; the init answers with it, so that nothing is restarted without need.
    pub hash: u64,
    /// Program and arguments.
    pub argv: Vec<String>,
    /// Environment on top of the container's.
    pub env: Environment,
    /// Working directory.
    pub cwd: String,
    /// When it is restarted.
    pub restart: RestartPolicy,
    /// Milliseconds between SIGTERM and SIGKILL.
    pub grace_ms: u64,
    /// Bounds of the spool.
    pub spool: spool::Bounds,
}

/// When `main` is restarted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum RestartPolicy {
    /// Whenever it ends.
    Always,
    /// Unless it ended with 0.
    OnFailure,
    /// Never.
    Never,
}

/// Where `main` stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MainReport {
    /// `Main::hash` of what was set.
    pub hash: u64,
    /// Now.
    pub state: MainState,
    /// Starts after the first.
    pub restarts: u32,
    /// End of the captured output.
    pub end: u64,
}

/// States of `main`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum MainState {
    /// It runs.
    Running {
        /// Pid inside the container.
        pid: i32,
    },
    /// It ended and will be started again.
    Backoff {
        /// How it ended; none when it could not be started.
        last: Option<Exit>,
        /// Why it could not be started.
        error: Option<String>,
        /// Milliseconds until the next start.
        delay_ms: u64,
    },
    /// It ended and its policy leaves it so.
    Done {
        /// How.
        exit: Exit,
    },
}
