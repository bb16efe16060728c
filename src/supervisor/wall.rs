//! Who stands at an agent's door: a process of an agent-tier run is held to that run there (systems.md A13).
//!
//! While no such run goes on this costs nothing. It is looked at once for each connection: whoever hands an open one on
//! gives away only what it has itself.

use std::{os::fd::AsFd, time::Duration};

use super::agent::Agent;
use crate::{
    app::hive::Hive,
    engine::EngineError,
    init::peer::{self, Origin},
};

/// For the init to tell of a tree that it just started, or to dial in again.
const PATIENCE: Duration = Duration::from_secs(5);

/// Whom a connection at an agent's door is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whose {
    /// The agent: none of its agent-tier runs.
    Agents,
    /// A process of this run.
    Runs(i64),
    /// A process of which that cannot be told.
    Unknown,
}

/// Tells whom a connection is of.
pub async fn whose(hive: &Hive, agent: &Agent, connection: &(impl AsFd + Sync)) -> Whose {
    let trees = agent.link.trees();
    if agent.link.status().connected && !trees.hold_any() {
        return Whose::Agents;
    }
    let main = match main_process(hive, agent).await {
        Ok(Some(main)) => main,
        // Nobody is in a container that is not there.
        Ok(None) => return Whose::Agents,
        Err(why) => {
            tracing::warn!(agent = %agent.id, "cannot tell who is at its door: {why}");
            return Whose::Unknown;
        }
    };
    let origin = match connection.as_fd().try_clone_to_owned() {
        Ok(connection) => tokio::task::spawn_blocking(move || peer::origin(&connection, main)).await,
        Err(_) => return Whose::Unknown,
    };
    match origin {
        Ok(Origin::Outside) => Whose::Agents,
        Ok(Origin::Below(runner)) => match trees.below(runner, PATIENCE).await {
            Some(tree) => tree.held_to.map_or(Whose::Agents, Whose::Runs),
            None => Whose::Unknown,
        },
        Ok(Origin::Unknown) | Err(_) => Whose::Unknown,
    }
}

/// The pid of the agent's container's main process; none: it does not run.
async fn main_process(hive: &Hive, agent: &Agent) -> Result<Option<i32>, String> {
    let known = agent.state().pid;
    if known != 0 {
        return Ok(Some(known));
    }
    let name = crate::sandbox::spec::container_name(&hive.name, agent.id.as_str());
    match hive.engine.inspect(&name).await {
        Ok(there) => Ok(Some(there.state.pid).filter(|pid| *pid != 0)),
        Err(EngineError::NotFound(_)) => Ok(None),
        Err(e) => Err(e.to_string()),
    }
}
