//! `skep run cancel`: asks for the end of runs, and waits until each is over.

use std::time::Duration;

use super::{
    super::{
        failure::{Failure, Outcome},
        hive::Context,
        when::Clock,
    },
    wait,
};

/// `skep run cancel`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Their numbers
    #[arg(required = true, value_name = "RUN", value_parser = super::number)]
    runs: Vec<i64>,
    /// Do not wait until they are over
    #[arg(long)]
    no_wait: bool,
    /// Seconds to wait at most
    #[arg(long, value_name = "SECONDS", default_value_t = 120, conflicts_with = "no_wait")]
    timeout: u64,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(context: &Context, args: &Args) -> Outcome {
    let client = context.client()?;
    // All are looked at first: a number that does not exist ends nothing.
    for run in &args.runs {
        let run = wait::look(&client, *run).await?;
        if run.status.is_over() {
            return Err(Failure::new(format!("run {} is over: it {}", run.id, wait::words(run.status)))
                .help("`skep run list --status running` shows what can be cancelled"));
        }
    }
    for run in &args.runs {
        client.post(&format!("/v1/runs/{run}/cancel")).await?;
    }
    let clock = Clock::here();
    let mut runs = Vec::new();
    for run in &args.runs {
        let run = if args.no_wait {
            wait::look(&client, *run).await?
        } else {
            wait::until_over(context, &client, *run, Some(Duration::from_secs(args.timeout))).await?
        };
        if !args.json {
            context.ui.line(wait::end(&run, &clock))?;
        }
        runs.push(run);
    }
    if args.json {
        context.ui.json(&runs)?;
    }
    Ok(0)
}
