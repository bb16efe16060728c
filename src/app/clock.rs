//! The time that jobs and runs go by: the machine's.
//!
//! Fault tests (feature `failpoints`) move it by the seconds that stand in `.skep/clock`.

use jiff::Timestamp;

use crate::paths::HivePaths;

/// Now.
#[cfg(not(feature = "failpoints"))]
pub(super) fn now(_: &HivePaths) -> Timestamp {
    Timestamp::now()
}

/// How far the clock is moved, in seconds.
#[cfg(not(feature = "failpoints"))]
pub(super) fn moved(_: &HivePaths) -> i64 {
    0
}

/// Now, as the test wants it.
#[cfg(feature = "failpoints")]
pub(super) fn now(paths: &HivePaths) -> Timestamp {
    let seconds = moved(paths);
    Timestamp::now().checked_add(jiff::SignedDuration::from_secs(seconds)).unwrap_or(Timestamp::MAX)
}

/// How far the clock is moved, in seconds.
#[cfg(feature = "failpoints")]
pub(super) fn moved(paths: &HivePaths) -> i64 {
    let text = std::fs::read_to_string(paths.state().join("clock")).unwrap_or_default();
    text.trim().parse().unwrap_or(0)
}
