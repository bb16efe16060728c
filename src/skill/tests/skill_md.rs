//! SKILL.md: our keys, leniency, repair.

use serde_json::json;

use super::*;
use crate::skill::{
    model::{McpServer, McpTransport, Skill},
    vars::{Found, resolve, substitute},
};

#[test]
fn a_skill_md_with_every_key_is_read() {
    let report = read(
        &Source::from_memory(&[("SKILL.md", FULL.as_bytes(), false)]).named("code-review"),
        Limits::default(),
    );
    assert_eq!(report.strict_errors, vec![], "{report:#?}");
    let skill = report.skill.unwrap();
    assert_eq!(skill.version.to_string(), "1.2.3");
    let secrets: Vec<&str> = skill.secrets.iter().map(AsRef::as_ref).collect();
    assert_eq!(secrets, ["API_KEY", "GITHUB_TOKEN", "OTHER"]);
    let defaults: Vec<Option<&str>> = skill.vars.iter().map(|v| v.default.as_deref()).collect();
    assert_eq!(defaults, [None, Some("https://api.example.com"), Some("1.10"), None]);
    assert_eq!(skill.binaries, ["npx"]);
    assert_eq!(skill.dependencies[0].to_string(), "base-assistant");
    assert_eq!(skill.tags, ["x", "y"]);
    assert_eq!(skill.mcp_servers[0].name, "code-review");
    let McpTransport::Local { command, env, startup_timeout, idle_timeout } = &skill.mcp_servers[0].transport
    else {
        panic!("local")
    };
    assert_eq!(command, &["npx", "-y", "@scope/server github", "a b"]);
    assert_eq!(env["TOKEN"], "${GITHUB_TOKEN}");
    assert_eq!((startup_timeout.as_secs(), idle_timeout.as_secs()), (30, 15 * 60));
    assert_eq!(skill.extra["keywords"], json!(["review", "pull request"]));
    assert_eq!(skill.extra["priority"], json!(5));
    assert_eq!(skill.extra["next_skill"], json!("review-summary"));
    assert_eq!(skill.extra["conditional_next_skills"], json!({"critical": "security-audit"}));
    assert_eq!(skill.extra["metadata"], json!({"author": "someone"}));
    assert_eq!(skill.extra["license"], json!("MIT"));
    assert_eq!(skill.body.as_deref(), Some("\n# Body with {{ENDPOINT}}\n"));
}

#[test]
fn our_keys_are_read_under_metadata_as_values_or_as_json() {
    for vars in [
        "  vars: '{\"A\": {\"default\": \"1\", \"secret\": true}}'",
        "  vars:\n    A: {default: \"1\", secret: true}",
    ] {
        let report = skill_md(format!(
            "---\ndescription: d\nmetadata:\n  version: \"2.0.0\"\n{vars}\n  trigger_config: '{{\"schedule\": \"0 9 * * *\"}}'\n---\n"
        ));
        assert_eq!(report.strict_errors, vec![]);
        let skill = report.skill.unwrap();
        assert_eq!(skill.id.as_str(), "a-skill");
        assert_eq!(skill.version.to_string(), "2.0.0");
        assert!(skill.vars[0].secret);
        assert_eq!(skill.extra["trigger_config"], json!({"schedule": "0 9 * * *"}));
    }
}

#[test]
fn what_is_wrong_with_our_keys_is_told_and_passed_over() {
    let report = skill_md(
        "---\ndescription: d\nversion: '1.4'\nmcp: [a]\nvars: 3\nrequires: {env: [A-B], bins: [x]}\npriority: high\n---\n",
    );
    let skill = report.skill.clone().unwrap();
    assert_eq!(skill.version.to_string(), "1.4.0");
    assert!(skill.mcp_servers.is_empty());
    assert_eq!(skill.extra["mcp"], json!(["a"]));
    assert_eq!(report.strict_errors.len(), 6, "{:#?}", report.strict_errors);
    assert!(report.strict_errors.iter().all(|e| e.line.is_some()));
}

#[test]
fn vars_as_a_list_are_refused_with_the_shape_that_they_have() {
    let told = |fault: &crate::error::Fault| {
        assert!(fault.message.starts_with("vars must be a map of names, not a "), "{fault}");
        assert!(fault.help.as_deref().unwrap().contains("`vars: { CITY: \"Berlin\", API_KEY: { "), "{fault}");
        assert!(fault.line.is_some());
    };
    for list in ["[CITY, API_KEY]", "\n  - CITY\n  - name: API_KEY\n    secret: true"] {
        let report = skill_md(format!("---\nname: a-skill\ndescription: d\nvars: {list}\n---\n"));
        assert!(report.skill.is_none(), "{list}: what is secret in it would be shown");
        let [fault] = report.errors.as_slice() else { panic!("{:#?}", report.errors) };
        told(fault);
    }
    let report = skill_md("---\nname: a-skill\ndescription: d\nvars: CITY\n---\n");
    assert!(report.skill.is_some_and(|skill| skill.vars.is_empty()));
    told(&report.strict_errors[0]);
}

#[test]
fn the_shape_that_is_told_for_vars_is_one_that_is_read() {
    let shape = "---\nname: a-skill\ndescription: d\nvars: { CITY: \"Berlin\", API_KEY: { description: \"…\", required: true, secret: true } }\n---\n";
    let report = skill_md(shape);
    assert_eq!((report.strict_errors, report.skill.unwrap().vars.len()), (vec![], 2));
}

#[test]
fn the_times_of_a_server_are_numbers_of_their_unit_or_have_units_of_their_own() {
    let times = |startup: &str, idle: &str| {
        let text = format!(
            "---\nname: a-skill\ndescription: d\nmcp:\n  command: npx x\n  startup_timeout: {startup}\n  idle_timeout: {idle}\n---\n"
        );
        let report = skill_md(text);
        let skill = report.skill.unwrap();
        let stored = serde_json::to_string(&skill).unwrap();
        assert_eq!(serde_json::from_str::<Skill>(&stored).unwrap(), skill);
        let McpTransport::Local { startup_timeout, idle_timeout, .. } = &skill.mcp_servers[0].transport
        else {
            panic!("local")
        };
        let faults: Vec<String> = report.strict_errors.into_iter().map(|fault| fault.message).collect();
        (startup_timeout.as_millis(), idle_timeout.as_millis(), faults)
    };
    assert_eq!(times("45", "2"), (45_000, 120_000, vec![]));
    assert_eq!(times("1m30s", "90s"), (90_000, 90_000, vec![]));
    assert_eq!(times("500ms", "\"2\""), (500, 120_000, vec![]));
    let told = |key: &str, unit: &str| {
        format!("mcp.{key} must be a whole number of {unit} above 0, or a time like \"90s\" or \"1h30m\"")
    };
    for bad in ["0", "0s", "soon", "-1", "1.5", "[1]"] {
        let faults = vec![told("startup_timeout", "seconds"), told("idle_timeout", "minutes")];
        assert_eq!(times(bad, bad), (30_000, 300_000, faults), "{bad}");
    }
    assert_eq!(times("1", "99999999999999999999").2, [told("idle_timeout", "minutes")]);
    let month = 30 * 86_400_000;
    assert_eq!(
        times("18446744073709551615", "18446744073709551615"),
        (month, month, vec![]),
        "no more than a month"
    );
}

#[test]
fn times_of_servers_that_were_stored_as_numbers_are_read_as_before() {
    let stored = r#"{"name": "m", "type": "local", "command": ["a"], "env": {}, "startup_timeout": 7, "idle_timeout": 3}"#;
    let server: McpServer = serde_json::from_str(stored).unwrap();
    let McpTransport::Local { startup_timeout, idle_timeout, .. } = &server.transport else {
        panic!("local")
    };
    assert_eq!((startup_timeout.as_secs(), idle_timeout.as_secs()), (7, 180));
    assert_eq!(
        serde_json::to_value(&server).unwrap(),
        serde_json::from_str::<serde_json::Value>(stored).unwrap()
    );
}

#[test]
fn a_missing_description_or_unreadable_yaml_refuses_a_skill_md() {
    assert_eq!(messages(&skill_md("---\nname: x\n---\n")), ["Missing description"]);
    assert_eq!(messages(&skill_md("---\ndescription: ''\n---\n")), ["Missing description"]);
    for (text, line) in [
        ("---\ndescription: \"open\n---\n", 2),
        ("---\ndescription: [a\n---\n", 2),
        ("---\ndescription: d\n\tx: y\n---\n", 2),
        ("---\ndescription: d\nname: a\nname: b\n---\n", 4),
        ("---\n- a\n---\n", 2),
        ("no frontmatter", 1),
        ("---\ndescription: d\n", 1),
        ("", 1),
    ] {
        let report = skill_md(text);
        assert_eq!(report.errors.len(), 1, "{text:?}: {report:?}");
        assert!(report.errors[0].line.unwrap() >= line, "{text:?}: {report:?}");
        assert!(report.errors[0].column.is_some());
    }
    let loaded = skill_md("---\nname: Other Name\ndescription: d\n---\n");
    assert_eq!(loaded.skill.clone().unwrap().id.as_str(), "a-skill");
    assert_eq!(loaded.skill.unwrap().version.to_string(), "0.0.0");
    assert!(!loaded.strict_errors.is_empty());
}

#[test]
fn an_unquoted_colon_is_repaired_and_the_repair_is_shown() {
    let report = skill_md("---\nname: a-skill\ndescription: Use when: you can\n---\nBody\n");
    assert_eq!(report.skill.unwrap().description, "Use when: you can");
    let repair = &report.strict_errors[0];
    assert_eq!(repair.line, Some(3));
    assert!(repair.message.contains("description: \"Use when: you can\""));
    assert!(report.spec_errors[0].starts_with("Invalid YAML in frontmatter: "));
}

#[test]
fn three_hyphens_within_a_value_do_not_end_the_frontmatter() {
    let report = skill_md("---\ndescription: a --- b\nlicense: |\n  ---\n  x\n---\n---\nBody\n");
    let skill = report.skill.unwrap();
    assert_eq!(skill.description, "a --- b");
    assert_eq!(skill.extra["license"], json!("---\nx\n"));
    assert_eq!(skill.body.as_deref(), Some("---\nBody\n"));
}

#[test]
fn variables_come_from_the_first_source_that_has_them() {
    let skill =
        read(&Source::from_memory(&[("SKILL.md", FULL.as_bytes(), false)]), Limits::default()).skill.unwrap();
    let env = |name: &str| (name == "TIMEOUT").then(|| Found { value: "t".into(), secret: true });
    let own = json!({"COUNT": 7});
    let global =
        json!({"code-review": {"COUNT": "8", "ENDPOINT": "e"}, "_global": {"ENDPOINT": "g", "API_KEY": "k"}});
    let r = resolve(&skill.vars, Some(&own), Some(&global), &skill.id, env);
    let value = |n: &str| r.values[n].value.as_str();
    assert_eq!((value("COUNT"), value("ENDPOINT"), value("API_KEY"), value("TIMEOUT")), ("7", "e", "k", "t"));
    assert!(r.values["API_KEY"].secret && r.values["TIMEOUT"].secret);
    assert!(!format!("{r:?}").contains("\"k\""));
    let text = "{{API_KEY}} {{ENDPOINT}} {{NONE}} {{{COUNT}}} {{";
    assert_eq!(substitute(text, &r.values, true), "*** e {{NONE}} {7} {{");
    assert_eq!(substitute(text, &r.values, false), "k e {{NONE}} {7} {{");
    let none = resolve(&skill.vars, None, None, &skill.id, |_| None);
    assert_eq!(none.unresolved_required, ["API_KEY"]);
}

#[test]
fn a_skill_survives_being_stored_as_json() {
    let skill =
        read(&Source::from_memory(&[("SKILL.md", FULL.as_bytes(), false)]), Limits::default()).skill.unwrap();
    let stored = serde_json::to_string(&skill).unwrap();
    assert_eq!(serde_json::from_str::<Skill>(&stored).unwrap(), skill);
    let skill = manifest(GOOD).skill.unwrap();
    let stored = serde_json::to_string(&skill).unwrap();
    assert_eq!(serde_json::from_str::<Skill>(&stored).unwrap(), skill);
}
