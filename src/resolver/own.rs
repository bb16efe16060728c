//! What an agent has beside the skills of `skep.toml`: those that it wrote itself (contract.md 2, "Trust").
//!
//! They never move, hide or break what the operator gave it, and one that waits for approval brings it nothing of
//! anybody else's: an agent gains no skill, and so no secret, by asking. What cannot be had is left out with a warning.

use std::collections::BTreeSet;

use semver::Version;

use super::solve::{Asked, Asker, Request, Resolution, Update, solve};
use crate::{
    ids::{AgentId, Requirement, SkillId, SkillRef},
    registry::index::{Index, Owner, Trust},
};

/// Adds the newest version that may be had of each skill of the agent's own to what it resolved.
#[must_use]
pub fn with_own(index: &Index, agent: &AgentId, base: Resolution) -> Resolution {
    let wanted: Vec<SkillRef> = index
        .skills
        .values()
        .filter(|entry| matches!(&entry.owner, Owner::Agent(author) if author == agent))
        .filter(|entry| entry.enabled && !base.skills.contains_key(&entry.id))
        .filter_map(|entry| {
            let newest = entry.latest().filter(|v| !v.yanked && v.trust != Trust::Rejected)?;
            // `latest` is a release wherever there is one.
            let exact = || Requirement::Exact(newest.version.clone());
            let requirement = if newest.version.pre.is_empty() { Requirement::Latest } else { exact() };
            Some(SkillRef { id: entry.id.clone(), requirement })
        })
        .collect();
    if wanted.is_empty() {
        return base;
    }
    let mut adding = Adding { index, agent, base: &base, left_out: Vec::new() };
    let mut kept = Vec::new();
    let mut found = adding.settle(&mut kept, &wanted);
    for _ in 0..=wanted.len() {
        let greedy = found.as_ref().map(|f| adding.greedy(f)).unwrap_or_default();
        if greedy.is_empty() {
            break;
        }
        kept.retain(|reference| !greedy.iter().any(|(id, _)| *id == reference.id));
        let approved: Vec<SkillRef> = greedy.iter().filter_map(|(id, _)| adding.approved(id)).collect();
        adding.left_out.extend(greedy);
        found = adding.settle(&mut kept, &approved);
    }
    let left_out = adding.left_out;
    let mut all = base.clone();
    for (id, mut skill) in found.map(|f| f.skills).unwrap_or_default() {
        if !base.skills.contains_key(&id) {
            let asked = |a: &mut Asked| {
                if matches!(a.by, Asker::Agent(_)) {
                    a.requirement = Requirement::Latest;
                }
            };
            skill.asked_by.iter_mut().for_each(asked);
            all.own.insert(id.clone());
            all.skills.insert(id, skill);
        }
    }
    for (id, why) in left_out {
        all.warnings.push(format!("its own skill {id} is left out: {why}"));
        all.left_out.insert(id);
    }
    all
}

struct Adding<'a> {
    index: &'a Index,
    agent: &'a AgentId,
    base: &'a Resolution,
    left_out: Vec<(SkillId, String)>,
}

impl Adding<'_> {
    /// The base as it is, and these.
    fn solve(&self, own: &[SkillRef]) -> Result<Resolution, String> {
        let exact = |(id, skill): (&SkillId, &super::Resolved)| SkillRef {
            id: id.clone(),
            requirement: Requirement::Exact(skill.version.clone()),
        };
        let skills: Vec<SkillRef> = self.base.skills.iter().map(exact).chain(own.iter().cloned()).collect();
        let lock = self.base.locked();
        let request =
            Request { agent: Some(self.agent), skills: &skills, lock: Some(&lock), update: Update::None };
        solve(self.index, &request).map_err(|conflict| conflict.to_string())
    }

    /// Adds as many of `more` as can be had together with `kept`; one that cannot is left out.
    fn settle(&mut self, kept: &mut Vec<SkillRef>, more: &[SkillRef]) -> Option<Resolution> {
        let all: Vec<SkillRef> = kept.iter().chain(more).cloned().collect();
        let refused = match self.solve(&all) {
            Ok(found) => {
                *kept = all;
                return Some(found);
            }
            Err(why) => why,
        };
        match more {
            [] => None,
            [one] => {
                self.left_out.push((one.id.clone(), refused));
                self.solve(kept).ok()
            }
            many => {
                let (first, second) = many.split_at(many.len() / 2);
                self.settle(kept, first);
                self.settle(kept, second)
            }
        }
    }

    fn is_own(&self, id: &SkillId) -> bool {
        let owner = self.index.skills.get(id).map(|entry| &entry.owner);
        matches!(owner, Some(Owner::Agent(author)) if author == self.agent)
    }

    fn trust(&self, id: &SkillId, version: &Version) -> Option<Trust> {
        self.index.version(id, version).map(|v| v.trust)
    }

    /// Pending skills that would bring somebody else's skill along, and which.
    fn greedy(&self, found: &Resolution) -> Vec<(SkillId, String)> {
        let pending = |id: &SkillId| {
            let version = found.skills.get(id).map(|s| &s.version);
            self.is_own(id) && version.and_then(|v| self.trust(id, v)) == Some(Trust::Pending)
        };
        let roots: Vec<&SkillId> =
            found.skills.keys().filter(|id| self.is_own(id) || self.base.skills.contains_key(*id)).collect();
        let settled = roots.iter().copied().filter(|id| !pending(id));
        let granted = reachable(found, settled, &pending);
        let asks = |id: &&SkillId| {
            let closure = reachable(found, std::iter::once(*id), &|_| false);
            let foreign = closure.iter().find(|other| !self.is_own(other) && !granted.contains(*other));
            let why = foreign.map(|other| {
                let version = &found.skills[*id].version;
                format!(
                    "version {version} waits for approval and needs {other}, which the agent does not have; the \
                     operator approves it, or gives the agent {other} in skep.toml"
                )
            });
            why.map(|why| ((*id).clone(), why))
        };
        roots
            .iter()
            .filter(|id| pending(id) && !self.base.skills.contains_key(**id))
            .filter_map(asks)
            .collect()
    }

    /// The newest version of a skill of its own that the operator approved.
    fn approved(&self, id: &SkillId) -> Option<SkillRef> {
        let entry = self.index.skills.get(id)?;
        let newest = entry.versions.values().rev().find(|v| v.trust == Trust::Approved && !v.yanked)?;
        Some(SkillRef { id: id.clone(), requirement: Requirement::Exact(newest.version.clone()) })
    }
}

/// What an agent has otherwise than by a version that waits for approval: what only such a version brought along is
/// trusted no more than that.
#[must_use]
pub fn settled(all: &Resolution, pending: &dyn Fn(&SkillId) -> bool) -> BTreeSet<SkillId> {
    let asked = |by: &Asker| !matches!(by, Asker::Skill(..));
    let roots = all.skills.iter().filter(|(_, skill)| skill.asked_by.iter().any(|a| asked(&a.by)));
    reachable(all, roots.map(|(id, _)| id), pending).into_iter().cloned().collect()
}

/// What `from` needs, itself included, not going on at what `stop` says.
fn reachable<'a>(
    found: &'a Resolution,
    from: impl Iterator<Item = &'a SkillId>,
    stop: &dyn Fn(&SkillId) -> bool,
) -> BTreeSet<&'a SkillId> {
    let mut seen = BTreeSet::new();
    let mut open: Vec<&SkillId> = from.collect();
    while let Some(id) = open.pop() {
        if stop(id) || !seen.insert(id) {
            continue;
        }
        open.extend(found.skills.get(id).into_iter().flat_map(|skill| &skill.dependencies));
    }
    seen
}

#[cfg(test)]
mod tests;
