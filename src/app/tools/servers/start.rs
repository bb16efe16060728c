//! From a plan to a server that shook hands and told of its tools. Whoever needs one meanwhile waits for the same start.

use std::{sync::Arc, time::Duration};

use tokio_util::sync::CancellationToken;

use super::{
    keep,
    local::{self, Process},
    plan::{Plan, Way},
    slot::{Live, Need, Outcome, Slot, Use},
    watch,
};
use crate::{
    app::hive::Hive,
    mcp::{Connection, McpFault, RemoteTool},
    supervisor::agent::Agent,
};

/// A server that knows no tools says so with this code.
const NO_SUCH_METHOD: i32 = -32601;

/// A server of this plan, started when it is not up.
///
/// # Errors
/// Why there is none, with the server's name.
pub(super) async fn up(hive: &Arc<Hive>, agent: &Arc<Agent>, plan: Plan) -> Result<Use, String> {
    let slot = hive.servers.slot(&plan.key);
    let (named, hash) =
        (format!("the MCP server {} of skill {}", plan.key.server, plan.key.skill), plan.hash);
    let mut plan = Some(plan);
    // Twice, because it may end between its start and its use.
    for _ in 0..2 {
        let mut coming = match slot.need(hash) {
            Need::Use(using) => return Ok(using),
            Need::Refuse(why) => return Err(format!("{named} cannot be used: {why}")),
            Need::Wait(coming) => coming,
            Need::Start(sender, coming, stop) => {
                let Some(plan) = plan.take() else { break };
                let (hive, agent, slot) = (hive.clone(), agent.clone(), slot.clone());
                // By itself: whoever asked may go, others may wait.
                tokio::spawn(async move {
                    let outcome = begin(&hive, &agent, &slot, plan, &stop).await;
                    sender.send_replace(Some(outcome));
                });
                coming
            }
        };
        let outcome = coming.wait_for(Option::is_some).await.map(|outcome| outcome.clone());
        match outcome {
            Ok(Some(Ok(live))) if !live.connection.is_over() => return Ok(live.enter()),
            Ok(Some(Err(why))) => return Err(format!("{named} cannot be used: {why}")),
            Ok(_) => {}
            Err(_) => break,
        }
    }
    Err(format!("{named} cannot be used: it ended as soon as it was started"))
}

async fn begin(
    hive: &Arc<Hive>,
    agent: &Arc<Agent>,
    slot: &Arc<Slot>,
    plan: Plan,
    stop: &CancellationToken,
) -> Outcome {
    let started = tokio::select! {
        started = start(hive, agent, &plan) => started,
        () = stop.cancelled() => Err("the agent's skills changed meanwhile: call it again".to_owned()),
    };
    let masker = hive.world().masker.clone();
    let (outcome, rest) = match started {
        Ok((connection, process, tools)) => {
            keep::learn(hive, agent, &plan, tools).await;
            (Ok(Live::new(connection, &hive.paths)), Some(process))
        }
        Err(why) => (Err(masker.mask_str(&why).into_owned()), None),
    };
    let wanted = slot.started(plan.hash, &outcome);
    match (&outcome, rest) {
        (Ok(live), Some(process)) => {
            if !wanted {
                live.retired.cancel();
            }
            keep::well(agent, &plan.key);
            watch::follow(hive, agent, slot, plan, live.clone(), process);
        }
        (Err(why), _) if wanted => keep::warn(agent, &plan.key, why),
        _ => {}
    }
    outcome
}

async fn start(
    hive: &Hive,
    agent: &Agent,
    plan: &Plan,
) -> Result<(Connection, Option<Process>, Vec<RemoteTool>), String> {
    let (connection, mut process) = match &plan.way {
        Way::Local { argv, env, cwd } => {
            let (connection, process) = local::start(&agent.link, plan, (argv, env, cwd)).await?;
            (connection, Some(process))
        }
        Way::Remote { .. } => {
            let bundle = hive.world().config.ca_bundle.as_ref().map(|bundle| hive.paths.root.join(bundle));
            let Some(remote) = plan.way.remote(bundle) else { return Err("it has no address".to_owned()) };
            let connection = Connection::over_http(remote?, plan.startup).await.map_err(|e| e.to_string())?;
            (connection, None)
        }
    };
    match list(&connection, plan.startup).await {
        Ok(tools) => Ok((connection, process, tools)),
        Err(fault) => {
            let why = match &mut process {
                Some(process) => process.fate(Some(&fault)).await,
                None => fault.to_string(),
            };
            Err(format!("it does not tell of its tools: {why}"))
        }
    }
}

/// The tools of a server; none of one that knows no tools.
pub(super) async fn list(connection: &Connection, within: Duration) -> Result<Vec<RemoteTool>, McpFault> {
    match connection.tools(within).await {
        Err(McpFault::Refused { code: NO_SUCH_METHOD, .. }) => Ok(Vec::new()),
        other => other,
    }
}
