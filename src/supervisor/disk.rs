//! What agents use of the disk: workspace and custom folder, measured again and again.
//!
//! Seldom while there is much room, often near the limit, and never for more than a tenth of the time. What
//! follows from it is the plan's to decide.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use super::{agent::Agent, prepare::Preparation};
use crate::{app::hive::Hive, ids::AgentId, sandbox::usage::disk_usage};

/// Less room than this is filled in a moment.
const ROOM: u64 = 256 << 20;
/// An agent that uses less than half of what it may, and has much room, is measured this often.
const WITH_ROOM: Duration = Duration::from_secs(30);
/// Every other agent, also one that was not measured yet.
const NEAR_LIMIT: Duration = Duration::from_secs(2);
/// Files and folders counted for one agent.
const MAX_COUNTED: u64 = 200_000;

/// Measures until aborted, and wakes the driver when an agent passes its limit, either way.
pub async fn watch(hive: Arc<Hive>) {
    // When an agent was found to have room, and the limit then.
    let mut roomy: BTreeMap<AgentId, (Instant, u64)> = BTreeMap::new();
    loop {
        let began = Instant::now();
        roomy.retain(|_, (found, _)| found.elapsed() < WITH_ROOM);
        for agent in hive.all_agents() {
            let Some(preparation) = agent.preparation() else { continue };
            let limit = preparation.config.disk;
            if roomy.get(&agent.id).is_some_and(|(_, then)| *then == limit) {
                continue;
            }
            let Some((used, complete)) = measure(&agent, &preparation).await else { continue };
            let over = used > limit || !complete;
            if used < limit / 2 && limit - used > ROOM && complete {
                roomy.insert(agent.id.clone(), (Instant::now(), limit));
            }
            let before = agent.state().disk.replace((used, over));
            if before.is_some_and(|(_, was)| was) != over {
                hive.wake.notify_one();
            }
        }
        tokio::time::sleep(NEAR_LIMIT.max(began.elapsed() * 10)).await;
    }
}

/// Bytes, and whether all was counted.
async fn measure(agent: &Agent, preparation: &Preparation) -> Option<(u64, bool)> {
    let workspace = preparation.spec.mounts.iter().find(|m| m.target == "/workspace");
    let folders: Vec<_> =
        workspace.map(|m| m.source.clone()).into_iter().chain([agent.dir.custom()]).collect();
    let measured = tokio::task::spawn_blocking(move || {
        let (mut used, mut complete) = (0u64, true);
        for folder in folders {
            if let Ok(usage) = disk_usage(&folder, MAX_COUNTED) {
                used += usage.bytes;
                complete &= usage.complete;
            }
        }
        (used, complete)
    });
    measured.await.ok()
}
