//! `skep run show`: everything about one run.

use serde_json::Value;

use super::{
    super::{
        failure::Outcome,
        hive::Context,
        ui::{lines_of, plain},
        when::Clock,
    },
    list::{skipped, waits},
    wait,
};
use crate::{
    app::job_types::RunView,
    runs::state::{Cause, RunStatus},
};

/// `skep run show`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Its number
    #[arg(value_parser = super::number)]
    run: i64,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(context: &Context, args: &Args) -> Outcome {
    let run = wait::look(&context.client()?, args.run).await?;
    if args.json {
        context.ui.json(&run)?;
        return Ok(0);
    }
    context.ui.line(text(&run, &Clock::here()))?;
    Ok(0)
}

/// The whole text.
fn text(run: &RunView, clock: &Clock) -> String {
    let mut lines = vec![plain(&format!("{}  {}/{}", run.id, run.agent, run.job_name)), String::new()];
    let facts = [standing(run, clock), times(run, clock), end(run)].concat();
    lines.extend(facts.into_iter().map(|(name, value)| format!("{name:<10} {}", plain(&value))));
    for (name, text) in [("error", run.error.clone()), ("result", run.result.as_ref().and_then(result))] {
        if let Some(text) = text {
            lines.push(String::new());
            lines.push(format!("{name}:"));
            lines.push(lines_of(text.trim_end()));
        }
    }
    lines.join("\n")
}

type Facts = Vec<(&'static str, String)>;

fn standing(run: &RunView, clock: &Clock) -> Facts {
    let status = run.status.as_str();
    let status = match (&run.reason, run.status) {
        (_, RunStatus::Skipped) => format!("{status}; {}", skipped(run, clock)),
        (Some(_), RunStatus::Queued) => format!("{status}; {}", waits(run, clock)),
        (Some(why), _) => format!("{status}: {why}"),
        (None, _) => status.to_owned(),
    };
    let cause = match run.trigger {
        Cause::Schedule => "its fire time came",
        Cause::CatchUp => "its fire time was missed, and made up for",
        Cause::Event => match &run.event {
            Some(event) => &format!("event {:?} was raised (event {})", event.name, event.id),
            None => "an event was raised",
        },
        Cause::Manual => "somebody asked for it",
    };
    let job = run.job.map_or_else(|| "removed since".to_owned(), |id| id.to_string());
    vec![
        ("status", status),
        ("job", job),
        ("cause", cause.to_owned()),
        ("tier", run.tier.as_str().to_owned()),
    ]
}

fn times(run: &RunView, clock: &Clock) -> Facts {
    let mut facts = vec![("scheduled", clock.wall(&run.scheduled_at))];
    if let Some(wall) = &run.shifted_by_dst {
        facts.push(("", format!("a clock change left {wall} out")));
    }
    if let Some(at) = &run.started_at {
        facts.push(("started", clock.past(at)));
        facts.push(("took", clock.took(at, run.finished_at.as_deref())));
    }
    if run.attempt > 1 {
        facts.push(("attempt", run.attempt.to_string()));
    }
    facts
}

fn end(run: &RunView) -> Facts {
    let mut facts = Facts::new();
    facts.extend(run.exit_code.map(|code| ("exit code", code.to_string())));
    if run.steps > 0 {
        facts.push(("steps", run.steps.to_string()));
    }
    if let Some(bytes) = run.output_bytes {
        facts.push(("output", format!("{bytes} bytes (`skep run logs {}` prints them)", run.id)));
    }
    facts.extend(run.summary.clone().map(|summary| ("summary", summary)));
    facts.extend(run.warnings.iter().map(|warning| ("warning", warning.clone())));
    facts
}

fn result(result: &Value) -> Option<String> {
    match result {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        other => serde_json::to_string_pretty(other).ok(),
    }
}

#[cfg(test)]
mod tests;
