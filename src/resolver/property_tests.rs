//! The solver against brute force on small random registries.

use std::collections::BTreeMap;

use proptest::prelude::*;
use semver::Version;

use super::*;
use crate::ids::Requirement;

const IDS: [&str; 4] = ["a", "b", "c", "d"];
const VERSIONS: [&str; 4] = ["1.0.0", "1.1.0", "2.0.0-rc.1", "2.0.0"];
const WANTS: [&str; 8] = ["", "@latest", "@^1", "@^2", "@1.0.0", "@<2", "@2.0.0-rc.1", "@>=2.0.0-alpha"];
const FLAGS: [&str; 6] = ["", "", "", "", "yanked", "rejected"];

fn reference() -> impl Strategy<Value = String> {
    (0..IDS.len(), 0..WANTS.len()).prop_map(|(i, w)| format!("{}{}", IDS[i], WANTS[w]))
}

fn references(most: usize) -> impl Strategy<Value = String> {
    proptest::collection::vec(reference(), 0..=most).prop_map(|r| r.join(", "))
}

fn registry() -> impl Strategy<Value = Index> {
    let version = (proptest::bool::weighted(0.7), 0..FLAGS.len(), references(2));
    proptest::collection::vec(version, IDS.len() * VERSIONS.len()).prop_map(|cells| {
        let lines = cells.iter().enumerate().filter(|(_, c)| c.0).map(|(i, (_, flag, needs))| {
            let (id, version) = (IDS[i / VERSIONS.len()], VERSIONS[i % VERSIONS.len()]);
            format!("{id} {version} {} -> {needs}\n", FLAGS[*flag])
        });
        index(&lines.collect::<String>())
    })
}

/// The rules said again, as plainly as can be.
fn admits(roots: &[SkillRef], wanted: &SkillRef, version: &Version) -> bool {
    match &wanted.requirement {
        Requirement::Exact(exact) => exact == version,
        Requirement::Range(range) => range.matches(version),
        Requirement::Bare | Requirement::Latest => {
            version.pre.is_empty()
                || roots.iter().any(|root| {
                    root.id == wanted.id
                        && !matches!(root.requirement, Requirement::Bare | Requirement::Latest)
                        && admits(roots, root, version)
                })
        }
    }
}

type Choice<'a> = BTreeMap<&'a SkillId, &'a VersionEntry>;

fn is_solution(roots: &[SkillRef], choice: &Choice<'_>) -> bool {
    let needs = choice.values().flat_map(|v| &v.dependencies);
    roots.iter().chain(needs).all(|wanted| {
        let chosen = choice.get(&wanted.id);
        chosen.is_some_and(|v| admits(roots, wanted, &v.version))
    })
}

fn offered<'a>(skill: &'a SkillEntry, lock: &LockedAgent) -> Vec<&'a VersionEntry> {
    let kept = |v: &VersionEntry| lock.get(&skill.id).is_some_and(|l| l.version == v.version);
    let usable = |v: &&VersionEntry| v.trust == Trust::Trusted && (!v.yanked || kept(v));
    skill.versions.values().filter(usable).collect()
}

fn any_solution(index: &Index, roots: &[SkillRef], lock: &LockedAgent) -> bool {
    let mut choices: Vec<Choice<'_>> = vec![BTreeMap::new()];
    for skill in index.skills.values() {
        let versions = offered(skill, lock);
        let with = choices.iter().flat_map(|choice| {
            versions.iter().map(|v| {
                let mut choice = choice.clone();
                choice.insert(&skill.id, *v);
                choice
            })
        });
        let with: Vec<_> = with.collect();
        choices.extend(with);
    }
    choices.iter().any(|choice| is_solution(roots, choice))
}

fn random_lock() -> impl Strategy<Value = LockedAgent> {
    proptest::collection::vec(proptest::option::of(0..VERSIONS.len()), IDS.len()).prop_map(|cells| {
        let held = IDS.iter().zip(cells).filter_map(|(id, v)| Some(format!("{id}@{} ", VERSIONS[v?])));
        locked(&held.collect::<String>())
    })
}

fn random_update() -> impl Strategy<Value = Update> {
    prop_oneof![Just(Update::None), Just(Update::All), Just(Update::Only(ids("a c"))),]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_solver_finds_a_solution_exactly_when_there_is_one(
        index in registry(), skills in references(3), lock in random_lock(), update in random_update(),
    ) {
        let roots = refs(&skills);
        let ask = Ask { lock, update, ..writer() };
        match ask.solve(&index, &skills) {
            Ok(resolution) => {
                let choice: Choice<'_> = resolution.skills.iter()
                    .map(|(id, s)| (id, index.version(id, &s.version).unwrap()))
                    .collect();
                prop_assert!(is_solution(&roots, &choice));
                for (id, version) in &choice {
                    let allowed = offered(&index.skills[*id], &ask.lock);
                    prop_assert!(allowed.contains(version), "{id} {}", version.version);
                    prop_assert!(!resolution.skills[*id].asked_by.is_empty());
                }
            }
            Err(conflict) => {
                prop_assert!(!any_solution(&index, &roots, &ask.lock), "{conflict}");
                let Conflict::Unsolvable { asks, .. } = conflict else { panic!("{conflict}") };
                prop_assert!(!asks.is_empty());
            }
        }
    }

    #[test]
    fn what_was_resolved_and_locked_resolves_to_the_same_again(
        index in registry(), skills in references(3),
    ) {
        if let Ok(first) = writer().solve(&index, &skills) {
            let again = Ask { lock: first.locked(), ..writer() }.solve(&index, &skills).unwrap();
            prop_assert_eq!(again, first);
        }
    }

    #[test]
    fn a_lock_that_still_fits_is_kept_whatever_appeared_since(
        old in registry(), new in registry(), skills in references(3),
    ) {
        if let Ok(first) = writer().solve(&old, &skills) {
            let mut grown = old.clone();
            for (id, skill) in new.skills {
                let empty = SkillEntry { versions: BTreeMap::new(), ..(*skill).clone() };
                let entry = grown.skills.entry(id).or_insert_with(|| empty.into());
                for (version, v) in &skill.versions {
                    Arc::make_mut(entry).versions.entry(version.clone()).or_insert_with(|| v.clone());
                }
            }
            let again = Ask { lock: first.locked(), ..writer() }.solve(&grown, &skills).unwrap();
            prop_assert_eq!(again.locked(), first.locked());
        }
    }
}
