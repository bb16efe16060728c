//! Runs that wait: how many there are, and how they end without having started.

use jiff::Timestamp;
use rusqlite::{Connection, Transaction, params};

use super::{
    super::{
        error::DbError,
        jobs::JobRow,
        runs::{self, RunRow},
        time,
    },
    announce,
};
use crate::{
    config::model::Runs,
    runs::state::{Cause, RunStatus, SkipReason},
    scheduler::{
        due::{self, Active},
        job::{JobSpec, Overlap},
    },
};

/// What of a job is not over, once what waited too long is skipped: one of each kind stands for all, and where runs
/// may overlap nothing is in the way. What came of events is not read, however much waits.
pub(super) fn active(tx: &Transaction<'_>, now: Timestamp, job: &JobRow) -> Result<Active, DbError> {
    let those = "INDEXED BY run_first WHERE job_id = ?1 AND status = 'queued' AND attempt = 1 \
                 AND cause <> 'catch_up' AND cause = 'schedule'";
    for run in runs::rows(tx, those, [job.id])? {
        if too_long(&run, now) {
            expire(tx, now, run)?;
        }
    }
    if job.spec.overlap == Overlap::Allow {
        return Ok(Active::default());
    }
    look(tx, job.id)
}

/// A run between two attempts is not over: it counts as one that runs.
fn look(conn: &Connection, job: i64) -> Result<Active, DbError> {
    let sql = "SELECT EXISTS (SELECT 1 FROM run WHERE job_id = ?1 AND status = 'running') OR \
               EXISTS (SELECT 1 FROM run INDEXED BY run_retry WHERE job_id = ?1 AND status = 'queued' AND attempt > 1), \
               EXISTS (SELECT 1 FROM run INDEXED BY run_first WHERE job_id = ?1 AND status = 'queued' \
                       AND attempt = 1 AND cause <> 'catch_up')";
    let active = |r: &rusqlite::Row<'_>| Ok(Active { running: r.get(0)?, waiting: r.get(1)? });
    Ok(conn.prepare_cached(sql)?.query_row([job], active)?)
}

/// A run of a job that is not over; with `first` the one that waits for its first start.
pub(super) fn in_the_way(conn: &Connection, job: i64, first: bool) -> Result<Option<i64>, DbError> {
    let sql = if first {
        "SELECT min(id) FROM run INDEXED BY run_first WHERE job_id = ?1 AND status = 'queued' AND attempt = 1 \
         AND cause <> 'catch_up'"
    } else {
        "SELECT min(id) FROM run WHERE job_id = ?1 AND status IN ('queued', 'running')"
    };
    Ok(conn.prepare_cached(sql)?.query_row([job], |r| r.get(0))?)
}

/// What keeps a queued run from starting that its agent could run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Obstacle {
    /// This run of its job, which may not overlap.
    Run(i64),
    /// As many runs as may at all, or as may of its agent.
    Slots(u32),
}

/// What is in the way of a queued run, if anything is: else it starts at the next look.
///
/// # Errors
/// The database fails.
pub fn obstacle(conn: &Connection, run: &RunRow, limits: &Runs) -> Result<Option<Obstacle>, DbError> {
    if let (Some(job), true) = (run.job, run.overlap != Overlap::Allow) {
        let sql = "SELECT min(id) FROM run WHERE job_id = ?1 AND id <> ?2 AND (status = 'running' OR \
                   (status = 'queued' AND attempt > 1))";
        let other: Option<i64> = conn.prepare_cached(sql)?.query_row(params![job, run.id], |r| r.get(0))?;
        if let Some(other) = other {
            return Ok(Some(Obstacle::Run(other)));
        }
    }
    let running = "SELECT count(*), coalesce(sum(agent = ?1), 0) FROM run WHERE status = 'running'";
    let (all, own): (u32, u32) =
        conn.prepare_cached(running)?.query_row([run.agent.as_str()], |r| Ok((r.get(0)?, r.get(1)?)))?;
    let catch_up = u32::from(run.cause == Cause::CatchUp);
    let full = |used: u32, most: u32| used >= most.saturating_sub(catch_up).max(1);
    Ok(if full(own, limits.max_running_per_agent) {
        Some(Obstacle::Slots(own))
    } else {
        full(all, limits.max_running).then_some(Obstacle::Slots(all))
    })
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

pub(super) fn end_skipped(
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
