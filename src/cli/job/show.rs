//! `skep job show`: everything about one job, in the words of `skep.toml`.

use super::{
    super::{
        failure::Outcome,
        hive::Context,
        ui::{lines_of, plain},
        when::Clock,
    },
    find::{self, full_name},
    list::{state, trigger},
};
use crate::app::job_types::{JobView, NotifyView, Preview};

/// `skep job show`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Its number, AGENT/NAME, or a name that only one agent has
    job: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(context: &Context, args: &Args) -> Outcome {
    let client = context.client()?;
    let job = find::job(&client, &args.job).await?;
    if args.json {
        context.ui.json(&job)?;
        return Ok(0);
    }
    // What comes after the next one only helps: without it the job is shown all the same.
    let next = client.get(&format!("/v1/jobs/{}/next", job.id), &[("count", "3")]).await;
    let fires = next.map(|preview: Preview| preview.fires).unwrap_or_default();
    context.ui.line(text(&job, &fires, &Clock::here()))?;
    Ok(0)
}

/// The whole text.
fn text(job: &JobView, fires: &[String], clock: &Clock) -> String {
    let mut lines = vec![format!("{}  {}", job.id, full_name(job))];
    if !job.description.is_empty() {
        lines.push(lines_of(&job.description));
    }
    lines.push(String::new());
    let facts = [when(job, fires, clock), what(job), policies(job), past(job, clock)].concat();
    lines.extend(facts.into_iter().map(|(name, value)| format!("{name:<15} {}", plain(&value))));
    if let Some(instructions) = &job.instructions {
        lines.push(String::new());
        lines.push(lines_of(instructions.trim_end()));
    }
    lines.join("\n")
}

type Facts = Vec<(&'static str, String)>;

fn when(job: &JobView, fires: &[String], clock: &Clock) -> Facts {
    let mut facts = vec![("state", state(job, clock)), ("trigger", trigger(&job.trigger, clock))];
    if let Some(next) = job.next_fire_at.as_deref().filter(|_| job.enabled) {
        facts.push(("next", clock.coming(next)));
        let later: Vec<String> = fires.iter().skip(1).map(|at| clock.wall(at)).collect();
        if !later.is_empty() {
            facts.push(("then", later.join(", ")));
        }
    }
    facts
}

fn what(job: &JobView) -> Facts {
    let tier = match job.tier {
        crate::scheduler::job::Tier::Direct => "direct (one tool call, no model)",
        crate::scheduler::job::Tier::Agent => "agent (its agent follows the instructions)",
    };
    let mut facts = vec![("tier", tier.to_owned())];
    if let Some(tool) = &job.tool {
        facts.push(("tool", tool.clone()));
        let args = job.args.as_ref().filter(|args| !args.is_empty());
        facts.extend(args.and_then(|args| serde_json::to_string(args).ok()).map(|args| ("args", args)));
    } else {
        let tools = if job.required_tools.is_empty() { "none".into() } else { job.required_tools.join(", ") };
        facts.push(("required_tools", tools));
        facts.push(("max_steps", job.max_steps.to_string()));
    }
    facts
}

fn policies(job: &JobView) -> Facts {
    let written = |value: serde_json::Result<serde_json::Value>| {
        value.ok().and_then(|v| v.as_str().map(str::to_owned)).unwrap_or_default()
    };
    let mut missed = written(serde_json::to_value(job.missed));
    if let Some(within) = job.missed_within.as_ref().filter(|_| missed != "skip") {
        missed = format!("{missed}, within {within}");
    }
    let mut facts = vec![
        ("timeout", job.timeout.clone()),
        ("missed", missed),
        ("overlap", written(serde_json::to_value(job.overlap))),
        ("retries", job.retries.to_string()),
    ];
    if !matches!(job.jitter.as_str(), "" | "0s" | "0ms") {
        facts.push(("jitter", job.jitter.clone()));
    }
    facts.push(("notify", notify(&job.notify)));
    facts
}

fn notify(notify: &NotifyView) -> String {
    let mut text = if notify.on_completion { "failures and successes" } else { "failures" }.to_owned();
    if let Some(targets) = &notify.targets {
        text.push_str(&format!(
            ", to {}",
            if targets.is_empty() { "nobody".into() } else { targets.join(", ") }
        ));
    }
    if notify.interval_minutes > 0 {
        text.push_str(&format!(", at most every {} min", notify.interval_minutes));
    }
    text
}

fn past(job: &JobView, clock: &Clock) -> Facts {
    let mut facts = Facts::new();
    if let Some(last) = &job.last_run {
        let summary = last.summary.as_deref().map(|s| format!(": {s}")).unwrap_or_default();
        let status = last.status.as_str();
        facts.push(("last run", format!("{} {status} {}{summary}", last.id, clock.past(&last.at))));
    } else {
        facts.push(("last run", "none yet".to_owned()));
    }
    facts.extend(job.last_notified_at.as_deref().map(|at| ("last notice", clock.past(at))));
    let origin = match job.origin.as_str() {
        "config" => "skep.toml",
        "agent" => "the agent itself",
        "api" => "the operator",
        "skill" => "the skill of its name",
        other => other,
    };
    facts.push(("made by", origin.to_owned()));
    facts.push(("created", clock.past(&job.created_at)));
    facts.push(("updated", clock.past(&job.updated_at)));
    facts
}

#[cfg(test)]
mod tests;
