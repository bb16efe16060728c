//! `skep task list`: a line for each task, with what came of it.

use comfy_table::Color;
use serde_json::Value;

use super::super::{
    failure::Outcome,
    hive::Context,
    ui::{Shown, short},
    when::Clock,
};
use crate::{
    app::tasks::{TaskStatus, TaskView},
    ids::AgentId,
};

/// `skep task list`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Only this agent's [default: all]
    agent: Option<AgentId>,
    /// Only in this status
    #[arg(long, value_name = "STATUS", value_parser = clap::builder::PossibleValuesParser::new(
        TaskStatus::ALL.map(TaskStatus::as_str)))]
    status: Option<String>,
    /// So many at most
    #[arg(short = 'n', long = "limit", value_name = "N", default_value_t = 20,
        value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) const HEAD: [&str; 7] = ["ID", "TASK", "AGENT", "STATUS", "ASKED", "TOOK", "ANSWER"];
/// Characters of an answer.
const ANSWER: usize = 80;

pub(super) async fn run(context: &Context, args: &Args) -> Outcome {
    let client = context.client()?;
    let mut query = Vec::new();
    query.extend(args.agent.as_ref().map(|agent| ("agent", agent.as_str())));
    query.extend(args.status.as_deref().map(|status| ("status", status)));
    let (tasks, more): (Vec<TaskView>, bool) = client.first("/v1/tasks", &query, args.limit as usize).await?;
    // Agents that are no longer there have a history.
    if let Some(agent) = args.agent.as_ref().filter(|_| tasks.is_empty()) {
        client.get::<Value>(&format!("/v1/agents/{agent}"), &[]).await?;
    }
    if args.json {
        context.ui.json(&tasks)?;
        return Ok(0);
    }
    let clock = Clock::here();
    context.ui.table(&HEAD, tasks.iter().map(|task| row(task, &clock)).collect())?;
    if more {
        context.ui.note("there are older ones: -n shows more");
    } else if tasks.is_empty() {
        context.ui.note(if query.is_empty() {
            "no task is kept: agents queue them with `queue_task`"
        } else {
            "no task is so"
        });
    }
    Ok(0)
}

pub(super) fn row(task: &TaskView, clock: &Clock) -> Vec<Shown> {
    let took = task.started_at.as_deref().map(|at| clock.took(at, task.finished_at.as_deref()));
    vec![
        task.id.to_string().into(),
        short(&task.name, 40).into(),
        task.agent.as_str().into(),
        Shown::from(status(task)).color(color(&task.status)),
        clock.ago(&task.created_at).into(),
        took.unwrap_or_else(|| "-".to_owned()).into(),
        short(&answer(task), ANSWER).into(),
    ]
}

/// Where it stands, and with which attempt when it is not the first.
pub(super) fn status(task: &TaskView) -> String {
    match task.attempt {
        0 | 1 => task.status.clone(),
        attempt => format!("{} (attempt {attempt})", task.status),
    }
}

/// What came of it, in a line.
fn answer(task: &TaskView) -> String {
    match (&task.error, &task.result) {
        (Some(error), _) => error.clone(),
        (None, Some(Value::String(text))) => text.clone(),
        (None, Some(Value::Null) | None) => String::new(),
        (None, Some(value)) => value.to_string(),
    }
}

fn color(status: &str) -> Color {
    match TaskStatus::parse(status) {
        Some(TaskStatus::Completed) => Color::Green,
        Some(TaskStatus::Failed) => Color::Red,
        Some(TaskStatus::Running) => Color::Cyan,
        Some(TaskStatus::Queued) | None => Color::Yellow,
    }
}
