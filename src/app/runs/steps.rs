//! The tools of an agent-tier run (systems.md A13): those that its job requires, and so many calls of them. A call is
//! counted before it is made, runs beside the run in the same container, and never outlives it.

use std::sync::Arc;

use serde_json::{Map, Value};
use tokio_util::{
    sync::CancellationToken,
    task::{TaskTracker, task_tracker::TaskTrackerToken},
};

use crate::{
    app::{
        Result,
        hive::Hive,
        job_types::{RunTool, ToolCall},
        tools::call::{self, Call},
        types::AppError,
    },
    db::{self, DbError, runs::RunRow},
    ids::AgentId,
    runs::state::RunStatus,
    scheduler::job::{DIRECT_TIMEOUT, Tier},
    supervisor::{agent::Agent, prepare::Preparation},
    tools::{self, Tool, catalogue::Listed},
};

/// The tool calls of one run that are under way.
#[derive(Debug, Clone, Default)]
pub(super) struct Calls {
    /// No call begins any more, and those under way end.
    pub(super) closed: CancellationToken,
    under_way: TaskTracker,
}

impl Calls {
    /// Ends the calls under way, and lets none begin any more.
    pub(super) fn end(&self) {
        self.closed.cancel();
    }

    /// The same, and waits until every one is proven dead.
    pub(super) async fn ended(&self) {
        self.end();
        self.under_way.close();
        self.under_way.wait().await;
    }

    /// Whoever holds the token is waited for by [`Self::ended`]; none: it is too late.
    pub(super) fn begin(&self) -> Option<TaskTrackerToken> {
        // Taken before looking, so that an end either sees the token or is seen.
        let token = self.under_way.token();
        (!self.closed.is_cancelled()).then_some(token)
    }
}

impl Hive {
    /// The tools that an agent-tier run may call, as its job names them.
    ///
    /// # Errors
    /// There is no such run that the caller may see, or it does not run.
    pub async fn run_tools(self: &Arc<Self>, caller: Option<&AgentId>, id: i64) -> Result<Vec<RunTool>> {
        let run = self.going_on(caller, id).await?;
        self.beside(&run)?;
        let listed = self.catalogue(&run.agent).await?;
        Ok(required(&run).iter().map(|name| described(&listed, name)).collect())
    }

    /// Whose a run is that goes on, for those who ask for its tools.
    ///
    /// # Errors
    /// There is no such run that the caller may see, or it does not run.
    pub async fn run_for_tools(&self, caller: Option<&AgentId>, id: i64) -> Result<AgentId> {
        let run = self.going_on(caller, id).await?;
        self.beside(&run)?;
        Ok(run.agent)
    }

    /// Calls a tool of an agent-tier run: one step. The call is ended when its caller goes and when the run ends.
    ///
    /// # Errors
    /// There is no such run that the caller may see; it does not run; the tool is none of those that it requires;
    /// its steps are used up; the script cannot be started.
    pub async fn call_run_tool(
        self: &Arc<Self>,
        caller: Option<&AgentId>,
        id: i64,
        tool: &str,
        args: &Map<String, Value>,
    ) -> Result<ToolCall> {
        let (call, step, max_steps, token) = self.admit(caller, id, tool, args).await?;
        let (hive, closed) = (self.clone(), call.ended.clone());
        let gone = closed.clone().drop_guard();
        // By itself, so that the process is seen to its proven end also when the caller has gone.
        let made = tokio::spawn(async move {
            let reply = call::make(&hive, call).await;
            drop(token);
            reply
        });
        let reply = made.await.map_err(|e| AppError::Internal(e.to_string()))?;
        gone.disarm();
        let reply = reply.map_err(|e| match closed.is_cancelled() {
            true => AppError::Conflict(format!("run {id} is over, so its call of {tool} was ended")),
            false => e,
        })?;
        Ok(ToolCall { reply, step, max_steps })
    }

    /// A run that goes on, of which its agent and the operator may know.
    pub(super) async fn going_on(&self, caller: Option<&AgentId>, id: i64) -> Result<RunRow> {
        let run = self.run_row(caller, id).await?;
        if run.status == RunStatus::Running {
            return Ok(run);
        }
        Err(AppError::Conflict(format!("run {id} does not run: it is {}", run.status.as_str())))
    }

    /// The agent of a run as it is now, in the container that the run is in.
    pub(super) fn beside(&self, run: &RunRow) -> Result<(Arc<Agent>, Arc<Preparation>)> {
        let agent = self.find_agent(&run.agent)?;
        let container = agent.state().container.clone();
        let same = container.is_some() && container.as_ref() == run.process.as_ref().map(|(c, _)| c);
        match agent.preparation() {
            Some(preparation) if same => Ok((agent, preparation)),
            _ => Err(AppError::Conflict(format!("the container of run {} is not there", run.id))),
        }
    }

    /// Finds a tool, and counts the call: which step it is, of how many.
    async fn admit(
        self: &Arc<Self>,
        caller: Option<&AgentId>,
        id: i64,
        name: &str,
        args: &Map<String, Value>,
    ) -> Result<(Call, u32, u32, TaskTrackerToken)> {
        let run = self.going_on(caller, id).await?;
        let (agent, preparation) = self.beside(&run)?;
        let tool = self.find_tool(&run.agent, name, |tools| allowed(&run, tools, name)).await?;
        // A call with wrong arguments is no step.
        call::arguments(self, &run.agent, &tool, args.clone()).await?;
        let calls = self.runs.calls(id).ok_or_else(|| ended(id))?;
        let token = calls.begin().ok_or_else(|| ended(id))?;
        let max_steps = run.spec.as_ref().map_or(0, |spec| spec.max_steps);
        let step = self.db.write(move |tx| take_step(tx, id, max_steps)).await??;
        let call = Call {
            caller: Some(run.agent.clone()),
            agent,
            preparation,
            tool,
            name: name.to_owned(),
            args: args.clone(),
            run: Some(run),
            limit: DIRECT_TIMEOUT,
            ended: calls.closed.child_token(),
            line: None,
        };
        Ok((call, step, max_steps, token))
    }
}

/// Counts a call; the limit holds also for calls that come at once.
fn take_step(tx: &db::Tx<'_>, id: i64, max: u32) -> std::result::Result<Result<u32>, DbError> {
    if let Some(step) = db::runs::take_step(tx, id, max)? {
        return Ok(Ok(step));
    }
    let runs = db::runs::get(tx, id)?.is_some_and(|run| run.status == RunStatus::Running);
    if !runs {
        return Ok(Err(ended(id)));
    }
    Ok(Err(AppError::Conflict(format!(
        "run {id} may call tools {max} times, and it did: finish without them (its job's max_steps is {max})"
    ))))
}

pub(super) fn ended(id: i64) -> AppError {
    AppError::Conflict(format!("run {id} is over or being ended: it calls no more tools"))
}

/// The tools that a run requires. The one of a direct-tier run is no step: it is the run.
fn required(run: &RunRow) -> Vec<String> {
    let spec = run.spec.as_ref().filter(|_| run.tier == Tier::Agent);
    spec.map(|spec| spec.required_tools.clone()).unwrap_or_default()
}

/// The tool that a name means among those that the run requires.
fn allowed(run: &RunRow, tools: &[Tool], name: &str) -> Result<Tool> {
    let names = required(run);
    if names.iter().any(|required| required == name) {
        return tools::find(tools, name).cloned().map_err(AppError::NotFound);
    }
    let mut mine: Vec<Tool> =
        names.iter().filter_map(|required| tools::find(tools, required).ok().cloned()).collect();
    mine.dedup();
    tools::find(&mine, name).cloned().map_err(|_| {
        let may = match names.as_slice() {
            [] => "no tools: its job requires none".to_owned(),
            names => names.join(", "),
        };
        AppError::Forbidden(format!("run {} may not call {name:?}; it may call {may}", run.id))
    })
}

fn described(listed: &[Listed], name: &str) -> RunTool {
    let tools: Vec<Tool> = listed.iter().map(|listed| listed.tool.clone()).collect();
    let found = tools::find(&tools, name).map(|tool| listed.iter().find(|listed| listed.tool == *tool));
    let (said, missing) = match found {
        Ok(said) => (said, None),
        Err(why) => (None, Some(why)),
    };
    RunTool {
        name: name.to_owned(),
        description: said.map(|said| said.description.clone()).filter(|text| !text.is_empty()),
        input_schema: said.and_then(|said| said.input_schema.clone()),
        missing,
    }
}
