//! `skep down`: stops agents and supervisor; with `--purge` removes `.skep` too, after asking.
//!
//! Removes only what skep made: never a file that was written by hand, never a container of
//! another hive that has the same name.

use std::{
    fs,
    time::{Duration, Instant},
};

use reqwest::Method;
use serde_json::json;

use super::{
    ask,
    client::Client,
    failure::{FAILED, Failure, Outcome},
    hive::{self, Context},
};
use crate::{
    db::lock::{HiveLock, Holder},
    engine::{Engine, EngineError, NetworkSpec, docker::DockerEngine, firewall},
    paths::HivePaths,
};

/// Between two looks.
const PAUSE: Duration = Duration::from_millis(100);

/// `skep down`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Also remove .skep: database, store, logs, and every agent's workspace
    #[arg(long)]
    purge: bool,
    /// Do not ask
    #[arg(short, long, requires = "purge")]
    yes: bool,
    /// Let the agents run on; the next supervisor takes them over
    #[arg(long, conflicts_with = "purge")]
    keep_agents: bool,
    /// Seconds to wait at most
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    timeout: u64,
}

pub(super) async fn run(context: &Context, args: &Args) -> Outcome {
    context.only_here()?;
    let hive = context.hive()?;
    if args.purge && !args.yes && !may_purge(context, &hive)? {
        return Ok(FAILED);
    }
    match hive::supervisor(&hive)? {
        Some(holder) => stop_supervisor(context, &hive, &holder, args).await?,
        None => without_supervisor(context, &hive, args).await?,
    }
    if args.purge { purge(context, &hive) } else { Ok(0) }
}

fn may_purge(context: &Context, hive: &HivePaths) -> Result<bool, Failure> {
    let question = format!(
        "This removes {} for good: the database, stored skills, logs, and what the agents keep in their\n\
         workspaces. skep.toml, skep.lock, skills, souls and secrets stay. Remove it?",
        hive.state().display()
    );
    ask::sure(context, "--purge", &question)
}

async fn stop_supervisor(
    context: &Context,
    hive: &HivePaths,
    holder: &Holder,
    args: &Args,
) -> Result<(), Failure> {
    let body = json!({ "stop_agents": !args.keep_agents });
    Client::unix(hive)?.call(Method::POST, "/v1/shutdown", Some(&body)).await.map_err(|mut failure| {
        failure.help = vec![format!(
            "end it with `kill {}`, then run `skep down` again to remove its containers",
            holder.pid
        )];
        failure
    })?;
    let spinner = context.ui.spinner();
    spinner.set_message("agents and supervisor stop");
    let deadline = Instant::now() + Duration::from_secs(args.timeout);
    // The kernel frees the lock when the process is gone, and not before.
    while hive::supervisor(hive)?.is_some_and(|now| now.pid == holder.pid) {
        if Instant::now() > deadline {
            spinner.finish_and_clear();
            return Err(Failure::new(format!(
                "the supervisor (process {}) still runs after {} s",
                holder.pid, args.timeout
            ))
            .help("look at .skep/logs/skep.log, or wait longer with --timeout"));
        }
        tokio::time::sleep(PAUSE).await;
    }
    spinner.finish_and_clear();
    context.ui.note(if args.keep_agents {
        "the supervisor has stopped; the agents run on"
    } else {
        "agents and supervisor have stopped"
    });
    Ok(())
}

/// A supervisor that was killed leaves its containers running.
async fn without_supervisor(context: &Context, hive: &HivePaths, args: &Args) -> Result<(), Failure> {
    let name = hive::name(hive);
    if !hive.state().exists() || args.keep_agents {
        context.ui.note(format!("no supervisor runs for the hive {name}"));
        return Ok(());
    }
    let engine = DockerEngine::new(context.env.docker_host.as_deref());
    let left = leftovers(&engine, hive, &name).await.map_err(|e| {
        Failure::new(format!("no supervisor runs for the hive {name}, and what it left cannot be seen: {e}"))
            .help("start the engine and run `skep down` again")
    })?;
    if left.is_empty() {
        context.ui.note(format!("no supervisor runs for the hive {name}, and no agent does"));
        return Ok(());
    }
    context.ui.note(format!("no supervisor runs for the hive {name}, but its agents do"));
    let grace = Duration::from_secs(10);
    let ends = left.iter().map(|(id, container)| {
        let engine = &engine;
        async move {
            engine.stop(id, grace).await?;
            engine.remove(id).await?;
            Ok::<_, EngineError>(container)
        }
    });
    for end in futures_util::future::join_all(ends).await {
        context.ui.note(format!("removed the container {}", end?));
    }
    if let Ok(hive_name) = name.parse() {
        let network = NetworkSpec::internet(&hive_name);
        engine.remove_network(&network.name).await?;
        // Without root there are no rules of ours.
        firewall::remove(&hive_name, &network.bridge).await.unwrap_or_default();
    }
    Ok(())
}

/// Containers with this hive's name that mount something of this very folder.
async fn leftovers(
    engine: &dyn Engine,
    hive: &HivePaths,
    name: &str,
) -> Result<Vec<(String, String)>, EngineError> {
    let mut found = Vec::new();
    for listed in engine.list(name).await? {
        match engine.inspect(&listed.id).await {
            Ok(inspected) => {
                let ours = inspected.spec.mounts.iter().any(|m| m.source.starts_with(hive.state()));
                if ours {
                    found.push((listed.id, listed.name));
                }
            }
            Err(EngineError::NotFound(_)) => {}
            Err(e) => return Err(e),
        }
    }
    Ok(found)
}

fn purge(context: &Context, hive: &HivePaths) -> Outcome {
    let state = hive.state();
    if !state.exists() {
        return Ok(0);
    }
    // No supervisor may start meanwhile; the lock goes with the folder.
    let holder = Holder {
        pid: std::process::id(),
        started_at: jiff::Timestamp::now(),
        socket: "nowhere: it removes .skep".to_owned(),
    };
    let lock = HiveLock::acquire(&hive::lock_file(hive), &holder)?;
    fs::remove_dir_all(&state).map_err(|e| {
        Failure::new(format!("cannot remove all of {}: {e}", state.display()))
            .help("agents' files may belong to other users: run it again with sudo")
    })?;
    drop(lock);
    context.ui.note(format!("removed {}", state.display()));
    Ok(0)
}
