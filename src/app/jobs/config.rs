//! The jobs of `skep.toml`, and jobs that wait for their tools (systems.md A12): brought into the database after
//! each refresh. What the operator paused stays paused; what is as it was is not written.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::{
    plan::{self, SWITCHED_OFF, Unable, Written},
    scene::{Missing, Scene, names, no_command},
};
use crate::{
    app::{hive::Hive, world::World},
    config::{
        load,
        model::{Config, Job},
    },
    db::{
        self, DbError,
        jobs::{ConfigRow, JobError, JobRow, NewJob, Origin, PASSED},
    },
    error::Fault,
    ids::AgentId,
};

/// What differs between the file and the database.
#[derive(Default)]
struct Plan {
    remove: Vec<i64>,
    update: Vec<Changed>,
    /// Each with what the file says of `enabled`.
    insert: Vec<(NewJob, bool)>,
    /// What is probably not meant, and what is refused.
    faults: Vec<Fault>,
}

/// A job that is there and not as the file says.
struct Changed {
    row: JobRow,
    /// What is told of it; none: the row itself does not differ.
    event: Option<&'static str>,
    /// What the file says of `enabled`.
    written: bool,
}

impl Plan {
    fn is_empty(&self) -> bool {
        self.remove.is_empty() && self.update.is_empty() && self.insert.is_empty()
    }
}

impl Hive {
    /// Brings the jobs of a world's configuration into the database. Faults become the world's.
    pub(in crate::app) async fn sync_config_jobs(&self, old: &World, world: &mut World) {
        let written = old.generation > 0 && !jobs(&old.config).eq(jobs(&world.config));
        let same = old.generation > 0 && old.job_faults.is_empty() && old.resolutions == world.resolutions;
        if same && !written {
            return;
        }
        world.job_faults = match self.settle_jobs(&Arc::new(world.clone()), written).await {
            Ok(faults) => faults,
            Err(JobError::Db(e)) => vec![Fault::new(".skep/skep.db", e.to_string())],
            Err(e) => vec![Fault::new(load::FILE, e.to_string())],
        };
    }

    /// Brings the jobs of `skep.toml` in line with what agents were just given.
    pub(in crate::app) async fn resettle_jobs(&self) {
        match self.settle_jobs(&self.world(), false).await {
            Ok(faults) => self.note_job_faults(faults),
            Err(e) => {
                tracing::error!(error = %e, "cannot bring the jobs of skep.toml in line with the skills");
            }
        }
    }

    /// Looks before it writes, unless it is known that there is something to write.
    async fn settle_jobs(&self, world: &Arc<World>, known: bool) -> Result<Vec<Fault>, JobError> {
        if !known {
            let mut scene = Scene::with(self, world.clone());
            let found = self.db.read(move |conn| compare(conn, &mut scene)).await?;
            if found.is_empty() {
                return Ok(found.faults);
            }
        }
        let mut scene = Scene::with(self, world.clone());
        let faults = self
            .db
            .write(move |tx| {
                let plan = compare(tx, &mut scene)?;
                apply(tx, &scene, &plan)?;
                Ok::<_, JobError>(plan.faults)
            })
            .await?;
        self.due.notify_one();
        Ok(faults)
    }

    /// Asks the servers of a running agent that never told of their tools, when a job of it waits for some: nobody else
    /// may ever ask them.
    pub fn ask_for_waiting_jobs(self: &Arc<Self>, agent: &AgentId) {
        if self.running_agent(agent).is_err() {
            return;
        }
        let (hive, agent) = (self.clone(), agent.clone());
        tokio::spawn(async move {
            let whose = agent.clone();
            let waits = move |conn: &db::Conn| {
                Ok::<_, DbError>(db::jobs::waiting(conn)?.iter().any(|job| job.agent == whose))
            };
            match hive.db.read(waits).await {
                Ok(true) => hive.discover(&agent).await,
                Ok(false) => {}
                Err(e) => tracing::error!(error = %e, "cannot look at the jobs that wait for their tools"),
            }
        });
    }

    /// Enables the jobs that waited for their tools and have them all now, each once.
    pub(in crate::app) async fn enable_waiting(&self) {
        let mut scene = Scene::of(self);
        match self.db.read(move |conn| ready(conn, &mut scene)).await {
            Ok(jobs) if jobs.is_empty() => return,
            Ok(_) => {}
            Err(e) => return tracing::error!(error = %e, "cannot look at the jobs that wait for their tools"),
        }
        let mut scene = Scene::of(self);
        let enabled = self.db.write(move |tx| {
            for job in ready(tx, &mut scene)? {
                enable(tx, &scene, job)?;
            }
            Ok::<_, JobError>(())
        });
        match enabled.await {
            Ok(()) => self.due.notify_one(),
            Err(e) => tracing::error!(error = %e, "cannot enable the jobs that waited for their tools"),
        }
    }
}

fn jobs(config: &Config) -> impl Iterator<Item = (&AgentId, &Vec<Job>, bool)> {
    config.agents.values().map(|agent| (&agent.id, &agent.jobs, agent.command.is_some()))
}

/// Waiting jobs whose tools all exist.
fn ready(conn: &db::Conn, scene: &mut Scene) -> Result<Vec<JobRow>, DbError> {
    let mut ready = Vec::new();
    for job in db::jobs::waiting(conn)? {
        let able = scene.agent(&job.agent).is_some_and(|agent| no_command(agent, &job.spec).is_none());
        if able && scene.missing(conn, &job.agent, &job.spec)?.is_empty() {
            ready.push(job);
        }
    }
    Ok(ready)
}

fn enable(tx: &db::Tx<'_>, scene: &Scene, mut job: JobRow) -> Result<(), JobError> {
    let event = match plan::enable(&mut job, Written::Before, scene.now) {
        Ok(()) => "job:enabled",
        Err(why) => {
            plan::disable(&mut job, unable(why));
            "job:disabled"
        }
    };
    db::jobs::update(tx, &job, event, scene.now)
}

fn unable(why: Unable) -> String {
    match why {
        Unable::Passed(_) => PASSED.to_owned(),
        Unable::Schedule(why) => format!("its schedule is no longer possible: {why}"),
    }
}

/// Compares the file with the database.
fn compare(conn: &db::Conn, scene: &mut Scene) -> Result<Plan, DbError> {
    let mut plan = Plan::default();
    let rows = db::jobs::of_config(conn)?;
    let config = scene.world.config.clone();
    let mut wanted = BTreeSet::new();
    let known: BTreeMap<(&AgentId, &str), &ConfigRow> =
        rows.iter().map(|known| ((&known.job.agent, known.job.name.as_str()), known)).collect();
    for agent in config.agents.values() {
        for job in &agent.jobs {
            let key = (&agent.id, job.name.as_str());
            let missing = scene.missing(conn, &agent.id, &job.spec)?;
            match known.get(&key) {
                Some(known) => plan.existing(scene, job, known, &missing),
                None => plan.new_job(conn, scene, &agent.id, job, missing)?,
            }
            wanted.insert(key);
        }
    }
    let gone = |(key, row): &(&_, &&ConfigRow)| !row.removed && !wanted.contains(*key);
    plan.remove = known.iter().filter(gone).map(|(_, row)| row.job.id).collect();
    Ok(plan)
}

impl Plan {
    fn fault(&mut self, agent: &AgentId, job: &Job, what: &str, help: impl Into<String>) {
        let message = format!("job {:?} of agent {agent}: {what}", job.name);
        self.faults.push(Fault::new(load::FILE, message).help(help));
    }

    fn existing(&mut self, scene: &Scene, job: &Job, known: &ConfigRow, missing: &[Missing]) {
        let now = scene.now;
        let ConfigRow { job: row, written, removed } = known;
        let mut next = JobRow { spec: job.spec.clone(), ..row.clone() };
        let new_trigger = row.spec.trigger != job.spec.trigger;
        let how = if new_trigger { Written::Now } else { Written::Before };
        let switched = *written != Some(job.enabled);
        // Switched on in the file: what was paused here stays so, and so does what has had its time.
        let on = switched && !row.enabled && !plan::is_paused(row) && !plan::is_spent(row);
        if job.enabled && (on || new_trigger && plan::is_spent(row)) {
            begin(&mut next, how, missing, now);
        } else if !job.enabled && switched && (row.enabled || row.auto_enable) {
            plan::disable(&mut next, SWITCHED_OFF);
        } else if row.enabled && (row.spec != job.spec || *removed) && !missing.is_empty() {
            begin(&mut next, how, missing, now);
        } else if row.enabled
            && (new_trigger || *removed)
            && let Err(why) = plan::schedule(&mut next, how, now)
        {
            plan::disable(&mut next, unable(why));
        }
        if let Some(missing) = missing.first().filter(|_| job.enabled) {
            let help = if next.enabled { "its runs fail until it exists" } else { WAITS };
            self.fault(&row.agent, job, &missing.detail, help);
        }
        let event = if *removed { Some("job:created") } else { (next != *row).then_some("job:updated") };
        if event.is_some() || switched {
            self.update.push(Changed { row: next, event, written: job.enabled });
        }
    }

    fn new_job(
        &mut self,
        conn: &db::Conn,
        scene: &Scene,
        agent: &AgentId,
        job: &Job,
        missing: Vec<Missing>,
    ) -> Result<(), DbError> {
        if let Some(other) = db::jobs::find(conn, agent, &job.name)? {
            let what = format!("the name is taken by job {}, which was made through the API", other.id);
            let help =
                format!("give it another name here, or remove the other with `skep job rm {}`", other.id);
            self.fault(agent, job, &what, help);
            return Ok(());
        }
        if let Some(missing) = missing.first().filter(|_| job.enabled) {
            self.fault(agent, job, &missing.detail, WAITS);
        }
        let missing = names(missing);
        let waiting = || (Some(plan::waiting_for(&missing)), None);
        let (disabled_reason, next) = match (job.enabled, plan::first(&job.spec, scene.now)) {
            (true, Err(why)) => (Some(unable(why)), None),
            (true, Ok(next)) if missing.is_empty() => (None, next),
            (true, Ok(_)) => waiting(),
            (false, _) if plan::enables_itself(&job.spec, &missing) => waiting(),
            (false, _) => (Some(SWITCHED_OFF.to_owned()), None),
        };
        let auto_enable = disabled_reason == waiting().0;
        let new = NewJob {
            agent: agent.clone(),
            name: job.name.clone(),
            origin: Origin::Config,
            spec: job.spec.clone(),
            disabled_reason,
            auto_enable,
            next,
        };
        self.insert.push((new, job.enabled));
        Ok(())
    }
}

/// What becomes of a job of the file whose tools do not exist.
const WAITS: &str = "the job is disabled until it exists";

/// Enables a job of the file, or lets it wait for its tools.
fn begin(job: &mut JobRow, written: Written, missing: &[Missing], now: jiff::Timestamp) {
    if let Err(why) = plan::enable(job, written, now) {
        plan::disable(job, unable(why));
    } else if !missing.is_empty() {
        let missing: Vec<String> = missing.iter().map(|missing| missing.name.clone()).collect();
        plan::wait_for_tools(job, &missing);
    }
}

fn apply(tx: &db::Tx<'_>, scene: &Scene, plan: &Plan) -> Result<(), JobError> {
    for id in &plan.remove {
        db::jobs::retire(tx, *id, scene.now)?;
    }
    for changed in &plan.update {
        if let Some(event) = changed.event {
            db::jobs::update(tx, &changed.row, event, scene.now)?;
        }
        db::jobs::set_written(tx, changed.row.id, changed.written)?;
    }
    for (new, written) in &plan.insert {
        let job = db::jobs::insert(tx, new, scene.now)?;
        db::jobs::set_written(tx, job.id, *written)?;
    }
    Ok(())
}
