//! What `skep.lock` held for each agent, each time that it changed: what a rollback goes back to.
//!
//! The lock itself is the file; nothing here is ever read to decide what an agent gets by itself.

use jiff::Timestamp;
use rusqlite::{Connection, Transaction, params};

use super::{error::DbError, time};
use crate::{ids::AgentId, resolver::LockedAgent};

/// States that are kept of an agent.
const KEPT: u32 = 100;

/// Adds what is locked for an agent from now on, unless it is the newest already.
///
/// # Errors
/// The database fails.
pub fn add(
    tx: &Transaction<'_>,
    agent: &AgentId,
    locked: &LockedAgent,
    now: Timestamp,
) -> Result<(), DbError> {
    let text = serde_json::to_string(locked).unwrap_or_default();
    let newest = recent(tx, agent, 1)?;
    if newest.first() == Some(locked) {
        return Ok(());
    }
    tx.prepare_cached("INSERT INTO lock_history (agent, at, locked) VALUES (?1, ?2, ?3)")?
        .execute(params![agent.as_str(), time(now), text])?;
    tx.prepare_cached(
        "DELETE FROM lock_history WHERE agent = ?1 AND id <=
             (SELECT id FROM lock_history WHERE agent = ?1 ORDER BY id DESC LIMIT 1 OFFSET ?2)",
    )?
    .execute(params![agent.as_str(), KEPT])?;
    Ok(())
}

/// The newest states of an agent, newest first.
///
/// # Errors
/// The database fails.
pub fn recent(conn: &Connection, agent: &AgentId, limit: usize) -> Result<Vec<LockedAgent>, DbError> {
    let mut query = conn.prepare_cached(&format!(
        "SELECT locked FROM lock_history WHERE agent = ?1 ORDER BY id DESC LIMIT {limit}"
    ))?;
    let mut rows = query.query([agent.as_str()])?;
    let mut states = Vec::new();
    while let Some(row) = rows.next()? {
        let text: String = row.get(0)?;
        let state =
            serde_json::from_str(&text).map_err(|_| DbError::bad_value("lock_history", "locked", &text))?;
        states.push(state);
    }
    Ok(states)
}
