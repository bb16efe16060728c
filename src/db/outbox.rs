//! Notices on their way out, one row for each target, written with what they tell of (outbox).
//!
//! Of each target only the oldest row that is not over is handed out, so that its notices stay in order. Nothing is
//! sent from here.

use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension, Transaction, params};
use serde_json::json;

use super::{
    error::{DbError, DbFault},
    events, parse_time, time,
};
use crate::notify::message::Notice;

/// A notice that is not over, for one target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pending {
    /// Grows with every notice of the hive, and is never used again.
    pub id: i64,
    /// Name of the target in `[notify]`.
    pub target: String,
    /// What is told; none when the row cannot be read.
    pub notice: Option<Notice>,
    /// When it was written.
    pub created_at: Timestamp,
    /// Attempts so far.
    pub attempts: u32,
    /// Not tried before.
    pub next_at: Timestamp,
}

/// Adds a notice for one target to the transaction of what it tells of; answers its id. Every text in the notice must
/// be masked already: it is stored and sent as it is, only cut where it is very long.
///
/// # Errors
/// The database fails.
pub fn enqueue(tx: &Transaction<'_>, target: &str, notice: &Notice, now: Timestamp) -> Result<i64, DbError> {
    let notice = serde_json::to_string(&notice.clone().clipped())
        .map_err(|e| DbFault::Other(format!("a notice cannot be written as JSON: {e}")))?;
    tx.prepare_cached(
        "INSERT INTO notification (target, notice, created_at, next_at) VALUES (?1, ?2, ?3, ?3)",
    )?
    .execute(params![target, notice, time(now)])?;
    Ok(tx.last_insert_rowid())
}

/// As [`enqueue`], for each of several targets.
///
/// # Errors
/// The database fails.
pub fn enqueue_all<T: AsRef<str>>(
    tx: &Transaction<'_>,
    targets: &[T],
    notice: &Notice,
    now: Timestamp,
) -> Result<(), DbError> {
    targets.iter().try_for_each(|target| enqueue(tx, target.as_ref(), notice, now).map(|_| ()))
}

/// The id of the newest notice, over or not; 0: there is none. While it stays the same, nothing was added.
///
/// # Errors
/// The database fails.
pub fn newest(conn: &Connection) -> Result<i64, DbError> {
    let mut query = conn.prepare_cached("SELECT id FROM notification ORDER BY id DESC LIMIT 1")?;
    Ok(query.query_row([], |r| r.get(0)).optional()?.unwrap_or(0))
}

/// The oldest notice that is not over of each target that is not among `busy`: at most `limit`, those that are to be
/// tried first before the others.
///
/// # Errors
/// The database fails.
pub fn heads(conn: &Connection, busy: &[String], limit: u32) -> Result<Vec<Pending>, DbError> {
    // From name to name by the index: a long backlog costs no more than a short one.
    let sql = "WITH RECURSIVE waiting (target) AS ( \
                 SELECT min(target) FROM notification WHERE next_at IS NOT NULL \
                 UNION ALL \
                 SELECT (SELECT min(target) FROM notification WHERE next_at IS NOT NULL AND target > waiting.target) \
                 FROM waiting WHERE target IS NOT NULL) \
               SELECT id, target, notice, created_at, attempts, next_at FROM notification WHERE id IN ( \
                 SELECT (SELECT min(id) FROM notification WHERE next_at IS NOT NULL AND target = waiting.target) \
                 FROM waiting WHERE target NOT IN (SELECT value FROM json_each(?1))) \
               ORDER BY next_at, id LIMIT ?2";
    let mut query = conn.prepare_cached(sql)?;
    let mut rows = query.query(params![json!(busy).to_string(), limit])?;
    let mut heads = Vec::new();
    while let Some(row) = rows.next()? {
        heads.push(Pending {
            id: row.get(0)?,
            target: row.get(1)?,
            notice: serde_json::from_str(&row.get::<_, String>(2)?).ok(),
            created_at: parse_time("notification.created_at", &row.get::<_, String>(3)?)?,
            attempts: row.get(4)?,
            next_at: parse_time("notification.next_at", &row.get::<_, String>(5)?)?,
        });
    }
    Ok(heads)
}

/// The target took it: it is over.
///
/// # Errors
/// The database fails.
pub fn delivered(tx: &Transaction<'_>, id: i64, now: Timestamp) -> Result<(), DbError> {
    let sql = "UPDATE notification SET attempts = attempts + 1, next_at = NULL, delivered_at = ?2, error = NULL \
               WHERE id = ?1";
    tx.prepare_cached(sql)?.execute(params![id, time(now)])?;
    Ok(())
}

/// An attempt failed; the next one is not before `next_at`. The error names no secret.
///
/// # Errors
/// The database fails.
pub fn failed(tx: &Transaction<'_>, id: i64, error: &str, next_at: Timestamp) -> Result<(), DbError> {
    let sql = "UPDATE notification SET attempts = attempts + 1, next_at = ?2, error = ?3 WHERE id = ?1";
    tx.prepare_cached(sql)?.execute(params![id, time(next_at), error])?;
    Ok(())
}

/// It is not tried again: it is over, and the event `notify:failed` says why. The error names no secret.
///
/// # Errors
/// The database fails.
pub fn given_up(tx: &Transaction<'_>, row: &Pending, error: &str, now: Timestamp) -> Result<(), DbError> {
    let sql = "UPDATE notification SET attempts = attempts + 1, next_at = NULL, error = ?2 WHERE id = ?1";
    tx.prepare_cached(sql)?.execute(params![row.id, error])?;
    let notice = row.notice.as_ref();
    let job = notice.and_then(|n| n.job.as_ref()).map(|(id, _)| *id);
    let told = json!({
        "id": row.id,
        "target": row.target,
        "notice": notice.map(|n| n.kind),
        "agent": notice.map(|n| &n.agent),
        "job": job,
        "run": notice.and_then(|n| n.run),
        "attempts": row.attempts + 1,
        "error": error,
    });
    // About the job, so that it is not triggered by what was not told of itself.
    events::append_about(tx, now, "notify:failed", &told, job, 0)?;
    Ok(())
}

/// Forgets notices that are over and were written before a time, the oldest first and at most `limit`; answers how
/// many went.
///
/// # Errors
/// The database fails.
pub fn prune(tx: &Transaction<'_>, before: Timestamp, limit: u32) -> Result<usize, DbError> {
    let before = time(before);
    let mut old = Vec::new();
    // Ids grow with time, so that the first one that is not old ends the search.
    let mut query = tx.prepare_cached("SELECT id, created_at, next_at FROM notification ORDER BY id")?;
    let mut rows = query.query([])?;
    while old.len() < limit as usize
        && let Some(row) = rows.next()?
        && row.get_ref(1)?.as_str().is_ok_and(|created| *created < *before)
    {
        if row.get::<_, Option<String>>(2)?.is_none() {
            old.push(row.get::<_, i64>(0)?);
        }
    }
    let mut delete = tx.prepare_cached("DELETE FROM notification WHERE id = ?1")?;
    old.iter().try_for_each(|id| delete.execute([id]).map(|_| ()))?;
    Ok(old.len())
}

#[cfg(test)]
#[path = "outbox_tests.rs"]
mod tests;
