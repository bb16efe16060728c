//! What callers were answered under an `Idempotency-Key`, so that a repeat is answered the same.
//!
//! Kept with the change itself, in one transaction: after a crash either both are there or neither.

use std::time::Duration;

use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension, Transaction, params};

use super::{error::DbError, time};

/// How long an answer is kept.
pub const KEPT: Duration = Duration::from_secs(24 * 3600);

/// A request that its caller may repeat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// The agent that asks; empty: the operator.
    pub caller: String,
    /// Method and path.
    pub route: String,
    /// The key that the caller chose.
    pub key: String,
    /// Hash of the body: another body is another request.
    pub hash: String,
}

/// What is known under a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Known {
    /// The same request was answered so.
    Answered(String),
    /// The key was used with another body.
    OtherRequest,
}

/// What a request was answered, if it was, since `now` less [`KEPT`].
///
/// # Errors
/// The database fails.
pub fn find(conn: &Connection, request: &Request, now: Timestamp) -> Result<Option<Known>, DbError> {
    let found: Option<(String, String)> = conn
        .prepare_cached(
            "SELECT request, answer FROM idempotency WHERE caller = ?1 AND route = ?2 AND key = ?3 AND at >= ?4",
        )?
        .query_row(params![request.caller, request.route, request.key, since(now)], |r| {
            Ok((r.get(0)?, r.get(1)?))
        })
        .optional()?;
    Ok(found.map(
        |(hash, answer)| {
            if hash == request.hash { Known::Answered(answer) } else { Known::OtherRequest }
        },
    ))
}

/// Keeps an answer, and drops those that are too old.
///
/// # Errors
/// The database fails.
pub fn keep(tx: &Transaction<'_>, request: &Request, answer: &str, now: Timestamp) -> Result<(), DbError> {
    tx.prepare_cached("DELETE FROM idempotency WHERE at < ?1")?.execute([since(now)])?;
    tx.prepare_cached(
        "INSERT INTO idempotency (caller, route, key, request, answer, at) VALUES (?1, ?2, ?3, ?4, ?5, ?6) \
         ON CONFLICT DO UPDATE SET request = ?4, answer = ?5, at = ?6",
    )?
    .execute(params![request.caller, request.route, request.key, request.hash, answer, time(now)])?;
    Ok(())
}

fn since(now: Timestamp) -> String {
    time(now.checked_sub(KEPT).unwrap_or(Timestamp::MIN))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::db::Db;

    fn request(caller: &str, hash: &str) -> Request {
        Request { caller: caller.into(), route: "POST /v1/jobs".into(), key: "k".into(), hash: hash.into() }
    }

    #[tokio::test]
    async fn an_answer_is_found_for_a_day_by_the_same_caller_with_the_same_request() {
        let dir = tempfile::tempdir().unwrap();
        let db = Db::open(&dir.path().join("skep.db")).unwrap();
        let now: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let hours = |n: i64| now + jiff::SignedDuration::from_hours(n);
        db.write(move |tx| keep(tx, &request("", "a"), "1", now)).await.unwrap();
        let find = async |caller: &'static str, hash: &'static str, at: Timestamp| {
            db.read(move |conn| find(conn, &request(caller, hash), at)).await.unwrap()
        };
        assert_eq!(find("", "a", hours(23)).await, Some(Known::Answered("1".into())));
        assert_eq!(find("", "b", hours(23)).await, Some(Known::OtherRequest));
        assert_eq!(find("writer", "a", now).await, None);
        assert_eq!(find("", "a", hours(25)).await, None);
        let later = hours(25);
        db.write(move |tx| keep(tx, &request("writer", "a"), "2", later)).await.unwrap();
        let left = db.read(|conn| {
            Ok::<i64, DbError>(conn.query_row("SELECT count(*) FROM idempotency", [], |r| r.get(0))?)
        });
        assert_eq!(left.await.unwrap(), 1, "what is too old went");
    }
}
