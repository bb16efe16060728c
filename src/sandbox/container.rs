//! A container as plain data: what skep wants, and what an engine really has.
//!
//! Made by `sandbox::spec`, carried out and read back by `engine`. Nothing here does anything.

use std::{collections::BTreeMap, path::PathBuf};

use serde::{Deserialize, Serialize};

/// Everything about a container that skep decides. Its hash is the `skep.spec` label.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ContainerSpec {
    /// `skep-<hive>-<agent>`.
    pub name: String,
    /// Image reference as configured, or the layer built on it.
    pub image: String,
    /// The image's id, so that a rebuilt image is drift.
    pub image_id: String,
    /// Entry point and arguments.
    pub command: Vec<String>,
    /// Plain environment; never a secret.
    pub env: BTreeMap<String, String>,
    /// `uid:gid`.
    pub user: (u32, u32),
    /// Working directory of the command.
    pub working_dir: String,
    /// Hostname inside.
    pub hostname: String,
    /// Bind mounts, sorted by target.
    pub mounts: Vec<Mount>,
    /// In-memory file systems, sorted by target.
    pub tmpfs: Vec<Tmpfs>,
    /// Bytes of memory; swap is not given.
    pub memory: u64,
    /// Billionths of a processor.
    pub nano_cpus: i64,
    /// Processes and threads.
    pub pids: i64,
    /// Bytes of `/dev/shm`.
    pub shm_size: u64,
    /// The engine's network: `none` or a network's name.
    pub network: String,
    /// Engine runtime by name; none: the default.
    pub runtime: Option<String>,
    /// Seconds the engine waits after SIGTERM.
    pub stop_timeout: i64,
    /// Labels besides `skep.spec`, which the caller adds last.
    pub labels: BTreeMap<String, String>,
}

/// A bind mount: private propagation, without what is mounted below the source on the host.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Mount {
    /// Path inside.
    pub target: String,
    /// Absolute path on the host.
    pub source: PathBuf,
    /// Read-only.
    pub read_only: bool,
}

/// An in-memory file system; always `nosuid` and `nodev`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tmpfs {
    /// Path inside.
    pub target: String,
    /// Bytes at most.
    pub size: u64,
    /// Permission bits.
    pub mode: u32,
    /// Whether programs may be executed from it.
    pub exec: bool,
    /// Owner.
    pub user: (u32, u32),
}

/// A container as the engine really has it: what adoption compares with the spec.
#[derive(Debug, Clone, PartialEq)]
pub struct Inspected {
    /// Engine's id.
    pub id: String,
    /// The container's state.
    pub state: ContainerState,
    /// The spec read back from the engine's own fields (labels without `skep.spec`); what the engine does not
    /// report the way it was given is normalised.
    pub spec: ContainerSpec,
    /// `skep.spec` label.
    pub spec_label: Option<String>,
    /// Hardening read back: every fault in words (`capabilities are not dropped`); empty when all hold.
    pub weaknesses: Vec<String>,
}

/// State of a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContainerState {
    /// The main process runs.
    pub running: bool,
    /// Frozen.
    pub paused: bool,
    /// Pid of the main process on the host; 0 when not running.
    pub pid: i32,
    /// Exit code of the last end.
    pub exit_code: i64,
    /// The kernel killed a process of the container for memory: the main one, or any before it.
    pub oom_killed: bool,
    /// RFC 3339 start time, as the engine says it.
    pub started_at: Option<String>,
    /// RFC 3339 time of the last end, as the engine says it.
    pub finished_at: Option<String>,
    /// The engine's own error text, when a start failed.
    pub error: String,
}
