//! The queue against a reference in plain Rust: whatever happens, in whatever order, and wherever it is killed, both
//! come to the same.

mod check;
mod look;
mod ops;
mod reference;

use proptest::{prelude::*, strategy::BoxedStrategy};
use proptest_state_machine::{ReferenceStateMachine, StateMachineTest, prop_state_machine};
use rusqlite::Connection;
use tempfile::TempDir;

use self::{
    ops::{Op, Plan},
    reference::{Model, Run},
};
use super::*;
use crate::db::{meta, runs};

const AGENTS: [&str; 2] = ["a", "b"];

fn agent(n: usize) -> AgentId {
    AGENTS[n].parse().unwrap()
}

struct Reference;

impl ReferenceStateMachine for Reference {
    type State = Model;
    type Transition = Op;

    fn init_state() -> BoxedStrategy<Model> {
        Just(Model::new()).boxed()
    }

    fn transitions(_: &Model) -> BoxedStrategy<Op> {
        ops::op()
    }

    fn apply(mut model: Model, op: &Op) -> Model {
        model.apply(op);
        model
    }
}

/// A hive's database, driven as the supervisor does it.
struct Hive {
    dir: TempDir,
    conn: Connection,
    /// The reference before the next step.
    before: Model,
    /// The ids of its runs.
    ids: Vec<i64>,
}

impl Hive {
    fn open(dir: &TempDir) -> Connection {
        let conn = crate::db::connect(&dir.path().join("skep.db")).unwrap();
        // Nobody pulls the plug here.
        conn.pragma_update(None, "synchronous", "off").unwrap();
        conn
    }

    fn start(dir: TempDir) -> Self {
        Self { conn: Self::open(&dir), dir, before: Model::new(), ids: Vec::new() }
    }

    /// The process ends; what was not committed never was.
    fn restart(&mut self, now: Timestamp) {
        self.conn = Self::open(&self.dir);
        let tx = self.conn.transaction().unwrap();
        realign(&tx, now).unwrap();
        tx.commit().unwrap();
    }

    /// Does it in a transaction that a kill ends.
    fn begin(&mut self, op: &Op) {
        let (before, ids, now) = (self.before.clone(), self.ids.clone(), self.before.now);
        let tx = self.conn.transaction().unwrap();
        let step = Step { tx: &tx, before: &before, ids: &ids, now, killed: true };
        drop(step.apply(op, &before));
    }

    fn commit(&mut self, op: &Op, after: &Model, now: Timestamp) {
        let tx = self.conn.transaction().unwrap();
        let step = Step { tx: &tx, before: &self.before, ids: &self.ids, now, killed: false };
        if step.apply(op, after).is_ok() {
            tx.commit().unwrap();
        }
    }
}

/// One step, in a transaction.
struct Step<'a> {
    tx: &'a Transaction<'a>,
    before: &'a Model,
    ids: &'a [i64],
    now: Timestamp,
    /// It never ends.
    killed: bool,
}

impl Step<'_> {
    fn apply(&self, op: &Op, world: &Model) -> Result<(), ManualError> {
        let (tx, now) = (self.tx, self.now);
        match op {
            Op::Add(plan) => self.add(plan),
            Op::Edit(n, plan) => self.change(*n, |row| row.spec = plan.spec(now)),
            Op::Pause(n) => self.change(*n, |row| {
                (row.enabled, row.disabled_reason) = (false, Some("paused".into()));
            }),
            Op::Resume(n) => self.change(*n, |row| (row.enabled, row.disabled_reason) = (true, None)),
            Op::Delete(n) => {
                self.before.job(*n).map(|id| jobs::remove(tx, id, now).unwrap());
            }
            Op::Pass(_) | Op::Sleep(_) | Op::Tick => self.tick(world),
            Op::Step(_) => {
                realign(tx, now).unwrap();
                self.tick(world);
            }
            Op::Finish(n, status) => {
                let outcome = Outcome::without_output(*status, "as it was told");
                let end = |id| finish(tx, id, &outcome, None, None, now, &|_, _, _, _| Ok(false)).unwrap();
                self.run(*n, Run::runs).map(|id| end(id).unwrap());
            }
            Op::Requeue(n) => {
                self.run(*n, Run::runs).map(|id| requeue(tx, id, now).unwrap());
            }
            Op::Cancel(n) => {
                self.run(*n, |run| run.waits() || run.runs()).map(|id| cancel(tx, id, now).unwrap());
            }
            Op::Manual(n) => {
                let Some(id) = self.before.job(*n) else { return Ok(()) };
                claim_manual(tx, id, 0, now, &mut Tick::default())?;
            }
            Op::Raise(name) => {
                events::append(tx, now, name, &json!({})).unwrap();
            }
            Op::Halt(n) => {
                halt(tx, n.map(agent).as_ref(), now).unwrap();
            }
            Op::Lift(n) => {
                resume(tx, n.map(agent).as_ref(), now).unwrap();
            }
            Op::Prune(seconds) => {
                runs::prune(tx, now - seconds.seconds(), u32::MAX).unwrap();
            }
            Op::Container(..) | Op::Member(..) | Op::Limits(..) | Op::Crash(_) => {}
        }
        Ok(())
    }

    fn run(&self, n: usize, those: impl Fn(&Run) -> bool) -> Option<i64> {
        self.before.pick(n, those).map(|i| self.ids[i])
    }

    fn add(&self, plan: &Plan) {
        let spec = plan.spec(self.now);
        let new = NewJob {
            agent: agent(plan.agent),
            name: format!("j{}", self.before.made + 1),
            origin: Origin::Api,
            next: spec.trigger.compile().unwrap().next(self.now, self.now),
            spec,
            disabled_reason: None,
            auto_enable: false,
        };
        jobs::insert(self.tx, &new, self.now).unwrap();
    }

    fn change(&self, n: usize, change: impl FnOnce(&mut jobs::JobRow)) {
        let Some(id) = self.before.job(n) else { return };
        let mut row = jobs::get(self.tx, id).unwrap().unwrap();
        change(&mut row);
        (row.anchor, row.consecutive_failures, row.backoff_until) = (self.now, 0, None);
        row.next = row.spec.trigger.compile().unwrap().next(self.now, self.now);
        jobs::update(self.tx, &row, "job:updated", self.now).unwrap();
    }

    /// Looks as the driver does, with the agents and limits of `world`.
    fn tick(&self, world: &Model) {
        let cursor = meta::get(self.tx, "cursor").unwrap().map_or(0, |text| text.parse().unwrap());
        let raised = events::raised(self.tx, cursor, 10_000).unwrap();
        let readiness = |n: usize| Readiness {
            alive_since: world.alive(n),
            container: world.agents[n].container.then(|| "c".into()),
        };
        let members = (0..2).filter(|n| world.agents[*n].member).map(|n| (agent(n), readiness(n)));
        let (max_running, max_running_per_agent) = world.limits;
        let hive = World {
            now: self.now,
            agents: &members.collect(),
            limits: Runs { max_running, max_running_per_agent, ..Runs::default() },
            lease: "test",
            next_proc: &|_| 7,
        };
        let mut done = tick(self.tx, &hive, &raised).unwrap();
        let mut leased = done.leased.len();
        // More had come than one look decides.
        while done.next.is_some_and(|next| next <= self.now) {
            done = tick(self.tx, &hive, &[]).unwrap();
            leased += done.leased.len();
        }
        if let Some(last) = raised.last() {
            meta::set(self.tx, "cursor", &last.id.to_string()).unwrap();
        }
        if self.killed {
            return;
        }
        assert_eq!(leased, world.started, "runs that started");
        assert_eq!(done.next, world.next_look(), "when to look again");
    }
}

impl StateMachineTest for Hive {
    type SystemUnderTest = Self;
    type Reference = Reference;

    fn init_test(_: &Model) -> Self {
        let memory = std::path::Path::new("/dev/shm");
        let dir = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
        Self::start(dir.unwrap())
    }

    fn apply(mut hive: Self, after: &Model, op: Op) -> Self {
        // The reference's clock went on after the step.
        let now = after.now - 1.millisecond();
        if let Op::Crash(during) = &op {
            if let Some(op) = during {
                hive.begin(op);
            }
            hive.restart(now);
        } else {
            let mut world = after.clone();
            world.now = now;
            hive.commit(&op, &world, now);
        }
        hive.ids = check::same(&hive.conn, after);
        check::invariants(&hive.conn, after);
        hive.before = after.clone();
        hive
    }
}

prop_state_machine! {
    #![proptest_config(ProptestConfig {
        // `PROPTEST_CASES` makes them more.
        cases: ProptestConfig::default().cases / 4,
        failure_persistence: None,
        max_shrink_iters: 4_000,
        ..ProptestConfig::default()
    })]

    #[test]
    fn whatever_happens_the_queue_does_as_the_reference(sequential 1..100 => Hive);
}
