//! When a skill's folder that an agent writes is looked at, and when the agent is told what is wrong with it.
//!
//! Pure: `now` is a parameter. Files arrive in any order, so a folder is looked at once it rests for a moment, the
//! longer the longer things have been arriving; and nothing is called wrong while it may still become right.

use std::time::{Duration, Instant};

/// A folder rests when nothing happened for so long, at least and at most.
const REST: (Duration, Duration) = (Duration::from_millis(20), Duration::from_millis(500));
/// A file that is being written is waited for, as long as something happened within this time.
const OPEN: Duration = Duration::from_secs(3);
/// A folder that never rests is looked at this often.
const AT_MOST: Duration = Duration::from_secs(10);
/// What is wrong is told when nothing happened for so long.
const TELL: Duration = Duration::from_secs(1);

/// One folder that has to be looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    first: Instant,
    last: Instant,
    open: bool,
    not_before: Option<Instant>,
}

impl Pace {
    /// Something happened in it at `now`; `open`: something is still being written.
    #[must_use]
    pub fn touched(now: Instant, open: bool) -> Self {
        Self { first: now, last: now, open, not_before: None }
    }

    /// To be looked at without anything having happened.
    #[must_use]
    pub fn at_once(now: Instant) -> Self {
        let before = now.checked_sub(REST.0).unwrap_or(now);
        Self { first: before, last: before, open: false, not_before: None }
    }

    /// Something happened again.
    pub fn touch(&mut self, now: Instant, open: bool) {
        if self.not_before.take().is_some() {
            // It was looked at meanwhile: what arrives now is a new burst.
            self.first = now;
        }
        self.last = self.last.max(now);
        self.open = open;
    }

    /// When to look.
    #[must_use]
    pub fn due(&self) -> Instant {
        let burst = self.last.saturating_duration_since(self.first);
        let rest = if self.open { OPEN } else { (burst / 2).clamp(REST.0, REST.1) };
        let at = (self.last + rest).min(self.first + AT_MOST);
        self.not_before.map_or(at, |not_before| at.max(not_before))
    }

    /// Whether what is wrong at `now` is told, for it rested long enough.
    #[must_use]
    pub fn may_tell(&self, now: Instant) -> bool {
        now >= self.last + TELL || now >= self.first + AT_MOST
    }

    /// It was looked at and is not right yet: again when it rested long enough to tell, unless something happens.
    pub fn again(&mut self, now: Instant) {
        self.open = false;
        self.not_before = Some((self.last + TELL).max(now + REST.0));
    }

    /// Not before this time, unless something happens.
    pub fn put_off(&mut self, until: Instant) {
        self.not_before = Some(until);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    #[test]
    fn a_folder_written_in_a_moment_is_looked_at_after_a_moment() {
        let start = Instant::now();
        let mut pace = Pace::touched(start, false);
        assert_eq!(pace.due(), start + ms(20));
        pace.touch(start + ms(8), false);
        assert_eq!(pace.due(), start + ms(28));
    }

    #[test]
    fn the_longer_files_arrive_the_longer_a_rest_is_waited_for() {
        let start = Instant::now();
        let mut pace = Pace::touched(start, false);
        pace.touch(start + ms(400), false);
        assert_eq!(pace.due(), start + ms(600));
        pace.touch(start + ms(4_000), false);
        assert_eq!(pace.due(), start + ms(4_500));
    }

    #[test]
    fn a_file_being_written_is_waited_for_but_not_for_ever() {
        let start = Instant::now();
        let mut pace = Pace::touched(start, true);
        assert_eq!(pace.due(), start + ms(3_000));
        pace.touch(start + ms(9_000), true);
        assert_eq!(pace.due(), start + ms(10_000));
        pace.touch(start + ms(9_010), false);
        assert_eq!(pace.due(), start + ms(9_510));
    }

    #[test]
    fn what_is_wrong_is_told_after_a_second_of_rest_and_a_change_is_looked_at_before() {
        let start = Instant::now();
        let mut pace = Pace::touched(start, false);
        let looked = start + ms(20);
        assert!(!pace.may_tell(looked));
        pace.again(looked);
        assert_eq!(pace.due(), start + ms(1_000));
        assert!(pace.may_tell(pace.due()));
        pace.touch(start + ms(700), false);
        assert_eq!(pace.due(), start + ms(720));
        assert!(!pace.may_tell(pace.due()));
    }

    proptest! {
        #[test]
        fn whatever_happens_it_is_looked_at_within_ten_seconds_and_never_amid_a_burst(
            steps in prop::collection::vec((0u64..3_000, any::<bool>()), 1..40)
        ) {
            let start = Instant::now();
            let mut now = start;
            let mut pace = Pace::touched(now, false);
            for (wait, open) in steps {
                now += ms(wait);
                pace.touch(now, open);
                prop_assert!(pace.due() <= start + AT_MOST || pace.due() <= now + REST.1.max(OPEN));
                prop_assert!(pace.due() >= (now + REST.0).min(start + AT_MOST));
            }
        }
    }
}
