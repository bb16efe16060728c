//! `skep job list`: a line for each job, with the reason when it does not fire.

use comfy_table::Color;

use super::super::{
    failure::Outcome,
    hive::Context,
    ui::{Shown, short},
    when::Clock,
};
use crate::{
    app::job_types::{JobView, TriggerView},
    ids::AgentId,
};

/// `skep job list`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Only this agent's [default: all]
    agent: Option<AgentId>,
    /// Only those that fire by themselves
    #[arg(long)]
    enabled: bool,
    /// Only those that are paused or were disabled
    #[arg(long, conflicts_with = "enabled")]
    disabled: bool,
    /// Only those of this trigger
    #[arg(long, value_name = "TYPE", value_parser = ["cron", "interval", "one-shot", "event", "manual"])]
    trigger: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Characters of a state; `skep job show` tells all of it.
const STATE: usize = 100;
const HEAD: [&str; 8] = ["ID", "AGENT", "NAME", "TIER", "TRIGGER", "NEXT", "LAST", "STATE"];

pub(super) async fn run(context: &Context, args: &Args) -> Outcome {
    let mut query = vec![("limit", "1000")];
    query.extend(args.agent.as_ref().map(|a| ("agent", a.as_str())));
    query.extend(args.trigger.as_deref().map(|t| ("trigger", t)));
    match (args.enabled, args.disabled) {
        (true, _) => query.push(("enabled", "true")),
        (_, true) => query.push(("enabled", "false")),
        _ => {}
    }
    let filtered = query.len() > 1;
    let jobs: Vec<JobView> = context.client()?.list("/v1/jobs", &query).await?;
    if args.json {
        context.ui.json(&jobs)?;
        return Ok(0);
    }
    let clock = Clock::here();
    context.ui.table(&HEAD, jobs.iter().map(|job| row(job, &clock)).collect())?;
    if jobs.is_empty() {
        context.ui.note(if filtered {
            "no job is so"
        } else {
            "there are no jobs yet: make one with `skep job add`, or write [[agents.NAME.jobs]] in skep.toml"
        });
    }
    Ok(0)
}

fn row(job: &JobView, clock: &Clock) -> Vec<Shown> {
    let next = job.next_fire_at.as_deref().filter(|_| job.enabled);
    vec![
        job.id.to_string().into(),
        job.agent.as_str().into(),
        short(&job.name, 40).into(),
        job.tier.as_str().into(),
        short(&trigger(&job.trigger, clock), 50).into(),
        next.map_or_else(|| "-".to_owned(), |at| clock.coming(at)).into(),
        last(job, clock),
        Shown::from(short(&state(job, clock), STATE)).color(color(job)),
    ]
}

/// When it fires, in a few words; the zone when it is not this machine's.
pub(super) fn trigger(trigger: &TriggerView, clock: &Clock) -> String {
    let of = |value: &Option<String>| value.clone().unwrap_or_default();
    match trigger.kind.as_str() {
        "cron" => match trigger.timezone.as_deref().filter(|z| clock.zone.iana_name().unwrap_or("UTC") != *z)
        {
            Some(zone) => format!("{} ({zone})", of(&trigger.schedule)),
            None => of(&trigger.schedule),
        },
        "interval" => format!("every {}", of(&trigger.every)),
        "one-shot" => format!("once, {}", clock.wall(&of(&trigger.at))),
        "event" => format!("on {}", trigger.event.as_deref().unwrap_or_default().join(", ")),
        other => other.to_owned(),
    }
}

fn last(job: &JobView, clock: &Clock) -> Shown {
    let Some(last) = &job.last_run else { return "-".into() };
    let shown = Shown::from(format!("{} {}", last.status.as_str(), clock.ago(&last.at)));
    if last.status.is_failure() { shown.color(Color::Red) } else { shown }
}

/// Whether it fires, and if not, why.
pub(super) fn state(job: &JobView, clock: &Clock) -> String {
    let mut state = match (&job.disabled_reason, &job.waiting_reason) {
        (Some(why), _) if !job.enabled => format!("disabled: {}", clock.eased(why)),
        _ if !job.enabled => "disabled".to_owned(),
        (_, Some(why)) => clock.eased(why),
        _ => "enabled".to_owned(),
    };
    if job.enabled && job.waiting_reason.is_none() && job.consecutive_failures > 0 {
        let times = if job.consecutive_failures == 1 { "failure" } else { "failures in a row" };
        state.push_str(&format!("; {} {times}", job.consecutive_failures));
    }
    let missing: Vec<&str> =
        job.missing_tools.iter().filter(|tool| !state.contains(*tool)).map(String::as_str).collect();
    if !missing.is_empty() {
        state.push_str(&format!("; missing tools: {}", missing.join(", ")));
    }
    state
}

fn color(job: &JobView) -> Color {
    // Of these the reason says only that they have no fire times.
    let by_itself = !matches!(job.trigger.kind.as_str(), "manual" | "event");
    if !job.enabled {
        Color::DarkGrey
    } else if by_itself && job.waiting_reason.is_some() || job.consecutive_failures > 0 {
        Color::Yellow
    } else {
        Color::Green
    }
}

#[cfg(test)]
mod tests;
