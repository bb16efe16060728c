use std::sync::Arc;

use super::*;
use crate::resolver::tests::{index, refs};

/// What agent `a` has, as `id@version` each, own ones with a star; and what is left out.
fn has(registry: &str, configured: &str) -> (String, Vec<String>) {
    let index = index(registry);
    let agent: AgentId = "a".parse().unwrap();
    let skills = refs(configured);
    let request = Request { agent: Some(&agent), skills: &skills, lock: None, update: Update::None };
    let base = solve(&index, &request).unwrap();
    let all = with_own(&index, &agent, base.clone());
    assert_eq!(all.locked(), base.locked(), "the lock holds what skep.toml asked for and nothing else");
    let shown = all.skills.iter().map(|(id, s)| {
        let star = if all.own.contains(id) { "*" } else { "" };
        format!("{id}@{}{star}", s.version)
    });
    let shown: Vec<String> = shown.collect();
    let left = all.warnings.iter().filter(|w| w.contains("left out")).cloned().collect();
    (shown.join(" "), left)
}

#[test]
fn an_author_has_its_newest_version_also_while_it_waits_for_approval() {
    let registry = "x 1.0.0 by-a\nx 1.0.1 pending by-a\ny 0.0.0 pending by-b\nz 1.0.0";
    assert_eq!(has(registry, "z@1.0.0"), ("x@1.0.1* z@1.0.0".to_owned(), vec![]));
    for gone in ["rejected", "yanked"] {
        let registry = format!("x 1.0.0 by-a\nx 1.0.1 {gone} by-a");
        assert_eq!(has(&registry, "").0, "x@1.0.0*", "{gone}");
    }
    assert_eq!(has("x 1.0.0 by-a disabled", "").0, "");
    assert_eq!(has("x 1.0.0-beta.2 pending by-a", "").0, "x@1.0.0-beta.2*");
}

#[test]
fn what_skep_toml_names_stays_as_it_names_it() {
    let registry = "x 1.0.0 by-a\nx 1.0.1 pending by-a";
    assert_eq!(has(registry, "x@1.0.0").0, "x@1.0.0");
}

#[test]
fn a_pending_skill_brings_nothing_of_anybody_elses_along() {
    let registry = "x 1.0.0 pending by-a -> secretive@^1\nsecretive 1.0.0\nmine 1.0.0 pending by-a -> free@^1\n\
                    free 1.0.0\nhelper 1.0.0 pending by-a -> mine@^1";
    let (skills, left) = has(registry, "free@1.0.0");
    assert_eq!(skills, "free@1.0.0 helper@1.0.0* mine@1.0.0*");
    assert!(
        left.len() == 1 && left[0].contains("own skill x") && left[0].contains("needs secretive"),
        "{left:?}"
    );
    // Also not through another of its own.
    let registry = "x 1.0.0 pending by-a -> y@^1\ny 1.0.0 pending by-a -> secretive@^1\nsecretive 1.0.0";
    let (skills, left) = has(registry, "");
    assert_eq!((skills.as_str(), left.len()), ("", 2), "{left:?}");
    // An approved version may: the operator saw what it needs. The pending one after it does not count.
    let registry = "x 1.0.0 by-a -> secretive@^1\nsecretive 1.0.0";
    let approved = |mut index: Index| {
        let x: SkillId = "x".parse().unwrap();
        Arc::make_mut(index.skills.get_mut(&x).unwrap())
            .versions
            .values_mut()
            .for_each(|v| v.trust = Trust::Approved);
        index
    };
    let index = approved(index(registry));
    let all = with_own(&index, &"a".parse().unwrap(), Resolution::default());
    assert_eq!(all.skills.len(), 2);
}

#[test]
fn one_that_cannot_be_had_is_left_out_and_the_others_stay() {
    let mut registry = "base 1.0.0\nbase 2.0.0\n".to_owned();
    for i in 0..20 {
        registry += &format!("good-{i} 1.0.0 pending by-a\n");
    }
    registry += "bad 1.0.0 pending by-a -> nothing@^1\nmover 1.0.0 pending by-a -> base@^2\n";
    let (skills, left) = has(&registry, "base@^1");
    assert_eq!(skills.matches("good-").count(), 20, "{skills}");
    assert!(
        skills.starts_with("base@1.0.0 ") && !skills.contains("bad@") && !skills.contains("mover@"),
        "{skills}"
    );
    assert_eq!(left.len(), 2, "{left:?}");
    assert!(left.iter().any(|l| l.contains("nothing")), "{left:?}");
}

#[test]
fn what_only_a_pending_version_needs_is_trusted_no_more_than_it() {
    // The operator may have put it into skep.toml.
    let index =
        index("x 1.0.0 pending by-a -> secretive@^1\nsecretive 1.0.0 -> deeper@^1\ndeeper 1.0.0\nfree 1.0.0");
    let agent: AgentId = "a".parse().unwrap();
    let found = |skills: &str| {
        let skills = refs(skills);
        let request = Request { agent: Some(&agent), skills: &skills, lock: None, update: Update::None };
        let all = with_own(&index, &agent, solve(&index, &request).unwrap());
        let settled = settled(&all, &|id| id.as_str() == "x");
        settled.iter().map(SkillId::as_str).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(found("x, free"), "free");
    assert_eq!(found("x, free, secretive"), "deeper free secretive");
}
