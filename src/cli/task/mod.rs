//! `skep task`: background tasks (systems.md A21), which agents queue with `queue_task`.

mod cancel;
mod list;
mod show;

use super::{
    client::Client,
    failure::{Failure, Outcome},
    hive::Context,
};
use crate::app::tasks::TaskView;

/// `skep task`.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// List tasks, newest first
    List(list::Args),
    /// Show one task with what it does and what it answered
    Show(show::Args),
    /// End tasks, and wait until they are over
    Cancel(cancel::Args),
}

pub(super) async fn run(context: &Context, command: &Command) -> Outcome {
    match command {
        Command::List(args) => list::run(context, args).await,
        Command::Show(args) => show::run(context, args).await,
        Command::Cancel(args) => cancel::run(context, args).await,
    }
}

/// Reads the number of a task.
fn number(text: &str) -> Result<i64, String> {
    text.parse().ok().filter(|n| *n > 0).ok_or_else(|| {
        "a task is asked for by its number: `skep task list` shows them, and `queue_task` answers it as taskId"
            .to_owned()
    })
}

async fn look(client: &Client, task: i64) -> Result<TaskView, Failure> {
    client.get(&format!("/v1/tasks/{task}"), &[]).await
}

fn is_over(task: &TaskView) -> bool {
    matches!(task.status.as_str(), "completed" | "failed")
}

#[cfg(test)]
mod tests;
