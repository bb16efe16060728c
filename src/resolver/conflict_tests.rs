//! What people read when nothing fits.

use super::*;

#[test]
fn the_agent_and_a_skill_disagree() {
    let index = index("a 1.4.0\n a 2.0.1\n b 2.0.0 -> a@^2");
    assert_snapshot!(writer().refused(&index, "a@^1, b@2.0.0"), @r"
the skills of agent writer cannot be resolved:
  agent writer asks for a@^1 and b@2.0.0
  b@2.0.0 needs a@^2
  no version of a satisfies both ^1 and ^2 (there are 1.4.0, 2.0.1)
");
}

#[test]
fn the_agent_disagrees_with_itself() {
    let index = index("a 1.4.0\n a 2.0.1");
    assert_snapshot!(writer().refused(&index, "a@^1, a@2.0.1"), @r"
the skills of agent writer cannot be resolved:
  agent writer asks for a@2.0.1 and a@^1
  no version of a satisfies both 2.0.1 and ^1 (there are 1.4.0, 2.0.1)
");
}

#[test]
fn two_skills_disagree_at_a_distance() {
    let index =
        index("a 1.0.0 -> c@^1\n b 1.0.0 -> d@^1\n d 1.0.0 -> c@^2\n d 1.1.0 -> c@2.0.0\n c 1.0.0\n c 2.0.0");
    assert_snapshot!(writer().refused(&index, "a@1.0.0, b@1.0.0"), @r"
the skills of agent writer cannot be resolved:
  agent writer asks for a@1.0.0 and b@1.0.0
  a@1.0.0 needs c@^1
  b@1.0.0 needs d@^1
  d@1.0.0 needs c@^2
  d@1.1.0 needs c@2.0.0
  no version of c satisfies both ^1 and ^2 (there are 1.0.0, 2.0.0)
  no version of c satisfies both ^1 and 2.0.0 (there are 1.0.0, 2.0.0)
");
}

#[test]
fn many_versions_ask_alike_and_are_told_together() {
    let mut text = "c 1.0.0\n c 2.0.0\n".to_owned();
    for minor in 0..12 {
        text.push_str(&format!("b 1.{minor}.0 -> c@^2\n"));
    }
    assert_snapshot!(writer().refused(&index(&text), "b@^1, c@1.0.0"), @r"
the skills of agent writer cannot be resolved:
  agent writer asks for b@^1 and c@1.0.0
  12 versions of b, 1.0.0 to 1.11.0, need c@^2
  no version of c satisfies both 1.0.0 and ^2 (there are 1.0.0, 2.0.0)
");
}

#[test]
fn three_demands_fit_in_pairs_but_not_together() {
    let index = index(
        "c 1.0.0\n c 1.5.0-rc.1\n c 2.0.0\n x 1.0.0 -> c@>=1\n y 1.0.0 -> c@>=1.5.0-rc.1\n z 1.0.0 -> c@<=1.5.0-rc.1",
    );
    for pair in ["x@1.0.0, y@1.0.0", "x@1.0.0, z@1.0.0", "y@1.0.0, z@1.0.0"] {
        assert!(writer().solve(&index, pair).is_ok(), "{pair}");
    }
    assert_snapshot!(writer().refused(&index, "x@1.0.0, y@1.0.0, z@1.0.0"), @r"
the skills of agent writer cannot be resolved:
  agent writer asks for x@1.0.0, y@1.0.0 and z@1.0.0
  x@1.0.0 needs c@>=1
  y@1.0.0 needs c@>=1.5.0-rc.1
  z@1.0.0 needs c@<=1.5.0-rc.1
  no version of c satisfies >=1, >=1.5.0-rc.1 and <=1.5.0-rc.1 (there are 1.0.0, 1.5.0-rc.1, 2.0.0)
");
}

#[test]
fn a_skill_is_missing() {
    let index = index("basic-tools 1.0.0\n cron-tools 1.0.0");
    assert_snapshot!(writer().refused(&index, "basic-tool@^1, zebra"), @r"
the skills of agent writer cannot be resolved:
  agent writer asks for basic-tool@^1 and zebra
  there is no skill basic-tool; did you mean basic-tools?
  there is no skill zebra
");
}

#[test]
fn a_skill_is_missing_further_down() {
    let index = index("a 1.0.0 -> b@^1\n b 1.0.0 -> c-tools@^1\n b 1.1.0 -> c-tools\n c-tool 1.0.0");
    assert_snapshot!(writer().refused(&index, "a@1.0.0"), @r"
the skills of agent writer cannot be resolved:
  agent writer asks for a@1.0.0
  a@1.0.0 needs b@^1
  b@1.0.0 needs c-tools@^1
  b@1.1.0 needs c-tools
  there is no skill c-tools; did you mean c-tool?
");
}

#[test]
fn a_version_is_missing() {
    let index = index("a 1.0.0\n a 1.1.0\n b 0.1.0-rc.1");
    assert_snapshot!(writer().refused(&index, "a@3.0.0"), @r"
the skills of agent writer cannot be resolved:
  agent writer asks for a@3.0.0
  a has no version 3.0.0 (there are 1.0.0, 1.1.0)
");
    assert_snapshot!(writer().refused(&index, "a@^3"), @r"
the skills of agent writer cannot be resolved:
  agent writer asks for a@^3
  no version of a satisfies ^3 (there are 1.0.0, 1.1.0)
");
    assert_snapshot!(writer().refused(&index, "b"), @r"
the skills of agent writer cannot be resolved:
  agent writer asks for b
  no release of b is available (there is 0.1.0-rc.1); pre-releases are asked for by name: b@0.1.0-rc.1
");
}

#[test]
fn only_yanked_versions_fit() {
    let index = index("a 1.0.0\n a 1.1.0 yanked\n a 1.2.0 yanked");
    assert_snapshot!(writer().refused(&index, "a@>1.0.0"), @r"
the skills of agent writer cannot be resolved:
  agent writer asks for a@>1.0.0
  no available version of a satisfies >1.0.0 (there is 1.0.0); 1.2.0 was yanked and is not in skep.lock; 1.1.0 was yanked and is not in skep.lock
");
}

#[test]
fn only_a_pending_version_fits() {
    let index = index("a 1.0.0 pending by-other");
    assert_snapshot!(writer().refused(&index, "a"), @r"
the skills of agent writer cannot be resolved:
  agent writer asks for a
  no release of a is available; 1.0.0 by agent other waits for approval (`skep skill approve a@1.0.0`)
");
}

#[test]
fn only_a_rejected_version_fits() {
    let index = index("a 1.0.0 rejected by-writer");
    assert_snapshot!(writer().locked("a@1.0.0").refused(&index, "a@1.0.0"), @r"
the skills of agent writer cannot be resolved:
  agent writer asks for a@1.0.0
  a@1.0.0 is not available; 1.0.0 was rejected
");
}

#[test]
fn the_skill_is_disabled() {
    let index = index("a 1.0.0 disabled\n b 1.0.0 -> a");
    assert_snapshot!(writer().refused(&index, "b@1.0.0"), @r"
the skills of agent writer cannot be resolved:
  agent writer asks for b@1.0.0
  b@1.0.0 needs a
  no release of a is available; a is disabled (`skep skill enable a`)
");
}

#[test]
fn a_version_needs_another_of_itself() {
    let index = index("a 1.0.0 -> a@^2");
    assert_snapshot!(writer().refused(&index, "a@1.0.0"), @r"
the skills of agent writer cannot be resolved:
  agent writer asks for a@1.0.0
  a@1.0.0 needs a@^2
  a@1.0.0 cannot have a@^2 beside it
");
}

#[test]
fn many_versions_are_listed_in_short() {
    let text: String = (0..30).map(|i| format!("a 1.{i}.0\n")).collect();
    assert_snapshot!(writer().refused(&index(&text), "a@^2"), @r"
the skills of agent writer cannot be resolved:
  agent writer asks for a@^2
  no version of a satisfies ^2 (there are 30 from 1.0.0 to 1.27.0, 1.28.0, 1.29.0)
");
}
