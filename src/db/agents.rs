//! What the hive wants of each agent and remembers about it: uid, desired state, restarts.
//!
//! What runs at the moment is the engine's knowledge and is never kept here.

use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension, Row, Transaction, params};

use super::{
    error::{DbError, DbFault},
    parse_time, time,
};
use crate::ids::AgentId;

/// What an agent shall be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Desired {
    /// Its container shall run.
    Running,
    /// It shall not.
    Stopped,
}

impl Desired {
    fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Stopped => "stopped",
        }
    }
}

/// One agent's row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentRow {
    /// Its name.
    pub id: AgentId,
    /// Its own user id in the container, where the supervisor may choose one.
    pub uid: u32,
    /// What it shall be.
    pub desired: Desired,
    /// Grows by one whenever `desired` changes.
    pub generation: u32,
    /// Times it was started again after it ended by itself.
    pub restarts: u32,
    /// Why it failed last.
    pub last_error: Option<String>,
    /// When it was first seen.
    pub created_at: Timestamp,
    /// When this row changed last.
    pub updated_at: Timestamp,
}

/// The agent's row, made when it is not there: desired as given, uid the smallest free one from
/// `first_uid` on. An agent keeps its uid as long as it has a row.
///
/// # Errors
/// The database fails, or 32 bits have no uid left.
pub fn ensure(
    tx: &Transaction<'_>,
    id: &AgentId,
    first_uid: u32,
    desired: Desired,
    now: Timestamp,
) -> Result<AgentRow, DbError> {
    if let Some(row) = get(tx, id)? {
        return Ok(row);
    }
    let uid = free_uid(tx, first_uid)?;
    tx.prepare_cached(
        "INSERT INTO agent (id, uid, desired, created_at, updated_at) VALUES (?1, ?2, ?3, ?4, ?4)",
    )?
    .execute(params![id.as_str(), uid, desired.as_str(), time(now)])?;
    get(tx, id)?.ok_or_else(|| DbError::bad_value("agent", "id", id.as_str()))
}

fn free_uid(tx: &Transaction<'_>, first: u32) -> Result<u32, DbError> {
    let mut query = tx.prepare_cached("SELECT uid FROM agent WHERE uid >= ?1 ORDER BY uid")?;
    let mut taken = query.query([first])?;
    let mut free = first;
    while let Some(row) = taken.next()? {
        if row.get::<_, u32>(0)? != free {
            break;
        }
        free =
            free.checked_add(1).ok_or_else(|| DbFault::Other("no uid is left for another agent".into()))?;
    }
    Ok(free)
}

const COLUMNS: &str = "id, uid, desired, generation, restarts, last_error, created_at, updated_at";

fn row(row: &Row<'_>) -> Result<AgentRow, DbError> {
    let (id, desired): (String, String) = (row.get(0)?, row.get(2)?);
    Ok(AgentRow {
        id: id.parse().map_err(|_| DbError::bad_value("agent", "id", &id))?,
        uid: row.get(1)?,
        desired: match desired.as_str() {
            "running" => Desired::Running,
            "stopped" => Desired::Stopped,
            other => return Err(DbError::bad_value("agent", "desired", other)),
        },
        generation: row.get(3)?,
        restarts: row.get(4)?,
        last_error: row.get(5)?,
        created_at: parse_time("agent.created_at", &row.get::<_, String>(6)?)?,
        updated_at: parse_time("agent.updated_at", &row.get::<_, String>(7)?)?,
    })
}

/// One agent.
///
/// # Errors
/// The database fails.
pub fn get(conn: &Connection, id: &AgentId) -> Result<Option<AgentRow>, DbError> {
    conn.prepare_cached(&format!("SELECT {COLUMNS} FROM agent WHERE id = ?1"))?
        .query_row([id.as_str()], |r| Ok(row(r)))
        .optional()?
        .transpose()
}

/// Every agent, by name.
///
/// # Errors
/// The database fails.
pub fn list(conn: &Connection) -> Result<Vec<AgentRow>, DbError> {
    let mut query = conn.prepare_cached(&format!("SELECT {COLUMNS} FROM agent ORDER BY id"))?;
    let mut rows = query.query([])?;
    let mut agents = Vec::new();
    while let Some(r) = rows.next()? {
        agents.push(row(r)?);
    }
    Ok(agents)
}

/// Says what an agent shall be; answers whether that is new.
///
/// # Errors
/// The database fails.
pub fn set_desired(
    tx: &Transaction<'_>,
    id: &AgentId,
    desired: Desired,
    now: Timestamp,
) -> Result<bool, DbError> {
    let sql = "UPDATE agent SET desired = ?2, generation = generation + 1, updated_at = ?3 WHERE id = ?1 AND desired <> ?2";
    Ok(tx.prepare_cached(sql)?.execute(params![id.as_str(), desired.as_str(), time(now)])? > 0)
}

/// Counts a restart and keeps why; answers how many there were.
///
/// # Errors
/// The database fails.
pub fn record_restart(
    tx: &Transaction<'_>,
    id: &AgentId,
    error: Option<&str>,
    now: Timestamp,
) -> Result<u32, DbError> {
    let sql = "UPDATE agent SET restarts = restarts + 1, last_error = ?2, updated_at = ?3 WHERE id = ?1 RETURNING restarts";
    let restarts =
        tx.prepare_cached(sql)?.query_row(params![id.as_str(), error, time(now)], |r| r.get(0)).optional()?;
    Ok(restarts.unwrap_or(0))
}

/// Keeps why an agent failed, or that it no longer does.
///
/// # Errors
/// The database fails.
pub fn set_last_error(
    tx: &Transaction<'_>,
    id: &AgentId,
    error: Option<&str>,
    now: Timestamp,
) -> Result<(), DbError> {
    let sql = "UPDATE agent SET last_error = ?2, updated_at = ?3 WHERE id = ?1 AND last_error IS NOT ?2";
    tx.prepare_cached(sql)?.execute(params![id.as_str(), error, time(now)])?;
    Ok(())
}

/// Forgets an agent; its uid is free again, so remove its folders first. Answers whether it was there.
///
/// # Errors
/// The database fails.
pub fn remove(tx: &Transaction<'_>, id: &AgentId) -> Result<bool, DbError> {
    Ok(tx.prepare_cached("DELETE FROM agent WHERE id = ?1")?.execute([id.as_str()])? > 0)
}
