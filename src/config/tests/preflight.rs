//! `[[preflight]]` and `[model]` (systems.md A11, A23).

use serde_json::json;

use super::super::parse;
use crate::scheduler::preflight::{RunIf, defaults};

#[test]
fn rules_that_are_written_take_the_place_of_ours() {
    let (config, _) = parse("", "skep.toml").unwrap();
    assert_eq!(config.preflight, defaults());
    assert_eq!(config.preflight.len(), 2);
    let text = "[[preflight]]\njob = 'digest'\nrequires = 'unread'\ntool = 'unread'\nargs = { since = '{{now-1d}}' }\n\
                path = 'count'\nrun_if = { at_least = 3 }\n[[preflight]]\ntool = 'inbox'\nrun_if = 'empty'\n";
    let (config, warnings) = parse(text, "skep.toml").unwrap();
    assert_eq!(warnings, []);
    let [first, second] = config.preflight.as_slice() else { panic!("{:?}", config.preflight) };
    assert!(first.job.is_match("Daily DIGEST") && !first.job.is_match("mail"));
    assert_eq!((first.requires.as_deref(), first.check.tool.as_str()), (Some("unread"), "unread"));
    assert_eq!((first.check.path.as_deref(), &first.check.run_if), (Some("count"), &RunIf::AtLeast(3.0)));
    assert_eq!(first.check.args["since"], json!("{{now-1d}}"));
    assert!(second.job.is_match("anything") && second.check.run_if == RunIf::Empty);
}

#[test]
fn what_is_wrong_with_a_rule_or_an_endpoint_is_told() {
    for (text, told) in [
        ("[[preflight]]\njob = '('\ntool = 'x'", "preflight[0].job is no pattern"),
        ("[[preflight]]\njob = 'x'", "preflight needs the tool"),
        ("[[preflight]]\ntool = 'x'\nrun_if = 'often'", "run_if must be"),
        ("[[preflight]]\ntool = 'x'\npath = 'a..b'", "path must be names"),
        ("[[preflight]]\ntol = 'x'", "unknown key \"tol\""),
        (
            "[agents.a]\n[[agents.a.jobs]]\nname = 'j'\nmanual = true\ntool = 't'\npreflight = { run_if = 'empty' }",
            "preflight needs the tool",
        ),
        ("[model]\nendpoint = 'localhost'", "is no http or https address"),
        ("[model]\nendpoint = 'http://me:pw@localhost'", "is no http or https address"),
        ("[model]\nendpoint = 'http://localhost'\npath = 'x'", "must begin with a slash"),
    ] {
        let faults = parse(text, "skep.toml").unwrap_err();
        assert!(faults.iter().any(|fault| fault.message.contains(told)), "{text}: {faults:?}");
    }
    let (config, warnings) =
        parse("[model]\nendpoint = 'http://[::1]:11434/'\ntiers = {}\n", "skep.toml").unwrap();
    assert_eq!(config.model.unwrap().url, "http://[::1]:11434/api/tags");
    assert!(warnings[0].message.starts_with("model.tiers is not supported"), "{warnings:?}");
}
