//! Finds one version of every skill that an agent needs, and says who asked for it.
//!
//! One version of a skill per agent. Locked versions win unless an update was asked for or the
//! references no longer admit them. Skills may need each other in a circle; that only warns.

use std::{collections::BTreeMap, collections::BTreeSet, fmt};

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
    registry::index::{Index, VersionEntry},
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
        self.skills.iter().map(locked).collect()
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
    assemble(index, &candidates, &positions)
}

/// `positions`: by skill number, the position chosen.
fn assemble(
    index: &Index,
    candidates: &Candidates<'_>,
    positions: &[Option<u32>],
) -> Result<Resolution, Conflict> {
    let request = candidates.request;
    let mut askers: Vec<Vec<Asked>> = vec![Vec::new(); positions.len()];
    let mut ask = |wanted: &[SkillRef], by: &dyn Fn() -> Asker| {
        for reference in wanted {
            if let Some(number) = candidates.known(&reference.id) {
                askers[number as usize].push(Asked {
                    by: by(),
                    requirement: reference.requirement.clone(),
                });
            }
        }
    };
    ask(request.skills, &|| Asker::from(request.agent));
    let mut chosen: Vec<(&SkillId, usize, &VersionEntry, &Version)> = Vec::new();
    for (number, position) in (0u32..).zip(positions) {
        let Some(position) = position else { continue };
        let candidate = candidates.get(number);
        let version = candidate.offered[*position as usize];
        ask(&version.dependencies, &|| {
            Asker::Skill(candidate.id.clone(), version.version.clone())
        });
        let newest = candidate.newest().unwrap_or(version);
        chosen.push((candidate.id, number as usize, version, &newest.version));
    }
    chosen.sort_unstable_by_key(|(id, ..)| *id);
    let versions = || chosen.iter().map(|(id, _, version, _)| (*id, *version));
    refuse_changed_content(request, versions())?;
    let warnings = super::warn::warnings(index, request, versions());
    let skills = chosen
        .iter()
        .map(|(id, number, version, newest)| {
            let mut asked_by = std::mem::take(&mut askers[*number]);
            // Not the order in which the solver came by them.
            asked_by.sort_by(|a, b| a.by.cmp(&b.by));
            let resolved = Resolved {
                version: version.version.clone(),
                digest: version.digest,
                asked_by,
                dependencies: distinct(&version.dependencies),
                newest: (*newest).clone(),
            };
            ((*id).clone(), resolved)
        })
        .collect();
    Ok(Resolution { skills, warnings })
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
fn refuse_changed_content<'a>(
    request: &Request<'_>,
    versions: impl Iterator<Item = (&'a SkillId, &'a VersionEntry)>,
) -> Result<(), Conflict> {
    let Some(lock) = request.lock else {
        return Ok(());
    };
    let changed: Vec<ChangedContent> = versions
        .filter(|(id, _)| !request.update.covers(id))
        .filter_map(|(id, version)| {
            let locked = lock.get(id)?;
            let same = locked.version != version.version || locked.digest == version.digest;
            (!same).then(|| ChangedContent {
                id: id.clone(),
                version: version.version.clone(),
                locked: locked.digest,
                found: version.digest,
            })
        })
        .collect();
    if changed.is_empty() {
        return Ok(());
    }
    Err(Conflict::ChangedContent {
        agent: request.agent.cloned(),
        changed,
    })
}
