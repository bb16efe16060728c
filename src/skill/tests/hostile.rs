//! Bytes, names and listings made to hurt.

use proptest::prelude::*;
use serde_json::json;

use super::*;

#[test]
fn ids_that_could_leave_a_folder_or_look_like_another_are_refused() {
    let long = "a".repeat(300);
    for id in ["../x", "CON", "custom", "-a", "a/b", "a\0b", "a\u{1b}[2J", "раypal", "a\u{200b}", &long] {
        let report = manifest(&GOOD.replace("\"social-media-apis\"", &json!(id).to_string()));
        assert!(report.skill.is_none(), "{id:?}");
        assert!(messages(&report)[0].starts_with("Invalid id"), "{id:?}: {report:?}");
        assert!(!format!("{}", report.errors[0]).contains(|c: char| c.is_control()));
    }
}

#[test]
fn hostile_bytes_give_an_error_with_a_place() {
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let cases: &[(&str, &[u8], &str)] = &[
        ("truncated", &GOOD.as_bytes()[..200], "Invalid JSON: EOF"),
        ("deep", deep.as_bytes(), "Invalid JSON: recursion limit"),
        ("duplicate", b"{\"id\": \"a\",\n \"id\": \"b\"}", "Invalid JSON: duplicate key"),
        ("duplicate inside", b"{\"x\": [{\"y\": 1, \"y\": 2}]}", "Invalid JSON: duplicate key"),
        ("invalid UTF-8", b"{\"id\":\n \"\xff\"}", "is not UTF-8"),
        ("NUL", b"{\"id\": \"a\"}\0", "Invalid JSON: trailing"),
        ("a list", b"[]", "must be a JSON object"),
        ("empty", b"", "Invalid JSON: EOF"),
        ("UTF-16", b"\xff\xfe{\0}\0", "is not UTF-8"),
    ];
    for (what, bytes, message) in cases {
        let report = read(&files(bytes), Limits::default());
        assert_eq!(report.errors.len(), 1, "{what}: {report:?}");
        assert!(report.errors[0].message.starts_with(message), "{what}: {report:?}");
        assert!(report.errors[0].line.is_some(), "{what}");
    }
    let report = read(&files(b"{\"id\":\n \"\xff\"}"), Limits::default());
    assert_eq!((report.errors[0].line, report.errors[0].column), (Some(2), Some(3)));
}

#[test]
fn a_byte_order_mark_and_dos_line_ends_change_nothing() {
    let plain = manifest(GOOD).skill.unwrap();
    let dos = format!("\u{feff}{}", GOOD.replace('\n', "\r\n"));
    assert_eq!(manifest(&dos).skill.unwrap(), plain);
    let text = "---\nname: a-skill\ndescription: |\n  one\n  two\n---\n# Body\n";
    let plain = skill_md(text).skill.unwrap();
    let dos = format!("\u{feff}{}", text.replace('\n', "\r\n"));
    assert_eq!(skill_md(dos).skill.unwrap(), plain);
}

#[test]
fn a_manifest_or_skill_md_above_the_limit_is_refused_unread() {
    let big = format!("{GOOD}{}", " ".repeat(1 << 20));
    let report = manifest(&big);
    assert!(report.skill.is_none());
    assert!(messages(&report).iter().any(|m| m.contains("larger than 1048576")));
    assert!(skill_md("-".repeat((1 << 20) + 1)).skill.is_none());
}

#[test]
fn anchors_that_explode_and_deep_nesting_are_refused_quickly() {
    let mut bomb = String::from("---\ndescription: d\na0: &a0 [x, x, x, x, x, x, x, x, x]\n");
    for i in 1..12 {
        let refs = vec![format!("*a{}", i - 1); 9].join(", ");
        bomb.push_str(&format!("a{i}: &a{i} [{refs}]\n"));
    }
    bomb.push_str("---\n");
    let report = skill_md(&bomb);
    assert!(messages(&report)[0].contains("expand to too much"), "{report:?}");
    assert!(skill_md("---\ndescription: d\na: &a [*a]\n---\n").skill.is_none());
    let deep = format!("---\ndescription: d\nx: {}\n---\n", "[".repeat(100_000));
    assert!(skill_md(deep).skill.is_none());
    let nested: String = (0..5_000).map(|i| format!("{}a:\n", " ".repeat(i % 500))).collect();
    assert!(skill_md(format!("---\n{nested}---\n")).skill.is_none());
}

#[test]
fn names_are_shown_without_terminal_escapes() {
    let report = skill_md("---\nname: \"a\\e[2Jb\\u202e\"\ndescription: \"x\\e[31m\"\n---\n");
    let skill = report.skill.clone().unwrap();
    assert!(!skill.name.contains('\u{1b}') && !skill.description.contains('\u{1b}'));
    for w in &report.warnings {
        assert!(!w.to_string().contains(|c: char| c.is_control() || c == '\u{202e}'), "{w:?}");
    }
    let bad = manifest(&GOOD.replace("Social Media APIs", "a\\u001b[2J"));
    assert_eq!(messages(&bad), ["The name holds control characters"]);
}

#[test]
fn a_mebibyte_of_anything_is_read_in_a_moment() {
    let fill = |unit: &str| unit.repeat((1 << 20) / unit.len() - 1);
    let front = |body: String| format!("---\ndescription: d\n{}\n---\n", &body[..body.len() - 64]);
    let texts = [
        front(format!("# {}", fill("\t"))),
        front(fill("\"\t\": \"\t\"\n")),
        front(format!("x: y: z\n{}", fill("\n"))),
        front(format!("x: y: z\n{}", fill(" a\n"))),
        front(format!("x: [{}]", fill("\t,"))),
        front(format!("x: {}", fill("[a, "))),
        front(format!("x:\n{}", fill("- &a *a\n"))),
        front(format!("tags:\n{}", fill("- a\n"))),
        front(fill("? ")),
        front(fill("- ")),
        front(fill("'")),
        front(fill("{{")),
        front(fill("a: ")),
    ];
    for text in texts {
        let start = std::time::Instant::now();
        let _report = skill_md(&text);
        let took = start.elapsed();
        let head: String = text.chars().take(60).collect();
        assert!(took.as_secs() < 30, "{took:?} for {head:?}");
    }
    let list = |key: &str, item: &str| {
        let items = vec![item; 900_000 / item.len()].join(",");
        format!("{{\"{key}\": [{items}]}}")
    };
    for text in [
        list("tags", "\"a\""),
        list("envVars", "1"),
        list("mcpServers", "{\"name\":\"a\",\"command\":\"b\"}"),
        list("scripts", "\"../x\""),
    ] {
        let start = std::time::Instant::now();
        let report = manifest(&text);
        assert!(report.errors.len() < 1_000);
        assert!(start.elapsed().as_secs() < 30, "{}", &text[..40]);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn no_bytes_make_reading_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let source = Source::from_memory(&[("manifest.json", &bytes, false), ("SKILL.md", &bytes, false)]);
        let report = read(&source, Limits::default());
        prop_assert!(report.skill.is_some() == report.errors.is_empty());
    }

    #[test]
    fn no_frontmatter_makes_reading_panic(text in "[-a-c:{}\\[\\]&*!|>'\"#,% \n\té\u{feff}]{0,120}") {
        let file = format!("---\ndescription: d\n{text}\n---\nbody");
        let report = skill_md(&file);
        prop_assert!(report.skill.is_some() == report.errors.is_empty());
        for fault in report.errors.iter().chain(&report.warnings) {
            prop_assert!(!fault.message.contains(|c: char| c.is_control()), "{:?}", fault);
        }
    }

    #[test]
    fn a_mutated_manifest_never_panics(at in 0_usize..GOOD.len(), with in any::<u8>()) {
        let mut bytes = GOOD.as_bytes().to_vec();
        bytes[at] = with;
        let report = read(&files(&bytes), Limits::default());
        prop_assert!(report.skill.is_some() == report.errors.is_empty());
    }
}
