//! How much is measured: smaller by environment, for a quick try.

/// A size from the environment.
pub fn scale(name: &str, default: usize) -> usize {
    std::env::var(name).ok().and_then(|v| v.parse().ok()).filter(|n| *n > 0).unwrap_or(default)
}

/// Sizes of a run.
#[derive(Debug, Clone, Copy)]
pub struct Load {
    /// Agents of the largest hive (`SKEP_BENCH_AGENTS`); half of them start at once, a quarter is the middle size.
    pub agents: usize,
    /// Starts of an agent, and of each peer's container (`SKEP_BENCH_STARTS`).
    pub starts: usize,
    /// Processes in an agent (`SKEP_BENCH_EXECS`); a fifth as many by the peer.
    pub execs: usize,
    /// Restarts of the supervisor (`SKEP_BENCH_RESTARTS`).
    pub restarts: usize,
    /// Seconds of doing nothing (`SKEP_BENCH_IDLE`); enough for each of the supervisor's sweeps.
    pub idle: usize,
    /// Containers that start at a time in the peer's loop.
    pub at_once: usize,
}

impl Load {
    /// From the environment.
    pub fn read() -> Self {
        Self {
            agents: scale("SKEP_BENCH_AGENTS", 200).max(4),
            starts: scale("SKEP_BENCH_STARTS", 20),
            execs: scale("SKEP_BENCH_EXECS", 250),
            restarts: scale("SKEP_BENCH_RESTARTS", 20),
            idle: scale("SKEP_BENCH_IDLE", 65),
            at_once: 2 * std::thread::available_parallelism().map_or(2, usize::from),
        }
    }
}
