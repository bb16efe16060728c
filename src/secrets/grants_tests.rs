use proptest::prelude::*;

use super::*;

fn names(list: &[&str]) -> Vec<SecretName> {
    list.iter().map(|s| s.parse().unwrap()).collect()
}

fn set(list: &[&str]) -> BTreeSet<SecretName> {
    names(list).into_iter().collect()
}

fn skill(s: &str) -> SkillId {
    s.parse().unwrap()
}

/// `(skill, trust, declares)` rows to asks.
fn decide(skills: &[(&str, Trust, &[&str])], allow: Option<&[&str]>, in_store: &[&str]) -> Grants {
    let owned: Vec<_> =
        skills.iter().map(|(id, trust, declares)| (skill(id), *trust, names(declares))).collect();
    let asks: Vec<Ask<'_>> =
        owned.iter().map(|(skill, trust, declares)| Ask { skill, trust: *trust, declares }).collect();
    let allow = allow.map(names);
    grants(&GrantInput { skills: &asks, allow: allow.as_deref(), set: &set(in_store) })
}

#[test]
fn a_declared_name_that_is_set_is_granted_and_an_undeclared_one_is_not() {
    let g =
        decide(&[("a", Trust::Trusted, &["X"]), ("b", Trust::Approved, &["X", "Y"])], None, &["X", "Y", "Z"]);
    assert_eq!(g.granted, set(&["X", "Y"]));
    assert_eq!(g.by_skill[&skill("a")], set(&["X"]));
    assert_eq!(g.by_skill[&skill("b")], set(&["X", "Y"]));
    assert!(g.missing.is_empty() && g.withheld.is_empty());
}

#[test]
fn a_missing_name_tells_every_skill_that_asks_for_it() {
    let g = decide(
        &[("b", Trust::Trusted, &["X"]), ("a", Trust::Trusted, &["X", "Y"]), ("p", Trust::Pending, &["X"])],
        None,
        &["Y"],
    );
    assert_eq!(g.granted, set(&["Y"]));
    assert_eq!(g.missing, [Missing { name: "X".parse().unwrap(), asked_by: vec![skill("a"), skill("b")] }]);
}

#[test]
fn a_pending_or_rejected_skill_gains_nothing_by_asking() {
    let g = decide(
        &[("p", Trust::Pending, &["X", "Y"]), ("r", Trust::Rejected, &["Y"]), ("t", Trust::Trusted, &["X"])],
        None,
        &["X", "Y"],
    );
    assert_eq!(g.granted, set(&["X"]));
    assert!(!g.by_skill.contains_key(&skill("p")));
    let told: Vec<_> = g.withheld.iter().map(|w| (w.name.as_str(), w.skill.as_str(), w.reason)).collect();
    assert_eq!(
        told,
        [
            ("X", "p", WithheldReason::PendingSkill),
            ("Y", "p", WithheldReason::PendingSkill),
            ("Y", "r", WithheldReason::RejectedSkill),
        ]
    );
}

#[test]
fn the_agents_list_narrows_and_never_widens() {
    let g = decide(&[("a", Trust::Trusted, &["X", "Y"])], Some(&["X", "Z"]), &["X", "Y", "Z"]);
    assert_eq!(g.granted, set(&["X"]));
    assert_eq!(g.withheld[0].reason, WithheldReason::NotListed);
    assert_eq!(g.undeclared, set(&["Z"]));
    let none = decide(&[("a", Trust::Trusted, &["X"])], Some(&[]), &["X"]);
    assert!(none.granted.is_empty());
}

#[test]
fn the_list_of_users_names_agent_and_skill_also_for_what_is_not_set() {
    let (writer, reader) = ("writer".parse().unwrap(), "reader".parse().unwrap());
    let (a, p) = (skill("a"), skill("p"));
    let declares = names(&["X", "Y"]);
    let asks = [
        Ask { skill: &a, trust: Trust::Trusted, declares: &declares },
        Ask { skill: &p, trust: Trust::Pending, declares: &declares },
    ];
    let only_y = names(&["Y"]);
    let users = who_uses(&[
        AgentAsks { agent: &writer, skills: &asks, allow: None },
        AgentAsks { agent: &reader, skills: &asks, allow: Some(&only_y) },
    ]);
    assert_eq!(users["X"], [(writer.clone(), a.clone())]);
    assert_eq!(users["Y"], [(reader, a.clone()), (writer, a)]);
}

fn any_trust() -> impl Strategy<Value = Trust> {
    prop_oneof![Just(Trust::Trusted), Just(Trust::Approved), Just(Trust::Pending), Just(Trust::Rejected)]
}

fn any_names() -> impl Strategy<Value = Vec<SecretName>> {
    prop::collection::vec("[A-F]".prop_map(|s| s.parse().unwrap()), 0..6)
}

proptest! {
    #[test]
    fn nothing_is_granted_without_declaration_permission_and_value(
        skills in prop::collection::vec(("[a-e]", any_trust(), any_names()), 0..6),
        allow in prop::option::of(any_names()),
        in_store in any_names(),
    ) {
        let owned: Vec<_> = skills.iter().map(|(s, t, n)| (skill(s), *t, n)).collect();
        let asks: Vec<_> = owned
            .iter()
            .map(|(skill, trust, declares)| Ask { skill, trust: *trust, declares })
            .collect();
        let in_store: BTreeSet<_> = in_store.into_iter().collect();
        let narrowed = grants(&GrantInput { skills: &asks, allow: allow.as_deref(), set: &in_store });
        let open = grants(&GrantInput { skills: &asks, allow: None, set: &in_store });

        let expected: BTreeSet<_> = asks
            .iter()
            .filter(|a| matches!(a.trust, Trust::Trusted | Trust::Approved))
            .flat_map(|a| a.declares)
            .filter(|n| in_store.contains(*n) && allow.as_ref().is_none_or(|l| l.contains(n)))
            .cloned()
            .collect();
        prop_assert_eq!(&narrowed.granted, &expected);
        prop_assert!(narrowed.granted.is_subset(&open.granted));
        let of_skills: BTreeSet<_> = narrowed.by_skill.values().flatten().cloned().collect();
        prop_assert_eq!(&of_skills, &narrowed.granted);

        // Every declared name is accounted for: granted, missing or withheld.
        for a in &asks {
            for n in a.declares {
                let told = narrowed.granted.contains(n)
                    || narrowed.missing.iter().any(|m| &m.name == n)
                    || narrowed.withheld.iter().any(|w| &w.name == n && &w.skill == a.skill);
                prop_assert!(told, "{} of {}", n, a.skill);
            }
        }
    }
}
