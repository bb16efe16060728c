//! Events as rows, written with the change that they tell of (outbox).
//!
//! Readers follow the ids, which only grow and are never reused: no event is lost or invented.

use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension, Transaction, params};
use serde_json::Value;

use super::{
    error::{DbError, DbFault},
    parse_time, time,
};

/// One event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// Grows with every event of the hive.
    pub id: i64,
    /// When it happened.
    pub at: Timestamp,
    /// `agent:started`, `skill:created`, …
    pub name: String,
    /// What happened, never a secret.
    pub data: Value,
}

/// Adds an event to the transaction of its change; answers its id.
///
/// # Errors
/// The database fails.
pub fn append(tx: &Transaction<'_>, now: Timestamp, name: &str, data: &Value) -> Result<i64, DbError> {
    tx.prepare_cached("INSERT INTO event (at, name, data) VALUES (?1, ?2, ?3)")?.execute(params![
        time(now),
        name,
        data.to_string()
    ])?;
    Ok(tx.last_insert_rowid())
}

/// At most `limit` events after the one with id `after`, oldest first.
///
/// # Errors
/// The database fails.
pub fn after(conn: &Connection, after: i64, limit: u32) -> Result<Vec<Event>, DbError> {
    let mut query =
        conn.prepare_cached("SELECT id, at, name, data FROM event WHERE id > ?1 ORDER BY id LIMIT ?2")?;
    let mut rows = query.query(params![after, limit])?;
    let mut events = Vec::new();
    while let Some(row) = rows.next()? {
        let data: String = row.get(3)?;
        events.push(Event {
            id: row.get(0)?,
            at: parse_time("event.at", &row.get::<_, String>(1)?)?,
            name: row.get(2)?,
            data: serde_json::from_str(&data)
                .map_err(|_| DbFault::BadValue(format!("event.data = {data:?}")))?,
        });
    }
    Ok(events)
}

/// Ids of the oldest and the newest event; a reader whose last id is older than the first has a gap.
///
/// # Errors
/// The database fails.
pub fn bounds(conn: &Connection) -> Result<Option<(i64, i64)>, DbError> {
    let oldest = "SELECT id FROM event ORDER BY id LIMIT 1";
    let newest = "SELECT id FROM event ORDER BY id DESC LIMIT 1";
    let id = |sql| conn.query_row(sql, [], |r| r.get(0)).optional();
    Ok(id(oldest)?.zip(id(newest)?))
}

/// Keeps the newest `keep` events; answers how many went.
///
/// # Errors
/// The database fails.
pub fn prune(tx: &Transaction<'_>, keep: u32) -> Result<usize, DbError> {
    let sql = "DELETE FROM event WHERE id <= (SELECT id FROM event ORDER BY id DESC LIMIT 1 OFFSET ?1)";
    Ok(tx.prepare_cached(sql)?.execute([keep])?)
}
