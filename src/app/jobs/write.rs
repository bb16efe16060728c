//! Making and changing jobs, pausing and resuming them. Nothing here fires the past.

use std::sync::Arc;

use serde_json::Value;

use super::{
    OnceKey, Result, Scene, invalid, not_of_config, once, own,
    plan::{self, Unable, Written},
    refused,
    scene::{Missing, names, no_command},
};
use crate::{
    app::{
        hive::Hive,
        job_types::{JobView, JobWritten},
        tools::call,
        types::AppError,
    },
    db::{
        self,
        jobs::{JobRow, NewJob, Origin},
    },
    ids::AgentId,
    scheduler::{
        job::{JobSpec, TriggerSpec},
        request::{self, Existing, Update},
    },
};

/// Jobs that an agent may have before it can make no more.
pub(super) const MAX_OF_AGENT: usize = 1_000;

impl Hive {
    /// Makes a job of a request's body (contract.md 5). An agent makes jobs for itself alone.
    ///
    /// # Errors
    /// What is wrong with the body: all of it at once; the name is taken; the database fails.
    pub async fn create_job(
        self: &Arc<Self>,
        caller: Option<&AgentId>,
        body: Value,
        key: Option<OnceKey>,
    ) -> Result<JobWritten> {
        let draft = request::create(&body, &Scene::of(self).context(caller));
        if let Ok(draft) = draft.as_ref() {
            self.look_for_tools(&draft.agent, &draft.spec).await;
        }
        let (mut scene, caller) = (Scene::of(self), caller.cloned());
        let now = scene.now;
        let mut written: JobWritten = self
            .db
            .write(move |tx| once(tx, key.as_ref(), now, || create(tx, &mut scene, caller.as_ref(), &body)))
            .await?;
        self.after_change(written.job.enabled).await;
        self.doubt_arguments(&mut written).await;
        Ok(written)
    }

    /// Changes what a body writes of a job.
    ///
    /// # Errors
    /// There is none that the caller may see; `skep.toml` defines it; what is wrong with the body; the new name is
    /// taken; the database fails.
    pub async fn update_job(
        self: &Arc<Self>,
        caller: Option<&AgentId>,
        id: i64,
        body: Value,
    ) -> Result<JobWritten> {
        let whose = caller.cloned();
        let job = self.db.read(move |conn| own(conn, whose.as_ref(), id)).await?;
        let old = Existing { agent: &job.agent, name: &job.name, enabled: job.enabled, spec: &job.spec };
        if let Ok(update) = request::update(&old, &body, &Scene::of(self).context(caller)) {
            self.look_for_tools(&job.agent, &update.draft.spec).await;
        }
        let (mut scene, caller) = (Scene::of(self), caller.cloned());
        let mut written = self.db.write(move |tx| update(tx, &mut scene, caller.as_ref(), id, &body)).await?;
        self.after_change(written.job.enabled).await;
        self.doubt_arguments(&mut written).await;
        Ok(written)
    }

    /// Disables a job until somebody resumes it. What runs of it goes on; what waits is cancelled, unless somebody
    /// asked for it.
    ///
    /// # Errors
    /// There is none that the caller may see, or the database fails.
    pub async fn pause_job(&self, caller: Option<&AgentId>, id: i64) -> Result<JobView> {
        let (mut scene, caller) = (Scene::of(self), caller.cloned());
        let view = self
            .db
            .write(move |tx| {
                let mut job = own(tx, caller.as_ref(), id)?;
                if !plan::is_paused(&job) {
                    plan::disable(&mut job, plan::paused_by(caller.as_ref()));
                    db::jobs::update(tx, &job, "job:paused", scene.now)?;
                }
                shown(tx, &mut scene, id)
            })
            .await?;
        self.after_change(true).await;
        Ok(view)
    }

    /// Enables a job; failures are forgotten, and it fires from now on.
    ///
    /// # Errors
    /// There is none that the caller may see; its time passed, its agent has gone or a tool does not exist; the
    /// database fails.
    pub async fn resume_job(&self, caller: Option<&AgentId>, id: i64) -> Result<JobView> {
        let (mut scene, caller) = (Scene::of(self), caller.cloned());
        let view = self
            .db
            .write(move |tx| {
                let job = own(tx, caller.as_ref(), id)?;
                scene.must_be_able(tx, &job)?;
                may_enable(caller.as_ref(), &job)?;
                let mut resumed = job.clone();
                plan::resume(&mut resumed, scene.now).map_err(unable)?;
                if resumed != job {
                    db::jobs::update(tx, &resumed, "job:resumed", scene.now)?;
                }
                shown(tx, &mut scene, id)
            })
            .await?;
        self.after_change(true).await;
        Ok(view)
    }

    /// Asks servers that never told of their tools, when a job needs one that nothing known has.
    async fn look_for_tools(self: &Arc<Self>, agent: &AgentId, spec: &JobSpec) {
        for name in spec.needed_tools() {
            // Whoever is missing then is told of with the job.
            if self.tool_named(agent, name).await.is_err() {
                return;
            }
        }
    }

    /// Warns of arguments that the tool of a job does not take now. Another version of it may.
    async fn doubt_arguments(self: &Arc<Self>, written: &mut JobWritten) {
        let job = &written.job;
        let (Some(name), Ok(agent)) = (job.tool.as_deref(), job.agent.parse::<AgentId>()) else { return };
        let Ok(tool) = self.tool_named(&agent, name).await else { return };
        let args = job.args.clone().unwrap_or_default();
        if let Err(error @ AppError::Invalid { .. }) = call::arguments(self, &agent, &tool, args).await {
            written.warnings.push(format!("its runs will fail: {}", error.in_words()));
        }
    }

    /// Wakes who waits for changes of jobs. The tools that a new job waits for may have come meanwhile.
    async fn after_change(&self, enabled: bool) {
        if !enabled {
            self.enable_waiting().await;
        }
        self.due.notify_one();
    }
}

fn create(tx: &db::Tx<'_>, scene: &mut Scene, caller: Option<&AgentId>, body: &Value) -> Result<JobWritten> {
    let draft = request::create(body, &scene.context(caller)).map_err(refused)?;
    let (agent, spec, mut warnings) = (draft.agent, draft.spec, draft.notes);
    if let Some(caller) = caller.filter(|caller| **caller != agent) {
        return Err(AppError::Forbidden(format!("agent {caller} may make jobs for itself alone")));
    }
    if let Some(why) = no_command(scene.named(&agent)?, &spec) {
        return Err(invalid(vec![("/instructions".into(), why)]));
    }
    if caller.is_some() && db::jobs::count(tx, &agent)? >= MAX_OF_AGENT {
        return Err(AppError::Conflict(format!("agent {agent} has {MAX_OF_AGENT} jobs: remove one first")));
    }
    let origin = if caller.is_some() { Origin::Agent } else { Origin::Api };
    must_hear(&origin, &spec, &mut warnings)?;
    let missing = scene.missing(tx, &agent, &spec)?;
    if draft.enabled && !missing.is_empty() {
        return Err(no_tools(missing));
    }
    scene.know_targets(&spec)?;
    let missing = names(missing);
    let itself = !draft.enabled && plan::enables_itself(&spec, &missing);
    let enabled = draft.enabled || (itself && missing.is_empty());
    if enabled && !draft.enabled {
        warnings.push(
            "all of its tools exist, so that it enabled itself at once: pause it to keep it still".into(),
        );
    }
    let next = if enabled { plan::first(&spec, scene.now).map_err(unable)? } else { None };
    let reason = if itself { plan::waiting_for(&missing) } else { "it was made disabled".to_owned() };
    let new = NewJob {
        agent,
        name: draft.name,
        origin,
        spec,
        disabled_reason: Some(reason).filter(|_| !enabled),
        auto_enable: itself && !enabled,
        next,
    };
    let job = db::jobs::insert(tx, &new, scene.now)?;
    Ok(scene.written(tx, &job, warnings)?)
}

fn update(
    tx: &db::Tx<'_>,
    scene: &mut Scene,
    caller: Option<&AgentId>,
    id: i64,
    body: &Value,
) -> Result<JobWritten> {
    let job = own(tx, caller, id)?;
    not_of_config(&job)?;
    let old = Existing { agent: &job.agent, name: &job.name, enabled: job.enabled, spec: &job.spec };
    let update = request::update(&old, body, &scene.context(caller)).map_err(refused)?;
    let mut changed =
        JobRow { name: update.draft.name.clone(), spec: update.draft.spec.clone(), ..job.clone() };
    let enabled = wants_enabled(&job, &update);
    if enabled && !job.enabled {
        may_enable(caller, &job)?;
    }
    if enabled && (!job.enabled || other_tools(&job.spec, &changed.spec)) {
        may_run(tx, scene, &changed)?;
    }
    let mut warnings = update.draft.notes;
    let how = if update.trigger_changed { Written::Now } else { Written::Before };
    match (job.enabled, enabled) {
        (false, true) => {
            plan::enable(&mut changed, how, scene.now).map_err(unable)?;
            if !update.enabled_written {
                warnings.push("its time had come, so that its new one enables it again".to_owned());
            }
        }
        (true, false) => plan::disable(&mut changed, plan::paused_by(caller)),
        // It shall not enable itself either.
        (false, false) if update.enabled_written && job.auto_enable => {
            plan::disable(&mut changed, plan::paused_by(caller));
        }
        (true, true) if update.trigger_changed => {
            plan::schedule(&mut changed, how, scene.now).map_err(unable)?;
        }
        _ => {}
    }
    if update.trigger_changed {
        must_hear(&job.origin, &changed.spec, &mut warnings)?;
    }
    if changed.spec.notify != job.spec.notify {
        scene.know_targets(&changed.spec)?;
    }
    if changed != job {
        db::jobs::update(tx, &changed, "job:updated", scene.now)?;
    }
    let job = own(tx, caller, id)?;
    Ok(scene.written(tx, &job, warnings)?)
}

/// Whether a job fires after an update: as was written; a new time for a one-shot that is spent enables it too.
fn wants_enabled(job: &JobRow, update: &Update) -> bool {
    if update.enabled_written && (update.draft.enabled || job.enabled) {
        return update.draft.enabled;
    }
    let again = update.trigger_changed && !update.enabled_written && plan::is_spent(job);
    job.enabled || again
}

/// Of what an agent made, no event of the hive's own is heard.
fn must_hear(origin: &Origin, spec: &JobSpec, warnings: &mut Vec<String>) -> Result<()> {
    let (TriggerSpec::Event { event }, Origin::Agent | Origin::Skill) = (&spec.trigger, origin) else {
        return Ok(());
    };
    let is_own = |name: &&String| db::events::is_own(name.trim_end_matches('*'));
    let own: Vec<String> = event.iter().filter(is_own).map(|name| format!("{name:?}")).collect();
    if own.is_empty() {
        return Ok(());
    }
    let what = format!(
        "{} is of the hive's own events, which jobs that an agent makes do not hear: wait for one that the operator \
         raises (`skep events --raise`), or have the operator make this job",
        own.join(", ")
    );
    if own.len() == event.len() {
        return Err(invalid(vec![("/event".into(), what)]));
    }
    warnings.push(what);
    Ok(())
}

fn other_tools(old: &JobSpec, new: &JobSpec) -> bool {
    (&old.tool, &old.required_tools) != (&new.tool, &new.required_tools)
}

/// What the operator paused stays so for its agent.
fn may_enable(caller: Option<&AgentId>, job: &JobRow) -> Result<()> {
    if caller.is_some() && job.disabled_reason == Some(plan::paused_by(None)) {
        let id = job.id;
        let why = format!("job {id} was paused by the operator, who alone resumes it");
        return Err(AppError::Conflict(why));
    }
    Ok(())
}

/// Whether a job that is to fire could run.
fn may_run(tx: &db::Tx<'_>, scene: &mut Scene, job: &JobRow) -> Result<()> {
    if let Some(why) = no_command(scene.named(&job.agent)?, &job.spec) {
        return Err(invalid(vec![("/instructions".into(), why)]));
    }
    let missing = scene.missing(tx, &job.agent, &job.spec)?;
    if missing.is_empty() { Ok(()) } else { Err(no_tools(missing)) }
}

fn no_tools(missing: Vec<Missing>) -> AppError {
    invalid(missing.into_iter().map(|missing| (missing.pointer, missing.detail)).collect())
}

fn unable(why: Unable) -> AppError {
    AppError::Conflict(match why {
        Unable::Passed(at) => format!("its time, {at}, has passed: set a new `at`"),
        Unable::Schedule(why) => format!("its schedule is no longer possible: {why}"),
    })
}

fn shown(tx: &db::Tx<'_>, scene: &mut Scene, id: i64) -> Result<JobView> {
    let job = own(tx, None, id)?;
    Ok(scene.view(tx, &job)?)
}
