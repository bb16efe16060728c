//! Two versions compared: files, text, what is asked for, and bounds.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::skill::{load::read, source::Limits};

type Files<'a> = &'a [(&'a str, &'a [u8], bool)];

fn skill(source: &Source) -> Skill {
    let report = read(source, Limits::default());
    report.skill.unwrap_or_else(|| panic!("{:?}", report.errors))
}

fn compare(from: Files<'_>, to: Files<'_>) -> Diff {
    let (a, b) = (Source::from_memory(from), Source::from_memory(to));
    let (old, new) = (skill(&a), skill(&b));
    let bytes = |side, path: &str| {
        let files = if side == Side::From { from } else { to };
        Ok::<_, ()>(files.iter().find(|f| f.0 == path).unwrap().1.to_vec())
    };
    let from = Version { source: &a, skill: &old };
    diff(Some(from), Version { source: &b, skill: &new }, bytes).unwrap()
}

const MD: &[u8] = b"---\nname: a\ndescription: d\n---\nbody\n";

fn with<'a>(extra: &[(&'a str, &'a [u8], bool)]) -> Vec<(&'a str, &'a [u8], bool)> {
    [&[("SKILL.md", MD, false)], extra].concat()
}

#[test]
fn files_are_told_as_added_removed_or_changed_with_their_text() {
    let old = with(&[("gone.sh", b"x\n", false), ("same", b"1", false), ("run", b"one\ntwo\n", false)]);
    let new = with(&[("new.md", b"hello\n", false), ("same", b"1", false), ("run", b"one\nzwei\n", true)]);
    let diff = compare(&old, &new);
    let told: Vec<_> = diff.files.iter().map(|f| (f.path.as_str(), f.change)).collect();
    assert_eq!(told, [("gone.sh", Change::Removed), ("new.md", Change::Added), ("run", Change::Changed)]);
    assert_eq!(diff.files[2].text.as_deref(), Some("@@ -1,2 +1,2 @@\n one\n-two\n+zwei\n"));
    let bits = [&diff.files[2].from, &diff.files[2].to].map(|s| s.as_ref().unwrap().executable);
    assert_eq!((bits, diff.truncated), ([false, true], false));
    assert_eq!(diff.files[1].text.as_deref(), Some("@@ -0,0 +1 @@\n+hello\n"));
}

#[test]
fn equal_versions_do_not_differ_and_a_first_version_is_all_new() {
    let files = with(&[("x", b"1\n", true), ("vars.json", b"{}", false)]);
    assert_eq!(compare(&files, &files), Diff::default());
    let source = Source::from_memory(&files);
    let new = skill(&source);
    let bytes: BTreeMap<&str, &[u8]> = files.iter().map(|f| (f.0, f.1)).collect();
    let all = diff(None, Version { source: &source, skill: &new }, |side, path| {
        assert_eq!(side, Side::To);
        Ok::<_, ()>(bytes[path].to_vec())
    });
    let paths: Vec<_> = all.unwrap().files.into_iter().map(|f| (f.path, f.change)).collect();
    assert_eq!(paths, [("SKILL.md".into(), Change::Added), ("x".into(), Change::Added)]);
}

#[test]
fn a_changed_executable_bit_alone_is_a_change_without_text() {
    let diff = compare(&with(&[("x", b"1", false)]), &with(&[("x", b"1", true)]));
    assert_eq!((diff.files.len(), diff.files[0].text.clone(), diff.files[0].note.clone()), (1, None, None));
}

#[test]
fn binary_and_large_files_are_named_and_not_shown() {
    let large = vec![b'a'; MAX_FILE as usize + 1];
    let new = with(&[("b", b"\x7fELF\0\xff", false), ("c", &large, false)]);
    let diff = compare(&with(&[]), &new);
    let notes: Vec<_> = diff.files.iter().map(|f| f.note.as_deref().unwrap()).collect();
    assert_eq!(notes, ["binary", "not shown: larger than 256 KiB"]);
    assert!(diff.truncated && diff.files.iter().all(|f| f.text.is_none()));
}

#[test]
fn the_text_of_all_files_together_is_bounded_and_cut_at_a_line() {
    let body = "a line of text\n".repeat(16_000);
    let names: Vec<String> = (0..8).map(|i| format!("f{i}")).collect();
    let files: Vec<(&str, &[u8], bool)> =
        names.iter().map(|n| (n.as_str(), body.as_bytes(), false)).collect();
    let diff = compare(&with(&[]), &with(&files));
    let shown: usize = diff.files.iter().filter_map(|f| f.text.as_ref()).map(String::len).sum();
    assert!(diff.truncated && shown <= MAX_TEXT && shown > MAX_TEXT - 100, "{shown}");
    let cut = diff.files.iter().find(|f| f.note.as_ref().is_some_and(|n| n.starts_with("cut"))).unwrap();
    assert!(cut.text.as_ref().unwrap().ends_with('\n'));
    assert!(diff.files[7].note.as_ref().unwrap().starts_with("not shown"));
}

#[test]
fn what_a_terminal_would_obey_or_hide_is_spelt_out() {
    let new = with(&[("a\u{202e}b", "x\u{1b}[2J\ty\u{200b}\u{e0041}\r\n".as_bytes(), false)]);
    let diff = compare(&with(&[]), &new);
    assert_eq!(diff.files[0].path, "a\\u{202e}b");
    assert_eq!(diff.files[0].text.as_deref(), Some("@@ -0,0 +1 @@\n+x\\u{1b}[2J\ty\\u{200b}\\u{e0041}\\r\n"));
}

#[test]
fn what_a_new_version_asks_for_besides_is_listed_by_kind() {
    let old = b"---\nname: a\ndescription: d\nallowed-tools: Read\nrequires:\n  env: [OLD]\n---\n";
    let new = b"---\nname: a\ndescription: d\nallowed-tools: Read Bash(git add *), Write\nrequires:\n  env: [API_KEY]\n  binary: [gh]\n  skills: [b@^1]\nmcp:\n  command: npx x\ntrigger_config:\n  schedule: daily\n---\n";
    let diff = compare(&[("SKILL.md", old, false)], &[("SKILL.md", new, false)]);
    let told: Vec<_> = diff
        .capabilities
        .iter()
        .map(|c| {
            format!("{} {} {}", if c.change == Change::Added { '+' } else { '-' }, c.kind.as_str(), c.value)
        })
        .collect();
    assert_eq!(
        told,
        [
            "+ secret API_KEY",
            "+ mcp_server a: npx x",
            "+ allowed_tool Bash(git add *)",
            "+ allowed_tool Write",
            "+ trigger {\"schedule\":\"daily\"}",
            "+ binary gh",
            "+ dependency b@^1",
            "- secret OLD"
        ]
    );
}

#[test]
fn hosts_packages_and_scripts_of_a_manifest_are_asked_for_too() {
    let manifest = br#"{"id": "a", "name": "A", "version": "1.0.0", "description": "d", "context": [],
        "scripts": ["s.sh"], "envVars": [], "dependencies": [], "nodeVersion": ">=20.0.0",
        "mcpServers": [{"name": "m", "type": "remote", "url": "https://u@API.example.com:8443/x"}],
        "systemPackages": ["curl"]}"#;
    let source = Source::from_memory(&[("manifest.json", manifest, false), ("s.sh", b"", true)]);
    let told: Vec<_> =
        capabilities(&skill(&source)).into_iter().map(|c| (c.kind.as_str(), c.value)).collect();
    let expected = [
        ("host", "api.example.com"),
        ("mcp_server", "m: https://u@API.example.com:8443/x"),
        ("package", "curl"),
        ("script", "s.sh"),
    ];
    assert_eq!(told, expected.map(|(k, v)| (k, v.to_owned())));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn any_two_files_are_compared_and_what_is_shown_can_be_printed(
        a in prop::collection::vec(any::<u8>(), 0..400), b in "[a-c\n\t\r\u{1b}\u{200b}é]{0,200}"
    ) {
        let diff = compare(&with(&[("f", &a, false)]), &with(&[("f", b.as_bytes(), false)]));
        for text in diff.files.iter().filter_map(|f| f.text.as_ref()) {
            prop_assert!(!text.contains(|c: char| c != '\n' && c != '\t' && (c.is_control() || visible::invisible(c))));
        }
    }
}
