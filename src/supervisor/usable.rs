//! Which of an agent's skills can be used, and what their variables are (systems.md C2, C3, C5).
//!
//! A version that is neither trusted nor approved gets nothing of the operator's: no secret, no value of a file.

use std::collections::{BTreeMap, BTreeSet};

use semver::Version;

use super::{agent::Agent, binaries, prepare::PreparedSkill};
use crate::{
    app::world::World,
    ids::{SecretName, SkillId},
    registry::index::Trust,
    secrets::grants::{Grants, Missing},
    skill::{
        model::Skill,
        unavailable::{Needs, unavailable, unresolved_of_servers},
        vars::{Found, Resolved, resolve},
    },
};

/// What is known of the skills of one agent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Usable {
    /// Values of variables.
    pub values: BTreeMap<SkillId, BTreeMap<String, Found>>,
    /// Those that cannot be used, each with what it misses: `env:X`, `binary:Y`, `skill:Z`.
    pub unavailable: BTreeMap<SkillId, Vec<String>>,
    /// The programs that they need.
    pub binaries: BTreeSet<String>,
}

impl Usable {
    /// Whether a skill can be used.
    #[must_use]
    pub fn has(&self, skill: &SkillId) -> bool {
        !self.unavailable.contains_key(skill)
    }

    /// The missing secrets that are needed: a secret variable may have its value from a file or a default.
    #[must_use]
    pub fn lacking(&self, grants: &Grants, skills: &[PreparedSkill]) -> Vec<Missing> {
        let needs = |skill: &SkillId, name: &SecretName| {
            let found = self.values.get(skill).is_some_and(|values| values.contains_key(name.as_str()));
            let of_env =
                || skills.iter().any(|s| s.skill.id == *skill && s.skill.required_env.contains(name));
            !found || of_env()
        };
        let lacking = grants.missing.iter().map(|missing| Missing {
            asked_by: missing.asked_by.iter().filter(|s| needs(s, &missing.name)).cloned().collect(),
            ..missing.clone()
        });
        lacking.filter(|missing| !missing.asked_by.is_empty()).collect()
    }
}

/// Judges the skills of an agent. `env` are the names of its container's plain environment. While no container runs,
/// the programs that skills need are taken to be there; [`binaries`] asks as soon as one does.
pub async fn judge(
    agent: &Agent,
    skills: &[PreparedSkill],
    env: impl Fn(&str) -> bool,
    granted: &Grants,
    world: &World,
) -> Usable {
    let mut usable = Usable::default();
    let mut needs = BTreeMap::new();
    let is_set = |name: &str| env(name) || granted.granted.iter().any(|g| g.as_str() == name);
    for prepared in skills {
        let id = &prepared.skill.id;
        let Resolved { values, mut unresolved_required } =
            values(&prepared.skill, &prepared.version, prepared.trust, granted, world);
        let trusted = matches!(prepared.trust, Trust::Trusted | Trust::Approved);
        let given = |name: &str| env(name) || trusted && granted.granted.iter().any(|g| g.as_str() == name);
        for name in unresolved_of_servers(&prepared.skill, &values, given) {
            if !unresolved_required.contains(&name) {
                unresolved_required.push(name);
            }
        }
        usable.values.insert(id.clone(), values);
        needs.insert(id.clone(), Needs { vars: unresolved_required, ..Needs::of(&prepared.skill) });
    }
    usable.binaries = needs.values().flat_map(|n| n.binaries.iter().cloned()).collect();
    let there = binaries::look_up(agent, &usable.binaries).await;
    usable.unavailable = unavailable(&needs, is_set, |name| there.get(name).copied().unwrap_or(true));
    usable
}

/// The variables of one version, as an agent with these grants has them.
#[must_use]
pub fn values(skill: &Skill, version: &Version, trust: Trust, granted: &Grants, world: &World) -> Resolved {
    let variables = &world.variables;
    if !matches!(trust, Trust::Trusted | Trust::Approved) {
        return resolve(&skill.vars, None, None, &skill.id, |_| None);
    }
    let env = |name: &str| {
        let secret = name.parse::<SecretName>().ok().filter(|name| granted.granted.contains(name));
        let secret = secret.and_then(|name| world.secrets.get(&name));
        let secret = secret.map(|value| Found { value: value.expose().to_owned(), secret: true });
        secret.or_else(|| {
            let value = variables.environment(name)?.to_owned();
            Some(Found { value, secret: false })
        })
    };
    resolve(&skill.vars, variables.own(&skill.id, version), variables.shared(), &skill.id, env)
}
