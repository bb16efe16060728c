//! `skep run`: the runs of jobs, their output and their end.

mod cancel;
pub(super) mod follow;
mod list;
mod show;
pub(super) mod wait;

use super::{failure::Outcome, hive::Context};

/// `skep run`.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// List runs, newest first
    List(list::Args),
    /// Show one run with everything about it
    Show(show::Args),
    /// Print what a run wrote
    Logs(follow::Args),
    /// End runs, and wait until they are over
    Cancel(cancel::Args),
}

pub(super) async fn run(context: &Context, command: &Command) -> Outcome {
    match command {
        Command::List(args) => list::run(context, args).await,
        Command::Show(args) => show::run(context, args).await,
        Command::Logs(args) => follow::run(context, args).await,
        Command::Cancel(args) => cancel::run(context, args).await,
    }
}

/// Reads the number of a run.
fn number(text: &str) -> Result<i64, String> {
    text.parse().ok().filter(|n| *n > 0).ok_or_else(|| {
        "a run is asked for by its number: `skep run list` shows them, `--job JOB` those of one job"
            .to_owned()
    })
}

#[cfg(test)]
mod tests;
