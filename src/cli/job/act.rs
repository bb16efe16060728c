//! `skep job rm`, `run`, `pause` and `resume`.

use reqwest::Method;

use super::{
    super::{
        ask,
        failure::{FAILED, Outcome},
        hive::Context,
        run::{follow, wait},
        when::Clock,
    },
    find::{self, full_name},
    list,
};
use crate::app::job_types::{JobView, RunView};

pub(super) const RUN_EXAMPLES: &str = "\
Prints the number of the run, with which `skep run show`, `logs` and `cancel` are asked.
With --follow or --wait it ends with 0 when the run succeeded, else with 1; Ctrl-C ends
the watching, not the run.";

/// `skep job rm`.
#[derive(Debug, clap::Args)]
pub struct RmArgs {
    /// Their numbers, AGENT/NAME, or names that only one agent has
    #[arg(required = true, value_name = "JOB")]
    jobs: Vec<String>,
    /// Do not ask
    #[arg(short, long)]
    yes: bool,
}

/// `skep job run`.
#[derive(Debug, clap::Args)]
pub struct RunArgs {
    /// Its number, AGENT/NAME, or a name that only one agent has
    job: String,
    /// Print what it writes, until it is over
    #[arg(short, long)]
    follow: bool,
    /// Wait until it is over
    #[arg(long)]
    wait: bool,
    /// Print JSON
    #[arg(long, conflicts_with = "follow")]
    json: bool,
}

/// `skep job pause`, `resume`.
#[derive(Debug, clap::Args)]
pub struct PauseArgs {
    /// Their numbers, AGENT/NAME, or names that only one agent has
    #[arg(required = true, value_name = "JOB")]
    jobs: Vec<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) async fn remove(context: &Context, args: &RmArgs) -> Outcome {
    let client = context.client()?;
    let jobs = find::jobs(&client, &args.jobs).await?;
    if !args.yes && !ask::sure(context, "rm", &question(&jobs))? {
        return Ok(FAILED);
    }
    for job in &jobs {
        client.call::<()>(Method::DELETE, &format!("/v1/jobs/{}", job.id), None).await?;
        context.ui.line(format!("removed {} (job {})", full_name(job), job.id))?;
    }
    Ok(0)
}

fn question(jobs: &[JobView]) -> String {
    match jobs {
        [job] => format!("This removes the job {} for good. Remove it?", full_name(job)),
        _ => {
            let names: Vec<String> = jobs.iter().map(|job| format!("  {}", full_name(job))).collect();
            format!("This removes {} jobs for good:\n{}\nRemove them?", jobs.len(), names.join("\n"))
        }
    }
}

pub(super) async fn run(context: &Context, args: &RunArgs) -> Outcome {
    let client = context.client()?;
    let clock = Clock::here();
    let job = find::job(&client, &args.job).await?;
    let response = client.call::<()>(Method::POST, &format!("/v1/jobs/{}/run", job.id), None).await?;
    let mut run: RunView = response.json().await.map_err(|e| client.broken(&e))?;
    if args.follow {
        context.ui.note(format!("run {} of {}", run.id, full_name(&job)));
        follow::output(context, &client, run.id, None).await?;
    } else if !args.json {
        context.ui.line(run.id.to_string())?;
    }
    if args.follow || args.wait {
        run = wait::until_over(context, &client, run.id, None).await?;
    }
    if args.json {
        context.ui.json(&run)?;
    } else if args.follow || args.wait {
        wait::tell_end(context, &run, &clock);
        if run.status.may_retry() && run.attempt <= job.retries {
            context.ui.note(format!("attempt {} follows: `skep run list --job {}`", run.attempt + 1, job.id));
        }
    } else if let Some(why) = &run.reason {
        context.ui.note(format!("it waits: {}", clock.eased(why)));
    }
    Ok(if args.follow || args.wait { wait::code(&run) } else { 0 })
}

pub(super) async fn pause(context: &Context, args: &PauseArgs) -> Outcome {
    switch(context, args, "pause").await
}

pub(super) async fn resume(context: &Context, args: &PauseArgs) -> Outcome {
    switch(context, args, "resume").await
}

async fn switch(context: &Context, args: &PauseArgs, verb: &str) -> Outcome {
    let client = context.client()?;
    let clock = Clock::here();
    let mut switched: Vec<JobView> = Vec::new();
    for job in find::jobs(&client, &args.jobs).await? {
        client.post(&format!("/v1/jobs/{}/{verb}", job.id)).await?;
        let job: JobView = client.get(&format!("/v1/jobs/{}", job.id), &[]).await?;
        if !args.json {
            context.ui.line(told(&job, &clock))?;
        }
        switched.push(job);
    }
    if args.json {
        context.ui.json(&switched)?;
    }
    Ok(0)
}

/// How a job stands after it was paused or resumed.
fn told(job: &JobView, clock: &Clock) -> String {
    let next = job.next_fire_at.as_deref().filter(|_| job.enabled && job.waiting_reason.is_none());
    match next {
        Some(at) => format!("{}: enabled, fires {}", full_name(job), clock.coming(at)),
        None => format!("{}: {}", full_name(job), super::super::ui::plain(&list::state(job, clock))),
    }
}
