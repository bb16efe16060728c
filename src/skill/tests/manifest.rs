//! manifest.json, alone and beside a SKILL.md, and its folder.

use serde_json::json;

use super::*;
use crate::skill::model::{McpTransport, Shape};

#[test]
fn a_full_manifest_is_read_and_unknown_fields_are_kept_and_told() {
    let report = manifest(GOOD);
    let skill = report.skill.clone().unwrap_or_else(|| panic!("{report:#?}"));
    assert_eq!(skill.shape, Shape::Manifest);
    assert_eq!(skill.version.to_string(), "2.1.0");
    assert_eq!(skill.extra["colour"], json!({"a": [1]}));
    assert_eq!(skill.extra.len(), 1);
    assert_eq!(skill.secrets[0].as_str(), "TWITTER_API_KEY");
    assert_eq!(skill.dependencies[0].to_string(), "basic-tools@1.0.0");
    assert_eq!(report.warnings.len(), 1);
    assert_eq!(report.warnings[0].message, "Unknown field: colour");
    let McpTransport::Local { command, .. } = &skill.mcp_servers[0].transport else { panic!("local") };
    assert_eq!(command, &["node", "mcp/server.js"]);
}

#[test]
fn every_printed_message_is_said_and_all_together() {
    let report = manifest("{}");
    assert_eq!(messages(&report), ["Missing id", "Missing name", "Missing version", "Missing description"]);
    let report = manifest(
        r#"{"id": "A b", "name": "n", "version": "1.0", "description": "d",
            "context": ["context/none.md"], "scripts": ["scripts/none.ts", "../x.sh", "/etc/passwd", "a\\b", ""]}"#,
    );
    let said = messages(&report);
    for message in [
        "Invalid id format (lowercase, numbers, hyphens only)",
        "Invalid version format (must be semver)",
        "Context file not found: context/none.md",
        "Script not found: scripts/none.ts",
        "Script path \"../x.sh\" leaves the folder",
        "Script path \"/etc/passwd\" is absolute",
        "Script path \"a\\\\b\" holds a backslash; write `/`",
        "Script path \"\" is empty",
    ] {
        assert!(said.contains(&message), "{message} not in {said:#?}");
    }
    assert_eq!(said.len(), 8, "{said:#?}");
}

#[test]
fn every_wrong_type_is_told_at_once() {
    let report = manifest(
        r#"{"id": 1, "name": [], "version": 2.0, "description": {}, "context": "x", "scripts": [1],
            "envVars": ["A-B"], "dependencies": ["a@nope"], "nodeVersion": "soon",
            "systemPackages": ["a; rm"], "mcpServers": [{"name": "m", "type": "odd"}, 3, {}], "tags": 1}"#,
    );
    let said = messages(&report).join("\n");
    for part in [
        "id must be a string, not a number",
        "name must be a string, not a list",
        "version must be a string, not a number",
        "description must be a string, not a map",
        "context must be a list of strings, not a string",
        "scripts[0] must be a string",
        "envVars: \"A-B\"",
        "dependencies: \"a@nope\"",
        "nodeVersion \"soon\"",
        "systemPackages: \"a; rm\"",
        "mcpServers[0].type",
        "mcpServers[1] must be a map",
        "mcpServers[2].name is missing",
        "tags must be a list",
    ] {
        assert!(said.contains(part), "{part:?} not in\n{said}");
    }
}

#[test]
fn a_command_line_in_place_of_a_program_is_warned_about() {
    let with = |server: &str| {
        let report = manifest(&GOOD.replace(
            r#"{"name": "social-mcp", "type": "local", "command": "node", "args": ["mcp/server.js"]}"#,
            server,
        ));
        assert!(report.skill.is_some(), "{report:#?}");
        let told = report.warnings.into_iter().filter(|w| !w.message.starts_with("Unknown field"));
        told.map(|w| (w.message, w.help.unwrap_or_default())).collect::<Vec<_>>()
    };
    let [(message, help)] = &with(r#"{"name": "m", "command": "npx -y '@scope/a server'"}"#)[..] else {
        panic!()
    };
    assert_eq!(
        message,
        "mcpServers[0].command holds blanks, and there are no args: it is taken as the name of one program"
    );
    assert_eq!(help, r#"write "command": "npx", "args": ["-y", "@scope/a server"]"#);
    for fine in [
        r#"{"name": "m", "command": "npx", "args": ["-y", "a b"]}"#,
        r#"{"name": "m", "command": "my server", "args": []}"#,
        r#"{"name": "m", "command": "npx"}"#,
        r#"{"name": "m", "url": "https://mcp.example.com"}"#,
    ] {
        assert_eq!(with(fine), [], "{fine}");
    }
}

#[test]
fn counts_and_sizes_are_capped() {
    let mut source = files(GOOD.as_bytes());
    source.add("a.bin", &[0; 100], false);
    let limits = Limits { files: 4, bytes: 120, file: 50, manifest: 1 << 20 };
    let said = read(&source, limits);
    let said = messages(&said).join("\n");
    assert!(said.contains("Too many files: 5, at most 4"), "{said}");
    assert!(said.contains("Too large: "), "{said}");
    assert!(said.contains("File too large: a.bin, 100 bytes, at most 50"), "{said}");
}

#[test]
fn a_script_needs_an_interpreter() {
    let text = GOOD.replace("scripts/post.ts", "scripts/post");
    let with = |bytes: &[u8], executable| {
        let mut source = files(text.as_bytes());
        source.add("scripts/post", bytes, executable);
        read(&source, Limits::default())
    };
    assert_eq!(messages(&with(b"x", false)), ["Script is not executable: scripts/post"]);
    assert!(with(b"x", true).skill.is_some());
    assert!(with(b"#!/bin/sh\n", false).skill.is_some());
}

#[test]
fn a_missing_env_example_is_a_warning_and_a_strict_error() {
    let mut source = files(GOOD.as_bytes());
    source.files.remove(".env.example");
    let report = read(&source, Limits::default());
    assert!(report.skill.is_some());
    assert_eq!(report.strict().len(), 1);
    assert!(report.warnings.contains(&report.strict_errors[0]));
}

#[test]
fn the_folder_must_be_named_after_the_skill() {
    let named = |folder| read(&files(GOOD.as_bytes()).named(folder), Limits::default());
    assert!(named("social-media-apis").skill.is_some());
    assert!(named("social-media-apis@2.1.0").skill.is_some());
    assert!(named("other").skill.is_none());
    assert!(named("social-media-apis@2.1.1").skill.is_none());
}

#[test]
fn paths_that_collide_or_are_reserved_are_told() {
    let mut source = files(GOOD.as_bytes());
    for path in ["A.md", "a.md", "x/con.txt", "bad\u{1b}[31m\nname"] {
        source.add(path, b"", false);
    }
    let report = read(&source, Limits::default());
    assert!(report.skill.is_some());
    let said: Vec<String> = report.warnings.iter().map(ToString::to_string).collect();
    let said = said.join("|");
    assert!(said.contains("only in case"), "{said}");
    assert!(said.contains("reserved on Windows"), "{said}");
    assert!(!said.contains(|c: char| c.is_control()), "{said}");
}

#[test]
fn both_files_must_agree_on_what_both_say() {
    let with = |front: &str| {
        let mut source = files(GOOD.as_bytes());
        source.add("SKILL.md", format!("---\n{front}\n---\nBody\n").as_bytes(), false);
        read(&source, Limits::default())
    };
    let same = with("name: social-media-apis\ndescription: Post to Twitter\nrequires:\n  env: [B]");
    let skill = same.skill.clone().unwrap_or_else(|| panic!("{same:#?}"));
    assert_eq!(skill.shape, Shape::Both);
    assert_eq!(skill.body.as_deref(), Some("Body\n"));
    assert_eq!(skill.secrets.len(), 2);
    let other = with("name: other\ndescription: Different\nversion: 3.0.0");
    let said = messages(&other).join("\n");
    assert!(said.contains("the id is \"social-media-apis\" and \"other\""), "{said}");
    assert!(said.contains("the version is \"2.1.0\" and \"3.0.0\""), "{said}");
    assert!(said.contains("the description is \"Post to Twitter\" and \"Different\""), "{said}");
}
