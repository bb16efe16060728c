//! Jobs that skills bring: a SKILL.md whose metadata has `trigger_config` makes one for each agent that has the skill
//! (systems.md A19). It follows the skill's changes, and is disabled when the skill goes; what somebody disabled or
//! removed stays so.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{
    plan::{self, Unable, Written},
    scene::{Scene, names, no_command},
    write::MAX_OF_AGENT,
};
use crate::{
    app::{hive::Hive, world::World},
    db::{
        self,
        jobs::{JobError, JobRow, NewJob, Origin, PASSED},
    },
    error::Fault,
    ids::{AgentId, Digest, SkillId},
    registry::index::{Owner, Trust, VersionEntry},
    scheduler::{job::JobSpec, request},
    skill::model::Skill,
};

/// Why a job is disabled whose skill has gone.
const GONE: &str = "the agent no longer has the skill that brought it";
/// Where the database keeps what was made of which skill: by agent and skill.
const KEY: &str = "skill-job/";
/// What its faults are about.
const ABOUT: &str = "skill ";
/// What metadata may say of the job beside `trigger_config`.
const WORDS: [&str; 4] = ["required_tools", "max_steps", "timeout", "notify"];

/// Whether a fault is of a job that a skill brings.
pub(in crate::app) fn is_of_skill(fault: &Fault) -> bool {
    fault.file.starts_with(ABOUT)
}

/// What was made of a skill for an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Made {
    job: i64,
    /// Content that the job was made of or last changed by.
    digest: Digest,
    /// The skill has gone since.
    gone: bool,
}

/// A skill that an agent has and that says when it runs.
struct Wanted {
    skill: Skill,
    digest: Digest,
    /// The agent wrote it itself.
    by_agent: bool,
}

type Key = (AgentId, SkillId);

impl Hive {
    /// Brings the jobs of skills into the database. Faults become the world's.
    pub(in crate::app) async fn sync_skill_jobs(&self, old: &World, world: &mut World) {
        let same = old.generation > 0 && old.resolutions == world.resolutions && old.index == world.index;
        let commands = |world: &World| -> Vec<bool> {
            world.config.agents.values().map(|agent| agent.command.is_some()).collect()
        };
        if same && commands(old) == commands(world) {
            return;
        }
        world.job_faults.retain(|fault| !is_of_skill(fault));
        match self.settle_skill_jobs(&Arc::new(world.clone())).await {
            Ok(faults) => world.job_faults.extend(faults),
            Err(e) => world.job_faults.push(Fault::new(".skep/skep.db", e.to_string())),
        }
    }

    /// The same after these skills changed, without a refresh.
    pub(in crate::app) async fn resettle_skill_jobs(&self, changed: BTreeSet<SkillId>) {
        let concerned = self.db.read(move |conn| {
            let made = made(conn)?;
            for id in changed {
                if made.keys().any(|(_, skill)| *skill == id) || db::variables::has_trigger(conn, &id)? {
                    return Ok::<_, JobError>(true);
                }
            }
            Ok(false)
        });
        let settled = match concerned.await {
            Ok(false) => return,
            Ok(true) => self.settle_skill_jobs(&self.world()).await,
            Err(e) => Err(e),
        };
        match settled {
            Ok(faults) => {
                for fault in faults {
                    tracing::warn!(%fault, "a job does not run");
                }
            }
            Err(e) => tracing::error!(error = %e, "cannot bring the jobs of skills in line with them"),
        }
    }

    async fn settle_skill_jobs(&self, world: &Arc<World>) -> Result<Vec<Fault>, JobError> {
        let reading = world.clone();
        let (wanted, made) =
            self.db.read(move |conn| Ok::<_, JobError>((wanted(conn, &reading)?, made(conn)?))).await?;
        let settled = |(key, made): (&Key, &Made)| match wanted.get(key) {
            Some(wanted) => !made.gone && made.digest == wanted.digest,
            None => made.gone,
        };
        if wanted.keys().all(|key| made.contains_key(key)) && made.iter().all(settled) {
            return Ok(Vec::new());
        }
        let mut scene = Scene::with(self, world.clone());
        let faults = self.db.write(move |tx| settle(tx, &mut scene, &wanted)).await?;
        self.due.notify_one();
        Ok(faults)
    }
}

/// Every skill that is to have a job, by agent.
fn wanted(conn: &db::Conn, world: &World) -> Result<BTreeMap<Key, Wanted>, db::DbError> {
    let mut wanted = BTreeMap::new();
    let mut own: BTreeMap<&AgentId, Vec<&SkillId>> = BTreeMap::new();
    for (id, entry) in world.index.skills.iter().filter(|(_, entry)| entry.enabled) {
        if let Owner::Agent(agent) = &entry.owner {
            own.entry(agent).or_default().push(id);
        }
    }
    for agent in world.config.agents.keys() {
        let resolution = world.resolutions.get(agent).and_then(|resolution| resolution.as_ref().ok());
        let resolved = resolution.into_iter().flat_map(|resolution| &resolution.skills);
        let mut versions: BTreeMap<&SkillId, &VersionEntry> =
            resolved.filter_map(|(id, r)| Some((id, world.index.version(id, &r.version)?))).collect();
        for id in own.get(agent).into_iter().flatten() {
            if let Some(latest) = world.index.skills.get(*id).and_then(|entry| entry.latest()) {
                versions.entry(id).or_insert(latest);
            }
        }
        let its_own = Owner::Agent(agent.clone());
        for (id, version) in versions {
            let by_agent = world.index.skills.get(id).is_some_and(|entry| entry.owner == its_own);
            let usable = match version.trust {
                Trust::Trusted | Trust::Approved => true,
                Trust::Pending => by_agent,
                Trust::Rejected => false,
            };
            if !usable {
                continue;
            }
            let skill = db::skills::manifest(conn, id, &version.version)?;
            if let Some(skill) = skill.filter(|skill| skill.extra.contains_key("trigger_config")) {
                let wants = Wanted { skill, digest: version.digest, by_agent };
                wanted.insert((agent.clone(), id.clone()), wants);
            }
        }
    }
    Ok(wanted)
}

fn made(conn: &db::Conn) -> Result<BTreeMap<Key, Made>, db::DbError> {
    let rows = db::meta::under(conn, KEY)?;
    Ok(rows
        .into_iter()
        .filter_map(|(key, value)| {
            let (agent, skill) = key.strip_prefix(KEY)?.split_once('/')?;
            Some(((agent.parse().ok()?, skill.parse().ok()?), serde_json::from_str(&value).ok()?))
        })
        .collect())
}

fn note(tx: &db::Tx<'_>, (agent, skill): &Key, made: &Made) -> Result<(), db::DbError> {
    db::meta::set(tx, &format!("{KEY}{agent}/{skill}"), &json!(made).to_string())
}

fn settle(
    tx: &db::Tx<'_>,
    scene: &mut Scene,
    wanted: &BTreeMap<Key, Wanted>,
) -> Result<Vec<Fault>, JobError> {
    let made = made(tx)?;
    let mut faults = Vec::new();
    for (key, wants) in wanted {
        let spec = match spec_of(scene, key, &wants.skill) {
            Ok(spec) => spec,
            Err(told) => {
                faults.extend(told);
                continue;
            }
        };
        let outcome = match made.get(key) {
            Some(made) if !made.gone && made.digest == wants.digest => continue,
            Some(made) => change(tx, scene, key, wants, made, spec)?,
            None => make(tx, scene, key, wants, spec)?,
        };
        faults.extend(outcome);
    }
    // What an agent has whose skills cannot be resolved just now, is not known.
    let world = scene.world.clone();
    let known = |agent: &AgentId| match world.resolutions.get(agent) {
        Some(resolution) => resolution.is_ok(),
        None => !world.config.agents.contains_key(agent),
    };
    let gone = |(key, made): &(Key, Made)| !made.gone && !wanted.contains_key(key) && known(&key.0);
    for (key, made) in made.into_iter().filter(gone) {
        if let Some(mut job) = db::jobs::get(tx, made.job)?.filter(|job| job.enabled || job.auto_enable) {
            plan::disable(&mut job, GONE);
            db::jobs::update(tx, &job, "job:disabled", scene.now)?;
        }
        note(tx, &key, &Made { gone: true, ..made })?;
    }
    Ok(faults)
}

fn fault(skill: &SkillId, what: impl Into<String>) -> Fault {
    Fault::new(format!("{ABOUT}{skill}"), what)
}

/// The job that a skill asks for. It names the skill's file and does not quote it: what the agent reads is then the
/// version that it has, with its variables.
fn spec_of(scene: &Scene, (agent, id): &Key, skill: &Skill) -> Result<JobSpec, Vec<Fault>> {
    let mut body = json!({
        "agent": agent,
        "name": id,
        "trigger_config": skill.extra.get("trigger_config"),
        "instructions": format!("Do what the skill {id} says: read its SKILL.md in /skills and follow it."),
    });
    let metadata = skill.extra.get("metadata");
    for word in WORDS {
        if let Some(value) = skill.extra.get(word).or_else(|| metadata?.get(word)) {
            body[word] = value.clone();
        }
    }
    let read = |body: &Value| request::create(body, &scene.context(None));
    let draft = read(&body).map_err(|faults| {
        let told =
            |f: request::Fault| fault(id, format!("job of agent {agent}: {}: {}", f.pointer, f.detail));
        faults.into_iter().map(told).collect::<Vec<_>>()
    })?;
    Ok(draft.spec)
}

fn make(
    tx: &db::Tx<'_>,
    scene: &mut Scene,
    key: &Key,
    wants: &Wanted,
    spec: JobSpec,
) -> Result<Option<Fault>, JobError> {
    let (agent, id) = key;
    if let Some(other) = db::jobs::find(tx, agent, id.as_str())? {
        let what = format!("agent {agent} has a job of this name already, job {}", other.id);
        return Ok(Some(fault(id, what).help("give that one another name, and the skill brings its own")));
    }
    if wants.by_agent && db::jobs::count(tx, agent)? >= MAX_OF_AGENT {
        return Ok(Some(fault(
            id,
            format!("agent {agent} has {MAX_OF_AGENT} jobs, so that it gets no more"),
        )));
    }
    let waits = waits_for(tx, scene, agent, &spec)?;
    let (disabled_reason, next) = match (plan::first(&spec, scene.now), &waits) {
        (Err(why), _) => (Some(unable(why)), None),
        (Ok(_), Some(why)) => (Some(why.clone()), None),
        (Ok(next), None) => (None, next),
    };
    let auto_enable = waits.is_some() && disabled_reason == waits;
    let new = NewJob {
        agent: agent.clone(),
        name: id.to_string(),
        origin: Origin::Skill,
        spec,
        disabled_reason,
        auto_enable,
        next,
    };
    let job = db::jobs::insert(tx, &new, scene.now)?;
    note(tx, key, &Made { job: job.id, digest: wants.digest, gone: false })?;
    Ok(waits.map(|why| fault(id, format!("job {} of agent {agent} is disabled: {why}", job.id))))
}

/// A skill that changed or came back. A job that somebody removed is not made again.
fn change(
    tx: &db::Tx<'_>,
    scene: &mut Scene,
    key: &Key,
    wants: &Wanted,
    made: &Made,
    spec: JobSpec,
) -> Result<Option<Fault>, JobError> {
    note(tx, key, &Made { job: made.job, digest: wants.digest, gone: false })?;
    let Some(job) = db::jobs::get(tx, made.job)? else { return Ok(None) };
    let mut next = JobRow { spec, ..job.clone() };
    if made.digest == wants.digest {
        // The same again: a time that was relative stays what it became.
        next.spec = job.spec.clone();
    }
    let new_trigger = next.spec.trigger != job.spec.trigger;
    let how = if new_trigger { Written::Now } else { Written::Before };
    let back = job.disabled_reason.as_deref() == Some(GONE) || new_trigger && plan::is_spent(&job);
    let waits = waits_for(tx, scene, &key.0, &next.spec)?;
    if job.enabled || back {
        let planned = match () {
            () if back => plan::enable(&mut next, how, scene.now),
            () if new_trigger => plan::schedule(&mut next, how, scene.now),
            () => Ok(()),
        };
        match (planned, &waits) {
            (Err(why), _) => plan::disable(&mut next, unable(why)),
            (Ok(()), Some(why)) => {
                plan::disable(&mut next, why.clone());
                next.auto_enable = true;
            }
            (Ok(()), None) => {}
        }
    }
    if next != job {
        db::jobs::update(tx, &next, "job:updated", scene.now)?;
    }
    let disabled = waits.filter(|_| next.auto_enable);
    Ok(disabled.map(|why| fault(&key.1, format!("job {} of agent {} is disabled: {why}", job.id, key.0))))
}

/// What keeps a job from running that enables itself once it is there.
fn waits_for(
    conn: &db::Conn,
    scene: &mut Scene,
    agent: &AgentId,
    spec: &JobSpec,
) -> Result<Option<String>, db::DbError> {
    if let Some(why) = scene.agent(agent).and_then(|agent| no_command(agent, spec)) {
        return Ok(Some(why));
    }
    let missing = names(scene.missing(conn, agent, spec)?);
    Ok((!missing.is_empty()).then(|| plan::waiting_for(&missing)))
}

fn unable(why: Unable) -> String {
    match why {
        Unable::Passed(_) => PASSED.to_owned(),
        Unable::Schedule(why) => format!("its schedule is no longer possible: {why}"),
    }
}
