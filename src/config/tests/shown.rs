//! How faults are shown, and that their places hold for any text.

use proptest::prelude::*;

use super::{
    super::{parse, render},
    EXAMPLE, faults, only,
};

#[test]
fn every_mistake_is_told_at_once_in_the_order_of_the_text() {
    let source = r#"[hive]
name = "Demo"
default_agent = "wrtier"
[agents.writer]
memry = "1GiB"
cpus = "2"
network = { allow = ["api.example.com:443"] }
env = { "größe" = 1, DEBUG = true }
"#;
    insta::assert_snapshot!(render(&faults(source), source, false), @r#"
    skep.toml:2:8: "Demo" is not a valid hive name: use lowercase letters, digits and hyphens, starting with a letter or digit, at most 40 characters
      |
    2 | name = "Demo"
      |        ^^^^^^

    skep.toml:3:17: there is no agent "wrtier"
      |
    3 | default_agent = "wrtier"
      |                 ^^^^^^^^
      = help: did you mean "writer"?

    skep.toml:5:1: unknown key "memry"
      |
    5 | memry = "1GiB"
      | ^^^^^
      = help: did you mean "memory"?

    skep.toml:6:8: agents.writer.cpus must be a number, not a string
      |
    6 | cpus = "2"
      |        ^^^
      = help: write a number without quotes, such as 1.0 or 0.5

    skep.toml:7:11: agents.writer.network: an allow-list is not yet enforced, so it is refused
      |
    7 | network = { allow = ["api.example.com:443"] }
      |           ^
      = help: use "none", or "internet" to allow every host

    skep.toml:8:9: "größe" is not a name of an environment variable
      |
    8 | env = { "größe" = 1, DEBUG = true }
      |         ^^^^^^^
      = help: use letters, digits and underscores, not starting with a digit

    skep.toml:8:30: agents.writer.env.DEBUG must be a string, not a boolean
      |
    8 | env = { "größe" = 1, DEBUG = true }
      |                              ^^^^
      = help: put it in quotes: "true"
    "#);
}

#[test]
fn a_syntax_error_hides_no_other_mistake_and_invents_none() {
    let source = r#"[hive]
default_agent = "writer"
[agents.writer
memory = "1MiB"
[agents.b]
cpus = 1.0.0
image = 'x
pids = 3
secrets
"#;
    insta::assert_snapshot!(render(&faults(source), source, false), @r#"
    skep.toml:3:15: unclosed table, expected `]`
      |
    3 | [agents.writer
      |               ^

    skep.toml:6:11: invalid float
      |
    6 | cpus = 1.0.0
      |           ^^

    skep.toml:7:11: invalid literal string, expected `'`
      |
    7 | image = 'x
      |           ^

    skep.toml:8:8: agents.b.pids must be from 8 to 4194304: the init and its runners need some themselves
      |
    8 | pids = 3
      |        ^
      = help: write a number such as 256

    skep.toml:9:8: key with no value, expected `=`
      |
    9 | secrets
      |        ^
    "#);
}

#[test]
fn a_byte_order_mark_and_windows_line_ends_do_not_shift_places() {
    let (line, column, ..) = only("\u{feff}[agents.a]\r\nmemry = 1\r\n");
    assert_eq!((line, column), (2, 1));
    let (line, column, ..) = only("[agents.a]\nenv = { A = 'äöü', B = 1 }");
    assert_eq!((line, column), (2, 24));
}

#[test]
fn a_text_of_brackets_or_a_line_of_mistakes_is_refused_in_good_time() {
    assert!(!faults(&format!("a = {}", "[".repeat(200_000))).is_empty());
    assert!(!faults(&"= \n".repeat(100_000)).is_empty());
    assert!(!faults(&"a ".repeat(200_000)).is_empty());
    let mixed: String = (0..30_000).map(|n| format!("k{n} = 0\nz{n} =\n")).collect();
    assert_eq!(faults(&mixed).len(), 60_000);
    let many: String = (0..40_000).map(|n| format!("k{n}=0,")).collect();
    assert_eq!(faults(&format!("hive={{{}}}", many.trim_end_matches(','))).len(), 40_000);
}

fn all_places_are_in(text: &str) -> Result<(), TestCaseError> {
    let found = match parse(text, "skep.toml") {
        Ok((_, warnings)) => warnings,
        Err(faults) => {
            prop_assert!(!faults.is_empty());
            faults
        }
    };
    let shown = text.strip_prefix('\u{feff}').unwrap_or(text);
    let lines: Vec<&str> = shown.split('\n').collect();
    for fault in &found {
        let (line, column) = (fault.line.unwrap(), fault.column.unwrap());
        prop_assert!(line >= 1 && line <= lines.len(), "{fault}");
        prop_assert!(column >= 1 && column <= lines[line - 1].chars().count() + 1, "{fault}");
    }
    drop(render(&found, text, true));
    Ok(())
}

proptest! {
    #[test]
    fn no_text_makes_it_panic_or_point_outside(text in "\\PC{0,200}") {
        all_places_are_in(&text)?;
    }

    #[test]
    fn no_text_of_toml_pieces_makes_it_panic_or_point_outside(
        pieces in prop::collection::vec(prop::sample::select(vec![
            "[", "]", "{", "}", "=", ",", ".", "\n", "\r\n", "\"", "'", "\"\"\"", "#", "ä", "\0", "agents", "a", "hive",
            "env", "skills", "jobs", "memory", "1", "-", "nan", "true", "1979-05-27", " ", "\\u0000", "\u{feff}", "limits", "registry",
        ]), 0..60)
    ) {
        all_places_are_in(&pieces.concat())?;
    }

    #[test]
    fn no_damage_to_the_example_makes_it_panic_or_point_outside(
        at in 0..EXAMPLE.len(), cut in 0_usize..40, insert in "\\PC{0,6}"
    ) {
        let end = (at + cut).min(EXAMPLE.len());
        all_places_are_in(&format!("{}{insert}{}", &EXAMPLE[..at], &EXAMPLE[end..]))?;
    }
}
