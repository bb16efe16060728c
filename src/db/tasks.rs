//! Background tasks (systems.md A21). A task is a run that belongs to no job, tried again when it fails; here is what it
//! was asked for and what became of it. Its runs are claimed, leased and ended by `db::queue`, which calls here.

use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension, Row, Transaction, params};
use serde_json::{Value, json};

use super::{error::DbError, events, facts, parse_time, queue::MAX_WAITING, runs::RunRow, time};
use crate::{
    ids::AgentId,
    runs::state::{Cause, RunStatus},
    scheduler::job::JobSpec,
};

/// One task.
#[derive(Debug, Clone, PartialEq)]
pub struct TaskRow {
    /// Never used twice.
    pub id: i64,
    /// In whose container it runs.
    pub agent: AgentId,
    /// What it was called.
    pub name: String,
    /// What it does, as it is shown.
    pub action: Value,
    /// Its newest attempt.
    pub run: i64,
    /// Which that is, from 1.
    pub attempt: u32,
    /// Where it stands.
    pub status: TaskStatus,
    /// What it answered.
    pub result: Option<Value>,
    /// Why it failed.
    pub error: Option<String>,
    /// When it was asked for.
    pub created_at: Timestamp,
    /// When its first attempt started.
    pub started_at: Option<Timestamp>,
    /// When it was over.
    pub finished_at: Option<Timestamp>,
}

/// Where a task stands. It only goes on: what waits for its next attempt is still running.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskStatus {
    /// It waits for its first start.
    Queued,
    /// It began.
    Running,
    /// It ended well.
    Completed,
    /// Its last attempt failed, or somebody cancelled it.
    Failed,
}

impl TaskStatus {
    /// Every one, in the order of a task's life.
    pub const ALL: [Self; 4] = [Self::Queued, Self::Running, Self::Completed, Self::Failed];

    /// Whether nothing more comes of it.
    #[must_use]
    pub fn is_over(self) -> bool {
        matches!(self, Self::Completed | Self::Failed)
    }

    /// Reads it as it is written.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == word)
    }

    /// The same in SQL.
    fn condition(self) -> &'static str {
        match self {
            Self::Queued => {
                "t.outcome IS NULL AND coalesce(t.started_at, r.started_at) IS NULL AND r.status IS NOT 'running'"
            }
            Self::Running => {
                "t.outcome IS NULL AND (coalesce(t.started_at, r.started_at) IS NOT NULL OR r.status IS 'running')"
            }
            Self::Completed => "t.outcome = 'completed'",
            Self::Failed => "t.outcome = 'failed'",
        }
    }

    /// As it is written.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Running => "running",
            Self::Completed => "completed",
            Self::Failed => "failed",
        }
    }
}

/// Which tasks.
#[derive(Debug, Clone, Default)]
pub struct TaskFilter {
    /// Only this agent's.
    pub agent: Option<AgentId>,
    /// Only those that stand so.
    pub status: Option<TaskStatus>,
}

/// A task to be queued.
#[derive(Debug, Clone)]
pub struct NewTask {
    /// In whose container it runs.
    pub agent: AgentId,
    /// What it is called.
    pub name: String,
    /// What it does, as it is shown.
    pub action: Value,
    /// The same as its runs are started with.
    pub spec: JobSpec,
    /// Events and runs in a row that led to it.
    pub depth: u32,
}

const COLUMNS: &str = "t.id, t.agent, t.name, t.action, t.run_id, t.attempt, t.outcome, t.result, t.error, t.created_at, \
    coalesce(t.started_at, r.started_at), t.finished_at, r.status";

fn row(r: &Row<'_>) -> Result<TaskRow, DbError> {
    let bad = |column: &str, value: &str| DbError::bad_value("task", column, value);
    let optional_time = |column: &str, n: usize| -> Result<Option<Timestamp>, DbError> {
        let text: Option<String> = r.get(n)?;
        text.map(|t| parse_time(column, &t)).transpose()
    };
    let json = |column: &str, text: &str| serde_json::from_str(text).map_err(|e| bad(column, &e.to_string()));
    let (agent, action): (String, String) = (r.get(1)?, r.get(3)?);
    let result: Option<String> = r.get(7)?;
    let outcome: Option<String> = r.get(6)?;
    let running: Option<String> = r.get(12)?;
    let started_at = optional_time("task.started_at", 10)?;
    Ok(TaskRow {
        id: r.get(0)?,
        agent: agent.parse().map_err(|_| bad("agent", &agent))?,
        name: r.get(2)?,
        action: json("action", &action)?,
        run: r.get(4)?,
        attempt: r.get(5)?,
        status: match outcome.as_deref() {
            Some("completed") => TaskStatus::Completed,
            Some("failed") => TaskStatus::Failed,
            Some(other) => return Err(bad("outcome", other)),
            None if started_at.is_some() || running.as_deref() == Some("running") => TaskStatus::Running,
            None => TaskStatus::Queued,
        },
        result: result.map(|text| json("result", &text)).transpose()?,
        error: r.get(8)?,
        created_at: parse_time("task.created_at", &r.get::<_, String>(9)?)?,
        started_at,
        finished_at: optional_time("task.finished_at", 11)?,
    })
}

fn one(conn: &Connection, condition: &str, id: i64) -> Result<Option<TaskRow>, DbError> {
    let sql =
        format!("SELECT {COLUMNS} FROM task AS t LEFT JOIN run AS r ON r.id = t.run_id WHERE {condition}");
    let mut query = conn.prepare_cached(&sql)?;
    let mut rows = query.query([id])?;
    rows.next()?.map(row).transpose()
}

/// One task.
///
/// # Errors
/// The database fails.
pub fn get(conn: &Connection, id: i64) -> Result<Option<TaskRow>, DbError> {
    one(conn, "t.id = ?1", id)
}

/// Tasks, newest first, older than `before`, at most `limit`.
///
/// # Errors
/// The database fails.
pub fn list(
    conn: &Connection,
    filter: &TaskFilter,
    before: Option<i64>,
    limit: usize,
) -> Result<Vec<TaskRow>, DbError> {
    let condition = filter.status.map_or("TRUE", TaskStatus::condition);
    let sql = format!(
        "SELECT {COLUMNS} FROM task AS t LEFT JOIN run AS r ON r.id = t.run_id \
         WHERE t.id < ?1 AND (?2 IS NULL OR t.agent = ?2) AND {condition} ORDER BY t.id DESC LIMIT ?3"
    );
    let mut query = conn.prepare_cached(&sql)?;
    let agent = filter.agent.as_ref().map(AgentId::as_str);
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let mut rows = query.query(params![before.unwrap_or(i64::MAX), agent, limit])?;
    let mut tasks = Vec::new();
    while let Some(r) = rows.next()? {
        tasks.push(row(r)?);
    }
    Ok(tasks)
}

/// The task that goes on with this run.
pub(super) fn of_run(conn: &Connection, run: &RunRow) -> Result<Option<TaskRow>, DbError> {
    if run.job.is_some() {
        return Ok(None);
    }
    one(conn, "t.run_id = ?1 AND t.outcome IS NULL", run.id)
}

/// Queues a task; none when as many runs of its agent wait as may.
///
/// # Errors
/// The database fails.
pub fn queue(tx: &Transaction<'_>, new: &NewTask, now: Timestamp) -> Result<Option<TaskRow>, DbError> {
    let waiting = "SELECT runs FROM waiting WHERE agent = ?1";
    let waiting: Option<usize> = tx
        .prepare_cached(waiting)?
        .query_row([new.agent.as_str()], |r| r.get::<_, u32>(0))
        .optional()?
        .map(|n| n as usize);
    if waiting.unwrap_or(0) >= MAX_WAITING {
        return Ok(None);
    }
    let spec = serde_json::to_string(&new.spec).map_err(|_| DbError::bad_value("run", "spec", &new.name))?;
    tx.prepare_cached(
        "INSERT INTO run (agent, job_name, tier, cause, scheduled_at, status, spec, overlap, due_at, created_at, depth) \
         VALUES (?1, ?2, ?3, ?4, ?5, 'queued', ?6, 'allow', ?5, ?5, ?7)",
    )?
    .execute(params![
        new.agent.as_str(),
        new.name,
        new.spec.tier().as_str(),
        Cause::Manual.as_str(),
        time(now),
        spec,
        new.depth,
    ])?;
    let run = tx.last_insert_rowid();
    tx.prepare_cached(
        "INSERT INTO task (agent, name, action, run_id, created_at) VALUES (?1, ?2, ?3, ?4, ?5)",
    )?
    .execute(params![new.agent.as_str(), new.name, new.action.to_string(), run, time(now)])?;
    get(tx, tx.last_insert_rowid())
}

/// Goes on with another run.
pub(super) fn tries_again(
    tx: &Transaction<'_>,
    task: &TaskRow,
    before: &RunRow,
    run: i64,
) -> Result<(), DbError> {
    tx.prepare_cached(
        "UPDATE task SET run_id = ?2, attempt = attempt + 1, started_at = coalesce(started_at, ?3) WHERE id = ?1",
    )?
    .execute(params![task.id, run, before.started_at.map(time)])?;
    Ok(())
}

/// Records what became of a task with its last run. An error is kept in mind as a fact, and told as `task:failed`.
pub(super) fn settle(
    tx: &Transaction<'_>,
    task: &TaskRow,
    run: &RunRow,
    now: Timestamp,
) -> Result<(), DbError> {
    let done = run.status == RunStatus::Succeeded;
    let error =
        (!done).then(|| run.error.clone().unwrap_or_else(|| "it failed and does not say why".to_owned()));
    let outcome = if done { TaskStatus::Completed } else { TaskStatus::Failed };
    tx.prepare_cached(
        "UPDATE task SET outcome = ?2, result = ?3, error = ?4, started_at = coalesce(started_at, ?5), finished_at = ?6 \
         WHERE id = ?1",
    )?
    .execute(params![
        task.id,
        outcome.as_str(),
        run.result.as_ref().map(ToString::to_string),
        error,
        run.started_at.map(time),
        time(run.finished_at.unwrap_or(now)),
    ])?;
    let mut data = json!({"task": task.id, "run": run.id, "agent": task.agent, "name": task.name, "attempt": run.attempt});
    if let Some(error) = error {
        let fact = format!("Background task {} ({:?}) failed: {error}", task.id, task.name);
        facts::store_error(tx, &task.agent, &fact, &format!("task:{}", task.id), now)?;
        data["error"] = error.into();
    }
    let event = format!("task:{}", outcome.as_str());
    events::append_about(tx, now, &event, &data, None, run.depth + 1).map(|_| ())
}

/// Removes at most `limit` tasks that were over before `before`; answers how many went.
///
/// # Errors
/// The database fails.
pub fn prune(tx: &Transaction<'_>, before: Timestamp, limit: u32) -> Result<usize, DbError> {
    let sql = "DELETE FROM task WHERE id IN (SELECT id FROM task WHERE finished_at < ?1 LIMIT ?2)";
    Ok(tx.prepare_cached(sql)?.execute(params![time(before), limit])?)
}
