//! Samples and what is said of them.

use std::time::{Duration, Instant};

/// Durations of the same thing, done often.
#[derive(Debug, Clone, Default)]
pub struct Samples(Vec<Duration>);

impl Samples {
    /// None yet.
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// All of these.
    pub fn of(mut all: Vec<Duration>) -> Self {
        all.sort();
        Self(all)
    }

    /// Adds one.
    pub fn add(&mut self, one: Duration) {
        self.0.push(one);
        self.0.sort();
    }

    /// Adds the time since `began`.
    pub fn since(&mut self, began: Instant) {
        self.add(began.elapsed());
    }

    /// The value that `percent` of all are not above.
    pub fn percentile(&self, percent: usize) -> Duration {
        let at = (self.0.len() * percent).div_ceil(100).clamp(1, self.0.len().max(1)) - 1;
        self.0.get(at).copied().unwrap_or_default()
    }

    /// The median.
    pub fn median(&self) -> Duration {
        self.percentile(50)
    }

    /// How many.
    pub fn count(&self) -> usize {
        self.0.len()
    }
}

/// For people: `0.85 ms`, `412 ms`, `8.31 s`.
pub fn show(d: Duration) -> String {
    match d.as_secs_f64() {
        s if s < 0.01 => format!("{:.2} ms", s * 1e3),
        s if s < 1.0 => format!("{:.0} ms", s * 1e3),
        s => format!("{s:.2} s"),
    }
}
