//! Runs: the history, and what of it is still going on. Claims, leases and ends are written by `db::queue`.

use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension, Row, Transaction, params, types::Value as Sql};
use serde_json::Value;

use super::{
    error::{DbError, DbFault},
    meta, parse_time, time,
};
use crate::{
    ids::AgentId,
    runs::state::{Cause, RunStatus},
    scheduler::job::{JobSpec, Overlap, Tier},
    wire::ProcId,
};

/// One run.
#[derive(Debug, Clone, PartialEq)]
pub struct RunRow {
    /// Grows with every run of the hive.
    pub id: i64,
    /// Its job, while there is one.
    pub job: Option<i64>,
    /// Whose.
    pub agent: AgentId,
    /// The job's name when it was claimed.
    pub job_name: String,
    /// How it is executed.
    pub tier: Tier,
    /// What made it.
    pub cause: Cause,
    /// Its fire time; else when it was asked for.
    pub scheduled_at: Timestamp,
    /// The wall-clock time that a clock change left out.
    pub shifted_from: Option<String>,
    /// Counts from 1.
    pub attempt: u32,
    /// Where it stands.
    pub status: RunStatus,
    /// Why it was skipped.
    pub reason: Option<String>,
    /// Fire times that a skipped run stands for, when more than one, and the last of them.
    pub skipped: Option<(u32, Timestamp)>,
    /// The event that made it.
    pub event: Option<i64>,
    /// Its name.
    pub event_name: Option<String>,
    /// What was raised with it, as JSON; none once the run is over.
    pub event_data: Option<String>,
    /// Events and runs in a row that led here.
    pub depth: u32,
    /// The job as it was claimed; none once it is over.
    pub spec: Option<JobSpec>,
    /// What holds for runs of the job beside it.
    pub overlap: Overlap,
    /// Not leased before.
    pub due_at: Timestamp,
    /// It was asked to end.
    pub ending: Option<Ending>,
    /// The container and the process that it was handed to.
    pub process: Option<(String, ProcId)>,
    /// When it was claimed.
    pub created_at: Timestamp,
    /// When it was leased.
    pub started_at: Option<Timestamp>,
    /// When it was over.
    pub finished_at: Option<Timestamp>,
    /// Exit code, when it is known.
    pub exit_code: Option<i32>,
    /// What it answered.
    pub result: Option<Value>,
    /// Why it failed.
    pub error: Option<String>,
    /// In a line.
    pub summary: Option<String>,
    /// Bytes of output that are kept.
    pub output_bytes: Option<u64>,
    /// Tool calls that it made.
    pub steps: u32,
    /// What is odd about its answer.
    pub warning: Option<String>,
    /// What is known of the call that it makes, when its tool is no script.
    pub act: Option<Act>,
}

/// What is known of the call that a run is for, when its tool is no script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Act {
    /// It was begun; a run that then failed never got its answer.
    Begun,
    /// It failed, and the run was told.
    Failed,
    /// The same, because its arguments are wrong.
    Wrong,
}

impl Act {
    fn as_str(self) -> &'static str {
        match self {
            Self::Begun => "begun",
            Self::Failed => "failed",
            Self::Wrong => "wrong",
        }
    }
}

/// Who asked a run to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// Somebody.
    Cancelled,
    /// A newer run of its job.
    Replaced,
}

impl Ending {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Cancelled => "cancelled",
            Self::Replaced => "replaced",
        }
    }
}

const COLUMNS: &str = "id, job_id, agent, job_name, tier, cause, scheduled_at, shifted_from, attempt, status, \
    reason, skipped, skipped_until, event_id, depth, spec, overlap, due_at, ending, container, proc_id, \
    created_at, started_at, finished_at, exit_code, result, error, summary, output_bytes, steps, event_name, event_data, \
    warning, act";

pub(super) fn row(r: &Row<'_>) -> Result<RunRow, DbError> {
    let bad = |column: &str, value: &str| DbError::bad_value("run", column, value);
    let text = |n: usize| r.get::<_, String>(n);
    let optional_time = |column: &str, n: usize| -> Result<Option<Timestamp>, DbError> {
        let text: Option<String> = r.get(n)?;
        text.map(|t| parse_time(column, &t)).transpose()
    };
    let json = |column: &str, n: usize| -> Result<Option<Value>, DbError> {
        let text: Option<String> = r.get(n)?;
        text.map(|t| serde_json::from_str(&t)).transpose().map_err(|e| bad(column, &e.to_string()))
    };
    let word = |column: &str, n: usize| -> Result<Value, DbError> {
        r.get::<_, String>(n).map(Value::String).map_err(|e| bad(column, &e.to_string()))
    };
    let (agent, cause, status) = (text(2)?, text(5)?, text(9)?);
    let skipped: Option<u32> = r.get(11)?;
    let container: Option<String> = r.get(19)?;
    let proc_id: Option<i64> = r.get(20)?;
    let spec: Option<String> = r.get(15)?;
    let ending: Option<String> = r.get(18)?;
    Ok(RunRow {
        id: r.get(0)?,
        job: r.get(1)?,
        agent: agent.parse().map_err(|_| bad("agent", &agent))?,
        job_name: r.get(3)?,
        tier: serde_json::from_value(word("tier", 4)?).map_err(|e| bad("tier", &e.to_string()))?,
        cause: Cause::parse(&cause).ok_or_else(|| bad("cause", &cause))?,
        scheduled_at: parse_time("run.scheduled_at", &text(6)?)?,
        shifted_from: r.get(7)?,
        attempt: r.get(8)?,
        status: RunStatus::parse(&status).ok_or_else(|| bad("status", &status))?,
        reason: r.get(10)?,
        skipped: skipped.zip(optional_time("run.skipped_until", 12)?),
        event: r.get(13)?,
        event_name: r.get(30)?,
        event_data: r.get(31)?,
        depth: r.get(14)?,
        spec: spec
            .map(|s| serde_json::from_str(&s))
            .transpose()
            .map_err(|e| DbFault::BadValue(format!("run.spec: {e}")))?,
        overlap: serde_json::from_value(word("overlap", 16)?).map_err(|e| bad("overlap", &e.to_string()))?,
        due_at: parse_time("run.due_at", &text(17)?)?,
        ending: match ending.as_deref() {
            None => None,
            Some("cancelled") => Some(Ending::Cancelled),
            Some("replaced") => Some(Ending::Replaced),
            Some(other) => return Err(bad("ending", other)),
        },
        process: container.zip(proc_id.map(i64::cast_unsigned)),
        created_at: parse_time("run.created_at", &text(21)?)?,
        started_at: optional_time("run.started_at", 22)?,
        finished_at: optional_time("run.finished_at", 23)?,
        exit_code: r.get(24)?,
        result: json("result", 25)?,
        error: r.get(26)?,
        summary: r.get(27)?,
        output_bytes: r.get::<_, Option<i64>>(28)?.map(i64::cast_unsigned),
        steps: r.get(29)?,
        warning: r.get(32)?,
        act: match r.get::<_, Option<String>>(33)?.as_deref() {
            None => None,
            Some("begun") => Some(Act::Begun),
            Some("failed") => Some(Act::Failed),
            Some("wrong") => Some(Act::Wrong),
            Some(other) => return Err(bad("act", other)),
        },
    })
}

pub(super) fn rows(
    conn: &Connection,
    tail: &str,
    params: impl rusqlite::Params,
) -> Result<Vec<RunRow>, DbError> {
    let mut query = conn.prepare_cached(&format!("SELECT {COLUMNS} FROM run {tail}"))?;
    let mut found = query.query(params)?;
    let mut runs = Vec::new();
    while let Some(r) = found.next()? {
        runs.push(row(r)?);
    }
    Ok(runs)
}

/// One run.
///
/// # Errors
/// The database fails.
pub fn get(conn: &Connection, id: i64) -> Result<Option<RunRow>, DbError> {
    Ok(rows(conn, "WHERE id = ?1", [id])?.pop())
}

/// Which runs are listed.
#[derive(Debug, Clone, Default)]
pub struct RunFilter {
    /// Only this agent's.
    pub agent: Option<AgentId>,
    /// Only this job's.
    pub job: Option<i64>,
    /// Only in this status.
    pub status: Option<RunStatus>,
}

/// Runs, newest first, older than `before`, at most `limit`.
///
/// # Errors
/// The database fails.
pub fn list(
    conn: &Connection,
    filter: &RunFilter,
    before: Option<i64>,
    limit: usize,
) -> Result<Vec<RunRow>, DbError> {
    // Only what is asked for stands in the condition, so that each question has its index.
    let mut conditions = vec!["id < ?"];
    let mut values = vec![Sql::Integer(before.unwrap_or(i64::MAX))];
    if let Some(job) = filter.job {
        conditions.push("job_id = ?");
        values.push(Sql::Integer(job));
    }
    if let Some(agent) = &filter.agent {
        // A job has one agent: where both are asked for, the job's index is the narrower.
        conditions.push(if filter.job.is_some() { "+agent = ?" } else { "agent = ?" });
        values.push(Sql::Text(agent.to_string()));
    }
    if let Some(status) = filter.status {
        conditions.push("status = ?");
        values.push(Sql::Text(status.as_str().to_owned()));
    }
    let tail = format!("WHERE {} ORDER BY id DESC LIMIT {limit}", conditions.join(" AND "));
    rows(conn, &tail, rusqlite::params_from_iter(values))
}

/// Runs that are leased.
///
/// # Errors
/// The database fails.
pub fn running(conn: &Connection) -> Result<Vec<RunRow>, DbError> {
    rows(conn, "WHERE status = 'running' ORDER BY id", [])
}

/// How deep what an agent asks for now may be: as deep as the deepest of its runs that go on, since nobody can tell
/// which of its processes asks. None: none goes on.
///
/// # Errors
/// The database fails.
pub fn depth_of(conn: &Connection, agent: &AgentId) -> Result<Option<u32>, DbError> {
    let sql = "SELECT max(depth) FROM run WHERE status = 'running' AND agent = ?1";
    Ok(conn.prepare_cached(sql)?.query_row([agent.as_str()], |r| r.get(0))?)
}

/// Runs with kept output, oldest first: id, agent, when it was over, bytes.
///
/// # Errors
/// The database fails.
pub fn with_output(conn: &Connection) -> Result<Vec<(i64, AgentId, Timestamp, u64)>, DbError> {
    let mut query = conn.prepare_cached(
        "SELECT id, agent, finished_at, output_bytes FROM run INDEXED BY run_output \
         WHERE output_bytes IS NOT NULL AND finished_at IS NOT NULL ORDER BY id",
    )?;
    let mut found = query.query([])?;
    let mut runs = Vec::new();
    while let Some(r) = found.next()? {
        let agent: String = r.get(1)?;
        let agent = agent.parse().map_err(|_| DbError::bad_value("run", "agent", &agent))?;
        let at = parse_time("run.finished_at", &r.get::<_, String>(2)?)?;
        runs.push((r.get(0)?, agent, at, r.get::<_, i64>(3)?.cast_unsigned()));
    }
    Ok(runs)
}

/// Notes that the output of a run is no longer kept.
///
/// # Errors
/// The database fails.
pub fn output_gone(tx: &Transaction<'_>, id: i64) -> Result<(), DbError> {
    tx.prepare_cached("UPDATE run SET output_bytes = NULL WHERE id = ?1")?.execute([id])?;
    Ok(())
}

/// Under this key of `meta` stands the latest fire time of a run that is no longer in the history: nothing fires at or
/// before it again, however far the clock goes back.
pub(super) const PRUNED_UNTIL: &str = "runs_pruned_until";

/// Removes at most `limit` runs that were over before `before`; answers how many went. Their output must be gone
/// already.
///
/// # Errors
/// The database fails.
pub fn prune(tx: &Transaction<'_>, before: Timestamp, limit: u32) -> Result<usize, DbError> {
    const THOSE: &str = "id IN (SELECT id FROM run WHERE finished_at < ?1 AND output_bytes IS NULL \
                         ORDER BY finished_at LIMIT ?2)";
    let fired = format!(
        "SELECT max(scheduled_at) FROM run WHERE {THOSE} AND cause IN ('schedule', 'catch_up') \
         AND status <> 'skipped'"
    );
    let fired: Option<String> =
        tx.prepare_cached(&fired)?.query_row(params![time(before), limit], |r| r.get(0))?;
    if let Some(fired) = fired
        && meta::get(tx, PRUNED_UNTIL)?.is_none_or(|until| until < fired)
    {
        meta::set(tx, PRUNED_UNTIL, &fired)?;
    }
    Ok(tx.prepare_cached(&format!("DELETE FROM run WHERE {THOSE}"))?.execute(params![time(before), limit])?)
}

/// Begins the call that a running run is for; false: it was begun before, or the run does not run.
///
/// # Errors
/// The database fails.
pub fn begin_act(tx: &Transaction<'_>, id: i64) -> Result<bool, DbError> {
    let sql = "UPDATE run SET act = 'begun' WHERE id = ?1 AND act IS NULL AND status = 'running'";
    Ok(tx.prepare_cached(sql)?.execute([id])? > 0)
}

/// Notes how the call that a running run is for failed, before the run is told.
///
/// # Errors
/// The database fails.
pub fn note_act(tx: &Transaction<'_>, id: i64, act: Act) -> Result<(), DbError> {
    let sql = "UPDATE run SET act = ?2 WHERE id = ?1 AND status = 'running'";
    tx.prepare_cached(sql)?.execute(params![id, act.as_str()])?;
    Ok(())
}

/// Counts a tool call of a running run; none when it made `max` already or does not run.
///
/// # Errors
/// The database fails.
pub fn take_step(tx: &Transaction<'_>, id: i64, max: u32) -> Result<Option<u32>, DbError> {
    let sql = "UPDATE run SET steps = steps + 1 WHERE id = ?1 AND steps < ?2 AND status = 'running' RETURNING steps";
    Ok(tx.prepare_cached(sql)?.query_row(params![id, max], |r| r.get(0)).optional()?)
}
