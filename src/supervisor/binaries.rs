//! Which programs an agent's container has on its PATH, asked through its init and remembered for the container.
//!
//! What a container answers concerns its own agent alone, so it is believed.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use tokio::{io::AsyncReadExt, net::unix::pipe, time::timeout};

use super::{agent::Agent, state::Status};
use crate::{
    init::link::LinkError,
    wire::{Environment, Io, Start},
};

/// Names that are found, a line each. Files alone: what only a shell knows is no program.
const LOOK: &str = r#"IFS=:; for name; do for folder in $PATH; do
if [ -f "$folder/$name" ] && [ -x "$folder/$name" ]; then printf '%s\n' "$name"; break; fi; done; done"#;
/// How long the look may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// Bytes of the answer that are read.
const MAX_ANSWER: u64 = 1 << 20;

/// Which of these programs are there. One that could not be asked for (no container runs, it does not answer) is not
/// in the answer.
pub async fn look_up(agent: &Agent, wanted: &BTreeSet<String>) -> BTreeMap<String, bool> {
    let (known, container) = {
        let state = agent.state();
        let known = state.binaries.clone();
        (known, state.container.clone().filter(|_| state.status != Some(Status::Paused)))
    };
    let Some(container) = container else { return BTreeMap::new() };
    let mut known = known.filter(|(of, _)| *of == container).map(|(_, known)| known).unwrap_or_default();
    let unknown: BTreeSet<String> =
        wanted.iter().filter(|name| !known.contains_key(*name)).cloned().collect();
    if unknown.is_empty() || !agent.link.status().connected {
        return known;
    }
    match ask(agent, &unknown).await {
        Ok(found) => {
            known.extend(unknown.into_iter().map(|name| (name.clone(), found.contains(&name))));
            let mut state = agent.state();
            if state.container.as_ref() == Some(&container) {
                state.binaries = Some((container, known.clone()));
            }
        }
        Err(e) => {
            tracing::warn!(agent = %agent.id, error = %e, "cannot look for the programs that its skills need");
        }
    }
    known
}

/// Whether it is known of each of these programs whether the agent's container has it.
pub fn are_known(agent: &Agent, wanted: &BTreeSet<String>) -> bool {
    let state = agent.state();
    wanted.is_empty()
        || state.binaries.as_ref().is_some_and(|(of, known)| {
            state.container.as_ref() == Some(of) && wanted.iter().all(|name| known.contains_key(name))
        })
}

async fn ask(agent: &Agent, names: &BTreeSet<String>) -> Result<BTreeSet<String>, LinkError> {
    let argv = ["sh", "-c", LOOK, "sh"].into_iter().map(str::to_owned).chain(names.iter().cloned());
    let start = Start {
        id: agent.link.next_id(),
        argv: argv.collect(),
        env: Environment(Vec::new()),
        cwd: "/".to_owned(),
        not_before_us: None,
        timeout_ms: Some(5_000),
        grace_ms: 0,
        bound: true,
        held_to: None,
        io: Io::Stream,
    };
    let id = start.id;
    let asked = async {
        let mut started = agent.link.start(start, Vec::new()).await?;
        // Standard input, output, error.
        let output = (started.fds.len() == 3).then(|| started.fds.remove(1)).ok_or(LinkError::Lost)?;
        let receiver = pipe::Receiver::from_owned_fd(output).map_err(|_| LinkError::Lost)?;
        let mut text = String::new();
        receiver.take(MAX_ANSWER).read_to_string(&mut text).await.map_err(|_| LinkError::Lost)?;
        started.exit.await.map_err(|_| LinkError::Lost)?;
        Ok(text.lines().map(str::to_owned).collect())
    };
    timeout(PATIENCE, asked).await.unwrap_or_else(|_| {
        agent.link.end(id, Duration::ZERO);
        Err(LinkError::Silent)
    })
}
