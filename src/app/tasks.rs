//! Background tasks (systems.md A21): one tool call, or several in a row, that nobody waits for. A task is a run on the
//! queue like any other: durable, in its agent's container, held by a halt, bounded by the slots of `[runs]`.

use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::{
    Result,
    hive::Hive,
    jobs::{OnceKey, once},
    runs,
    tools::call,
    types::AppError,
};
pub use crate::db::tasks::{TaskFilter, TaskStatus};
use crate::{
    db::{
        self,
        facts::Fact,
        queue::Cancelled,
        tasks::{NewTask, TaskRow},
    },
    ids::AgentId,
    scheduler::{
        job::{AGENT_TIMEOUT, DIRECT_TIMEOUT, JobSpec, TriggerSpec},
        request::shown,
        rules,
    },
    tools::{
        Tool,
        workflow::{self, Action},
    },
};

/// Attempts after the first (systems.md A21).
const RETRIES: u32 = 3;

/// A task to be queued.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"name": "look around", "agent": "writer", "action":
    {"type": "tool_call", "toolName": "get_tool_catalog", "parameters": {}}}))]
pub struct TaskRequest {
    /// What it is called, for people.
    pub name: String,
    /// `{type: "tool_call", toolName, parameters}`, or `{type: "workflow", workflowSteps: [{id, toolName, parameters}]}`,
    /// where `{{id.field}}` stands for what an earlier step answered.
    #[schema(value_type = Object)]
    pub action: Value,
    /// In whose container; left out: the caller, else the hive's default agent.
    #[serde(default, alias = "agent_id", alias = "agentId", skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
}

/// A task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TaskView {
    /// Grows with every task.
    pub id: i64,
    /// The same, as `queue_task` calls it.
    #[serde(rename = "taskId")]
    pub task_id: i64,
    /// In whose container it runs.
    pub agent: String,
    /// What it was called.
    pub name: String,
    /// What it does, secrets masked.
    #[schema(value_type = Object)]
    pub action: Value,
    /// `queued`, `running`, `completed` or `failed`. What waits for its next attempt is running.
    pub status: String,
    /// Its newest run.
    pub run: i64,
    /// Which attempt that is, from 1; at most 4.
    pub attempt: u32,
    /// What it answered; of a workflow `{steps: [{id, toolName, result}]}`.
    #[schema(value_type = Value)]
    pub result: Option<Value>,
    /// Why it failed.
    pub error: Option<String>,
    /// When it was asked for.
    pub created_at: String,
    /// When its first attempt started.
    pub started_at: Option<String>,
    /// When it was over.
    pub finished_at: Option<String>,
    /// From its first start to its end.
    pub duration_ms: Option<i64>,
}

/// Something that the hive keeps in mind.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct FactView {
    /// Grows with every fact.
    pub id: i64,
    /// In whose name it is kept: `orchestrator`.
    pub agent_id: String,
    /// The agent that it concerns.
    pub about: String,
    /// `error`.
    pub category: String,
    /// In a sentence or two.
    pub fact: String,
    /// What it came of, like `task:7`.
    pub source: String,
    /// Since when it is known.
    pub created_at: String,
}

impl Hive {
    /// Queues a task; answers it at once. An agent queues for itself alone.
    ///
    /// # Errors
    /// What is wrong with it, all at once: its name, its action, a tool that does not exist, arguments that it does not take; too
    /// much waits; the database
    /// fails.
    pub async fn queue_task(
        self: &Arc<Self>,
        caller: Option<&AgentId>,
        request: TaskRequest,
        key: Option<OnceKey>,
    ) -> Result<TaskView> {
        let agent = self.agent_of_task(caller, request.agent.as_deref())?;
        let mut errors: Vec<(String, String)> = Vec::new();
        let name = rules::name(&request.name).map_err(|(what, remedy)| {
            errors.push(("/name".to_owned(), format!("{what} ({remedy})")));
        });
        let action = Action::read(&request.action).map_err(|faults| {
            errors.extend(faults.into_iter().map(|(place, detail)| (format!("/action{place}"), detail)));
        });
        if let Ok(action) = &action {
            for (place, name, parameters) in action.calls() {
                match self.tool_named(&agent, name).await {
                    Ok(tool) => errors.extend(self.faults_of_call(&agent, &tool, &place, parameters).await),
                    Err(why) => errors.push((format!("/action{place}/toolName"), why.to_string())),
                }
            }
        }
        let (Ok(name), Ok(action), true) = (name, action, errors.is_empty()) else {
            let detail = errors.first().map(|(_, detail)| detail.clone()).unwrap_or_default();
            return Err(AppError::Invalid { detail, errors });
        };
        let (action, spec) = (action.shown(), spec(action)?);
        let (now, hive, caller) = (self.now(), self.clone(), caller.cloned());
        let queued = self.db.write(move |tx| {
            once(tx, key.as_ref(), now, || {
                let depth =
                    caller.as_ref().map(|caller| db::runs::depth_of(tx, caller)).transpose()?.flatten();
                let depth = depth.unwrap_or(0);
                let new = NewTask { agent: agent.clone(), name, action, spec, depth };
                let task = db::tasks::queue(tx, &new, now)?;
                let crowded =
                    || format!("too many runs of agent {agent} wait already; wait until they are through");
                task.map(|task| hive.task_view(task)).ok_or_else(|| AppError::Conflict(crowded()))
            })
        });
        let view = queued.await?;
        self.due.notify_one();
        Ok(view)
    }

    /// What a tool says of arguments, as far as it is known; of those that wait for an earlier step nothing is.
    async fn faults_of_call(
        self: &Arc<Self>,
        agent: &AgentId,
        tool: &Tool,
        place: &str,
        parameters: &Map<String, Value>,
    ) -> Vec<(String, String)> {
        if workflow::waits(parameters) {
            return Vec::new();
        }
        let place = format!("/action{place}/parameters");
        match call::arguments(self, agent, tool, parameters.clone()).await {
            Err(AppError::Invalid { detail, errors }) if errors.is_empty() => vec![(place, detail)],
            Err(AppError::Invalid { errors, .. }) => {
                errors.into_iter().map(|(at, why)| (format!("{place}{at}"), why)).collect()
            }
            // It is tried again when its time comes.
            Err(_) | Ok(_) => Vec::new(),
        }
    }

    /// A task.
    ///
    /// # Errors
    /// There is none that the caller may see; the database fails.
    pub async fn task(&self, caller: Option<&AgentId>, id: i64) -> Result<TaskView> {
        let task = self.db.read(move |conn| db::tasks::get(conn, id)).await?;
        let task = task.filter(|task| caller.is_none_or(|caller| task.agent == *caller));
        task.map(|task| self.task_view(task)).ok_or_else(|| no_task(id))
    }

    /// Tasks, newest first, older than `before`, at most `limit`. An agent gets its own.
    ///
    /// # Errors
    /// The database fails.
    pub async fn tasks(
        &self,
        caller: Option<&AgentId>,
        mut filter: TaskFilter,
        before: Option<i64>,
        limit: usize,
    ) -> Result<Vec<TaskView>> {
        if let Some(caller) = caller {
            if filter.agent.as_ref().is_some_and(|agent| agent != caller) {
                return Ok(Vec::new());
            }
            filter.agent = Some(caller.clone());
        }
        let read = move |conn: &db::Conn| db::tasks::list(conn, &filter, before, limit);
        let tasks = self.db.read(read).await?;
        Ok(tasks.into_iter().map(|task| self.task_view(task)).collect())
    }

    /// Ends a task, which fails: what waits never starts, what runs is terminated, and killed after a grace. Answers the
    /// task as it is now.
    ///
    /// # Errors
    /// There is none that the caller may see, or it is over; the database fails.
    pub async fn cancel_task(&self, caller: Option<&AgentId>, id: i64) -> Result<TaskView> {
        let (now, caller) = (self.now(), caller.cloned());
        let cancelled = self.db.write(move |tx| {
            let task = db::tasks::get(tx, id)?;
            let task = task.filter(|task| caller.as_ref().is_none_or(|caller| task.agent == *caller));
            let Some(task) = task else { return Ok(Err(no_task(id))) };
            if task.status.is_over() {
                let status = task.status.as_str();
                return Ok(Err(AppError::Conflict(format!("task {id} is over: it is {status}"))));
            }
            let cancelled = db::queue::cancel(tx, task.run, now)?;
            Ok::<_, db::DbError>(
                db::tasks::get(tx, id)?.map(|task| (task, cancelled)).ok_or_else(|| no_task(id)),
            )
        });
        let (task, cancelled) = cancelled.await??;
        if let Cancelled::Ending(run) = &cancelled {
            runs::end(self, run);
        }
        self.due.notify_one();
        Ok(self.task_view(task))
    }

    /// What the hive keeps in mind, the newest first, before the one with id `before`. An agent gets what concerns it.
    ///
    /// # Errors
    /// The database fails.
    pub async fn facts(
        &self,
        caller: Option<&AgentId>,
        category: Option<String>,
        before: Option<i64>,
        limit: usize,
    ) -> Result<Vec<FactView>> {
        let (caller, before) = (caller.cloned(), before.unwrap_or(i64::MAX));
        let read =
            move |conn: &db::Conn| db::facts::list(conn, category.as_deref(), caller.as_ref(), before, limit);
        let facts = self.db.read(read).await?;
        Ok(facts.into_iter().map(|fact| self.fact_view(fact)).collect())
    }

    fn agent_of_task(&self, caller: Option<&AgentId>, named: Option<&str>) -> Result<AgentId> {
        let wrong = |detail: String| AppError::Invalid {
            detail: detail.clone(),
            errors: vec![("/agent".to_owned(), detail)],
        };
        let named = named.map(|name| name.parse::<AgentId>().map_err(|e| wrong(e.0))).transpose()?;
        if let (Some(caller), Some(named)) = (caller, &named)
            && caller != named
        {
            return Err(AppError::Forbidden(format!("agent {caller} may queue tasks for itself alone")));
        }
        let agent = named.or_else(|| caller.cloned()).or_else(|| self.default_agent());
        let agent =
            agent.ok_or_else(|| wrong("say for which agent: the hive has no default_agent".to_owned()))?;
        self.find_agent(&agent).map_err(|e| wrong(e.to_string()))?;
        Ok(agent)
    }

    fn task_view(&self, task: TaskRow) -> TaskView {
        let world = self.world();
        let (zone, masker) = (&world.config.zone, &world.masker);
        let time = |at: Timestamp| shown(at, Some(zone));
        let took = task.finished_at.zip(task.started_at);
        TaskView {
            id: task.id,
            task_id: task.id,
            agent: task.agent.to_string(),
            name: task.name,
            action: masker.mask_json(&task.action),
            status: task.status.as_str().to_owned(),
            run: task.run,
            attempt: task.attempt,
            result: task.result,
            error: task.error,
            created_at: time(task.created_at),
            started_at: task.started_at.map(time),
            finished_at: task.finished_at.map(time),
            duration_ms: took.map(|(end, start)| end.as_millisecond() - start.as_millisecond()),
        }
    }

    fn fact_view(&self, fact: Fact) -> FactView {
        FactView {
            id: fact.id,
            agent_id: fact.agent,
            about: fact.about,
            category: fact.category,
            fact: self.world().masker.mask_str(&fact.fact).into_owned(),
            source: fact.source,
            created_at: shown(fact.created_at, Some(&self.world().config.zone)),
        }
    }
}

fn no_task(id: i64) -> AppError {
    AppError::NotFound(format!("there is no task {id}; `skep task list` shows those that are kept"))
}

/// What its runs are started with: four attempts, each call within the limit of the direct tier.
fn spec(action: Action) -> Result<JobSpec> {
    let mut spec = JobSpec { retries: RETRIES, ..JobSpec::new(TriggerSpec::Manual) };
    match action {
        Action::ToolCall { tool, parameters } => {
            (spec.tool, spec.args) = (Some(tool), fitting(parameters, "/action/parameters")?);
        }
        Action::Workflow(steps) => {
            for (n, step) in steps.iter().enumerate() {
                fitting(step.parameters.clone(), &format!("/action/workflowSteps/{n}/parameters"))?;
            }
            let most = DIRECT_TIMEOUT.saturating_mul(u32::try_from(steps.len()).unwrap_or(u32::MAX));
            spec.timeout = Some(most.min(AGENT_TIMEOUT));
            spec.workflow = steps;
        }
    }
    Ok(spec)
}

/// Arguments that fit a process.
fn fitting(parameters: Map<String, Value>, place: &str) -> Result<Map<String, Value>> {
    rules::args(parameters).map_err(|(what, remedy)| {
        let detail = format!("{what} ({remedy})");
        AppError::Invalid { detail: detail.clone(), errors: vec![(place.to_owned(), detail)] }
    })
}
