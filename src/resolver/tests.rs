use std::{collections::BTreeSet, sync::Arc};

use insta::assert_snapshot;
use jiff::Timestamp;

use super::*;
use crate::{
    ids::{AgentId, Digest, SkillId, SkillRef},
    registry::index::{Index, Owner, SkillEntry, Trust, VersionEntry},
};

#[path = "conflict_tests.rs"]
mod conflicts;
#[path = "property_tests.rs"]
mod properties;

/// `id version [yanked|pending|rejected|deprecated|disabled|by-AGENT]... [-> ref, ref]` a line.
pub(super) fn index(text: &str) -> Index {
    let mut index = Index::default();
    for line in text.lines().map(str::trim).filter(|l| !l.is_empty()) {
        let (head, needs) = line.split_once("->").unwrap_or((line, ""));
        let words: Vec<&str> = head.split_whitespace().collect();
        let id: SkillId = words[0].parse().unwrap();
        let has = |flag: &str| words[2..].contains(&flag);
        let version = VersionEntry {
            version: words[1].parse().unwrap(),
            digest: digest(words[0], words[1]),
            dependencies: refs(needs),
            yanked: has("yanked"),
            deprecated: has("deprecated").then(|| "use b instead".to_owned()),
            trust: match () {
                () if has("pending") => Trust::Pending,
                () if has("rejected") => Trust::Rejected,
                () => Trust::Trusted,
            },
        };
        let owner = words.iter().find_map(|w| w.strip_prefix("by-"));
        let owner = owner.map_or(Owner::Operator, |a| Owner::Agent(a.parse().unwrap()));
        let skill = index
            .skills
            .entry(id.clone())
            .or_insert_with(|| SkillEntry::new(id, owner, Timestamp::UNIX_EPOCH).into());
        let skill = Arc::make_mut(skill);
        skill.enabled &= !has("disabled");
        skill.versions.insert(version.version.clone(), version);
    }
    index
}

fn digest(id: &str, version: &str) -> Digest {
    let mut bytes = [0; 32];
    for (i, b) in id.bytes().chain(version.bytes()).enumerate() {
        bytes[i % 32] ^= b;
    }
    Digest(bytes)
}

pub(super) fn refs(text: &str) -> Vec<SkillRef> {
    let items = text.split(", ").map(str::trim).filter(|r| !r.is_empty());
    items.map(|r| r.parse().unwrap()).collect()
}

fn locked(text: &str) -> LockedAgent {
    let items = text.split_whitespace().map(|r| r.split_once('@').unwrap());
    items
        .map(|(id, version)| {
            let entry = Locked { version: version.parse().unwrap(), digest: digest(id, version) };
            (id.parse().unwrap(), entry)
        })
        .collect()
}

fn ids(text: &str) -> BTreeSet<SkillId> {
    text.split_whitespace().map(|i| i.parse().unwrap()).collect()
}

struct Ask {
    agent: AgentId,
    lock: LockedAgent,
    update: Update,
}

/// A request of agent `writer`, nothing locked.
fn writer() -> Ask {
    Ask { agent: "writer".parse().unwrap(), lock: LockedAgent::new(), update: Update::None }
}

impl Ask {
    fn locked(mut self, text: &str) -> Self {
        self.lock = locked(text);
        self
    }

    fn update(mut self, update: Update) -> Self {
        self.update = update;
        self
    }

    fn solve(&self, index: &Index, skills: &str) -> Result<Resolution, Conflict> {
        let request = Request {
            agent: Some(&self.agent),
            skills: &refs(skills),
            lock: Some(&self.lock),
            update: self.update.clone(),
        };
        solve(index, &request)
    }

    /// `a@1.0.0 b@2.0.0`.
    fn gets(&self, index: &Index, skills: &str) -> String {
        match self.solve(index, skills) {
            Ok(resolution) => versions(&resolution),
            Err(e) => panic!("{e}"),
        }
    }

    fn warned(&self, index: &Index, skills: &str) -> String {
        self.solve(index, skills).unwrap().warnings.join("\n")
    }

    fn refused(&self, index: &Index, skills: &str) -> String {
        match self.solve(index, skills) {
            Ok(resolution) => panic!("resolved: {}", versions(&resolution)),
            Err(e) => e.to_string(),
        }
    }
}

fn versions(resolution: &Resolution) -> String {
    let skill = |(id, s): (&SkillId, &Resolved)| format!("{id}@{}", s.version);
    resolution.skills.iter().map(skill).collect::<Vec<_>>().join(" ")
}

#[test]
fn exact_means_exact_and_ranges_take_the_newest_that_fits() {
    let index =
        index("a 0.1.0\n a 0.1.4\n a 0.2.0\n a 1.0.0\n a 1.2.0\n a 1.2.3\n a 1.3.0\n a 2.0.0\n a 3.0.0-rc.1");
    for (asked, got) in [
        ("a@1.2.0", "a@1.2.0"),
        ("a@^1", "a@1.3.0"),
        ("a@~1.2", "a@1.2.3"),
        ("a@^0.1", "a@0.1.4"),
        ("a@>=1, <3", "a@2.0.0"),
        ("a@1.2", "a@1.3.0"),
        ("a@=1.2", "a@1.2.3"),
        ("a@*", "a@2.0.0"),
        ("a@latest", "a@2.0.0"),
        ("a", "a@2.0.0"),
    ] {
        assert_eq!(writer().gets(&index, &asked.replace(", ", ",")), got, "{asked}");
    }
}

#[test]
fn a_pre_release_comes_only_when_named() {
    let index = index("a 1.0.0\n a 2.0.0-rc.1\n a 2.0.0-rc.2\n a 2.1.0-beta\n b 1.0.0 -> a");
    for (asked, got) in [
        ("a", "a@1.0.0"),
        ("a@>=1", "a@1.0.0"),
        ("a@2.0.0-rc.1", "a@2.0.0-rc.1"),
        ("a@^2.0.0-rc.1", "a@2.0.0-rc.2"),
        ("a@>=1.0.0-alpha", "a@1.0.0"),
        // A skill that takes any version takes the one that the agent names.
        ("a@2.0.0-rc.1, b", "a@2.0.0-rc.1 b@1.0.0"),
        ("b", "a@1.0.0 b@1.0.0"),
    ] {
        assert_eq!(writer().gets(&index, asked), got, "{asked}");
    }
}

#[test]
fn a_bare_id_warns_and_latest_or_a_dependency_does_not() {
    let index = index("a 1.0.0\n a 1.1.0\n b 1.0.0 -> a");
    assert_snapshot!(writer().warned(&index, "a"), @r#"agent writer asks for a without a version and gets 1.1.0; explicit versions are recommended: write "a@1.1.0", or "a@latest" to keep taking the newest"#);
    assert_eq!(writer().warned(&index, "a@latest, b@1.0.0"), "");
}

#[test]
fn dependencies_are_followed_and_solved_together() {
    let index = index(
        "a 1.0.0 -> c@^1\n a 2.0.0 -> c@^2\n b 1.0.0 -> c@<2\n c 1.0.0\n c 1.5.0 -> d\n c 2.0.0\n d 0.3.0",
    );
    assert_eq!(writer().gets(&index, "a"), "a@2.0.0 c@2.0.0");
    assert_eq!(writer().gets(&index, "a, b"), "a@1.0.0 b@1.0.0 c@1.5.0 d@0.3.0");
    let resolution = writer().solve(&index, "a, b").unwrap();
    let asked: Vec<String> =
        resolution.skills["c"].asked_by.iter().map(|a| format!("{}{}", a.by, a.requirement)).collect();
    assert_eq!(asked, ["a@1.0.0@^1", "b@1.0.0@<2"]);
}

#[test]
fn what_is_locked_stays_until_an_update_or_until_it_no_longer_fits() {
    let index = index("a 1.0.0\n a 1.1.0\n a 2.0.0\n b 1.0.0\n b 1.1.0");
    let lock = "a@1.0.0 b@1.0.0";
    let only_a = Update::Only(ids("a"));
    for (asked, update, got) in [
        ("a@^1, b@^1", Update::None, "a@1.0.0 b@1.0.0"),
        ("a@^2, b@^1", Update::None, "a@2.0.0 b@1.0.0"),
        ("a@^1, b@^1", only_a, "a@1.1.0 b@1.0.0"),
        ("a@^1, b@^1", Update::All, "a@1.1.0 b@1.1.0"),
    ] {
        assert_eq!(writer().locked(lock).update(update).gets(&index, asked), got);
    }
}

#[test]
fn a_new_skill_bends_to_what_is_locked_and_an_updated_one_does_not() {
    let index = index("a 1.0.0\n a 2.0.0\n b 1.0.0 -> a@^1\n b 2.0.0 -> a@^2");
    assert_eq!(writer().locked("a@1.0.0").gets(&index, "a@*, b@*"), "a@1.0.0 b@1.0.0");
    let update = Update::Only(ids("b"));
    assert_eq!(writer().locked("a@1.0.0 b@1.0.0").update(update).gets(&index, "a@*, b@*"), "a@2.0.0 b@2.0.0");
}

#[test]
fn a_yanked_version_is_kept_only_when_locked() {
    let index = index("a 1.0.0\n a 1.1.0 yanked");
    assert_eq!(writer().gets(&index, "a@^1"), "a@1.0.0");
    let kept = writer().locked("a@1.1.0");
    assert_eq!(kept.gets(&index, "a@^1"), "a@1.1.0");
    assert_snapshot!(kept.warned(&index, "a@^1"), @"a@1.1.0 was yanked and is kept because skep.lock holds it; `skep update --skill a` looks for another");
    // An update leaves it, unless nothing else would do.
    let updated = writer().locked("a@1.1.0").update(Update::All);
    assert_eq!(updated.gets(&index, "a@^1"), "a@1.0.0");
    assert_eq!(updated.gets(&index, "a@1.1.0"), "a@1.1.0");
}

#[test]
fn a_disabled_skill_is_kept_when_locked_and_never_taken_anew() {
    let index = index("a 1.0.0 disabled\n a 1.1.0");
    assert!(writer().solve(&index, "a@^1").is_err());
    let kept = writer().locked("a@1.0.0");
    assert_eq!(kept.gets(&index, "a@^1"), "a@1.0.0");
    assert_snapshot!(kept.warned(&index, "a@^1"), @"a is disabled; 1.0.0 is kept because skep.lock holds it");
}

#[test]
fn a_pending_version_goes_to_its_author_alone_and_a_rejected_one_to_nobody() {
    let index =
        index("a 1.0.0 by-writer\n a 1.1.0 pending\n a 1.2.0 rejected\n b 1.0.0 by-other\n b 1.1.0 pending");
    assert_eq!(writer().gets(&index, "a@^1, b@^1"), "a@1.1.0 b@1.0.0");
    let locked = writer().locked("a@1.2.0 b@1.1.0");
    assert_eq!(locked.gets(&index, "a@^1, b@^1"), "a@1.1.0 b@1.0.0");
    let nobody = Request { agent: None, skills: &refs("a@^1"), lock: None, update: Update::None };
    assert_eq!(versions(&solve(&index, &nobody).unwrap()), "a@1.0.0");
}

#[test]
fn a_deprecated_version_says_so() {
    let index = index("a 1.0.0 deprecated");
    assert_eq!(writer().warned(&index, "a@1.0.0"), "a@1.0.0 is deprecated: use b instead");
}

#[test]
fn a_locked_version_that_is_gone_is_replaced_and_told() {
    let index = index("a 1.1.0");
    assert_snapshot!(writer().locked("a@1.0.0").warned(&index, "a@^1"), @"skep.lock holds a@1.0.0, which is no longer in the registry; 1.1.0 takes its place");
}

#[test]
fn other_content_under_a_locked_version_is_refused_unless_updated() {
    let index = index("a 1.0.0\n a 0.9.0");
    let mut ask = writer().locked("a@1.0.0");
    ask.lock.get_mut("a").unwrap().digest = Digest([9; 32]);
    assert_snapshot!(ask.refused(&index, "a@^1"), @r"
the registry holds other content than skep.lock does for agent writer:
  a@1.0.0 is locked as sha256:0909090909090909090909090909090909090909090909090909090909090909, but the registry has sha256:61312e302e300000000000000000000000000000000000000000000000000000
  put the old content back, or publish the new as a new version; `skep update --skill ID` accepts it as it is
");
    assert_eq!(ask.update(Update::All).gets(&index, "a@^1"), "a@1.0.0");
}

#[test]
fn skills_may_need_each_other_in_a_circle() {
    let index =
        index("a 1.0.0 -> b@^1\n b 1.0.0 -> c\n c 1.0.0 -> a@^1, b\n s 1.0.0 -> s@^1\n s 2.0.0 -> s@^1");
    assert_eq!(writer().gets(&index, "a@^1"), "a@1.0.0 b@1.0.0 c@1.0.0");
    assert_snapshot!(writer().warned(&index, "a@^1, s@*"), @r"
skills need each other in a circle: a -> b -> c -> a
skills need each other in a circle: s -> s
");
    // 2.0.0 needs a version of itself that it is not.
    assert_eq!(writer().gets(&index, "s@*"), "s@1.0.0");
}

#[test]
fn a_chain_of_ten_thousand_skills_neither_overflows_nor_hangs() {
    let mut text = String::new();
    for i in 0..10_000 {
        text.push_str(&format!("s{i} 1.0.0 -> s{}\n", i + 1));
    }
    let broken = index(&text);
    let message = writer().refused(&broken, "s0@1.0.0");
    assert!(message.ends_with("there is no skill s10000; did you mean s1000?"), "{message}");
    assert!(message.lines().count() < 30);
    text.push_str("s10000 1.0.0 -> s0");
    let whole = index(&text);
    assert_eq!(writer().solve(&whole, "s0@1.0.0").unwrap().skills.len(), 10_001);
}

#[test]
fn the_resolution_is_explained_as_a_tree() {
    let index = index("a 1.0.0 -> c@^1, b\n a 2.0.0\n b 1.0.0 -> c\n c 1.0.0 -> d\n d 1.0.0 -> b\n");
    let resolution = writer().solve(&index, "a@^1, c@1.0.0, b").unwrap();
    assert_snapshot!(explain(&resolution), @r"
agent writer
├── a 1.0.0 (asked for: ^1, newest 2.0.0)
│   ├── b 1.0.0 (asked for: any release)
│   │   └── c 1.0.0 (asked for: any release)
│   │       └── d 1.0.0 (asked for: any release)
│   │           └── b 1.0.0 (asked for: any release) (*)
│   └── c 1.0.0 (asked for: ^1) (*)
├── b 1.0.0 (asked for: any release) (*)
└── c 1.0.0 (asked for: 1.0.0) (*)
");
}
