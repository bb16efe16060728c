//! What a job is: a trigger, an action of one agent, and its policies (contract.md 5, scheduling.md).
//!
//! Holds what somebody asked for. What happened to it (counters, next fire time) is the database's.

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{
    preflight::Preflight,
    trigger::{self, CronSchedule, ScheduleError, Trigger},
};
use crate::tools::workflow::Step;

/// Characters of a job's name.
pub const MAX_NAME: usize = 100;
/// Bytes of a job's arguments as JSON: they must fit one argument of a process (128 KiB on Linux).
pub const MAX_ARGS: usize = 96 * 1024;
/// Bytes of instructions.
pub const MAX_INSTRUCTIONS: usize = 100_000;
/// Tool calls of an agent-tier run, unless the job says otherwise (systems.md A13).
pub const DEFAULT_MAX_STEPS: u32 = 10;
/// Time limit of a direct-tier run (scheduling.md).
pub const DIRECT_TIMEOUT: Duration = Duration::from_secs(60);
/// Time limit of an agent-tier run (scheduling.md).
pub const AGENT_TIMEOUT: Duration = Duration::from_secs(3600);
/// How old a missed fire time may be and still run (scheduling.md).
pub const MISSED_WITHIN: Duration = Duration::from_secs(24 * 3600);

/// A job as it was asked for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JobSpec {
    /// For people.
    #[serde(default)]
    pub description: String,
    /// When it fires.
    pub trigger: TriggerSpec,
    /// What the agent is told; with a `tool` only for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instructions: Option<String>,
    /// The one tool of a direct-tier job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// Its arguments.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub args: Map<String, Value>,
    /// The steps of a background task that makes several calls (systems.md A21); no job has them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub workflow: Vec<Step>,
    /// What is looked at before a run (systems.md A11).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preflight: Option<Preflight>,
    /// Tools that an agent-tier run may call, and that must exist.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub required_tools: Vec<String>,
    /// Tool calls that an agent-tier run may make.
    pub max_steps: u32,
    /// Time limit of a run; none: the tier's ([`DIRECT_TIMEOUT`], [`AGENT_TIMEOUT`]).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Duration>,
    /// What becomes of fire times that passed while nothing could start.
    pub missed: Missed,
    /// Older ones never run; none: [`MISSED_WITHIN`], for a one-shot no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missed_within: Option<Duration>,
    /// What happens at a fire time while an earlier run is not over.
    pub overlap: Overlap,
    /// Attempts after the first, when a run fails, times out or is lost.
    pub retries: u32,
    /// Each fire time is put off by a stable part of this.
    pub jitter: Duration,
    /// Who is told of what.
    pub notify: JobNotify,
}

impl JobSpec {
    /// A job with every default.
    #[must_use]
    pub fn new(trigger: TriggerSpec) -> Self {
        Self {
            description: String::new(),
            trigger,
            instructions: None,
            tool: None,
            args: Map::new(),
            workflow: Vec::new(),
            preflight: None,
            required_tools: Vec::new(),
            max_steps: DEFAULT_MAX_STEPS,
            timeout: None,
            missed: Missed::Last,
            missed_within: None,
            overlap: Overlap::Skip,
            retries: 0,
            jitter: Duration::ZERO,
            notify: JobNotify::default(),
        }
    }

    /// Which tier its runs are of: never stored, so that it cannot disagree (systems.md A1).
    #[must_use]
    pub fn tier(&self) -> Tier {
        if self.tool.is_some() || !self.workflow.is_empty() { Tier::Direct } else { Tier::Agent }
    }

    /// The time limit that holds.
    #[must_use]
    pub fn time_limit(&self) -> Duration {
        self.timeout.unwrap_or(match self.tier() {
            Tier::Direct => DIRECT_TIMEOUT,
            Tier::Agent => AGENT_TIMEOUT,
        })
    }

    /// How old a fire time may be and still run; none: any age.
    #[must_use]
    pub fn missed_limit(&self) -> Option<Duration> {
        match (&self.trigger, self.missed_within) {
            (TriggerSpec::OneShot { .. }, None) => None,
            (_, within) => Some(within.unwrap_or(MISSED_WITHIN)),
        }
    }

    /// Every tool that must exist for it to run.
    pub fn needed_tools(&self) -> impl Iterator<Item = &str> {
        self.tool.iter().chain(&self.required_tools).map(String::as_str)
    }
}

/// How a run is executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Tier {
    /// One tool call, no model.
    Direct,
    /// The agent's command gets the instructions.
    Agent,
}

impl Tier {
    /// As it is written.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Agent => "agent",
        }
    }
}

/// When a job fires, as it is stored and shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum TriggerSpec {
    /// A cron expression in a zone; the hive's zone is written in when none was named (systems.md A26).
    Cron {
        /// 5 fields, or 6 with seconds first, or `@daily` and friends.
        schedule: String,
        /// IANA name.
        timezone: String,
    },
    /// So long after the last start; never run: after creation (systems.md A8).
    Interval {
        /// As written: `30m`.
        every: String,
    },
    /// Once.
    OneShot {
        /// When.
        at: Timestamp,
        /// The zone that it was written in and is shown in; none: UTC.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        timezone: Option<String>,
    },
    /// Whenever an event of one of these names is raised.
    Event {
        /// Names; `*` at the end stands for the rest.
        event: Vec<String>,
    },
    /// Only when somebody asks.
    Manual,
}

impl TriggerSpec {
    /// As `type` is written.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Cron { .. } => "cron",
            Self::Interval { .. } => "interval",
            Self::OneShot { .. } => "one-shot",
            Self::Event { .. } => "event",
            Self::Manual => "manual",
        }
    }

    /// The zone its times are shown in.
    #[must_use]
    pub fn zone(&self) -> Option<&str> {
        match self {
            Self::Cron { timezone, .. } => Some(timezone),
            Self::OneShot { timezone, .. } => timezone.as_deref(),
            _ => None,
        }
    }

    /// Ready to compute with.
    ///
    /// # Errors
    /// Why the schedule is refused.
    pub fn compile(&self) -> Result<Trigger, ScheduleError> {
        Ok(match self {
            Self::Cron { schedule, timezone } => Trigger::Cron(CronSchedule::parse(schedule, timezone)?),
            Self::Interval { every } => Trigger::Interval(trigger::parse_every(every)?),
            Self::OneShot { at, .. } => Trigger::OneShot(*at),
            Self::Event { event } => Trigger::Event(event.clone()),
            Self::Manual => Trigger::Manual,
        })
    }
}

/// What becomes of fire times that passed while the supervisor was down, the agent halted or the machine asleep.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Missed {
    /// None of them runs.
    Skip,
    /// The last one runs.
    #[default]
    Last,
    /// Each of them runs.
    All,
}

/// What happens at a fire time while an earlier run of the job is not over.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Overlap {
    /// The new one does not run.
    #[default]
    Skip,
    /// One waits; further ones do not run.
    Queue,
    /// The old one is ended; the new one starts once it is proven dead.
    Replace,
    /// Both run.
    Allow,
}

/// Who is told of a job's runs (systems.md A14). Failures are always told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobNotify {
    /// Also tell of success.
    pub on_completion: bool,
    /// Minutes between two notices; 0: as the hive says.
    pub interval_minutes: u32,
    /// Names of targets in `[notify]`; none: all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub targets: Option<Vec<String>>,
}

impl Default for JobNotify {
    fn default() -> Self {
        Self { on_completion: true, interval_minutes: 0, targets: None }
    }
}
