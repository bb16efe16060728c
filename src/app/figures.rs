//! Figures of jobs and runs for the metrics. The history is not read: what ended is counted from the events that
//! tell of it, as they come.

use super::{Result, hive::Hive};
pub use crate::db::figures::Figures;
use crate::{db, runs::state::RunStatus};

/// Jobs and runs in numbers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct JobFigures {
    /// What is there now.
    pub now: Figures,
    /// Runs that are over, by status; only ever more while the supervisor runs.
    pub ended: Vec<(RunStatus, u64)>,
}

/// Runs that were counted, and the last event that was looked at.
#[derive(Debug, Default)]
pub struct EndedRuns {
    counts: [u64; RunStatus::ALL.len()],
    position: i64,
}

impl Hive {
    /// Counts jobs and runs.
    ///
    /// # Errors
    /// The database fails.
    pub async fn job_figures(&self) -> Result<JobFigures> {
        // Held across the read: two at once would count the same events twice.
        let mut ended = self.ended.lock().await;
        let position = ended.position;
        let read = self.db.read(move |conn| {
            Ok::<_, db::DbError>((db::figures::now(conn)?, db::figures::run_events(conn, position)?))
        });
        let (now, (events, newest)) = read.await?;
        ended.position = newest;
        for (status, count) in RunStatus::ALL.iter().zip(&mut ended.counts) {
            *count += events.get(&format!("run:{}", status.as_str())).copied().unwrap_or(0);
        }
        let over = RunStatus::ALL.into_iter().zip(ended.counts).filter(|(status, _)| status.is_over());
        Ok(JobFigures { now, ended: over.collect() })
    }
}
