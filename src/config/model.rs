//! What a valid `skep.toml` says, with every default filled in (contract.md 1).
//!
//! Holds only checked values; `parse` makes it. It knows nothing of what runs.

use std::{collections::BTreeMap, net::SocketAddr, path::PathBuf, time::Duration};

use serde::{Deserialize, Serialize};

use crate::{
    ids::{AgentId, HiveName, SecretName, SkillRef},
    notify::allow::AllowRule,
    scheduler::{job::JobSpec, preflight::Rule},
    secrets::template::Template,
    tools::normalise::{Defaults, Rules},
};

/// A whole hive.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Config {
    /// `[hive] name`; becomes part of every container's name.
    pub name: HiveName,
    /// `[hive] timezone`, an IANA name; none: the system's.
    pub timezone: Option<String>,
    /// The zone that holds for jobs that name none: `timezone`, else the system's, else UTC (systems.md A26).
    pub zone: String,
    /// `[hive] default_agent`.
    pub default_agent: Option<AgentId>,
    /// `[hive] ca_bundle`: PEM file given to image builds and containers; absolute or relative to the hive.
    pub ca_bundle: Option<PathBuf>,
    /// `[api]`.
    pub api: Api,
    /// `[registry]`.
    pub registry: Registry,
    /// `[secrets] file`, relative to the hive.
    pub secrets_file: PathBuf,
    /// `[runs]`.
    pub runs: Runs,
    /// `[notify]`.
    pub notify: Notify,
    /// `[tools]`.
    pub tools: Rules,
    /// `[[preflight]]`, else the rules that ship.
    pub preflight: Vec<Rule>,
    /// `[model]`: the endpoint that is watched.
    pub model: Option<ModelEndpoint>,
    /// `[agents.*]`, each with `[defaults]` applied.
    pub agents: BTreeMap<AgentId, Agent>,
}

/// `[api]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Api {
    /// Where TCP listens; none when `listen = "none"`.
    pub listen: Option<SocketAddr>,
    /// `listen` is written: then an address that is taken is an error, not a warning.
    pub listen_written: bool,
    /// Host names accepted in `Host` and `Origin`, beside loopback addresses.
    pub allowed_hosts: Vec<String>,
    /// Requests a second that each agent may make through its own door; four times as many at once.
    pub agent_requests_per_second: u32,
}

/// `[registry]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Registry {
    /// Folders with skill sources, relative to the hive.
    pub sources: Vec<PathBuf>,
    /// Whether what agents write needs approval.
    pub agent_skills: AgentSkills,
    /// Look at what agents write this often, where the file system tells of no changes; none: when it tells.
    pub poll: Option<Duration>,
    /// What variables of skills may take from the supervisor's own environment (systems.md C3).
    pub environment: Vec<SecretName>,
    /// Limits on a skill's size (contract.md 2).
    pub limits: SkillLimits,
}

/// `[registry] agent_skills`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AgentSkills {
    /// The operator approves each version.
    Manual,
    /// Assignable at once.
    Auto,
}

/// `[registry.limits]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct SkillLimits {
    /// Files a skill (`files`, 2,000).
    pub files: u64,
    /// Bytes a skill (`total`, 64 MiB).
    pub total: u64,
    /// Bytes a file (`file`, 16 MiB).
    pub file: u64,
    /// Bytes of `manifest.json` or `SKILL.md` (`manifest`, 1 MiB).
    pub manifest: u64,
}

impl Default for SkillLimits {
    fn default() -> Self {
        const MIB: u64 = 1 << 20;
        Self { files: 2_000, total: 64 * MIB, file: 16 * MIB, manifest: MIB }
    }
}

/// One agent as configured.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Agent {
    /// Its name.
    pub id: AgentId,
    /// For people.
    pub description: String,
    /// Soul file, relative to the hive.
    pub soul: Option<PathBuf>,
    /// Whether the agent may write `/soul.md`.
    pub allow_soul_edit: bool,
    /// What it is given.
    pub skills: Vec<SkillRef>,
    /// Narrows the secrets that may be injected; none: all that its skills declare.
    pub secrets: Option<Vec<SecretName>>,
    /// Default parameters of tools, before those of the hive.
    pub tools: Defaults,
    /// How agent-tier runs are executed.
    pub command: Option<Vec<String>>,
    /// Long-running process.
    pub main: Option<Vec<String>>,
    /// Restart policy of `main`.
    pub main_restart: Restart,
    /// Plain environment.
    pub env: BTreeMap<String, String>,
    /// Where `/workspace` lives.
    pub workspace: Workspace,
    /// Container image.
    pub image: String,
    /// Bytes of memory.
    pub memory: u64,
    /// Processors.
    pub cpus: f64,
    /// Processes and threads.
    pub pids: u32,
    /// Bytes of workspace and custom together; above it the agent is paused.
    pub disk: u64,
    /// What it may reach.
    pub network: Network,
    /// Grace between SIGTERM and SIGKILL when it stops.
    pub stop_grace: Duration,
    /// Engine runtime by name (`runsc`); none: the engine's default.
    pub runtime: Option<String>,
    /// Whether it starts with the hive.
    pub autostart: bool,
    /// `[[agents.<id>.jobs]]`.
    pub jobs: Vec<Job>,
}

/// `main_restart`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Restart {
    /// Restarted whenever it ends (the default).
    Always,
    /// Restarted unless it ended with 0.
    OnFailure,
    /// Never restarted.
    Never,
}

/// `workspace`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Workspace {
    /// `.skep/agents/<id>/workspace`, kept.
    Named,
    /// In memory, gone with the container.
    Tmpfs,
    /// A folder of the hive, relative, never above it.
    Path(PathBuf),
}

/// `network`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Network {
    /// No network at all.
    None,
    /// Outbound to anywhere but the host, link-local addresses and other agents.
    Internet,
}

/// A job of `[[agents.<id>.jobs]]`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Job {
    /// Unique among the agent's jobs.
    pub name: String,
    /// `enabled = false` makes it disabled; it then enables itself once its tools exist (systems.md A12).
    pub enabled: bool,
    /// What it is; the hive's time zone is filled in.
    pub spec: JobSpec,
}

/// `[runs]`: limits and retention.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Runs {
    /// Runs at the same time in the whole hive (`max_running`, 10).
    pub max_running: u32,
    /// Runs at the same time of one agent (`max_running_per_agent`, 4).
    pub max_running_per_agent: u32,
    /// Bytes of output kept of one run: beginning and end (`output`, 8 MiB).
    pub output: u64,
    /// How long output is kept (`keep_output`, 14 days).
    pub keep_output: Duration,
    /// Bytes of output kept in all; the oldest goes first (`keep_output_size`, 1 GiB).
    pub keep_output_size: u64,
    /// How long runs are kept in the history (`keep_history`, 90 days).
    pub keep_history: Duration,
}

impl Default for Runs {
    fn default() -> Self {
        const DAY: u64 = 86_400;
        Self {
            max_running: 10,
            max_running_per_agent: 4,
            output: 8 << 20,
            keep_output: Duration::from_secs(14 * DAY),
            keep_output_size: 1 << 30,
            keep_history: Duration::from_secs(90 * DAY),
        }
    }
}

/// `[model]`: the endpoint of a model, watched.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ModelEndpoint {
    /// What is asked for.
    pub url: String,
}

/// `[notify]`: who is told of runs, and how often.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Notify {
    /// Minutes between two notices of one job that says nothing itself; 0: none (`interval_minutes`, else the
    /// environment's `SKILL_NOTIFY_INTERVAL_MINUTES`, else 0).
    pub interval_minutes: u32,
    /// Targets that are not on the public internet and may be reached all the same.
    pub allow: Vec<AllowRule>,
    /// All targets; their names are unique.
    pub targets: Vec<NotifyTarget>,
}

/// One of `[[notify.webhook]]`, `[[notify.telegram]]`, `[[notify.ntfy]]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NotifyTarget {
    /// What jobs and the outbox call it; `webhook-1` and so on where none is written.
    pub name: String,
    /// Where it is and how it is spoken to.
    #[serde(flatten)]
    pub to: NotifyTo,
}

/// Where a target is and how it is spoken to. Secrets are named, never held.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum NotifyTo {
    /// A JSON body is posted.
    Webhook {
        /// HTTP or HTTPS; secrets only behind the host.
        url: Template,
        /// What signs the body, as Standard Webhooks do it; none: not signed.
        secret: Option<SecretName>,
        /// Headers sent as well, names in lower case.
        headers: BTreeMap<String, Template>,
    },
    /// A bot writes into a chat.
    Telegram {
        /// The Bot API, `https://api.telegram.org` unless written.
        base_url: String,
        /// A number, or the @name of a channel.
        chat_id: String,
        /// The bot's token.
        token: SecretName,
    },
    /// A topic of an ntfy server.
    Ntfy {
        /// The server.
        url: String,
        /// The topic.
        topic: String,
        /// An access token.
        token: Option<SecretName>,
        /// From 1 to 5; none: the server's default.
        priority: Option<u8>,
    },
}
