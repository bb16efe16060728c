//! Jobs: what was asked for, and what became of it.
//!
//! What is due is decided by `scheduler::due`; claiming is `db::queue`'s.

use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension, Row, Transaction, params};
use serde_json::json;

use super::{
    error::{DbError, DbFault},
    events, parse_time, queue, time,
};
use crate::{
    ids::AgentId,
    runs::state::RunStatus,
    scheduler::{
        due::{jitter_offset, put_off},
        job::JobSpec,
        trigger::Fire,
    },
};

/// Why a one-shot is disabled after it fired (systems.md A9).
pub const FIRED: &str = "it fired";
/// Why a one-shot is disabled that never fired.
pub const PASSED: &str = "its time passed without it";

/// One job.
#[derive(Debug, Clone, PartialEq)]
pub struct JobRow {
    /// Never used twice.
    pub id: i64,
    /// Whose.
    pub agent: AgentId,
    /// Unique among the agent's.
    pub name: String,
    /// Where it is defined.
    pub origin: Origin,
    /// What was asked for.
    pub spec: JobSpec,
    /// Whether it fires by itself.
    pub enabled: bool,
    /// Why not.
    pub disabled_reason: Option<String>,
    /// It enables itself once when its tools exist (systems.md A12).
    pub auto_enable: bool,
    /// What an interval counts from: the last start, or its creation.
    pub anchor: Timestamp,
    /// Its next fire time, without jitter.
    pub next: Option<Fire>,
    /// Failures in a row.
    pub consecutive_failures: u32,
    /// Nothing starts before.
    pub backoff_until: Option<Timestamp>,
    /// Its last run that was not skipped.
    pub last_run: Option<LastRun>,
    /// When somebody was told of one of its runs.
    pub last_notified_at: Option<Timestamp>,
    /// When it was made.
    pub created_at: Timestamp,
    /// When somebody changed it last.
    pub updated_at: Timestamp,
    /// Events up to this id are its past.
    pub heard_until: i64,
}

/// How a job's last run ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LastRun {
    /// Which.
    pub id: i64,
    /// When it started.
    pub at: Timestamp,
    /// How it ended.
    pub status: RunStatus,
    /// In a line.
    pub summary: Option<String>,
}

/// Where a job is defined.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// `skep.toml`: changed there alone.
    Config,
    /// The operator, through the API.
    Api,
    /// The agent itself.
    Agent,
    /// A skill of the agent's, by its `trigger_config` (systems.md A19).
    Skill,
}

impl Origin {
    /// As it is written.
    #[must_use]
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Config => "config",
            Self::Api => "api",
            Self::Agent => "agent",
            Self::Skill => "skill",
        }
    }
}

/// A job to be made.
#[derive(Debug, Clone)]
pub struct NewJob {
    /// Whose.
    pub agent: AgentId,
    /// Unique among the agent's.
    pub name: String,
    /// Where it is defined.
    pub origin: Origin,
    /// What it is.
    pub spec: JobSpec,
    /// Why it begins disabled; none: enabled.
    pub disabled_reason: Option<String>,
    /// See [`JobRow::auto_enable`].
    pub auto_enable: bool,
    /// Its first fire time.
    pub next: Option<Fire>,
}

/// Why a job was not written.
#[derive(Debug, thiserror::Error)]
pub enum JobError {
    /// The agent has one of this name.
    #[error("agent {agent} has a job named {name:?} already: it is job {id}")]
    NameTaken {
        /// Whose.
        agent: AgentId,
        /// The name.
        name: String,
        /// The job that has it.
        id: i64,
    },
    /// The database fails.
    #[error(transparent)]
    Db(#[from] DbError),
}

impl From<rusqlite::Error> for JobError {
    fn from(e: rusqlite::Error) -> Self {
        Self::Db(e.into())
    }
}

const COLUMNS: &str = "id, agent, name, origin, spec, enabled, disabled_reason, auto_enable, anchor_at, \
    next_fire_at, next_shifted_from, consecutive_failures, backoff_until, last_run_id, last_run_at, \
    last_run_status, last_run_summary, last_notified_at, created_at, updated_at, heard_until";

fn row(r: &Row<'_>) -> Result<JobRow, DbError> {
    let optional_time = |column: &str, n: usize| -> Result<Option<Timestamp>, DbError> {
        let text: Option<String> = r.get(n)?;
        text.map(|t| parse_time(column, &t)).transpose()
    };
    let bad = |column: &str, value: &str| DbError::bad_value("job", column, value);
    let (agent, origin, spec): (String, String, String) = (r.get(1)?, r.get(3)?, r.get(4)?);
    let shifted: Option<String> = r.get(10)?;
    let shifted_from = shifted.map(|t| t.parse().map_err(|_| bad("next_shifted_from", &t))).transpose()?;
    let status: Option<String> = r.get(15)?;
    let last_run = match (r.get::<_, Option<i64>>(13)?, optional_time("job.last_run_at", 14)?, status) {
        (Some(id), Some(at), Some(status)) => Some(LastRun {
            id,
            at,
            status: RunStatus::parse(&status).ok_or_else(|| bad("last_run_status", &status))?,
            summary: r.get(16)?,
        }),
        _ => None,
    };
    Ok(JobRow {
        id: r.get(0)?,
        agent: agent.parse().map_err(|_| bad("agent", &agent))?,
        name: r.get(2)?,
        origin: match origin.as_str() {
            "config" => Origin::Config,
            "api" => Origin::Api,
            "agent" => Origin::Agent,
            "skill" => Origin::Skill,
            other => return Err(bad("origin", other)),
        },
        spec: serde_json::from_str(&spec).map_err(|e| DbFault::BadValue(format!("job.spec: {e}")))?,
        enabled: r.get(5)?,
        disabled_reason: r.get(6)?,
        auto_enable: r.get(7)?,
        anchor: parse_time("job.anchor_at", &r.get::<_, String>(8)?)?,
        next: optional_time("job.next_fire_at", 9)?.map(|at| Fire { at, shifted_from }),
        consecutive_failures: r.get(11)?,
        backoff_until: optional_time("job.backoff_until", 12)?,
        last_run,
        last_notified_at: optional_time("job.last_notified_at", 17)?,
        created_at: parse_time("job.created_at", &r.get::<_, String>(18)?)?,
        updated_at: parse_time("job.updated_at", &r.get::<_, String>(19)?)?,
        heard_until: r.get(20)?,
    })
}

fn rows(conn: &Connection, tail: &str, params: impl rusqlite::Params) -> Result<Vec<JobRow>, DbError> {
    rows_from(conn, "live_job", tail, params)
}

fn rows_from(
    conn: &Connection,
    from: &str,
    tail: &str,
    params: impl rusqlite::Params,
) -> Result<Vec<JobRow>, DbError> {
    let mut query = conn.prepare_cached(&format!("SELECT {COLUMNS} FROM {from} {tail}"))?;
    let mut found = query.query(params)?;
    let mut jobs = Vec::new();
    while let Some(r) = found.next()? {
        jobs.push(row(r)?);
    }
    Ok(jobs)
}

/// One job.
///
/// # Errors
/// The database fails.
pub fn get(conn: &Connection, id: i64) -> Result<Option<JobRow>, DbError> {
    Ok(rows(conn, "WHERE id = ?1", [id])?.pop())
}

/// One job by its agent and name.
///
/// # Errors
/// The database fails.
pub fn find(conn: &Connection, agent: &AgentId, name: &str) -> Result<Option<JobRow>, DbError> {
    Ok(rows(conn, "WHERE agent = ?1 AND name = ?2", params![agent.as_str(), name])?.pop())
}

/// Which jobs are listed.
#[derive(Debug, Clone, Default)]
pub struct JobFilter {
    /// Only this agent's.
    pub agent: Option<AgentId>,
    /// Only enabled, or only disabled ones.
    pub enabled: Option<bool>,
    /// Only of this trigger (`cron`, `interval`, `one-shot`, `event`, `manual`).
    pub trigger: Option<String>,
    /// Only of this name.
    pub name: Option<String>,
}

/// Jobs by id, behind `after`, at most `limit`.
///
/// # Errors
/// The database fails.
pub fn list(conn: &Connection, filter: &JobFilter, after: i64, limit: usize) -> Result<Vec<JobRow>, DbError> {
    let agent = filter.agent.as_ref().map(AgentId::as_str);
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    rows(
        conn,
        "WHERE id > ?1 AND (?2 IS NULL OR agent = ?2) AND (?3 IS NULL OR enabled = ?3) \
         AND (?4 IS NULL OR trigger_type = ?4) AND (?5 IS NULL OR name = ?5) ORDER BY id LIMIT ?6",
        params![after, agent, filter.enabled, filter.trigger, filter.name, limit],
    )
}

/// Jobs that wait for their tools (systems.md A12).
///
/// # Errors
/// The database fails.
pub fn waiting(conn: &Connection) -> Result<Vec<JobRow>, DbError> {
    rows(conn, "WHERE auto_enable ORDER BY id", [])
}

/// A job that `skep.toml` defines, or did.
#[derive(Debug, Clone, PartialEq)]
pub struct ConfigRow {
    /// The job.
    pub job: JobRow,
    /// What the file last said of `enabled`.
    pub written: Option<bool>,
    /// It was taken out of the file.
    pub removed: bool,
}

/// Jobs of `skep.toml` by id, those that were taken out of it included.
///
/// # Errors
/// The database fails.
pub fn of_config(conn: &Connection) -> Result<Vec<ConfigRow>, DbError> {
    let jobs = rows_from(conn, "job", "WHERE origin = 'config' ORDER BY id", [])?;
    let mut query =
        conn.prepare_cached("SELECT written_enabled, removed_at IS NOT NULL FROM job WHERE id = ?1")?;
    let mut found = Vec::new();
    for job in jobs {
        let (written, removed) = query.query_row([job.id], |r| Ok((r.get(0)?, r.get(1)?)))?;
        found.push(ConfigRow { job, written, removed });
    }
    Ok(found)
}

/// Notes what `skep.toml` says of a job's `enabled`.
///
/// # Errors
/// The database fails.
pub fn set_written(tx: &Transaction<'_>, id: i64, enabled: bool) -> Result<(), DbError> {
    tx.prepare_cached("UPDATE job SET written_enabled = ?2 WHERE id = ?1")?.execute(params![id, enabled])?;
    Ok(())
}

/// How many jobs an agent has.
///
/// # Errors
/// The database fails.
pub fn count(conn: &Connection, agent: &AgentId) -> Result<usize, DbError> {
    let mut query = conn.prepare_cached("SELECT count(*) FROM live_job WHERE agent = ?1")?;
    let count: i64 = query.query_row([agent.as_str()], |r| r.get(0))?;
    Ok(usize::try_from(count).unwrap_or(0))
}

/// Makes a job; answers it.
///
/// # Errors
/// Its name is taken; the database fails.
pub fn insert(tx: &Transaction<'_>, new: &NewJob, now: Timestamp) -> Result<JobRow, JobError> {
    free_name(tx, &new.agent, &new.name, None)?;
    let spec = text_of(&new.spec)?;
    tx.prepare_cached(
        "INSERT INTO job (agent, name, origin, spec, trigger_type, enabled, disabled_reason, auto_enable, \
         anchor_at, created_at, updated_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?9, ?9)",
    )?
    .execute(params![
        new.agent.as_str(),
        new.name,
        new.origin.as_str(),
        spec,
        new.spec.trigger.kind(),
        new.disabled_reason.is_none(),
        new.disabled_reason,
        new.auto_enable,
        time(now),
    ])?;
    let id = tx.last_insert_rowid();
    set_next(tx, id, &new.agent, &new.name, &new.spec, new.next.as_ref())?;
    changed(tx, now, "job:created", id, &new.agent, &new.name)?;
    get(tx, id)?.ok_or_else(|| DbError::bad_value("job", "id", &id.to_string()).into())
}

/// Writes all of a job that somebody may change: name, spec, whether it is enabled, counters, next fire time. Of a
/// disabled job nothing starts that waits, but for what somebody asked for and a one-shot that fired.
/// Its name must be free.
///
/// # Errors
/// Its name is taken; the database fails.
pub fn update(tx: &Transaction<'_>, job: &JobRow, event: &str, now: Timestamp) -> Result<(), JobError> {
    free_name(tx, &job.agent, &job.name, Some(job.id))?;
    tx.prepare_cached(
        "UPDATE job SET name = ?2, spec = ?3, trigger_type = ?4, enabled = ?5, disabled_reason = ?6, \
         auto_enable = ?7, anchor_at = ?8, consecutive_failures = ?9, backoff_until = ?10, updated_at = ?11, \
         removed_at = NULL \
         WHERE id = ?1",
    )?
    .execute(params![
        job.id,
        job.name,
        text_of(&job.spec)?,
        job.spec.trigger.kind(),
        job.enabled,
        job.disabled_reason,
        job.auto_enable,
        time(job.anchor),
        job.consecutive_failures,
        job.backoff_until.map(time),
        time(now),
    ])?;
    set_next(tx, job.id, &job.agent, &job.name, &job.spec, job.next.as_ref().filter(|_| job.enabled))?;
    if !job.enabled && job.disabled_reason.as_deref() != Some(FIRED) {
        queue::disabled(tx, now, job.id)?;
    }
    changed(tx, now, event, job.id, &job.agent, &job.name)?;
    Ok(())
}

/// Removes a job; its runs stay in the history, and what waits never starts. Answers whether it was there.
///
/// # Errors
/// The database fails.
pub fn remove(tx: &Transaction<'_>, id: i64, now: Timestamp) -> Result<bool, DbError> {
    let Some(job) = get(tx, id)? else { return Ok(false) };
    queue::deleted(tx, now, id)?;
    tx.prepare_cached("DELETE FROM job WHERE id = ?1")?.execute([id])?;
    announce(tx, now, "job:deleted", id, &job.agent, &job.name)?;
    Ok(true)
}

/// Takes a job out that left `skep.toml`: nobody sees it, and what waits of it never starts. What it was is kept, so
/// that [`update`] takes it up again.
///
/// # Errors
/// The database fails.
pub fn retire(tx: &Transaction<'_>, id: i64, now: Timestamp) -> Result<(), DbError> {
    let Some(job) = get(tx, id)? else { return Ok(()) };
    queue::deleted(tx, now, id)?;
    set_next(tx, id, &job.agent, &job.name, &job.spec, None)?;
    tx.prepare_cached("UPDATE job SET removed_at = ?2 WHERE id = ?1")?.execute(params![id, time(now)])?;
    announce(tx, now, "job:deleted", id, &job.agent, &job.name).map(|_| ())
}

/// Forgets the jobs that were taken out before `before`; answers how many.
///
/// # Errors
/// The database fails.
pub fn forget_removed(tx: &Transaction<'_>, before: Timestamp) -> Result<usize, DbError> {
    Ok(tx.prepare_cached("DELETE FROM job WHERE removed_at < ?1")?.execute([time(before)])?)
}

/// Sets the next fire time, and with it when the job is due.
pub(super) fn set_next(
    tx: &Transaction<'_>,
    id: i64,
    agent: &AgentId,
    name: &str,
    spec: &JobSpec,
    next: Option<&Fire>,
) -> Result<(), DbError> {
    let due = next.map(|fire| put_off(fire.at, jitter_offset(agent.as_str(), name, spec.jitter)));
    tx.prepare_cached(
        "UPDATE job SET next_fire_at = ?2, next_shifted_from = ?3, next_due_at = ?4 WHERE id = ?1",
    )?
    .execute(params![
        id,
        next.map(|fire| time(fire.at)),
        next.and_then(|fire| fire.shifted_from).map(|t| t.to_string()),
        due.map(time),
    ])?;
    Ok(())
}

/// Tells of a change of a job, in its transaction; answers the event's id.
pub(super) fn announce(
    tx: &Transaction<'_>,
    now: Timestamp,
    event: &str,
    id: i64,
    agent: &AgentId,
    name: &str,
) -> Result<i64, DbError> {
    let data = json!({ "job": id, "agent": agent, "name": name });
    events::append_about(tx, now, event, &data, Some(id), 0)
}

/// Tells of a change that somebody made; what was raised before it is the job's past.
fn changed(
    tx: &Transaction<'_>,
    now: Timestamp,
    event: &str,
    id: i64,
    agent: &AgentId,
    name: &str,
) -> Result<(), DbError> {
    let heard = announce(tx, now, event, id, agent, name)?;
    tx.prepare_cached("UPDATE job SET heard_until = ?2 WHERE id = ?1")?.execute([id, heard])?;
    Ok(())
}

/// Sees to it that a name is free: a job that left `skep.toml` gives way.
fn free_name(tx: &Transaction<'_>, agent: &AgentId, name: &str, own: Option<i64>) -> Result<(), JobError> {
    tx.prepare_cached(
        "DELETE FROM job WHERE agent = ?1 AND name = ?2 AND id IS NOT ?3 AND removed_at IS NOT NULL",
    )?
    .execute(params![agent.as_str(), name, own])?;
    let taken: Option<i64> = tx
        .prepare_cached("SELECT id FROM job WHERE agent = ?1 AND name = ?2 AND id IS NOT ?3")?
        .query_row(params![agent.as_str(), name, own], |r| r.get(0))
        .optional()?;
    taken.map_or(Ok(()), |id| Err(JobError::NameTaken { agent: agent.clone(), name: name.to_owned(), id }))
}

fn text_of(spec: &JobSpec) -> Result<String, DbError> {
    serde_json::to_string(spec).map_err(|e| DbFault::BadValue(format!("job.spec: {e}")).into())
}
