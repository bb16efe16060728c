//! `skep run list`: a line for each run, with what came of it.

use comfy_table::Color;

use super::super::{
    client::Client,
    failure::{Failure, Outcome},
    hive::Context,
    job::find,
    ui::{Shown, short},
    when::Clock,
};
use crate::{app::job_types::RunView, ids::AgentId, runs::state::RunStatus};

/// `skep run list`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Only this agent's [default: all]
    agent: Option<AgentId>,
    /// Only this job's: its number, AGENT/NAME, or a name that only one agent has
    #[arg(long)]
    job: Option<String>,
    /// Only in this status; may be given several times
    #[arg(long, value_name = "STATUS", value_parser = clap::builder::PossibleValuesParser::new(
        RunStatus::ALL.map(RunStatus::as_str)))]
    status: Vec<String>,
    /// So many at most
    #[arg(short = 'n', long = "limit", value_name = "N", default_value_t = 20,
        value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

const HEAD: [&str; 8] = ["ID", "JOB", "AGENT", "STATUS", "SCHEDULED", "STARTED", "TOOK", "SUMMARY"];
/// Characters of a summary.
const SUMMARY: usize = 80;

pub(super) async fn run(context: &Context, args: &Args) -> Outcome {
    let client = context.client()?;
    let job = match &args.job {
        Some(job) => Some(find::job(&client, job).await?.id.to_string()),
        None => None,
    };
    let mut query = Vec::new();
    query.extend(args.agent.as_ref().map(|a| ("agent", a.as_str())));
    query.extend(job.as_deref().map(|job| ("job", job)));
    let (runs, more) = newest(&client, &query, &args.status, args.limit as usize).await?;
    // Agents that are no longer there have a history.
    if let Some(agent) = args.agent.as_ref().filter(|_| runs.is_empty()) {
        client.get::<serde_json::Value>(&format!("/v1/agents/{agent}"), &[]).await?;
    }
    if args.json {
        context.ui.json(&runs)?;
        return Ok(0);
    }
    let clock = Clock::here();
    context.ui.table(&HEAD, runs.iter().map(|run| row(run, &clock)).collect())?;
    if more {
        context.ui.note("there are older ones: -n shows more");
    } else if runs.is_empty() {
        context.ui.note(if query.is_empty() && args.status.is_empty() {
            "nothing has run yet: `skep job list` shows what fires when"
        } else {
            "no run is so"
        });
    }
    Ok(0)
}

/// The newest runs in any of these statuses, and whether there are older ones.
async fn newest(
    client: &Client,
    query: &[(&str, &str)],
    statuses: &[String],
    most: usize,
) -> Result<(Vec<RunView>, bool), Failure> {
    if statuses.is_empty() {
        return client.first("/v1/runs", query, most).await;
    }
    let mut statuses = statuses.to_vec();
    statuses.sort();
    statuses.dedup();
    let mut runs: Vec<RunView> = Vec::new();
    let mut more = false;
    // The supervisor takes one at a time.
    for status in &statuses {
        let query = [query, &[("status", status.as_str())]].concat();
        let (some, rest) = client.first("/v1/runs", &query, most).await?;
        runs.extend(some);
        more |= rest;
    }
    runs.sort_by_key(|run| std::cmp::Reverse(run.id));
    more |= runs.len() > most;
    runs.truncate(most);
    Ok((runs, more))
}

fn row(run: &RunView, clock: &Clock) -> Vec<Shown> {
    let started = run.started_at.as_deref();
    let dash = || "-".to_owned();
    vec![
        run.id.to_string().into(),
        short(&run.job_name, 40).into(),
        run.agent.as_str().into(),
        Shown::from(status(run)).color(color(run.status)),
        clock.wall(&run.scheduled_at).into(),
        started.map_or_else(dash, |at| clock.ago(at)).into(),
        started.map_or_else(dash, |at| clock.took(at, run.finished_at.as_deref())).into(),
        short(&summary(run, clock), SUMMARY).into(),
    ]
}

fn status(run: &RunView) -> String {
    match run.attempt {
        0 | 1 => run.status.as_str().to_owned(),
        attempt => format!("{} (attempt {attempt})", run.status.as_str()),
    }
}

/// What came of it, in a line.
fn summary(run: &RunView, clock: &Clock) -> String {
    let text = match run.status {
        RunStatus::Skipped => return skipped(run, clock),
        RunStatus::Queued => return waits(run, clock),
        RunStatus::Running => run.reason.as_deref().or(run.summary.as_deref()),
        RunStatus::Succeeded => run.summary.as_deref(),
        _ => run.error.as_deref().or(run.summary.as_deref()),
    };
    text.unwrap_or_default().to_owned()
}

/// What a run that is queued waits for.
pub(super) fn waits(run: &RunView, clock: &Clock) -> String {
    run.reason.as_deref().map(|why| format!("waits: {}", clock.eased(why))).unwrap_or_default()
}

/// Why it was skipped, and for how many fire times it stands.
pub(super) fn skipped(run: &RunView, clock: &Clock) -> String {
    let why = match run.reason.as_deref() {
        Some("missed") => "missed: skep was down or halted",
        Some("expired") => "expired: its time passed too long ago",
        Some("overlap") => "overlap: an earlier run was not over",
        Some("backoff") => "backoff: its job waits after failures",
        Some("crowded") => "crowded: too many runs of its agent waited",
        Some("depth") => "depth: so many events and runs led to it in a row that something triggers itself",
        Some(other) => other,
        None => "",
    };
    match (run.skipped, &run.skipped_until) {
        (Some(count), Some(until)) if count > 1 => {
            format!("{why} ({count} times, the last {})", clock.wall(until))
        }
        (Some(count), None) if count > 1 => format!("{why} ({count} times)"),
        _ => why.to_owned(),
    }
}

fn color(status: RunStatus) -> Color {
    match status {
        RunStatus::Succeeded => Color::Green,
        RunStatus::Failed | RunStatus::TimedOut | RunStatus::Lost => Color::Red,
        RunStatus::Running => Color::Cyan,
        RunStatus::Queued => Color::Yellow,
        RunStatus::Skipped | RunStatus::Cancelled => Color::DarkGrey,
    }
}

#[cfg(test)]
mod tests;
