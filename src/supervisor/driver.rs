//! The driver: reads what is desired and what is there, plans each agent, and has the steps carried out.
//!
//! One step per agent at a time, a bounded number at once. A listing that is older than an agent's last
//! step says nothing about it. Nothing is planned on an engine that does not answer.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use jiff::Timestamp;
use tokio::{sync::Semaphore, time::timeout};

use super::{
    actions,
    agent::{Agent, init_limits},
    disk, doors,
    plan::{Facts, Prepared, Seen, Step, plan},
    soul,
    state::{Status, Wanted},
};
use crate::{
    app::hive::Hive,
    engine::{EngineError, Listed},
    sandbox::spec::container_name,
};

/// Everything is looked at this often when nothing happens.
const SWEEP: Duration = Duration::from_secs(30);
/// As often while the hive goes down.
const STOPPING: Duration = Duration::from_millis(200);
/// However much is due, the engine is asked no more often than this unless something happens.
const SHORTEST: Duration = Duration::from_millis(100);
/// Pause while the engine does not answer.
const ENGINE_RETRY: Duration = Duration::from_secs(1);
/// Longest pause between two looks while something happens.
const MOST_PAUSE: Duration = Duration::from_millis(100);

/// Runs until the hive stops; with its agents, when they are to stop too.
pub async fn run(hive: Arc<Hive>) {
    let slots = Arc::new(Semaphore::new(2 * std::thread::available_parallelism().map_or(2, usize::from)));
    let events = tokio::spawn(follow_events(hive.clone()));
    let disks = tokio::spawn(disk::watch(hive.clone()));
    let souls = tokio::spawn(soul::watch(hive.clone()));
    loop {
        if hive.stopping.is_cancelled() && (!hive.stops_agents() || all_down(&hive)) {
            break;
        }
        let began = Instant::now();
        let next = match hive.engine.list(hive.name.as_str()).await {
            Ok(listing) => {
                if hive.note_engine(None) {
                    tracing::info!("the container engine answers");
                }
                look(&hive, &listing, began, &slots).await
            }
            Err(e) => {
                if hive.note_engine(Some(e.to_string())) {
                    tracing::error!("{e}; waiting for it");
                }
                doubt(&hive).await;
                if hive.stopping.is_cancelled() {
                    tracing::error!("stopping without the agents: the engine does not answer");
                    break;
                }
                ENGINE_RETRY
            }
        };
        let looked = began.elapsed();
        // Nobody is woken by what was found stopped just now.
        let next = if hive.stopping.is_cancelled() { next.min(STOPPING) } else { next };
        timeout(next, hive.wake.notified()).await.unwrap_or_default();
        // Where listing takes long, at most half the time goes into it: what happens meanwhile is seen at once.
        tokio::time::sleep((2 * looked).saturating_sub(began.elapsed()).min(MOST_PAUSE)).await;
    }
    if hive.stops_agents() {
        actions::remove_network(&hive).await;
    }
    events.abort();
    disks.abort();
    souls.abort();
}

/// Without the engine only a connected init proves that its agent runs.
async fn doubt(hive: &Hive) {
    for agent in hive.all_agents() {
        let (busy, status) = {
            let state = agent.state();
            (state.busy, state.status)
        };
        let up = matches!(status, Some(Status::Running | Status::Starting));
        if !busy && up && !agent.link.status().connected {
            actions::set_status(hive, &agent, Status::Pending);
        }
    }
}

fn all_down(hive: &Hive) -> bool {
    hive.all_agents().iter().all(|agent| {
        let state = agent.state();
        !state.busy && state.container.is_none() && state.status == Some(Status::Stopped)
    })
}

/// Plans every agent once; answers when to look again.
async fn look(hive: &Arc<Hive>, listing: &[Listed], began: Instant, slots: &Arc<Semaphore>) -> Duration {
    let world = hive.world();
    let mut next = SWEEP;
    let mut by_agent: BTreeMap<&str, Vec<&Listed>> = BTreeMap::new();
    for container in listing.iter().filter(|c| hive.stranger(c).is_none()) {
        let agent = container.labels.get("skep.agent").map_or("", String::as_str);
        by_agent.entry(agent).or_default().push(container);
    }
    for agent in hive.all_agents() {
        if let Some(at) = agent.prepares_at() {
            next = next.min(at.saturating_duration_since(began).max(SHORTEST));
        }
        let containers = by_agent.remove(agent.id.as_str()).unwrap_or_default();
        {
            let state = agent.state();
            if state.busy || state.settled.is_some_and(|at| at >= began) {
                continue;
            }
        }
        let facts = gather(hive, &agent, &containers, world.due(&agent.id));
        keep_door(hive, &agent, &facts);
        match plan(&facts) {
            Step::Rest(status) => actions::set_status(hive, &agent, status),
            Step::Wait(status, left) => {
                actions::set_status(hive, &agent, status);
                next = next.min(left);
            }
            Step::Forget => {
                agent.set_door(None);
                hive.drop_agent(&agent.id);
            }
            step => act(hive, agent, step, slots),
        }
    }
    // An agent that is configured but not known yet (its row could not be written) owns what it has.
    let owned = |agent: &str| world.config.agents.keys().any(|known| known.as_str() == agent);
    let orphans = by_agent.into_iter().filter(|(agent, _)| !owned(agent));
    let orphans: Vec<String> = orphans.flat_map(|(_, containers)| containers).map(|c| c.id.clone()).collect();
    for orphan in orphans {
        tracing::warn!(container = orphan, "removing a container of this hive that no agent owns");
        if let Err(e) = hive.engine.remove(&orphan).await {
            tracing::warn!(container = orphan, "cannot remove it: {e}");
        }
    }
    next
}

/// Whatever runs finds its door open, also when nothing new could be made in its place.
fn keep_door(hive: &Hive, agent: &Agent, facts: &Facts) {
    if facts.wanted.is_some()
        && facts.container.as_ref().is_some_and(|container| container.running)
        && let Err(e) = doors::open(hive, agent)
    {
        tracing::warn!(agent = %agent.id, "cannot open its door: {e}");
    }
}

fn act(hive: &Arc<Hive>, agent: Arc<Agent>, step: Step, slots: &Arc<Semaphore>) {
    agent.state().busy = true;
    let (hive, slots) = (hive.clone(), slots.clone());
    tokio::spawn(async move {
        if let Ok(slot) = slots.acquire().await {
            actions::carry_out(&hive, &agent, step, slot).await;
        }
        {
            let mut state = agent.state();
            state.busy = false;
            state.settled = Some(Instant::now());
        }
        hive.wake.notify_one();
    });
}

fn gather(hive: &Hive, agent: &Agent, containers: &[&Listed], due: u64) -> Facts {
    let link = agent.link.status();
    let backoff = agent.backoff();
    let name = container_name(&hive.name, agent.id.as_str());
    let own = containers.iter().find(|c| c.name == name);
    let mut state = agent.state();
    state.seen = true;
    match own {
        Some(container) if state.container.as_ref() != Some(&container.id) => {
            state.container = Some(container.id.clone());
            state.pid = 0;
        }
        Some(_) => {}
        None => state.container = None,
    }
    if link.connected {
        state.away_since = None;
    } else if own.is_some_and(|c| c.running) {
        state.away_since.get_or_insert_with(Instant::now);
    }
    let stopping = hive.stopping.is_cancelled();
    Facts {
        wanted: match state.wanted {
            Some(Wanted::Running) if stopping && hive.stops_agents() => Some(Wanted::Stopped),
            wanted => wanted,
        },
        prepared: match &state.preparation {
            _ if state.prepared_for < due => Prepared::No,
            None => Prepared::No,
            Some(Ok(preparation)) => Prepared::Yes(preparation.hash.clone()),
            Some(Err(_)) if state.prepare_at.is_some_and(|at| at <= Instant::now()) => Prepared::No,
            Some(Err(_)) => Prepared::Impossible,
        },
        container: own.map(|container| Seen {
            id: container.id.clone(),
            running: container.running,
            paused: container.paused,
            spec: container.labels.get(crate::engine::LABEL_SPEC).cloned(),
            verified: state.verified.as_ref().is_some_and(|(id, _)| *id == container.id),
            crippled: container.running
                && state.limits.is_some()
                && init_limits(state.pid).is_some_and(|now| Some(now) != state.limits),
            link_away: state.away_since.map(|since| since.elapsed()),
        }),
        strays: containers.iter().filter(|c| c.name != name).map(|c| c.id.clone()).collect(),
        restart: own.is_some_and(|container| state.restart.as_ref() == Some(&container.id)),
        backoff,
        over_disk: state.disk.is_some_and(|(_, over)| over),
    }
}

fn note_out_of_memory(hive: &Hive, container: String) {
    for agent in hive.all_agents() {
        let mut state = agent.state();
        if state.container.as_ref() == Some(&container) {
            state.out_of_memory = Some((container, Timestamp::now()));
            return;
        }
    }
}

/// Engine events only wake the driver: what they tell is read anew.
async fn follow_events(hive: Arc<Hive>) {
    loop {
        let (sender, mut receiver) = tokio::sync::mpsc::channel::<crate::engine::EngineEvent>(256);
        let hear = async {
            while let Some(event) = receiver.recv().await {
                if event.action == "oom" {
                    note_out_of_memory(&hive, event.container);
                    continue;
                }
                if matches!(event.action.as_str(), "die" | "destroy" | "pause" | "unpause") {
                    hive.wake.notify_one();
                }
            }
        };
        let stream = hive.engine.events(hive.name.as_str(), sender);
        let (ended, ()) = tokio::join!(stream, hear);
        if let Err(e @ (EngineError::Refused(_) | EngineError::NotFound(_))) = ended {
            tracing::warn!("the engine gives no events: {e}");
        }
        // Whatever passed meanwhile is found by the next listing.
        hive.wake.notify_one();
        tokio::time::sleep(ENGINE_RETRY).await;
    }
}
