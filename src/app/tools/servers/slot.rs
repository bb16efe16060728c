//! Where one server stands: down, starting, up; who uses it; when it may be started again after it failed.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use crate::{app::clock, mcp::Connection, paths::HivePaths};

/// Pause after a failure, and the most.
const BACKOFF: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));
/// One that lived so long begins anew.
const SETTLED: Duration = Duration::from_secs(60);

/// What a start came to.
pub(super) type Outcome = Result<Arc<Live>, String>;
pub(super) type Coming = watch::Receiver<Option<Outcome>>;

/// A server that shook hands.
pub(super) struct Live {
    pub(super) connection: Connection,
    pub(super) since: Instant,
    /// Why it ended, once it did.
    pub(super) fate: watch::Sender<Option<String>>,
    /// It is to end as soon as nobody uses it.
    pub(super) retired: CancellationToken,
    /// Somebody uses it no more.
    pub(super) released: Notify,
    /// How many use it, and when the last one left: then, and by how much the hive's clock was moved.
    uses: Mutex<(u32, Instant, i64)>,
    paths: HivePaths,
}

impl Live {
    pub(super) fn new(connection: Connection, paths: &HivePaths) -> Arc<Self> {
        Arc::new(Self {
            connection,
            since: Instant::now(),
            fate: watch::Sender::default(),
            retired: CancellationToken::new(),
            released: Notify::new(),
            uses: Mutex::new((0, Instant::now(), clock::moved(paths))),
            paths: paths.clone(),
        })
    }

    fn uses(&self) -> MutexGuard<'_, (u32, Instant, i64)> {
        self.uses.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Uses it; it does not end for idleness meanwhile.
    pub(super) fn enter(self: &Arc<Self>) -> Use {
        self.uses().0 += 1;
        Use(self.clone())
    }

    /// How long nobody used it; none: somebody does.
    pub(super) fn idle(&self) -> Option<Duration> {
        let (uses, last, moved) = *self.uses();
        let further = u64::try_from(clock::moved(&self.paths) - moved).unwrap_or_default();
        (uses == 0).then(|| last.elapsed() + Duration::from_secs(further))
    }
}

/// A use of a server, until it is dropped.
pub(super) struct Use(Arc<Live>);

impl std::ops::Deref for Use {
    type Target = Live;

    fn deref(&self) -> &Live {
        &self.0
    }
}

impl Drop for Use {
    fn drop(&mut self) {
        {
            let mut uses = self.0.uses();
            *uses = (uses.0 - 1, Instant::now(), clock::moved(&self.0.paths));
        }
        self.0.released.notify_one();
    }
}

/// See the module.
#[derive(Default)]
pub(super) struct Slot(Mutex<State>);

#[derive(Default)]
struct State {
    stage: Stage,
    /// Of the plan that it is or was started from.
    hash: u64,
    failures: u32,
    failed: Option<(Instant, String)>,
}

#[derive(Default)]
enum Stage {
    #[default]
    Down,
    Starting(Coming, CancellationToken),
    Up(Arc<Live>),
}

/// What somebody who needs a server does.
pub(super) enum Need {
    /// Use it.
    Use(Use),
    /// Wait for it.
    Wait(Coming),
    /// Start it, and tell the outcome; ended early when the token is cancelled.
    Start(watch::Sender<Option<Outcome>>, Coming, CancellationToken),
    /// Give up.
    Refuse(String),
}

impl Slot {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What to do to have a server of this plan.
    pub(super) fn need(&self, hash: u64) -> Need {
        let mut state = self.lock();
        if state.hash != hash {
            state.replace();
            state.hash = hash;
        }
        match &state.stage {
            Stage::Up(live) if !live.connection.is_over() => return Need::Use(live.enter()),
            Stage::Starting(coming, _) => return Need::Wait(coming.clone()),
            Stage::Up(_) | Stage::Down => {}
        }
        if let Some((until, why)) = &state.failed {
            let left = until.saturating_duration_since(Instant::now());
            if !left.is_zero() {
                let seconds = left.as_secs() + 1;
                return Need::Refuse(format!("{why}; it is not started again for another {seconds} s"));
            }
        }
        let (sender, coming) = watch::channel(None);
        let stop = CancellationToken::new();
        state.stage = Stage::Starting(coming.clone(), stop.clone());
        Need::Start(sender, coming, stop)
    }

    /// A start of this plan came to its end; false: nobody wants it any more.
    pub(super) fn started(&self, hash: u64, outcome: &Outcome) -> bool {
        let mut state = self.lock();
        if state.hash != hash || !matches!(state.stage, Stage::Starting(..)) {
            return false;
        }
        match outcome {
            Ok(live) => state.stage = Stage::Up(live.clone()),
            Err(why) => {
                state.stage = Stage::Down;
                state.failures += 1;
                state.fail(why);
            }
        }
        true
    }

    /// A server ended by itself; false: that concerns nobody any more.
    pub(super) fn ended(&self, live: &Arc<Live>, why: &str) -> bool {
        let mut state = self.lock();
        if !state.is_up(live) {
            return false;
        }
        state.stage = Stage::Down;
        if live.since.elapsed() >= SETTLED {
            state.failures = 0;
            state.failed = None;
            return true;
        }
        // Once is no habit: the next call starts it again.
        if state.failures > 0 {
            state.fail(why);
        }
        state.failures += 1;
        true
    }

    /// Takes a server that nobody used for so long out; true: it is to be ended.
    pub(super) fn idle(&self, live: &Arc<Live>, limit: Duration) -> bool {
        let mut state = self.lock();
        // Whoever comes now waits for this lock, and finds none.
        if live.idle().is_none_or(|idle| idle < limit) {
            return false;
        }
        if state.is_up(live) {
            state.stage = Stage::Down;
        }
        true
    }

    /// Whatever is not of this plan ends; none: all of it.
    pub(super) fn keep_only(&self, hash: Option<u64>) {
        let mut state = self.lock();
        if hash != Some(state.hash) {
            state.replace();
        }
    }

    /// Takes a server out that is to end, whatever its use.
    pub(super) fn drop_live(&self, live: &Arc<Live>) {
        let mut state = self.lock();
        if state.is_up(live) {
            state.stage = Stage::Down;
        }
    }
}

impl State {
    fn is_up(&self, live: &Arc<Live>) -> bool {
        matches!(&self.stage, Stage::Up(up) if Arc::ptr_eq(up, live))
    }

    fn fail(&mut self, why: &str) {
        let pause = BACKOFF.0.saturating_mul(1 << (self.failures.max(1) - 1).min(6)).min(BACKOFF.1);
        self.failed = Some((Instant::now() + pause, why.to_owned()));
    }

    /// Another plan is in force: what is up ends after its last use.
    fn replace(&mut self) {
        match std::mem::take(&mut self.stage) {
            Stage::Up(live) => live.retired.cancel(),
            Stage::Starting(_, stop) => stop.cancel(),
            Stage::Down => {}
        }
        self.hash = 0;
        self.failures = 0;
        self.failed = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(slot: &Slot, hash: u64) -> String {
        match slot.need(hash) {
            Need::Refuse(why) => why,
            _ => panic!("not refused"),
        }
    }

    #[test]
    fn who_comes_during_a_start_waits_for_it_and_after_a_failure_its_pause_grows() {
        let slot = Slot::default();
        assert!(matches!(slot.need(1), Need::Start(..)));
        assert!(matches!(slot.need(1), Need::Wait(_)));
        assert!(slot.started(1, &Err("no disk".to_owned())));
        assert_eq!(refusal(&slot, 1), "no disk; it is not started again for another 1 s");
        let mut state = slot.lock();
        let mut pauses = Vec::new();
        for _ in 0..8 {
            state.failures += 1;
            state.fail("no disk");
            let until = state.failed.as_ref().unwrap().0;
            pauses.push(until.saturating_duration_since(Instant::now()).as_secs_f64().ceil());
        }
        assert_eq!(pauses, [2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0, 60.0]);
    }

    #[test]
    fn another_plan_is_started_at_once_and_ends_the_start_of_the_old_one() {
        let slot = Slot::default();
        let Need::Start(_sender, _coming, stop) = slot.need(1) else { panic!("not started") };
        assert!(matches!(slot.need(2), Need::Start(..)));
        assert!(stop.is_cancelled());
        assert!(!slot.started(1, &Err("too late".to_owned())), "it concerns nobody any more");
        assert!(slot.started(2, &Err("no disk".to_owned())));
        slot.keep_only(Some(2));
        refusal(&slot, 2);
        slot.keep_only(None);
        assert!(matches!(slot.need(2), Need::Start(..)));
    }
}
