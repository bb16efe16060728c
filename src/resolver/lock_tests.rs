use insta::assert_snapshot;
use proptest::prelude::*;

use super::*;

fn entry(version: &str, byte: u8) -> Locked {
    Locked { version: version.parse().unwrap(), digest: Digest([byte; 32]) }
}

fn lock(entries: &[(&str, &str, &str, u8)]) -> Lock {
    let mut lock = Lock::default();
    for (agent, id, version, byte) in entries {
        let skills = lock.agents.entry(agent.parse().unwrap()).or_default();
        skills.insert(id.parse().unwrap(), entry(version, *byte));
    }
    lock
}

fn faults(text: &str) -> String {
    let faults = Lock::parse(text).unwrap_err();
    faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

#[test]
fn the_file_is_sorted_and_one_table_a_skill() {
    let mut lock =
        lock(&[("writer", "b", "2.0.0-rc.1", 2), ("writer", "a", "1.0.0", 1), ("bee", "a", "1.0.0", 1)]);
    lock.agents.insert("idle".parse().unwrap(), LockedAgent::new());
    assert_snapshot!(lock.to_string(), @r#"
# Written by skep. Commit it, do not edit it; `skep update` renews it.
version = 1

[agents.bee.skills.a]
version = "1.0.0"
digest = "sha256:0101010101010101010101010101010101010101010101010101010101010101"

[agents.idle]

[agents.writer.skills.a]
version = "1.0.0"
digest = "sha256:0101010101010101010101010101010101010101010101010101010101010101"

[agents.writer.skills.b]
version = "2.0.0-rc.1"
digest = "sha256:0202020202020202020202020202020202020202020202020202020202020202"
"#);
}

#[test]
fn an_empty_lock_is_a_lock() {
    assert_eq!(Lock::parse(&Lock::default().to_string()).unwrap(), Lock::default());
}

#[test]
fn every_fault_is_told_with_its_place() {
    assert_snapshot!(faults(r#"version = 1
colour = "red"

[agents.Writer.skills.a]
version = "1.0.0"
digest = "sha256:00"

[agents.bee.skills.custom]
version = "1.0"
size = 3

[agents.ant]
skills = "all"
"#), @r#"
skep.lock:2:1: unknown key `colour` (take one side from version control, or delete skep.lock and run `skep update` to make a new one)
skep.lock:4:9: "Writer" is not a valid agent name: use lowercase letters, digits and hyphens, starting with a letter or digit, at most 40 characters (take one side from version control, or delete skep.lock and run `skep update` to make a new one)
skep.lock:6:10: `digest` of skill a: "sha256:00" is not a digest: write `sha256:` and 64 hex digits (take one side from version control, or delete skep.lock and run `skep update` to make a new one)
skep.lock:8:1: skill custom has no `digest` (take one side from version control, or delete skep.lock and run `skep update` to make a new one)
skep.lock:8:20: "custom" is not a valid skill id: use lowercase letters, digits and hyphens, starting with a letter or digit, at most 64 characters; `custom` is reserved (take one side from version control, or delete skep.lock and run `skep update` to make a new one)
skep.lock:9:11: `version` of skill custom: unexpected end of input while parsing minor version number (take one side from version control, or delete skep.lock and run `skep update` to make a new one)
skep.lock:10:1: unknown key `size` (take one side from version control, or delete skep.lock and run `skep update` to make a new one)
skep.lock:13:10: a table was expected here (take one side from version control, or delete skep.lock and run `skep update` to make a new one)
"#);
}

#[test]
fn what_is_no_toml_has_a_place_too() {
    assert_snapshot!(faults("version = 1\n[agents.a.skills.x\n"), @"skep.lock:2:19: unclosed table, expected `]` (take one side from version control, or delete skep.lock and run `skep update` to make a new one)");
    assert_snapshot!(faults("version = 1\n<<<<<<< HEAD\n[agents.a]\n"), @"skep.lock:2:1: has unresolved merge conflicts (take one side from version control, or delete skep.lock and run `skep update` to make a new one)");
}

#[test]
fn a_newer_or_unknown_format_is_refused_whole() {
    assert_snapshot!(faults("version = 2\nsomething = []\n"), @"skep.lock:1:11: has format 2; this skep reads 1 (use the skep that wrote it, or a newer one)");
    assert_snapshot!(faults(""), @"skep.lock:1:1: has no `version` (take one side from version control, or delete skep.lock and run `skep update` to make a new one)");
    assert_snapshot!(faults("version = \"1\"\n"), @"skep.lock:1:11: `version` must be 1 (take one side from version control, or delete skep.lock and run `skep update` to make a new one)");
}

#[test]
fn the_difference_names_what_came_went_and_changed() {
    let old = lock(&[
        ("bee", "a", "1.0.0", 1),
        ("bee", "b", "1.0.0", 1),
        ("bee", "c", "1.0.0", 1),
        ("gone", "a", "1.0.0", 1),
    ]);
    let new = lock(&[
        ("bee", "a", "1.0.0", 1),
        ("bee", "b", "1.1.0", 2),
        ("bee", "c", "1.0.0", 2),
        ("new", "a", "1.0.0", 1),
    ]);
    let changes: Vec<String> = diff(&old, &new).iter().map(ToString::to_string).collect();
    assert_snapshot!(changes.join("\n"), @r"
bee: b 1.0.0 -> 1.1.0
bee: c 1.0.0 has other content
gone: a 1.0.0 removed
new: a 1.0.0 added
");
    assert!(diff(&new, &new).is_empty());
}

fn random() -> impl Strategy<Value = Lock> {
    let version = ("[0-9]{1,2}", "(-rc\\.[1-9])?", "(\\+[a-z0-9]{1,4})?");
    let version =
        version.prop_map(|(n, pre, build)| format!("{}.0.1{pre}{build}", n.parse::<u8>().unwrap_or(0)));
    let locked = (version, any::<[u8; 32]>())
        .prop_map(|(version, digest)| Locked { version: version.parse().unwrap(), digest: Digest(digest) });
    let id = "[a-z0-9][a-z0-9-]{0,5}".prop_map(|id| id.parse::<SkillId>().unwrap());
    let agent = "[a-z0-9][a-z0-9-]{0,5}".prop_map(|a| a.parse::<AgentId>().unwrap());
    let skills = proptest::collection::btree_map(id, locked, 0..4);
    proptest::collection::btree_map(agent, skills, 0..4).prop_map(|agents| Lock { agents })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_written_is_read_back_and_written_the_same(lock in random()) {
        let text = lock.to_string();
        let read = Lock::parse(&text).unwrap();
        prop_assert_eq!(&read, &lock);
        prop_assert_eq!(read.to_string(), text);
    }

    #[test]
    fn applying_the_difference_gives_the_new_lock(old in random(), new in random()) {
        let mut versions: BTreeMap<_, _> = flat(&old);
        for change in diff(&old, &new) {
            prop_assert_eq!(versions.get(&(change.agent.clone(), change.id.clone())), change.from.as_ref());
            match change.to {
                Some(to) => versions.insert((change.agent, change.id), to),
                None => versions.remove(&(change.agent, change.id)),
            };
        }
        prop_assert_eq!(versions, flat(&new));
    }

    #[test]
    fn no_text_makes_the_reader_panic(text in "(version = 1\n)?[\\PC\n]{0,80}") {
        drop(Lock::parse(&text));
    }
}

fn flat(lock: &Lock) -> BTreeMap<(AgentId, SkillId), Version> {
    let agents = lock.agents.iter();
    agents
        .flat_map(|(a, skills)| {
            skills.iter().map(move |(id, l)| ((a.clone(), id.clone()), l.version.clone()))
        })
        .collect()
}
