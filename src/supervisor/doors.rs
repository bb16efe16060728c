//! Who comes through the agents' doors: the init is proven and served, everybody else is handed on.

use std::{
    io::Write,
    os::unix::net::UnixStream,
    sync::Arc,
    time::{Duration, Instant},
};

use jiff::Timestamp;
use serde_json::json;

use super::agent::Agent;
use crate::{
    app::hive::Hive,
    db,
    ids::AgentId,
    init::{door, link::Terms},
    wire,
};

/// How long the engine may take to tell the pid of a container that is just starting.
const PID_TRIES: u32 = 80;
const PID_PAUSE: Duration = Duration::from_millis(25);
/// Impostors of one agent are told of at most this often.
const IMPOSTOR_PAUSE: Duration = Duration::from_secs(30);

/// Opens the agent's door unless it is open.
///
/// # Errors
/// Of the file system or the socket.
pub fn open(hive: &Hive, agent: &Agent) -> std::io::Result<()> {
    if agent.has_door() {
        return Ok(());
    }
    // Reachable by the agent's own uid alone: nobody else on the host gets into its folder.
    let listener = door::bind(&agent.dir.skep(), door::SOCKET_NAME, 0o666)?;
    let keep = door::keep(listener, agent.id.clone(), hive.callers.clone());
    agent.set_door(Some(tokio::spawn(keep)));
    Ok(())
}

/// Serves a caller that claims to be an agent's init, once it is proven to be the container's main process.
pub async fn serve_init(hive: Arc<Hive>, agent: AgentId, stream: UnixStream, pid: i32) {
    let Ok(agent) = hive.find_agent(&agent) else { return };
    if !is_main_process(&hive, &agent, pid).await {
        tell_impostor(&hive, &agent, pid).await;
        return;
    }
    let grace = agent.preparation().map_or(Duration::from_secs(10), |p| p.config.stop_grace);
    let container = agent.state().container.clone().unwrap_or_default();
    let (key, known) = match key(&agent, &container) {
        Ok(key) => key,
        Err(e) => {
            tracing::error!(agent = %agent.id, error = %e, "cannot make a key for its init");
            return;
        }
    };
    let terms = Terms { key, known, stop_grace: grace };
    let mut status = agent.link.watch();
    let link = agent.link.clone();
    let served = tokio::spawn(async move { link.serve(stream, &terms).await });
    if status.wait_for(|s| s.connected).await.is_ok() {
        agent.state().away_since = None;
        // Written after the welcome: a supervisor that dies in between finds no key, and hands out another.
        if !known && let Err(e) = keep_key(&agent, &container, &key) {
            tracing::error!(agent = %agent.id, error = %e, "cannot keep the key of its init");
        }
        hive.wake.notify_one();
        hive.due.notify_one();
    }
    if let Ok(Err(e)) = served.await {
        tracing::debug!(agent = %agent.id, error = %e, "the link to the init broke");
    }
    hive.wake.notify_one();
}

/// Tells of an impostor, of a flood of them only so often: an agent must not fill the log or the database.
async fn tell_impostor(hive: &Hive, agent: &Agent, pid: i32) {
    let untold = {
        let mut state = agent.state();
        match &mut state.impostors {
            Some((told, more)) if told.elapsed() < IMPOSTOR_PAUSE => {
                *more += 1;
                return;
            }
            impostors => impostors.replace((Instant::now(), 0)).map_or(0, |(_, more)| more),
        }
    };
    tracing::warn!(agent = %agent.id, pid, untold, "a process posed as the init at the agent's door; refused");
    let data = json!({ "agent": agent.id, "pid": pid, "untold": untold });
    let told: Result<(), db::DbError> = hive
        .db
        .write(move |tx| db::events::append(tx, Timestamp::now(), "agent:impostor", &data).map(|_| ()))
        .await;
    if let Err(e) = told {
        tracing::error!(error = %e, "cannot record an event");
    }
}

/// The key of a container's init, and whether it was handed over before. It is kept in a file of the
/// supervisor's, so that the next one knows it too.
fn key(agent: &Agent, container: &str) -> std::io::Result<(wire::Key, bool)> {
    let mut key = wire::Key::default();
    if let Ok(text) = std::fs::read_to_string(agent.dir.root.join("init.key"))
        && let Some((of, hex)) = text.split_once(' ')
        && of == container
        && hex::decode_to_slice(hex, &mut key).is_ok()
    {
        return Ok((key, true));
    }
    getrandom::fill(&mut key).map_err(std::io::Error::other)?;
    Ok((key, false))
}

fn keep_key(agent: &Agent, container: &str, key: &wire::Key) -> std::io::Result<()> {
    let mut file = tempfile::NamedTempFile::new_in(&agent.dir.root)?;
    write!(file, "{container} {}", hex::encode(key))?;
    file.persist(agent.dir.root.join("init.key"))?;
    Ok(())
}

async fn is_main_process(hive: &Hive, agent: &Agent, pid: i32) -> bool {
    for _ in 0..PID_TRIES {
        let known = agent.state().pid;
        if known != 0 {
            return known == pid;
        }
        let name = crate::sandbox::spec::container_name(&hive.name, agent.id.as_str());
        match hive.engine.inspect(&name).await {
            Ok(inspected) if inspected.state.pid != 0 => {
                let mut state = agent.state();
                state.pid = inspected.state.pid;
                state.container = Some(inspected.id.clone());
                state.inspected = Some(inspected);
            }
            Ok(_) => tokio::time::sleep(PID_PAUSE).await,
            Err(e) => {
                tracing::debug!(agent = %agent.id, error = %e, "cannot ask for the container's pid");
                tokio::time::sleep(PID_PAUSE).await;
            }
        }
    }
    false
}
