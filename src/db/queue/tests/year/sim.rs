//! The year on a real database file: the queue is driven as the supervisor drives it, by what happens and by the times
//! that its looks answer.

use std::collections::{BTreeMap, BTreeSet};

use rusqlite::Connection;
use tempfile::TempDir;

use super::{
    AGENTS, Planned, fate,
    script::{Event, World as Outside},
    *,
};
use crate::db::meta;

/// How long a process that is ended takes to die.
pub const DEATH: i64 = 310;
/// When the supervisor learns what ended while it was away.
const NEWS: i64 = 120;

/// When things happened to runs, in time that really passed.
#[derive(Debug, Default)]
pub struct Log {
    pub created: BTreeMap<i64, i64>,
    pub started: BTreeMap<i64, i64>,
    pub over: BTreeMap<i64, i64>,
    /// Records of times that had not come, because the clock went back, and when they went.
    pub voided: Vec<(RunRow, i64)>,
    /// Whether each run that somebody asked for was queued.
    pub asked: Vec<bool>,
    pub looks: usize,
}

pub struct Sim<'a> {
    dir: TempDir,
    pub conn: Connection,
    outside: Outside,
    real: i64,
    jobs: &'a [Planned],
    pub ids: Vec<i64>,
    pub log: Log,
    /// Processes by the time they end.
    ends: BTreeMap<(i64, i64), RunStatus>,
    /// Runs that have not started.
    waiting: BTreeSet<i64>,
    newest: i64,
    next: Option<Timestamp>,
}

impl<'a> Sim<'a> {
    pub fn begin(jobs: &'a [Planned]) -> Self {
        let memory = std::path::Path::new("/dev/shm");
        let dir = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() }.unwrap();
        drop(crate::db::Db::open(&dir.path().join("skep.db")).unwrap());
        let mut sim = Self {
            conn: open(&dir),
            dir,
            outside: Outside::new(),
            real: 0,
            jobs,
            ids: Vec::new(),
            log: Log::default(),
            ends: BTreeMap::new(),
            waiting: BTreeSet::new(),
            newest: 0,
            next: None,
        };
        let now = sim.now();
        let tx = sim.conn.transaction().unwrap();
        sim.ids = jobs.iter().map(|job| jobs::insert(&tx, &job.new_job(now), now).unwrap().id).collect();
        tx.commit().unwrap();
        sim.look();
        sim
    }

    pub fn live(&mut self, script: &[(i64, Event)], length: i64) {
        let mut script = script.iter().copied().peekable();
        while self.real < length {
            let happens = script.peek().map_or(length, |(at, _)| *at);
            let up = self.outside.up;
            let ends = self.ends.keys().next().map(|(at, _)| *at).filter(|_| up).unwrap_or(length);
            let timer = self.next.map(|at| self.outside.real(at).max(self.real)).filter(|_| up);
            let timer = timer.unwrap_or(length);
            self.real = happens.min(ends).min(timer);
            if self.real == happens {
                if let Some((_, event)) = script.next() {
                    self.happen(event);
                }
            } else if self.real == ends {
                self.end();
            }
            if self.outside.up {
                self.look();
            }
        }
    }

    fn now(&self) -> Timestamp {
        self.outside.clock(self.real)
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Gone(agent) => self.lose(agent),
            Event::Crash(true) => {
                let tx = self.conn.transaction().unwrap();
                look_in(&tx, &self.outside, self.real);
            }
            _ => {}
        }
        self.outside.apply(event, self.real);
        let now = self.now();
        match event {
            Event::Up | Event::Crash(_) => self.start_again(),
            Event::Step(_) => self.realign(),
            Event::Raise => {
                let tx = self.conn.transaction().unwrap();
                events::append(&tx, now, "ring", &json!({})).unwrap();
                tx.commit().unwrap();
            }
            Event::Ask(job) => self.ask(self.ids[job]),
            Event::Enable(job) => self.enable(self.ids[job]),
            _ => {}
        }
    }

    fn start_again(&mut self) {
        self.conn = open(&self.dir);
        let late = self.real + NEWS;
        let missed: Vec<_> = self.ends.range(..(self.real, 0)).map(|(key, status)| (*key, *status)).collect();
        for ((at, run), status) in missed {
            self.ends.remove(&(at, run));
            self.ends.insert((late, run), status);
        }
        self.realign();
    }

    fn realign(&mut self) {
        let now = self.now();
        let skipped = |conn: &Connection| {
            let ahead = "WHERE status = 'skipped' AND scheduled_at > ?1";
            crate::db::runs::rows(conn, ahead, [crate::db::time(now - 1.hour())]).unwrap()
        };
        let before = skipped(&self.conn);
        let tx = self.conn.transaction().unwrap();
        realign(&tx, now).unwrap();
        tx.commit().unwrap();
        let left: BTreeSet<i64> = skipped(&self.conn).iter().map(|run| run.id).collect();
        let gone = before.into_iter().filter(|run| !left.contains(&run.id));
        self.log.voided.extend(gone.map(|run| (run, self.real)));
    }

    fn lose(&mut self, agent: usize) {
        let lost: Vec<_> = self.ends.keys().copied().collect();
        for (at, run) in lost {
            let row = crate::db::runs::get(&self.conn, run).unwrap().unwrap();
            if row.agent.as_str() == AGENTS[agent] {
                self.ends.remove(&(at, run));
                self.ends.insert((self.real + DEATH, run), RunStatus::Lost);
            }
        }
    }

    fn ask(&mut self, job: i64) {
        let now = self.now();
        let mut replaced = Tick::default();
        let tx = self.conn.transaction().unwrap();
        let made = claim_manual(&tx, job, 0, now, &mut replaced).is_ok();
        if made {
            tx.commit().unwrap();
        } else {
            drop(tx);
        }
        self.log.asked.push(made);
        self.kill(&replaced.end);
    }

    fn enable(&mut self, job: i64) {
        let now = self.now();
        let tx = self.conn.transaction().unwrap();
        let mut row = jobs::get(&tx, job).unwrap().unwrap();
        let once = matches!(row.spec.trigger, TriggerSpec::OneShot { .. });
        if !row.enabled && !once {
            (row.enabled, row.disabled_reason, row.anchor) = (true, None, now);
            (row.consecutive_failures, row.backoff_until) = (0, None);
            row.next = row.spec.trigger.compile().unwrap().next(now, now);
            jobs::update(&tx, &row, "job:resumed", now).unwrap();
        }
        tx.commit().unwrap();
    }

    fn kill(&mut self, runs: &[RunRow]) {
        for run in runs {
            let found = self.ends.keys().find(|(_, id)| *id == run.id).copied();
            if let Some((at, id)) = found
                && at > self.real + DEATH
            {
                self.ends.remove(&(at, id));
                self.ends.insert((self.real + DEATH, id), RunStatus::Failed);
            }
        }
    }

    /// A process ended.
    fn end(&mut self) {
        let Some(((_, run), status)) = self.ends.pop_first() else { return };
        let now = self.now();
        let outcome = match status {
            RunStatus::Succeeded => Outcome {
                status,
                exit_code: Some(0),
                result: None,
                error: None,
                warning: None,
                summary: None,
                lasting: false,
            },
            _ => Outcome::without_output(status, "as the year wanted"),
        };
        let tx = self.conn.transaction().unwrap();
        finish(&tx, run, &outcome, None, None, now, &|_, _, _, _| Ok(false)).unwrap().unwrap();
        tx.commit().unwrap();
        self.log.over.insert(run, self.real);
        self.note();
    }

    /// Looks until there is nothing to do now.
    fn look(&mut self) {
        let mut looks = 0;
        loop {
            looks += 1;
            assert!(looks < 1_000, "it looks again and again at {}", self.now());
            let tx = self.conn.transaction().unwrap();
            let done = look_in(&tx, &self.outside, self.real);
            tx.commit().unwrap();
            for run in &done.leased {
                let job = self.jobs.iter().find(|job| job.name == run.job_name).unwrap();
                let (length, status) = fate(job, run.scheduled_at, run.attempt);
                self.ends.insert((self.real + length, run.id), status);
                self.log.started.insert(run.id, self.real);
                self.waiting.remove(&run.id);
            }
            self.note();
            self.kill(&done.end);
            self.next = done.next;
            if done.next.is_none_or(|next| next > self.now()) {
                self.log.looks += looks;
                return;
            }
        }
    }

    /// Notes which runs are new, and which are over that never started.
    fn note(&mut self) {
        let mut query = self.conn.prepare_cached("SELECT id, status FROM run WHERE id > ?1").unwrap();
        let new = query.query_map([self.newest], |r| Ok((r.get::<_, i64>(0)?, r.get::<_, String>(1)?)));
        for (id, status) in new.unwrap().map(Result::unwrap) {
            self.newest = id;
            self.log.created.insert(id, self.real);
            if status == "queued" {
                self.waiting.insert(id);
            }
        }
        let mut query =
            self.conn.prepare_cached("SELECT finished_at IS NOT NULL FROM run WHERE id = ?1").unwrap();
        let (log, real) = (&mut self.log, self.real);
        self.waiting.retain(|id| {
            let over = query.query_row([id], |r| r.get(0)).unwrap();
            if over {
                log.over.insert(*id, real);
            }
            !over
        });
    }
}

fn open(dir: &TempDir) -> Connection {
    let conn = Connection::open(dir.path().join("skep.db")).unwrap();
    // Kills are simulated by rolling back: nobody pulls the plug.
    conn.execute_batch("PRAGMA synchronous = off; PRAGMA foreign_keys = on").unwrap();
    conn.set_prepared_statement_cache_capacity(crate::db::STATEMENTS);
    conn
}

/// One look of the supervisor, in a transaction.
fn look_in(tx: &Transaction<'_>, outside: &Outside, real: i64) -> Tick {
    let cursor = meta::get(tx, "cursor").unwrap().map_or(0, |text| text.parse().unwrap());
    let raised = events::raised(tx, cursor, 10_000).unwrap();
    if let Some(last) = raised.last() {
        meta::set(tx, "cursor", &last.id.to_string()).unwrap();
    }
    let readiness = |n: usize| Readiness {
        alive_since: outside.alive(n),
        container: outside.container[n].then(|| "c".into()),
    };
    let world = World {
        now: outside.clock(real),
        agents: &(0..AGENTS.len()).map(|n| (AGENTS[n].parse().unwrap(), readiness(n))).collect(),
        // Nobody waits for a slot, but for those that make up for missed times.
        limits: Runs { max_running: 1_000, max_running_per_agent: 1_000, ..Runs::default() },
        lease: "year",
        next_proc: &|_| 7,
    };
    tick(tx, &world, &raised).unwrap()
}
