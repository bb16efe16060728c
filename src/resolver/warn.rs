//! What a successful resolution still has to say: references without a version, yanked,
//! deprecated and vanished versions, skills that need each other in a circle.
//!
//! Changes nothing; words only.

use std::{collections::BTreeSet, ops::Range};

use super::solve::{Asker, Chosen, Picked, Request};
use crate::ids::{Requirement, SkillId};

/// One sentence each, sorted by skill, circles last. `order`: the numbers of what was
/// picked, sorted by id.
pub(super) fn warnings(request: &Request<'_>, picked: &Picked<'_>, order: &[usize]) -> Vec<String> {
    let asker = Asker::from(request.agent);
    let bare: BTreeSet<&SkillId> =
        request.skills.iter().filter(|r| r.requirement == Requirement::Bare).map(|r| &r.id).collect();
    let mut warnings = Vec::new();
    for one in order.iter().filter_map(|n| picked.get(*n)) {
        let (id, version) = (&one.skill.id, &one.version.version);
        if bare.contains(id) {
            warnings.push(format!(
                "{asker} asks for {id} without a version and gets {version}; explicit versions are recommended: write \"{id}@{version}\", or \"{id}@latest\" to keep taking the newest"
            ));
        }
        about_version(request, one, &mut warnings);
    }
    warnings.extend(circles(picked, order).into_iter().map(|circle| {
        let ids = circle.iter().filter_map(|n| picked.get(*n));
        let path: Vec<&str> = ids.map(|c| c.skill.id.as_str()).collect();
        format!("skills need each other in a circle: {}", path.join(" -> "))
    }));
    warnings
}

fn about_version(request: &Request<'_>, one: &Chosen<'_>, warnings: &mut Vec<String>) {
    let (id, version) = (&one.skill.id, &one.version.version);
    if let Some(message) = &one.version.deprecated {
        warnings.push(format!("{id}@{version} is deprecated: {message}"));
    }
    if one.version.yanked {
        warnings.push(format!(
            "{id}@{version} was yanked and is kept because skep.lock holds it; `skep update --skill {id}` looks for another"
        ));
    }
    if !one.skill.enabled {
        warnings.push(format!("{id} is disabled; {version} is kept because skep.lock holds it"));
    }
    let locked = request.lock.and_then(|lock| lock.get(id));
    if let Some(gone) = locked.filter(|l| !one.skill.versions.contains_key(&l.version)) {
        warnings.push(format!(
            "skep.lock holds {id}@{}, which is no longer in the registry; {version} takes its place",
            gone.version
        ));
    }
}

/// Where the search for circles stands with a skill.
#[derive(Clone, Copy, PartialEq)]
enum Mark {
    New,
    OnPath(usize),
    Done,
}

/// Circles of dependencies, each as a path of numbers that ends where it begins. A skill is
/// reported in one circle only: enough to find it, without counting every way round a knot.
fn circles(picked: &Picked<'_>, order: &[usize]) -> Vec<Vec<usize>> {
    let mut marks = vec![Mark::New; picked.chosen.len()];
    let mut reported = vec![false; picked.chosen.len()];
    let mut found = Vec::new();
    for start in order {
        // Depth first with a stack of our own: chains may be thousands long.
        let mut path: Vec<(usize, Range<usize>)> = Vec::new();
        if marks[*start] == Mark::New {
            marks[*start] = Mark::OnPath(0);
            path.push((*start, picked.needs(*start)));
        }
        while let Some((number, places)) = path.last_mut() {
            let Some(place) = places.next() else {
                marks[*number] = Mark::Done;
                path.pop();
                continue;
            };
            let needed = picked.needed(place);
            match marks[needed] {
                Mark::Done => {}
                Mark::New => {
                    marks[needed] = Mark::OnPath(path.len());
                    path.push((needed, picked.needs(needed)));
                }
                Mark::OnPath(from) => {
                    let mut circle: Vec<usize> = path[from..].iter().map(|(n, _)| *n).collect();
                    if circle.iter().all(|n| !reported[*n]) {
                        circle.iter().for_each(|n| reported[*n] = true);
                        circle.push(needed);
                        found.push(circle);
                    }
                }
            }
        }
    }
    found
}
