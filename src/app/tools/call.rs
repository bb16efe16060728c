//! One call of a tool, from its name to its answer. A process that it starts is ended when the caller goes, and never
//! left behind.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

use super::{
    builtin::{self, Behalf},
    list, servers,
    types::ToolReply,
};
use crate::{
    app::{
        Result,
        exec::{self, Attended},
        hive::Hive,
        runs::action,
        types::AppError,
    },
    db::runs::RunRow,
    ids::AgentId,
    mcp::Line,
    runs::{
        result::{self, Said},
        state::RunStatus,
    },
    scheduler::job::{DIRECT_TIMEOUT, MAX_ARGS},
    secrets::mask::Masker,
    supervisor::{agent::Agent, prepare::Preparation},
    tools::{
        Kind, Script, Tool,
        check::{self, Mistake},
        normalise::{self, Defaults},
    },
    wire::{Environment, Io, Start},
};

/// Between SIGTERM and SIGKILL of a call.
const GRACE: Duration = Duration::from_secs(2);

/// A tool that was found, and what it is called with.
pub(in crate::app) struct Call {
    /// Who decides: an agent, or none: the operator.
    pub caller: Option<AgentId>,
    /// In whose container it runs.
    pub agent: Arc<Agent>,
    /// The agent as it runs now.
    pub preparation: Arc<Preparation>,
    /// The tool.
    pub tool: Tool,
    /// As the caller named it.
    pub name: String,
    /// Its arguments.
    pub args: Map<String, Value>,
    /// The run that it belongs to, if any.
    pub run: Option<RunRow>,
    /// How long it may take.
    pub limit: Duration,
    /// Ends it early.
    pub ended: CancellationToken,
    /// To the MCP client that calls, if one does that can hear more than the answer.
    pub line: Option<Line>,
}

impl Hive {
    /// Calls a tool of an agent now, direct tier.
    ///
    /// # Errors
    /// There is no such agent or tool, the agent does not run, the arguments are wrong, or it could not be started. A
    /// tool that failed is no error: its answer says so.
    pub async fn call_tool(
        self: &Arc<Self>,
        caller: Option<&AgentId>,
        agent: &AgentId,
        name: &str,
        args: Map<String, Value>,
    ) -> Result<ToolReply> {
        self.call_tool_over(caller, agent, name, args, None).await
    }

    /// As [`Self::call_tool`], with a line to the MCP client that calls.
    ///
    /// # Errors
    /// As [`Self::call_tool`].
    pub async fn call_tool_over(
        self: &Arc<Self>,
        caller: Option<&AgentId>,
        agent: &AgentId,
        name: &str,
        args: Map<String, Value>,
        line: Option<Line>,
    ) -> Result<ToolReply> {
        self.find_agent(agent)?;
        let tool = self.tool_named(agent, name).await?;
        let ended = CancellationToken::new();
        let _there = ended.clone().drop_guard();
        if tool.kind == Kind::Hive {
            let behalf = Behalf { caller: caller.cloned(), agent: agent.clone() };
            let (hive, name) = (self.clone(), name.to_owned());
            // By itself, so that a write is not left half done when the caller has gone.
            let made = tokio::spawn(async move { of_hive(&hive, &behalf, &tool, &name, args).await });
            return made.await.map_err(|e| AppError::Internal(e.to_string()))?;
        }
        let agent = self.running_agent(agent)?;
        let preparation = agent.preparation().ok_or_else(|| crate::app::agents::not_prepared(&agent))?;
        let call = Call {
            caller: caller.cloned(),
            agent,
            preparation,
            tool,
            name: name.to_owned(),
            args,
            run: None,
            limit: DIRECT_TIMEOUT,
            ended,
            line,
        };
        let hive = self.clone();
        // By itself, so that a process is seen to its proven end also when the caller has gone.
        let made = tokio::spawn(async move { make(&hive, call).await });
        made.await.map_err(|e| AppError::Internal(e.to_string()))?
    }
}

/// Makes a call.
///
/// # Errors
/// It could not be started, or it was ended early.
pub(in crate::app) async fn make(hive: &Arc<Hive>, call: Call) -> Result<ToolReply> {
    let Some(skill) = call.tool.skill() else {
        let behalf = Behalf { caller: call.caller, agent: call.agent.id.clone() };
        return of_hive(hive, &behalf, &call.tool, &call.name, call.args).await;
    };
    action::must_be_usable(&call.preparation, skill, &call.tool.name).map_err(AppError::Conflict)?;
    let began = Instant::now();
    let call = Call { args: arguments(hive, &call.agent.id, &call.tool, call.args).await?, ..call };
    let reply = match &call.tool.kind {
        Kind::Script(script) => {
            // An init that can start nothing more may have been crippled from inside: the driver looks.
            run(hive, &call, script).await.inspect_err(|_| hive.wake.notify_one())
        }
        Kind::Server { skill, server } => servers::call(hive, &call, skill, server).await,
        Kind::Hive => return Err(AppError::Internal(format!("{} is of no skill", call.name))),
    };
    reply.map(|reply| ToolReply { duration_ms: action::millis(began.elapsed()), ..reply })
}

/// Calls one of the hive's own tools; what is wrong with its arguments may be an answer of its own form.
async fn of_hive(
    hive: &Arc<Hive>,
    behalf: &Behalf,
    tool: &Tool,
    name: &str,
    args: Map<String, Value>,
) -> Result<ToolReply> {
    let began = Instant::now();
    let answer = match arguments(hive, &behalf.agent, tool, args).await {
        Ok(args) => builtin::call(hive, behalf, &tool.name, &args).await?,
        Err(error) => builtin::refused(&tool.name, error)?,
    };
    Ok(ToolReply { duration_ms: action::millis(began.elapsed()), ..ToolReply::of_hive(name, answer) })
}

/// The arguments as the tool gets them: set right (systems.md A15, A16), and what its schema wants.
///
/// # Errors
/// They are not what the schema wants, each mistake with its pointer; or there are too many.
pub(in crate::app) async fn arguments(
    hive: &Arc<Hive>,
    agent: &AgentId,
    tool: &Tool,
    args: Map<String, Value>,
) -> Result<Map<String, Value>> {
    let schema = list::schema(hive, agent, tool).await;
    let config = hive.world().config.clone();
    let none = Defaults::new();
    let own = config.agents.get(agent).map_or(&none, |agent| &agent.tools);
    let args = normalise::arguments(&config.tools, own, (&tool.group, &tool.name), schema.as_ref(), args);
    if matches!(tool.kind, Kind::Script(_)) {
        check_size(&args)?;
    }
    let Some(schema) = schema else { return Ok(args) };
    let checked = tokio::task::spawn_blocking(move || {
        let args = Value::Object(args);
        (check::mistakes(&schema, &args), args)
    });
    let (mistakes, args) = checked.await.map_err(|e| AppError::Internal(e.to_string()))?;
    match args {
        Value::Object(args) if mistakes.is_empty() => Ok(args),
        _ => {
            let told = |m: Mistake| (m.pointer, m.detail);
            let detail = format!("the arguments are not what {} takes", tool.name);
            Err(AppError::Invalid { detail, errors: mistakes.into_iter().map(told).collect() })
        }
    }
}

/// Whether the arguments fit one argument of a process.
fn check_size(args: &Map<String, Value>) -> Result<()> {
    let size = serde_json::to_string(args).map_or(0, |text| text.len());
    if size <= MAX_ARGS {
        return Ok(());
    }
    Err(AppError::Invalid {
        detail: format!("the arguments have {size} bytes of JSON; at most {MAX_ARGS} fit"),
        errors: Vec::new(),
    })
}

/// Runs a script to its proven end.
async fn run(hive: &Hive, call: &Call, script: &Script) -> Result<ToolReply> {
    let program = action::script(hive, &call.preparation, script, &call.args).map_err(AppError::Conflict)?;
    let masker = hive.world().masker.clone();
    let link = &call.agent.link;
    let env = match &call.run {
        Some(run) => action::environment(&call.preparation, run, program.trusted),
        None if program.trusted => call.preparation.secret_env.clone(),
        None => Environment::default(),
    };
    let start = Start {
        id: link.next_id(),
        argv: program.argv,
        env,
        cwd: "/workspace".to_owned(),
        not_before_us: None,
        timeout_ms: Some(action::millis(call.limit)),
        grace_ms: action::millis(GRACE),
        bound: true,
        held_to: None,
        io: Io::Stream,
    };
    let id = start.id;
    let started = link.start(start, Vec::new()).await?;
    let mut attended = std::pin::pin!(exec::attend(started, program.stdin, &masker));
    let attended = tokio::select! {
        attended = &mut attended => attended.inspect_err(|_| link.end(id, Duration::ZERO))?,
        () = call.ended.cancelled() => {
            link.end(id, GRACE);
            attended.await?;
            return Err(AppError::Conflict(format!("the call of {} was ended: its caller is gone", call.name)));
        }
    };
    Ok(answer(&call.name, &attended, &masker))
}

/// The result of a script, by the rule of script calls (systems.md D13).
fn answer(tool: &str, attended: &Attended, masker: &Masker) -> ToolReply {
    let (stdout, stderr) =
        (String::from_utf8_lossy(&attended.stdout.0), String::from_utf8_lossy(&attended.stderr.0));
    let said = Said { stdout: &stdout, cut: attended.cut, stderr: &stderr, summary: None };
    let outcome = crate::app::runs::masked(result::direct(attended.exit, &said), masker);
    ToolReply {
        tool: tool.to_owned(),
        success: outcome.status == RunStatus::Succeeded,
        warnings: outcome.warning.into_iter().collect(),
        result: outcome.result,
        content: None,
        error: outcome.error,
        exit_code: outcome.exit_code,
        stderr: stderr.into_owned(),
        truncated: attended.stdout.1 || attended.stderr.1,
        duration_ms: 0,
        timed_out: attended.exit.timed_out,
        oom: attended.exit.oom,
    }
}
