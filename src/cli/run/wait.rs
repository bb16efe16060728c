//! Waits until a run is over, and says how it ended.

use std::time::{Duration, Instant};

use super::{
    super::{
        client::Client,
        failure::{FAILED, Failure},
        hive::Context,
        ui::plain,
        when::Clock,
    },
    list::waits,
};
use crate::{app::job_types::RunView, runs::state::RunStatus};

/// Between two looks, at first and later.
const PAUSES: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(1));

/// The run as it is.
///
/// # Errors
/// There is none, or the supervisor does not answer.
pub(super) async fn look(client: &Client, run: i64) -> Result<RunView, Failure> {
    client.get(&format!("/v1/runs/{run}"), &[]).await
}

/// Waits until a run is over; at most so long.
///
/// # Errors
/// As [`look`]; its time is up.
pub(in crate::cli) async fn until_over(
    context: &Context,
    client: &Client,
    id: i64,
    most: Option<Duration>,
) -> Result<RunView, Failure> {
    let asked = Instant::now();
    let spinner = context.ui.spinner();
    let mut pause = PAUSES.0;
    loop {
        let run = look(client, id).await.inspect_err(|_| spinner.finish_and_clear())?;
        if run.status.is_over() {
            spinner.finish_and_clear();
            return Ok(run);
        }
        if most.is_some_and(|most| asked.elapsed() > most) {
            spinner.finish_and_clear();
            let status = run.status.as_str();
            return Err(Failure::new(format!("run {id} is {status} after {} s", asked.elapsed().as_secs()))
                .help(format!("it is being ended still: look with `skep run show {id}`")));
        }
        let why = match waits(&run, &Clock::here()) {
            why if why.is_empty() => why,
            why => format!(" ({why})"),
        };
        spinner.set_message(format!(
            "run {id}: {}{why}, {} s",
            run.status.as_str(),
            asked.elapsed().as_secs()
        ));
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(PAUSES.1);
    }
}

/// Says how a run ended, and why when it did not succeed.
pub(in crate::cli) fn tell_end(context: &Context, run: &RunView, clock: &Clock) {
    context.ui.note(end(run, clock));
}

pub(super) fn end(run: &RunView, clock: &Clock) -> String {
    let took = match (&run.started_at, &run.finished_at) {
        (Some(begin), Some(end)) => format!(" after {}", clock.took(begin, Some(end))),
        _ => String::new(),
    };
    let why = match run.status {
        RunStatus::Succeeded => None,
        RunStatus::Failed | RunStatus::Lost | RunStatus::TimedOut => run.error.as_deref(),
        _ => run.error.as_deref().or(run.reason.as_deref()),
    };
    let words = words(run.status);
    let why = why.map(|why| match why.strip_prefix("it ").and_then(|why| why.strip_prefix(words)) {
        Some(rest) => plain(rest),
        None => format!(": {}", plain(why)),
    });
    format!("run {} {words}{took}{}", run.id, why.unwrap_or_default())
}

/// A status in a sentence.
pub(super) fn words(status: RunStatus) -> &'static str {
    match status {
        RunStatus::TimedOut => "timed out",
        RunStatus::Cancelled => "was cancelled",
        RunStatus::Skipped => "was skipped",
        RunStatus::Lost => "was lost",
        RunStatus::Queued => "is queued",
        RunStatus::Running => "is running",
        RunStatus::Succeeded => "succeeded",
        RunStatus::Failed => "failed",
    }
}

/// 0 for what succeeded, else 1.
pub(in crate::cli) fn code(run: &RunView) -> u8 {
    if run.status == RunStatus::Succeeded { 0 } else { FAILED }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::cli::{job::tests::clock, run::tests::view};

    #[test]
    fn the_end_of_a_run_is_told_with_its_reason() {
        let ends = [
            json!({}),
            json!({"status": "failed", "error": "exit code 3", "exit_code": 3}),
            json!({"status": "cancelled", "error": "it was cancelled"}),
            json!({"status": "timed_out", "error": "its time was up"}),
            json!({"status": "skipped", "reason": "overlap", "started_at": null}),
            json!({"status": "cancelled", "started_at": null, "error": "it was cancelled before it started"}),
        ];
        let told: Vec<String> = ends.iter().map(|fields| end(&view(fields), &clock())).collect();
        insta::assert_snapshot!(told.join("\n"), @r"
        run 12 succeeded after 12.5 s
        run 12 failed after 12.5 s: exit code 3
        run 12 was cancelled after 12.5 s
        run 12 timed out after 12.5 s: its time was up
        run 12 was skipped: overlap
        run 12 was cancelled before it started
        ");
        assert_eq!(ends.map(|fields| code(&view(&fields))), [0, 1, 1, 1, 1, 1]);
    }
}
