//! A call of a server's tool.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use super::{answer, plan, slot::Use, speaker, start};
use crate::{
    app::{
        Result,
        hive::Hive,
        tools::{call::Call, desk::ServerKey, types::ToolReply},
        types::AppError,
    },
    ids::SkillId,
    mcp::McpFault,
};

/// How long it may take until it is known what became of a server that ended.
const AUTOPSY: Duration = Duration::from_secs(12);

/// Calls a tool of a server, which is started when it is not up.
///
/// # Errors
/// The server cannot be started, or the caller is gone.
pub(in crate::app) async fn call(
    hive: &Arc<Hive>,
    call: &Call,
    skill: &SkillId,
    server: &str,
) -> Result<ToolReply> {
    let began = Instant::now();
    let key = ServerKey { agent: call.agent.id.clone(), skill: skill.clone(), server: server.to_owned() };
    let plan = plan::one(&call.preparation, &key).map_err(AppError::Conflict)?;
    let gone = || AppError::Conflict(format!("the call of {} was ended: its caller is gone", call.name));
    let using = tokio::select! {
        up = start::up(hive, &call.agent, plan) => up.map_err(AppError::Unavailable)?,
        () = call.ended.cancelled() => return Err(gone()),
        () = tokio::time::sleep(call.limit) => return Ok(late(call, server)),
    };
    let left = call.limit.saturating_sub(began.elapsed());
    let masker = hive.world().masker.clone();
    let speaker = call.line.clone().map(|line| speaker(line, &key, masker.clone()));
    let args = call.args.clone();
    let answered = using.connection.call(&call.tool.name, args, left, &call.ended, speaker).await;
    let failed = |why: String| {
        let why = format!("the MCP server {server}: {why}");
        Ok(ToolReply::failed(&call.name, masker.mask_str(&why).into_owned()))
    };
    match answered {
        Ok(answer) => Ok(answer::reply(&call.name, answer, &masker)),
        Err(McpFault::Cancelled) => Err(gone()),
        Err(McpFault::Silent(_)) => Ok(late(call, server)),
        Err(fault) if fault.is_final() => {
            using.connection.shut();
            failed(format!(
                "it ended during the call, and a later one starts it again: {}",
                fate(using, &fault).await
            ))
        }
        Err(fault) => failed(fault.to_string()),
    }
}

fn late(call: &Call, server: &str) -> ToolReply {
    let why = format!(
        "the MCP server {server} did not answer within {} s; it was told to stop",
        call.limit.as_secs_f64()
    );
    ToolReply { timed_out: true, ..ToolReply::failed(&call.name, why) }
}

/// What became of a server.
async fn fate(using: Use, fault: &McpFault) -> String {
    let mut fate = using.fate.subscribe();
    let told = tokio::time::timeout(AUTOPSY, fate.wait_for(Option::is_some)).await;
    let told = told.ok().and_then(std::result::Result::ok).and_then(|told| told.clone());
    told.unwrap_or_else(|| fault.to_string())
}
