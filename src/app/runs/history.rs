//! What the edges ask of runs: lists, one run, its output, its end; and halts.

use std::{fs::File, path::PathBuf, time::Duration};

use bytes::Bytes;
use jiff::{Timestamp, tz::TimeZone};
use tokio::sync::mpsc;

use super::{Halts, execute, output};
use crate::{
    app::{
        Result,
        hive::Hive,
        job_types::{HaltView, RunEventView, RunView},
        logs::{LogRequest, LogStream, Printer},
        types::AppError,
    },
    config::model::Runs,
    db::{
        self, DbError,
        queue::{Cancelled, Obstacle},
        runs::{RunFilter, RunRow},
    },
    ids::AgentId,
    runs::state::RunStatus,
    supervisor::state::Status,
};

/// How often a follower looks for more.
const POLL: Duration = Duration::from_millis(100);

/// Which output of a run.
#[derive(Debug, Clone, Copy, Default)]
pub struct RunOutputRequest {
    /// Go on until the run is over.
    pub follow: bool,
    /// Only one stream.
    pub stream: Option<LogStream>,
}

/// A time with the offset of a zone.
pub(in crate::app) fn shown(at: Timestamp, zone: Option<&TimeZone>) -> String {
    let zone = zone.cloned().unwrap_or(TimeZone::UTC);
    at.to_zoned(zone).strftime("%Y-%m-%dT%H:%M:%S%.f%:z").to_string()
}

/// A run as the API shows it, its times in a zone.
#[must_use]
pub fn view(run: &RunRow, zone: Option<&TimeZone>) -> RunView {
    let time = |at: Timestamp| shown(at, zone);
    RunView {
        id: run.id,
        agent: run.agent.to_string(),
        job: run.job,
        job_name: run.job_name.clone(),
        tier: run.tier,
        trigger: run.cause,
        event: run.event.zip(run.event_name.clone()).map(|(id, name)| RunEventView { id, name }),
        scheduled_at: time(run.scheduled_at),
        shifted_by_dst: run.shifted_from.clone(),
        started_at: run.started_at.map(time),
        finished_at: run.finished_at.map(time),
        attempt: run.attempt,
        status: run.status,
        reason: run.reason.clone(),
        skipped: run.skipped.map(|(count, _)| count),
        skipped_until: run.skipped.map(|(_, until)| time(until)),
        exit_code: run.exit_code,
        result: run.result.clone(),
        error: run.error.clone(),
        warnings: run.warning.clone().into_iter().collect(),
        summary: run.summary.clone(),
        steps: run.steps,
        output_bytes: run.output_bytes,
    }
}

impl Hive {
    /// The zone that times are shown in where nothing else says.
    #[must_use]
    pub fn zone(&self) -> TimeZone {
        TimeZone::get(&self.world().config.zone).unwrap_or(TimeZone::UTC)
    }

    /// Runs, newest first, older than `before`, at most `limit`. An agent gets its own.
    ///
    /// # Errors
    /// The database fails.
    pub async fn runs(
        &self,
        caller: Option<&AgentId>,
        mut filter: RunFilter,
        before: Option<i64>,
        limit: usize,
    ) -> Result<Vec<RunView>> {
        if let Some(caller) = caller {
            if filter.agent.as_ref().is_some_and(|agent| agent != caller) {
                return Ok(Vec::new());
            }
            filter.agent = Some(caller.clone());
        }
        let zone = self.zone();
        let limits = self.world().config.runs;
        let read = move |conn: &db::Conn| {
            let rows = db::runs::list(conn, &filter, before, limit)?;
            rows.into_iter()
                .map(|run| obstructed(conn, run, &limits))
                .collect::<std::result::Result<Vec<_>, DbError>>()
        };
        let rows = self.db.read(read).await?;
        Ok(rows.iter().map(|(run, obstacle)| self.run_view(run, *obstacle, &zone)).collect())
    }

    /// A run, and what it waits for: when nothing else, for what is in the way.
    pub(in crate::app) fn run_view(
        &self,
        run: &RunRow,
        obstacle: Option<Obstacle>,
        zone: &TimeZone,
    ) -> RunView {
        let mut view = view(run, Some(zone));
        if run.status == RunStatus::Queued {
            view.reason = self.waits_for(run, obstacle);
        }
        view
    }

    /// What a queued run waits for; none: it is about to start.
    fn waits_for(&self, run: &RunRow, obstacle: Option<Obstacle>) -> Option<String> {
        let now = self.now();
        let halts = self.runs.halts();
        if halts.hive.is_some() {
            return Some("the hive is halted; `skep resume` lifts it".to_owned());
        }
        let id = &run.agent;
        if halts.agents.contains_key(id) {
            return Some(format!("agent {id} is halted; `skep resume {id}` lifts it"));
        }
        let Ok(agent) = self.find_agent(id) else { return Some(format!("agent {id} is not in skep.toml")) };
        match agent.status() {
            Status::Running => {}
            status => return Some(format!("agent {id} is {}", status.as_str())),
        }
        if run.due_at > now {
            return Some(format!(
                "attempt {} is due at {}",
                run.attempt,
                shown(run.due_at, Some(&self.zone()))
            ));
        }
        Some(match obstacle? {
            Obstacle::Run(other) => format!("the end of run {other} of its job"),
            Obstacle::Slots(running) => {
                format!("a slot: {running} runs are under way (`[runs]` in skep.toml)")
            }
        })
    }

    pub(super) async fn run_row(&self, caller: Option<&AgentId>, id: i64) -> Result<RunRow> {
        let row = self.db.read(move |conn| db::runs::get(conn, id)).await?;
        row.filter(|run| caller.is_none_or(|caller| run.agent == *caller)).ok_or_else(|| no_run(id))
    }

    /// One run.
    ///
    /// # Errors
    /// There is none that the caller may see.
    pub async fn run(&self, caller: Option<&AgentId>, id: i64) -> Result<RunView> {
        let (row, limits) = (self.run_row(caller, id).await?, self.world().config.runs);
        let (row, obstacle) = self.db.read(move |conn| obstructed(conn, row, &limits)).await?;
        Ok(self.run_view(&row, obstacle, &self.zone()))
    }

    /// The output of a run, masked; the channel ends when all is sent and, with `follow`, the run is over.
    ///
    /// # Errors
    /// There is no such run that the caller may see, or nothing of its output is kept any more.
    pub async fn run_output(
        &self,
        caller: Option<&AgentId>,
        id: i64,
        request: RunOutputRequest,
    ) -> Result<mpsc::Receiver<Bytes>> {
        let run = self.run_row(caller, id).await?;
        let folder = self.paths.agent(&run.agent).run(id);
        if run.status.is_over() && run.output_bytes.is_none() && run.started_at.is_some() {
            return Err(AppError::NotFound(format!("the output of run {id} is no longer kept")));
        }
        let (sender, receiver) = mpsc::channel(8);
        let log = LogRequest { follow: request.follow, stream: request.stream, ..LogRequest::default() };
        let printer = Printer::new(log, self.world().masker.clone());
        let (db, stopping) = (self.db.clone(), self.stopping.clone());
        tokio::spawn(async move {
            let mut follower = Follower { printer, folder, files: None, at: 0 };
            loop {
                let over = run_is_over(&db, id).await;
                let last = over || !request.follow || stopping.is_cancelled();
                let text = tokio::task::block_in_place(|| follower.more(last));
                if !text.is_empty() && sender.send(text).await.is_err() || last {
                    return;
                }
                tokio::select! {
                    () = tokio::time::sleep(POLL) => {}
                    () = sender.closed() => return,
                    () = stopping.cancelled() => {}
                }
            }
        });
        Ok(receiver)
    }

    /// Ends a run: one that waits never starts, one that runs is terminated, and killed after a grace.
    ///
    /// # Errors
    /// There is none, or it is over.
    pub async fn cancel_run(&self, id: i64) -> Result<RunView> {
        let now = self.now();
        match self.db.write(move |tx| db::queue::cancel(tx, id, now)).await? {
            Cancelled::NoRun => Err(no_run(id)),
            Cancelled::Over(status) => {
                Err(AppError::Conflict(format!("run {id} is over: it is {}", status.as_str())))
            }
            Cancelled::Dropped(run) => {
                self.due.notify_one();
                Ok(view(&run, Some(&self.zone())))
            }
            Cancelled::Ending(run) => {
                execute::end(self, &run);
                Ok(view(&run, Some(&self.zone())))
            }
        }
    }

    /// Stops new starts of an agent, or of all; what runs goes on (systems.md A29).
    ///
    /// # Errors
    /// There is no such agent; the database fails.
    pub async fn halt(&self, agent: Option<AgentId>) -> Result<HaltView> {
        self.change_halt(agent, true).await
    }

    /// Lifts a halt of an agent, or all halts.
    ///
    /// # Errors
    /// There is no such agent, or the whole hive is halted; the database fails.
    pub async fn resume(&self, agent: Option<AgentId>) -> Result<HaltView> {
        if let (Some(id), Some(_)) = (&agent, self.runs.halts().hive) {
            return Err(AppError::Conflict(format!(
                "the whole hive is halted, so agent {id} cannot be resumed alone; `skep resume` lifts all halts"
            )));
        }
        self.change_halt(agent, false).await
    }

    async fn change_halt(&self, agent: Option<AgentId>, halt: bool) -> Result<HaltView> {
        if let Some(id) = &agent {
            self.find_agent(id)?;
        }
        let now = self.now();
        let rows = self
            .db
            .write(move |tx| {
                if halt {
                    db::queue::halt(tx, agent.as_ref(), now)?;
                } else {
                    db::queue::resume(tx, agent.as_ref(), now)?;
                }
                db::queue::halts(tx)
            })
            .await?;
        self.runs.set_halts(Halts::from_rows(rows));
        self.due.notify_one();
        Ok(self.halted())
    }

    /// What is halted.
    #[must_use]
    pub fn halted(&self) -> HaltView {
        let (halts, zone) = (self.runs.halts(), self.zone());
        HaltView {
            hive: halts.hive.map(|at| shown(at, Some(&zone))),
            agents: halts.agents.iter().map(|(id, at)| (id.to_string(), shown(*at, Some(&zone)))).collect(),
            running: self.runs.tended().len(),
        }
    }
}

/// A run, and what is in its way when it is queued.
pub(in crate::app) fn obstructed(
    conn: &db::Conn,
    run: RunRow,
    limits: &Runs,
) -> std::result::Result<(RunRow, Option<Obstacle>), DbError> {
    let queued = run.status == RunStatus::Queued;
    let obstacle = if queued { db::queue::obstacle(conn, &run, limits)? } else { None };
    Ok((run, obstacle))
}

fn no_run(id: i64) -> AppError {
    AppError::NotFound(format!("there is no run {id}; `skep run list` shows those that are kept"))
}

async fn run_is_over(db: &db::Db, id: i64) -> bool {
    let row = db.read(move |conn| db::runs::get(conn, id)).await;
    row.ok().flatten().is_none_or(|run| run.status.is_over())
}

/// Reads a run's spool as it grows.
struct Follower {
    printer: Printer,
    folder: PathBuf,
    files: Option<[File; 3]>,
    at: u64,
}

impl Follower {
    /// What came since; with `last` also what the masks held back.
    fn more(&mut self, last: bool) -> Bytes {
        let mut text = Vec::new();
        // Kept open: the files of a run with secrets are written anew, masked, when it is over.
        if self.files.is_none() {
            self.files = output::open(&self.folder);
        }
        if let Some(files) = &self.files {
            let next = self.printer.drain(files, self.at, &mut text);
            self.at = next;
        }
        if last {
            self.printer.end_of_spool(&mut text);
        }
        text.into()
    }
}
