//! The container engine as skep needs it: one trait, own types, two implementations.
//!
//! `docker` speaks to a real engine, `fake` is for tests of the supervisor's logic. Nothing
//! outside this folder knows bollard.

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;

/// The fate of a failed engine call, decided in one place.
#[derive(Debug, Clone, thiserror::Error)]
pub enum EngineError {
    /// The thing is not there (404), or already gone.
    #[error("{0} does not exist")]
    NotFound(String),
    /// It is there already, or in a state that forbids the call (409).
    #[error("{0}")]
    Conflict(String),
    /// The engine does not answer: wait and try again, nothing is known about containers.
    #[error("the container engine does not answer: {0}; is it running? (`skep doctor` tells more)")]
    Unavailable(String),
    /// The engine refused the request; trying again without a change is no use.
    #[error("{0}")]
    Refused(String),
}

/// Result of engine calls.
pub type Result<T> = std::result::Result<T, EngineError>;

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
    /// Hostname inside.
    pub hostname: String,
    /// Bind mounts, sorted by target.
    pub mounts: Vec<Mount>,
    /// In-memory file systems.
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

/// A bind mount.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Mount {
    /// Path inside.
    pub target: String,
    /// Absolute path on the host.
    pub source: PathBuf,
    /// Read-only.
    pub read_only: bool,
}

/// An in-memory file system.
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

/// A container in a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// Engine's id.
    pub id: String,
    /// Name without the leading slash.
    pub name: String,
    /// Labels.
    pub labels: BTreeMap<String, String>,
    /// Whether it runs (a paused one does).
    pub running: bool,
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
    /// The kernel killed the main process for memory.
    pub oom_killed: bool,
    /// RFC 3339 start time, as the engine says it.
    pub started_at: Option<String>,
    /// The engine's own error text, when a start failed.
    pub error: String,
}

/// Something happened to a container; a hint to look, never a fact to act on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EngineEvent {
    /// Container id.
    pub container: String,
    /// `die`, `oom`, `start`, `destroy`, …
    pub action: String,
}

/// About the engine itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct EngineInfo {
    /// Engine version.
    pub version: String,
    /// API version in use.
    pub api_version: String,
    /// Runtimes by name.
    pub runtimes: Vec<String>,
    /// Version of the default runtime (runc), when the engine tells it.
    pub runtime_version: Option<String>,
    /// Storage driver.
    pub storage_driver: String,
    /// `1` or `2`.
    pub cgroup_version: String,
    /// Security options (`name=seccomp,profile=default`, …).
    pub security_options: Vec<String>,
    /// Warnings of the engine.
    pub warnings: Vec<String>,
}

/// An image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageInfo {
    /// `sha256:…`
    pub id: String,
    /// Labels.
    pub labels: BTreeMap<String, String>,
    /// Environment of the image.
    pub env: Vec<String>,
    /// VOLUME entries.
    pub volumes: Vec<String>,
}

/// A bridge network for agents of one hive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetworkSpec {
    /// Its name.
    pub name: String,
    /// Name of the bridge interface on the host (at most 15 characters), for firewall rules.
    pub bridge: String,
    /// Labels.
    pub labels: BTreeMap<String, String>,
}

/// A container engine.
#[async_trait]
pub trait Engine: Send + Sync + 'static {
    /// Version, runtimes and security of the engine.
    async fn info(&self) -> Result<EngineInfo>;
    /// Every container of a hive (label `skep.hive`), running or not. Complete or an error.
    async fn list(&self, hive: &str) -> Result<Vec<Listed>>;
    /// One container by id or name.
    async fn inspect(&self, container: &str) -> Result<Inspected>;
    /// Creates a hardened container and answers its id.
    async fn create(&self, spec: &ContainerSpec, spec_hash: &str) -> Result<String>;
    /// Starts it; starting a running one is no error.
    async fn start(&self, container: &str) -> Result<()>;
    /// Signals, waits `grace`, kills; stopping a stopped one is no error.
    async fn stop(&self, container: &str, grace: Duration) -> Result<()>;
    /// SIGKILL; killing a stopped one is no error.
    async fn kill(&self, container: &str) -> Result<()>;
    /// Removes it, running or not, with its anonymous volumes; removing a missing one is no error.
    async fn remove(&self, container: &str) -> Result<()>;
    /// Freezes it.
    async fn pause(&self, container: &str) -> Result<()>;
    /// Thaws it.
    async fn unpause(&self, container: &str) -> Result<()>;
    /// An image by reference.
    async fn image(&self, reference: &str) -> Result<ImageInfo>;
    /// Pulls an image; `progress` gets lines for people.
    async fn pull(&self, reference: &str, progress: mpsc::Sender<String>) -> Result<()>;
    /// Builds an image from a tar context; `progress` gets the build's output lines.
    async fn build(&self, build: ImageBuild, progress: mpsc::Sender<String>) -> Result<()>;
    /// Makes sure the network is there.
    async fn ensure_network(&self, network: &NetworkSpec) -> Result<()>;
    /// Removes a network; a missing one is no error.
    async fn remove_network(&self, name: &str) -> Result<()>;
    /// Events of the containers of a hive, until the stream breaks or the receiver goes.
    async fn events(&self, hive: &str, into: mpsc::Sender<EngineEvent>) -> Result<()>;
}

/// An image to build.
#[derive(Debug, Clone)]
pub struct ImageBuild {
    /// `name:tag` of the result.
    pub tag: String,
    /// Tar of the context, with its `Dockerfile`.
    pub context: Vec<u8>,
    /// `ARG` values.
    pub args: BTreeMap<String, String>,
    /// Labels of the result.
    pub labels: BTreeMap<String, String>,
}
