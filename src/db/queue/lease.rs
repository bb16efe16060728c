//! From queued to running: who may start now.

use std::collections::BTreeMap;

use rusqlite::{Transaction, params};
use serde_json::json;

use super::{
    super::{
        error::DbError,
        jobs,
        runs::{self, RunRow},
        time,
    },
    MAX_CATCH_UP, Tick, World, announce, waiting,
};
use crate::{
    ids::AgentId,
    runs::state::RunStatus,
    scheduler::{
        due::{before, jitter_offset, put_off},
        job::{Overlap, TriggerSpec},
    },
};

/// Rows that are looked at in one query.
const PAGE: usize = 32;
/// A start that is late by less is on time.
const ON_TIME_MS: i64 = 1_000;

struct Slots {
    total: u32,
    by_agent: BTreeMap<AgentId, u32>,
    catch_up: u32,
}

/// Leases what has a slot: what is due now first, then what makes up for missed times.
pub(super) fn lease(tx: &Transaction<'_>, world: &World<'_>, tick: &mut Tick) -> Result<(), DbError> {
    let mut slots = count(tx)?;
    for catch_up in [false, true] {
        while pass(tx, world, catch_up, &mut slots, tick)? {}
    }
    Ok(())
}

fn count(tx: &Transaction<'_>) -> Result<Slots, DbError> {
    let mut slots = Slots { total: 0, by_agent: BTreeMap::new(), catch_up: 0 };
    let mut query = tx.prepare_cached(
        "SELECT agent, cause = 'catch_up', count(*) FROM run WHERE status = 'running' GROUP BY 1, 2",
    )?;
    let mut found = query.query([])?;
    while let Some(r) = found.next()? {
        let (name, catch_up, n): (String, bool, u32) = (r.get(0)?, r.get(1)?, r.get(2)?);
        let agent = name.parse().map_err(|_| DbError::bad_value("run", "agent", &name))?;
        slots.total += n;
        slots.catch_up += if catch_up { n } else { 0 };
        *slots.by_agent.entry(agent).or_default() += n;
    }
    Ok(slots)
}

impl Slots {
    /// Whether a run of this agent fits. What makes up for missed times leaves a slot free, so that it never delays
    /// what is due now.
    fn fit(&self, world: &World<'_>, agent: &AgentId, catch_up: bool) -> bool {
        let limits = &world.limits;
        let used = self.by_agent.get(agent).copied().unwrap_or(0);
        if !catch_up {
            return self.total < limits.max_running && used < limits.max_running_per_agent;
        }
        self.catch_up < MAX_CATCH_UP
            && self.total < limits.max_running.saturating_sub(1).max(1)
            && used < limits.max_running_per_agent.saturating_sub(1).max(1)
    }
}

/// One look at the queue; answers whether another may find more.
fn pass(
    tx: &Transaction<'_>,
    world: &World<'_>,
    catch_up: bool,
    slots: &mut Slots,
    tick: &mut Tick,
) -> Result<bool, DbError> {
    let open = |(id, agent): &(&AgentId, &super::Readiness)| {
        agent.alive_since.is_some() && agent.container.is_some() && slots.fit(world, id, catch_up)
    };
    let agents: Vec<&str> = world.agents.iter().filter(open).map(|(id, _)| id.as_str()).collect();
    if agents.is_empty() {
        return Ok(false);
    }
    // A job whose runs do not overlap lets one run at a time; one that waits for its next attempt is not over.
    let those = format!(
        "AS r INDEXED BY run_queued WHERE status = 'queued' AND due_at <= ?1 AND (cause = 'catch_up') = ?2 \
         AND agent IN (SELECT value FROM json_each(?3)) AND (overlap = 'allow' OR \
           NOT EXISTS (SELECT 1 FROM run AS o WHERE o.job_id = r.job_id AND o.status = 'running') AND \
           NOT EXISTS (SELECT 1 FROM run AS o INDEXED BY run_retry WHERE o.job_id = r.job_id \
                       AND o.status = 'queued' AND o.attempt > 1 AND (r.attempt = 1 OR o.id < r.id))) \
         ORDER BY due_at, id LIMIT {PAGE}"
    );
    let found = runs::rows(tx, &those, params![time(world.now), catch_up, json!(agents).to_string()])?;
    let full = found.len() == PAGE;
    let mut taken = false;
    let mut busy: Vec<i64> = Vec::new();
    for run in found {
        if run.overlap != Overlap::Allow && run.job.is_some_and(|job| busy.contains(&job)) {
            continue;
        }
        if !slots.fit(world, &run.agent, catch_up) {
            continue;
        }
        taken = true;
        if waiting::too_long(&run, world.now) {
            waiting::expire(tx, world.now, run)?;
            continue;
        }
        busy.extend(run.job);
        slots.total += 1;
        slots.catch_up += u32::from(catch_up);
        *slots.by_agent.entry(run.agent.clone()).or_default() += 1;
        tick.leased.push(start(tx, world, run)?);
    }
    Ok(full && taken)
}

fn start(tx: &Transaction<'_>, world: &World<'_>, mut run: RunRow) -> Result<RunRow, DbError> {
    let container = world.agents.get(&run.agent).and_then(|a| a.container.clone()).unwrap_or_default();
    let process = (world.next_proc)(&run.agent);
    tx.prepare_cached(
        "UPDATE run SET status = 'running', lease = ?2, container = ?3, proc_id = ?4, started_at = ?5 WHERE id = ?1",
    )?
    .execute(params![run.id, world.lease, container, process.cast_signed(), time(world.now)])?;
    run.status = RunStatus::Running;
    run.started_at = Some(world.now);
    run.process = Some((container, process));
    announce(tx, world.now, &run, "run:started")?;
    if let (Some(job), Some(spec)) = (run.job, &run.spec)
        && matches!(spec.trigger, TriggerSpec::Interval { .. })
    {
        count_from_start(tx, world, job)?;
    }
    Ok(run)
}

/// An interval counts from the last start: a run that had to wait moves the next fire time. A start on time does not,
/// so that the times do not drift.
fn count_from_start(tx: &Transaction<'_>, world: &World<'_>, id: i64) -> Result<(), DbError> {
    let Some(job) = jobs::get(tx, id)? else { return Ok(()) };
    let (TriggerSpec::Interval { .. }, Ok(trigger)) = (&job.spec.trigger, job.spec.trigger.compile()) else {
        return Ok(());
    };
    let offset = jitter_offset(job.agent.as_str(), &job.name, job.spec.jitter);
    let start = before(world.now, offset);
    let on_time = start.as_millisecond() - job.anchor.as_millisecond() < ON_TIME_MS;
    if on_time || !job.enabled {
        return Ok(());
    }
    tx.prepare_cached("UPDATE job SET anchor_at = ?2 WHERE id = ?1")?.execute(params![id, time(start)])?;
    // Fire times that have come are decided first.
    if job.next.as_ref().is_some_and(|next| put_off(next.at, offset) <= world.now) {
        return Ok(());
    }
    let next = trigger.next(start, start);
    jobs::set_next(tx, id, &job.agent, &job.name, &job.spec, next.as_ref())
}
