//! Which skills of an agent cannot be used, and why (systems.md C2).
//!
//! Judges what it is told is there; looks nothing up itself.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    model::{McpTransport, Skill},
    vars::{Found, expand},
};
use crate::ids::SkillId;

/// What a skill needs to be available.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Needs {
    /// Environment variables (`requires.env`).
    pub env: Vec<String>,
    /// Required variables that no source has, and names that its MCP servers miss; told like environment.
    pub vars: Vec<String>,
    /// Programs on the container's PATH.
    pub binaries: Vec<String>,
    /// Other skills.
    pub skills: Vec<SkillId>,
}

impl Needs {
    /// What a skill declares.
    #[must_use]
    pub fn of(skill: &Skill) -> Self {
        Self {
            env: skill.required_env.iter().map(ToString::to_string).collect(),
            vars: Vec::new(),
            binaries: skill.binaries.clone(),
            skills: skill.dependencies.iter().map(|d| d.id.clone()).collect(),
        }
    }
}

/// The names in `${NAME}` of a skill's MCP servers that neither its variables nor the container's environment have, each
/// once (systems.md C5).
#[must_use]
pub fn unresolved_of_servers(
    skill: &Skill,
    values: &BTreeMap<String, Found>,
    env: impl Fn(&str) -> bool,
) -> Vec<String> {
    let mut missing: Vec<String> = Vec::new();
    for server in &skill.mcp_servers {
        let (McpTransport::Local { env: texts, .. } | McpTransport::Remote { headers: texts, .. }) =
            &server.transport;
        for text in texts.values() {
            let there = |name: &str| env(name).then(String::new);
            let names = expand(text, values, there).err().unwrap_or_default();
            for name in names {
                if !missing.contains(&name) {
                    missing.push(name);
                }
            }
        }
    }
    missing
}

/// The unavailable ones of an agent's skills, each with what it misses: `env:X`, `binary:Y`, `skill:Z`.
///
/// A skill that needs an absent or unavailable one is unavailable too. Skills that need each other and
/// miss nothing else are available.
pub fn unavailable(
    needs: &BTreeMap<SkillId, Needs>,
    env: impl Fn(&str) -> bool,
    binary: impl Fn(&str) -> bool,
) -> BTreeMap<SkillId, Vec<String>> {
    let lacks = |n: &Needs| {
        !n.vars.is_empty() || n.env.iter().any(|e| !env(e)) || n.binaries.iter().any(|b| !binary(b))
    };
    let mut marked: BTreeSet<&SkillId> = needs.iter().filter(|(_, n)| lacks(n)).map(|(id, _)| id).collect();
    // Each round marks the skills that need an absent or marked one, until a round marks nothing new.
    loop {
        let before = marked.len();
        for (id, n) in needs {
            let gone = |other: &SkillId| !needs.contains_key(other) || marked.contains(other);
            if n.skills.iter().any(gone) {
                marked.insert(id);
            }
        }
        if marked.len() == before {
            break;
        }
    }
    let reasons = |n: &Needs| {
        let unset = n.env.iter().filter(|e| !env(e) && !n.vars.contains(*e));
        let env = unset.chain(&n.vars).map(|e| format!("env:{e}"));
        let programs = n.binaries.iter().filter(|b| !binary(b));
        let skills = n.skills.iter().filter(|s| !needs.contains_key(*s) || marked.contains(s));
        env.chain(programs.map(|b| format!("binary:{b}")))
            .chain(skills.map(|s| format!("skill:{s}")))
            .collect()
    };
    marked.iter().filter_map(|id| Some(((*id).clone(), reasons(needs.get(*id)?)))).collect()
}
