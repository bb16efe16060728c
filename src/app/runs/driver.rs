//! The loop that claims what is due, leases what can start, and starts it. It remembers nothing that the database
//! does not say: whatever wakes it, it looks at everything again.

use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
    time::Duration,
};

use jiff::{SignedDuration, Timestamp};

use super::{Halts, execute, lookup, retention, timer::WallTimer};
use crate::{
    app::hive::Hive,
    db::{
        self, DbError,
        events::Raised,
        queue::{Readiness, Tick, World},
        runs::RunRow,
    },
    ids::AgentId,
    kill_point,
    supervisor::state::{Status, Wanted},
};

/// The clock is looked at this often, whatever is planned.
const LOOK: Duration = Duration::from_secs(30);
/// A longer pause between two looks means that the machine slept or its clock was set forward.
const GAP: Duration = Duration::from_secs(90);
/// So long before a fire time it is claimed and made ready, so that at the time nothing is left but to start it.
const LEAD: SignedDuration = SignedDuration::from_millis(5);
/// After a database error.
const RETRY: Duration = Duration::from_secs(1);
/// Events that are looked at in one go.
const EVENTS: usize = 100;
/// Where the last event that was looked at is kept.
const CURSOR: &str = "event_cursor";

struct Driver {
    hive: Arc<Hive>,
    timer: WallTimer,
    /// Fire times before this were missed by everybody.
    alive_since: Timestamp,
    /// Since when each agent's jobs fire.
    firing: BTreeMap<AgentId, Timestamp>,
    /// The last look.
    last: Timestamp,
    /// The fire time that is waited for.
    planned: Option<Timestamp>,
    /// The last event that was looked at.
    cursor: i64,
    /// Links whose left-overs were looked at.
    swept: BTreeMap<AgentId, u64>,
    lease: String,
}

/// Drives runs until the hive stops.
pub async fn run(hive: Arc<Hive>) {
    let timer = match WallTimer::new() {
        Ok(timer) => timer,
        Err(e) => {
            tracing::error!(error = %e, "no timer: jobs do not run");
            return;
        }
    };
    let now = hive.now();
    let lease = format!("{}-{}", std::process::id(), now.as_millisecond());
    let mut driver = Driver {
        timer,
        alive_since: now,
        firing: BTreeMap::new(),
        last: now,
        planned: None,
        cursor: 0,
        swept: BTreeMap::new(),
        lease,
        hive,
    };
    while let Err(e) = driver.begin().await {
        tracing::error!(error = %e, "cannot read jobs and runs; trying again");
        tokio::time::sleep(RETRY).await;
    }
    tokio::spawn(retention::keep_bounds(driver.hive.clone()));
    driver.drive().await;
}

impl Driver {
    /// Takes up what an earlier supervisor left.
    async fn begin(&mut self) -> Result<(), DbError> {
        let (halts, running, cursor, newest) = self
            .hive
            .db
            .read(|conn| {
                let newest = db::events::bounds(conn)?.map_or(0, |(_, newest)| newest);
                let cursor = db::meta::get(conn, CURSOR)?.and_then(|text| text.parse::<i64>().ok());
                Ok::<_, DbError>((db::queue::halts(conn)?, db::runs::running(conn)?, cursor, newest))
            })
            .await?;
        self.hive.runs.set_halts(Halts::from_rows(halts));
        self.cursor = cursor.unwrap_or(newest);
        self.realign().await?;
        for run in running {
            execute::tend(&self.hive, run, None);
        }
        Ok(())
    }

    async fn drive(&mut self) {
        let mut commits = self.hive.db.commits();
        let stopping = self.hive.stopping.clone();
        let mut events = Vec::new();
        loop {
            let mut set = match self.look(std::mem::take(&mut events)).await {
                Ok(set) => set,
                Err(e) => {
                    tracing::error!(error = %e, "cannot look for due jobs; trying again");
                    tokio::time::sleep(RETRY).await;
                    continue;
                }
            };
            let until = self.planned.and_then(|next| next.checked_sub(LEAD).ok()).unwrap_or(Timestamp::MAX);
            let until = self.by_machine(until);
            let wake = async {
                // Most commits raise nothing that a job waits for: they only cost a look at the new events.
                loop {
                    let set = tokio::select! {
                        set = self.timer.until(until, LOOK) => set,
                        () = self.hive.due.notified() => false,
                        _ = commits.changed() => {
                            events = self.wanted_events().await;
                            if events.is_empty() { continue }
                            false
                        }
                    };
                    return set;
                }
            };
            set |= tokio::select! {
                set = wake => set,
                () = stopping.cancelled() => return,
            };
            if set && let Err(e) = self.clock_was_set().await {
                tracing::error!(error = %e, "cannot look at jobs after the clock was set");
            }
        }
    }

    /// The machine's time for one of the hive's, which tests may have moved.
    fn by_machine(&self, at: Timestamp) -> Timestamp {
        let moved = jiff::SignedDuration::from_secs(crate::app::clock::moved(&self.hive.paths));
        at.checked_sub(moved).unwrap_or(at)
    }

    /// Claims and starts what can be, and plans the next look; answers whether the clock was set meanwhile.
    async fn look(&mut self, events: Vec<Raised>) -> Result<bool, DbError> {
        let now = self.hive.now();
        self.notice_gaps(now).await?;
        let agents = self.readiness(now);
        self.sweep_links().await?;
        let soon = |next: &Timestamp| *next > now && next.duration_since(now) <= LEAD;
        let due = self.planned.filter(soon);
        let tick = self.tick(due.unwrap_or(now), agents, events).await?;
        self.planned = tick.next;
        kill_point!("run.leased");
        let not_before = self.by_machine(due.unwrap_or(now));
        for run in tick.leased {
            execute::tend(&self.hive, run, Some(not_before));
        }
        for run in &tick.end {
            execute::end(&self.hive, run);
        }
        let mut set = false;
        if let Some(due) = due {
            set = self.timer.until(self.by_machine(due), LEAD.unsigned_abs()).await;
        }
        Ok(set)
    }

    async fn tick(
        &self,
        now: Timestamp,
        agents: BTreeMap<AgentId, Readiness>,
        events: Vec<Raised>,
    ) -> Result<Tick, DbError> {
        let work = move |tx: &db::Tx<'_>, world: &World<'_>| {
            let tick = db::queue::tick(tx, world, &events)?;
            if let Some(last) = events.last() {
                db::meta::set(tx, CURSOR, &last.id.to_string())?;
            }
            kill_point!("run.claimed");
            Ok(tick)
        };
        self.write(now, agents, work).await
    }

    /// A transaction of the queue on the world as it is.
    async fn write<T: Send + 'static>(
        &self,
        now: Timestamp,
        agents: BTreeMap<AgentId, Readiness>,
        work: impl FnOnce(&db::Tx<'_>, &World<'_>) -> Result<T, DbError> + Send + 'static,
    ) -> Result<T, DbError> {
        let limits = self.hive.world().config.runs;
        let (hive, lease) = (self.hive.clone(), self.lease.clone());
        let in_world = move |tx: &db::Tx<'_>| {
            let next_proc = |id: &AgentId| hive.find_agent(id).map_or(0, |agent| agent.link.next_id());
            work(tx, &World { now, agents: &agents, limits, lease: &lease, next_proc: &next_proc })
        };
        self.hive.db.write(in_world).await
    }

    /// The new events, when a job waits for one of them.
    async fn wanted_events(&mut self) -> Vec<Raised> {
        loop {
            let cursor = self.cursor;
            let read = self.hive.db.read(move |conn| {
                let events = db::events::raised(conn, cursor, EVENTS)?;
                let wanted = db::queue::any_wants(conn, &events)?;
                Ok::<_, DbError>((events, wanted))
            });
            let (events, wanted) = match read.await {
                Ok(read) => read,
                Err(e) => {
                    tracing::error!(error = %e, "cannot read events");
                    return Vec::new();
                }
            };
            let full = events.len() == EVENTS;
            self.cursor = events.last().map_or(cursor, |event| event.id);
            if wanted {
                // What is left is looked at after the commit that these lead to.
                return events;
            }
            if !full {
                return Vec::new();
            }
        }
    }

    /// What each agent's runs can do now.
    fn readiness(&mut self, now: Timestamp) -> BTreeMap<AgentId, Readiness> {
        let halts = self.hive.runs.halts();
        let world = self.hive.world();
        let mut all = BTreeMap::new();
        for id in world.config.agents.keys() {
            let Ok(agent) = self.hive.find_agent(id) else { continue };
            let wanted = agent.state().wanted == Some(Wanted::Running);
            let fires = wanted && !halts.holds(id);
            let alive_since = if fires {
                Some(*self.firing.entry(id.clone()).or_insert(now))
            } else {
                self.firing.remove(id);
                None
            };
            let ready = agent.status() == Status::Running && agent.preparation().is_some();
            let container = if ready { agent.state().container.clone() } else { None };
            let alive_since = alive_since.map(|since| since.max(self.alive_since));
            all.insert(id.clone(), Readiness { alive_since, container });
        }
        all
    }

    /// The machine slept, or its clock was set.
    async fn notice_gaps(&mut self, now: Timestamp) -> Result<(), DbError> {
        let passed = now.duration_since(self.last);
        if passed > jiff::SignedDuration::try_from(GAP).unwrap_or(jiff::SignedDuration::MAX) {
            tracing::info!(seconds = passed.as_secs(), "time passed unseen: fire times in it were missed");
            self.alive_since = now;
        }
        let back = passed.is_negative();
        self.last = now;
        if back {
            self.clock_was_set().await?;
        }
        Ok(())
    }

    async fn clock_was_set(&mut self) -> Result<(), DbError> {
        let now = self.hive.now();
        self.alive_since = self.alive_since.min(now);
        for since in self.firing.values_mut() {
            *since = (*since).min(now);
        }
        self.realign().await
    }

    /// After the clock went back, jobs wait for no time that is further ahead than their schedule says.
    async fn realign(&self) -> Result<(), DbError> {
        let now = self.hive.now();
        let moved = self.hive.db.write(move |tx| db::queue::realign(tx, now)).await?;
        if moved > 0 {
            tracing::info!(
                jobs = moved,
                "the clock was set back: jobs no longer wait for fire times beyond their schedule"
            );
        }
        Ok(())
    }

    /// Ends and forgets what the init of a new link still has of runs that are over.
    async fn sweep_links(&mut self) -> Result<(), DbError> {
        let mut fresh = Vec::new();
        for agent in self.hive.all_agents() {
            let status = agent.link.status();
            if status.connected
                && self.swept.insert(agent.id.clone(), status.generation) != Some(status.generation)
            {
                fresh.push(agent);
            }
        }
        if fresh.is_empty() {
            return Ok(());
        }
        let running: Vec<RunRow> = self.hive.db.read(db::runs::running).await?;
        let known: HashSet<_> = running.iter().filter_map(|run| Some(run.process.as_ref()?.1)).collect();
        for agent in fresh {
            lookup::drop_leftovers(&agent, &known);
        }
        Ok(())
    }
}

impl Halts {
    pub(super) fn from_rows(rows: Vec<(Option<AgentId>, Timestamp)>) -> Self {
        let mut halts = Self::default();
        for (agent, since) in rows {
            match agent {
                Some(agent) => {
                    halts.agents.insert(agent, since);
                }
                None => halts.hive = Some(since),
            }
        }
        halts
    }
}
