//! What `add` does with one skill and with many.

use std::{collections::BTreeMap, fs, os::unix::fs::PermissionsExt, path::Path};

use insta::assert_snapshot;
use serde_json::Value;

use super::{add, json, manifest, skill_md};
use crate::support::Hive;

#[test]
fn the_whole_corpus_comes_in_with_one_call_and_says_what_is_odd() {
    let hive = Hive::new();
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus");
    let from = corpus.join("skills");
    let report = json(&hive, &["add", from.to_str().unwrap()], 0);
    let expected: BTreeMap<String, Value> =
        serde_json::from_slice(&fs::read(corpus.join("expected.json")).unwrap()).unwrap();
    assert_eq!(report["new"], expected.len(), "{}", report["failed"]);
    for line in report["skills"].as_array().unwrap() {
        let source = line["source"].as_str().unwrap();
        let at = source.find("skills/").unwrap();
        let recorded = expected[&source[at..]]["spec_errors"].as_array().unwrap();
        let warnings: Vec<&str> =
            line["warnings"].as_array().unwrap().iter().map(|w| w.as_str().unwrap()).collect();
        for error in recorded {
            let error = error.as_str().unwrap();
            assert!(warnings.iter().any(|w| w.contains(error)), "{source}: {error} in {warnings:?}");
        }
        assert!(hive.root.join(line["folder"].as_str().unwrap()).join("SKILL.md").exists());
    }
    let again = json(&hive, &["add", from.to_str().unwrap()], 0);
    assert_eq!((&again["new"], &again["same"]), (&0.into(), &expected.len().into()));
    let validate = hive.run(&["validate"]);
    assert_eq!(validate.code, 0, "{}", validate.err);

    let strict = Hive::new();
    let report = json(&strict, &["add", "--strict", from.to_str().unwrap()], 1);
    let valid = expected.values().filter(|v| v["spec_errors"].as_array().unwrap().is_empty()).count();
    assert_eq!((&report["new"], &report["failed"]), (&valid.into(), &(expected.len() - valid).into()));
}

#[test]
fn frontmatter_that_cannot_be_read_is_cured_or_refused_with_its_place() {
    let hive = Hive::new();
    hive.write("in/cured/SKILL.md", "---\nname: cured\ndescription: Use when: it rains\n---\nx\n");
    hive.write("in/broken/SKILL.md", "---\nname: broken\ndescription: [never closed\n---\nx\n");
    hive.write("in/silent/SKILL.md", "---\nname: silent\n---\nx\n");
    let ran = add(&hive, &["in"]);
    assert_eq!(ran.code, 1);
    assert_snapshot!(format!("{}{}", ran.out, ran.err), @r#"
    SKILL  VERSION  RESULT  DIGEST               FOLDER
    cured  -        new     sha256:5d5047093ea6  skills/cured
    warning: in/cured/SKILL.md:3:1: A value with a colon needs quotes; read as: description: "Use when: it rains" (put the value in quotes)
    warning: in/cured/SKILL.md: Invalid YAML in frontmatter: mapping values are not allowed in this context at line 3, column 22
    no supervisor runs: the next `skep up` registers them
    3 skills: 1 new, 2 not taken in; 1 with warnings
    error: 2 skills were not taken in:
      in/broken/SKILL.md:3:14: Invalid YAML: unclosed bracket '['
      in/silent/SKILL.md: Missing description (add `description: …` to the frontmatter)
    "#);
}

#[test]
fn what_is_there_is_the_same_or_differs_and_is_replaced_only_by_force() {
    let hive = Hive::new();
    hive.write("in/notes/SKILL.md", &skill_md("notes", "one"));
    hive.write("in/notes/scripts/run.sh", "#!/bin/sh\n");
    let script = hive.root.join("in/notes/scripts/run.sh");
    fs::set_permissions(script, fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(json(&hive, &["add", "in/notes"], 0)["skills"][0]["outcome"], "new");
    let copied = fs::metadata(hive.root.join("skills/notes/scripts/run.sh")).unwrap().permissions().mode();
    assert_eq!(copied & 0o777, 0o755);
    assert_eq!(json(&hive, &["add", "in/notes"], 0)["skills"][0]["outcome"], "same");

    hive.write("in/notes/SKILL.md", &skill_md("notes", "two"));
    let ran = add(&hive, &["in/notes"]);
    assert_eq!(ran.code, 1);
    assert_snapshot!(ran.err, @r"
    1 skill: 1 not taken in
    error: notes was not taken in:
      in/notes: skills/notes is there with other content
    help: add --force to replace it; versions that were registered stay in the registry
    ");
    assert!(hive.read("skills/notes/SKILL.md").contains("one"));
    let dry = json(&hive, &["add", "--force", "--dry-run", "in/notes"], 0);
    assert_eq!((&dry["updated"], &dry["dry_run"]), (&1.into(), &true.into()));
    assert!(hive.read("skills/notes/SKILL.md").contains("one"));
    assert_eq!(json(&hive, &["add", "--force", "in/notes"], 0)["updated"], 1);
    assert!(hive.read("skills/notes/SKILL.md").contains("two"));
    let left: Vec<_> =
        fs::read_dir(hive.root.join("skills")).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert!(left.iter().all(|name| !name.to_str().unwrap().starts_with('.')), "{left:?}");
}

#[test]
fn versions_stand_side_by_side_and_one_version_never_has_two_contents() {
    let hive = Hive::new();
    hive.write("a/tool/manifest.json", &manifest("tool", "1.0.0", "first"));
    hive.write("b/tool/manifest.json", &manifest("tool", "1.1.0", "second"));
    hive.write("c/tool/manifest.json", &manifest("tool", "1.1.0", "third"));
    let report = json(&hive, &["add", "a", "b", "c"], 1);
    let came: Vec<_> =
        report["skills"].as_array().unwrap().iter().map(|l| l["outcome"].as_str().unwrap()).collect();
    assert_eq!(came, ["new", "updated", "failed"]);
    assert!(hive.root.join("skills/tool@1.0.0/manifest.json").exists());
    assert!(hive.read("skills/tool@1.1.0/manifest.json").contains("second"));
    let told = report["skills"][2]["errors"][0].as_str().unwrap();
    assert!(told.contains("skills/tool@1.1.0 is there as version 1.1.0 with other content"), "{told}");
}

#[test]
fn another_id_can_be_given_and_one_of_a_built_in_skill_cannot_be_taken() {
    let hive = Hive::new();
    hive.write("in/basic-tools/SKILL.md", &skill_md("basic-tools", "mine"));
    let refused = add(&hive, &["in/basic-tools"]);
    assert_eq!(refused.code, 1);
    assert!(refused.err.contains("the id basic-tools belongs to a built-in skill"), "{}", refused.err);
    assert!(refused.err.contains("help: give it another id with --as"), "{}", refused.err);
    let report = json(&hive, &["add", "in/basic-tools", "--as", "my-tools"], 0);
    assert_eq!(report["skills"][0]["folder"], "skills/my-tools");
    hive.write("tools/tool/manifest.json", &manifest("tool", "1.0.0", "x"));
    let report = json(&hive, &["add", "tools/tool", "--as", "my-tool"], 0);
    assert_eq!(report["skills"][0]["folder"], "skills/my-tool@1.0.0", "{report:#}");
    let laid: serde_json::Value =
        serde_json::from_str(&hive.read("skills/my-tool@1.0.0/manifest.json")).unwrap();
    assert_eq!((&laid["id"], &laid["version"]), (&"my-tool".into(), &"1.0.0".into()));
    let again = json(&hive, &["add", "tools/tool", "--as", "my-tool"], 0);
    assert_eq!(again["skills"][0]["outcome"], "same", "{again:#}");
    assert!(hive.read("tools/tool/manifest.json").contains("\"tool\""), "the source stays");
    hive.write("in/other/SKILL.md", &skill_md("other", "x"));
    let many = add(&hive, &["in", "--as", "my-tools"]);
    assert_eq!(many.code, 2);
    assert!(many.err.contains("--as gives one id, and there are 2 skills"), "{}", many.err);
}

#[test]
fn what_is_no_skill_and_what_is_not_there_is_told() {
    let hive = Hive::new();
    hive.write("in/readme.txt", "hello");
    for (source, code, told) in [
        ("in", 1, "there is no skill in in: no folder holds manifest.json or SKILL.md"),
        ("./nothing", 2, "there is no file or folder ./nothing"),
        ("in/readme.txt", 1, "is no archive that can be read"),
        ("http://example.com/x", 2, "repositories are fetched over https and ssh, not over http"),
        ("ext::sh", 2, "not over ext"),
    ] {
        let ran = add(&hive, &[source]);
        assert_eq!(ran.code, code, "{source}: {}", ran.err);
        assert!(ran.err.contains(told), "{source}: {}", ran.err);
    }
    // One of several that cannot be had does not keep the others out.
    hive.write("good/one/SKILL.md", &skill_md("one", "x"));
    let report = json(&hive, &["add", "in", "./nothing", "good"], 1);
    assert_eq!((&report["new"], &report["failed"]), (&1.into(), &2.into()));
    let outside = add(&hive, &["good", "--path", "../in"]);
    assert_eq!(outside.code, 2);
    assert!(outside.err.contains("there is no folder ../in in good"), "{}", outside.err);
    let remote = hive.run(&["--host", "http://127.0.0.1:1", "skill", "add", "good"]);
    assert!(remote.code == 2 && remote.err.contains("skill publish"), "{}", remote.err);
}

#[test]
fn help_shows_every_verb_and_examples() {
    let hive = Hive::empty();
    let help = hive.run(&["skill", "--help"]).out;
    for verb in [
        "list",
        "search",
        "show",
        "validate",
        "add",
        "publish",
        "yank",
        "deprecate",
        "rm",
        "approve",
        "reject",
        "rollback",
        "diff",
        "enable",
        "disable",
    ] {
        assert!(help.lines().any(|l| l.trim_start().starts_with(&format!("{verb} "))), "{verb}: {help}");
        assert!(
            hive.run(&["completions", "bash"]).out.contains(&format!("skep__subcmd__skill__subcmd__{verb}"))
                || verb.is_empty()
        );
    }
    assert!(hive.run(&["skill", "add", "--help"]).out.contains("skep skill add ./note-taking"));
    let vague = hive.run(&["skill", "yank", "notes@^1"]);
    assert!(vague.code == 2 && vague.err.contains("write it like notes@1.2.3"), "{}", vague.err);
}
