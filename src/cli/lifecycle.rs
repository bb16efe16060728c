//! `skep start`, `stop`, `restart`: asks, then waits until each agent is where it should be.

use std::time::{Duration, Instant};

use serde::Serialize;

use super::{
    client::Client,
    failure::{FAILED, Failure, Outcome},
    hive::Context,
    ui::plain,
};
use crate::{app::types::AgentView, ids::AgentId, supervisor::state::Status};

/// Between two looks.
const PAUSE: Duration = Duration::from_millis(100);
/// What an agent was before is seen so long at most after it was asked.
const STALE: Duration = Duration::from_secs(2);

/// `skep start`, `stop`, `restart`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Which agents
    #[arg(required = true, value_name = "AGENT")]
    agents: Vec<AgentId>,
    /// Do not wait until it is done
    #[arg(long)]
    no_wait: bool,
    /// Seconds to wait at most
    #[arg(long, value_name = "SECONDS", default_value_t = 120, conflicts_with = "no_wait")]
    timeout: u64,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// What is asked of the agents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    /// It shall run.
    Start,
    /// It shall not.
    Stop,
    /// A new container.
    Restart,
}

impl Verb {
    fn path(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Stop => "stop",
            Self::Restart => "restart",
        }
    }
}

#[derive(Debug, Serialize)]
struct Reached {
    agent: AgentId,
    status: Status,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

pub(super) async fn run(context: &Context, args: &Args, verb: Verb) -> Outcome {
    let client = context.client()?;
    let mut waiting = Vec::new();
    // All are looked at first: a name that does not exist changes nothing.
    for agent in &args.agents {
        waiting.push((agent, look(&client, agent).await?));
    }
    for agent in &args.agents {
        client.post(&format!("/v1/agents/{agent}/{}", verb.path())).await?;
    }
    if args.no_wait {
        return Ok(0);
    }
    let asked = Instant::now();
    let deadline = asked + Duration::from_secs(args.timeout);
    let spinner = context.ui.spinner();
    let mut reached = Vec::new();
    let mut code = 0;
    for (agent, before) in waiting {
        let now = loop {
            let now = look(&client, agent).await?;
            if let Some(worked) = done(verb, &before, &now, asked.elapsed()) {
                code = if worked { code } else { FAILED };
                break now;
            }
            if Instant::now() > deadline {
                spinner.finish_and_clear();
                return Err(late(agent, &now, args.timeout));
            }
            spinner.set_message(format!("{agent}: {}", now.status.as_str()));
            tokio::time::sleep(PAUSE).await;
        };
        if !args.json {
            spinner.suspend(|| tell(context, &now))?;
        }
        reached.push(Reached { agent: agent.clone(), status: now.status, reason: now.reason });
    }
    spinner.finish_and_clear();
    if args.json {
        context.ui.json(&reached)?;
    }
    Ok(code)
}

async fn look(client: &Client, agent: &AgentId) -> Result<AgentView, Failure> {
    client.get(&format!("/v1/agents/{agent}"), &[]).await
}

/// Whether it is over, and well.
fn done(verb: Verb, before: &AgentView, now: &AgentView, asked: Duration) -> Option<bool> {
    let fresh = now != before || asked > STALE;
    match (verb, now.status) {
        (Verb::Stop, Status::Stopped) | (Verb::Start, Status::Running) => Some(true),
        (Verb::Restart, Status::Running) if renewed(before, now) => Some(true),
        (Verb::Start | Verb::Restart, Status::Failed) if fresh => Some(false),
        (Verb::Start, Status::Paused) => Some(false),
        (Verb::Restart, Status::Paused) if renewed(before, now) => Some(false),
        _ => None,
    }
}

fn renewed(before: &AgentView, now: &AgentView) -> bool {
    before.status != Status::Running
        || (&before.container_id, &before.started_at) != (&now.container_id, &now.started_at)
}

fn tell(context: &Context, agent: &AgentView) -> std::io::Result<()> {
    let why = agent.reason.as_deref().map(|r| format!(": {}", plain(r))).unwrap_or_default();
    context.ui.line(format!("{} {}{why}", agent.id, agent.status.as_str()))
}

fn late(agent: &AgentId, now: &AgentView, seconds: u64) -> Failure {
    let why = now.reason.as_deref().map(|r| format!(" ({})", plain(r))).unwrap_or_default();
    Failure::new(format!("agent {agent} is {} after {seconds} s{why}", now.status.as_str()))
        .help("it goes on: look with `skep ps`, or wait longer with --timeout")
}
