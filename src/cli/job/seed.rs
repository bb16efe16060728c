//! `skep job add --file`: the bodies of a file, one after the other. A name that exists is left alone, what is
//! refused is told, and the others go on.

use std::{collections::BTreeSet, fs, io::IsTerminal};

use serde::Serialize;
use serde_json::Value;

use super::{
    super::{
        client::Client,
        failure::{FAILED, Failure, Outcome},
        hive::Context,
        when::Clock,
    },
    add::{read_input, tell},
};
use crate::{app::job_types::JobWritten, ids::AgentId};

/// The name of the list that comes with skep.
const DEFAULT_JOBS: &str = "default-jobs";
/// That list.
const DEFAULTS: &str = include_str!("../../../examples/default-jobs.json");

/// What became of one body.
#[derive(Debug, Serialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
enum Done {
    Added { name: String, job: Box<JobWritten> },
    Exists { name: String, detail: String },
    Refused { name: String, detail: String, errors: Vec<String> },
}

impl Done {
    fn warnings(&self) -> &[String] {
        if let Self::Added { job, .. } = self { &job.warnings } else { &[] }
    }
}

pub(super) async fn run(context: &Context, file: &str, agent: Option<&AgentId>, json: bool) -> Outcome {
    let text = read(file)?;
    let bodies = bodies(file, &text, agent)?;
    let client = context.client()?;
    let clock = Clock::here();
    let mut done = Vec::new();
    for body in &bodies {
        let one = add(&client, body).await?;
        if !json {
            report(context, &one, &clock)?;
        }
        done.push(one);
    }
    if json {
        context.ui.json(&done)?;
    } else {
        let warnings: BTreeSet<&String> = done.iter().flat_map(Done::warnings).collect();
        for warning in warnings {
            context.ui.warn(warning);
        }
        context.ui.note(summary(&done));
    }
    let refused = done.iter().any(|one| matches!(one, Done::Refused { .. }));
    Ok(if refused { FAILED } else { 0 })
}

fn read(file: &str) -> Result<String, Failure> {
    match file {
        "-" if std::io::stdin().is_terminal() => {
            Err(Failure::usage("--file - reads standard input, and that is a terminal")
                .help("name a file, or write `< FILE` behind the command"))
        }
        "-" => read_input("jobs"),
        DEFAULT_JOBS => Ok(DEFAULTS.to_owned()),
        path => fs::read_to_string(path).map_err(|e| Failure::usage(format!("cannot read {path}: {e}"))),
    }
}

/// The bodies of a file; those that name no agent are given this one.
fn bodies(file: &str, text: &str, agent: Option<&AgentId>) -> Result<Vec<Value>, Failure> {
    let form = "write the body of a job, or a list of them: `skep job show JOB --json` prints one";
    let wrong = |why: String| Failure::usage(format!("{file} holds no jobs: {why}")).help(form);
    let mut bodies = match serde_json::from_str(text) {
        Ok(Value::Array(bodies)) => bodies,
        Ok(body @ Value::Object(_)) => vec![body],
        Ok(_) => return Err(wrong("it is neither an object nor a list".to_owned())),
        Err(e) => return Err(wrong(e.to_string())),
    };
    for (n, body) in bodies.iter_mut().enumerate() {
        let body = body
            .as_object_mut()
            .ok_or_else(|| wrong(format!("number {} of the list is no object", n + 1)))?;
        let named =
            ["agent", "agent_id", "agentId"].iter().any(|key| body.get(*key).is_some_and(|v| !v.is_null()));
        if let Some(agent) = agent.filter(|_| !named) {
            body.insert("agent".to_owned(), agent.as_str().into());
        }
    }
    Ok(bodies)
}

/// Asks for one job. A refusal is an answer; that nobody answers is not.
async fn add(client: &Client, body: &Value) -> Result<Done, Failure> {
    let name = body.get("name").and_then(Value::as_str).unwrap_or("a job without a name").to_owned();
    match client.exchange::<_, JobWritten>("/v1/jobs", body).await {
        Ok(job) => Ok(Done::Added { name, job: Box::new(job) }),
        Err(failure) => match failure.status {
            Some(409) => Ok(Done::Exists { name, detail: failure.message }),
            Some(400..=499) if !matches!(failure.status, Some(401 | 403)) => {
                Ok(Done::Refused { name, detail: failure.message, errors: failure.details })
            }
            _ => Err(failure),
        },
    }
}

fn report(context: &Context, one: &Done, clock: &Clock) -> Result<(), Failure> {
    match one {
        Done::Added { job, .. } => tell(context, job, clock)?,
        Done::Exists { name, detail } => context.ui.note(format!("left {name:?} alone: {detail}")),
        Done::Refused { name, detail, errors } => {
            let message = format!("{name:?} was refused: {detail}");
            context.ui.failure(&Failure { details: errors.clone(), ..Failure::new(message) });
        }
    }
    Ok(())
}

fn summary(done: &[Done]) -> String {
    let count = |is: fn(&Done) -> bool| done.iter().filter(|one| is(one)).count();
    let added = count(|one| matches!(one, Done::Added { .. }));
    let exist = count(|one| matches!(one, Done::Exists { .. }));
    let refused = count(|one| matches!(one, Done::Refused { .. }));
    let mut text = format!("{added} added");
    if exist > 0 {
        text.push_str(&format!(", {exist} left alone"));
    }
    if refused > 0 {
        text.push_str(&format!(", {refused} refused"));
    }
    text
}

#[cfg(test)]
mod tests;
