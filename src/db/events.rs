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

/// Beginnings of the names of the hive's own events; nobody raises those.
pub const OWN: [&str; 10] =
    ["agent:", "skill:", "job:", "run:", "task:", "tools:", "secret:", "hive:", "notify:", "mail:"];

/// Whether an event of this name is the hive's own.
#[must_use]
pub fn is_own(name: &str) -> bool {
    OWN.iter().any(|beginning| name.starts_with(beginning))
}

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
    append_about(tx, now, name, data, None, 0)
}

/// As [`append`], about a job or one of its runs: the job is not triggered by it. `depth` counts the events and runs
/// in a row that led to it.
///
/// # Errors
/// The database fails.
pub fn append_about(
    tx: &Transaction<'_>,
    now: Timestamp,
    name: &str,
    data: &Value,
    job: Option<i64>,
    depth: u32,
) -> Result<i64, DbError> {
    tx.prepare_cached("INSERT INTO event (at, name, data, job_id, depth) VALUES (?1, ?2, ?3, ?4, ?5)")?
        .execute(params![time(now), name, data.to_string(), job, depth])?;
    Ok(tx.last_insert_rowid())
}

/// What an event says to jobs that wait for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Raised {
    /// Its id.
    pub id: i64,
    /// When it was raised.
    pub at: Timestamp,
    /// Its name.
    pub name: String,
    /// The job that it tells of.
    pub job: Option<i64>,
    /// Events and runs in a row that led to it.
    pub depth: u32,
}

/// At most `limit` events after the one with id `after`, without their data.
///
/// # Errors
/// The database fails.
pub fn raised(conn: &Connection, after: i64, limit: usize) -> Result<Vec<Raised>, DbError> {
    // A limit that is bound would have SQLite plan the query anew each time.
    let mut query = conn.prepare_cached(&format!(
        "SELECT id, at, name, job_id, depth FROM event WHERE id > ?1 ORDER BY id LIMIT {limit}"
    ))?;
    let mut rows = query.query([after])?;
    let mut events = Vec::new();
    while let Some(r) = rows.next()? {
        let at = parse_time("event.at", &r.get::<_, String>(1)?)?;
        events.push(Raised { id: r.get(0)?, at, name: r.get(2)?, job: r.get(3)?, depth: r.get(4)? });
    }
    Ok(events)
}

/// At most `limit` events after the one with id `after`, oldest first.
///
/// # Errors
/// The database fails.
pub fn after(conn: &Connection, after: i64, limit: u32) -> Result<Vec<Event>, DbError> {
    named(conn, after, None, usize::try_from(limit).unwrap_or(usize::MAX))
}

/// As [`after`], only of one name; `*` at its end stands for the rest.
///
/// # Errors
/// The database fails.
pub fn named(conn: &Connection, after: i64, name: Option<&str>, limit: usize) -> Result<Vec<Event>, DbError> {
    let beginning = name.and_then(|name| name.strip_suffix('*'));
    let mut query = conn.prepare_cached(
        "SELECT id, at, name, data FROM event WHERE id > ?1 AND (?2 IS NULL OR name = ?2) \
         AND (?3 IS NULL OR substr(name, 1, length(?3)) = ?3) ORDER BY id LIMIT ?4",
    )?;
    let whole = name.filter(|_| beginning.is_none());
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let mut rows = query.query(params![after, whole, beginning, limit])?;
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

/// The id after which the newest `count` events of a name come (`*` at its end stands for the rest); 0 when there are
/// no more than that.
///
/// # Errors
/// The database fails.
pub fn before_last(conn: &Connection, name: Option<&str>, count: usize) -> Result<i64, DbError> {
    let beginning = name.and_then(|name| name.strip_suffix('*'));
    let whole = name.filter(|_| beginning.is_none());
    let mut query = conn.prepare_cached(
        "SELECT id FROM event WHERE (?1 IS NULL OR name = ?1) \
         AND (?2 IS NULL OR substr(name, 1, length(?2)) = ?2) ORDER BY id DESC LIMIT 1 OFFSET ?3",
    )?;
    let count = i64::try_from(count).unwrap_or(i64::MAX);
    Ok(query.query_row(params![whole, beginning, count], |r| r.get(0)).optional()?.unwrap_or(0))
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
