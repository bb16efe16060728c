//! The states of an agent, and what start, stop and restart do in each.
//!
//! ```text
//!            start                 init connected
//! stopped ──────────► pending ──► starting ──► running ◄──► paused
//!    ▲                   ▲           │            │
//!    │                   │ backoff   ▼            │ container ended, drift, link lost for good
//!    └──── stopping ◄────┴───── failed ◄──────────┘
//! ```

use serde::{Deserialize, Serialize};

/// Where an agent stands, as `GET /v1/agents` tells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// Wanted, and not looked at yet, or the engine does not answer. Start: no effect; stop: to `stopped`;
    /// restart: no effect.
    Pending,
    /// Its container is being made, started or adopted; the init has not dialled in yet. Start: no effect;
    /// stop: ends the attempt; restart: begins again.
    Starting,
    /// The container runs as specified and its init is connected. Start: no effect; stop: to `stopping`;
    /// restart: a new container.
    Running,
    /// Frozen, because it uses more disk than it may. Start: no effect; stop: to `stopping`; restart: a new
    /// container (which is paused again while the disk is over its limit).
    Paused,
    /// Being stopped: SIGTERM, the grace, SIGKILL. Start: starts it again once it is down; stop and restart
    /// likewise wait.
    Stopping,
    /// Not wanted: nothing runs, its workspace is kept. Start: to `pending`; stop: no effect; restart: starts it.
    Stopped,
    /// Wanted but not possible now: a missing skill, a missing image, a container that ends by itself. Tried
    /// again with growing pauses, and at once when the configuration changes. Start and restart: tried at
    /// once; stop: to `stopped`.
    Failed,
}

impl Status {
    /// As the API writes it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Starting => "starting",
            Self::Running => "running",
            Self::Paused => "paused",
            Self::Stopping => "stopping",
            Self::Stopped => "stopped",
            Self::Failed => "failed",
        }
    }
}

/// What the operator wants of an agent; kept in the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Wanted {
    /// It shall run.
    Running,
    /// It was stopped, and stays so across restarts of the supervisor.
    Stopped,
}
