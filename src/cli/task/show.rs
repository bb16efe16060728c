//! `skep task show`: everything about one task.

use serde_json::Value;

use super::{
    super::{
        failure::Outcome,
        hive::Context,
        ui::{lines_of, plain},
        when::Clock,
    },
    list::status,
};
use crate::app::tasks::TaskView;

/// `skep task show`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Its number
    #[arg(value_parser = super::number)]
    task: i64,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(context: &Context, args: &Args) -> Outcome {
    let task = super::look(&context.client()?, args.task).await?;
    if args.json {
        context.ui.json(&task)?;
        return Ok(0);
    }
    context.ui.line(text(&task, &Clock::here()))?;
    Ok(0)
}

/// The whole text.
pub(super) fn text(task: &TaskView, clock: &Clock) -> String {
    let mut facts = vec![
        ("status", status(task)),
        ("asked", clock.past(&task.created_at)),
        ("run", format!("{} (`skep run show {}` tells more)", task.run, task.run)),
    ];
    if let Some(at) = &task.started_at {
        facts.push(("started", clock.past(at)));
        facts.push(("took", clock.took(at, task.finished_at.as_deref())));
    }
    let mut lines = vec![plain(&format!("{}  {}/{}", task.id, task.agent, task.name)), String::new()];
    lines.extend(facts.into_iter().map(|(name, value)| format!("{name:<10} {}", plain(&value))));
    let result = task.result.as_ref().and_then(printed);
    for (name, text) in [("action", printed(&task.action)), ("error", task.error.clone()), ("result", result)]
    {
        if let Some(text) = text {
            lines.push(String::new());
            lines.push(format!("{name}:"));
            lines.push(lines_of(text.trim_end()));
        }
    }
    lines.join("\n")
}

fn printed(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        other => serde_json::to_string_pretty(other).ok(),
    }
}
