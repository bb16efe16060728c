//! One run from its lease to its recorded end.

use std::{sync::Arc, time::Duration};

use jiff::{SignedDuration, Timestamp};

use super::{
    action::{self, NoStart},
    lookup::{self, Found},
    output::{self, Collected},
    preflight, summary,
};
use crate::{
    app::{clock, hive::Hive},
    db::{
        self, DbError,
        queue::Finished,
        runs::{Act, RunRow},
    },
    init::link::LinkError,
    kill_point,
    runs::{
        result::{self, Outcome},
        state::RunStatus,
    },
    scheduler::job::Tier,
    supervisor::{agent::Agent, state::Status},
    wire::{Exit, Start},
};

/// Between two attempts to record an end.
const RETRY: Duration = Duration::from_secs(1);

/// How a run came to its end.
enum End {
    Exit(Exit),
    NeverStarted,
    /// There was nothing to do for it.
    Nothing,
    Refused(NoStart),
    Lost(String),
}

/// Takes care of a leased run: a fresh one is made ready and started, not before that time by the machine's clock;
/// others were handed to an init before.
pub(super) fn tend(hive: &Arc<Hive>, run: RunRow, fresh: Option<Timestamp>) {
    if run.process.is_none() || !hive.runs.take(&run) {
        return;
    }
    let hive = hive.clone();
    tokio::spawn(async move {
        let end = match fresh {
            Some(_) if preflight::is_idle(&hive, &run).await => End::Nothing,
            Some(not_before) => launch(&hive, &run, not_before).await,
            None => found(lookup::look_into(&hive, &run).await),
        };
        // Nothing that it called outlives it.
        if let Some(calls) = hive.runs.calls(run.id) {
            calls.ended().await;
        }
        let summary = if run.tier == Tier::Agent { summary::take(&hive, &run) } else { None };
        hive.runs.has_ended(run.id);
        record(&hive, &run, end, summary).await;
        hive.runs.tended().remove(&run.id);
        hive.due.notify_one();
    });
}

/// Ends a running run's processes; its task records the end.
pub(in crate::app) fn end(hive: &Hive, run: &RunRow) {
    if let Some(calls) = hive.runs.calls(run.id) {
        calls.end();
    }
    if let (Some((_, id)), Ok(agent)) = (&run.process, hive.find_agent(&run.agent)) {
        agent.link.end(*id, action::grace(&agent));
    }
}

fn found(found: Found) -> End {
    match found {
        Found::Ended(exit) => End::Exit(exit),
        Found::NeverStarted => End::NeverStarted,
        Found::Gone => End::Lost("its container went away under it, so its end is not known".to_owned()),
    }
}

async fn launch(hive: &Arc<Hive>, run: &RunRow, not_before: Timestamp) -> End {
    let (Ok(agent), Some((_, id))) = (hive.find_agent(&run.agent), run.process.as_ref()) else {
        return End::NeverStarted;
    };
    let start = match action::start(hive, &agent, run, *id).await {
        Ok(start) => Start { not_before_us: u64::try_from(not_before.as_microsecond()).ok(), ..start },
        Err(why) => return End::Refused(why),
    };
    let spool = match output::create(&agent.dir.run(run.id)) {
        Ok(spool) => spool,
        Err(e) => return End::Refused(format!("no file for its output: {e}").into()),
    };
    if run.tier == Tier::Agent && hive.runs.is_alone(run.id) {
        summary::clear(hive, run);
    }
    match agent.link.start(start, spool).await {
        Ok(started) => {
            kill_point!("run.started");
            // Whoever asked for its end before it had begun found nothing to end.
            if asked_to_end(hive, run.id).await {
                end(hive, run);
            }
            match started.exit.await {
                Ok(exit) => End::Exit(exit),
                Err(_) => found(lookup::look_into(hive, run).await),
            }
        }
        Err(LinkError::Down) => End::NeverStarted,
        Err(LinkError::Lost) => found(lookup::look_into(hive, run).await),
        Err(e @ LinkError::Silent) => End::Lost(e.to_string()),
        Err(e @ (LinkError::Refused { .. } | LinkError::TooLarge(_))) => {
            hive.wake.notify_one();
            End::Refused(e.to_string().into())
        }
    }
}

async fn asked_to_end(hive: &Hive, id: i64) -> bool {
    let read = hive.db.read(move |conn| db::runs::get(conn, id)).await;
    read.ok().flatten().is_some_and(|run| run.ending.is_some())
}

/// Records the end until that succeeds: the init keeps it meanwhile.
async fn record(hive: &Arc<Hive>, run: &RunRow, end: End, summary: Option<String>) {
    kill_point!("run.ended");
    let end = unless_stopped(hive, run, end);
    let (end, lasting) = unless_left_alone(hive, run, end).await;
    if matches!(end, End::NeverStarted | End::Refused(_)) {
        forget_output(hive, run);
    }
    if matches!(end, End::NeverStarted) {
        let (id, now) = (run.id, hive.now());
        until_written(hive, move |tx| db::queue::requeue(tx, id, now).map(|_| ())).await;
        return;
    }
    if matches!(end, End::Nothing) {
        let (id, now) = (run.id, hive.now());
        until_written(hive, move |tx| db::queue::skip_unstarted(tx, id, now)).await;
        return;
    }
    let ended = ended_at(hive, &end);
    let (outcome, bytes) = outcome(hive, run, end, summary).await;
    let outcome = Outcome { lasting: outcome.lasting || lasting, ..outcome };
    let (id, now) = (run.id, hive.now());
    let teller = hive.clone();
    until_written(hive, move |tx| {
        let tell = |tx: &db::Tx<'_>, run: &RunRow, job: &db::jobs::JobRow, disabled: bool| {
            teller.tell(tx, run, job, disabled, now)
        };
        let finished = db::queue::finish(tx, id, &outcome, bytes, ended, now, &tell)?;
        if let Some(Finished { run, disabled, .. }) = finished {
            let error = run.error.as_deref();
            tracing::info!(run = run.id, job = run.job_name, agent = %run.agent, status = run.status.as_str(), error, disabled, "run");
        }
        Ok(())
    })
    .await;
    kill_point!("run.recorded");
    if let (Some((_, id)), Ok(agent)) = (&run.process, hive.find_agent(&run.agent)) {
        agent.link.forget(*id);
    }
}

async fn until_written(
    hive: &Hive,
    work: impl Fn(&db::Tx<'_>) -> Result<(), DbError> + Clone + Send + 'static,
) {
    loop {
        let work = work.clone();
        match hive.db.write(move |tx| work(tx)).await {
            Ok(()) => return,
            Err(e) => tracing::error!(error = %e, "cannot record the end of a run; trying again"),
        }
        tokio::select! {
            () = tokio::time::sleep(RETRY) => {}
            () = hive.stopping.cancelled() => return,
        }
    }
}

/// When its processes were dead, as their init noted; none: nobody did.
fn ended_at(hive: &Hive, end: &End) -> Option<Timestamp> {
    let End::Exit(exit) = end else { return None };
    let at = Timestamp::from_millisecond(i64::try_from(exit.ended_ms?).ok()?).ok()?;
    let moved = SignedDuration::from_secs(clock::moved(&hive.paths));
    at.checked_add(moved).ok()
}

/// A stop of the agent ends its runs as well: that is nobody's failure.
fn unless_stopped(hive: &Hive, run: &RunRow, end: End) -> End {
    let End::Exit(exit) = &end else { return end };
    let stopping = |agent: &Arc<Agent>| agent.state().status == Some(Status::Stopping);
    if exit.code != 0 && !exit.timed_out && hive.find_agent(&run.agent).as_ref().is_ok_and(stopping) {
        return End::Lost("its agent was stopped under it".to_owned());
    }
    end
}

/// A call that had begun when its supervisor went away may have done its work: its run is lost, not failed. Answers with it
/// whether the call failed for what stays so.
async fn unless_left_alone(hive: &Hive, run: &RunRow, end: End) -> (End, bool) {
    let failed = matches!(&end, End::Exit(exit) if exit.code != 0 && !exit.timed_out);
    if !failed || run.tier != Tier::Direct {
        return (end, false);
    }
    let id = run.id;
    let read = hive.db.read(move |conn| db::runs::get(conn, id)).await;
    with_call(end, read.ok().flatten().and_then(|run| run.act))
}

fn with_call(failure: End, act: Option<Act>) -> (End, bool) {
    if act != Some(Act::Begun) {
        return (failure, act == Some(Act::Wrong));
    }
    let why =
        "the supervisor went away while the call was under way: nobody knows whether its tool did its work";
    (End::Lost(why.to_owned()), false)
}

/// Status, result and kept output of a run that came to this end.
async fn outcome(
    hive: &Arc<Hive>,
    run: &RunRow,
    end: End,
    summary: Option<String>,
) -> (Outcome, Option<u64>) {
    let exit = match end {
        End::Exit(exit) => Some(exit),
        End::NeverStarted | End::Nothing => None,
        End::Refused(NoStart { why, lasting }) => {
            return (Outcome { lasting, ..Outcome::without_output(RunStatus::Failed, why) }, None);
        }
        End::Lost(why) => {
            let bytes = collect(hive, run).await.map(|c| c.bytes);
            return (Outcome::without_output(RunStatus::Lost, why), bytes);
        }
    };
    let collected = collect(hive, run).await;
    let bytes = collected.as_ref().map(|c| c.bytes);
    let collected = collected.unwrap_or_default();
    let (stdout, tail, stderr) = collected.texts();
    let lost = Exit { code: 0, signal: None, timed_out: false, oom: false, lost: true, ended_ms: None };
    let exit = exit.unwrap_or(lost);
    let masker = hive.world().masker.clone();
    let outcome = match run.tier {
        Tier::Direct => result::direct(exit, &collected.said(&stdout, &stderr, None)),
        Tier::Agent => {
            let own = summary.as_deref().map(|text| masker.mask_str(text));
            result::agent(exit, &collected.said(&tail, &stderr, own.as_deref()))
        }
    };
    (output::masked(outcome, &masker), bytes)
}

/// Of a run that never began nothing is kept.
fn forget_output(hive: &Hive, run: &RunRow) {
    if let Err(e) = output::remove(&hive.paths.agent(&run.agent).run(run.id)) {
        tracing::warn!(run = run.id, error = %e, "the file for its output cannot be removed");
    }
}

async fn collect(hive: &Arc<Hive>, run: &RunRow) -> Option<Collected> {
    let agent = hive.find_agent(&run.agent).ok()?;
    let (folder, masker) = (agent.dir.run(run.id), hive.world().masker.clone());
    let archived = tokio::task::spawn_blocking(move || output::archive(&folder, &masker)).await;
    match archived {
        Ok(Ok(collected)) => Some(collected),
        Ok(Err(e)) => {
            tracing::warn!(run = run.id, error = %e, "its output cannot be read");
            None
        }
        Err(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_call_whose_failure_was_told_fails_its_run() {
        let exit = Exit { code: 1, signal: None, timed_out: false, oom: false, lost: false, ended_ms: None };
        for (act, lost, lasting) in [
            (None, false, false),
            (Some(Act::Failed), false, false),
            (Some(Act::Wrong), false, true),
            (Some(Act::Begun), true, false),
        ] {
            let (end, told) = with_call(End::Exit(exit), act);
            assert_eq!(
                (matches!(end, End::Lost(why) if why.contains("nobody knows")), told),
                (lost, lasting)
            );
        }
    }
}
