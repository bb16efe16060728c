//! The container engine as skep needs it: one trait, own types, two implementations.
//!
//! `docker` speaks to a real engine, `fake` is for tests of the supervisor's logic, `firewall`
//! closes what a bridge network leaves open. Nothing outside this folder knows bollard.

use std::{collections::BTreeMap, time::Duration};

use async_trait::async_trait;
use serde::Serialize;
use tokio::sync::mpsc;

pub use crate::sandbox::container::{ContainerSpec, ContainerState, Inspected, Mount, Tmpfs};

pub mod docker;
mod docker_build;
mod docker_create;
mod docker_fate;
mod docker_inspect;
mod docker_network;
mod docker_probe;
pub mod fake;
pub mod firewall;

/// Label with the hive's name: what `list` and `events` go by.
pub const LABEL_HIVE: &str = "skep.hive";
/// Label of every container: the folder of its hive.
pub const LABEL_ROOT: &str = "skep.root";
/// Label with the hash of the whole specification.
pub const LABEL_SPEC: &str = "skep.spec";

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
    /// Whether it is frozen.
    pub paused: bool,
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
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ImageInfo {
    /// `sha256:…`
    pub id: String,
    /// Its names (`name:tag`).
    pub tags: Vec<String>,
    /// User that its processes run as by default; empty: root.
    pub user: String,
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
    /// An image by reference or id.
    async fn image(&self, reference: &str) -> Result<ImageInfo>;
    /// Pulls an image; `progress` gets lines for people (dropped when nobody takes them).
    async fn pull(&self, reference: &str, progress: mpsc::Sender<String>) -> Result<()>;
    /// Builds an image from a tar context; `progress` gets the output's lines (dropped when nobody takes them).
    async fn build(&self, build: ImageBuild, progress: mpsc::Sender<String>) -> Result<()>;
    /// Every image that has a label (`key` or `key=value`).
    async fn images(&self, label: &str) -> Result<Vec<ImageInfo>>;
    /// Removes a name of an image, and the image with its last name, never one that a container uses; a missing
    /// one is no error.
    async fn remove_image(&self, reference: &str) -> Result<()>;
    /// What a command of an image prints on standard output, in a throw-away container with nothing: no network,
    /// no mounts, nobody's uid. None when the command cannot be started. Ends within `limit`.
    async fn probe(&self, image_id: &str, command: &[String], limit: Duration) -> Result<Option<String>>;
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
