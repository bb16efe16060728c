//! Which versions of which skills a request may be given, found only when the solver asks.
//!
//! Borrows the index; a skill nobody needs is never looked at. Decides nothing between skills.

use std::{cell::RefCell, cmp::Reverse, convert::Infallible, rc::Rc};

use pubgrub::{
    Dependencies, DependencyConstraints, DependencyProvider, Map, PackageResolutionStatistics, VersionSet,
};
use semver::Version;

use super::{
    lock::Locked,
    solve::{Request, Update},
    version_set::Positions,
};
use crate::{
    ids::{Requirement, SkillId, SkillRef},
    registry::index::{Index, Owner, SkillEntry, Trust, VersionEntry},
};

/// The number of whoever asks; every skill has a number below it.
pub(super) const ROOT: u32 = u32::MAX;

/// Why a version that exists is not offered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Withheld {
    Rejected,
    Pending(Owner),
    Disabled,
    Yanked,
}

/// One skill as far as this request is concerned.
#[derive(Debug)]
pub(super) struct Candidate<'a> {
    pub(super) id: &'a SkillId,
    /// None: the index does not know it.
    pub(super) entry: Option<&'a SkillEntry>,
    /// Versions that may be chosen, oldest first; the solver's versions are positions in it.
    pub(super) offered: Vec<&'a VersionEntry>,
    /// Positions in `offered`, the most wanted first; none: newest first.
    order: Option<Vec<u32>>,
    /// Decided the earlier the higher: named in an update, then locked, then the rest.
    class: u8,
    /// What was admitted before: many ask for a popular skill, in few ways.
    admitted: RefCell<Vec<(&'a Requirement, Positions)>>,
}

/// The solver's view of index, lock and request.
pub(super) struct Candidates<'a> {
    index: &'a Index,
    pub(super) request: &'a Request<'a>,
    /// The agent's own references that name a pre-release.
    names_pre: Vec<&'a SkillRef>,
    known: RefCell<Known<'a>>,
}

#[derive(Default)]
struct Known<'a> {
    numbers: Map<&'a SkillId, u32>,
    candidates: Vec<Rc<Candidate<'a>>>,
}

impl<'a> Candidate<'a> {
    /// The newest offered release, or the newest pre-release where there is no release.
    pub(super) fn newest(&self) -> Option<&'a VersionEntry> {
        let stable = |v: &&&VersionEntry| v.version.pre.is_empty();
        let newest = self.offered.iter().rev().find(stable);
        newest.or(self.offered.last()).copied()
    }
}

impl<'a> Candidates<'a> {
    pub(super) fn new(index: &'a Index, request: &'a Request<'a>) -> Self {
        Self {
            index,
            request,
            names_pre: request.skills.iter().filter(|r| names_pre(r)).collect(),
            known: RefCell::default(),
        }
    }

    /// A skill by its number.
    pub(super) fn get(&self, number: u32) -> Rc<Candidate<'a>> {
        Rc::clone(&self.known.borrow().candidates[number as usize])
    }

    /// The number of a skill, looked up in the index at its first mention.
    pub(super) fn number(&self, id: &'a SkillId) -> u32 {
        if let Some(number) = self.known.borrow().numbers.get(id) {
            return *number;
        }
        let candidate = Rc::new(self.candidate(id));
        let mut known = self.known.borrow_mut();
        let number = u32::try_from(known.candidates.len()).unwrap_or(ROOT);
        known.candidates.push(candidate);
        known.numbers.insert(id, number);
        number
    }

    /// The number of a skill that was mentioned before.
    pub(super) fn known(&self, id: &SkillId) -> Option<u32> {
        self.known.borrow().numbers.get(id).copied()
    }

    /// The id in the index most like one that it does not have.
    pub(super) fn nearest(&self, id: &SkillId) -> Option<&'a SkillId> {
        self.index.nearest(id.as_str())
    }

    /// How many skills were looked at.
    pub(super) fn seen(&self) -> usize {
        self.known.borrow().candidates.len()
    }

    /// What `ROOT` or one version asks for.
    pub(super) fn wants(&self, number: u32, position: u32) -> &'a [SkillRef] {
        if number == ROOT {
            return self.request.skills;
        }
        &self.get(number).offered[position as usize].dependencies
    }

    /// As `admitted`, remembered.
    fn admitted_again(&self, number: u32, wanted: &'a SkillRef) -> Positions {
        let known = self.known.borrow();
        let candidate = &known.candidates[number as usize];
        let mut before = candidate.admitted.borrow_mut();
        if let Some((_, set)) = before.iter().find(|(r, _)| **r == wanted.requirement) {
            return set.clone();
        }
        let set = self.admitted(candidate, wanted);
        if before.len() < 8 {
            before.push((&wanted.requirement, set.clone()));
        }
        set
    }

    /// The offered versions that a reference admits.
    pub(super) fn admitted(&self, candidate: &Candidate<'a>, wanted: &SkillRef) -> Positions {
        let mut set = Positions::empty();
        for (position, version) in (0u32..).zip(&candidate.offered) {
            if self.admits(wanted, &version.version) {
                set.insert(position);
            }
        }
        set
    }

    /// Whether a reference admits a version, by Cargo's rules. `id` and `id@latest` admit every
    /// release, and those pre-releases of the skill that the agent itself names.
    pub(super) fn admits(&self, wanted: &SkillRef, version: &Version) -> bool {
        match &wanted.requirement {
            Requirement::Exact(exact) => exact == version,
            Requirement::Range(range) => range.matches(version),
            Requirement::Bare | Requirement::Latest => {
                version.pre.is_empty()
                    || self.names_pre.iter().any(|r| r.id == wanted.id && self.admits(r, version))
            }
        }
    }

    /// Why a version is kept from this request; none when it may be chosen.
    pub(super) fn withheld(&self, skill: &SkillEntry, version: &VersionEntry) -> Option<Withheld> {
        let own = match &skill.owner {
            Owner::Agent(author) => Some(author) == self.request.agent,
            Owner::BuiltIn | Owner::Operator => false,
        };
        match version.trust {
            Trust::Rejected => return Some(Withheld::Rejected),
            Trust::Pending if !own => return Some(Withheld::Pending(skill.owner.clone())),
            Trust::Pending | Trust::Trusted | Trust::Approved => {}
        }
        let why = match (skill.enabled, version.yanked) {
            (true, false) => return None,
            (true, true) => Withheld::Yanked,
            (false, _) => Withheld::Disabled,
        };
        let kept = self.keeps(self.locked(&skill.id), &skill.id, version);
        (!kept).then_some(why)
    }

    fn locked(&self, id: &SkillId) -> Option<&'a Locked> {
        self.request.lock?.get(id)
    }

    /// Whether `skep.lock` names this version. Other content under the same version is refused
    /// later, once and in clear words, unless an update was asked for: then it is a new version.
    fn keeps(&self, locked: Option<&Locked>, id: &SkillId, version: &VersionEntry) -> bool {
        locked.is_some_and(|locked| {
            locked.version == version.version
                && (locked.digest == version.digest || !self.request.update.covers(id))
        })
    }

    fn candidate(&self, id: &'a SkillId) -> Candidate<'a> {
        let entry = self.index.skills.get(id).map(AsRef::as_ref);
        let mut offered = Vec::with_capacity(entry.map_or(0, |skill| skill.versions.len()));
        for (skill, version) in entry.iter().flat_map(|s| s.versions.values().map(move |v| (s, v))) {
            if self.withheld(skill, version).is_none() {
                offered.push(version);
            }
        }
        let locked = self.locked(id);
        let updated = self.request.update.covers(id);
        let enabled = entry.is_some_and(|skill| skill.enabled);
        let order = locked.is_some().then(|| {
            let mut order: Vec<u32> = (0u32..).take(offered.len()).collect();
            order.reverse();
            order.sort_by_key(|position| {
                let version = offered[*position as usize];
                let kept = self.keeps(locked, id, version);
                // An update leaves a yanked or disabled version only when there is no other way.
                let last_resort = updated && kept && (version.yanked || !enabled);
                (!kept || updated, last_resort)
            });
            order
        });
        let class = match &self.request.update {
            Update::Only(ids) if ids.contains(id) => 2,
            _ if !updated && locked.is_some() => 1,
            _ => 0,
        };
        Candidate { id, entry, offered, order, class, admitted: RefCell::default() }
    }
}

fn names_pre(reference: &SkillRef) -> bool {
    match &reference.requirement {
        Requirement::Bare | Requirement::Latest => false,
        Requirement::Exact(version) => !version.pre.is_empty(),
        Requirement::Range(range) => range.comparators.iter().any(|c| !c.pre.is_empty()),
    }
}

impl DependencyProvider for Candidates<'_> {
    type P = u32;
    type V = u32;
    type VS = Positions;
    type M = &'static str;
    type Err = Infallible;
    type Priority = (u8, u32, Reverse<u32>);

    fn prioritize(
        &self,
        package: &u32,
        range: &Positions,
        conflicts: &PackageResolutionStatistics,
    ) -> Self::Priority {
        if *package == ROOT {
            return (u8::MAX, 0, Reverse(0));
        }
        let known = self.known.borrow();
        let candidate = &known.candidates[*package as usize];
        let choices = range.count(candidate.offered.len());
        (candidate.class, conflicts.conflict_count(), Reverse(choices))
    }

    fn choose_version(&self, package: &u32, range: &Positions) -> Result<Option<u32>, Infallible> {
        if *package == ROOT {
            return Ok(Some(0));
        }
        let known = self.known.borrow();
        let candidate = &known.candidates[*package as usize];
        let wanted = |position: &u32| range.contains(position);
        if let Some(order) = &candidate.order {
            return Ok(order.iter().copied().find(wanted));
        }
        let count = u32::try_from(candidate.offered.len()).unwrap_or(ROOT);
        Ok((0..count).rev().find(wanted))
    }

    fn get_dependencies(
        &self,
        package: &u32,
        version: &u32,
    ) -> Result<Dependencies<u32, Positions, &'static str>, Infallible> {
        let wanted = self.wants(*package, *version);
        let mut needs = Vec::with_capacity(wanted.len());
        for wanted in wanted {
            let number = self.number(&wanted.id);
            let admitted = self.admitted_again(number, wanted);
            if number != *package {
                needs.push((number, admitted));
            } else if !admitted.contains(version) {
                return Ok(Dependencies::Unavailable("needs another version of itself"));
            }
        }
        Ok(Dependencies::Available(needs.into_iter().collect::<DependencyConstraints<_, _>>()))
    }
}
