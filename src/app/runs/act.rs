//! What a direct-tier run of a tool that is no script does: its process asks the supervisor to call it, and prints the
//! answer. The run owns the call: when its process ends, the call does.

use std::sync::Arc;

use serde_json::Value;

use crate::{
    app::{
        Result,
        hive::Hive,
        tools::call::{self, Call},
        types::AppError,
    },
    ids::AgentId,
    scheduler::job::Tier,
};

impl Hive {
    /// Calls the tool of a running direct-tier run; answers its result. Once it was called, it is not called again.
    ///
    /// # Errors
    /// There is no such run that the caller may see; it does not run, or runs a script of its own; the tool failed.
    pub async fn act(self: &Arc<Self>, caller: Option<&AgentId>, id: i64) -> Result<Value> {
        let run = self.going_on(caller, id).await?;
        let spec = run.spec.as_ref().filter(|_| run.tier == Tier::Direct);
        let spec = spec.ok_or_else(|| AppError::Conflict(format!("run {id} has no tool of its own")))?;
        let (name, args) = (spec.tool.clone().unwrap_or_default(), spec.args.clone());
        let (agent, preparation) = self.beside(&run)?;
        let tool = self.tool_named(&run.agent, &name).await?;
        let limit = spec.time_limit();
        let calls = self.runs.calls(id).ok_or_else(|| super::steps::ended(id))?;
        if !calls.once() {
            return Err(AppError::Conflict(format!("run {id} called its tool already")));
        }
        let token = calls.begin().ok_or_else(|| super::steps::ended(id))?;
        let ended = calls.closed.child_token();
        let _there = ended.clone().drop_guard();
        let caller = Some(run.agent.clone());
        let call = Call { caller, agent, preparation, tool, name, args, run: Some(run), limit, ended };
        let hive = self.clone();
        // By itself, so that it is seen to its end also when the caller has gone.
        let made = tokio::spawn(async move {
            let reply = call::make(&hive, call).await;
            drop(token);
            reply
        });
        let reply = made.await.map_err(|e| AppError::Internal(e.to_string()))??;
        if reply.success {
            return Ok(reply.result.unwrap_or(Value::Null));
        }
        Err(AppError::Conflict(reply.error.unwrap_or_else(|| "it failed and does not say why".to_owned())))
    }
}
