//! What the hive holds for skills that agents write: how much each may still register, and a bell.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
    time::Instant,
};

use tokio::sync::Notify;

use super::limit::Allowance;
use crate::ids::AgentId;

/// See the module.
#[derive(Debug, Default)]
pub struct Desk {
    /// An agent's folder was made.
    pub changed: Notify,
    allowances: Mutex<BTreeMap<AgentId, Allowance>>,
}

impl Desk {
    /// Counts one version of an agent's.
    ///
    /// # Errors
    /// When the next one may come.
    pub(super) fn take(&self, agent: &AgentId) -> Result<(), Instant> {
        let mut allowances = self.allowances.lock().unwrap_or_else(PoisonError::into_inner);
        allowances.entry(agent.clone()).or_default().take(Instant::now())
    }

    /// Nothing came of it.
    pub(super) fn give_back(&self, agent: &AgentId) {
        let mut allowances = self.allowances.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(allowance) = allowances.get_mut(agent) {
            allowance.give_back();
        }
    }
}
