//! `skep task cancel`: asks for the end of tasks, and waits until each is over.

use std::time::{Duration, Instant};

use super::{
    super::{
        client::Client,
        failure::{FAILED, Failure, Outcome},
        hive::Context,
        ui::plain,
    },
    is_over, look,
};
use crate::app::tasks::TaskView;

/// Between two looks.
const PAUSE: Duration = Duration::from_millis(100);

/// `skep task cancel`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Their numbers
    #[arg(required = true, value_name = "TASK", value_parser = super::number)]
    tasks: Vec<i64>,
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
    let (mut asked, mut ended, mut code) = (Vec::new(), Vec::new(), 0);
    let mut failed = |failure: Failure| {
        context.ui.failure(&failure);
        code = FAILED;
    };
    for task in &args.tasks {
        match client.exchange(&format!("/v1/tasks/{task}/cancel"), &()).await {
            Ok(task) => asked.push(task),
            Err(failure) => failed(failure),
        }
    }
    for task in asked {
        let told = if args.no_wait { Ok(task) } else { until_over(&client, task, args.timeout).await };
        match told {
            Ok(task) => {
                if !args.json {
                    context.ui.line(said(&task))?;
                }
                ended.push(task);
            }
            Err(failure) => failed(failure),
        }
    }
    if args.json {
        context.ui.json(&ended)?;
    }
    Ok(code)
}

async fn until_over(client: &Client, mut task: TaskView, seconds: u64) -> Result<TaskView, Failure> {
    let asked = Instant::now();
    while !is_over(&task) {
        if asked.elapsed() > Duration::from_secs(seconds) {
            let message = format!("task {} is {} after {seconds} s", task.id, task.status);
            let help = format!("it is being ended still: look with `skep task show {}`", task.id);
            return Err(Failure::new(message).help(help));
        }
        tokio::time::sleep(PAUSE).await;
        task = look(client, task.id).await?;
    }
    Ok(task)
}

/// What became of it: it may have ended before it was asked to.
pub(super) fn said(task: &TaskView) -> String {
    let why = task.error.as_deref().map(|why| format!(": {}", plain(why))).unwrap_or_default();
    match task.status.as_str() {
        "completed" => format!("task {} completed", task.id),
        "failed" => format!("task {} is over{why}", task.id),
        _ => format!("task {} is being ended", task.id),
    }
}
