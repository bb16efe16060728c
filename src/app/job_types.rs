//! The shapes of jobs, runs and events at `/v1` (contract.md 5) and of `--json`. Times are RFC 3339 with offset.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::tools::types::ToolReply;
use crate::{
    runs::state::{Cause, RunStatus},
    scheduler::job::{Missed, Overlap, Tier},
};

/// A job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct JobView {
    /// Never used twice.
    pub id: i64,
    /// Whose.
    pub agent: String,
    /// Unique among the agent's.
    pub name: String,
    /// For people.
    pub description: String,
    /// `config` (`skep.toml`), `api`, `agent` (it made the job itself), or `skill` (by its `trigger_config`).
    pub origin: String,
    /// Whether it fires by itself.
    pub enabled: bool,
    /// Why it is disabled; null while enabled.
    pub disabled_reason: Option<String>,
    /// Why an enabled job does not fire now, or never fires by itself: its agent is halted or stopped, it waits
    /// after failures, it is manual; null when `next_fire_at` tells all.
    pub waiting_reason: Option<String>,
    /// `direct` or `agent`; derived from `tool`.
    #[schema(value_type = String)]
    pub tier: Tier,
    /// When it fires.
    pub trigger: TriggerView,
    /// What the agent is told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instructions: Option<String>,
    /// The tool of a direct-tier job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// Its arguments.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub args: Option<Map<String, Value>>,
    /// What is looked at before a run: `{tool, args?, path?, run_if}`. Rules of `[[preflight]]` are not shown here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub preflight: Option<Value>,
    /// Tools that an agent-tier run may call.
    pub required_tools: Vec<String>,
    /// Of the tools that it needs, those that do not exist now.
    pub missing_tools: Vec<String>,
    /// Tool calls that an agent-tier run may make.
    pub max_steps: u32,
    /// Time limit of a run, like `15m`.
    pub timeout: String,
    /// `skip`, `last` or `all`.
    #[schema(value_type = String)]
    pub missed: Missed,
    /// Older missed fire times never run; null: any age.
    pub missed_within: Option<String>,
    /// `skip`, `queue`, `replace` or `allow`.
    #[schema(value_type = String)]
    pub overlap: Overlap,
    /// Attempts after the first.
    pub retries: u32,
    /// Each fire time is put off by a stable part of this.
    pub jitter: String,
    /// Who is told of what.
    pub notify: NotifyView,
    /// The next fire time (with jitter), in the job's zone.
    pub next_fire_at: Option<String>,
    /// Its last run that was not skipped.
    pub last_run: Option<LastRunView>,
    /// Failures in a row.
    pub consecutive_failures: u32,
    /// Nothing starts before, after failures.
    pub backoff_until: Option<String>,
    /// When somebody was told of it last.
    pub last_notified_at: Option<String>,
    /// When it was made.
    pub created_at: String,
    /// When somebody changed it last.
    pub updated_at: String,
}

/// When a job fires; which fields there are follows from `type`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TriggerView {
    /// `cron`, `interval`, `one-shot`, `event` or `manual`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Cron expression.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schedule: Option<String>,
    /// Interval, like `30m`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub every: Option<String>,
    /// Time of a one-shot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
    /// Names of events.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event: Option<Vec<String>>,
    /// IANA time zone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timezone: Option<String>,
}

/// Who is told of a job's runs. Failures are always told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NotifyView {
    /// Also of success.
    pub on_completion: bool,
    /// Minutes between two notices at least; 0: as the hive says.
    pub interval_minutes: u32,
    /// Names of targets; null: all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub targets: Option<Vec<String>>,
}

/// How a job's last run ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LastRunView {
    /// Which.
    pub id: i64,
    /// When it started.
    pub at: String,
    /// How it ended.
    pub status: RunStatus,
    /// In a line.
    pub summary: Option<String>,
}

/// A job that was made or changed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct JobWritten {
    /// As it is now.
    #[serde(flatten)]
    pub job: JobView,
    /// What was changed on the way in, and what is probably not meant.
    pub warnings: Vec<String>,
    /// The next three fire times.
    pub next_fires: Vec<String>,
}

/// Fire times to come.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Preview {
    /// In order, RFC 3339 with the offset of the zone.
    pub fires: Vec<String>,
    /// Whether the schedule is wildcard: then a clock change skips and repeats fire times (scheduling.md).
    pub wildcard: bool,
    /// Why there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// A run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RunView {
    /// Grows with every run of the hive.
    pub id: i64,
    /// Whose.
    pub agent: String,
    /// Its job; null once that was removed.
    pub job: Option<i64>,
    /// The job's name when it was claimed.
    pub job_name: String,
    /// `direct` or `agent`.
    #[schema(value_type = String)]
    pub tier: Tier,
    /// What made it.
    pub trigger: Cause,
    /// The event that did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event: Option<RunEventView>,
    /// Its fire time; else when it was asked for.
    pub scheduled_at: String,
    /// The wall-clock time that a clock change left out, when it was shifted by one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shifted_by_dst: Option<String>,
    /// When it started.
    pub started_at: Option<String>,
    /// When it was over.
    pub finished_at: Option<String>,
    /// Counts from 1.
    pub attempt: u32,
    /// Where it stands.
    pub status: RunStatus,
    /// Why it was skipped (`missed`, `expired`, `overlap`, `backoff`, `crowded`, `depth`, `preflight`), or what a queued run waits for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Fire times that this skipped run stands for, when more than one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skipped: Option<u32>,
    /// The last of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skipped_until: Option<String>,
    /// Exit code, when it is known.
    pub exit_code: Option<i32>,
    /// What it answered: JSON, or its text.
    #[schema(value_type = Value)]
    pub result: Option<Value>,
    /// Why it failed.
    pub error: Option<String>,
    /// What is odd about its answer: JSON that ends too early or was cut is taken as text,
    /// and `success: false` counts only as a field of the one JSON object that is printed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// In a line.
    pub summary: Option<String>,
    /// Tool calls that it made.
    pub steps: u32,
    /// Bytes of output that are kept; null: none.
    pub output_bytes: Option<u64>,
}

/// The event that made a run. The run finds its name in `SKEP_EVENT`, and what was raised with it, as JSON, in
/// `SKEP_EVENT_DATA`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RunEventView {
    /// Which.
    pub id: i64,
    /// Its name.
    pub name: String,
}

/// A tool that an agent-tier run may call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RunTool {
    /// As its job names it.
    pub name: String,
    /// What it does, in a sentence; null when its script does not say.
    pub description: Option<String>,
    /// JSON Schema of its arguments (`<script>.schema.json`); null when there is none.
    #[schema(value_type = Option<Object>)]
    pub input_schema: Option<Value>,
    /// Why it cannot be called, when the agent does not have it now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missing: Option<String>,
}

/// How a tool call of a run ended: one of its steps.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ToolCall {
    /// How it ended.
    #[serde(flatten)]
    pub reply: ToolReply,
    /// Which step of the run it was, from 1.
    pub step: u32,
    /// Steps that the run may take.
    pub max_steps: u32,
}

/// What an event that somebody raised is now.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct EventView {
    /// Grows with every event of the hive.
    pub id: i64,
    /// When.
    pub at: String,
    /// Like `run:succeeded`.
    pub name: String,
    /// What happened: any JSON.
    pub data: Value,
}

/// What is halted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HaltView {
    /// Since when the whole hive is; null: it is not.
    pub hive: Option<String>,
    /// Agents that are, and since when.
    pub agents: std::collections::BTreeMap<String, String>,
    /// Runs that still run.
    pub running: usize,
}

/// A new job, or what changes of one. What stands in the way of no other reading is taken as well: keys in camel case,
/// a trigger's keys beside the others, numbers and booleans as text (systems.md A6).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"name": "morning-report", "agent": "writer",
    "trigger": {"type": "cron", "schedule": "0 9 * * MON-FRI", "timezone": "Europe/Berlin"},
    "instructions": "Summarise what came in overnight.", "max_steps": 10, "timeout": "15m"}))]
pub struct JobRequest {
    /// Whose; default: the caller, else the hive's `default_agent`. A job stays with its agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// Unique among the agent's; a new job needs one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// For people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Default true. A new job that is disabled and has required tools enables itself once, when all exist.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// When it fires; a new job needs one. Replaced whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trigger: Option<TriggerRequest>,
    /// The one tool of a direct-tier job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// Its arguments.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub args: Option<Map<String, Value>>,
    /// What the agent is told; without a `tool` a job needs it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instructions: Option<String>,
    /// A tool call before each run, and what its answer must be for the run to start: `{tool, args?, path?, run_if?}`.
    /// `run_if` is `not_empty` (default), `empty`, `{equals}`, `{not_equals}` or `{at_least}`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub preflight: Option<Value>,
    /// Tools that an agent-tier run may call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub required_tools: Option<Vec<String>>,
    /// Tool calls that an agent-tier run may make; default 10.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_steps: Option<u32>,
    /// Time limit of a run; default `60s` with a tool, else `1h`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<String>,
    /// What becomes of fire times that passed while nothing could start; default `last`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub missed: Option<Missed>,
    /// Older missed fire times never run; default `24h`, for a one-shot no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missed_within: Option<String>,
    /// What happens at a fire time while an earlier run is not over; default `skip`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub overlap: Option<Overlap>,
    /// Attempts after the first; default 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retries: Option<u32>,
    /// Each fire time is put off by a stable part of this; default `0s`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jitter: Option<String>,
    /// Who is told of what.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub notify: Option<NotifyRequest>,
}

/// When a job fires: exactly one of `schedule`, `every`, `interval_minutes`, `at`, `in_minutes`, `in_hours`, `event` and
/// `manual`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TriggerRequest {
    /// Cron: five fields, six with seconds first, or `@daily` and friends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schedule: Option<String>,
    /// Interval, like `30m`, counted from the last start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub every: Option<String>,
    /// Interval in minutes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval_minutes: Option<u32>,
    /// Once, RFC 3339; without offset in `timezone`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
    /// Once, so many minutes from now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub in_minutes: Option<u32>,
    /// Once, so many hours from now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub in_hours: Option<u32>,
    /// Names of events; `*` at the end stands for the rest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event: Option<Vec<String>>,
    /// Only when somebody asks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub manual: Option<bool>,
    /// IANA time zone of `schedule` and `at`; default: the hive's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timezone: Option<String>,
}

/// Who is told of a job's runs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NotifyRequest {
    /// Also of success; default true.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_completion: Option<bool>,
    /// Minutes between two notices at least; default 0: as the hive says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval_minutes: Option<u32>,
    /// Names of targets; default: all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub targets: Option<Vec<String>>,
}

/// A schedule whose fire times are asked for: one of `schedule`, `every` and `at`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"schedule": "0 9 * * MON-FRI", "timezone": "Europe/Berlin", "count": 3}))]
pub struct PreviewRequest {
    /// Cron.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schedule: Option<String>,
    /// Interval, counted from `after`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub every: Option<String>,
    /// Once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
    /// IANA time zone; default: the hive's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timezone: Option<String>,
    /// Fire times after this; default: now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// How many, 1 to 1000; default 5.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<u32>,
}

/// An event to raise.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"name": "report", "data": {"week": 7}}))]
#[serde(deny_unknown_fields)]
pub struct RaiseRequest {
    /// `^[a-z][a-z0-9_.:-]*$`, at most 100 characters, none of the hive's own like `run:succeeded`.
    pub name: String,
    /// Any JSON of at most 64 KiB; default `{}`.
    #[serde(default = "nothing")]
    pub data: Value,
}

fn nothing() -> Value {
    Value::Object(Map::new())
}

/// What to halt or resume.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"agent": "writer"}))]
#[serde(deny_unknown_fields)]
pub struct HaltRequest {
    /// Only this agent; none: the whole hive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
}
