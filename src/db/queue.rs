//! The queue of runs: claims, leases and ends, each in one transaction with all that follows from it.
//!
//! Everything here is told the time. It starts nothing: who calls `tick` starts what it leased, after the commit.

mod claim;
mod end;
mod lease;
mod realign;
mod waiting;

use std::collections::BTreeMap;

use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension, Transaction, params};
use serde_json::json;

pub(super) use claim::MAX_WAITING;
pub use claim::{ManualError, any_wants, claim_event, claim_manual};
pub use end::{Cancelled, Finished, Tell, cancel, finish, requeue, skip_unstarted};
pub use realign::realign;
pub use waiting::{Obstacle, obstacle};
pub(super) use waiting::{deleted, disabled};

use super::{
    error::DbError,
    events::{self, Raised},
    parse_time,
    runs::RunRow,
    time,
};
use crate::{config::model::Runs, ids::AgentId, wire::ProcId};

/// Runs that make up for missed times at the same time (scheduling.md).
pub const MAX_CATCH_UP: u32 = 4;
/// Events and runs in a row after which events start nothing: something triggers itself.
pub const MAX_DEPTH: u32 = 8;

/// What the queue must know of the world.
pub struct World<'a> {
    /// Now.
    pub now: Timestamp,
    /// Agents of the hive.
    pub agents: &'a BTreeMap<AgentId, Readiness>,
    /// Limits.
    pub limits: Runs,
    /// Who leases.
    pub lease: &'a str,
    /// Gives a process id for a run of an agent.
    pub next_proc: &'a (dyn Fn(&AgentId) -> ProcId + Sync),
}

/// What an agent's runs can do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Readiness {
    /// Fire times before this were missed; none: nothing fires, because the agent is halted or stopped. Whenever
    /// nothing ticked for a while or the clock was stepped, this is the time after.
    pub alive_since: Option<Timestamp>,
    /// The container that runs can be started in; none: they wait.
    pub container: Option<String>,
}

/// What a tick did.
#[derive(Debug, Default)]
pub struct Tick {
    /// Leased: to be started now.
    pub leased: Vec<RunRow>,
    /// Running, and asked to end.
    pub end: Vec<RunRow>,
    /// When the next tick is due; none: nothing is planned.
    pub next: Option<Timestamp>,
}

/// Claims what is due and what `events` trigger, and leases what can start: one transaction, so that a crash leaves
/// either nothing or all of it.
///
/// # Errors
/// The database fails.
pub fn tick(tx: &Transaction<'_>, world: &World<'_>, events: &[Raised]) -> Result<Tick, DbError> {
    let mut tick = Tick::default();
    claim::triggered(tx, world, events, &mut tick)?;
    let more = claim::due(tx, world, &mut tick)?;
    lease::lease(tx, world, &mut tick)?;
    tick.next = if more { Some(world.now) } else { next_time(tx, world)? };
    Ok(tick)
}

/// Whether a tick at `now` would do anything; cheap, and writes nothing.
///
/// # Errors
/// The database fails.
pub fn next_time(conn: &Connection, world: &World<'_>) -> Result<Option<Timestamp>, DbError> {
    let mut firing = conn.prepare_cached(
        "SELECT next_due_at FROM job INDEXED BY job_due WHERE next_due_at IS NOT NULL \
         AND agent IN (SELECT value FROM json_each(?1)) ORDER BY next_due_at LIMIT 1",
    )?;
    let due: Option<String> = firing.query_row([claim::firing(world)], |r| r.get(0)).optional()?;
    let mut later = conn.prepare_cached(
        "SELECT due_at FROM run INDEXED BY run_queued WHERE status = 'queued' AND due_at > ?1 \
         ORDER BY due_at LIMIT 1",
    )?;
    let retry: Option<String> = later.query_row([time(world.now)], |r| r.get(0)).optional()?;
    let times = [due, retry].into_iter().flatten().map(|t| parse_time("due", &t));
    Ok(times.collect::<Result<Vec<_>, _>>()?.into_iter().min())
}

/// Tells of a run's new status, in its transaction.
fn announce(tx: &Transaction<'_>, now: Timestamp, run: &RunRow, event: &str) -> Result<(), DbError> {
    let mut data = json!({
        "run": run.id, "job": run.job, "agent": run.agent, "name": run.job_name, "status": run.status,
        "attempt": run.attempt, "cause": run.cause, "scheduled_at": run.scheduled_at,
    });
    if let Some(fields) = data.as_object_mut() {
        for (key, value) in [("reason", &run.reason), ("error", &run.error), ("summary", &run.summary)] {
            if let Some(value) = value {
                fields.insert(key.to_owned(), value.as_str().into());
            }
        }
        if let Some((count, _)) = run.skipped {
            fields.insert("skipped".to_owned(), count.into());
        }
    }
    events::append_about(tx, now, event, &data, run.job, run.depth + 1).map(|_| ())
}

/// Halts an agent, or the whole hive (systems.md A29); answers whether that is new.
///
/// # Errors
/// The database fails.
pub fn halt(tx: &Transaction<'_>, agent: Option<&AgentId>, now: Timestamp) -> Result<bool, DbError> {
    let name = agent.map_or("", AgentId::as_str);
    let sql = "INSERT INTO halt (agent, since) VALUES (?1, ?2) ON CONFLICT DO NOTHING";
    let new = tx.prepare_cached(sql)?.execute(params![name, time(now)])? > 0;
    if new {
        events::append(tx, now, halt_event(agent, "halted"), &json!({ "agent": agent }))?;
    }
    Ok(new)
}

/// Lifts a halt; the hive's lifts all. Answers whether there was one.
///
/// # Errors
/// The database fails.
pub fn resume(tx: &Transaction<'_>, agent: Option<&AgentId>, now: Timestamp) -> Result<bool, DbError> {
    let sql = "DELETE FROM halt WHERE ?1 IS NULL OR agent = ?1";
    let lifted = tx.prepare_cached(sql)?.execute([agent.map(AgentId::as_str)])? > 0;
    if lifted {
        events::append(tx, now, halt_event(agent, "resumed"), &json!({ "agent": agent }))?;
    }
    Ok(lifted)
}

fn halt_event(agent: Option<&AgentId>, what: &str) -> &'static str {
    match (agent.is_some(), what) {
        (true, "halted") => "agent:halted",
        (true, _) => "agent:resumed",
        (false, "halted") => "hive:halted",
        (false, _) => "hive:resumed",
    }
}

/// What is halted, and since when; the hive as none.
///
/// # Errors
/// The database fails.
pub fn halts(conn: &Connection) -> Result<Vec<(Option<AgentId>, Timestamp)>, DbError> {
    let mut query = conn.prepare_cached("SELECT agent, since FROM halt ORDER BY agent")?;
    let mut found = query.query([])?;
    let mut halts = Vec::new();
    while let Some(r) = found.next()? {
        let name: String = r.get(0)?;
        let agent = match name.as_str() {
            "" => None,
            _ => Some(name.parse().map_err(|_| DbError::bad_value("halt", "agent", &name))?),
        };
        halts.push((agent, parse_time("halt.since", &r.get::<_, String>(1)?)?));
    }
    Ok(halts)
}

#[cfg(test)]
mod tests;
