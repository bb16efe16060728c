//! What a direct-tier run of a tool that is no script does: its process asks the supervisor to call it, and prints the
//! answer. The run owns the call: when its process ends, the call does. A background task of several steps makes its
//! calls here too, one after the other.

use std::sync::Arc;

use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;

use crate::{
    app::{
        Result,
        hive::Hive,
        tools::call::{self, Call},
        types::AppError,
    },
    db::{
        self,
        runs::{Act, RunRow},
    },
    ids::AgentId,
    scheduler::job::{JobSpec, Tier},
    supervisor::{agent::Agent, prepare::Preparation},
    tools::workflow::{self, Answers, Step},
};

impl Hive {
    /// Calls the tool of a running direct-tier run; answers its result. Once it was called, it is not called again,
    /// also by a supervisor that comes after this one.
    ///
    /// # Errors
    /// There is no such run that the caller may see; it does not run, or runs a script of its own; the tool failed.
    pub async fn act(self: &Arc<Self>, caller: Option<&AgentId>, id: i64) -> Result<Value> {
        let run = self.going_on(caller, id).await?;
        let spec = run.spec.clone().filter(|_| run.tier == Tier::Direct);
        let spec = spec.ok_or_else(|| AppError::Conflict(format!("run {id} has no tool of its own")))?;
        let (agent, preparation) = self.beside(&run)?;
        let calls = self.runs.calls(id).ok_or_else(|| super::steps::ended(id))?;
        let token = calls.begin().ok_or_else(|| super::steps::ended(id))?;
        if !self.db.write(move |tx| db::runs::begin_act(tx, id)).await? {
            return Err(AppError::Conflict(format!("run {id} called its tool already")));
        }
        let ended = calls.closed.child_token();
        let _there = ended.clone().drop_guard();
        let acting = Acting { hive: self.clone(), run, spec, agent, preparation, ended };
        // By itself, so that it is seen to its end also when the caller has gone.
        let made = tokio::spawn(async move {
            let hive = acting.hive.clone();
            let answer = acting.all().await;
            let noted = note(&hive, id, &answer).await;
            drop(token);
            noted.and(answer)
        });
        made.await.map_err(|e| AppError::Internal(e.to_string()))?
    }
}

/// What a run's end can only mean once its call failed: written before the run is told. A stop of the supervisor ends
/// calls too: of those nobody knows what they did.
async fn note(hive: &Hive, id: i64, answer: &Result<Value>) -> Result<()> {
    let act = match answer {
        Ok(_) => return Ok(()),
        Err(_) if hive.stopping.is_cancelled() => {
            return Err(AppError::Unavailable("the supervisor stops".to_owned()));
        }
        Err(AppError::Invalid { .. }) => Act::Wrong,
        Err(_) => Act::Failed,
    };
    Ok(hive.db.write(move |tx| db::runs::note_act(tx, id, act)).await?)
}

/// A run that makes its calls.
struct Acting {
    hive: Arc<Hive>,
    run: RunRow,
    spec: JobSpec,
    agent: Arc<Agent>,
    preparation: Arc<Preparation>,
    ended: CancellationToken,
}

impl Acting {
    async fn all(self) -> Result<Value> {
        if self.spec.workflow.is_empty() {
            let (name, args) = (self.spec.tool.clone().unwrap_or_default(), self.spec.args.clone());
            return self.call(name, args).await;
        }
        let (mut answers, mut told) = (Answers::new(), Vec::new());
        for step in &self.spec.workflow {
            let answer = self.step(step, &answers).await;
            let answer = answer.map_err(|e| in_step(step, e))?;
            told.push(json!({"id": step.id, "toolName": step.tool, "result": answer}));
            answers.insert(step.id.clone(), answer);
        }
        Ok(json!({"success": true, "steps": told}))
    }

    async fn step(&self, step: &Step, answers: &Answers) -> Result<Value> {
        let args = workflow::filled(&step.parameters, answers).map_err(AppError::Conflict)?;
        self.call(step.tool.clone(), args).await
    }

    /// # Errors
    /// The tool failed; of the hive's own and of scripts, also when the answer says so.
    async fn call(&self, name: String, args: Map<String, Value>) -> Result<Value> {
        let tool = self.hive.tool_named(&self.run.agent, &name).await?;
        // Told as such also where the tool tells of them in a form of its own.
        call::arguments(&self.hive, &self.run.agent, &tool, args.clone()).await?;
        let call = Call {
            caller: Some(self.run.agent.clone()),
            agent: self.agent.clone(),
            preparation: self.preparation.clone(),
            tool,
            name,
            args,
            run: Some(self.run.clone()),
            limit: self.spec.time_limit(),
            ended: self.ended.clone(),
            line: None,
        };
        let reply = call::make(&self.hive, call).await?;
        let refused = reply.result.as_ref().filter(|result| result["success"] == false);
        if reply.success && refused.is_none() {
            return Ok(reply.result.unwrap_or(Value::Null));
        }
        let error = reply.error.or_else(|| Some(refused?["error"].as_str()?.to_owned()));
        Err(AppError::Conflict(error.unwrap_or_else(|| "it failed and does not say why".to_owned())))
    }
}

/// What went wrong in a step.
fn in_step(step: &Step, error: AppError) -> AppError {
    let place = format!("step {} ({})", step.id, step.tool);
    match error {
        AppError::Invalid { detail, errors } => {
            AppError::Invalid { detail: format!("{place}: {detail}"), errors }
        }
        error => AppError::Conflict(format!("{place}: {error}")),
    }
}
