//! What skills need and what their variables are, in a real container: requirements, values, the prompt.

use std::fs;

use serde_json::{Value, json};

use crate::{
    engine_faults::eventually,
    hive::{TestHive, holding},
};

const SECRET: &str = "canary-91c4-of-a-variable";
const SHORT: &str = "q7";

/// A skill of both shapes, so that its context stands in the prompt.
fn skill(hive: &TestHive, id: &str, frontmatter: &str, context: &str) {
    let manifest = json!({
        "id": id, "name": id, "version": "1.0.0", "description": "does it", "owner": "operator",
        "context": ["context.md"],
    });
    hive.write(&format!("skills/{id}/manifest.json"), &manifest.to_string());
    let text = format!("---\nname: {id}\ndescription: does it\n{frontmatter}---\nBody\n");
    hive.write(&format!("skills/{id}/SKILL.md"), &text);
    hive.write(&format!("skills/{id}/context.md"), context);
}

async fn prompt(hive: &TestHive) -> String {
    hive.text("/v1/agents/a/prompt").await
}

#[tokio::test(flavor = "multi_thread")]
async fn variables_come_from_five_sources_in_order_and_secret_ones_are_seen_in_the_container_alone() {
    let mut hive =
        TestHive::new("[registry]\nenvironment = [\"FROM_ENV\"]\n[agents.a]\nskills = [\"vars\"]\n");
    hive.env.push(("FROM_ENV".into(), "of-the-environment".into()));
    hive.env.push(("FORBIDDEN".into(), "never-of-the-environment".into()));
    let vars = "vars:\n  OWN: x\n  MINE: x\n  ALL: x\n  KEY: { secret: true }\n  PIN: { secret: true }\n  \
                GRANTED: { secret: true }\n  SPARE: { secret: true, default: d }\n  FROM_ENV:\n  FORBIDDEN: { description: d }\n  DEFAULT: by-default\n";
    let names =
        ["OWN", "MINE", "ALL", "KEY", "PIN", "GRANTED", "FROM_ENV", "FORBIDDEN", "DEFAULT", "UNKNOWN"];
    let context: String = names.iter().map(|name| format!("{name}={{{{{name}}}}}\n")).collect();
    skill(&hive, "vars", vars, &context);
    hive.write("skills/vars/vars.json", &json!({ "OWN": "own", "KEY": SECRET, "PIN": SHORT }).to_string());
    let shared = json!({ "vars": { "OWN": "no", "MINE": "mine" }, "_global": { "MINE": "no", "ALL": 7 } });
    hive.write("variables.json", &shared.to_string());
    hive.write("secrets/env.json", r#"{"GRANTED": "granted-secret-value"}"#);
    hive.start().await;
    let view = hive.running("a").await;
    assert_eq!(view["missing_secrets"], json!([]), "each has a value: {view:#}");
    let inside = hive.sh("a", "cat /skep/prompt.md | base64 -w0").await;
    let laid = fs::read_to_string(hive.agent_dir("a").join("skep/prompt.md")).unwrap();
    assert!(!inside["stdout"].as_str().unwrap().is_empty());
    let told = format!(
        "OWN=own\nMINE=mine\nALL=7\nKEY={SECRET}\nPIN={SHORT}\nGRANTED=granted-secret-value\n\
         FROM_ENV=of-the-environment\nFORBIDDEN={{{{FORBIDDEN}}}}\nDEFAULT=by-default\nUNKNOWN={{{{UNKNOWN}}}}"
    );
    assert!(laid.contains(&told), "{laid}");
    let shown = prompt(&hive).await;
    assert!(shown.contains("KEY=***\nPIN=***\nGRANTED=***\nFROM_ENV=of-the-environment"), "{shown}");
    assert_eq!(hive.sh("a", "grep KEY /skep/prompt.md").await["stdout"], "KEY=***\n", "output is masked too");
    let seen = hive.sh("a", "ls /skills/vars; cat /skills/vars/vars.json").await;
    assert_eq!(seen["stdout"], "SKILL.md\ncontext.md\nmanifest.json\n", "{seen:#}");
    let holders = holding(&hive.path(".skep"), SECRET.as_bytes());
    assert_eq!(holders, [hive.agent_dir("a").join("skep/prompt.md")]);
    assert!(!hive.log().contains(SECRET));

    // An edit takes effect without a new version.
    let version = hive.agent("a").await["skills"][0].clone();
    hive.write("skills/vars/vars.json", &json!({ "OWN": "edited", "KEY": SECRET }).to_string());
    eventually("the edit is there", async || prompt(&hive).await.contains("OWN=edited\n")).await;
    assert_eq!(hive.agent("a").await["skills"][0], version);
}

fn missing(view: &Value) -> Vec<String> {
    let all = view["unavailable"].as_array().cloned().unwrap_or_default();
    all.iter().map(|one| format!("{} {}", one["skill"].as_str().unwrap(), one["missing"])).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_skill_that_misses_something_is_unavailable_with_the_reason_and_not_in_the_prompt() {
    let mut hive = TestHive::new(
        "[agents.a]\nskills = [\"bash-skill\", \"ghost\", \"above\", \"keyed\", \"var\"]\nmain = [\"sh\", \"-c\", \"cp /skep/prompt.md /workspace/seen; sleep 1000\"]\n",
    );
    skill(&hive, "bash-skill", "requires: { binary: [bash, sh] }\n", "Uses bash.");
    skill(&hive, "ghost", "requires: { binary: [bash, no-such-program, cd] }\n", "Uses a ghost.");
    skill(&hive, "above", "requires: { skills: [ghost] }\n", "Stands on the ghost.");
    skill(&hive, "keyed", "requires: { env: [NEEDED_KEY] }\n", "Needs a key.");
    skill(&hive, "var", "vars: { CITY: { required: true } }\n", "Lives in {{CITY}}.");
    hive.start().await;
    let view = hive.running("a").await;
    let expected = [
        r#"above ["skill:ghost"]"#,
        r#"ghost ["binary:no-such-program","binary:cd"]"#,
        r#"keyed ["env:NEEDED_KEY"]"#,
        r#"var ["env:CITY"]"#,
    ];
    assert_eq!(missing(&view), expected, "{view:#}");
    let warnings = view["warnings"].to_string();
    assert!(warnings.contains("skill ghost cannot be used: it misses binary:no-such-program"), "{warnings}");
    let shown = prompt(&hive).await;
    assert!(shown.contains("Uses bash."), "{shown}");
    for hidden in ["ghost", "Needs a key", "Lives in"] {
        assert!(!shown.contains(hidden), "{hidden}: {shown}");
    }
    let first = eventually_text(&hive, "cat /workspace/seen").await;
    assert!(first.contains("Uses bash.") && !first.contains("ghost"), "main never reads more: {first}");

    hive.write("variables.json", r#"{"_global": {"CITY": "Bern"}}"#);
    let (status, answer) =
        hive.send("PUT", "/v1/secrets/NEEDED_KEY", Some(json!({ "value": "a-key-of-it" }))).await;
    assert!(status < 300, "{answer:#}");
    let view = hive.until("a", "better", |view| missing(view).len() == 2).await;
    assert_eq!(missing(&view), expected[..2]);
    let shown = prompt(&hive).await;
    assert!(shown.contains("Needs a key.") && shown.contains("Lives in Bern."), "{shown}");
}

async fn eventually_text(hive: &TestHive, script: &str) -> String {
    eventually("it is there", async || hive.sh("a", script).await["exit_code"] == 0).await;
    hive.sh("a", script).await["stdout"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_misses_a_name_makes_its_skill_unavailable_and_its_tools_refuse_telling_it() {
    let mut hive = TestHive::new("[agents.one]\nskills = [\"served@1.0.0\", \"above@1.0.0\"]\n");
    let server = json!([{ "name": "s", "type": "local", "command": "true",
        "env": { "URL": "https://${HOST_NAME}/", "KEY": "${SERVER_KEY}" } }]);
    let tool = [("say.sh", "#!/bin/bash\n# Says.\necho said\n")];
    hive.tools("served", &tool, &json!({ "mcpServers": server }));
    hive.tools(
        "above",
        &[("higher.sh", "#!/bin/bash\n# Higher.\necho higher\n")],
        &json!({ "dependencies": ["served@1.0.0"] }),
    );
    hive.write("secrets/env.json", r#"{"HOST_NAME": "host-of-the-server"}"#);
    hive.start().await;
    let view = hive.running("one").await;
    assert_eq!(missing(&view), [r#"above ["skill:served"]"#, r#"served ["env:SERVER_KEY"]"#], "{view:#}");
    let warnings = view["warnings"].to_string();
    assert!(warnings.contains("skill served cannot be used: it misses env:SERVER_KEY"), "{warnings}");
    for (tool, misses) in [("say", "env:SERVER_KEY"), ("higher", "skill:served")] {
        let run = hive.ran(tool, json!({ "tool": tool })).await;
        assert_eq!(run["status"], "failed", "{run:#}");
        let error = run["error"].as_str().unwrap();
        assert!(error.contains("cannot be used") && error.contains(misses), "{error}");
    }
    let (status, answer) =
        hive.send("PUT", "/v1/secrets/SERVER_KEY", Some(json!({ "value": "a-key-of-the-server" }))).await;
    assert!(status < 300, "{answer:#}");
    hive.until("one", "better", |view| missing(view).is_empty()).await;
    for tool in ["say", "higher"] {
        let run = hive.ran(&format!("{tool}-again"), json!({ "tool": tool })).await;
        assert_eq!(run["status"], "succeeded", "{run:#}");
    }
}
