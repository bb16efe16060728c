//! Which secrets an agent gets (contract.md 2, "Secrets" and "Trust").
//!
//! Pure; works on names alone and never sees a value. A name is granted when a trusted or approved
//! skill that the agent resolved declares it, the agent's `secrets` list allows it, and it is set.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::{
    ids::{AgentId, SecretName, SkillId},
    registry::index::Trust,
};

/// One skill that an agent resolved, and the names that it declares.
#[derive(Debug, Clone, Copy)]
pub struct Ask<'a> {
    /// The skill.
    pub skill: &'a SkillId,
    /// How far the resolved version is trusted.
    pub trust: Trust,
    /// `Skill::secrets` of that version.
    pub declares: &'a [SecretName],
}

/// What is decided upon.
#[derive(Debug, Clone, Copy)]
pub struct GrantInput<'a> {
    /// The agent's resolved skills.
    pub skills: &'a [Ask<'a>],
    /// The agent's `secrets` list; none: whatever its skills declare.
    pub allow: Option<&'a [SecretName]>,
    /// Names that have a value in the store.
    pub set: &'a BTreeSet<SecretName>,
}

/// What an agent gets, and why not the rest.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Grants {
    /// Names whose values are delivered to the agent.
    pub granted: BTreeSet<SecretName>,
    /// The same per skill: processes of a skill need no more than its own. Skills without any are left out.
    pub by_skill: BTreeMap<SkillId, BTreeSet<SecretName>>,
    /// Declared and allowed, but not set: a warning on the agent, which starts all the same.
    pub missing: Vec<Missing>,
    /// Declared, but not for this agent or not by this skill.
    pub withheld: Vec<Withheld>,
    /// On the agent's list, but declared by none of its skills: the list gives nothing by itself.
    pub undeclared: BTreeSet<SecretName>,
}

/// A secret that should be there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Missing {
    /// Its name.
    pub name: SecretName,
    /// The skills that declare it.
    pub asked_by: Vec<SkillId>,
}

/// A secret that a skill asked for and does not get.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Withheld {
    /// Its name.
    pub name: SecretName,
    /// The skill that declares it.
    pub skill: SkillId,
    /// Why.
    pub reason: WithheldReason,
}

/// Why a declared secret is withheld.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum WithheldReason {
    /// The agent's `secrets` list does not have it.
    NotListed,
    /// The operator has not approved the skill's version yet.
    PendingSkill,
    /// The operator refused the skill's version.
    RejectedSkill,
}

/// Decides for one agent.
#[must_use]
pub fn grants(input: &GrantInput<'_>) -> Grants {
    let mut out = Grants::default();
    let mut missing: BTreeMap<&SecretName, BTreeSet<&SkillId>> = BTreeMap::new();
    for ask in input.skills {
        for name in ask.declares {
            if let Some(reason) = refusal(ask.trust, input.allow, name) {
                out.withheld.push(Withheld { name: name.clone(), skill: ask.skill.clone(), reason });
            } else if input.set.contains(name) {
                out.granted.insert(name.clone());
                let own = out.by_skill.entry(ask.skill.clone()).or_default();
                own.insert(name.clone());
            } else {
                missing.entry(name).or_default().insert(ask.skill);
            }
        }
    }
    out.missing = missing
        .into_iter()
        .map(|(name, asked_by)| Missing {
            name: name.clone(),
            asked_by: asked_by.into_iter().cloned().collect(),
        })
        .collect();
    out.withheld.sort_by(|a, b| (&a.name, &a.skill).cmp(&(&b.name, &b.skill)));
    out.withheld.dedup();
    let declared: BTreeSet<&SecretName> = input.skills.iter().flat_map(|a| a.declares).collect();
    out.undeclared =
        input.allow.unwrap_or_default().iter().filter(|n| !declared.contains(n)).cloned().collect();
    out
}

fn refusal(trust: Trust, allow: Option<&[SecretName]>, name: &SecretName) -> Option<WithheldReason> {
    match trust {
        Trust::Pending => Some(WithheldReason::PendingSkill),
        Trust::Rejected => Some(WithheldReason::RejectedSkill),
        Trust::Trusted | Trust::Approved => {
            allow.is_some_and(|list| !list.contains(name)).then_some(WithheldReason::NotListed)
        }
    }
}

/// What one agent contributes to [`who_uses`].
#[derive(Debug, Clone, Copy)]
pub struct AgentAsks<'a> {
    /// The agent.
    pub agent: &'a AgentId,
    /// Its resolved skills.
    pub skills: &'a [Ask<'a>],
    /// Its `secrets` list.
    pub allow: Option<&'a [SecretName]>,
}

/// Which agents get each name, and through which skill; whether it is set or not does not matter.
#[must_use]
pub fn who_uses(agents: &[AgentAsks<'_>]) -> BTreeMap<SecretName, Vec<(AgentId, SkillId)>> {
    let mut users: BTreeMap<SecretName, BTreeSet<(AgentId, SkillId)>> = BTreeMap::new();
    for a in agents {
        for ask in a.skills {
            for name in ask.declares {
                if refusal(ask.trust, a.allow, name).is_none() {
                    let of_name = users.entry(name.clone()).or_default();
                    of_name.insert((a.agent.clone(), ask.skill.clone()));
                }
            }
        }
    }
    users.into_iter().map(|(name, who)| (name, who.into_iter().collect())).collect()
}

#[cfg(test)]
#[path = "grants_tests.rs"]
mod tests;
