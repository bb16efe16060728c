//! From fire times, events and wishes to queued runs.

use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension, Transaction, params};
use serde_json::json;

use super::{
    super::{
        error::DbError,
        events::{self, Raised},
        jobs::{self, FIRED, JobRow, Origin, PASSED},
        parse_time,
        runs::{self, RunRow},
        time,
    },
    MAX_DEPTH, Tick, World, announce, waiting,
};
use crate::{
    ids::AgentId,
    runs::state::{Cause, SkipReason},
    scheduler::{
        due::{self, Admission, Decided, DueJob, Plan, Skip},
        job::{Overlap, TriggerSpec},
    },
};

/// Jobs that are looked at in one tick, the most recently due first.
const JOBS: usize = 2_000;
/// Fire times that are decided in one tick: others wait for milliseconds only.
const FIRES: usize = 5_000;
/// Runs of one agent that may wait: one that floods its queue must not slow the others down.
pub(in crate::db) const MAX_WAITING: usize = 5_000;

/// The agents whose jobs fire, as JSON for a query.
pub(super) fn firing(world: &World<'_>) -> String {
    let agents = world.agents.iter().filter(|(_, a)| a.alive_since.is_some()).map(|(id, _)| id.as_str());
    json!(agents.collect::<Vec<_>>()).to_string()
}

/// Claims what is due; answers whether more is.
pub(super) fn due(tx: &Transaction<'_>, world: &World<'_>, tick: &mut Tick) -> Result<bool, DbError> {
    // A limit that is bound would have SQLite plan the query anew each time.
    let mut query = tx.prepare_cached(&format!(
        "SELECT id FROM job INDEXED BY job_due WHERE next_due_at <= ?1 AND agent IN (SELECT value FROM json_each(?2)) \
         ORDER BY next_due_at DESC, id LIMIT {JOBS}",
    ))?;
    let ids: Vec<i64> =
        query.query_map(params![time(world.now), firing(world)], |r| r.get(0))?.collect::<Result<_, _>>()?;
    let mut decided = 0;
    let full = ids.len() == JOBS;
    for id in ids {
        if decided >= FIRES {
            return Ok(true);
        }
        let Some(job) = jobs::get(tx, id)? else { continue };
        decided += decide(tx, world, &job, tick)?;
    }
    Ok(full || decided >= FIRES)
}

/// Decides about the fire times of one job; answers how many.
fn decide(tx: &Transaction<'_>, world: &World<'_>, job: &JobRow, tick: &mut Tick) -> Result<usize, DbError> {
    let alive_since = world.agents.get(&job.agent).and_then(|a| a.alive_since);
    let (Some(alive_since), Some(next)) = (alive_since, job.next.clone()) else { return Ok(0) };
    let trigger = match job.spec.trigger.compile() {
        Ok(trigger) => trigger,
        Err(e) => {
            // A zone that a newer time zone database dropped, say.
            disable(tx, world.now, job, &format!("its schedule is no longer possible: {e}"))?;
            return Ok(1);
        }
    };
    let due = DueJob {
        spec: &job.spec,
        trigger: &trigger,
        anchor: job.anchor,
        offset: due::jitter_offset(job.agent.as_str(), &job.name, job.spec.jitter),
        backoff_until: job.backoff_until,
        active: waiting::active(tx, world.now, job)?,
        decided: &decided(tx, job.id, next.at)?,
        next,
    };
    let plan = due::plan(&due, alive_since, world.now);
    apply(tx, world, job, &plan, tick)?;
    Ok(1 + plan.looked_at)
}

/// Fire times of a job from `next` on that were decided before.
fn decided(conn: &Connection, job: i64, next: Timestamp) -> Result<Decided, DbError> {
    let at = |text: String| parse_time("run.scheduled_at", &text);
    let mut decided = Decided::default();
    let mut query = conn.prepare_cached(
        "SELECT scheduled_at FROM run WHERE job_id = ?1 AND scheduled_at >= ?2 AND cause IN ('schedule', 'catch_up')",
    )?;
    let mut found = query.query(params![job, time(next)])?;
    while let Some(r) = found.next()? {
        decided.times.insert(at(r.get(0)?)?);
    }
    let mut query = conn.prepare_cached(
        "SELECT scheduled_at, skipped_until FROM run WHERE job_id = ?1 AND skipped_until >= ?2",
    )?;
    let mut found = query.query(params![job, time(next)])?;
    while let Some(r) = found.next()? {
        decided.spans.push((at(r.get(0)?)?, at(r.get(1)?)?));
    }
    Ok(decided)
}

fn apply(
    tx: &Transaction<'_>,
    world: &World<'_>,
    job: &JobRow,
    plan: &Plan,
    tick: &mut Tick,
) -> Result<(), DbError> {
    if plan.replace {
        replace(tx, world.now, job.id, tick)?;
    }
    if plan.supersede {
        waiting::skip(tx, world.now, job.id, SkipReason::Missed)?;
    }
    for skip in &plan.skips {
        record_skip(tx, world.now, job, skip, Cause::Schedule, None)?;
    }
    let (claims, crowded) = plan.claims.split_at(room(tx, job)?.min(plan.claims.len()));
    for claim in claims {
        let shifted = claim.shifted_from.map(|t| t.to_string());
        let new = New { cause: claim.cause, at: claim.at, shifted, event: None, depth: 0 };
        insert(tx, world.now, job, &new)?;
    }
    if let (Some(first), Some(last)) = (crowded.first(), crowded.last()) {
        let skip = Skip { from: first.at, until: last.at, count: crowded.len(), reason: SkipReason::Crowded };
        record_skip(tx, world.now, job, &skip, Cause::Schedule, None)?;
    }
    tx.prepare_cached("UPDATE job SET anchor_at = ?2 WHERE id = ?1")?
        .execute(params![job.id, time(plan.anchor)])?;
    if plan.next.is_none() && matches!(job.spec.trigger, TriggerSpec::OneShot { .. }) {
        let reason = if claims.is_empty() { PASSED } else { FIRED };
        return disable(tx, world.now, job, reason);
    }
    jobs::set_next(tx, job.id, &job.agent, &job.name, &job.spec, plan.next.as_ref())
}

/// How many more runs of a job's agent may wait.
fn room(conn: &Connection, job: &JobRow) -> Result<usize, DbError> {
    let mut query = conn.prepare_cached("SELECT runs FROM waiting WHERE agent = ?1")?;
    let waiting: Option<u32> = query.query_row([job.agent.as_str()], |r| r.get(0)).optional()?;
    Ok(MAX_WAITING.saturating_sub(waiting.unwrap_or(0) as usize))
}

/// Disables a job for a reason of our own.
pub(super) fn disable(
    tx: &Transaction<'_>,
    now: Timestamp,
    job: &JobRow,
    reason: &str,
) -> Result<(), DbError> {
    tx.prepare_cached("UPDATE job SET enabled = 0, disabled_reason = ?2, auto_enable = 0 WHERE id = ?1")?
        .execute(params![job.id, reason])?;
    jobs::set_next(tx, job.id, &job.agent, &job.name, &job.spec, None)?;
    jobs::announce(tx, now, "job:disabled", job.id, &job.agent, &job.name).map(|_| ())
}

/// Ends what runs and drops what waits, for a newer run of the job; what makes up for missed times waits on.
fn replace(tx: &Transaction<'_>, now: Timestamp, job: i64, tick: &mut Tick) -> Result<(), DbError> {
    tx.prepare_cached(
        "UPDATE run SET ending = 'replaced' WHERE job_id = ?1 AND status = 'running' AND ending IS NULL",
    )?
    .execute([job])?;
    tick.end.extend(runs::rows(tx, "WHERE job_id = ?1 AND status = 'running'", [job])?);
    let error = "a newer run of its job took its place before it started";
    waiting::drop(tx, now, job, "attempt > 1 OR cause <> 'catch_up'", error)
}

/// A run to be.
struct New<'e> {
    cause: Cause,
    at: Timestamp,
    shifted: Option<String>,
    event: Option<&'e Raised>,
    depth: u32,
}

/// Queues a run; none when this fire time or event was claimed before.
fn insert(tx: &Transaction<'_>, now: Timestamp, job: &JobRow, new: &New<'_>) -> Result<Option<i64>, DbError> {
    let spec = serde_json::to_string(&job.spec).map_err(|_| DbError::bad_value("job", "spec", &job.name))?;
    let overlap = serde_json::to_value(job.spec.overlap).unwrap_or_default();
    let inserted = tx
        .prepare_cached(
            "INSERT INTO run (job_id, agent, job_name, tier, cause, scheduled_at, shifted_from, status, event_id, \
             depth, spec, overlap, due_at, created_at, event_name, event_data) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, 'queued', ?8, ?9, ?10, ?11, ?12, ?12, ?13, \
             (SELECT data FROM event WHERE id = ?8)) ON CONFLICT DO NOTHING",
        )?
        .execute(params![
            job.id,
            job.agent.as_str(),
            job.name,
            job.spec.tier().as_str(),
            new.cause.as_str(),
            time(new.at),
            new.shifted,
            new.event.map(|event| event.id),
            new.depth,
            spec,
            overlap.as_str().unwrap_or("skip"),
            time(now),
            new.event.map(|event| event.name.as_str()),
        ])?;
    Ok((inserted > 0).then(|| tx.last_insert_rowid()))
}

fn record_skip(
    tx: &Transaction<'_>,
    now: Timestamp,
    job: &JobRow,
    skip: &Skip,
    cause: Cause,
    event: Option<&Raised>,
) -> Result<(), DbError> {
    let many = (skip.count > 1).then_some((skip.count, time(skip.until)));
    let inserted = tx
        .prepare_cached(
            "INSERT INTO run (job_id, agent, job_name, tier, cause, scheduled_at, status, reason, skipped, \
             skipped_until, event_id, depth, due_at, created_at, finished_at, event_name) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, 'skipped', ?7, ?8, ?9, ?10, ?11, ?12, ?12, ?12, ?13) \
             ON CONFLICT DO NOTHING",
        )?
        .execute(params![
            job.id,
            job.agent.as_str(),
            job.name,
            job.spec.tier().as_str(),
            cause.as_str(),
            time(skip.from),
            skip.reason.as_str(),
            many.as_ref().map(|(count, _)| i64::try_from(*count).unwrap_or(i64::MAX)),
            many.map(|(_, until)| until),
            event.map(|event| event.id),
            event.map_or(0, |event| event.depth),
            time(now),
            event.map(|event| event.name.as_str()),
        ])?;
    if inserted > 0
        && let Some(run) = runs::get(tx, tx.last_insert_rowid())?
    {
        announce(tx, now, &run, "run:skipped")?;
    }
    Ok(())
}

/// Queues runs of the jobs that wait for these events.
pub(super) fn triggered(
    tx: &Transaction<'_>,
    world: &World<'_>,
    events: &[Raised],
    tick: &mut Tick,
) -> Result<(), DbError> {
    if events.is_empty() {
        return Ok(());
    }
    let waiting = event_jobs(tx)?;
    for event in events {
        for job in waiting.iter().filter(|job| wants(job, event)) {
            trigger(tx, world, job, event, tick)?;
        }
    }
    Ok(())
}

fn event_jobs(conn: &Connection) -> Result<Vec<JobRow>, DbError> {
    let mut query = conn.prepare_cached("SELECT id FROM job WHERE trigger_type = 'event' AND enabled")?;
    let ids: Vec<i64> = query.query_map([], |r| r.get(0))?.collect::<Result<_, _>>()?;
    Ok(ids
        .into_iter()
        .map(|id| jobs::get(conn, id))
        .collect::<Result<Vec<_>, _>>()?
        .into_iter()
        .flatten()
        .collect())
}

/// Whether any job waits for one of these events.
///
/// # Errors
/// The database fails.
pub fn any_wants(conn: &Connection, events: &[Raised]) -> Result<bool, DbError> {
    Ok(!events.is_empty() && event_jobs(conn)?.iter().any(|job| events.iter().any(|event| wants(job, event))))
}

fn wants(job: &JobRow, event: &Raised) -> bool {
    let TriggerSpec::Event { event: names } = &job.spec.trigger else { return false };
    let named = names.iter().any(|name| match name.strip_suffix('*') {
        Some(beginning) => event.name.starts_with(beginning),
        None => *name == event.name,
    });
    // What an agent made hears what the operator raises, not what goes on in the hive: others' runs are not its own.
    let named =
        named && (!matches!(job.origin, Origin::Agent | Origin::Skill) || !events::is_own(&event.name));
    // What was raised before the job was made, changed or enabled is its past; ids tell, the clock may go back.
    // What goes too deep is told once: the news of that is deeper still, and heard by nobody.
    named && event.job != Some(job.id) && event.depth <= MAX_DEPTH && event.id > job.heard_until
}

fn trigger(
    tx: &Transaction<'_>,
    world: &World<'_>,
    job: &JobRow,
    event: &Raised,
    tick: &mut Tick,
) -> Result<(), DbError> {
    if !world.agents.contains_key(&job.agent) {
        return Ok(());
    }
    let skip = |reason| {
        let skip = Skip { from: event.at, until: event.at, count: 1, reason };
        record_skip(tx, world.now, job, &skip, Cause::Event, Some(event))
    };
    if event.depth >= MAX_DEPTH {
        return skip(SkipReason::Depth);
    }
    if job.backoff_until.is_some_and(|until| event.at < until) {
        return skip(SkipReason::Backoff);
    }
    let active = waiting::active(tx, world.now, job)?;
    let refused = match due::overlap(job.spec.overlap, active) {
        Admission::Refused => Some(SkipReason::Overlap),
        _ if room(tx, job)? == 0 => Some(SkipReason::Crowded),
        Admission::AfterEnding => {
            replace(tx, world.now, job.id, tick)?;
            None
        }
        Admission::Admitted => None,
    };
    if let Some(reason) = refused {
        return skip(reason);
    }
    let new =
        New { cause: Cause::Event, at: event.at, shifted: None, event: Some(event), depth: event.depth };
    insert(tx, world.now, job, &new).map(|_| ())
}

/// Queues a run of a job, as `job` says it, for an event that concerns it alone; none when that was done before.
///
/// # Errors
/// The database fails.
pub fn claim_event(
    tx: &Transaction<'_>,
    job: &JobRow,
    event: &Raised,
    now: Timestamp,
) -> Result<Option<i64>, DbError> {
    insert(
        tx,
        now,
        job,
        &New { cause: Cause::Event, at: event.at, shifted: None, event: Some(event), depth: event.depth },
    )
}

/// Why a job is not run on demand.
#[derive(Debug, thiserror::Error)]
pub enum ManualError {
    /// There is none.
    #[error("there is no job {0}")]
    NoJob(i64),
    /// A run of it is not over, and its policy lets none wait.
    #[error("run {run} of job {job} is not over, and the job's overlap is \"skip\"")]
    Overlap {
        /// The job.
        job: i64,
        /// What is in the way.
        run: i64,
    },
    /// A run of it waits, and its policy lets one wait.
    #[error("run {run} of job {job} waits already, and the job's overlap \"queue\" lets one wait")]
    Waits {
        /// The job.
        job: i64,
        /// What waits.
        run: i64,
    },
    /// Its agent has as many runs waiting as one may have.
    #[error("{MAX_WAITING} runs of agent {0} wait already; cancel some, or wait until they are through")]
    Crowded(AgentId),
    /// The database fails.
    #[error(transparent)]
    Db(#[from] DbError),
}

/// Queues a run because somebody asks, also of a disabled job; answers it. So many events and runs in a row led to the
/// wish.
///
/// # Errors
/// There is no such job; its overlap policy refuses; the database fails.
pub fn claim_manual(
    tx: &Transaction<'_>,
    id: i64,
    depth: u32,
    now: Timestamp,
    tick: &mut Tick,
) -> Result<RunRow, ManualError> {
    let job = jobs::get(tx, id)?.ok_or(ManualError::NoJob(id))?;
    let active = waiting::active(tx, now, &job)?;
    if room(tx, &job)? == 0 {
        return Err(ManualError::Crowded(job.agent));
    }
    match due::overlap(job.spec.overlap, active) {
        Admission::Refused => {
            let waits = job.spec.overlap == Overlap::Queue;
            let run = waiting::in_the_way(tx, id, waits)?.unwrap_or_default();
            return Err(if waits {
                ManualError::Waits { job: id, run }
            } else {
                ManualError::Overlap { job: id, run }
            });
        }
        Admission::AfterEnding => replace(tx, now, id, tick)?,
        Admission::Admitted => {}
    }
    let new = New { cause: Cause::Manual, at: now, shifted: None, event: None, depth };
    let run = insert(tx, now, &job, &new)?.map(|id| runs::get(tx, id)).transpose()?.flatten();
    run.ok_or_else(|| DbError::bad_value("run", "job_id", &id.to_string()).into())
}
