//! What a run wrote, as it comes. A connection that breaks is made again, and goes on where it broke.

use std::time::{Duration, Instant};

use futures_util::StreamExt;
use reqwest::Response;

use super::{
    super::{
        client::Client,
        failure::{Failure, Outcome},
        hive::Context,
        when::Clock,
    },
    list::waits,
    wait,
};
use crate::{app::job_types::RunView, runs::state::RunStatus};

/// Between two attempts to reach the supervisor again.
const PAUSE: Duration = Duration::from_millis(500);
/// A supervisor that was restarted is back by then.
const AWAY: Duration = Duration::from_secs(60);
/// A run that nothing keeps has started by then.
const SOON: Duration = Duration::from_secs(1);

/// `skep run logs`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Its number
    #[arg(value_parser = super::number)]
    run: i64,
    /// Go on printing what comes, until the run is over
    #[arg(short, long)]
    follow: bool,
    /// Only its standard output
    #[arg(long)]
    stdout: bool,
    /// Only its standard error
    #[arg(long, conflicts_with = "stdout")]
    stderr: bool,
}

pub(super) async fn run(context: &Context, args: &Args) -> Outcome {
    let client = context.client()?;
    let stream = match (args.stdout, args.stderr) {
        (true, _) => Some("stdout"),
        (_, true) => Some("stderr"),
        _ => None,
    };
    if args.follow {
        output(context, &client, args.run, stream).await?;
        return Ok(0);
    }
    let mut printed = 0;
    let response = ask(&client, args.run, stream, false).await?;
    if let Some(broken) = print(context, &client, response, &mut printed).await? {
        return Err(broken);
    }
    if printed == 0 {
        nothing(context, &client, args.run).await?;
    }
    Ok(0)
}

/// Prints the output of a run until it is over; tells what it waits for when it does not start.
///
/// # Errors
/// There is none to print, or the supervisor went away and stayed away.
pub(in crate::cli) async fn output(
    context: &Context,
    client: &Client,
    run: i64,
    stream: Option<&str>,
) -> Result<(), Failure> {
    let printed = print_all(context, client, run, stream);
    let told = async {
        tokio::time::sleep(SOON).await;
        if let Ok(run) = wait::look(client, run).await
            && run.status == RunStatus::Queued
            && run.reason.is_some()
        {
            context.ui.note(format!("run {} has not started; it {}", run.id, waits(&run, &Clock::here())));
        }
        std::future::pending::<()>().await;
    };
    tokio::select! {
        printed = printed => printed,
        () = told => Ok(()),
    }
}

async fn print_all(
    context: &Context,
    client: &Client,
    run: i64,
    stream: Option<&str>,
) -> Result<(), Failure> {
    let mut printed = 0;
    let mut alone: Option<Instant> = None;
    loop {
        let before = printed;
        let gone = match ask(client, run, stream, true).await {
            Ok(response) => match print(context, client, response, &mut printed).await? {
                Some(broken) => Some(broken),
                None => match wait::look(client, run).await {
                    Ok(run) if run.status.is_over() => return Ok(()),
                    Ok(_) => None,
                    Err(failure) => Some(failure),
                },
            },
            // At first that is an error; later the supervisor may be restarting.
            Err(failure) if alone.is_some() => Some(failure),
            Err(failure) => return Err(failure),
        };
        if printed > before {
            alone = None;
        }
        let too_long = alone.is_some_and(|since| since.elapsed() > AWAY);
        if let Some(failure) = gone.filter(|failure| failure.status.is_some() || too_long) {
            return Err(failure);
        }
        alone.get_or_insert_with(Instant::now);
        tokio::time::sleep(PAUSE).await;
    }
}

async fn ask(client: &Client, run: i64, stream: Option<&str>, follow: bool) -> Result<Response, Failure> {
    let mut query = Vec::new();
    if follow {
        query.push(("follow", "true"));
    }
    query.extend(stream.map(|s| ("stream", s)));
    client.stream(&format!("/v1/runs/{run}/output"), &query).await
}

/// Prints what an answer gives behind the first `printed` bytes; answers why it broke, if it did.
async fn print(
    context: &Context,
    client: &Client,
    response: Response,
    printed: &mut usize,
) -> Result<Option<Failure>, Failure> {
    let mut pieces = response.bytes_stream();
    let mut at = 0;
    while let Some(piece) = pieces.next().await {
        let piece = match piece {
            Ok(piece) => piece,
            Err(e) => return Ok(Some(client.broken(&e))),
        };
        let known = printed.saturating_sub(at).min(piece.len());
        at += piece.len();
        if let Some(new) = piece.get(known..).filter(|new| !new.is_empty()) {
            context.ui.bytes(new)?;
            *printed += new.len();
        }
    }
    Ok(None)
}

/// Says why nothing was printed.
async fn nothing(context: &Context, client: &Client, run: i64) -> Result<(), Failure> {
    let run: RunView = wait::look(client, run).await?;
    let why = match run.status {
        RunStatus::Queued => "it has not started",
        RunStatus::Skipped => "it was skipped",
        _ if run.started_at.is_none() => "it never started",
        _ if run.output_bytes.is_none() && run.status.is_over() => "no output of it is kept",
        _ => "it has written nothing",
    };
    context.ui.note(format!("run {}: {why}", run.id));
    Ok(())
}
