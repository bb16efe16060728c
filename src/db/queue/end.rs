//! From running to over: the run, its retry, its job's counters and what is told of it, in one transaction.

use jiff::Timestamp;
use rusqlite::{Transaction, params};

use super::{
    super::{
        error::DbError,
        jobs::{self, FIRED, JobRow},
        runs::{self, Ending, RunRow},
        tasks::{self, TaskRow},
        time,
    },
    announce,
    claim::disable,
    waiting,
};
use crate::{
    runs::{
        result::Outcome,
        state::{self, Cause, Effect, RunStatus, SkipReason},
    },
    scheduler::{job::TriggerSpec, trigger::Fire},
};

/// Puts what is to be told of a run's end into the outbox, in its transaction; answers whether anything was.
/// Arguments: the run, its job with its new counters, whether it was disabled by this.
pub type Tell<'a> = &'a dyn Fn(&Transaction<'_>, &RunRow, &JobRow, bool) -> Result<bool, DbError>;

/// What the end of a run led to.
#[derive(Debug, Clone, PartialEq)]
pub struct Finished {
    /// The run as it is now.
    pub run: RunRow,
    /// The run that tries again.
    pub retry: Option<i64>,
    /// Its job was disabled.
    pub disabled: bool,
}

/// Records the end of a running run, which is tried again unless that would end the same; none when it was recorded
/// before. It was over at `ended`, which may be long ago:
/// nobody may have been there to record it. None: now.
///
/// # Errors
/// The database fails.
pub fn finish(
    tx: &Transaction<'_>,
    id: i64,
    outcome: &Outcome,
    output_bytes: Option<u64>,
    ended: Option<Timestamp>,
    now: Timestamp,
    tell: Tell<'_>,
) -> Result<Option<Finished>, DbError> {
    let Some(before) = runs::get(tx, id)?.filter(|run| run.status == RunStatus::Running) else {
        return Ok(None);
    };
    let (status, error) = match before.ending {
        // It may have come to its own end just before.
        Some(ending) if outcome.status != RunStatus::Succeeded => {
            (RunStatus::Cancelled, Some(ended_by(ending)))
        }
        _ => (outcome.status, outcome.error.clone()),
    };
    let result = outcome.result.as_ref().map(ToString::to_string);
    // The clock may have been set meanwhile.
    let ended = ended.unwrap_or(now).max(before.started_at.unwrap_or(now)).min(now);
    tx.prepare_cached(
        "UPDATE run SET status = ?2, finished_at = ?3, exit_code = ?4, result = ?5, error = ?6, summary = ?7, \
         output_bytes = ?8, warning = ?9, spec = NULL, event_data = NULL WHERE id = ?1",
    )?
    .execute(params![
        id,
        status.as_str(),
        time(ended),
        outcome.exit_code,
        result,
        error,
        outcome.summary,
        output_bytes.map(u64::cast_signed),
        outcome.warning,
    ])?;
    let Some(run) = runs::get(tx, id)? else { return Ok(None) };
    announce(tx, now, &run, &format!("run:{}", status.as_str()))?;
    if let Some(task) = tasks::of_run(tx, &run)? {
        let retry = retry_task(tx, &before, &run, &task, outcome.lasting, now)?;
        return Ok(Some(Finished { run, retry, disabled: false }));
    }
    // Of a job that was deleted nothing more starts.
    let Some(job) = run.job.map(|job| jobs::get(tx, job)).transpose()?.flatten() else {
        return Ok(Some(Finished { run, retry: None, disabled: false }));
    };
    let retry = if outcome.lasting { None } else { retry(tx, &before, &run, &job, now)? };
    let disabled = settle(tx, &before, &run, job, retry.is_some(), now, tell)?;
    Ok(Some(Finished { run, retry, disabled }))
}

fn ended_by(ending: Ending) -> String {
    match ending {
        Ending::Cancelled => "it was cancelled".to_owned(),
        Ending::Replaced => "a newer run of its job took its place".to_owned(),
    }
}

/// Queues the next attempt, when the job's policy has one left.
fn retry(
    tx: &Transaction<'_>,
    before: &RunRow,
    run: &RunRow,
    job: &JobRow,
    now: Timestamp,
) -> Result<Option<i64>, DbError> {
    let retries = before.spec.as_ref().map_or(0, |spec| spec.retries);
    if !run.status.may_retry() || run.attempt > retries || !starts(run, job) {
        return Ok(None);
    }
    // Another run of the job may have failed for good meanwhile.
    let backoff = job.backoff_until.filter(|_| run.cause != Cause::Manual);
    let due = state::retry_at(run.attempt, run.finished_at.unwrap_or(now)).max(backoff.unwrap_or(now));
    try_again(tx, before, run, due, now)
}

/// The next attempt of a task, or its end.
fn retry_task(
    tx: &Transaction<'_>,
    before: &RunRow,
    run: &RunRow,
    task: &TaskRow,
    lasting: bool,
    now: Timestamp,
) -> Result<Option<i64>, DbError> {
    let retries = before.spec.as_ref().map_or(0, |spec| spec.retries);
    if run.status.may_retry() && !lasting && run.attempt <= retries {
        let due = state::retry_at(run.attempt, run.finished_at.unwrap_or(now)).max(now);
        if let Some(next) = try_again(tx, before, run, due, now)? {
            tasks::tries_again(tx, task, run, next)?;
            return Ok(Some(next));
        }
    }
    tasks::settle(tx, task, run, now)?;
    Ok(None)
}

fn try_again(
    tx: &Transaction<'_>,
    before: &RunRow,
    run: &RunRow,
    due: Timestamp,
    now: Timestamp,
) -> Result<Option<i64>, DbError> {
    let inserted = tx
        .prepare_cached(
            "INSERT INTO run (job_id, agent, job_name, tier, cause, scheduled_at, shifted_from, attempt, status, \
             event_id, event_name, event_data, depth, spec, overlap, due_at, created_at) \
             SELECT job_id, agent, job_name, tier, cause, scheduled_at, shifted_from, attempt + 1, 'queued', \
             event_id, event_name, ?5, depth, ?2, overlap, ?3, ?4 FROM run WHERE id = ?1 ON CONFLICT DO NOTHING",
        )?
        .execute(params![run.id, spec_text(before)?, time(due), time(now), before.event_data])?;
    Ok((inserted > 0).then(|| tx.last_insert_rowid()))
}

fn spec_text(run: &RunRow) -> Result<Option<String>, DbError> {
    let text = run.spec.as_ref().map(serde_json::to_string).transpose();
    text.map_err(|_| DbError::bad_value("run", "spec", &run.job_name))
}

/// What the end does to the job; answers whether it was disabled.
fn settle(
    tx: &Transaction<'_>,
    before: &RunRow,
    run: &RunRow,
    mut job: JobRow,
    retried: bool,
    now: Timestamp,
    tell: Tell<'_>,
) -> Result<bool, DbError> {
    tx.prepare_cached(
        "UPDATE job SET last_run_id = ?2, last_run_at = ?3, last_run_status = ?4, last_run_summary = ?5 WHERE id = ?1",
    )?
    .execute(params![
        job.id,
        run.id,
        time(run.started_at.unwrap_or(now)),
        run.status.as_str(),
        run.summary.as_ref().or(run.error.as_ref()),
    ])?;
    // Only the last attempt counts.
    let ended = run.finished_at.unwrap_or(now);
    let effect =
        if retried { Effect::None } else { state::effect(run.status, job.consecutive_failures, ended) };
    let mut disabled = false;
    match effect {
        Effect::None => {}
        Effect::Reset => {
            count(tx, &mut job, 0, None)?;
            waiting::put_on(tx, job.id, now)?;
        }
        Effect::BackOff(failures, until) => {
            count(tx, &mut job, failures, Some(until))?;
            waiting::put_off(tx, job.id, until)?;
            fire_again(tx, before, &job, until.max(now))?;
        }
        Effect::Disable(failures) => {
            count(tx, &mut job, failures, None)?;
            if job.enabled || job.disabled_reason.as_deref() == Some(FIRED) {
                let error = run.error.as_deref().unwrap_or("no reason given");
                let reason = format!("{failures} runs in a row failed, the last one: {error}");
                disable(tx, now, &job, &reason)?;
                waiting::disabled(tx, now, job.id)?;
                (job.enabled, job.disabled_reason, disabled) = (false, Some(reason), true);
            }
        }
    }
    if retried {
        return Ok(false);
    }
    if tell(tx, run, &job, disabled)? {
        tx.prepare_cached("UPDATE job SET last_notified_at = ?2 WHERE id = ?1")?
            .execute(params![job.id, time(now)])?;
    }
    Ok(disabled)
}

fn count(
    tx: &Transaction<'_>,
    job: &mut JobRow,
    failures: u32,
    backoff_until: Option<Timestamp>,
) -> Result<(), DbError> {
    (job.consecutive_failures, job.backoff_until) = (failures, backoff_until);
    tx.prepare_cached("UPDATE job SET consecutive_failures = ?2, backoff_until = ?3 WHERE id = ?1")?
        .execute(params![job.id, failures, backoff_until.map(time)])?;
    Ok(())
}

/// A one-shot that failed fires again at the end of its backoff (systems.md A10), unless somebody changed it since.
fn fire_again(tx: &Transaction<'_>, before: &RunRow, job: &JobRow, until: Timestamp) -> Result<(), DbError> {
    let one_shot = matches!(job.spec.trigger, TriggerSpec::OneShot { .. });
    let fired = job.disabled_reason.as_deref() == Some(FIRED);
    if !one_shot || !fired || before.cause == Cause::Manual {
        return Ok(());
    }
    tx.prepare_cached("UPDATE job SET enabled = 1, disabled_reason = NULL WHERE id = ?1")?
        .execute([job.id])?;
    let next = Fire { at: until, shifted_from: None };
    jobs::set_next(tx, job.id, &job.agent, &job.name, &job.spec, Some(&next))
}

/// What became of a wish to end a run.
#[derive(Debug, Clone, PartialEq)]
pub enum Cancelled {
    /// There is no such run.
    NoRun,
    /// It was over already.
    Over(RunStatus),
    /// It had not started, and never will.
    Dropped(RunRow),
    /// It runs and is to be ended now.
    Ending(RunRow),
}

/// Ends a run because somebody asks.
///
/// # Errors
/// The database fails.
pub fn cancel(tx: &Transaction<'_>, id: i64, now: Timestamp) -> Result<Cancelled, DbError> {
    let Some(run) = runs::get(tx, id)? else { return Ok(Cancelled::NoRun) };
    match run.status {
        RunStatus::Queued => {
            waiting::cancel(tx, now, id, "it was cancelled before it started")?;
            let Some(run) = runs::get(tx, id)? else { return Ok(Cancelled::NoRun) };
            announce(tx, now, &run, "run:cancelled")?;
            if let Some(task) = tasks::of_run(tx, &run)? {
                tasks::settle(tx, &task, &run, now)?;
            }
            Ok(Cancelled::Dropped(run))
        }
        RunStatus::Running => {
            tx.prepare_cached("UPDATE run SET ending = ?2 WHERE id = ?1 AND ending IS NULL")?
                .execute(params![id, Ending::Cancelled.as_str()])?;
            Ok(Cancelled::Ending(run))
        }
        over => Ok(Cancelled::Over(over)),
    }
}

/// Ends a leased run that has not started, because there is nothing to do for it (systems.md A11): it counts as skipped,
/// nobody is told, and its job goes on as if it had not been. A run that was asked to end meanwhile is cancelled.
///
/// # Errors
/// The database fails.
pub fn skip_unstarted(tx: &Transaction<'_>, id: i64, now: Timestamp) -> Result<(), DbError> {
    let Some(run) = runs::get(tx, id)?.filter(|run| run.status == RunStatus::Running) else { return Ok(()) };
    if let Some(ending) = run.ending {
        waiting::cancel(tx, now, id, &ended_by(ending))?;
        let Some(run) = runs::get(tx, id)? else { return Ok(()) };
        return announce(tx, now, &run, "run:cancelled");
    }
    waiting::end_skipped(tx, now, run, SkipReason::Preflight)
}

/// Puts back a leased run of which its init proves that it never started; of a job that was disabled or deleted
/// meanwhile it never will.
///
/// # Errors
/// The database fails.
pub fn requeue(tx: &Transaction<'_>, id: i64, now: Timestamp) -> Result<bool, DbError> {
    let Some(run) = runs::get(tx, id)?.filter(|run| run.status == RunStatus::Running) else {
        return Ok(false);
    };
    let job = run.job.map(|job| jobs::get(tx, job)).transpose()?.flatten();
    let task = tasks::of_run(tx, &run)?;
    let never = match (run.ending, job) {
        (Some(ending), _) => Some(ended_by(ending)),
        (None, None) if task.is_some() => None,
        (None, None) => Some("its job was deleted".to_owned()),
        (None, Some(job)) if !starts(&run, &job) => Some("its job was disabled".to_owned()),
        (None, Some(_)) => None,
    };
    if let Some(error) = never {
        waiting::cancel(tx, now, id, &error)?;
        let Some(run) = runs::get(tx, id)? else { return Ok(true) };
        announce(tx, now, &run, "run:cancelled")?;
        if let Some(task) = task {
            tasks::settle(tx, &task, &run, now)?;
        }
        return Ok(true);
    }
    tx.prepare_cached(
        "UPDATE run SET status = 'queued', lease = NULL, container = NULL, proc_id = NULL, started_at = NULL, act = NULL \
         WHERE id = ?1",
    )?
    .execute([id])?;
    Ok(true)
}

/// Whether a run may start as far as its job is concerned: nothing of a disabled one does, but for what somebody asked
/// for, and a one-shot that disabled itself by firing.
fn starts(run: &RunRow, job: &JobRow) -> bool {
    run.cause == Cause::Manual || job.enabled || job.disabled_reason.as_deref() == Some(FIRED)
}
