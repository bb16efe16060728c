//! Delivers what stands in the outbox: woken by commits and by the time of the next attempt, asleep when it is empty.
//!
//! Several targets are sent to at the same time, each one notice after the other, so that a target that hangs delays
//! nobody else. A row is over only when the target's answer was written down: after a crash in between, the target is
//! sent the same notice with the same id again.

use std::{collections::HashMap, panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures_util::FutureExt;
use jiff::Timestamp;
use tokio::{
    task::{Id, JoinSet},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

use super::{
    send::{LONGEST_WAIT, Outcome, deliver},
    target::{Stamp, Targets},
};
use crate::db::{
    Db, DbError, DbFault,
    outbox::{self, Pending},
};

/// Notices that are sent at the same time.
const AT_ONCE: usize = 8;
/// Nothing is waited for longer without a look, so that a clock that was set or a machine that slept delays little.
const LONGEST_SLEEP: Duration = Duration::from_secs(30);

/// How quickly it goes about it.
#[derive(Debug, Clone)]
pub struct Pace {
    /// Waits after the first, second, … failed attempt; the last holds for all later ones.
    pub waits: Vec<Duration>,
    /// A notice that is older when an attempt fails is given up.
    pub give_up: Duration,
    /// An attempt takes at most so long.
    pub patience: Duration,
    /// After a commit so long nothing is looked at, so that many commits cost one look.
    pub gather: Duration,
    /// When it is stopped, attempts that are under way get so long.
    pub drain: Duration,
    /// A database that fails is asked again after so long.
    pub database: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            waits: [5, 30, 120, 600, 1800, 3600].map(Duration::from_secs).to_vec(),
            give_up: Duration::from_secs(24 * 3600),
            patience: Duration::from_secs(10),
            gather: Duration::from_millis(50),
            drain: Duration::from_secs(1),
            database: Duration::from_secs(5),
        }
    }
}

/// The clock that rows are written by.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// Delivers until it is told to stop. `targets` answers with the targets as they are configured at the time; it is
/// asked only when there is something to send.
pub async fn run(
    db: Db,
    targets: impl Fn() -> Arc<Targets> + Send + Sync,
    clock: Clock,
    pace: Pace,
    stopping: CancellationToken,
) {
    let mut commits = db.commits();
    let desk = Desk { db, clock, pace };
    let mut courier = Courier { desk, under_way: JoinSet::new(), busy: HashMap::new() };
    // The newest notice of the last look, which need not be repeated while nothing is newer; none: look anyway.
    let mut seen = None;
    let mut next = None;
    loop {
        commits.mark_unchanged();
        match courier.look(seen, &targets).await {
            Ok(Some(look)) => (seen, next) = (Some(look.newest), look.next),
            Ok(None) => {}
            Err(error) => {
                tracing::warn!(%error, "notices wait: the outbox cannot be read");
                next = Some(Instant::now() + courier.desk.pace.database);
            }
        }
        tokio::select! {
            () = stopping.cancelled() => break,
            Some(ended) = courier.under_way.join_next_with_id() => {
                let id = ended.map_or_else(|e| e.id(), |(id, ())| id);
                courier.busy.remove(&id);
                seen = None;
            }
            () = tokio::time::sleep_until(next.unwrap_or_else(Instant::now)), if next.is_some() => seen = None,
            Ok(()) = commits.changed() => tokio::time::sleep(courier.desk.pace.gather).await,
        }
    }
    // Whoever answers now need not be sent the same again after the next start.
    let rest = async { while courier.under_way.join_next().await.is_some() {} };
    tokio::time::timeout(courier.desk.pace.drain, rest).await.unwrap_or_default();
}

/// What every attempt needs.
#[derive(Clone)]
struct Desk {
    db: Db,
    clock: Clock,
    pace: Pace,
}

struct Courier {
    desk: Desk,
    under_way: JoinSet<()>,
    /// The target of each task: it gets one notice at a time.
    busy: HashMap<Id, String>,
}

struct Look {
    newest: i64,
    /// When the first of those that wait is to be tried.
    next: Option<Instant>,
}

impl Courier {
    /// Starts what is due, as far as there is room. None: nothing was added since `seen`.
    async fn look(
        &mut self,
        seen: Option<i64>,
        targets: &(impl Fn() -> Arc<Targets> + Sync),
    ) -> Result<Option<Look>, DbError> {
        let busy: Vec<String> = self.busy.values().cloned().collect();
        // One more than there is room for: it tells when to look again.
        let limit = u32::try_from(AT_ONCE - self.under_way.len() + 1).unwrap_or(1);
        let read = move |conn: &_| {
            let newest = outbox::newest(conn)?;
            if seen == Some(newest) {
                return Ok::<_, DbError>(None);
            }
            Ok(Some((newest, outbox::heads(conn, &busy, limit)?)))
        };
        let Some((newest, heads)) = self.desk.db.read(read).await? else {
            return Ok(None);
        };
        let now = (self.desk.clock)();
        let (mut next, mut current) = (None, None);
        for head in heads {
            let wait = self.desk.pace.left(&head, now);
            if !wait.is_zero() {
                next = next.or(Some(Instant::now() + wait.min(LONGEST_SLEEP)));
            } else if self.under_way.len() < AT_ONCE {
                let targets = current.get_or_insert_with(targets).clone();
                self.start(head, targets);
            }
        }
        Ok(Some(Look { newest, next }))
    }

    fn start(&mut self, row: Pending, targets: Arc<Targets>) {
        let (desk, target) = (self.desk.clone(), row.target.clone());
        let task = self.under_way.spawn(async move {
            let attempt = AssertUnwindSafe(desk.attempt(&row, &targets)).catch_unwind().await;
            drop(targets);
            let outcome = attempt.unwrap_or_else(|_| Outcome::Retry {
                reason: "skep failed while it sent this; this is a mistake in skep".to_owned(),
                after: None,
            });
            // The target is left alone until its answer is written down: it would be sent the same again.
            while let Err(error) = desk.note(&row, &outcome).await {
                if error.fault == DbFault::Closed {
                    return;
                }
                tracing::warn!(%error, notice = row.id, "what became of a notice cannot be written down yet");
                tokio::time::sleep(desk.pace.database).await;
            }
        });
        self.busy.insert(task.id(), target);
    }
}

impl Pace {
    /// How long a row is not to be tried. One that waits longer than any row may was written under another clock.
    fn left(&self, row: &Pending, now: Timestamp) -> Duration {
        let left = Duration::try_from(row.next_at.duration_since(now)).unwrap_or_default();
        let longest = self.waits.iter().copied().max().unwrap_or_default().max(LONGEST_WAIT);
        if left > longest { Duration::ZERO } else { left }
    }

    fn wait_after(&self, attempts: u32) -> Duration {
        let last = self.waits.len().saturating_sub(1);
        let step = usize::try_from(attempts).unwrap_or(last).min(last);
        self.waits.get(step).copied().unwrap_or_default()
    }
}

impl Desk {
    async fn attempt(&self, row: &Pending, targets: &Targets) -> Outcome {
        let Some(notice) = &row.notice else {
            return Outcome::GivenUp {
                reason: "it cannot be read: another version of skep wrote it".to_owned(),
            };
        };
        let Some(target) = targets.get(&row.target) else {
            return Outcome::GivenUp { reason: format!("[notify] has no target {:?} any more", row.target) };
        };
        // Ids begin anew with a new database; the time tells them apart.
        let id = format!("msg_{}_{}_{}", notice.hive, row.id, row.created_at.as_millisecond());
        let stamp = Stamp { id, timestamp: (self.clock)().as_second() };
        deliver(target, &targets.guard, notice, &stamp, self.pace.patience).await
    }

    /// Writes down what became of a row.
    async fn note(&self, row: &Pending, outcome: &Outcome) -> Result<(), DbError> {
        let (row, now) = (row.clone(), (self.clock)());
        let (notice, to) = (row.id, row.target.clone());
        let age = Duration::try_from(now.duration_since(row.created_at)).unwrap_or_default();
        match outcome {
            Outcome::Delivered => {
                tracing::debug!(notice, to, "notice delivered");
                self.db.write(move |tx| outbox::delivered(tx, row.id, now)).await
            }
            Outcome::Retry { reason, after } if age < self.pace.give_up => {
                tracing::warn!(notice, to, reason, "notice not delivered yet");
                let wait = self.pace.wait_after(row.attempts).max(after.unwrap_or_default());
                let next = now.saturating_add(wait).unwrap_or(now);
                let reason = reason.clone();
                self.db.write(move |tx| outbox::failed(tx, row.id, &reason, next)).await
            }
            Outcome::Retry { reason, .. } | Outcome::GivenUp { reason } => {
                tracing::error!(notice, to, reason, "notice given up");
                let reason = reason.clone();
                self.db.write(move |tx| outbox::given_up(tx, &row, &reason, now)).await
            }
        }
    }
}
