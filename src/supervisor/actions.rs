//! What the driver does to one agent: each function carries out one step of a plan and leaves the rest to
//! the next look.

use std::{io, sync::Arc, time::Duration};

use jiff::Timestamp;
use serde_json::json;
use tokio::{sync::SemaphorePermit, time::timeout};

use super::{
    agent::{Agent, init_limits},
    binaries, doors, layout,
    plan::Step,
    prepare::{self, Preparation},
    state::Status,
};
use crate::{
    app::{hive::Hive, tools::servers},
    config::units::format_size,
    db,
    engine::{EngineError, LABEL_ROOT, NetworkSpec, firewall},
    paths::HivePaths,
    sandbox::{
        spec,
        view::{self, ViewSkill},
    },
    wire,
};

/// How long a started container's init may take to dial in.
const DIAL_PATIENCE: Duration = Duration::from_secs(30);
/// Pause after the engine did not answer.
const ENGINE_PAUSE: Duration = Duration::from_secs(1);
/// How long an adoption waits before another look; the plan counts the whole time.
const ADOPT_WAIT: Duration = Duration::from_secs(3);

/// Carries out a step. What fails is noted on the agent and tried again later. The slot is one of the
/// few for work at a time; a step that only waits gives it back.
pub async fn carry_out(hive: &Arc<Hive>, agent: &Arc<Agent>, step: Step, slot: SemaphorePermit<'_>) {
    let result = match step {
        Step::Prepare => prepare(hive, agent).await,
        Step::Start => start(hive, agent).await,
        Step::Adopt => adopt(hive, agent, slot).await,
        Step::Replace(why) => replace(hive, agent, &why).await,
        Step::Bury => bury(hive, agent).await,
        Step::Stop => stop(hive, agent).await,
        Step::Pause => freeze(hive, agent, true).await,
        Step::Unpause => freeze(hive, agent, false).await,
        Step::RemoveStrays(containers) => remove_all(hive, &containers).await,
        Step::Rest(_) | Step::Wait(..) | Step::Forget => Ok(()),
    };
    match result {
        Ok(()) => {}
        Err(Failure::Engine(EngineError::Unavailable(why))) => {
            // Nothing is known of the container: the next listing tells, and no attempt is counted.
            tracing::warn!(agent = %agent.id, "the engine does not answer: {why}");
            tokio::time::sleep(ENGINE_PAUSE).await;
        }
        Err(failure) => {
            let reason = failure.to_string();
            tracing::error!(agent = %agent.id, reason, "failed");
            agent.failed(reason.clone());
            // Something that was prepared may be gone: it is laid anew before the next attempt.
            agent.state().prepared_for = 0;
            set_status(hive, agent, Status::Failed);
            let id = agent.id.clone();
            let noted =
                hive.db.write(move |tx| db::agents::set_last_error(tx, &id, Some(&reason), Timestamp::now()));
            if let Err(e) = noted.await {
                tracing::error!(agent = %agent.id, error = %e, "cannot record the failure");
            }
        }
    }
}

/// Why a step failed.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error(transparent)]
    Engine(#[from] EngineError),
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("{0}")]
    Other(String),
}

/// Notes where an agent stands; a change becomes an event, which nothing waits for.
pub fn set_status(hive: &Hive, agent: &Agent, status: Status) {
    let reason = {
        let mut state = agent.state();
        if state.status == Some(status) {
            return;
        }
        state.status = Some(status);
        if matches!(status, Status::Running | Status::Stopped) {
            state.reason = None;
        }
        if status == Status::Running {
            state.running_since.get_or_insert_with(std::time::Instant::now);
        }
        state.reason.clone()
    };
    hive.due.notify_one();
    tracing::info!(agent = %agent.id, status = status.as_str(), reason, "agent");
    let data = json!({ "agent": agent.id, "status": status, "reason": reason });
    let name = format!("agent:{}", status.as_str());
    let told = hive.db.write(move |tx| db::events::append(tx, Timestamp::now(), &name, &data).map(|_| ()));
    let agent = agent.id.clone();
    tokio::spawn(async move {
        let told: Result<(), db::DbError> = told.await;
        if let Err(e) = told {
            tracing::error!(%agent, error = %e, "cannot record an event");
        }
    });
}

async fn prepare(hive: &Arc<Hive>, agent: &Arc<Agent>) -> Result<(), Failure> {
    let world = hive.world();
    // Set first: what changes meanwhile sets it back.
    agent.state().prepared_for = world.generation;
    let result = match prepare::prepare(hive, agent, &world).await {
        Ok(preparation) => {
            let preparation = Arc::new(preparation);
            match apply(hive, agent, &preparation).await {
                Ok(()) => Ok(preparation),
                Err(e) => Err(e.to_string()),
            }
        }
        Err(why) => Err(why),
    };
    if let Err(why) = &result {
        // An engine that went away in the middle says nothing about the agent: again, once it is back.
        if let Err(e) = hive.engine.list(hive.name.as_str()).await {
            agent.state().prepared_for = 0;
            return Err(e.into());
        }
        if agent.state().reason.as_ref() != Some(why) {
            tracing::error!(agent = %agent.id, "cannot be prepared: {why}");
        }
        agent.unprepared();
    }
    note_preparation(agent, result);
    servers::settle(hive, agent).await;
    hive.ask_for_waiting_jobs(&agent.id);
    // After the new preparation is known: a run that is leased from now on starts from that.
    collect(hive, agent).await
}

fn note_preparation(agent: &Agent, result: Result<Arc<Preparation>, String>) {
    let mut state = agent.state();
    if result.is_ok() {
        (state.unprepared, state.prepare_at) = (0, None);
    }
    let hash = |p: &Result<Arc<Preparation>, String>| p.as_ref().ok().map(|p| p.hash.clone());
    // The same again is no news: an attempt that failed stays failed until its pause is over.
    let changed = state.preparation.as_ref().and_then(hash) != hash(&result);
    match &result {
        Ok(_) if changed && state.status == Some(Status::Failed) => state.reason = None,
        Ok(_) => {}
        Err(why) => state.reason = Some(why.clone()),
    }
    if changed {
        state.failures = 0;
        state.retry_at = None;
    }
    state.preparation = Some(result);
}

/// Removes versions from the view that were replaced, when nothing that may have started from them goes on.
async fn collect(hive: &Arc<Hive>, agent: &Arc<Agent>) -> Result<(), Failure> {
    let Some(preparation) = agent.preparation() else { return Ok(()) };
    if preparation.config.main.is_some() || agent.link.has_trees() {
        return Ok(());
    }
    let id = agent.id.clone();
    let busy = hive.db.read(move |conn| Ok(db::runs::running(conn)?.iter().any(|run| run.agent == id))).await;
    if busy.map_err(|e: db::DbError| Failure::Other(e.to_string()))? {
        return Ok(());
    }
    let dir = agent.dir.clone();
    let collected = tokio::task::spawn_blocking(move || view::collect(&dir.view(), &[]));
    Ok(collected.await.map_err(|e| Failure::Other(e.to_string()))??)
}

/// Lays what a running container sees without a restart: the view, the prompt, the soul, `main`.
async fn apply(hive: &Hive, agent: &Arc<Agent>, preparation: &Arc<Preparation>) -> Result<(), Failure> {
    let (laid, dir) = (preparation.clone(), agent.dir.clone());
    let (user, privileged, source) = (agent.user, hive.privileged, hive.paths.clone());
    let work = move || -> io::Result<()> {
        let skills = view_skills(&laid);
        view::lay(&dir.view(), &skills)?;
        view::flip(&dir.view(), &skills)?;
        layout::replace_file(&dir.skep().join("prompt.md"), laid.prompt.as_bytes())?;
        if let (Some(soul), Some(path)) = (&laid.soul, &laid.config.soul) {
            let owner = (privileged && laid.config.allow_soul_edit).then_some(user);
            super::soul::sync(&dir, &source.resolve(path), soul, owner, laid.config.allow_soul_edit)?;
        }
        Ok(())
    };
    tokio::task::spawn_blocking(work).await.map_err(|e| Failure::Other(e.to_string()))??;
    hive.custom.changed.notify_one();
    if agent.link.status().connected {
        set_main(agent, preparation)?;
    }
    Ok(())
}

fn view_skills(preparation: &Preparation) -> Vec<ViewSkill<'_>> {
    preparation
        .skills
        .iter()
        .map(|s| ViewSkill {
            id: &s.skill.id,
            version: &s.version,
            source: &s.folder,
            generated_skill_md: s.skill_md.as_deref(),
        })
        .collect()
}

/// Makes the init run the wanted `main`, unless it does already.
fn set_main(agent: &Agent, preparation: &Preparation) -> Result<(), Failure> {
    let running = agent.link.main_hash();
    let wanted = preparation.main.as_ref().map(|m| m.hash);
    if running == wanted {
        return Ok(());
    }
    let spool = if wanted.is_some() { layout::open_main_spool(&agent.dir)? } else { Vec::new() };
    agent
        .link
        .set_main(preparation.main.clone(), spool)
        .map_err(|e| Failure::Other(format!("cannot start its main: {e}")))
}

async fn start(hive: &Arc<Hive>, agent: &Arc<Agent>) -> Result<(), Failure> {
    let Some(preparation) = agent.preparation() else { return Ok(()) };
    set_status(hive, agent, Status::Starting);
    agent.container_gone();
    if prepare::needs_network(&preparation.config) {
        ensure_network(hive).await?;
    }
    doors::open(hive, agent)?;
    // No process of this agent lives: versions that only old ones used can go.
    let dir = agent.dir.clone();
    tokio::task::spawn_blocking(move || view::collect(&dir.view(), &[]))
        .await
        .map_err(|e| Failure::Other(e.to_string()))??;
    let id = create(hive, &preparation).await?;
    agent.state().container = Some(id.clone());
    hive.engine.start(&id).await?;
    agent.state().started_at = Some(Timestamp::now());
    let mut status = agent.link.watch();
    let dialled = timeout(DIAL_PATIENCE, status.wait_for(|s| s.connected)).await.is_ok();
    if !dialled {
        let seconds = DIAL_PATIENCE.as_secs();
        hive.engine.remove(&id).await?;
        agent.container_gone();
        return Err(Failure::Other(format!("its init did not dial in within {seconds} s")));
    }
    finish(hive, agent, &preparation, &id).await
}

/// Creates the container. One that is there already under its name is a leftover whose creation was not
/// answered: it goes first.
async fn create(hive: &Hive, preparation: &Preparation) -> Result<String, Failure> {
    let spec = &preparation.spec;
    let conflict = match hive.engine.create(spec, &preparation.hash).await {
        Err(EngineError::Conflict(why)) => why,
        other => return Ok(other?),
    };
    let there = match hive.engine.inspect(&spec.name).await {
        Ok(there) => there,
        Err(EngineError::NotFound(_)) => {
            // The image changed under us: prepare again.
            hive.images.forget_recent();
            return Err(Failure::Other(conflict));
        }
        Err(e) => return Err(e.into()),
    };
    let root = there.spec.labels.get(LABEL_ROOT).map(std::path::PathBuf::from);
    let elsewhere = root.filter(|r| *r != hive.paths.root && HivePaths::new(r.clone()).state().exists());
    if elsewhere.is_some() || there.spec.labels.get("skep.hive") != Some(&hive.name.to_string()) {
        return Err(Failure::Other(format!(
            "a container named {} exists that is not of this hive; remove it or rename the hive",
            spec.name
        )));
    }
    hive.engine.remove(&there.id).await?;
    Ok(hive.engine.create(spec, &preparation.hash).await?)
}

async fn ensure_network(hive: &Hive) -> Result<(), Failure> {
    let network = NetworkSpec::internet(&hive.name);
    hive.engine.ensure_network(&network).await?;
    if hive.privileged
        && let Err(e) = firewall::ensure(&hive.name, &network.bridge).await
    {
        tracing::warn!("agents with network \"internet\" can reach services of this host: {e}");
    }
    Ok(())
}

/// Removes the network of agents that are gone, and its firewall rules.
pub async fn remove_network(hive: &Hive) {
    let network = NetworkSpec::internet(&hive.name);
    if let Err(e) = hive.engine.remove_network(&network.name).await {
        tracing::warn!("cannot remove the network {}: {e}", network.name);
        return;
    }
    if hive.privileged
        && let Err(e) = firewall::remove(&hive.name, &network.bridge).await
    {
        tracing::debug!("cannot remove firewall rules: {e}");
    }
}

/// The init is connected: compares what it sees with what is wanted, and gives it its `main`.
async fn finish(
    hive: &Arc<Hive>,
    agent: &Arc<Agent>,
    preparation: &Preparation,
    container: &str,
) -> Result<(), Failure> {
    let Some(hello) = agent.link.status().hello else { return Ok(()) };
    if hello.version != wire::VERSION {
        return remove_drifted(hive, agent, container, "its init speaks another version").await;
    }
    let missing = spec::mounts_missing(&preparation.spec, &hello.mountinfo);
    if !missing.is_empty() {
        return remove_drifted(hive, agent, container, &missing.join("; ")).await;
    }
    if !binaries::are_known(agent, &preparation.usable.binaries) {
        // Now they can be asked for, and the prompt is right before anything reads it.
        prepare(hive, agent).await?;
    }
    set_main(agent, agent.preparation().as_deref().unwrap_or(preparation))?;
    {
        let mut state = agent.state();
        state.verified = Some((container.to_owned(), preparation.hash.clone()));
        state.container = Some(container.to_owned());
        state.limits = init_limits(state.pid);
        state.retry_at = None;
        state.inspected = None;
        if hello.landlock < 6 {
            tracing::debug!(agent = %agent.id, "no Landlock signal scope: secrets belong to the whole agent");
        }
    }
    set_status(hive, agent, Status::Running);
    hive.ask_for_waiting_jobs(&agent.id);
    Ok(())
}

/// Drift is no failure of the agent: it is told, and a new container made at once.
async fn remove_drifted(hive: &Hive, agent: &Agent, container: &str, why: &str) -> Result<(), Failure> {
    tracing::warn!(agent = %agent.id, "its container is not as specified ({why}); making a new one");
    hive.engine.remove(container).await?;
    agent.container_gone();
    agent.state().reason = Some(format!("recreated: {why}"));
    Ok(())
}

async fn adopt(hive: &Arc<Hive>, agent: &Arc<Agent>, slot: SemaphorePermit<'_>) -> Result<(), Failure> {
    let Some(preparation) = agent.preparation() else { return Ok(()) };
    set_status(hive, agent, Status::Starting);
    doors::open(hive, agent)?;
    // The init dials again at its own pace: others need not wait for it.
    drop(slot);
    let mut status = agent.link.watch();
    let connected = timeout(ADOPT_WAIT, status.wait_for(|s| s.connected)).await.is_ok();
    // Proving the init took a look at the container already, unless none came.
    let looked = agent.state().inspected.take();
    let there = match looked {
        Some(there) => there,
        None => hive.engine.inspect(&preparation.spec.name).await?,
    };
    let drift = spec::drift(&preparation.spec, &there);
    if !drift.is_empty() {
        return remove_drifted(hive, agent, &there.id, &drift.join("; ")).await;
    }
    {
        let mut state = agent.state();
        state.container = Some(there.id.clone());
        state.pid = there.state.pid;
        state.started_at = there.state.started_at.as_deref().and_then(|t| t.parse().ok());
        if !connected {
            state.away_since.get_or_insert_with(std::time::Instant::now);
        }
    }
    if prepare::needs_network(&preparation.config) {
        ensure_network(hive).await?;
    }
    if !connected {
        return Ok(());
    }
    agent.state().away_since = None;
    finish(hive, agent, &preparation, &there.id).await
}

async fn replace(hive: &Arc<Hive>, agent: &Arc<Agent>, why: &str) -> Result<(), Failure> {
    tracing::info!(agent = %agent.id, "replacing its container: {why}");
    take_down(hive, agent).await?;
    let mut state = agent.state();
    if state.restart.take().is_some() {
        state.failures = 0;
        state.retry_at = None;
    }
    Ok(())
}

async fn stop(hive: &Arc<Hive>, agent: &Arc<Agent>) -> Result<(), Failure> {
    take_down(hive, agent).await?;
    agent.set_door(None);
    Ok(())
}

async fn take_down(hive: &Arc<Hive>, agent: &Arc<Agent>) -> Result<(), Failure> {
    set_status(hive, agent, Status::Stopping);
    let grace = agent.preparation().map_or(Duration::from_secs(10), |p| p.config.stop_grace);
    let container = agent.state().container.clone();
    let name = container.unwrap_or_else(|| spec::container_name(&hive.name, agent.id.as_str()));
    // The init needs a moment of its own beyond the grace that it gives its processes.
    match hive.engine.stop(&name, grace + Duration::from_secs(2)).await {
        Ok(()) | Err(EngineError::NotFound(_)) => {}
        Err(e) => return Err(e.into()),
    }
    hive.engine.remove(&name).await?;
    agent.container_gone();
    agent.state().running_since = None;
    Ok(())
}

/// The container ended by itself: why, then remove it; the next start waits out the backoff.
async fn bury(hive: &Arc<Hive>, agent: &Arc<Agent>) -> Result<(), Failure> {
    let name = spec::container_name(&hive.name, agent.id.as_str());
    let reason = match hive.engine.inspect(&name).await {
        Ok(there) if there.state.started_at.is_none() && there.state.error.is_empty() => {
            // Made, but whoever made it did not live to start it, or did not hear that it was made.
            hive.engine.remove(&there.id).await?;
            agent.container_gone();
            return Ok(());
        }
        Ok(there) if there.state.running => {
            "a process inside lowered the limits of its init, which then could start nothing more".to_owned()
        }
        Ok(there) if there.state.oom_killed && !agent.survived_memory(&there) => format!(
            "its container ran out of memory (limit {}); raise `memory` or let it do less at once",
            format_size(there.spec.memory)
        ),
        Ok(there) if !there.state.error.is_empty() => {
            format!("its container could not be started: {}", there.state.error)
        }
        Ok(there) => format!("its container ended by itself with exit code {}", there.state.exit_code),
        Err(EngineError::NotFound(_)) => "its container disappeared".to_owned(),
        Err(e) => return Err(e.into()),
    };
    hive.engine.remove(&name).await?;
    agent.container_gone();
    let (id, why) = (agent.id.clone(), reason.clone());
    let counted = hive
        .db
        .write(move |tx| db::agents::record_restart(tx, &id, Some(&why), Timestamp::now()))
        .await
        .map_err(|e: db::DbError| Failure::Other(e.to_string()))?;
    agent.state().restarts = counted;
    Err(Failure::Other(reason))
}

async fn freeze(hive: &Hive, agent: &Agent, freeze: bool) -> Result<(), Failure> {
    let Some(container) = agent.state().container.clone() else { return Ok(()) };
    if freeze {
        let limit = agent.preparation().map_or(0, |p| p.config.disk);
        let used = agent.state().disk.map_or(0, |(used, _)| used);
        agent.state().reason = Some(format!(
            "its workspace and custom folder use {}, its limit is {}; remove files below {} or raise `disk`",
            format_size(used),
            format_size(limit),
            agent.dir.root.display()
        ));
        hive.engine.pause(&container).await?;
        set_status(hive, agent, Status::Paused);
    } else {
        hive.engine.unpause(&container).await?;
        agent.state().reason = None;
    }
    Ok(())
}

async fn remove_all(hive: &Hive, containers: &[String]) -> Result<(), Failure> {
    for container in containers {
        tracing::warn!(container, "removing a container that no agent owns");
        hive.engine.remove(container).await?;
    }
    Ok(())
}
