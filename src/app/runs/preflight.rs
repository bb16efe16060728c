//! What is looked at before a run (systems.md A11): a tool is called under the run's lease, beside the driver, and when
//! its answer says that there is nothing to do, the run is skipped. A check that fails, or takes too long, means run.

use std::{sync::Arc, time::Duration};

use crate::{
    app::{
        Result,
        hive::Hive,
        tools::call::{self, Call},
        types::AppError,
    },
    db::runs::RunRow,
    runs::state::Cause,
    scheduler::preflight::{self, Preflight},
};

/// A check may take so long.
const LIMIT: Duration = Duration::from_secs(30);

/// Whether there is nothing to do for a run. What somebody asked for, and what is tried again, is not looked at.
pub(super) async fn is_idle(hive: &Arc<Hive>, run: &RunRow) -> bool {
    if run.cause == Cause::Manual || run.attempt > 1 {
        return false;
    }
    let Some(spec) = &run.spec else { return false };
    let config = hive.world().config.clone();
    let Some(check) = preflight::of(&run.job_name, spec, &config.preflight) else { return false };
    let looked = tokio::time::timeout(LIMIT, look(hive, run, check, &config.zone)).await;
    match looked
        .unwrap_or_else(|_| Err(AppError::Conflict(format!("no answer within {} s", LIMIT.as_secs()))))
    {
        Ok(holds) => !holds,
        Err(e) => {
            tracing::warn!(run = run.id, tool = check.tool, error = %e, "the check before a run failed, so that it runs");
            false
        }
    }
}

/// Whether there is something to do.
async fn look(hive: &Arc<Hive>, run: &RunRow, check: &Preflight, zone: &str) -> Result<bool> {
    let agent = hive.find_agent(&run.agent)?;
    let preparation =
        agent.preparation().ok_or_else(|| AppError::Conflict("its agent is not prepared".to_owned()))?;
    let tool = hive.tool_named(&run.agent, &check.tool).await?;
    let calls = hive.runs.calls(run.id).ok_or_else(|| super::steps::ended(run.id))?;
    let under_way = calls.begin().ok_or_else(|| super::steps::ended(run.id))?;
    let ended = calls.closed.child_token();
    let _there = ended.clone().drop_guard();
    let zone = run.spec.as_ref().and_then(|spec| spec.trigger.zone()).unwrap_or(zone);
    let call = Call {
        caller: Some(run.agent.clone()),
        agent,
        preparation,
        tool,
        name: check.tool.clone(),
        args: check.arguments(hive.now(), zone),
        run: Some(run.clone()),
        limit: LIMIT,
        ended,
        line: None,
    };
    // By itself, so that it is seen to its proven end also when nobody waits for it any more.
    let caller = hive.clone();
    let made = tokio::spawn(async move {
        let reply = call::make(&caller, call).await;
        drop(under_way);
        reply
    });
    let reply = made.await.map_err(|e| AppError::Internal(e.to_string()))??;
    let answer = reply.result.unwrap_or_default();
    if !reply.success || answer["success"] == false {
        let why = reply.error.or_else(|| Some(answer["error"].as_str()?.to_owned()));
        return Err(AppError::Conflict(why.unwrap_or_else(|| "it failed and does not say why".to_owned())));
    }
    Ok(check.holds(&answer))
}
