//! What a successful resolution still has to say: references without a version, yanked,
//! deprecated and vanished versions, skills that need each other in a circle.
//!
//! Changes nothing; words only.

use std::collections::{BTreeMap, BTreeSet};

use super::solve::{Asker, Request};
use crate::{
    ids::{Requirement, SkillId},
    registry::index::{Index, VersionEntry},
};

/// One sentence each, sorted by skill, circles last. `versions` is sorted by id.
pub(super) fn warnings<'a>(
    index: &Index,
    request: &Request<'_>,
    versions: impl Iterator<Item = (&'a SkillId, &'a VersionEntry)>,
) -> Vec<String> {
    let asker = Asker::from(request.agent);
    let bare: BTreeSet<&SkillId> = request
        .skills
        .iter()
        .filter(|r| r.requirement == Requirement::Bare)
        .map(|r| &r.id)
        .collect();
    let chosen: BTreeMap<&SkillId, &VersionEntry> = versions.collect();
    let mut warnings = Vec::new();
    for (id, entry) in &chosen {
        let version = &entry.version;
        if bare.contains(*id) {
            warnings.push(format!(
                "{asker} asks for {id} without a version and gets {version}; explicit versions are recommended: write \"{id}@{version}\", or \"{id}@latest\" to keep taking the newest"
            ));
        }
        about_version(index, request, id, entry, &mut warnings);
    }
    warnings.extend(circles(&chosen).into_iter().map(|circle| {
        let path: Vec<&str> = circle.iter().map(|id| id.as_str()).collect();
        format!("skills need each other in a circle: {}", path.join(" -> "))
    }));
    warnings
}

fn about_version(
    index: &Index,
    request: &Request<'_>,
    id: &SkillId,
    entry: &VersionEntry,
    warnings: &mut Vec<String>,
) {
    let version = &entry.version;
    if let Some(message) = &entry.deprecated {
        warnings.push(format!("{id}@{version} is deprecated: {message}"));
    }
    if entry.yanked {
        warnings.push(format!(
            "{id}@{version} was yanked and is kept because skep.lock holds it; `skep update --skill {id}` looks for another"
        ));
    }
    if index.skills.get(id).is_some_and(|skill| !skill.enabled) {
        warnings.push(format!(
            "{id} is disabled; {version} is kept because skep.lock holds it"
        ));
    }
    let locked = request.lock.and_then(|lock| lock.get(id));
    if let Some(gone) = locked.filter(|l| index.version(id, &l.version).is_none()) {
        warnings.push(format!(
            "skep.lock holds {id}@{}, which is no longer in the registry; {version} takes its place",
            gone.version
        ));
    }
}

/// Circles of dependencies, each as a path that ends where it begins. A skill is reported in one
/// circle only: enough to find it, without counting every way round a knot.
fn circles<'a>(chosen: &BTreeMap<&'a SkillId, &'a VersionEntry>) -> Vec<Vec<&'a SkillId>> {
    let mut done: BTreeSet<&SkillId> = BTreeSet::new();
    let mut reported: BTreeSet<&SkillId> = BTreeSet::new();
    let mut found = Vec::new();
    for start in chosen.keys() {
        // Depth first with a stack of our own: chains may be thousands long.
        let mut path: Vec<(&'a SkillId, usize)> = Vec::new();
        let mut on_path: BTreeMap<&SkillId, usize> = BTreeMap::new();
        if !done.contains(*start) {
            on_path.insert(start, 0);
            path.push((start, 0));
        }
        while let Some((id, next)) = path.last_mut() {
            let Some(needed) = chosen.get(*id).and_then(|v| v.dependencies.get(*next)) else {
                on_path.remove(*id);
                done.insert(id);
                path.pop();
                continue;
            };
            *next += 1;
            if let Some(from) = on_path.get(&needed.id) {
                let mut circle: Vec<&SkillId> = path[*from..].iter().map(|(id, _)| *id).collect();
                if circle.iter().all(|id| !reported.contains(id)) {
                    reported.extend(circle.iter().copied());
                    circle.push(&needed.id);
                    found.push(circle);
                }
            } else if !done.contains(&needed.id) {
                on_path.insert(&needed.id, path.len());
                path.push((&needed.id, 0));
            }
        }
    }
    found
}
