//! The tools of an agent-tier run (systems.md A13): those that its job requires, and so many calls of them. A call is
//! counted before it is made, runs beside the run in the same container, and never outlives it.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use serde_json::{Map, Value};
use tokio_util::{
    sync::CancellationToken,
    task::{TaskTracker, task_tracker::TaskTrackerToken},
};

use super::{action, output};
use crate::{
    app::{
        Result,
        exec::{self, Attended},
        hive::Hive,
        job_types::{RunTool, ToolCall},
        tools::{self, Script},
        types::AppError,
    },
    db::{self, DbError, runs::RunRow},
    ids::AgentId,
    init::link::Link,
    runs::{
        result::{self, Said},
        state::RunStatus,
    },
    sandbox::describe::script_description,
    scheduler::job::{DIRECT_TIMEOUT, MAX_ARGS, Tier},
    secrets::mask::Masker,
    supervisor::prepare::{Preparation, PreparedSkill},
    wire::{Io, Start},
};

/// Between SIGTERM and SIGKILL of a call.
const GRACE: Duration = Duration::from_secs(2);

/// The tool calls of one run that are under way.
#[derive(Debug, Clone, Default)]
pub(super) struct Calls {
    /// No call begins any more, and those under way end.
    closed: CancellationToken,
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
    fn begin(&self) -> Option<TaskTrackerToken> {
        // Taken before looking, so that an end either sees the token or is seen.
        let token = self.under_way.token();
        (!self.closed.is_cancelled()).then_some(token)
    }
}

/// A call that was found, allowed and counted.
struct Admitted {
    run: i64,
    tool: String,
    step: u32,
    max_steps: u32,
    link: Arc<Link>,
    start: Start,
    stdin: Vec<u8>,
    closed: CancellationToken,
    /// The end of the run waits for it.
    token: TaskTrackerToken,
}

impl Hive {
    /// The tools that an agent-tier run may call, as its job names them.
    ///
    /// # Errors
    /// There is no such run that the caller may see, or it does not run.
    pub async fn run_tools(&self, caller: Option<&AgentId>, id: i64) -> Result<Vec<RunTool>> {
        let run = self.going_on(caller, id).await?;
        let (_, preparation) = self.beside(&run)?;
        let names = required(&run);
        let read = move || names.iter().map(|name| described(&preparation, name)).collect();
        tokio::task::spawn_blocking(read).await.map_err(|e| AppError::Internal(e.to_string()))
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
        let admitted = self.admit(caller, id, tool, args).await?;
        let hive = self.clone();
        let caller = CancellationToken::new();
        let _there = caller.clone().drop_guard();
        // By itself, so that the process is seen to its proven end also when the caller has gone.
        let call = tokio::spawn(async move {
            let masker = hive.world().masker.clone();
            // An init that can start nothing more may have been crippled from inside: the driver looks.
            make(admitted, &caller, &masker).await.inspect_err(|_| hive.wake.notify_one())
        });
        call.await.map_err(|e| AppError::Internal(e.to_string()))?
    }

    /// A run that goes on, of which its agent and the operator may know.
    async fn going_on(&self, caller: Option<&AgentId>, id: i64) -> Result<RunRow> {
        let run = self.run_row(caller, id).await?;
        if run.status == RunStatus::Running {
            return Ok(run);
        }
        Err(AppError::Conflict(format!("run {id} does not run: it is {}", run.status.as_str())))
    }

    /// The agent of a run as it is now, in the container that the run is in.
    fn beside(&self, run: &RunRow) -> Result<(Arc<Link>, Arc<Preparation>)> {
        let agent = self.find_agent(&run.agent)?;
        let container = agent.state().container.clone();
        let same = container.is_some() && container.as_ref() == run.process.as_ref().map(|(c, _)| c);
        match agent.preparation() {
            Some(preparation) if same => Ok((agent.link.clone(), preparation)),
            _ => Err(AppError::Conflict(format!("the container of run {} is not there", run.id))),
        }
    }

    /// Finds a tool, and counts the call.
    async fn admit(
        &self,
        caller: Option<&AgentId>,
        id: i64,
        tool: &str,
        args: &Map<String, Value>,
    ) -> Result<Admitted> {
        let run = self.going_on(caller, id).await?;
        let (link, preparation) = self.beside(&run)?;
        let script = allowed(&run, &action::scripts(&preparation), tool)?;
        let program = action::script(self, &preparation, &script, args).map_err(AppError::Conflict)?;
        if program.stdin.len() > MAX_ARGS {
            return Err(AppError::Invalid {
                detail: format!(
                    "the arguments have {} bytes of JSON; at most {MAX_ARGS} fit",
                    program.stdin.len()
                ),
                errors: Vec::new(),
            });
        }
        let calls = self.runs.calls(id).ok_or_else(|| ended(id))?;
        let token = calls.begin().ok_or_else(|| ended(id))?;
        let max_steps = run.spec.as_ref().map_or(0, |spec| spec.max_steps);
        let step = self.db.write(move |tx| take_step(tx, id, max_steps)).await??;
        let start = Start {
            id: link.next_id(),
            argv: program.argv,
            env: action::environment(&preparation, &run, program.trusted),
            cwd: "/workspace".to_owned(),
            timeout_ms: Some(action::millis(DIRECT_TIMEOUT)),
            grace_ms: action::millis(GRACE),
            bound: true,
            io: Io::Stream,
        };
        let (tool, stdin, closed) = (tool.to_owned(), program.stdin, calls.closed);
        Ok(Admitted { run: id, tool, step, max_steps, link, start, stdin, closed, token })
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

fn ended(id: i64) -> AppError {
    AppError::Conflict(format!("run {id} is over or being ended: it calls no more tools"))
}

/// Starts the call and sees it to its proven end.
async fn make(call: Admitted, caller: &CancellationToken, masker: &Masker) -> Result<ToolCall> {
    let Admitted { run, tool, step, max_steps, link, start, stdin, closed, token } = call;
    let began = Instant::now();
    let id = start.id;
    let started = link.start(start, Vec::new()).await?;
    let mut attended = std::pin::pin!(exec::attend(started, stdin, masker));
    let attended = tokio::select! {
        attended = &mut attended => attended.inspect_err(|_| link.end(id, Duration::ZERO))?,
        () = async { tokio::select! { () = closed.cancelled() => {} () = caller.cancelled() => {} } } => {
            link.end(id, GRACE);
            let dead = attended.await;
            drop(token);
            dead?;
            return Err(AppError::Conflict(format!("run {run} is over, so its call of {tool} was ended")));
        }
    };
    drop(token);
    Ok(answer(tool, (step, max_steps), began.elapsed(), &attended, masker))
}

/// The result of a call, by the rule of script calls (systems.md D13).
fn answer(
    tool: String,
    (step, max_steps): (u32, u32),
    took: Duration,
    attended: &Attended,
    masker: &Masker,
) -> ToolCall {
    let (stdout, stderr) =
        (String::from_utf8_lossy(&attended.stdout.0), String::from_utf8_lossy(&attended.stderr.0));
    let said = Said { stdout: &stdout, cut: attended.stdout.1, stderr: &stderr, summary: None };
    let outcome = output::masked(result::direct(attended.exit, &said), masker);
    ToolCall {
        tool,
        success: outcome.status == RunStatus::Succeeded,
        exit_code: outcome.exit_code,
        result: outcome.result,
        error: outcome.error,
        stderr: stderr.into_owned(),
        truncated: attended.stdout.1 || attended.stderr.1,
        duration_ms: action::millis(took),
        timed_out: attended.exit.timed_out,
        oom: attended.exit.oom,
        step,
        max_steps,
    }
}

/// The tools that a run requires. The one of a direct-tier run is no step: it is the run.
fn required(run: &RunRow) -> Vec<String> {
    let spec = run.spec.as_ref().filter(|_| run.tier == Tier::Agent);
    spec.map(|spec| spec.required_tools.clone()).unwrap_or_default()
}

/// The script that a name means among those that the run requires.
fn allowed(run: &RunRow, scripts: &[Script], name: &str) -> Result<Script> {
    let names = required(run);
    if names.iter().any(|required| required == name) {
        return tools::find(scripts, name).cloned().map_err(AppError::NotFound);
    }
    let mut mine: Vec<Script> =
        names.iter().filter_map(|required| tools::find(scripts, required).ok().cloned()).collect();
    mine.dedup();
    tools::find(&mine, name).cloned().map_err(|_| {
        let may = match names.as_slice() {
            [] => "no tools: its job requires none".to_owned(),
            names => names.join(", "),
        };
        AppError::Forbidden(format!("run {} may not call {name:?}; it may call {may}", run.id))
    })
}

fn described(preparation: &Preparation, name: &str) -> RunTool {
    let scripts = action::scripts(preparation);
    let mut tool = RunTool { name: name.to_owned(), description: None, input_schema: None, missing: None };
    let script = match tools::find(&scripts, name) {
        Ok(script) => script,
        Err(why) => return RunTool { missing: Some(why), ..tool },
    };
    if let Some(skill) = preparation.skills.iter().find(|s| s.skill.id == script.skill) {
        let schema = read(skill, &script.schema_path());
        tool.description =
            script_description(&read(skill, &script.path).unwrap_or_default(), schema.as_deref());
        tool.input_schema = schema.and_then(|text| serde_json::from_str(&text).ok());
    }
    tool
}

fn read(skill: &PreparedSkill, path: &str) -> Option<String> {
    let bytes = std::fs::read(skill.folder.join(path)).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}
