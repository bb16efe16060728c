//! Documents: what is edited, what is refused, and that a SKILL.md keeps what it holds.

use proptest::prelude::*;
use semver::Version;
use serde_json::{Value, json};

use super::*;
use crate::{
    ids::SkillId,
    skill::{
        load,
        source::{Limits, Source as Folder},
        strict::file_spec_errors,
    },
};

fn slug() -> SkillId {
    "excel-reports".parse().unwrap()
}

fn version() -> Version {
    Version::new(0, 0, 3)
}

fn text(content: &str) -> Text {
    Text::new("Reports", "How reports are built", &["excel".into(), "a, b".into()], content).unwrap()
}

fn edited(content: &str, args: &Value) -> Result<String, String> {
    let edit = patch(&slug(), args).map_err(told)?;
    text(content).edited(&edit).map(|text| text.content).map_err(told)
}

fn told(mistakes: Vec<Mistake>) -> String {
    mistakes.into_iter().map(|m| format!("{} {}", m.pointer, m.detail)).collect::<Vec<_>>().join("; ")
}

#[test]
fn each_operation_does_exactly_what_it_says() {
    for (args, expected) in [
        (json!({"operation": "replace", "content": "new"}), "new"),
        (json!({"operation": "append", "content": "\n- c"}), "- a\n- b\n- c"),
        (json!({"operation": "prepend", "content": "# T\n"}), "# T\n- a\n- b"),
        (json!({"operation": "delete", "content": "- a\n"}), "- b"),
        (json!({"operation": "find_replace", "find": "a\n", "replace": "x\n"}), "- x\n- b"),
        (json!({"operation": "find_replace", "find": "- ", "replace": "", "replace_all": true}), "a\nb"),
        (
            json!({"operation": "append", "content": "!", "find": "", "replace": null, "replace_all": false}),
            "- a\n- b!",
        ),
        (json!({"title": "Other"}), "- a\n- b"),
    ] {
        assert_eq!(edited("- a\n- b", &args).as_deref(), Ok(expected), "{args}");
    }
}

#[test]
fn what_cannot_be_done_as_asked_is_refused_with_its_reason() {
    for (args, reason) in [
        (
            json!({"operation": "find_replace", "find": "zzz", "replace": "x"}),
            "/find the content does not hold",
        ),
        (json!({"operation": "find_replace", "find": "AA", "replace": "x"}), "other capitals"),
        (
            json!({"operation": "find_replace", "find": "aa", "replace": "x"}),
            "/find the text to find stands more",
        ),
        (json!({"operation": "find_replace", "find": "", "replace": "x"}), "/find the text to find is empty"),
        (json!({"operation": "find_replace", "find": "a"}), "/replace replace is missing"),
        (
            json!({"operation": "find_replace", "find": "aaa", "replace": "x", "content": "y"}),
            "/content content has no",
        ),
        (json!({"operation": "delete", "content": "b"}), "/content the content does not hold"),
        (json!({"operation": "delete", "content": "a"}), "/content the text to find stands more than once"),
        (json!({"operation": "append"}), "/content content is missing"),
        (json!({"operation": "append", "content": "x", "find": "a"}), "/find find has no effect"),
        (json!({"operation": "rewrite", "content": "x"}), "/operation \"rewrite\" is no operation"),
        (json!({"content": "x"}), "/content content has no effect: no operation is named"),
        (json!({"operation": "replace", "content": "a\0b"}), "/content content must not hold NUL"),
        (json!({}), " nothing is to be changed"),
        (json!({"name": "other", "title": "x"}), "/name this is excel-reports"),
        (json!({"title": ""}), "/title title must not be empty"),
        (json!({"title": "a\nb"}), "/title title must not hold control"),
        (json!({"description": "x".repeat(1025)}), "/description description has 1025 characters"),
        (json!({"tags": ["ok", ""]}), "/tags/1 tags 1 must not be empty"),
        (json!({"tags": "excel"}), "/tags tags must be a list"),
        (json!({"title": 3, "tags": [1]}), "/title title must be a string; /tags tags"),
        (json!({"colour": "red"}), "/colour \"colour\" is no parameter"),
        (json!([]), "must be a JSON object"),
    ] {
        let why = edited("aaa", &args).unwrap_err();
        assert!(why.contains(reason), "{args}: {why}");
    }
}

#[test]
fn skill_management_has_limits_of_its_own() {
    let create = |name: &str, description: &str, content: &str| {
        let args = json!({"operation": "create_skill", "name": name, "description": description, "content": content});
        parse(Tool::SkillManagement, &args)
    };
    let long = |n: usize| "é".repeat(n);
    assert!(create(&"a".repeat(50), &long(200), &long(50_000)).is_ok());
    for (name, description, content, place) in [
        ("a".repeat(51), "d".into(), "c".into(), "/name"),
        ("-a".into(), "d".into(), "c".into(), "/name"),
        ("a".into(), long(201), "c".into(), "/description"),
        ("a".into(), "d".into(), long(50_001), "/content"),
    ] {
        let mistakes = create(&name, &description, &content).unwrap_err();
        assert!(mistakes.iter().all(|m| m.pointer == place) && !mistakes.is_empty(), "{mistakes:?}");
    }
    let list = parse(Tool::SkillManagement, &json!({"operation": "list_skills"}));
    assert_eq!(list, Ok(Call::List { tag: None, include_disabled: false }));
    assert!(parse(Tool::SkillManagement, &json!({"operation": "update_skill"})).is_err());
    let whole =
        json!({"name": "a".repeat(64), "title": "t", "description": long(1024), "content": long(60_000)});
    assert!(parse(Tool::CreateSkill, &whole).is_ok(), "these limits bind that tool only");
}

#[test]
fn a_document_reads_well_as_a_file_and_satisfies_the_format() {
    let written = text("# Reports\n").to_skill_md(&slug(), &version());
    assert_eq!(
        written,
        "---\nname: \"excel-reports\"\ndescription: \"How reports are built\"\nmetadata:\n  title: \"Reports\"\n  \
         tags: \"[\\\"excel\\\",\\\"a, b\\\"]\"\n---\n\n# Reports\n"
    );
    assert_eq!(file_spec_errors(&written, Some("excel-reports")), [""; 0]);
}

#[test]
fn what_a_hand_written_file_says_beside_is_kept_and_our_keys_move_under_metadata() {
    let file = "---\nname: My reports\ndescription: >\n  Two\n  lines\nlicense: MIT\nallowed-tools: [Read, Bash]\n\
                requires:\n  env: [KEY]\ntags: x, y\nversion: 1.10.0\nmetadata:\n  author: \"yes\"\n  nested: {a: [1, {}]}\n\
                ---\r\n\r\n# Body\r\n";
    let mut read = Text::from_skill_md(&slug(), file.as_bytes()).unwrap();
    assert_eq!((read.title.as_str(), read.description.as_str()), ("My reports", "Two lines"));
    assert_eq!((read.tags.join("|").as_str(), read.content.as_str()), ("x|y", "# Body\r\n"));
    read.tags.push("z".into());
    let written = read.to_skill_md(&slug(), &version());
    assert_eq!(
        written,
        "---\nname: \"excel-reports\"\ndescription: \"Two lines\"\nlicense: MIT\nallowed-tools:\n  - Read\n  - Bash\n\
         metadata:\n  title: \"My reports\"\n  tags: \"[\\\"x\\\",\\\"y\\\",\\\"z\\\"]\"\n  \
         requires: \"{\\\"env\\\":[\\\"KEY\\\"]}\"\n  version: \"0.0.3\"\n  author: \"yes\"\n  nested:\n    a:\n      - 1\n      \
         - {}\n---\n\n# Body\r\n"
    );
    let skill = load(&written);
    assert_eq!(skill.required_env, ["KEY".parse().unwrap()]);
    assert_eq!(skill.version, version());
}

fn load(file: &str) -> crate::skill::model::Skill {
    let mut folder = Folder::from_memory(&[("SKILL.md", file.as_bytes(), false)]);
    folder.folder = Some("excel-reports".into());
    let report = load::read(&folder, Limits::default());
    report.skill.unwrap_or_else(|| panic!("{:?} of {file}", report.errors))
}

/// Texts that YAML, JSON or markdown could trip over.
fn nasty() -> impl Strategy<Value = String> {
    prop_oneof![
        "[ -~]{1,40}",
        "(---|\\.\\.\\.|: | #|[\"'\\\\{}\\[\\]&*!|>%@`,?]|null|true|~|1\\.10|é|\u{1f600}|\u{2028}|\u{200b}| ){1,8}",
        "\\PC{1,40}",
    ]
    .prop_filter("not blank", |s| !s.trim().is_empty())
}

proptest! {
    #[test]
    fn a_skill_md_gives_back_what_was_written(
        title in nasty(),
        description in nasty(),
        tags in prop::collection::vec(nasty(), 0..4),
        content in "(\\PC|[\r\n\t]|---\n){0,60}",
    ) {
        let Ok(text) = Text::new(&title, &description, &tags, &content) else { return Ok(()) };
        let written = text.to_skill_md(&slug(), &version());
        prop_assert_eq!(file_spec_errors(&written, Some("excel-reports")), Vec::<String>::new(), "{}", &written);
        let read = Text::from_skill_md(&slug(), written.as_bytes()).unwrap();
        prop_assert_eq!(&read, &text, "{}", &written);
        let skill = load(&written);
        prop_assert_eq!(Text::title_of(&skill), text.title.clone());
        prop_assert_eq!(&skill.description, &text.description);
        prop_assert_eq!(&skill.tags, &text.tags);
    }

    #[test]
    fn writing_what_was_read_changes_nothing_any_more(frontmatter in frontmatter(), body in "\\PC{0,40}") {
        let file = format!("---\ndescription: d\n{frontmatter}---\n{body}");
        let Ok(read) = Text::from_skill_md(&slug(), file.as_bytes()) else { return Ok(()) };
        let written = read.to_skill_md(&slug(), &version());
        let again = Text::from_skill_md(&slug(), written.as_bytes()).unwrap();
        prop_assert_eq!(&again.content, &read.content);
        prop_assert_eq!(again.to_skill_md(&slug(), &version()), written, "{}", file);
        let (before, after) = (load(&file), load(&again.to_skill_md(&slug(), &before_version(&file))));
        prop_assert_eq!(before.required_env, after.required_env);
        prop_assert_eq!(before.vars, after.vars);
        prop_assert_eq!(before.tags, after.tags);
        prop_assert_eq!(before.dependencies, after.dependencies);
    }

    #[test]
    fn a_refused_edit_says_why_and_an_accepted_one_is_exact(
        content in "[ab]{0,12}", find in "[ab]{0,3}", replace in "[abc]{0,3}", all in any::<bool>(),
    ) {
        let args = json!({"operation": "find_replace", "find": find, "replace": replace, "replace_all": all});
        let places = (0..content.len()).filter(|at| content[*at..].starts_with(&find)).count();
        let allowed = !find.is_empty() && (places == 1 || (all && places > 0));
        match edited(&content, &args) {
            Ok(new) => {
                prop_assert!(allowed);
                prop_assert_eq!(new, content.replace(&find, &replace));
            }
            Err(why) => prop_assert!(!allowed && why.starts_with("/find "), "{}", why),
        }
    }

    #[test]
    fn appending_and_prepending_are_undone_by_deleting(content in "[a-m\n]{0,20}", added in "[n-z\n]{1,10}") {
        prop_assume!(!content.contains(&added));
        for operation in ["append", "prepend"] {
            let longer = edited(&content, &json!({"operation": operation, "content": added})).unwrap();
            if longer.matches(&added).count() == 1
                && let Ok(back) = edited(&longer, &json!({"operation": "delete", "content": added}))
            {
                prop_assert_eq!(&back, &content);
            }
        }
    }

    #[test]
    fn no_json_makes_the_tools_panic(args in json_value(), which in 0..Tool::ALL.len()) {
        if let Err(mistakes) = parse(Tool::ALL[which], &args) {
            prop_assert!(!mistakes.is_empty());
            prop_assert!(mistakes.iter().all(|m| !m.detail.is_empty()));
        }
    }
}

fn before_version(file: &str) -> Version {
    load(file).version
}

/// Frontmatter below the description: of ours, of others, of both places.
fn frontmatter() -> impl Strategy<Value = String> {
    let line = prop_oneof![
        Just("license: MIT\n"),
        Just("name: Some Name\n"),
        Just("tags: [a, 'b: c', \"1\"]\n"),
        Just("requires: {env: [KEY]}\n"),
        Just("requires:\n  env:\n    - OTHER\n  skills: [base@^1]\n"),
        Just("vars:\n  PORT: 8080\n  NAME:\n  FLAG: \"true\"\n"),
        Just("custom: {a: [1, 2.50, {b: ~}], c: ''}\n"),
        Just("'odd key': |\n  two\n  lines\n"),
        Just("metadata:\n  tags: '[\"m\"]'\n  title: T\n  other: {}\n  requires: '{\"env\": [\"THIRD\"]}'\n"),
        Just("metadata: text\n"),
        Just("metadata:\n"),
        Just("when: 2024-01-01\nx: 0x1F\ny: .5\nz: -\n"),
    ];
    prop::collection::vec(line, 0..5).prop_map(|lines| lines.concat())
}

fn json_value() -> impl Strategy<Value = Value> {
    let key = prop_oneof![
        Just("name"),
        Just("title"),
        Just("description"),
        Just("content"),
        Just("tags"),
        Just("operation"),
        Just("find"),
        Just("replace"),
        Just("replace_all"),
        Just("tag"),
        Just("other"),
    ];
    let value = prop_oneof![
        Just(json!(null)),
        Just(json!(true)),
        Just(json!(1)),
        Just(json!([])),
        Just(json!(["a", 1])),
        Just(json!({})),
        Just(json!("create_skill")),
        Just(json!("find_replace")),
        Just(json!("append")),
        "\\PC{0,9}".prop_map(Value::from),
    ];
    prop_oneof![
        Just(json!(null)),
        Just(json!("x")),
        Just(json!([1])),
        prop::collection::vec((key, value), 0..8)
            .prop_map(|pairs| Value::Object(pairs.into_iter().map(|(k, v)| (k.to_owned(), v)).collect())),
    ]
}
