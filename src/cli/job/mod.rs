//! `skep job`: what agents do by themselves, and when.

mod act;
mod add;
mod body;
pub(super) mod find;
mod list;
mod next;
mod schedule;
mod seed;
mod show;

use super::{failure::Outcome, hive::Context};

/// `skep job`.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// List jobs: when they fire next, how they ended last, and why some do not fire
    List(list::Args),
    /// Show one job with everything about it
    Show(show::Args),
    /// Make a job, or all jobs of a file
    #[command(after_help = add::EXAMPLES)]
    Add(Box<add::Args>),
    /// Remove jobs; the history of their runs stays
    Rm(act::RmArgs),
    /// Run a job now, also one that is paused
    #[command(after_help = act::RUN_EXAMPLES)]
    Run(act::RunArgs),
    /// Keep jobs from firing until they are resumed
    Pause(act::PauseArgs),
    /// Let paused or disabled jobs fire again; nothing that was missed is made up for
    Resume(act::PauseArgs),
    /// Show when a job, or a schedule that is no job yet, fires next
    #[command(after_help = next::EXAMPLES)]
    Next(next::Args),
}

pub(super) async fn run(context: &Context, command: &Command) -> Outcome {
    match command {
        Command::List(args) => list::run(context, args).await,
        Command::Show(args) => show::run(context, args).await,
        Command::Add(args) => add::run(context, args).await,
        Command::Rm(args) => act::remove(context, args).await,
        Command::Run(args) => act::run(context, args).await,
        Command::Pause(args) => act::pause(context, args).await,
        Command::Resume(args) => act::resume(context, args).await,
        Command::Next(args) => next::run(context, args).await,
    }
}

#[cfg(test)]
pub(super) mod tests;
