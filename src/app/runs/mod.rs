//! Runs: the driver that starts what is due, what executes them, their output and their history.
//!
//! Rows are in `db::runs` and change through `db::queue`; processes are started through the agent's init, which
//! keeps them and their end while no supervisor is there.

mod act;
pub(in crate::app) mod action;
pub mod driver;
mod execute;
mod history;
mod lookup;
mod notices;
mod output;
mod preflight;
mod retention;
mod steps;
mod summary;
mod timer;

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Mutex, PoisonError},
};

use jiff::Timestamp;

pub(in crate::app) use execute::end;
pub(in crate::app) use history::obstructed;
pub use history::{RunOutputRequest, view};

pub use crate::db::runs::RunFilter;
pub(in crate::app) use output::{gap_text, masked};

use crate::{db::runs::RunRow, ids::AgentId, scheduler::job::Tier};

/// What a supervisor knows of runs beside their rows.
#[derive(Debug, Default)]
pub struct RunDesk {
    /// Runs that a task of this supervisor takes care of.
    tended: Mutex<HashMap<i64, Tended>>,
    halts: Mutex<Halts>,
}

/// A run that a task takes care of.
#[derive(Debug)]
struct Tended {
    agent: AgentId,
    tier: Tier,
    calls: steps::Calls,
    /// No other agent-tier run of its agent ran at any time of it.
    alone: bool,
    /// It ended; that is being recorded.
    ended: bool,
}

/// What is halted (systems.md A29), as the database says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Halts {
    /// Since when the whole hive is.
    pub hive: Option<Timestamp>,
    /// Since when an agent is.
    pub agents: BTreeMap<AgentId, Timestamp>,
}

impl Halts {
    /// Whether nothing new starts for an agent.
    #[must_use]
    pub fn holds(&self, agent: &AgentId) -> bool {
        self.hive.is_some() || self.agents.contains_key(agent)
    }
}

impl RunDesk {
    fn tended(&self) -> std::sync::MutexGuard<'_, HashMap<i64, Tended>> {
        self.tended.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a run into care; false when it is already.
    fn take(&self, run: &RunRow) -> bool {
        let mut all = self.tended();
        if all.contains_key(&run.id) {
            return false;
        }
        let mut alone = true;
        if run.tier == Tier::Agent {
            let going_on = |o: &&mut Tended| o.tier == Tier::Agent && o.agent == run.agent && !o.ended;
            for other in all.values_mut().filter(going_on) {
                (alone, other.alone) = (false, false);
            }
        }
        let (agent, calls) = (run.agent.clone(), steps::Calls::default());
        all.insert(run.id, Tended { agent, tier: run.tier, calls, alone, ended: false });
        true
    }

    /// The tool calls of a run in care.
    fn calls(&self, id: i64) -> Option<steps::Calls> {
        self.tended().get(&id).map(|tended| tended.calls.clone())
    }

    /// Whether what lies in the workspace can only be of this agent-tier run, as far as runs go.
    fn is_alone(&self, id: i64) -> bool {
        self.tended().get(&id).is_some_and(|tended| tended.alone)
    }

    /// From now on others are not beside it.
    fn has_ended(&self, id: i64) {
        if let Some(tended) = self.tended().get_mut(&id) {
            tended.ended = true;
        }
    }

    /// What is halted.
    pub fn halts(&self) -> Halts {
        self.halts.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set_halts(&self, halts: Halts) {
        *self.halts.lock().unwrap_or_else(PoisonError::into_inner) = halts;
    }
}
