//! Who comes through the agents' doors: the init is proven and served, everybody else is handed on.

use std::{
    os::unix::net::UnixStream,
    sync::Arc,
    time::{Duration, Instant},
};

use jiff::Timestamp;
use serde_json::json;

use super::agent::Agent;
use crate::{app::hive::Hive, db, ids::AgentId, init::door};

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
    let mut status = agent.link.watch();
    let link = agent.link.clone();
    let served = tokio::spawn(async move { link.serve(stream, grace).await });
    if status.wait_for(|s| s.connected).await.is_ok() {
        agent.state().away_since = None;
        hive.wake.notify_one();
    }
    match served.await {
        Ok(Err(e)) => tracing::debug!(agent = %agent.id, error = %e, "the link to the init broke"),
        Ok(Ok(())) | Err(_) => {}
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
    let told = hive.db.write(move |tx| {
        db::events::append(tx, Timestamp::now(), "agent:impostor", &data).map_err(db::DbError::from)
    });
    if let Err(e) = told.await {
        tracing::error!(error = %e, "cannot record an event");
    }
}

async fn is_main_process(hive: &Hive, agent: &Agent, pid: i32) -> bool {
    for _ in 0..PID_TRIES {
        let known = agent.state().pid;
        if known != 0 {
            return known == pid;
        }
        let name = crate::sandbox::spec::container_name(&hive.name, agent.id.as_str());
        match hive.engine.inspect(&name).await {
            Ok(inspected) if inspected.state.pid != 0 => agent.state().pid = inspected.state.pid,
            Ok(_) => tokio::time::sleep(PID_PAUSE).await,
            Err(e) => {
                tracing::debug!(agent = %agent.id, error = %e, "cannot ask for the container's pid");
                tokio::time::sleep(PID_PAUSE).await;
            }
        }
    }
    false
}
