//! What a running supervisor does with skills, told through the program.

use super::{json, manifest, skill_md};
use crate::support::Hive;

/// A supervisor without an engine, ended also when the test fails.
pub(super) struct Up<'a>(&'a Hive);

impl<'a> Up<'a> {
    pub(super) fn start(hive: &'a Hive) -> Self {
        let toml = hive.read("skep.toml");
        hive.write("skep.toml", &format!("{toml}\n[api]\nlisten = \"none\"\n"));
        let up = Self(hive);
        // No agent starts where no engine answers; the registry works all the same.
        hive.run(&["up", "-d", "--timeout", "1"]);
        up
    }
}

impl Drop for Up<'_> {
    fn drop(&mut self) {
        self.0.run(&["down", "--keep-agents"]);
    }
}

#[test]
fn what_is_added_is_registered_at_once_and_a_change_is_a_new_version() {
    let hive = Hive::new();
    hive.write("in/notes/SKILL.md", &skill_md("notes", "one"));
    let _up = Up::start(&hive);
    let line = &json(&hive, &["add", "in"], 0)["skills"][0];
    assert_eq!((&line["registered"], &line["version"]), (&true.into(), &"0.0.0".into()));
    hive.write("in/notes/SKILL.md", &skill_md("notes", "two"));
    let line = &json(&hive, &["add", "in", "--force"], 0)["skills"][0];
    assert_eq!((&line["outcome"], &line["version"]), (&"updated".into(), &"0.0.1".into()));
    let shown = json(&hive, &["show", "notes"], 0);
    assert_eq!(shown["versions"].as_array().unwrap().len(), 2);
}

#[test]
fn what_the_registry_refuses_is_told_though_it_was_copied() {
    let hive = Hive::new();
    hive.write("in/tool/manifest.json", &manifest("tool", "1.0.0", "first"));
    let _up = Up::start(&hive);
    assert_eq!(json(&hive, &["publish", "in/tool", "--lenient"], 0)["outcome"], "created");
    hive.write("in/tool/manifest.json", &manifest("tool", "1.0.0", "second"));
    let line = &json(&hive, &["add", "in"], 1)["skills"][0];
    assert_eq!((&line["outcome"], &line["registered"]), (&"failed".into(), &false.into()));
    let told = line["errors"][0].as_str().unwrap();
    assert!(told.starts_with("skills/tool@1.0.0 is there, but is not registered: "), "{told}");
    assert_eq!(told.matches("sha256:").count(), 2, "{told}");
}

#[test]
fn a_folder_is_published_by_the_strict_rules_and_never_changes_afterwards() {
    let hive = Hive::new();
    hive.write("notes/SKILL.md", &skill_md("notes", "one"));
    hive.write("Odd/SKILL.md", "---\nname: odd\ndescription: d\nversion: 1.0.0\n---\n");
    let _up = Up::start(&hive);
    let ran = hive.run(&["skill", "publish", "notes"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.out.starts_with("notes@0.0.0 is published (sha256:"), "{}", ran.out);
    let ran = hive.run(&["skill", "publish", "notes"]);
    assert!(ran.code == 0 && ran.out.contains("is there already, with the same content"), "{}", ran.out);
    let refused = hive.run(&["skill", "publish", "Odd"]);
    assert_eq!(refused.code, 2);
    assert!(refused.err.contains("Odd is not published: it has "), "{}", refused.err);
    assert!(
        refused.err.contains("Odd/SKILL.md: Unexpected fields in frontmatter: version"),
        "{}",
        refused.err
    );
    hive.write("notes/SKILL.md", &skill_md("notes", "two"));
    assert_eq!(json(&hive, &["publish", "notes"], 0)["version"], "0.0.1");
    hive.write("tool/manifest.json", &manifest("tool", "2.0.0", "x"));
    assert_eq!(json(&hive, &["publish", "tool"], 0)["version"], "2.0.0");
    hive.write("tool/manifest.json", &manifest("tool", "1.0.0", "x"));
    assert_eq!(hive.run(&["skill", "publish", "tool"]).code, 1);
    assert_eq!(json(&hive, &["publish", "tool", "--allow-older"], 0)["version"], "1.0.0");
}

#[test]
fn what_was_published_is_known_when_no_supervisor_runs() {
    let hive = Hive::new();
    hive.write("tool/manifest.json", &manifest("tool", "1.2.0", "x"));
    let up = Up::start(&hive);
    assert_eq!(json(&hive, &["publish", "tool"], 0)["version"], "1.2.0");
    drop(up);
    std::fs::remove_dir_all(hive.root.join("registry")).unwrap();
    let toml = hive.read("skep.toml");
    hive.write("skep.toml", &format!("{toml}\n[agents.other]\nskills = [\"tool@1.2.0\"]\n"));
    let valid = hive.run(&["validate"]);
    assert_eq!(valid.code, 0, "{}", valid.err);
    let resolved = hive.run(&["resolve", "other"]);
    assert!(resolved.out.contains("tool@1.2.0"), "{}", resolved.out);
    for beside in ["skep.db-wal", "skep.db-shm"] {
        std::fs::remove_file(hive.root.join(".skep").join(beside)).unwrap_or_default();
    }
    hive.write(".skep/skep.db", &"no database".repeat(1_000));
    let broken = hive.run(&["validate"]);
    assert!(broken.err.contains(".skep/skep.db: is not used"), "{}", broken.err);
    assert_eq!(broken.code, 2, "{}", broken.out);
}

#[test]
fn a_skill_goes_through_every_verb() {
    let hive = Hive::new();
    let _up = Up::start(&hive);
    for (version, text) in [("1.0.0", "Keeps notes"), ("1.1.0", "Keeps remarkable notes")] {
        hive.write("tool/manifest.json", &manifest("tool", version, text));
        json(&hive, &["publish", "tool"], 0);
    }
    let found = json(&hive, &["search", "remarkable"], 0);
    assert_eq!(found[0]["id"], "tool");
    let shown = hive.run(&["skill", "show", "tool@1.0.0"]).out;
    assert!(shown.contains("manifest.json") && shown.contains("Keeps notes"), "{shown}");
    let diff = hive.run(&["skill", "diff", "tool"]);
    assert_eq!(diff.code, 0, "{}", diff.err);
    assert!(diff.out.starts_with("tool 1.0.0 → 1.1.0\n"), "{}", diff.out);
    assert!(diff.out.contains("\nmanifest.json (changed)\n"), "{}", diff.out);
    let first = hive.run(&["skill", "diff", "tool", "1.0.0", "9.9.9"]);
    assert_eq!(first.code, 1, "{}", first.out);

    let latest = |hive: &Hive| json(hive, &["show", "tool"], 0)["latestVersion"].clone();
    assert_eq!(json(&hive, &["yank", "tool@1.1.0"], 0)["yanked"], true);
    assert_eq!(latest(&hive), "1.0.0");
    assert_eq!(json(&hive, &["yank", "tool@1.1.0", "--undo"], 0)["yanked"], false);
    assert_eq!(latest(&hive), "1.1.0");
    assert_eq!(json(&hive, &["deprecate", "tool@1.0.0", "too old"], 0)["deprecated"], "too old");
    assert!(hive.run(&["skill", "show", "tool"]).out.contains("deprecated: too old"));
    assert_eq!(json(&hive, &["deprecate", "tool@1.0.0", "--undo"], 0)["deprecated"], serde_json::Value::Null);
    // Only what agents wrote is approved or rejected.
    for verb in ["approve", "reject"] {
        let ran = hive.run(&["skill", verb, "tool@1.0.0"]);
        assert_eq!(ran.code, 1, "{}", ran.out);
    }
    let none = hive.run(&["skill", "search", "nothing-of-the-kind"]);
    assert_eq!((none.code, none.out.as_str()), (0, "no skill is found for \"nothing-of-the-kind\"\n"));
    let silent = hive.run(&["skill", "deprecate", "tool@1.0.0"]);
    assert!(silent.code == 2 && silent.err.contains("a message is missing"), "{}", silent.err);
    let kept = hive.run(&["skill", "disable", "note-taking"]);
    assert!(kept.out.contains("these keep the version that they have: helper"), "{}", kept.out);
    hive.run(&["skill", "enable", "note-taking"]);
    let empty = hive.run(&["skill", "publish", "skills"]);
    assert_eq!(empty.code, 2);
    assert!(empty.err.contains("skills holds no skill"), "{}", empty.err);
    assert_eq!(json(&hive, &["disable", "tool"], 0)["enabled"], false);
    assert!(!hive.run(&["skill", "list"]).out.contains("tool  "));
    assert!(hive.run(&["skill", "list", "--all"]).out.contains("disabled"));
    assert_eq!(json(&hive, &["enable", "tool"], 0)["enabled"], true);
    let back = hive.run(&["skill", "rollback", "helper", "tool"]);
    assert_eq!(back.code, 1, "{}", back.out);
    let ask = hive.run(&["skill", "rm", "tool"]);
    assert!(ask.code == 2 && ask.err.contains("add --yes"), "{}", ask.err);
    assert_eq!(hive.run(&["skill", "rm", "tool", "--yes"]).out, "tool is removed\n");
    let gone = hive.run(&["skill", "show", "tool"]);
    assert!(gone.code == 1 && gone.err.contains("there is no skill tool"), "{}", gone.err);
}

#[test]
fn an_added_skill_is_removed_with_its_folder_or_not_at_all() {
    let hive = Hive::new();
    hive.write("in/notes/SKILL.md", &skill_md("notes", "one"));
    let _up = Up::start(&hive);
    json(&hive, &["add", "in"], 0);
    let kept = hive.run(&["skill", "rm", "notes", "--yes"]);
    assert_eq!(kept.code, 1);
    assert!(kept.err.contains("help: add --folder to remove skills/notes, too"), "{}", kept.err);
    let ran = hive.run(&["skill", "rm", "notes", "--yes", "--folder"]);
    assert_eq!((ran.code, ran.out.as_str()), (0, "notes is removed\n"), "{}", ran.err);
    assert!(!hive.root.join("skills/notes").exists());
    // In use: the folder stays.
    let refused = hive.run(&["skill", "rm", "note-taking", "--yes", "--folder"]);
    assert_eq!(refused.code, 1, "{}", refused.out);
    assert!(refused.err.contains("in use"), "{}", refused.err);
    assert!(
        std::fs::read_dir(hive.root.join("skills")).unwrap().any(|e| e.unwrap().file_name() == "note-taking")
    );
}
