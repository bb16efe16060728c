//! Beside every server that is up: notices its end, reads its tools anew when it says that they changed, ends it when
//! nobody used it for long, when it is replaced, and when its agent or the hive stops.

use std::{sync::Arc, time::Duration};

use super::{
    keep,
    local::Process,
    plan::Plan,
    slot::{Live, Slot},
    start,
};
use crate::{app::hive::Hive, supervisor::agent::Agent};

/// Idleness is looked at this often at the longest, so that a clock which was moved is noticed.
const LOOK: Duration = Duration::from_secs(5);
/// Between two readings of tools that change; it doubles while they go on changing.
const REREAD: Duration = Duration::from_secs(1);
/// At the most; after as long a time without one it is short again.
const REREAD_MOST: Duration = Duration::from_secs(64);

/// Why a server is ended.
enum End {
    /// By itself.
    Own,
    /// From here.
    Ours,
}

pub(super) fn follow(
    hive: &Arc<Hive>,
    agent: &Arc<Agent>,
    slot: &Arc<Slot>,
    plan: Plan,
    live: Arc<Live>,
    mut process: Option<Process>,
) {
    let (hive, agent, slot) = (hive.clone(), agent.clone(), slot.clone());
    tokio::spawn(async move {
        let end = stay(&hive, &agent, &slot, &plan, &live).await;
        if matches!(end, End::Ours) {
            slot.drop_live(&live);
        }
        // Before its process is ended: it may take leave by itself.
        live.connection.shut();
        let cut = live.connection.cut_off();
        let mut why = match &mut process {
            Some(process) => process.fate(cut.as_ref()).await,
            None => cut.map_or_else(|| "it closed the connection".to_owned(), |fault| fault.to_string()),
        };
        why = hive.world().masker.mask_str(&why).into_owned();
        // What went with its agent did not fail.
        let alone = agent.link.status().connected && hive.running_agent(&agent.id).is_ok();
        if matches!(end, End::Own) && !alone {
            slot.drop_live(&live);
        } else if matches!(end, End::Own) && slot.ended(&live, &why) {
            tracing::warn!(agent = %agent.id, server = plan.key.server, "an MCP server ended: {why}");
            keep::warn(&agent, &plan.key, &why);
        }
        live.fate.send_replace(Some(why));
    });
}

async fn stay(hive: &Arc<Hive>, agent: &Arc<Agent>, slot: &Slot, plan: &Plan, live: &Arc<Live>) -> End {
    let told = live.connection.watch();
    let mut link = agent.link.watch();
    let mut unread = false;
    let mut read = None::<tokio::time::Instant>;
    let mut pause = REREAD;
    loop {
        let left = live.idle().map_or(LOOK, |idle| plan.idle.saturating_sub(idle).min(LOOK));
        let due = read.map_or_else(tokio::time::Instant::now, |at| at + pause);
        tokio::select! {
            () = told.over.cancelled() => return End::Own,
            () = hive.stopping.cancelled() => return End::Ours,
            () = gone(&mut link) => return End::Ours,
            () = told.changed.notified() => unread = true,
            () = told.offers.notified() => hive.servers.forget_offers(&plan.key),
            () = tokio::time::sleep_until(due), if unread => {
                unread = false;
                let quiet = read.is_none_or(|at| at.elapsed() > REREAD_MOST);
                pause = if quiet { REREAD } else { (pause * 2).min(REREAD_MOST) };
                read = Some(tokio::time::Instant::now());
                reread(hive, agent, plan, live).await;
            }
            () = live.released.notified(), if live.retired.is_cancelled() => {}
            () = live.retired.cancelled(), if !live.retired.is_cancelled() => {}
            () = tokio::time::sleep(left.max(Duration::from_millis(10))) => {}
        }
        let limit = if live.retired.is_cancelled() { Duration::ZERO } else { plan.idle };
        if slot.idle(live, limit) {
            return End::Ours;
        }
    }
}

async fn reread(hive: &Arc<Hive>, agent: &Arc<Agent>, plan: &Plan, live: &Live) {
    match start::list(&live.connection, plan.startup).await {
        Ok(tools) => keep::learn(hive, agent, plan, tools).await,
        Err(fault) => {
            let why = format!("it said that its tools changed, and does not tell of them: {fault}");
            keep::warn(agent, &plan.key, &hive.world().masker.mask_str(&why));
        }
    }
}

/// Resolves when the agent's init is away.
async fn gone(link: &mut tokio::sync::watch::Receiver<crate::init::link::LinkStatus>) {
    drop(link.wait_for(|status| !status.connected).await);
}
