//! Runs that wait: how many there are, and how they end without having started.

use jiff::Timestamp;
use rusqlite::{Connection, Transaction, params};

use super::{
    super::{
        error::DbError,
        runs::{self, RunRow},
        time,
    },
    announce,
};
use crate::{
    runs::state::{Cause, RunStatus, SkipReason},
    scheduler::{
        due::{self, Active},
        job::JobSpec,
    },
};

/// How many runs of a job are not over, once what waited too long is skipped.
pub(super) fn active(tx: &Transaction<'_>, now: Timestamp, job: i64) -> Result<Active, DbError> {
    let active = count(tx, job)?;
    if active.waiting == 0 {
        return Ok(active);
    }
    let those = "WHERE job_id = ?1 AND status = 'queued' AND cause = 'schedule' AND attempt = 1";
    for run in runs::rows(tx, those, [job])? {
        if too_long(&run, now) {
            expire(tx, now, run)?;
        }
    }
    count(tx, job)
}

/// A run between two attempts is not over: it counts as one that runs.
fn count(conn: &Connection, job: i64) -> Result<Active, DbError> {
    let sql = "SELECT coalesce(sum(status = 'running' OR attempt > 1), 0), \
               coalesce(sum(status = 'queued' AND attempt = 1 AND cause <> 'catch_up'), 0) \
               FROM run WHERE job_id = ?1 AND status IN ('queued', 'running')";
    let active = |r: &rusqlite::Row<'_>| Ok(Active { running: r.get(0)?, waiting: r.get(1)? });
    Ok(conn.prepare_cached(sql)?.query_row([job], active)?)
}

/// Whether a fire time waited for its agent beyond its policy. What has started once is tried again however late.
pub(super) fn too_long(run: &RunRow, now: Timestamp) -> bool {
    let limit = run.spec.as_ref().and_then(JobSpec::missed_limit);
    matches!(run.cause, Cause::Schedule | Cause::CatchUp)
        && run.attempt == 1
        && limit.is_some_and(|limit| due::put_off(run.scheduled_at, limit) < now)
}

/// Ends a run that waited too long.
pub(super) fn expire(tx: &Transaction<'_>, now: Timestamp, run: RunRow) -> Result<(), DbError> {
    end_skipped(tx, now, run, SkipReason::Expired)
}

/// Ends what waits to make up for missed times of a job.
pub(super) fn skip(
    tx: &Transaction<'_>,
    now: Timestamp,
    job: i64,
    reason: SkipReason,
) -> Result<(), DbError> {
    let those = "WHERE job_id = ?1 AND status = 'queued' AND attempt = 1 AND cause = 'catch_up'";
    for run in runs::rows(tx, those, [job])? {
        end_skipped(tx, now, run, reason)?;
    }
    Ok(())
}

fn end_skipped(
    tx: &Transaction<'_>,
    now: Timestamp,
    mut run: RunRow,
    reason: SkipReason,
) -> Result<(), DbError> {
    tx.prepare_cached(
        "UPDATE run SET status = 'skipped', reason = ?2, finished_at = ?3, spec = NULL, event_data = NULL WHERE id = ?1",
    )?
    .execute(params![run.id, reason.as_str(), time(now)])?;
    (run.status, run.reason) = (RunStatus::Skipped, Some(reason.as_str().to_owned()));
    announce(tx, now, &run, "run:skipped")
}

/// Cancels what waits of a job and is one of `those`, a condition.
pub(super) fn drop(
    tx: &Transaction<'_>,
    now: Timestamp,
    job: i64,
    those: &str,
    error: &str,
) -> Result<(), DbError> {
    for mut run in runs::rows(tx, &format!("WHERE job_id = ?1 AND status = 'queued' AND ({those})"), [job])? {
        cancel(tx, now, run.id, error)?;
        (run.status, run.error) = (RunStatus::Cancelled, Some(error.to_owned()));
        announce(tx, now, &run, "run:cancelled")?;
    }
    Ok(())
}

/// A job was disabled: nothing of it starts any more but what somebody asked for.
pub(in crate::db) fn disabled(tx: &Transaction<'_>, now: Timestamp, job: i64) -> Result<(), DbError> {
    drop(tx, now, job, "cause <> 'manual'", "its job was disabled")
}

/// A job is about to be deleted.
pub(in crate::db) fn deleted(tx: &Transaction<'_>, now: Timestamp, job: i64) -> Result<(), DbError> {
    drop(tx, now, job, "true", "its job was deleted")
}

/// What waits of a job starts when its backoff ends, but for what somebody asked for (systems.md A10).
pub(super) fn put_off(tx: &Transaction<'_>, job: i64, until: Timestamp) -> Result<(), DbError> {
    tx.prepare_cached(
        "UPDATE run SET due_at = ?2 WHERE job_id = ?1 AND status = 'queued' AND cause <> 'manual' AND due_at < ?2",
    )?
    .execute(params![job, time(until)])?;
    Ok(())
}

/// The backoff of a job is over before its time.
pub(super) fn put_on(tx: &Transaction<'_>, job: i64, now: Timestamp) -> Result<(), DbError> {
    tx.prepare_cached(
        "UPDATE run SET due_at = ?2 WHERE job_id = ?1 AND status = 'queued' AND attempt = 1 AND due_at > ?2",
    )?
    .execute(params![job, time(now)])?;
    Ok(())
}

/// Writes that a run never started, or never will again; who calls announces it.
pub(super) fn cancel(tx: &Transaction<'_>, now: Timestamp, id: i64, error: &str) -> Result<(), DbError> {
    tx.prepare_cached(
        "UPDATE run SET status = 'cancelled', finished_at = ?2, error = ?3, spec = NULL, event_data = NULL WHERE id = ?1",
    )?
    .execute(params![id, time(now), error])?;
    Ok(())
}
