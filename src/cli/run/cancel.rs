//! `skep run cancel`: asks for the end of runs, and waits until each is over.

use std::time::Duration;

use super::{
    super::{
        client::Client,
        failure::{FAILED, Failure, Outcome},
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
    // One that fails is told, and the others are ended all the same.
    let (mut asked, mut code) = (Vec::new(), 0);
    let mut failed = |failure: Failure| {
        context.ui.failure(&failure);
        code = FAILED;
    };
    for run in &args.runs {
        match ask(&client, *run).await {
            Ok(()) => asked.push(*run),
            Err(failure) => failed(failure),
        }
    }
    let clock = Clock::here();
    let mut runs = Vec::new();
    for run in asked {
        let ended = if args.no_wait {
            wait::look(&client, run).await
        } else {
            wait::until_over(context, &client, run, Some(Duration::from_secs(args.timeout))).await
        };
        match ended {
            Ok(run) => {
                if !args.json {
                    context.ui.line(wait::end(&run, &clock))?;
                }
                runs.push(run);
            }
            Err(failure) => failed(failure),
        }
    }
    if args.json {
        context.ui.json(&runs)?;
    }
    Ok(code)
}

/// Asks for the end of a run.
async fn ask(client: &Client, run: i64) -> Result<(), Failure> {
    let run = wait::look(client, run).await?;
    if run.status.is_over() {
        return Err(Failure::new(format!("run {} is over: it {}", run.id, wait::words(run.status)))
            .help("`skep run list --status running` shows what can be cancelled"));
    }
    client.post(&format!("/v1/runs/{}/cancel", run.id)).await
}
