//! How many versions one agent may register: a burst, and then a steady rate.
//!
//! Pure: `now` is a parameter. What is over the limit waits; nothing is lost.

use std::time::{Duration, Instant};

/// Versions that an agent may register at once.
pub const BURST: u32 = 60;
/// Versions a minute that it may register for ever.
pub const A_MINUTE: u32 = 30;
/// Skills that one agent may own.
pub const SKILLS: usize = 1_000;

/// What is left of one agent's burst.
#[derive(Debug, Clone, Copy)]
pub struct Allowance {
    left: f64,
    at: Option<Instant>,
}

impl Default for Allowance {
    fn default() -> Self {
        Self { left: f64::from(BURST), at: None }
    }
}

impl Allowance {
    fn refill(&mut self, now: Instant) {
        let elapsed = self.at.map_or(Duration::ZERO, |at| now.saturating_duration_since(at));
        let gained = elapsed.as_secs_f64() * f64::from(A_MINUTE) / 60.0;
        self.left = (self.left + gained).min(f64::from(BURST));
        self.at = Some(now);
    }

    /// Takes one version.
    ///
    /// # Errors
    /// When the next one may come.
    pub fn take(&mut self, now: Instant) -> Result<(), Instant> {
        self.refill(now);
        if self.left >= 1.0 {
            self.left -= 1.0;
            return Ok(());
        }
        let missing = (1.0 - self.left) * 60.0 / f64::from(A_MINUTE);
        Err(now + Duration::from_secs_f64(missing) + Duration::from_millis(1))
    }

    /// Gives one back: nothing came of it.
    pub fn give_back(&mut self) {
        self.left = (self.left + 1.0).min(f64::from(BURST));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_is_let_through_then_one_every_two_seconds() {
        let start = Instant::now();
        let mut allowance = Allowance::default();
        for _ in 0..BURST {
            allowance.take(start).unwrap();
        }
        let next = allowance.take(start).unwrap_err();
        assert!(next > start + Duration::from_millis(1_900) && next < start + Duration::from_millis(2_100));
        allowance.take(next).unwrap();
        assert!(allowance.take(next).is_err());
        allowance.give_back();
        allowance.take(next).unwrap();
        let hour = next + Duration::from_secs(3_600);
        assert_eq!((0..1_000).filter(|_| allowance.take(hour).is_ok()).count(), BURST as usize);
    }
}
