//! Counts for the metrics: of what is there, and of what was told since the last look. None reads the history.

use std::collections::BTreeMap;

use rusqlite::Connection;

use super::error::DbError;

/// What is there now.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Figures {
    /// Jobs that fire by themselves.
    pub jobs_enabled: u64,
    /// Jobs that do not.
    pub jobs_disabled: u64,
    /// Runs that run.
    pub runs_running: u64,
    /// Runs that wait.
    pub runs_queued: u64,
}

/// Counts jobs and the runs that are not over.
///
/// # Errors
/// The database fails.
pub fn now(conn: &Connection) -> Result<Figures, DbError> {
    let jobs = "SELECT coalesce(sum(enabled), 0), coalesce(sum(NOT enabled), 0) FROM live_job";
    let runs = "SELECT coalesce(sum(status = 'running'), 0), coalesce(sum(status = 'queued'), 0) FROM run \
                WHERE status IN ('queued', 'running')";
    let pair = |sql| {
        let mut query = conn.prepare_cached(sql)?;
        query
            .query_row([], |r| Ok((r.get::<_, i64>(0)?.cast_unsigned(), r.get::<_, i64>(1)?.cast_unsigned())))
    };
    let ((jobs_enabled, jobs_disabled), (runs_running, runs_queued)) = (pair(jobs)?, pair(runs)?);
    Ok(Figures { jobs_enabled, jobs_disabled, runs_running, runs_queued })
}

/// How often each event of a run was told after the event with id `after`, and the id of the newest event.
///
/// # Errors
/// The database fails.
pub fn run_events(conn: &Connection, after: i64) -> Result<(BTreeMap<String, u64>, i64), DbError> {
    let mut query = conn.prepare_cached(
        "SELECT name, count(*) FROM event WHERE id > ?1 AND name GLOB 'run:*' GROUP BY name",
    )?;
    let mut found = query.query([after])?;
    let mut counts = BTreeMap::new();
    while let Some(r) = found.next()? {
        counts.insert(r.get(0)?, r.get::<_, i64>(1)?.cast_unsigned());
    }
    let newest = super::events::bounds(conn)?.map_or(0, |(_, newest)| newest);
    Ok((counts, newest))
}
