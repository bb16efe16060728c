//! Asks scripts that know `--describe` what they take (systems.md D16): in their agent's container, without secrets,
//! once for each content. What went wrong on the way to a script says nothing of it: then it is asked again.
//!
//! Only a script whose text speaks of `--describe` is asked: another would take it for a call.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures_util::{StreamExt, stream};
use serde_json::Value;

use super::desk::Described;
use crate::{
    app::{exec, hive::Hive, runs::action},
    ids::{AgentId, Digest},
    init::link::LinkError,
    sandbox::describe::first_sentence,
    secrets::mask::Masker,
    supervisor::agent::Agent,
    tools::{Kind, Script, catalogue::Listed},
    wire::{Environment, Exit, Io, Start},
};

/// What a script may take to say it.
const PATIENCE: Duration = Duration::from_secs(5);
/// Scripts that are asked at the same time.
const AT_ONCE: usize = 4;

/// Fills in what the scripts among `listed` say when they are asked; false when one could not be reached. Asks nobody
/// while the agent does not run.
pub(super) async fn ask(hive: &Arc<Hive>, id: &AgentId, listed: &mut [Listed]) -> bool {
    let Ok(agent) = hive.running_agent(id) else { return true };
    let world = hive.world();
    let Some(Ok(resolution)) = world.resolutions.get(id) else { return true };
    let unsaid = listed.iter_mut().filter_map(|listed| {
        let Kind::Script(script) = listed.tool.kind.clone() else { return None };
        let digest = resolution.skills.get(&script.skill)?.digest;
        let asked = hive.tools.of_scripts(&digest)?.get(&script.path).filter(|said| said.ask)?.clone();
        Some((listed, script, digest, asked))
    });
    let whole = AtomicBool::new(true);
    stream::iter(unsaid)
        .for_each_concurrent(AT_ONCE, |(listed, script, digest, before)| {
            let (agent, whole) = (agent.clone(), &whole);
            async move {
                let Said::Ended(said) = said(&agent, &script, &hive.world().masker).await else {
                    whole.store(false, Ordering::Relaxed);
                    return;
                };
                let described = Described {
                    description: said.as_ref().and_then(description).unwrap_or(before.description),
                    input_schema: said.and_then(schema),
                    ask: false,
                };
                listed.description.clone_from(&described.description);
                listed.input_schema.clone_from(&described.input_schema);
                learn(hive, digest, script.path, described);
            }
        })
        .await;
    whole.into_inner()
}

/// What came of asking a script.
enum Said {
    /// It ended by itself or ran out of time: a JSON object, or none.
    Ended(Option<Value>),
    /// It was not reached, or was ended by somebody else.
    Unreached,
}

fn learn(hive: &Hive, digest: Digest, path: String, described: Described) {
    hive.tools.learn_scripts(digest, [(path, described)].into());
}

/// Runs `<script> --describe`.
async fn said(agent: &Agent, script: &Script, masker: &Masker) -> Said {
    let preparation = agent.preparation();
    let skills = preparation.as_ref().map(|p| p.skills.as_slice()).unwrap_or_default();
    let Some(skill) = skills.iter().find(|s| s.skill.id == script.skill) else { return Said::Unreached };
    // What nobody knows how to run says nothing.
    let Ok(mut argv) = action::interpreter(&skill.folder.join(&script.path), &script.path) else {
        return Said::Ended(None);
    };
    argv.extend([script.place(), "--describe".to_owned()]);
    let start = Start {
        id: agent.link.next_id(),
        argv,
        env: Environment::default(),
        cwd: "/workspace".to_owned(),
        not_before_us: None,
        timeout_ms: Some(action::millis(PATIENCE)),
        grace_ms: 0,
        bound: true,
        held_to: None,
        io: Io::Stream,
    };
    let started = match agent.link.start(start, Vec::new()).await {
        Ok(started) => started,
        Err(LinkError::Refused { errno: libc::ENOENT | libc::EACCES | libc::ENOEXEC, .. }) => {
            return Said::Ended(None);
        }
        Err(_) => return Said::Unreached,
    };
    match exec::attend(started, Vec::new(), masker).await {
        Ok(attended) if !was_ended(&attended.exit) => {
            let said = serde_json::from_slice(&attended.stdout.0).ok();
            Said::Ended(said.filter(|said: &Value| attended.exit.code == 0 && said.is_object()))
        }
        Ok(_) | Err(_) => Said::Unreached,
    }
}

/// By the stop of its container, or for memory that others took.
fn was_ended(exit: &Exit) -> bool {
    exit.lost || (!exit.timed_out && matches!(exit.signal, Some(libc::SIGTERM | libc::SIGKILL)))
}

fn description(said: &Value) -> Option<String> {
    said.get("description").and_then(Value::as_str).and_then(first_sentence)
}

/// The schema in it, under the names that are in use; or all of it, when it is one itself.
fn schema(mut said: Value) -> Option<Value> {
    for key in ["input_schema", "inputSchema", "parameters", "schema"] {
        if let Some(schema @ Value::Object(_)) = said.get_mut(key).map(Value::take) {
            return Some(schema);
        }
    }
    said.get("properties").is_some_and(Value::is_object).then_some(said)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_schema_is_taken_from_where_scripts_put_it() {
        let wanted = json!({"type": "object", "properties": {"a": {"type": "string"}}});
        for said in [
            json!({"description": "Does. And more.", "input_schema": wanted.clone()}),
            json!({"name": "x", "inputSchema": wanted.clone()}),
            json!({"parameters": wanted.clone()}),
            wanted.clone(),
        ] {
            assert_eq!(schema(said), Some(wanted.clone()));
        }
        assert_eq!(schema(json!({"success": true})), None);
        assert_eq!(description(&json!({"description": "Does. And more."})).as_deref(), Some("Does"));
    }
}
