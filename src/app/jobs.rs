//! Jobs: what the operator and the agents do with them. An agent sees and manages its own alone.
//!
//! What is due is the driver's of `app::runs`; it is woken after every change that concerns it.

mod config;
mod once;
mod plan;
mod scene;
mod skill;
#[cfg(test)]
mod tests;
mod view;
mod write;

pub(super) use once::once;
pub(super) use skill::is_of_skill;
use std::sync::Arc;

pub use once::once_key;
use serde_json::Value;

use self::scene::Scene;
use super::{
    Result,
    hive::Hive,
    job_types::{JobView, Preview, RunView},
    runs,
    types::AppError,
};
pub use crate::db::{idempotency::Request as OnceKey, jobs::JobFilter};
use crate::{
    db::{
        self,
        jobs::{JobError, JobRow, Origin},
        queue::{ManualError, Tick},
    },
    ids::AgentId,
    scheduler::request,
};

/// Fire times that a written job is answered with.
const NEXT: usize = 3;

impl From<JobError> for AppError {
    fn from(error: JobError) -> Self {
        match error {
            JobError::NameTaken { .. } => Self::Conflict(error.to_string()),
            JobError::Db(e) => e.into(),
        }
    }
}

impl From<ManualError> for AppError {
    fn from(error: ManualError) -> Self {
        match error {
            ManualError::NoJob(_) => Self::NotFound(error.to_string()),
            ManualError::Overlap { .. } | ManualError::Waits { .. } | ManualError::Crowded(_) => {
                Self::Conflict(error.to_string())
            }
            ManualError::Db(e) => e.into(),
        }
    }
}

/// A request's faults.
fn refused(faults: Vec<request::Fault>) -> AppError {
    let errors: Vec<_> = faults.into_iter().map(|fault| (fault.pointer, fault.detail)).collect();
    invalid(errors)
}

/// What is wrong with a request, by place.
fn invalid(errors: Vec<(String, String)>) -> AppError {
    let first = errors.first().map(|(_, detail)| detail.clone()).unwrap_or_default();
    let detail = match errors.len() {
        0 | 1 => first,
        many => format!("{many} mistakes, the first one: {first}"),
    };
    AppError::Invalid { detail, errors }
}

/// Who asks, as reasons tell it.
fn who(caller: Option<&AgentId>) -> String {
    caller.map_or_else(|| "the operator".to_owned(), |agent| format!("agent {agent}"))
}

/// A job that the caller may see; for an agent others' are not there.
fn own(conn: &db::Conn, caller: Option<&AgentId>, id: i64) -> Result<JobRow> {
    let job = db::jobs::get(conn, id)?.filter(|job| caller.is_none_or(|caller| job.agent == *caller));
    job.ok_or_else(|| AppError::NotFound(format!("there is no job {id}")))
}

fn not_of_config(job: &JobRow) -> Result<()> {
    if job.origin == Origin::Config {
        let text = format!("job {} ({:?}) is defined in skep.toml: change it there", job.id, job.name);
        return Err(AppError::Conflict(text));
    }
    Ok(())
}

impl Hive {
    /// Jobs by id, behind `after`, at most `limit`. An agent gets its own.
    ///
    /// # Errors
    /// The database fails.
    pub async fn jobs(
        &self,
        caller: Option<&AgentId>,
        mut filter: JobFilter,
        after: i64,
        limit: usize,
    ) -> Result<Vec<JobView>> {
        if let Some(caller) = caller {
            if filter.agent.as_ref().is_some_and(|agent| agent != caller) {
                return Ok(Vec::new());
            }
            filter.agent = Some(caller.clone());
        }
        let mut scene = Scene::of(self);
        self.db
            .read(move |conn| {
                let jobs = db::jobs::list(conn, &filter, after, limit)?;
                jobs.iter().map(|job| Ok(scene.view(conn, job)?)).collect()
            })
            .await
    }

    /// One job.
    ///
    /// # Errors
    /// There is none that the caller may see, or the database fails.
    pub async fn job(&self, caller: Option<&AgentId>, id: i64) -> Result<JobView> {
        let (mut scene, caller) = (Scene::of(self), caller.cloned());
        self.db
            .read(move |conn| {
                let job = own(conn, caller.as_ref(), id)?;
                Ok(scene.view(conn, &job)?)
            })
            .await
    }

    /// When a job fires next; with a reason when it does not.
    ///
    /// # Errors
    /// There is none that the caller may see, or the database fails.
    pub async fn job_fires(&self, caller: Option<&AgentId>, id: i64, count: usize) -> Result<Preview> {
        let (mut scene, caller) = (Scene::of(self), caller.cloned());
        self.db
            .read(move |conn| {
                let job = own(conn, caller.as_ref(), id)?;
                let fires = scene.fires(&job, count);
                let reason = if fires.is_empty() { Some(scene.why_none(conn, &job)?) } else { None };
                Ok(Preview { wildcard: plan::is_wildcard(&job.spec.trigger), fires, reason })
            })
            .await
    }

    /// When a schedule would fire: `{schedule | every | at, timezone?, after?, count?}`.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn preview_schedule(&self, caller: Option<&AgentId>, body: &Value) -> Result<Preview> {
        let scene = Scene::of(self);
        let preview = request::preview(body, &scene.context(caller)).map_err(refused)?;
        let none = preview.fires.is_empty().then(|| "it never fires".to_owned());
        Ok(Preview { fires: preview.fires, wildcard: preview.wildcard, reason: none })
    }

    /// Removes a job: what waits of it is cancelled with it, what runs goes on. Its history stays.
    ///
    /// # Errors
    /// There is none that the caller may see, `skep.toml` defines it, or the database fails.
    pub async fn delete_job(&self, caller: Option<&AgentId>, id: i64) -> Result<()> {
        let (now, caller) = (self.now(), caller.cloned());
        self.db
            .write(move |tx| {
                not_of_config(&own(tx, caller.as_ref(), id)?)?;
                db::jobs::remove(tx, id, now)?;
                Ok::<_, AppError>(())
            })
            .await?;
        self.due.notify_one();
        Ok(())
    }

    /// Queues a run of a job now, also of a disabled one.
    ///
    /// # Errors
    /// There is none that the caller may see, its overlap policy refuses, it cannot run at all, or the database fails.
    pub async fn run_job(
        self: &Arc<Self>,
        caller: Option<&AgentId>,
        id: i64,
        key: Option<OnceKey>,
    ) -> Result<RunView> {
        let (mut scene, caller, hive) = (Scene::of(self), caller.cloned(), self.clone());
        let (view, tick) = self
            .db
            .write(move |tx| {
                let mut tick = Tick::default();
                let now = scene.now;
                let view = once(tx, key.as_ref(), now, || {
                    let job = own(tx, caller.as_ref(), id)?;
                    scene.must_be_able(tx, &job)?;
                    let depth =
                        caller.as_ref().map(|caller| db::runs::depth_of(tx, caller)).transpose()?.flatten();
                    let run = db::queue::claim_manual(tx, id, depth.unwrap_or(0), now, &mut tick)?;
                    let (run, obstacle) = runs::obstructed(tx, run, &hive.world().config.runs)?;
                    Ok(hive.run_view(&run, obstacle, &hive.zone()))
                })?;
                Ok::<_, AppError>((view, tick))
            })
            .await?;
        for run in &tick.end {
            runs::end(self, run);
        }
        self.due.notify_one();
        Ok(view)
    }
}
