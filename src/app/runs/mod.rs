//! Runs: the driver that starts what is due, what executes them, their output and their history.
//!
//! Rows are in `db::runs` and change through `db::queue`; processes are started through the agent's init, which
//! keeps them and their end while no supervisor is there.

mod action;
pub mod driver;
mod execute;
mod history;
mod lookup;
mod notices;
mod output;
mod retention;
mod summary;
mod timer;

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Mutex, PoisonError},
};

use jiff::Timestamp;

pub(in crate::app) use execute::end;
pub use history::{RunOutputRequest, view};

pub use crate::db::runs::RunFilter;
pub(in crate::app) use output::gap_text;

use crate::{ids::AgentId, wire::ProcId};

/// What a supervisor knows of runs beside their rows.
#[derive(Debug, Default)]
pub struct RunDesk {
    /// Runs that a task of this supervisor takes care of.
    tended: Mutex<HashMap<i64, (AgentId, ProcId)>>,
    halts: Mutex<Halts>,
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
    fn tended(&self) -> std::sync::MutexGuard<'_, HashMap<i64, (AgentId, ProcId)>> {
        self.tended.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is halted.
    pub fn halts(&self) -> Halts {
        self.halts.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set_halts(&self, halts: Halts) {
        *self.halts.lock().unwrap_or_else(PoisonError::into_inner) = halts;
    }
}
