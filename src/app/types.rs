//! What the use cases answer and take: the shapes of `/v1` (contract.md 5) and of `--json`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{error::Fault, supervisor::state::Status};

/// Why a use case failed; edges turn it into a status or an exit code.
#[derive(Debug, thiserror::Error)]
pub enum AppError {
    /// The thing is not there (404).
    #[error("{0}")]
    NotFound(String),
    /// It was there and is withdrawn (410).
    #[error("{0}")]
    Gone(String),
    /// The caller may not do this (403).
    #[error("{0}")]
    Forbidden(String),
    /// It is there but its state forbids this (409).
    #[error("{0}")]
    Conflict(String),
    /// Others need it (409); each error names one of them.
    #[error("{detail}")]
    InUse {
        /// One sentence.
        detail: String,
        /// Who: pointer of the agent or skill, and what it uses.
        errors: Vec<(String, String)>,
    },
    /// The request is wrong (422); each fault points at what is wrong.
    #[error("{detail}")]
    Invalid {
        /// One sentence.
        detail: String,
        /// Each fault: JSON pointer (or file and line) and what is wrong.
        errors: Vec<(String, String)>,
    },
    /// The caller did too much in a short time (429).
    #[error("{detail}")]
    TooMany {
        /// One sentence, with when it may go on.
        detail: String,
        /// The same, from now on.
        retry_after: std::time::Duration,
    },
    /// It is no longer what the caller saw (412).
    #[error("{0}")]
    Changed(String),
    /// Something outside does not answer: the engine, the disk (503).
    #[error("{0}")]
    Unavailable(String),
    /// A fault of ours (500).
    #[error("{0}")]
    Internal(String),
}

impl AppError {
    /// What is wrong, each with its place; nothing where the error itself says it all.
    #[must_use]
    pub fn faults(&self) -> Vec<String> {
        let (Self::Invalid { detail, errors } | Self::InUse { detail, errors }) = self else {
            return Vec::new();
        };
        let new = errors.iter().filter(|(place, fault)| !place.is_empty() || fault != detail);
        let told = new.map(|(place, fault)| match place.as_str() {
            "" => fault.clone(),
            place => format!("{place}: {fault}"),
        });
        told.collect()
    }

    /// All that it says, in one line.
    #[must_use]
    pub fn in_words(&self) -> String {
        match self.faults().as_slice() {
            [] => self.to_string(),
            faults => format!("{self}: {}", faults.join("; ")),
        }
    }
}

/// A skill that an agent has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AgentSkill {
    /// Its id.
    pub id: String,
    /// Resolved version.
    pub version: String,
    /// `sha256:…` of its content.
    pub digest: String,
    /// `built-in`, `operator` or an agent.
    pub owner: String,
}

/// Where the agent's `main` process stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MainView {
    /// `running`, `backoff` (it ended and will be started again) or `done`.
    pub state: String,
    /// Pid inside the container while it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<i32>,
    /// Starts after the first, since the container started.
    pub restarts: u32,
    /// Exit code of its last end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// The kernel killed it for memory.
    #[serde(default)]
    pub oom: bool,
    /// Why it could not be started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// A skill that an agent has and cannot use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct UnavailableSkill {
    /// Its id.
    pub skill: String,
    /// What it misses: `env:NAME`, `binary:NAME`, `skill:ID`.
    pub missing: Vec<String>,
}

/// An agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct AgentView {
    /// Its name.
    pub id: String,
    /// From `skep.toml`.
    pub description: String,
    /// Where it stands.
    #[schema(value_type = String, example = "running")]
    pub status: Status,
    /// Why it is so, when it is not as wanted.
    pub reason: Option<String>,
    /// Container image as configured.
    pub image: String,
    /// Resolved skills, by id.
    pub skills: Vec<AgentSkill>,
    /// Secrets that its skills declare and the store does not have.
    pub missing_secrets: Vec<String>,
    /// Skills that it has and cannot use, and why: the prompt leaves them out.
    #[serde(default)]
    pub unavailable: Vec<UnavailableSkill>,
    /// What the operator should know.
    pub warnings: Vec<String>,
    /// The engine's id of its container.
    pub container_id: Option<String>,
    /// When its container started, RFC 3339.
    pub started_at: Option<String>,
    /// Times that it was started again after it ended by itself.
    pub restarts: u32,
    /// Its `main`, when it has one and runs.
    pub main: Option<MainView>,
    /// `none` or `internet`.
    pub network: String,
    /// Bytes of memory it may use.
    pub memory: u64,
    /// Bytes that its workspace and custom folder use, as last measured.
    pub disk_used: Option<u64>,
}

/// A command to run to its end in an agent's container.
#[derive(Debug, Clone, Deserialize, Serialize, ToSchema)]
#[schema(example = json!({"command": ["bash", "-c", "cat; echo done"], "stdin": "hello\n", "timeout": "30s"}))]
#[serde(deny_unknown_fields)]
pub struct ExecRequest {
    /// Program and arguments; the program is looked up in the container's PATH.
    pub command: Vec<String>,
    /// Given to standard input, at most 1 MiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdin: Option<String>,
    /// Like `30s` or `5m`; default 60s, at most 1h.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<String>,
    /// Environment on top of the agent's.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// Working directory; default `/workspace`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
}

/// How it ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ExecResult {
    /// Exit code; 128 + signal when a signal killed it.
    pub exit_code: i32,
    /// Standard output, at most 1 MiB, secrets masked; what is not UTF-8 is replaced.
    pub stdout: String,
    /// Standard error, likewise.
    pub stderr: String,
    /// Whether output was cut.
    pub truncated: bool,
    /// From start to proven end, in milliseconds.
    pub duration_ms: u64,
    /// It was ended because its time was up.
    pub timed_out: bool,
    /// The kernel killed it for memory.
    pub oom: bool,
}

/// First message of a client on `/v1/agents/{agent}/attach`.
#[derive(Debug, Clone, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AttachRequest {
    /// Program and arguments; empty: the image's shell (bash, else sh).
    pub command: Vec<String>,
    /// With a terminal of this size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tty: Option<TtySize>,
    /// Environment on top of the agent's.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// Working directory; default `/workspace`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
}

/// Size of a terminal in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, ToSchema)]
pub struct TtySize {
    /// Height.
    pub rows: u16,
    /// Width.
    pub cols: u16,
}

/// Text messages of a client after the first; binary messages begin with the channel byte 0 (standard input).
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AttachControl {
    /// The terminal's size changed.
    Resize(TtySize),
    /// No more standard input.
    Eof,
    /// Send this signal to the process group.
    Signal(i32),
}

/// Text messages of the server; binary messages begin with the channel byte 1 (output) or 2 (error).
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AttachEvent {
    /// It runs, with this pid inside the container.
    Started(i32),
    /// It ended with this exit code; the last message.
    Exited(i32),
    /// It could not be started, or the link broke; the last message.
    Failed(String),
}

/// A skill in a listing (contract.md 5).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SkillView {
    /// Its id.
    pub id: String,
    /// Name of its latest version.
    pub name: String,
    /// Title: the name, until documents have one of their own.
    pub title: String,
    /// Description of its latest version.
    pub description: String,
    /// Tags of its latest version.
    pub tags: Vec<String>,
    /// `built-in`, `operator` or an agent.
    pub owner: String,
    /// Where it came from.
    pub source: String,
    /// Newest first.
    pub versions: Vec<SkillVersionView>,
    /// The newest stable one.
    pub latest_version: Option<String>,
    /// Agents that resolved it.
    pub used_by: Vec<String>,
    /// Whether it may be resolved anew.
    pub enabled: bool,
    /// Trust of the latest version: `trusted`, `approved`, `pending`, `rejected`.
    pub trust: String,
    /// RFC 3339.
    pub registered_at: String,
    /// RFC 3339.
    pub updated_at: String,
    /// Found by words: where these stand, marked with `[` and `]`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snippet: Option<String>,
}

/// One version of a skill.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SkillVersionView {
    /// Semantic version.
    pub version: String,
    /// `sha256:…`.
    pub digest: String,
    /// Hidden from new resolutions.
    pub yanked: bool,
    /// Its deprecation message.
    pub deprecated: Option<String>,
    /// `trusted`, `approved`, `pending`, `rejected`.
    pub trust: String,
}

/// One file of a version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SkillFileView {
    /// Relative to the skill's folder.
    pub path: String,
    /// Bytes.
    pub size: u64,
    /// Whether it may be run.
    pub executable: bool,
    /// `sha256:…` of its content.
    pub digest: String,
}

/// One version with what it declares and holds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SkillVersionDetail {
    /// The skill.
    pub id: String,
    /// Its name for people.
    pub name: String,
    /// What it enables.
    pub description: String,
    /// `built-in`, `operator` or an agent.
    pub owner: String,
    /// Semantic version.
    pub version: String,
    /// `sha256:…`.
    pub digest: String,
    /// Hidden from new resolutions.
    pub yanked: bool,
    /// Its deprecation message.
    pub deprecated: Option<String>,
    /// `trusted`, `approved`, `pending`, `rejected`.
    pub trust: String,
    /// Where it came from.
    pub source: String,
    /// RFC 3339.
    pub registered_at: String,
    /// What it declares.
    #[schema(value_type = Object)]
    pub manifest: serde_json::Value,
    /// By path.
    pub files: Vec<SkillFileView>,
}

/// Body of `POST /v1/agents/{agent}/rollback`.
#[derive(Debug, Clone, Default, Deserialize, Serialize, ToSchema)]
#[schema(example = json!({"skill": "cron-tools", "version": "1.0.0"}))]
#[serde(deny_unknown_fields)]
pub struct RollbackRequest {
    /// Only this skill; none: everything that was locked before the last change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "cron-tools")]
    pub skill: Option<String>,
    /// To this version of it; none: to the one before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "1.0.0")]
    pub version: Option<String>,
    /// Also to versions that are yanked.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub force: bool,
}

/// A secret's name and use, never its value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SecretView {
    /// Its name.
    pub name: String,
    /// Whether the store has a value.
    pub set: bool,
    /// Agents that get it, each with the skills that declare it.
    pub used_by: BTreeMap<String, Vec<String>>,
}

/// What one agent's references resolve to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ResolveView {
    /// The agent; none for a list of references.
    pub agent: Option<String>,
    /// Resolved versions.
    pub locked: Vec<LockedView>,
    /// What the operator should know.
    pub warnings: Vec<String>,
    /// Why it cannot be resolved, in words.
    pub error: Option<String>,
    /// The tree of who asked for what, with `explain`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub explanation: Option<String>,
}

/// A resolved version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LockedView {
    /// The skill.
    pub id: String,
    /// Its version.
    pub version: String,
    /// `sha256:…`.
    pub digest: String,
    /// The agent wrote it: it follows its newest version, and is not in `skep.lock`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub own: bool,
}

/// A change of `skep.lock`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ChangeView {
    /// Whose.
    pub agent: String,
    /// Which skill.
    pub id: String,
    /// None: it was not there.
    pub from: Option<String>,
    /// None: it is gone.
    pub to: Option<String>,
}

/// Body of `POST /v1/update`.
#[derive(Debug, Clone, Default, Deserialize, Serialize, ToSchema)]
#[schema(example = json!({"agents": ["writer"], "skills": ["basic-tools"], "dry_run": true}))]
#[serde(deny_unknown_fields)]
pub struct UpdateRequest {
    /// Only these agents; none: all.
    #[serde(default)]
    pub agents: Vec<String>,
    /// Only these skills; none: all.
    #[serde(default)]
    pub skills: Vec<String>,
    /// Show the changes, write nothing.
    #[serde(default)]
    pub dry_run: bool,
}

/// The hive itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HiveView {
    /// Its name.
    pub name: String,
    /// Its folder.
    pub root: String,
    /// Version of skep.
    pub version: String,
    /// Pid of the supervisor.
    pub pid: u32,
    /// RFC 3339.
    pub started_at: String,
    /// Whether the container engine answers.
    pub engine: String,
    /// Faults of a `skep.toml` that was refused while an older one is in force.
    #[schema(value_type = Vec<String>)]
    pub config_faults: Vec<String>,
    /// What the operator should know about configuration and skill sources.
    pub warnings: Vec<String>,
    /// What long work is doing right now: image builds and the like.
    pub progress: Vec<String>,
}

/// One finding of `skep doctor`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Finding {
    /// What was looked at.
    pub check: String,
    /// `ok`, `warning` or `error`.
    pub level: String,
    /// What was found.
    pub message: String,
    /// What to do about it.
    pub remedy: Option<String>,
}

/// A fault as the API shows it: `file:line:column` and the message.
#[must_use]
pub fn fault_pair(fault: &Fault) -> (String, String) {
    let mut place = fault.file.clone();
    if let Some(line) = fault.line {
        place.push_str(&format!(":{line}"));
        if let Some(column) = fault.column {
            place.push_str(&format!(":{column}"));
        }
    }
    let message = match &fault.help {
        Some(help) => format!("{} ({help})", fault.message),
        None => fault.message.clone(),
    };
    (place, message)
}
