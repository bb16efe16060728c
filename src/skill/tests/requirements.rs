//! What makes a skill unavailable, and commands with placeholders.

use std::collections::BTreeMap;

use crate::skill::{
    fields::{placeholders, split_command},
    load,
    source::{Limits, Source},
    unavailable::{Needs, unavailable, unresolved_of_servers},
    vars::{Found, expand},
};

type Row<'a> = (&'a str, &'a [&'a str], &'a [&'a str], &'a [&'a str]);

fn needs(list: &[Row<'_>]) -> BTreeMap<crate::ids::SkillId, Needs> {
    let owned = |l: &[&str]| l.iter().map(|s| (*s).to_owned()).collect();
    list.iter()
        .map(|(id, env, binaries, skills)| {
            let needs = Needs {
                env: owned(env),
                vars: Vec::new(),
                binaries: owned(binaries),
                skills: skills.iter().map(|s| s.parse().unwrap()).collect(),
            };
            (id.parse().unwrap(), needs)
        })
        .collect()
}

#[test]
fn what_is_missing_is_named_and_passed_on_to_all_who_need_it() {
    let needs = needs(&[
        ("a", &["X", "Y"], &["node", "npx"], &[]),
        ("b", &[], &[], &["a"]),
        ("c", &[], &[], &["b", "gone"]),
        ("d", &["Y"], &["node"], &[]),
        ("loop-1", &[], &[], &["loop-2"]),
        ("loop-2", &[], &[], &["loop-1", "d"]),
    ]);
    let got = unavailable(&needs, |e| e == "Y", |b| b == "node");
    let got: Vec<(&str, Vec<&str>)> =
        got.iter().map(|(id, m)| (id.as_str(), m.iter().map(String::as_str).collect())).collect();
    assert_eq!(
        got,
        [("a", vec!["env:X", "binary:npx"]), ("b", vec!["skill:a"]), ("c", vec!["skill:b", "skill:gone"]),]
    );
}

#[test]
fn a_required_variable_without_a_value_is_told_like_environment_and_once() {
    let mut needs = needs(&[("a", &["X", "Y"], &[], &[]), ("b", &[], &[], &["a"])]);
    needs.values_mut().next().unwrap().vars = vec!["X".into(), "CITY".into()];
    let got = unavailable(&needs, |name| name == "CITY", |_| true);
    let got: Vec<String> = got.iter().map(|(id, missing)| format!("{id} {}", missing.join(" "))).collect();
    assert_eq!(got, ["a env:Y env:X env:CITY", "b skill:a"], "the container's environment is no value");
}

#[test]
fn a_command_is_split_like_a_shell_would_without_expanding_anything() {
    let split = |s| split_command(s).unwrap();
    assert_eq!(split("npx -y  pkg"), ["npx", "-y", "pkg"]);
    assert_eq!(
        split(r#"a 'b "c' "d \"e\" \n" f\ g '' $HOME *"#),
        ["a", "b \"c", "d \"e\" \\n", "f g", "", "$HOME", "*"]
    );
    assert_eq!(split("  "), Vec::<String>::new());
    for open in ["'a", "\"a", "a\\", "\"a\\"] {
        assert_eq!(split_command(open), None, "{open}");
    }
}

#[test]
fn placeholders_of_a_server_take_variables_then_the_environment() {
    assert_eq!(placeholders("${A}-${B_1}${no-name}${}${C"), ["A", "B_1"]);
    let found = Found { value: "${B}".into(), secret: true };
    let values = BTreeMap::from([("A".to_owned(), found)]);
    let env = |n: &str| (n == "B").then(|| "b".to_owned());
    assert_eq!(expand("x${A}y${B}$${-}${", &values, env).unwrap(), "x${B}yb$${-}${");
    assert_eq!(expand("${A}${N}${M}", &values, env).unwrap_err(), ["N", "M"]);
}

#[test]
fn names_that_a_server_misses_are_told_each_once() {
    let manifest = br#"{"id": "a", "name": "a", "version": "1.0.0", "description": "d", "mcpServers": [
        {"name": "one", "type": "local", "command": "x",
         "env": {"A": "${VALUE}/${SET}", "B": "${GONE}", "C": "${GONE} ${not-a-name}"}},
        {"name": "two", "type": "remote", "url": "https://example.com/mcp", "headers": {"X": "Bearer ${KEY}"}}]}"#;
    let source = Source::from_memory(&[("manifest.json", manifest, false)]);
    let report = load::read(&source, Limits::default());
    let skill = report.skill.unwrap_or_else(|| panic!("{:?}", report.errors));
    let values = BTreeMap::from([("VALUE".to_owned(), Found { value: "${GONE_TOO}".into(), secret: false })]);
    assert_eq!(unresolved_of_servers(&skill, &values, |name| name == "SET"), ["GONE", "KEY"]);
    assert_eq!(unresolved_of_servers(&skill, &values, |_| true), Vec::<String>::new());
}
