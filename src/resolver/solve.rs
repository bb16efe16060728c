//! Finds one version of every skill that an agent needs, and says who asked for it.
//!
//! One version of a skill per agent. Locked versions win unless an update was asked for or the
//! references no longer admit them. Skills may need each other in a circle; that only warns.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    ops::Range,
};

use pubgrub::PubGrubError;
use semver::Version;

use super::{
    candidates::{Candidates, ROOT},
    conflict,
    explain::{ChangedContent, Conflict},
    lock::{Locked, LockedAgent},
};
use crate::{
    ids::{AgentId, Digest, Requirement, SkillId, SkillRef},
    registry::index::{Index, SkillEntry, VersionEntry},
};

/// What is to be resolved.
#[derive(Debug, Clone)]
pub struct Request<'a> {
    /// Who gets the skills: an agent may resolve its own pending versions. None: nobody's are.
    pub agent: Option<&'a AgentId>,
    /// The agent's own list.
    pub skills: &'a [SkillRef],
    /// What `skep.lock` holds for it.
    pub lock: Option<&'a LockedAgent>,
    /// Which locked versions may be left behind.
    pub update: Update,
}

/// Which locked versions are left for newer ones.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Update {
    /// None but those that the references no longer admit.
    #[default]
    None,
    /// All.
    All,
    /// These; others only where these need it.
    Only(BTreeSet<SkillId>),
}

impl Update {
    /// Whether this skill is updated.
    #[must_use]
    pub fn covers(&self, id: &SkillId) -> bool {
        match self {
            Self::None => false,
            Self::All => true,
            Self::Only(ids) => ids.contains(id),
        }
    }
}

/// Who asks for a skill.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Asker {
    /// A request in nobody's name.
    Request,
    /// The agent's own list.
    Agent(AgentId),
    /// A version of a skill, by its dependencies.
    Skill(SkillId, Version),
}

impl fmt::Display for Asker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Request => f.write_str("the request"),
            Self::Agent(agent) => write!(f, "agent {agent}"),
            Self::Skill(id, version) => write!(f, "{id}@{version}"),
        }
    }
}

impl From<Option<&AgentId>> for Asker {
    fn from(agent: Option<&AgentId>) -> Self {
        agent.cloned().map_or(Self::Request, Self::Agent)
    }
}

/// One reason why a skill is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    /// Who asked.
    pub by: Asker,
    /// For which versions.
    pub requirement: Requirement,
}

/// One resolved skill.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resolved {
    /// The version chosen.
    pub version: Version,
    /// Digest of its content.
    pub digest: Digest,
    /// Why it is there; never empty.
    pub asked_by: Vec<Asked>,
    /// What it needs, as it declares it; each of them is resolved too.
    pub dependencies: Vec<SkillId>,
    /// The newest version that this request could be given at all, references aside.
    pub newest: Version,
}

/// Everything an agent gets.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Resolution {
    /// By id.
    pub skills: BTreeMap<SkillId, Resolved>,
    /// Those of them that it has only because it wrote them (`resolver::own`): not asked for, not locked.
    pub own: BTreeSet<SkillId>,
    /// Those that it wrote but cannot be given.
    pub left_out: BTreeSet<SkillId>,
    /// For people; sorted by skill, circles last.
    pub warnings: Vec<String>,
}

impl Resolution {
    /// What `skep.lock` is to hold.
    #[must_use]
    pub fn locked(&self) -> LockedAgent {
        let locked = |(id, skill): (&SkillId, &Resolved)| {
            let (version, digest) = (skill.version.clone(), skill.digest);
            (id.clone(), Locked { version, digest })
        };
        self.skills.iter().filter(|(id, _)| !self.own.contains(*id)).map(locked).collect()
    }
}

/// Resolves an agent's skills together with all that they need.
///
/// A yanked version and a disabled skill are kept when locked, never taken anew. A pending version
/// goes to its author alone, a rejected one to nobody, locked or not (contract.md 2).
///
/// # Errors
/// Who asked for what, and why it cannot be had together; or that content changed under a locked
/// version.
pub fn solve(index: &Index, request: &Request<'_>) -> Result<Resolution, Conflict> {
    let candidates = Candidates::new(index, request);
    let solution = match pubgrub::resolve(&candidates, ROOT, 0u32) {
        Ok(solution) => solution,
        Err(PubGrubError::NoSolution(tree)) => return Err(conflict::unsolvable(&candidates, tree)),
        Err(PubGrubError::ErrorRetrievingDependencies { source, .. })
        | Err(PubGrubError::ErrorChoosingVersion { source, .. })
        | Err(PubGrubError::ErrorInShouldCancel(source)) => match source {},
    };
    let chosen = solution.into_iter().filter(|(number, _)| *number != ROOT);
    let mut positions = vec![None; candidates.seen()];
    for (number, position) in chosen {
        positions[number as usize] = Some(position);
    }
    assemble(&candidates, &positions)
}

/// A version chosen, with all that is known of it.
pub(super) struct Chosen<'a> {
    pub(super) skill: &'a SkillEntry,
    pub(super) version: &'a VersionEntry,
    pub(super) newest: &'a VersionEntry,
    pub(super) asked_by: Vec<Asked>,
    /// Where in `Picked::needs` the numbers of the skills that it needs are.
    needs: Range<usize>,
}

/// Every version chosen, by skill number.
pub(super) struct Picked<'a> {
    pub(super) chosen: Vec<Option<Chosen<'a>>>,
    /// In one piece: thousands of short lists cost more than all the rest of a walk.
    needs: Vec<u32>,
}

impl<'a> Picked<'a> {
    pub(super) fn get(&self, number: usize) -> Option<&Chosen<'a>> {
        self.chosen.get(number)?.as_ref()
    }

    /// Where the numbers of the skills that one needs are, for `needed`.
    pub(super) fn needs(&self, number: usize) -> Range<usize> {
        self.get(number).map_or(0..0, |c| c.needs.clone())
    }

    /// The number at one place.
    pub(super) fn needed(&self, place: usize) -> usize {
        self.needs[place] as usize
    }

    fn ask(&mut self, number: u32, by: Asker, wanted: &SkillRef) {
        if let Some(Some(asked)) = self.chosen.get_mut(number as usize) {
            let requirement = wanted.requirement.clone();
            asked.asked_by.push(Asked { by, requirement });
        }
    }
}

/// `positions`: by skill number, the position chosen.
fn assemble(candidates: &Candidates<'_>, positions: &[Option<u32>]) -> Result<Resolution, Conflict> {
    let mut picked = pick(candidates, positions);
    let numbers = 0..picked.chosen.len();
    let mut order: Vec<usize> = numbers.filter(|n| picked.get(*n).is_some()).collect();
    order.sort_unstable_by_key(|n| picked.get(*n).map(|c| &c.skill.id));
    refuse_changed_content(candidates.request, picked.chosen.iter().flatten())?;
    let warnings = super::warn::warnings(candidates.request, &picked, &order);
    let mut skills = Vec::with_capacity(order.len());
    for Chosen { skill, version, newest, mut asked_by, .. } in
        order.into_iter().filter_map(|n| picked.chosen[n].take())
    {
        // Not the order in which the solver came by them.
        asked_by.sort_by(|a, b| a.by.cmp(&b.by));
        let resolved = Resolved {
            version: version.version.clone(),
            digest: version.digest,
            asked_by,
            dependencies: distinct(&version.dependencies),
            newest: newest.version.clone(),
        };
        skills.push((skill.id.clone(), resolved));
    }
    Ok(Resolution { skills: skills.into_iter().collect(), warnings, ..Resolution::default() })
}

/// What was chosen and who asked for it.
fn pick<'a>(candidates: &Candidates<'a>, positions: &[Option<u32>]) -> Picked<'a> {
    let mut picked =
        Picked { chosen: Vec::with_capacity(positions.len()), needs: Vec::with_capacity(positions.len()) };
    for (number, position) in (0u32..).zip(positions) {
        let chosen = position.and_then(|position| {
            let candidate = candidates.get(number);
            let version = candidate.offered[position as usize];
            let start = picked.needs.len();
            let numbers = version.dependencies.iter();
            let numbers = numbers.filter_map(|n| candidates.known(&n.id));
            picked.needs.extend(numbers);
            Some(Chosen {
                skill: candidate.entry?,
                version,
                newest: candidate.newest().unwrap_or(version),
                asked_by: Vec::new(),
                needs: start..picked.needs.len(),
            })
        });
        picked.chosen.push(chosen);
    }
    for wanted in candidates.request.skills {
        if let Some(number) = candidates.known(&wanted.id) {
            picked.ask(number, Asker::from(candidates.request.agent), wanted);
        }
    }
    for number in 0..picked.chosen.len() {
        let Some(Chosen { skill, version, .. }) = picked.get(number) else {
            continue;
        };
        let (skill, version) = (*skill, *version);
        for (wanted, place) in version.dependencies.iter().zip(picked.needs(number)) {
            let by = Asker::Skill(skill.id.clone(), version.version.clone());
            picked.ask(picked.needs[place], by, wanted);
        }
    }
    picked
}

fn distinct(references: &[SkillRef]) -> Vec<SkillId> {
    let mut ids: Vec<SkillId> = Vec::with_capacity(references.len());
    for reference in references {
        if !ids.contains(&reference.id) {
            ids.push(reference.id.clone());
        }
    }
    ids
}

/// A published version never changes: other content under a locked version is refused.
fn refuse_changed_content<'c, 'a: 'c>(
    request: &Request<'_>,
    chosen: impl Iterator<Item = &'c Chosen<'a>>,
) -> Result<(), Conflict> {
    let Some(lock) = request.lock else {
        return Ok(());
    };
    let mut changed: Vec<ChangedContent> = chosen
        .filter(|c| !request.update.covers(&c.skill.id))
        .filter_map(|Chosen { skill, version, .. }| {
            let locked = lock.get(&skill.id)?;
            let same = locked.version != version.version || locked.digest == version.digest;
            (!same).then(|| ChangedContent {
                id: skill.id.clone(),
                version: version.version.clone(),
                locked: locked.digest,
                found: version.digest,
            })
        })
        .collect();
    changed.sort_by(|a, b| a.id.cmp(&b.id));
    if changed.is_empty() {
        return Ok(());
    }
    Err(Conflict::ChangedContent { agent: request.agent.cloned(), changed })
}
