//! What the clock going back changes: times that were noted ahead of it come nearer again.
//!
//! A fire time that has a run never gets another one. What was skipped ahead of the new time has not come yet: its
//! record goes, and it is decided when it comes. It moves nothing that is not ahead, so it can be called at any time.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use rusqlite::{OptionalExtension, Transaction, params};

use super::super::{
    error::DbError,
    jobs::{self, JobFilter, JobRow},
    meta, parse_time,
    runs::PRUNED_UNTIL,
    time,
};
use crate::{
    runs::state::backoff,
    scheduler::{
        due::{before, jitter_offset, put_off},
        trigger::{Fire, Trigger},
    },
};

/// Jobs that are read at once.
const PAGE: usize = 1_000;
/// No run waits longer than this for its next attempt or the end of a backoff.
const LONGEST_WAIT: SignedDuration = SignedDuration::from_hours(1);
/// A clock before this (2026) was not set yet: nothing follows from it.
const NOT_SET: i64 = 1_767_225_600;

/// Brings nearer what lies further ahead than it would if it were computed now, because the clock went back: fire
/// times of cron and interval jobs, the ends of backoffs, the next attempts of runs. To be called at the start and
/// whenever the clock was stepped. Answers how many jobs changed.
///
/// # Errors
/// The database fails.
pub fn realign(tx: &Transaction<'_>, now: Timestamp) -> Result<usize, DbError> {
    if now.as_second() < NOT_SET {
        return Ok(0);
    }
    waiting_runs(tx, now)?;
    let pruned = meta::get(tx, PRUNED_UNTIL)?.map(|t| parse_time(PRUNED_UNTIL, &t)).transpose()?;
    let enabled = JobFilter { enabled: Some(true), ..JobFilter::default() };
    let (mut changed, mut last) = (0, 0);
    loop {
        let page = jobs::list(tx, &enabled, last, PAGE)?;
        for job in &page {
            last = job.id;
            changed += usize::from(realign_job(tx, now, pruned, job)?);
        }
        if page.len() < PAGE {
            return Ok(changed);
        }
    }
}

/// Runs that wait for a time that is too far ahead, and those that started ahead of now.
fn waiting_runs(tx: &Transaction<'_>, now: Timestamp) -> Result<(), DbError> {
    tx.prepare_cached("UPDATE run SET started_at = ?1 WHERE status = 'running' AND started_at > ?1")?
        .execute([time(now)])?;
    let mut query =
        tx.prepare_cached("SELECT id, created_at, due_at FROM run INDEXED BY run_queued WHERE status = 'queued' AND due_at > ?1")?;
    let rows: Vec<(i64, String, String)> =
        query.query_map([time(now)], |r| Ok((r.get(0)?, r.get(1)?, r.get(2)?)))?.collect::<Result<_, _>>()?;
    for (id, created, due) in rows {
        let (created, due) = (parse_time("run.created_at", &created)?, parse_time("run.due_at", &due)?);
        let wait = due.duration_since(created.max(now)).clamp(SignedDuration::ZERO, LONGEST_WAIT);
        let nearer = now.checked_add(wait).unwrap_or(due).min(due);
        tx.prepare_cached("UPDATE run SET created_at = ?2, due_at = ?3 WHERE id = ?1")?.execute(params![
            id,
            time(created.min(now)),
            time(nearer)
        ])?;
    }
    Ok(())
}

fn realign_job(
    tx: &Transaction<'_>,
    now: Timestamp,
    pruned: Option<Timestamp>,
    job: &JobRow,
) -> Result<bool, DbError> {
    let shorter = shorter_backoff(tx, now, job)?;
    // A schedule that is no longer possible is dealt with when it is due.
    let (Some(next), Ok(trigger)) = (&job.next, job.spec.trigger.compile()) else { return Ok(shorter) };
    let offset = jitter_offset(job.agent.as_str(), &job.name, job.spec.jitter);
    let come = before(now, offset);
    let nearer = match trigger {
        _ if next.at <= come => return Ok(shorter),
        Trigger::Cron(_) => trigger.next(job.anchor, pruned.map_or(come, |pruned| pruned.max(come))),
        Trigger::Interval(_) => trigger.next(interval_anchor(tx, come, job)?, come),
        // One that failed waits for the end of its backoff.
        Trigger::OneShot(_) if shorter => jobs::get(tx, job.id)?
            .and_then(|job| job.backoff_until)
            .filter(|_| job.backoff_until == Some(next.at))
            .map(|at| Fire { at, shifted_from: None }),
        Trigger::OneShot(_) | Trigger::Event(_) | Trigger::Manual => None,
    };
    let Some(nearer) = nearer.filter(|nearer| nearer.at < next.at) else { return Ok(shorter) };
    forget_skips(tx, come, job, &trigger)?;
    jobs::set_next(tx, job.id, &job.agent, &job.name, &job.spec, Some(&nearer))?;
    Ok(true)
}

/// A backoff ends no later than if its last failure were now; answers whether it did.
fn shorter_backoff(tx: &Transaction<'_>, now: Timestamp, job: &JobRow) -> Result<bool, DbError> {
    let latest = put_off(now, backoff(job.consecutive_failures).unwrap_or(Duration::ZERO));
    if job.backoff_until.is_none_or(|until| until <= latest) {
        return Ok(false);
    }
    tx.prepare_cached("UPDATE job SET backoff_until = ?2 WHERE id = ?1")?
        .execute(params![job.id, time(latest)])?;
    Ok(true)
}

/// What an interval counts from: a start that is still ahead was now.
fn interval_anchor(tx: &Transaction<'_>, now: Timestamp, job: &JobRow) -> Result<Timestamp, DbError> {
    if job.anchor <= now {
        return Ok(job.anchor);
    }
    tx.prepare_cached("UPDATE job SET anchor_at = ?2 WHERE id = ?1")?.execute(params![job.id, time(now)])?;
    Ok(now)
}

/// Removes what was skipped after `now`.
fn forget_skips(
    tx: &Transaction<'_>,
    now: Timestamp,
    job: &JobRow,
    trigger: &Trigger,
) -> Result<(), DbError> {
    tx.prepare_cached(
        "DELETE FROM run WHERE job_id = ?1 AND scheduled_at > ?2 AND cause IN ('schedule', 'catch_up') \
         AND status = 'skipped'",
    )?
    .execute(params![job.id, time(now)])?;
    let bulk: Option<(i64, String, String, u32)> = tx
        .prepare_cached(
            "SELECT id, scheduled_at, skipped_until, skipped FROM run WHERE job_id = ?1 AND skipped_until > ?2",
        )?
        .query_row(params![job.id, time(now)], |r| Ok((r.get(0)?, r.get(1)?, r.get(2)?, r.get(3)?)))
        .optional()?;
    let Some((id, from, until, count)) = bulk else { return Ok(()) };
    let span = (parse_time("run.scheduled_at", &from)?, parse_time("run.skipped_until", &until)?, count);
    let (ahead, last) = cut(tx, job, trigger, span, now)?;
    let (count, last) = (count.saturating_sub(ahead), time(last));
    let left = (count > 1).then_some((count, last)).unzip();
    tx.prepare_cached("UPDATE run SET skipped = ?2, skipped_until = ?3 WHERE id = ?1")?
        .execute(params![id, left.0, left.1])?;
    Ok(())
}

/// Of the fire times that one record stands for: how many lie ahead of `now`, and the last that does not.
fn cut(
    tx: &Transaction<'_>,
    job: &JobRow,
    trigger: &Trigger,
    (from, until, count): (Timestamp, Timestamp, u32),
    now: Timestamp,
) -> Result<(u32, Timestamp), DbError> {
    let mut own = tx.prepare_cached(
        "SELECT 1 FROM run WHERE job_id = ?1 AND scheduled_at = ?2 AND cause IN ('schedule', 'catch_up')",
    )?;
    let mut times = Vec::new();
    // An interval's times are those that count from the first one, which is the record's own.
    for fire in trigger.after(from, from).take_while(|fire| fire.at <= until) {
        if !own.exists(params![job.id, time(fire.at)])? {
            times.push(fire.at);
        }
    }
    // The job had another schedule then: of an interval the times lie evenly, of another nearly so.
    if times.len() + 1 != count as usize {
        let span = until.duration_since(from);
        let step = |n: u32| {
            from + span * i32::try_from(n).unwrap_or(i32::MAX) / i32::try_from(count - 1).unwrap_or(1)
        };
        times = (1..count).map(step).collect();
    }
    let ahead = times.iter().filter(|at| **at > now).count();
    let last = times.into_iter().filter(|at| *at <= now).max().unwrap_or(from);
    Ok((u32::try_from(ahead).unwrap_or(count), last))
}
