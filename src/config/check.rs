//! What parts of a hive mean for each other: names that must exist, folders that must not meet.
//!
//! Pure: compares paths as written. Links on disk are `load`'s concern.

use std::{collections::BTreeMap, path::Path};

use super::{
    keys,
    model::{Config, Workspace},
    reader::Reader,
};
use crate::ids::AgentId;

/// `default_agent` must be one of the agents written.
pub(super) fn default_agent(r: &mut Reader, config: &Config, names: &[String]) {
    let Some(wanted) = config.default_agent.as_ref().map(AgentId::as_str) else {
        return;
    };
    if names.iter().any(|n| n == wanted) {
        return;
    }
    let help = keys::nearest(wanted, names.iter().map(String::as_str)).map_or_else(
        || format!("add [agents.{wanted}], or name one of the agents"),
        |near| format!("did you mean \"{near}\"?"),
    );
    fault(r, "hive.default_agent", &format!("there is no agent {wanted:?}"), &help);
}

/// Rules between the keys of one agent, and between the folders of all.
pub(super) fn agents(r: &mut Reader, config: &Config) {
    for (id, agent) in &config.agents {
        let restart = format!("agents.{id}.main_restart");
        if agent.main.is_none() && r.places.contains_key(&restart) {
            let at = r.places[&restart];
            r.warn(&(at..at), format!("{restart} has no effect without main"), "add main, or remove it");
        }
        for name in agent.secrets.iter().flatten().filter(|n| agent.env.contains_key(n.as_str())) {
            let message = format!("{name} is both in env and in secrets of agent \"{id}\"");
            fault(r, &key_of(r, id, "secrets"), &message, "keep the secret, and remove it from env");
        }
    }
    workspaces(r, config);
}

/// Jobs name targets that are there.
pub(super) fn targets(r: &mut Reader, config: &Config) {
    let known = || config.notify.targets.iter().map(|target| target.name.as_str());
    for (id, agent) in &config.agents {
        // Where jobs were left out for other mistakes, the numbers of the others are not those of the file.
        let all = !r.places.contains_key(&format!("agents.{id}.jobs[{}]", agent.jobs.len()));
        for (n, job) in agent.jobs.iter().enumerate() {
            for (m, name) in job.spec.notify.targets.iter().flatten().enumerate() {
                if known().any(|target| target == name) {
                    continue;
                }
                let help = keys::nearest(name, known()).map_or_else(
                    || "add it to [notify], or name one that is there".to_owned(),
                    |near| format!("did you mean \"{near}\"?"),
                );
                let message = format!(
                    "job {:?} of agent {id} tells the target {name:?}, which [notify] has not",
                    job.name
                );
                let place = if all {
                    format!("agents.{id}.jobs[{n}].notify.targets[{m}]")
                } else {
                    format!("agents.{id}.jobs[0]")
                };
                fault(r, &place, &message, &help);
            }
        }
    }
}

/// An agent writes its workspace: no other agent's workspace, and nothing that the hive trusts,
/// may lie in it or around it.
fn workspaces(r: &mut Reader, config: &Config) {
    let mut guarded: BTreeMap<&Path, &str> = BTreeMap::new();
    for (path, what) in
        [("registry", "the registry"), ("skep.toml", "the configuration"), ("skep.lock", "the lock")]
    {
        guarded.insert(Path::new(path), what);
    }
    guarded.insert(&config.secrets_file, "the secrets file");
    guarded.extend(config.registry.sources.iter().map(|s| (s.as_path(), "a source of skills")));
    guarded.extend(config.ca_bundle.iter().map(|p| (p.as_path(), "the CA bundle")));
    guarded.extend(config.agents.values().filter_map(|a| Some((a.soul.as_deref()?, "a soul file"))));

    let mut all: Vec<(&Path, &AgentId)> = Vec::new();
    for (id, agent) in &config.agents {
        let Workspace::Path(path) = &agent.workspace else {
            continue;
        };
        all.push((path, id));
        let at = key_of(r, id, "workspace");
        if let Some((other, what)) = guarded.iter().find(|(g, _)| g.starts_with(path) || path.starts_with(g))
        {
            let message = format!(
                "the workspace of agent \"{id}\" would let it write {what}, {:?}",
                other.display().to_string()
            );
            fault(r, &at, &message, "choose a folder apart from it, such as \"./work\"");
        }
    }
    all.sort();
    let mut outer: Option<(&Path, &AgentId)> = None;
    for (path, id) in all {
        let at = key_of(r, id, "workspace");
        match outer {
            Some((around, first)) if path == around => {
                let place = r.places.get(&at).copied().unwrap_or(0);
                let message = format!(
                    "agents \"{first}\" and \"{id}\" share the workspace {:?}",
                    path.display().to_string()
                );
                r.warn(&(place..place), message, "give each a folder of its own if that is not meant");
            }
            Some((around, first)) if path.starts_with(around) => {
                let message =
                    format!("the workspace of agent \"{id}\" lies inside that of agent \"{first}\"");
                fault(
                    r,
                    &at,
                    &message,
                    "choose folders beside each other: an agent could replace what lies in its own",
                );
            }
            _ => outer = Some((path, id)),
        }
    }
}

/// The path of an agent's key: its own, or the one of `[defaults]` that it takes over.
pub(super) fn key_in(places: &super::reader::Places, id: &AgentId, key: &str) -> String {
    let own = format!("agents.{id}.{key}");
    if places.contains_key(&own) { own } else { format!("defaults.{key}") }
}

fn key_of(r: &Reader, id: &AgentId, key: &str) -> String {
    key_in(&r.places, id, key)
}

fn fault(r: &mut Reader, place: &str, message: &str, help: &str) {
    let at = r.places.get(place).copied().unwrap_or(0);
    r.fault(&(at..at), message, help);
}
