//! Turns the solver's proof that nothing fits into who asked for what, and where it clashes.
//!
//! The proof's leaves are kept, its steps are not: people check a list of demands faster than a
//! chain of deductions. Words are made in `explain`.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
};

use pubgrub::{DerivationTree, External, VersionSet};
use semver::Version;

use super::{
    candidates::{Candidate, Candidates, ROOT},
    explain::{Ask, Conflict, Reason, Verdict},
    solve::Asker,
    version_set::Positions,
};
use crate::ids::SkillRef;

type Proof = DerivationTree<u32, Positions, &'static str>;

/// By who asks, by which of its versions: what is asked for.
type Demands<'a> = BTreeMap<u32, BTreeMap<u32, Vec<&'a SkillRef>>>;

pub(super) fn unsolvable(candidates: &Candidates<'_>, proof: Proof) -> Conflict {
    let mut demands = leaves(candidates, proof);
    // The proof needs one hopeless reference; whoever wrote the list wants to know all of them.
    demand(candidates, &mut demands, ROOT, &Positions::full(), |target, want| {
        candidates.admitted(&candidates.get(target), want).is_empty()
    });
    let mut asks = Vec::new();
    let mut demanded: BTreeMap<u32, Vec<(u32, &SkillRef)>> = BTreeMap::new();
    let mut verdicts = Vec::new();
    let mut queue = VecDeque::from([ROOT]);
    let mut order = Vec::new();
    let mut seen = BTreeSet::from([ROOT]);
    while let Some(number) = queue.pop_front() {
        for (wants, positions) in grouped(demands.get(&number)) {
            for want in &wants {
                let target = candidates.number(&want.id);
                if target == number {
                    verdicts.push(needs_itself(candidates, number, &positions, want));
                    continue;
                }
                let from = demanded.entry(target).or_default();
                if !from.contains(&(number, *want)) {
                    from.push((number, *want));
                }
                if seen.insert(target) {
                    queue.push_back(target);
                    order.push(target);
                }
            }
            asks.push(ask(candidates, number, &positions, &wants));
        }
    }
    for number in order {
        verdict(candidates, number, &demanded[&number], &mut verdicts);
    }
    Conflict::Unsolvable { agent: candidates.request.agent.cloned(), asks, verdicts }
}

/// The leaves of the proof. Taken apart without recursion: proofs can be thousands of steps deep,
/// and steps that are shared are met once.
fn leaves<'a>(candidates: &Candidates<'a>, proof: Proof) -> Demands<'a> {
    let mut demands = Demands::new();
    let mut todo = vec![Arc::new(proof)];
    while let Some(step) = todo.pop() {
        match Arc::try_unwrap(step) {
            Ok(DerivationTree::Derived(derived)) => todo.extend([derived.cause1, derived.cause2]),
            Ok(DerivationTree::External(External::FromDependencyOf(by, versions, on, set))) => {
                demand(candidates, &mut demands, by, &versions, |target, want| {
                    target == on && candidates.admitted(&candidates.get(target), want) == set
                });
            }
            Ok(DerivationTree::External(External::Custom(by, versions, _))) => {
                demand(candidates, &mut demands, by, &versions, |target, _| target == by);
            }
            Ok(DerivationTree::External(External::NotRoot(..) | External::NoVersions(..))) => {}
            // Shared with a step still on the list: the last one takes it apart.
            Err(_) => {}
        }
    }
    demands
}

fn demand<'a>(
    candidates: &Candidates<'a>,
    demands: &mut Demands<'a>,
    by: u32,
    versions: &Positions,
    is_it: impl Fn(u32, &SkillRef) -> bool,
) {
    let count = match by {
        ROOT => 1,
        skill => candidates.get(skill).offered.len(),
    };
    for position in (0u32..).take(count).filter(|p| versions.contains(p)) {
        for want in candidates.wants(by, position) {
            if is_it(candidates.number(&want.id), want) {
                let wants = demands.entry(by).or_default().entry(position).or_default();
                if !wants.contains(&want) {
                    wants.push(want);
                }
            }
        }
    }
}

/// Versions of one skill that ask for the same are told together.
fn grouped<'a>(demands: Option<&BTreeMap<u32, Vec<&'a SkillRef>>>) -> Vec<(Vec<&'a SkillRef>, Vec<u32>)> {
    let mut groups: Vec<(Vec<&SkillRef>, Vec<u32>)> = Vec::new();
    for (position, wants) in demands.into_iter().flatten() {
        let mut wants = wants.clone();
        wants.sort_by(|a, b| a.id.cmp(&b.id));
        match groups.iter_mut().find(|(other, _)| *other == wants) {
            Some((_, positions)) => positions.push(*position),
            None => groups.push((wants, vec![*position])),
        }
    }
    groups
}

fn ask(candidates: &Candidates<'_>, number: u32, positions: &[u32], wants: &[&SkillRef]) -> Ask {
    let wants = wants.iter().map(|w| (*w).clone()).collect();
    if number == ROOT {
        let by = vec![Asker::from(candidates.request.agent)];
        return Ask { by, wants };
    }
    let candidate = candidates.get(number);
    let version = |p: &u32| candidate.offered[*p as usize].version.clone();
    let by = positions.iter().map(|p| Asker::Skill(candidate.id.clone(), version(p))).collect();
    Ask { by, wants }
}

fn needs_itself(candidates: &Candidates<'_>, number: u32, positions: &[u32], want: &SkillRef) -> Verdict {
    let candidate = candidates.get(number);
    let version = |p: &u32| candidate.offered[*p as usize].version.clone();
    Verdict::NeedsItself { versions: positions.iter().map(version).collect(), wanted: want.clone() }
}

/// What is wrong with the demands on one skill, if anything.
fn verdict(
    candidates: &Candidates<'_>,
    number: u32,
    demanded: &[(u32, &SkillRef)],
    verdicts: &mut Vec<Verdict>,
) {
    let candidate = candidates.get(number);
    if candidate.entry.is_none() {
        verdicts.push(Verdict::Unknown {
            id: candidate.id.clone(),
            nearest: candidates.nearest(candidate.id).cloned(),
        });
        return;
    }
    let sets: Vec<Positions> =
        demanded.iter().map(|(_, want)| candidates.admitted(&candidate, want)).collect();
    let before = verdicts.len();
    for ((_, want), set) in demanded.iter().zip(&sets) {
        let verdict = none_fits(candidates, &candidate, want);
        if set.is_empty() && !verdicts[before..].contains(&verdict) {
            verdicts.push(verdict);
        }
    }
    if verdicts.len() > before {
        return;
    }
    // Two versions of one skill never ask at the same time, so they do not clash.
    for (i, (by, want)) in demanded.iter().enumerate() {
        for (j, (other, against)) in demanded.iter().enumerate().skip(i + 1) {
            let apart = *by == ROOT || by != other;
            if apart && sets[i].is_disjoint(&sets[j]) {
                verdicts.push(clash(&candidate, &[*want, *against]));
            }
        }
    }
    let askers: BTreeSet<u32> = demanded.iter().map(|(by, _)| *by).collect();
    if verdicts.len() == before && (askers.len() == demanded.len() || askers.contains(&ROOT)) {
        let wants: Vec<_> = demanded.iter().map(|(_, want)| *want).collect();
        verdicts.extend(together(&candidate, &wants, &sets));
    }
}

/// The smallest part of the demands that already leaves no version.
fn together(candidate: &Candidate<'_>, wants: &[&SkillRef], sets: &[Positions]) -> Option<Verdict> {
    let left = |kept: &[usize]| kept.iter().fold(Positions::full(), |all, i| all.intersection(&sets[*i]));
    let mut kept: Vec<usize> = (0..sets.len()).collect();
    if !left(&kept).is_empty() {
        return None;
    }
    for i in 0..sets.len() {
        let without: Vec<usize> = kept.iter().copied().filter(|k| *k != i).collect();
        if left(&without).is_empty() {
            kept = without;
        }
    }
    let wants: Vec<_> = kept.iter().map(|i| wants[*i]).collect();
    Some(clash(candidate, &wants))
}

fn clash(candidate: &Candidate<'_>, wants: &[&SkillRef]) -> Verdict {
    Verdict::Clash {
        id: candidate.id.clone(),
        requirements: wants.iter().map(|w| w.requirement.clone()).collect(),
        available: available(candidate),
    }
}

fn none_fits(candidates: &Candidates<'_>, candidate: &Candidate<'_>, want: &SkillRef) -> Verdict {
    let withheld = candidate.entry.into_iter().flat_map(|skill| {
        skill.versions.values().filter_map(|v| {
            let why = candidates.withheld(skill, v)?;
            let fits = candidates.admits(want, &v.version);
            fits.then(|| (v.version.clone(), Reason::from(why)))
        })
    });
    Verdict::NoneFits { wanted: want.clone(), available: available(candidate), withheld: withheld.collect() }
}

fn available(candidate: &Candidate<'_>) -> Vec<Version> {
    candidate.offered.iter().map(|v| v.version.clone()).collect()
}
