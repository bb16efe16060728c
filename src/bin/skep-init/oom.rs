//! Whose end was for memory. The kernel counts its kills in a container and does not say whom it killed: an end that
//! nobody here ordered counts, if it comes shortly after a kill that explains no other end yet.

use std::{
    fs::{self, File},
    io::{Read, Seek},
    sync::{Mutex, MutexGuard, PoisonError},
};

use crate::sys;

/// cgroup v2, v1.
const FILES: [&str; 2] = ["/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control"];
/// An end that comes later than this after a kill has another cause.
const MOMENT_MS: u64 = 5_000;

/// The kills of this container so far.
#[derive(Debug, Default)]
struct Kills {
    /// How many are known.
    count: u64,
    /// When the last one came to light.
    at: u64,
    /// How many of them explain an end.
    explained: u64,
}

static KILLS: Mutex<Kills> = Mutex::new(Kills { count: 0, at: 0, explained: 0 });

fn kills() -> MutexGuard<'static, Kills> {
    KILLS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The kills before a process began.
pub fn before() -> u64 {
    let mut kills = kills();
    kills.note(now(), sys::monotonic_ms());
    kills.count
}

/// Whether a process that began after `before` kills, and that failed without an order to end, did so for memory.
pub fn explains(before: u64) -> bool {
    let (mut kills, at) = (kills(), sys::monotonic_ms());
    kills.note(now(), at);
    kills.explain(before, at)
}

/// The kernel's counter, to be polled for changes (`POLLPRI`); none where it cannot be.
pub fn watched() -> Option<File> {
    let mut file = File::open(FILES[0]).ok()?;
    take_note(&mut file);
    Some(file)
}

/// Reads what changed, so that the next change wakes again.
pub fn take_note(file: &mut File) {
    let mut text = String::new();
    if file.rewind().and_then(|()| file.read_to_string(&mut text)).is_ok() {
        kills().note(counted(&text).unwrap_or(0), sys::monotonic_ms());
    }
}

fn now() -> u64 {
    FILES.iter().filter_map(|path| fs::read_to_string(path).ok()).find_map(|text| counted(&text)).unwrap_or(0)
}

fn counted(text: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse().ok())
}

impl Kills {
    fn note(&mut self, count: u64, at: u64) {
        if count > self.count {
            (self.count, self.at) = (count, at);
        }
    }

    fn explain(&mut self, before: u64, at: u64) -> bool {
        let explained = self.explained.max(before);
        let does = self.count > explained && at.saturating_sub(self.at) <= MOMENT_MS;
        if does {
            self.explained = explained + 1;
        }
        does
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kill_explains_one_end_that_follows_soon() {
        let mut kills = Kills::default();
        assert!(!kills.explain(0, 1_000));
        kills.note(1, 10_000);
        assert!(!kills.explain(1, 10_001), "it began after the kill");
        assert!(kills.explain(0, 10_100));
        assert!(!kills.explain(0, 10_200), "a server that ends by itself right after");
        kills.note(2, 20_000);
        assert!(!kills.explain(0, 20_001 + MOMENT_MS), "a child was killed, long ago");
        kills.note(4, 60_000);
        kills.note(4, 90_000);
        assert!(!kills.explain(0, 90_000), "it came to light before");
        kills.note(5, 91_000);
        assert!(kills.explain(2, 91_000));
    }

    #[test]
    fn both_forms_of_the_counter_are_read() {
        assert_eq!(counted("low 0\noom 3\noom_kill 2\noom_group_kill 0\n"), Some(2));
        assert_eq!(counted("oom_kill_disable 0\nunder_oom 0\noom_kill 7\n"), Some(7));
        assert_eq!(counted("low 0\n"), None);
    }
}
