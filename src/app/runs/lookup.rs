//! What became of a run whose process was handed to an init that then went out of sight. Nothing is assumed: the init
//! or the engine proves it.

use std::{collections::HashSet, sync::Arc, time::Duration};

use crate::{
    app::hive::Hive,
    db::runs::RunRow,
    supervisor::agent::Agent,
    wire::{Exit, ProcId},
};

/// How often the engine's listing is looked at while no init is connected.
const PAUSE: Duration = Duration::from_millis(500);

/// What is known.
#[derive(Debug, Clone, Copy)]
pub(super) enum Found {
    /// It ended so.
    Ended(Exit),
    /// The init that it was handed to never saw it.
    NeverStarted,
    /// The container is gone, and it with it.
    Gone,
}

/// Waits until it is known.
pub(super) async fn look_into(hive: &Hive, run: &RunRow) -> Found {
    let Some((container, id)) = &run.process else { return Found::NeverStarted };
    loop {
        let Ok(agent) = hive.find_agent(&run.agent) else { return Found::Gone };
        let mut status = agent.link.watch();
        let connected = status.borrow_and_update().connected;
        let (seen, now) = {
            let state = agent.state();
            (state.seen, state.container.clone())
        };
        if (connected || seen) && now.as_ref() != Some(container) {
            return Found::Gone;
        }
        if connected {
            let Some(exit) = agent.link.adopt(*id) else { return Found::NeverStarted };
            if run.ending.is_some() {
                agent.link.end(*id, super::action::grace(&agent));
            }
            if let Ok(exit) = exit.await {
                return Found::Ended(exit);
            }
            continue;
        }
        tokio::select! {
            _ = status.changed() => {}
            () = tokio::time::sleep(PAUSE) => {}
        }
    }
}

/// Ends and forgets what an init keeps of runs that are over: a supervisor died between recording and telling it.
pub(super) fn drop_leftovers(agent: &Arc<Agent>, known: &HashSet<ProcId>) {
    let kept = agent.link.kept().into_iter().filter(|id| !known.contains(id)).collect::<Vec<_>>();
    for id in kept {
        let Some(exit) = agent.link.adopt(id) else { continue };
        agent.link.end(id, Duration::ZERO);
        let agent = agent.clone();
        tokio::spawn(async move {
            if exit.await.is_ok() {
                agent.link.forget(id);
            }
        });
    }
}
