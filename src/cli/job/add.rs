//! `skep job add`: a job from flags, or jobs from a file.

use std::io::Read;

use super::{
    super::{
        failure::{Failure, Outcome, USAGE},
        hive::Context,
        when::Clock,
    },
    body, find, seed,
};
use crate::{app::job_types::JobWritten, ids::AgentId};

pub(super) const EXAMPLES: &str = "\
Examples:
  A tool call, on workdays at nine:
    skep job add --agent writer --name morning-post --schedule '0 9 * * MON-FRI' \\
      --tool post-twitter --arg content='Good morning'
  Instructions that the agent follows, every Sunday:
    skep job add --agent writer --name weekly --schedule '0 18 * * SUN' \\
      --instructions 'Summarise the week.' --required-tool read-file
  Once, in two hours:
    skep job add --agent writer --name remind --in 2h --instructions - < reminder.txt
  All jobs of a file, or those that come with skep (they begin disabled):
    skep job add --file jobs.json
    skep job add --agent manager --file default-jobs";

/// `skep job add`.
#[derive(Debug, Default, clap::Args)]
#[command(override_usage = "skep job add [--agent AGENT] --name NAME WHEN WHAT [OPTIONS]\n       \
    skep job add [--agent AGENT] --file FILE")]
#[command(group = clap::ArgGroup::new("when").required(true)
    .args(["schedule", "every", "at", "after", "event", "manual", "file"]))]
#[command(group = clap::ArgGroup::new("what").required(true).multiple(true)
    .args(["tool", "instructions", "file"]))]
pub struct Args {
    /// Whose job it is [default: default_agent of skep.toml]
    #[arg(long)]
    pub(super) agent: Option<AgentId>,
    /// Its name, unique among the agent's
    #[arg(long, required_unless_present = "file")]
    pub(super) name: Option<String>,
    /// What it is for, for people
    #[arg(long, value_name = "TEXT")]
    pub(super) description: Option<String>,
    /// Take the body of one job, or a list of them, from this JSON file; - is standard input, default-jobs
    /// is the list that comes with skep. Jobs whose names exist are left alone
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath, conflicts_with_all = [
        "name", "description", "timezone", "args", "arg", "required_tools", "max_steps", "timeout", "missed",
        "missed_within", "overlap", "retries", "jitter", "no_notify", "notify_on_completion", "notify_interval",
        "notify_targets", "disabled", "tool", "instructions",
    ])]
    pub(super) file: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    pub(super) trigger: Trigger,
    #[command(flatten)]
    pub(super) action: Action,
    #[command(flatten)]
    pub(super) policy: Policy,
}

#[derive(Debug, Default, clap::Args)]
#[command(next_help_heading = "When it fires (one of them)")]
pub(super) struct Trigger {
    /// Cron: minute, hour, day, month, weekday (with six fields, seconds first); or @daily and friends
    #[arg(long, value_name = "CRON")]
    pub(super) schedule: Option<String>,
    /// So long after each start, like 30m
    #[arg(long, value_name = "TIME")]
    pub(super) every: Option<String>,
    /// Once, like 2026-12-24T18:00:00
    #[arg(long, value_name = "WHEN")]
    pub(super) at: Option<String>,
    /// Once, so long from now, like 2h
    #[arg(long = "in", id = "after", value_name = "TIME", value_parser = body::span)]
    pub(super) after: Option<std::time::Duration>,
    /// When an event of this name is raised; * at its end stands for the rest; may be given several times
    #[arg(long, value_name = "NAME")]
    pub(super) event: Vec<String>,
    /// Only by `skep job run`
    #[arg(long)]
    pub(super) manual: bool,
    /// Time zone of --schedule and --at, like Europe/Berlin [default: the hive's]
    #[arg(long, value_name = "ZONE")]
    pub(super) timezone: Option<String>,
}

#[derive(Debug, Default, clap::Args)]
#[command(next_help_heading = "What it does")]
pub(super) struct Action {
    /// Call this tool, without a model
    #[arg(long)]
    pub(super) tool: Option<String>,
    /// The tool's arguments as a JSON object
    #[arg(long, value_name = "JSON", requires = "tool", value_parser = body::object)]
    pub(super) args: Option<body::Object>,
    /// One argument: KEY=TEXT, or KEY:=JSON for numbers and the like; may be given several times
    #[arg(long, value_name = "KEY=TEXT", requires = "tool", conflicts_with = "args", value_parser = body::argument)]
    pub(super) arg: Vec<body::Argument>,
    /// Tell the agent this; - reads it from standard input
    #[arg(long, value_name = "TEXT")]
    pub(super) instructions: Option<String>,
    /// A tool that the agent may use while it follows the instructions; may be given several times
    #[arg(long = "required-tool", value_name = "TOOL")]
    pub(super) required_tools: Vec<String>,
    /// Tool calls that the agent may make [default: 10]
    #[arg(long, value_name = "N")]
    pub(super) max_steps: Option<u32>,
}

#[derive(Debug, Default, clap::Args)]
#[command(next_help_heading = "How it runs")]
pub(super) struct Policy {
    /// Time limit of a run [default: 60s with a tool, else 1h]
    #[arg(long, value_name = "TIME")]
    pub(super) timeout: Option<String>,
    /// Which of the fire times to make up for that passed while skep was down or halted [default: last]
    #[arg(long, value_parser = ["skip", "last", "all"])]
    pub(super) missed: Option<String>,
    /// Never make up for what was missed longer ago [default: 24h]
    #[arg(long, value_name = "TIME")]
    pub(super) missed_within: Option<String>,
    /// What to do when it fires and its last run is not over [default: skip]
    #[arg(long, value_parser = ["skip", "queue", "replace", "allow"])]
    pub(super) overlap: Option<String>,
    /// Attempts after the first, when a run fails [default: 0]
    #[arg(long, value_name = "N")]
    pub(super) retries: Option<u32>,
    /// Put its fire times off by a fixed part of this, so that not all jobs start at once
    #[arg(long, value_name = "TIME")]
    pub(super) jitter: Option<String>,
    /// Tell nobody of successes; failures are always told
    #[arg(long)]
    pub(super) no_notify: bool,
    /// Tell of successes too, which is the default
    #[arg(long, conflicts_with = "no_notify")]
    pub(super) notify_on_completion: bool,
    /// Minutes between two notices at least [default: as [notify] of skep.toml says]
    #[arg(long, value_name = "MINUTES")]
    pub(super) notify_interval: Option<u32>,
    /// Tell this target of [notify]; may be given several times [default: all]
    #[arg(long = "notify-target", value_name = "NAME")]
    pub(super) notify_targets: Vec<String>,
    /// Make it, but keep it from firing until `skep job resume`
    #[arg(long)]
    pub(super) disabled: bool,
}

pub(super) async fn run(context: &Context, args: &Args) -> Outcome {
    if let Some(file) = &args.file {
        return seed::run(context, file, args.agent.as_ref(), args.json).await;
    }
    let mut instructions = args.action.instructions.clone();
    if instructions.as_deref() == Some("-") {
        instructions = Some(read_input("the instructions")?);
    }
    let body = body::of(args, instructions);
    let answer = context.client()?.exchange("/v1/jobs", &body).await;
    // What is wrong is on the command line.
    let mut written: JobWritten = answer.map_err(|failure| match failure.status {
        Some(422) => Failure { code: USAGE, ..failure },
        _ => failure,
    })?;
    if args.json {
        context.ui.json(&written)?;
        return Ok(0);
    }
    // That --in is a time now goes without saying.
    written.warnings.retain(|warning| !warning.starts_with("in_minutes "));
    tell(context, &written, &Clock::here())?;
    for warning in &written.warnings {
        context.ui.warn(warning);
    }
    Ok(0)
}

/// Tells of a job that was made, but not its warnings.
pub(super) fn tell(context: &Context, written: &JobWritten, clock: &Clock) -> Result<(), Failure> {
    let job = &written.job;
    context.ui.line(format!("added {} as job {}", find::full_name(job), job.id))?;
    context.ui.note(format!("  {}", outlook(written, clock)));
    Ok(())
}

/// What comes next.
fn outlook(written: &JobWritten, clock: &Clock) -> String {
    let job = &written.job;
    if !job.enabled {
        return super::list::state(job, clock);
    }
    let fires: Vec<String> = written
        .next_fires
        .iter()
        .enumerate()
        .map(|(n, at)| if n == 0 { clock.coming(at) } else { clock.wall(at) })
        .collect();
    match (fires.is_empty(), &job.waiting_reason) {
        (false, Some(why)) => format!("fires {}; but: {}", fires.join(", "), clock.eased(why)),
        (false, None) => format!("fires {}", fires.join(", ")),
        (true, _) if job.trigger.kind == "event" => {
            format!("fires {}", super::list::trigger(&job.trigger, clock))
        }
        (true, Some(why)) => clock.eased(why),
        (true, None) => format!("run it with `skep job run {}`", job.id),
    }
}

/// All of standard input as text.
pub(super) fn read_input(what: &str) -> Result<String, Failure> {
    /// More than any body that the supervisor takes.
    const MOST: u64 = 16 << 20;
    let mut text = String::new();
    std::io::stdin()
        .lock()
        .take(MOST)
        .read_to_string(&mut text)
        .map_err(|e| Failure::usage(format!("cannot read {what} from standard input: {e}")))?;
    Ok(text)
}
