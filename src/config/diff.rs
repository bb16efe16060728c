//! What a saved change of `skep.toml` concerns, so that nothing else is touched.
//!
//! Pure. Whether a changed agent needs a new container is told by the hash of its specification,
//! not here.

use std::collections::BTreeSet;

use super::model::{Agent, Config};
use crate::ids::AgentId;

/// The difference between two valid configurations.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Changes {
    /// Agents that are new.
    pub added: BTreeSet<AgentId>,
    /// Agents that are gone.
    pub removed: BTreeSet<AgentId>,
    /// Agents in both whose keys, after defaults and without jobs, or whose CA bundle differ.
    pub changed: BTreeSet<AgentId>,
    /// Agents in both whose jobs differ: nothing is restarted for them.
    pub jobs: BTreeSet<AgentId>,
    /// Keys of the hive whose change takes effect at once.
    pub live: Vec<&'static str>,
    /// Keys of the hive whose change waits until the supervisor is restarted.
    pub restart: Vec<&'static str>,
}

impl Changes {
    /// Whether both mean the same.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Compares what ran with what is wanted now.
#[must_use]
pub fn changed(old: &Config, new: &Config) -> Changes {
    let all_changed = old.ca_bundle != new.ca_bundle;
    let without = |a: &Config, b: &Config| -> BTreeSet<AgentId> {
        a.agents.keys().filter(|id| !b.agents.contains_key(*id)).cloned().collect()
    };
    let pairs = || new.agents.iter().filter_map(|(id, is)| Some((id, old.agents.get(id)?, is)));
    let without_jobs = |agent: &Agent| Agent { jobs: Vec::new(), ..agent.clone() };
    let differs = |was: &Agent, is: &Agent| all_changed || without_jobs(was) != without_jobs(is);
    let listed = |keys: &[(&'static str, bool)]| {
        keys.iter().filter(|(_, differ)| *differ).map(|(key, _)| *key).collect()
    };
    Changes {
        added: without(new, old),
        removed: without(old, new),
        changed: pairs().filter(|(_, was, is)| differs(was, is)).map(|(id, ..)| id.clone()).collect(),
        jobs: pairs().filter(|(_, was, is)| was.jobs != is.jobs).map(|(id, ..)| id.clone()).collect(),
        live: listed(&[
            ("hive.timezone", old.timezone != new.timezone),
            ("hive.default_agent", old.default_agent != new.default_agent),
            ("hive.ca_bundle", all_changed),
            ("tools", old.tools != new.tools),
            ("api.allowed_hosts", old.api.allowed_hosts != new.api.allowed_hosts),
            (
                "api.agent_requests_per_second",
                old.api.agent_requests_per_second != new.api.agent_requests_per_second,
            ),
            ("registry.sources", old.registry.sources != new.registry.sources),
            ("registry.agent_skills", old.registry.agent_skills != new.registry.agent_skills),
            ("registry.environment", old.registry.environment != new.registry.environment),
            ("registry.limits", old.registry.limits != new.registry.limits),
            ("secrets.file", old.secrets_file != new.secrets_file),
            ("notify", old.notify != new.notify),
            ("preflight", old.preflight != new.preflight),
            ("model", old.model != new.model),
            ("runs", old.runs != new.runs),
        ]),
        restart: listed(&[
            ("hive.name", old.name != new.name),
            ("api.listen", old.api.listen != new.api.listen),
        ]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(text: &str) -> Config {
        super::super::parse(text, "skep.toml").unwrap().0
    }

    fn names(set: &BTreeSet<AgentId>) -> Vec<&str> {
        set.iter().map(AgentId::as_str).collect()
    }

    #[test]
    fn only_the_agents_that_differ_are_named() {
        let old = config("[agents.a]\n[agents.b]\n[agents.c]\nmemory = '1GiB'");
        let new = config("[agents.c]\nmemory = '1024MiB'\n[agents.b]\ncpus = 2\n[agents.d]");
        let changes = changed(&old, &new);
        assert_eq!(names(&changes.added), ["d"]);
        assert_eq!(names(&changes.removed), ["a"]);
        assert_eq!(names(&changes.changed), ["b"]);
        assert!(changes.live.is_empty() && changes.restart.is_empty());
    }

    #[test]
    fn a_default_reaches_only_agents_without_a_value_of_their_own() {
        let old = config("[agents.a]\n[agents.b]\ncpus = 3");
        let new = config("[defaults]\ncpus = 2\n[agents.a]\n[agents.b]\ncpus = 3");
        assert_eq!(names(&changed(&old, &new).changed), ["a"]);
    }

    #[test]
    fn writing_the_same_in_other_words_changes_nothing() {
        let old = config("[hive]\nname = 'hive'\n[agents.a]\nmemory = '1GiB' # roomy\nskills = ['x@1.0.0']");
        let new = config("agents.a = { skills = ['x@1.0.0'], memory = 1073741824 }");
        assert!(changed(&old, &new).is_empty());
    }

    #[test]
    fn changed_jobs_restart_no_agent() {
        let old = config("[agents.a]\n[agents.b]");
        let job = "[[agents.b.jobs]]\nname = 'x'\nevery = '1h'\ntool = 't'";
        let new = config(&format!("[runs]\nmax_running = 3\n[agents.a]\n[agents.b]\n{job}"));
        let changes = changed(&old, &new);
        assert_eq!(names(&changes.jobs), ["b"]);
        assert_eq!(changes.live, ["runs"]);
        assert!(changes.changed.is_empty() && changes.restart.is_empty());
        let same = config(&format!("{job}\nenabled = true\n[runs]\nmax_running = 3\n[agents.a]"));
        assert!(changed(&new, &same).is_empty());
    }

    #[test]
    fn a_changed_zone_changes_the_jobs_that_name_none() {
        let jobs = "[[agents.a.jobs]]\nname = 'x'\nschedule = '0 9 * * *'\ntool = 't'\n\
            [[agents.b.jobs]]\nname = 'x'\nschedule = '0 9 * * *'\ntool = 't'\ntimezone = 'Asia/Tokyo'";
        let new = config(&format!("hive.timezone = 'Europe/Berlin'\n{jobs}"));
        let changes = changed(&config(jobs), &new);
        assert_eq!((names(&changes.jobs), &changes.live[..]), (vec!["a"], &["hive.timezone"][..]));
        assert!(changes.changed.is_empty());
    }

    #[test]
    fn the_name_and_the_address_wait_for_a_restart() {
        let old = config("[agents.a]");
        let new = config(
            "[hive]\nname = 'x'\ntimezone = 'UTC'\ndefault_agent = 'a'\nca_bundle = 'ca.pem'\n[api]\nlisten = 'none'\nallowed_hosts = []\nagent_requests_per_second = 5\n\
             [registry]\nsources = []\nagent_skills = 'auto'\nenvironment = ['CITY']\nlimits.files = 3\n[secrets]\nfile = 's.json'\n\
             [notify]\ninterval_minutes = 1\n[agents.a]",
        );
        let changes = changed(&old, &new);
        assert_eq!(changes.restart, ["hive.name", "api.listen"]);
        assert_eq!(changes.live.len(), 11);
        assert_eq!(names(&changes.changed), ["a"], "all agents carry the CA bundle");
    }
}
