//! The states of a run, and what its end does to its job.
//!
//! ```text
//! claim ──► queued ──lease──► running ──► succeeded | failed | timed_out | cancelled | lost
//!    │        │ ▲                │
//!    │        │ └─ never started ┘ (the init that it was handed to proves it)
//!    ▼        ▼
//! skipped   cancelled | skipped (waited too long)
//!
//! running ──► skipped (what is looked at before it said that there is nothing to do)
//! ```

use std::time::Duration;

use jiff::{Timestamp, ToSpan};
use serde::{Deserialize, Serialize};

/// Where a run stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum RunStatus {
    /// Claimed; waits for a slot, its agent, or the end of another run.
    Queued,
    /// Leased: its process is started or about to be.
    Running,
    /// Ended well.
    Succeeded,
    /// Ended with an error.
    Failed,
    /// Ended because its time was up; proven dead.
    TimedOut,
    /// Ended, or never started, because somebody said so.
    Cancelled,
    /// Its time passed without it; `reason` tells why.
    Skipped,
    /// It ran, and its end is not known: the container or the machine went away under it.
    Lost,
}

impl RunStatus {
    /// Every status.
    pub const ALL: [Self; 8] = [
        Self::Queued,
        Self::Running,
        Self::Succeeded,
        Self::Failed,
        Self::TimedOut,
        Self::Cancelled,
        Self::Skipped,
        Self::Lost,
    ];

    /// As it is written.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Running => "running",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::TimedOut => "timed_out",
            Self::Cancelled => "cancelled",
            Self::Skipped => "skipped",
            Self::Lost => "lost",
        }
    }

    /// Reads what [`Self::as_str`] wrote.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|s| s.as_str() == text)
    }

    /// Whether nothing more happens to it.
    #[must_use]
    pub fn is_over(self) -> bool {
        !matches!(self, Self::Queued | Self::Running)
    }

    /// Whether it counts as a failure of its job (scheduling.md: a lost run does not).
    #[must_use]
    pub fn is_failure(self) -> bool {
        matches!(self, Self::Failed | Self::TimedOut)
    }

    /// Whether the job's retries apply to it.
    #[must_use]
    pub fn may_retry(self) -> bool {
        matches!(self, Self::Failed | Self::TimedOut | Self::Lost)
    }
}

/// Why a fire time was skipped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum SkipReason {
    /// It passed while nothing could start (down, halted, asleep), and the job's `missed` does not want it.
    Missed,
    /// It passed longer ago than `missed_within`, or waited longer for its agent.
    Expired,
    /// An earlier run was not over.
    Overlap,
    /// The job waits after failures.
    Backoff,
    /// Its agent had as many runs waiting as one may have.
    Crowded,
    /// So many events and runs in a row led to it that something triggers itself.
    Depth,
    /// What is looked at before it said that there is nothing to do.
    Preflight,
}

impl SkipReason {
    /// As it is written.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Missed => "missed",
            Self::Expired => "expired",
            Self::Overlap => "overlap",
            Self::Backoff => "backoff",
            Self::Crowded => "crowded",
            Self::Depth => "depth",
            Self::Preflight => "preflight",
        }
    }
}

/// What made a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// Its fire time came.
    Schedule,
    /// Its fire time had passed; a policy made up for it.
    CatchUp,
    /// An event was raised.
    Event,
    /// Somebody asked.
    Manual,
}

impl Cause {
    /// As it is written.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Schedule => "schedule",
            Self::CatchUp => "catch_up",
            Self::Event => "event",
            Self::Manual => "manual",
        }
    }

    /// Reads what [`Self::as_str`] wrote.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Schedule, Self::CatchUp, Self::Event, Self::Manual].into_iter().find(|c| c.as_str() == text)
    }
}

/// Failures in a row after which a job is disabled (systems.md A10).
pub const MAX_FAILURES: u32 = 5;

/// How long a job does not start after its nth failure in a row (systems.md A10); none: it is disabled.
#[must_use]
pub fn backoff(failures: u32) -> Option<Duration> {
    const MINUTES: [u64; 4] = [1, 5, 15, 60];
    let n = usize::try_from(failures).ok()?.checked_sub(1)?;
    MINUTES.get(n).map(|m| Duration::from_secs(m * 60))
}

/// What a run's end does to its job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// Nothing changes.
    None,
    /// Failures are forgotten.
    Reset,
    /// So many failures in a row; nothing starts before.
    BackOff(u32, Timestamp),
    /// So many failures in a row: it is disabled.
    Disable(u32),
}

/// What the end of a run that is not retried does to a job that had `failures` in a row.
#[must_use]
pub fn effect(status: RunStatus, failures: u32, now: Timestamp) -> Effect {
    if status == RunStatus::Succeeded {
        return Effect::Reset;
    }
    if !status.is_failure() {
        return Effect::None;
    }
    let failures = failures.saturating_add(1);
    backoff(failures).map_or(Effect::Disable(failures), |pause| {
        Effect::BackOff(failures, now.checked_add(pause).unwrap_or(Timestamp::MAX))
    })
}

/// When the next attempt of a run is due: 10 s, doubled each time, at most 10 minutes.
#[must_use]
pub fn retry_at(attempt: u32, now: Timestamp) -> Timestamp {
    let seconds = 10_i64 << attempt.saturating_sub(1).min(6);
    now.checked_add(seconds.min(600).seconds()).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_status_reads_back_as_it_is_written() {
        for status in RunStatus::ALL {
            assert_eq!(RunStatus::parse(status.as_str()), Some(status));
            assert_eq!(serde_json::to_value(status).unwrap(), status.as_str());
        }
        assert_eq!(RunStatus::parse("done"), None);
    }

    #[test]
    fn failures_in_a_row_back_off_for_1_5_15_and_60_minutes_and_the_fifth_disables() {
        let now: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let minutes = |n: u32| match effect(RunStatus::Failed, n, now) {
            Effect::BackOff(count, until) if count == n + 1 => (until - now).get_seconds() / 60,
            other => panic!("{other:?}"),
        };
        assert_eq!([0, 1, 2, 3].map(minutes), [1, 5, 15, 60]);
        assert_eq!(effect(RunStatus::TimedOut, 4, now), Effect::Disable(5));
        assert_eq!(effect(RunStatus::Succeeded, 4, now), Effect::Reset);
    }

    #[test]
    fn what_is_nobodys_fault_counts_for_nothing() {
        let now = Timestamp::UNIX_EPOCH;
        for status in [RunStatus::Lost, RunStatus::Cancelled, RunStatus::Skipped] {
            assert_eq!(effect(status, 3, now), Effect::None);
        }
    }

    #[test]
    fn retries_wait_longer_each_time() {
        let now = Timestamp::UNIX_EPOCH;
        let waits: Vec<i64> = [1, 2, 3, 7, 60].map(|n| retry_at(n, now).as_second()).to_vec();
        assert_eq!(waits, [10, 20, 40, 600, 600]);
    }
}
