//! Agents as a user sees them: they come up as configured, and a saved change touches only what it must.

use serde_json::json;

use crate::hive::{TestHive, holding};

#[tokio::test(flavor = "multi_thread")]
async fn agents_come_up_with_their_skills_prompt_and_own_uid() {
    let hive = TestHive::new(
        "[agents.one]\ndescription = \"First\"\nskills = [\"basic-tools\", \"report@^1\"]\n[agents.two]\n",
    );
    hive.skill("report", "1.0.0", &json!({ "dependencies": ["basic-tools@1.0.0"] }));
    hive.skill("report", "1.2.0", &json!({}));
    let mut hive = hive;
    hive.start().await;
    let one = hive.running("one").await;
    let two = hive.running("two").await;
    let skills: Vec<_> =
        one["skills"].as_array().unwrap().iter().map(|s| format!("{}@{}", s["id"], s["version"])).collect();
    assert_eq!(skills, ["\"basic-tools\"@\"1.0.0\"", "\"report\"@\"1.2.0\""]);
    assert_eq!(two["skills"], json!([]));
    assert!(one["warnings"][0].as_str().unwrap().contains("basic-tools"), "a bare id warns: {one:#}");
    let seen =
        hive.sh("one", "id -u; cat /skills/report/context/instructions.md; ls /skills; pwd; whoami").await;
    let out = seen["stdout"].as_str().unwrap();
    assert!(
        out.contains("How to use report 1.2.0.\nbasic-tools\ncustom\nreport\n/workspace\nagent\n"),
        "{out}"
    );
    let other = hive.sh("two", "id -u").await;
    assert_ne!(out.lines().next(), other["stdout"].as_str().unwrap().lines().next(), "a uid each");
    let prompt = hive.text("/v1/agents/one/prompt").await;
    assert!(prompt.contains("## report (v1.2.0)\n\nHow to use report 1.2.0."), "{prompt}");
    let inside = hive.sh("one", "cat /skep/prompt.md").await;
    assert_eq!(inside["stdout"], prompt);
    let lock = std::fs::read_to_string(hive.path("skep.lock")).unwrap();
    assert!(lock.contains("[agents.one.skills.report]\nversion = \"1.2.0\""), "{lock}");
    let registry: serde_json::Value =
        serde_json::from_slice(&std::fs::read(hive.path("registry/skills.json")).unwrap()).unwrap();
    let report = registry["skills"].as_array().unwrap().iter().find(|s| s["id"] == "report").unwrap();
    assert_eq!(report["versions"], json!(["1.2.0", "1.0.0"]));
    assert_eq!(report["usedBy"], json!(["one"]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_reaches_processes_of_its_agent_and_nothing_else() {
    let canary = "canary-5ecret-value-91";
    let mut hive = TestHive::new(
        "[agents.with]\nskills = [\"keyed@1.0.0\"]\nmain = [\"bash\", \"-c\", \"echo main has $KEY; sleep 1000\"]\n\
         [agents.without]\nskills = [\"basic-tools@1.0.0\"]\n",
    );
    hive.skill("keyed", "1.0.0", &json!({ "envVars": ["KEY", "OTHER"] }));
    hive.write("secrets/env.json", &json!({ "KEY": canary, "UNDECLARED": "never-given-away" }).to_string());
    hive.start().await;
    let view = hive.running("with").await;
    hive.running("without").await;
    assert_eq!(view["missing_secrets"], json!(["OTHER"]));
    let length = hive.sh("with", "echo ${#KEY} ${#UNDECLARED}; echo $KEY; echo $KEY | base64").await;
    let out = length["stdout"].as_str().unwrap();
    assert!(out.starts_with("22 0\n***\n"), "delivered, and masked in the answer: {out}");
    assert!(!out.contains("Y2FuYXJ5"), "masked in base64 too: {out}");
    assert_eq!(hive.sh("without", "echo ${#KEY}").await["stdout"], "0\n");
    let logs = hive.text("/v1/agents/with/logs").await;
    assert_eq!(logs, "main has ***\n");
    let inspected = crate::bare::docker(&["inspect", &hive.container("with")]);
    assert!(!inspected.contains(canary));
    for path in ["/v1/agents", "/v1/secrets", "/v1/hive", "/metrics", "/openapi.json"] {
        assert!(!hive.text(path).await.contains(canary), "{path}");
    }
    // The spool of `main` holds what it printed; everything else must not know the value.
    let leaks: Vec<_> = holding(hive.dir.path(), canary.as_bytes())
        .into_iter()
        .filter(|p| !p.ends_with("secrets/env.json") && !p.to_string_lossy().contains("/spool/"))
        .collect();
    assert_eq!(leaks, Vec::<std::path::PathBuf>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_saved_change_touches_only_what_it_concerns_and_a_bad_one_nothing() {
    let config = |memory: &str, report: &str| {
        format!("[agents.kept]\n[agents.changed]\nmemory = \"{memory}\"\nskills = [\"report@{report}\"]\n")
    };
    let mut hive = TestHive::new(&config("128MiB", "1.0.0"));
    hive.skill("report", "1.0.0", &json!({}));
    hive.skill("report", "2.0.0", &json!({}));
    hive.start().await;
    let kept = hive.running("kept").await["container_id"].clone();
    let changed = hive.running("changed").await["container_id"].clone();

    // Another version of a skill: swapped in the running container.
    hive.configure(&config("128MiB", "2.0.0"));
    hive.until("changed", "given report 2", |v| v["skills"][0]["version"] == "2.0.0").await;
    let seen = hive.sh("changed", "cat /skills/report/context/instructions.md").await;
    assert_eq!(seen["stdout"], "How to use report 2.0.0.\n");
    assert_eq!(hive.agent("changed").await["container_id"], changed);

    // A mistake: told, and nothing is touched.
    hive.configure("[agents.changed]\nmemry = \"1GiB\"\n");
    for _ in 0..100 {
        if hive.get("/v1/hive").await["config_faults"][0].is_string() {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    let fault = hive.get("/v1/hive").await["config_faults"][0].as_str().unwrap().to_owned();
    assert!(fault.contains("skep.toml:6:1") && fault.contains("memory"), "{fault}");
    assert_eq!(hive.running("kept").await["container_id"], kept);

    // Another limit: a new container for this agent alone.
    hive.configure(&config("256MiB", "2.0.0"));
    hive.until("changed", "replaced", |v| v["status"] == "running" && v["container_id"] != changed).await;
    assert_eq!(hive.inspect("changed", "{{.HostConfig.Memory}}"), (256 << 20).to_string());
    assert_eq!(hive.agent("kept").await["container_id"], kept);

    // Gone from the file: gone.
    hive.configure("[agents.kept]\n");
    for _ in 0..200 {
        if hive.containers().len() == 1 {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    assert_eq!(hive.containers(), [kept.as_str().unwrap()]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_edits_its_soul_only_where_it_may() {
    let mut hive = TestHive::new(
        "[agents.fixed]\nsoul = \"souls/fixed.md\"\n[agents.free]\nsoul = \"souls/free.md\"\nallow_soul_edit = true\n",
    );
    hive.write("souls/fixed.md", "I am fixed.\n");
    hive.write("souls/free.md", "I am free.\n");
    hive.start().await;
    let fixed = hive.running("fixed").await["container_id"].clone();
    hive.running("free").await;
    let denied = hive.sh("fixed", "cat /soul.md; echo more >> /soul.md").await;
    assert_eq!(denied["stdout"], "I am fixed.\n");
    assert_ne!(denied["exit_code"], 0);
    assert_eq!(hive.sh("free", "echo 'I learned.' >> /soul.md").await["exit_code"], 0);
    let learned = "I am free.\nI learned.\n";
    for _ in 0..200 {
        if hive.text("/v1/agents/free/prompt").await.contains("I learned.") {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    assert_eq!(std::fs::read_to_string(hive.path("souls/free.md")).unwrap(), learned);
    assert!(hive.text("/v1/agents/free/prompt").await.contains("I learned."));
    hive.write("souls/fixed.md", "I changed.\n");
    for _ in 0..100 {
        if hive.sh("fixed", "cat /soul.md").await["stdout"] == "I changed.\n" {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    assert_eq!(hive.sh("fixed", "cat /soul.md").await["stdout"], "I changed.\n");
    assert_eq!(hive.agent("fixed").await["container_id"], fixed, "without a restart");
}
