//! What outside judges say of the MCP server: the protocol's own conformance suite, for both generations, and the MCP
//! Inspector. They run beside a real hive, with the node of the agent image.

use std::{path::PathBuf, process::Command, time::Instant};

use serde_json::json;

use crate::hive::{PATIENCE, TestHive};

/// Where `make judges` puts them.
fn judges() -> PathBuf {
    let program = std::env::current_exe().unwrap();
    let found = program.ancestors().map(|folder| folder.join("judges/npm"));
    let mut found = found.filter(|folder| folder.join("installed.json").is_file());
    found.next().expect("the MCP judges are not installed: run `make judges`")
}

/// A hive that listens, whose agent has the tools that the suite calls; its port and token.
async fn hive() -> (TestHive, String, String) {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut hive = TestHive::new("[agents.one]\nskills = [\"conform@1.0.0\", \"kit@1.0.0\"]\n");
    let config = std::fs::read_to_string(hive.path("skep.toml")).unwrap();
    let config = config.replace("listen = \"none\"", &format!("listen = \"127.0.0.1:{port}\""));
    hive.write("skep.toml", &config);
    let server = json!({ "name": "fixture", "command": "node", "args": ["fixture.mjs"] });
    hive.write("skills/conform@1.0.0/fixture.mjs", include_str!("../judges/fixture.mjs"));
    // What one server cannot do hides nothing of another.
    let broken = json!({ "name": "broken", "command": "false" });
    let newest = json!({ "name": "newest", "command": "node", "args": ["fixture.mjs", "newest"] });
    hive.skill("conform", "1.0.0", &json!({ "mcpServers": [broken, server, newest] }));
    hive.tools("kit", &[("look.sh", "#!/bin/bash\n# Looks.\necho \"$1\"\n")], &json!({}));
    hive.start().await;
    hive.running("one").await;
    let token = std::fs::read_to_string(hive.path(".skep/token")).unwrap().trim().to_owned();
    (hive, port.to_string(), token)
}

impl TestHive {
    /// Waits until the fixture's server told of its tools.
    async fn has_the_suites_tools(&self) {
        let began = Instant::now();
        while !self.text("/v1/agents/one/tools?limit=1000").await.contains("test_simple_text") {
            assert!(began.elapsed() < PATIENCE, "the fixture's tools are never listed: {}", self.log());
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
    }
}

/// Runs a script beside the hive, with the judges in `/judges` and `tests/judges` in `/ours`.
async fn judged(port: &str, token: &str, script: String) -> (bool, String, String) {
    let mut command = Command::new("docker");
    command.args(["run", "--rm", "--network", "host", "--user", "0:0", "--workdir", "/tmp"]);
    command.args(["-e", "HOME=/tmp/home", "-e", "NO_COLOR=1"]);
    command.args(["-e", &format!("PORT={port}"), "-e", &format!("TOKEN={token}")]);
    command.args(["-v", &format!("{}:/judges:ro", judges().display())]);
    command.args(["-v", concat!(env!("CARGO_MANIFEST_DIR"), "/tests/judges:/ours:ro")]);
    command.args(["skep-agent:latest", "bash", "-euc", &script]);
    let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.success(), text(&output.stdout), text(&output.stderr))
}

/// The suite, behind a proxy that adds the token.
fn suite(what: &str) -> String {
    format!(
        "mkdir -p $HOME; node /ours/with-token.mjs $PORT $TOKEN > port & until [ -s port ]; do sleep 0.1; done; \
         /judges/node_modules/.bin/conformance server --url http://localhost:$(cat port)/mcp {what} -o out 2>&1"
    )
}

async fn conforms(version: &str) {
    let (hive, port, token) = hive().await;
    hive.has_the_suites_tools().await;
    let what = format!("--requirements {version} --expected-failures /ours/conformance-{version}.yml");
    let (fine, said, _) = judged(&port, &token, suite(&what)).await;
    assert!(fine, "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_conformance_suite_passes_for_2026_07_28() {
    conforms("2026-07-28").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_conformance_suite_passes_for_2025_11_25() {
    conforms("2025-11-25").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_conformance_suite_is_content_with_the_skills() {
    let (_hive, port, token) = hive().await;
    for scenario in ["directory", "enumeration", "manifest"] {
        let (fine, said, _) =
            judged(&port, &token, suite(&format!("--scenario sep-2640-skills-{scenario}"))).await;
        assert!(fine, "{scenario}: {said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_inspector_lists_and_calls() {
    let (_hive, port, token) = hive().await;
    let inspect = async |what: &str| -> String {
        let script = format!(
            "mkdir -p $HOME; /judges/node_modules/.bin/mcp-inspector --cli --server-url http://127.0.0.1:$PORT/mcp \
             --transport http --header \"Authorization: Bearer $TOKEN\" --stored-auth-only --format json {what}"
        );
        let (fine, said, why) = judged(&port, &token, script).await;
        assert!(fine, "{what}: {said}\n{why}");
        said
    };
    for era in ["legacy", "modern"] {
        let listed = inspect(&format!("--protocol-era {era} --method tools/list")).await;
        assert!(listed.contains("\"look\"") && listed.contains("\"get_tool_catalog\""), "{listed}");
        let call = "--method tools/call --tool-name look --tool-args-json '{\"hive\":7}'";
        let called = inspect(&format!("--protocol-era {era} {call}")).await;
        assert!(called.contains("hive") && called.contains('7'), "{called}");
    }
    let skills = inspect("--method skills/list --verify").await;
    assert!(skills.contains("skill://kit/SKILL.md"), "{skills}");
}
