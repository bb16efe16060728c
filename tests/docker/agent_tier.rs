//! The agent tier as its jobs see it: what the agent's command gets, what becomes of what it says, and how it ends.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::{
    clis,
    hive::{TestHive, holding},
    work::SHELL,
};

/// A hive with the agent `one`, whose command is a shell, and these keys; it runs.
async fn shell(more: &str) -> TestHive {
    let hive = TestHive::up(&format!("[agents.one]\n{SHELL}{more}\n")).await;
    hive.running("one").await;
    hive
}

#[tokio::test(flavor = "multi_thread")]
async fn instructions_stand_wherever_the_command_names_them_and_nowhere_else() {
    let hive = TestHive::up(
        "[agents.one]\ncommand = [\"bash\", \"-c\", 'printf \"<%s>\" \"$@\"; wc -c', \"sh\", \
         \"a{instructions}z\", \"{instructions}/{instructions}\", \"{Instructions} {}\"]\n",
    )
    .await;
    hive.running("one").await;
    let text = "say \"it's $HOME\"\n{instructions} `id` \u{fc}";
    let run = hive.told("words", text).await;
    assert_eq!(run["status"], "succeeded", "{run:#}");
    let said = hive.said(&run).await;
    assert_eq!(said, format!("<a{text}z><{text}/{text}><{{Instructions}} {{}}>0\n"), "and no standard input");
    let long = "x".repeat(90_000);
    let run = hive.told("too-long", &long).await;
    assert_eq!(run["status"], "failed", "{run:#}");
    assert!(run["error"].as_str().unwrap().contains("Argument list too long"), "{run:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_without_a_place_for_them_reads_its_instructions() {
    let hive = TestHive::up("[agents.one]\ncommand = [\"cat\"]\n[agents.two]\n").await;
    hive.running("one").await;
    let text = format!("{}\n\nlast line without end", "\u{fc}bung macht Meister. ".repeat(4_000));
    let run = hive.told("read", &text).await;
    assert_eq!((&run["status"], &run["exit_code"]), (&json!("succeeded"), &json!(0)));
    assert_eq!(hive.said(&run).await, text);
    assert_eq!(run["summary"], "last line without end");
    hive.running("two").await;
    let body = json!({ "agent": "two", "name": "no-command", "manual": true, "instructions": "x" });
    let (status, answer) = hive.send("POST", "/v1/jobs", Some(body)).await;
    assert_eq!(status, 422);
    assert!(answer["detail"].as_str().unwrap().contains("agent two has no `command`"), "{answer:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_environment_of_a_run_is_the_containers_the_secrets_and_four_names_more() {
    let hive = TestHive::new(&format!("[agents.one]\nskills = [\"kit@1.0.0\"]\n{SHELL}"));
    let ask = json!(["KEY"]);
    hive.tools("kit", &[("a.sh", "#!/bin/bash\ntrue\n")], &json!({ "envVars": ask }));
    hive.write("secrets/env.json", "{\"KEY\": \"swordfish-77\"}");
    let mut hive = hive;
    hive.start().await;
    hive.running("one").await;
    let body = json!({ "instructions": "env -0 > env", "required_tools": ["a", "kit/a"], "max_steps": 7 });
    let run = hive.ran("morning post", body).await;
    assert_eq!(run["status"], "succeeded", "{run:#}");
    let read = hive.sh("one", "tr '\\0' '\\n' < env | LC_ALL=C sort; echo ---; env | LC_ALL=C sort").await;
    let (of_run, of_exec) = read["stdout"].as_str().unwrap().split_once("---\n").unwrap();
    let more: BTreeSet<&str> = of_run.lines().filter(|line| !of_exec.contains(*line)).collect();
    let expected = [
        format!("SKEP_RUN_ID={}", run["id"]),
        "SKEP_JOB=morning post".to_owned(),
        "SKEP_REQUIRED_TOOLS=[\"a\",\"kit/a\"]".to_owned(),
        "SKEP_MAX_STEPS=7".to_owned(),
    ];
    assert_eq!(more, expected.iter().map(String::as_str).collect());
    for line in ["KEY=***", "SKEP_AGENT=one", "HOME=/workspace/home", "PWD=/workspace"] {
        assert!(of_run.lines().any(|l| l == line), "{line} in\n{of_run}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_runs_end_is_its_exit_code_and_its_summary_the_last_it_said_or_wrote() {
    let hive = shell("").await;
    let cases = [
        ("exit", "echo one; echo; echo two; echo 'no credit' >&2; exit 3", "failed", 3, "two"),
        ("quiet", "true", "succeeded", 0, ""),
        (
            "speak",
            "echo I looked.; echo; echo Then I wrote; echo the report.",
            "succeeded",
            0,
            "Then I wrote the report.",
        ),
        (
            "write",
            "mkdir -p .skep; echo ' Report written. ' > .skep/summary; echo noise",
            "succeeded",
            0,
            "Report written.",
        ),
        ("stale", "echo nothing written this time", "succeeded", 0, "nothing written this time"),
        ("own", "echo mine > .skep/summary-$SKEP_RUN_ID; echo noise", "succeeded", 0, "mine"),
        ("link", "ln -sf /etc/hostname .skep/summary; echo not followed", "succeeded", 0, "not followed"),
        ("away", "rm -r .skep; ln -s /etc .skep; echo not entered", "succeeded", 0, "not entered"),
        ("missing", "no-such-program", "failed", 127, "it ended with exit code 127"),
        ("killed", "kill -9 $$", "failed", 137, "it was killed by signal 9"),
    ];
    for (name, script, status, code, summary) in cases {
        let run = hive.told(name, script).await;
        assert_eq!((&run["status"], &run["exit_code"]), (&json!(status), &json!(code)), "{run:#}");
        let told = run["summary"].as_str().unwrap_or_default();
        assert!(told.starts_with(summary) && told.is_empty() == summary.is_empty(), "{summary:?}: {run:#}");
        assert_eq!(run["result"], Value::Null, "an agent's words are no result: {run:#}");
        assert_eq!(run["error"].is_null(), status == "succeeded", "{run:#}");
        match name {
            "exit" => assert_eq!(run["error"], "it ended with exit code 3: no credit"),
            "missing" => assert!(run["error"].as_str().unwrap().contains("command not found"), "{run:#}"),
            _ => {}
        }
    }
    let left = hive.sh("one", "rm .skep; ls .skep").await;
    assert_ne!(left["exit_code"], 0, "nothing was made in the agent's place");
}

/// Leaves its process group, its session and its parent, and does not end when it is told to.
const STUBBORN: &str = "trap '' TERM; setsid bash -c 'trap \"\" TERM; (sleep 5001 & sleep 5002)' & \
                        (setsid sleep 5003 &) ; echo ready; sleep 5004";

#[tokio::test(flavor = "multi_thread")]
async fn a_run_whose_time_is_up_is_terminated_then_killed_with_all_it_started() {
    let hive = shell("stop_grace = \"1s\"").await;
    let run = hive.ran("stubborn", json!({ "instructions": STUBBORN, "timeout": "2s" })).await;
    assert_eq!(run["status"], "timed_out", "{run:#}");
    assert_eq!(run["error"], "its time was up");
    assert_eq!(run["summary"], "ready", "{run:#}");
    assert_eq!(hive.sh("one", "pgrep -c '^sleep$' || true").await["stdout"], "0\n");
    let polite = "trap 'echo saved; exit 0' TERM; echo begun; sleep 5005 & wait";
    let run = hive.ran("polite", json!({ "instructions": polite, "timeout": "2s" })).await;
    assert_eq!((&run["status"], &run["exit_code"]), (&json!("timed_out"), &json!(0)), "{run:#}");
    assert_eq!(hive.said(&run).await, "begun\nsaved\n");
    assert_eq!(hive.sh("one", "pgrep -c '^sleep$' || true").await["stdout"], "0\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_run_is_dead_when_it_is_told_to_be_over() {
    let hive = shell("stop_grace = \"1s\"").await;
    let job = hive.job("stubborn", json!({ "instructions": STUBBORN })).await;
    let id = hive.run(job).await;
    hive.sh_until("one", "pgrep -f '^sleep 5004$'").await;
    let (status, _) = hive.send("POST", &format!("/v1/runs/{id}/cancel"), None).await;
    assert_eq!(status, 202);
    let run = hive.over(id).await;
    assert_eq!((&run["status"], &run["error"]), (&json!("cancelled"), &json!("it was cancelled")), "{run:#}");
    assert_eq!(hive.sh("one", "pgrep -c '^sleep$' || true").await["stdout"], "0\n");
    let (status, answer) = hive.send("POST", &format!("/v1/runs/{id}/cancel"), None).await;
    assert_eq!(
        (status, answer["detail"].as_str().unwrap()),
        (409, format!("run {id} is over: it is cancelled").as_str())
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_takes_too_much_memory_is_told_apart_and_hurts_nobody_else() {
    let hive = shell("memory = \"128MiB\"").await;
    let other = hive
        .job("other", json!({ "instructions": "until [ -e done ]; do sleep 0.05; done; echo fine" }))
        .await;
    let other = hive.run(other).await;
    let eat = "python3 -c 'x = b\"x\" * (1 << 30)'";
    let run = hive.told("eater", &format!("exec {eat}")).await;
    assert_eq!((&run["status"], &run["exit_code"]), (&json!("failed"), &json!(137)), "{run:#}");
    assert_eq!(run["error"], "it ran out of memory");
    let run = hive.told("child", &format!("{eat} || echo my child died")).await;
    assert_eq!((&run["status"], &run["summary"]), (&json!("succeeded"), &json!("my child died")), "{run:#}");
    hive.sh("one", "touch done").await;
    assert_eq!(hive.over(other).await["status"], "succeeded");
}

#[tokio::test(flavor = "multi_thread")]
async fn two_runs_beside_each_other_keep_what_is_theirs() {
    let hive = shell("").await;
    // Each says its name, waits for the other's file, and writes a summary that could be anybody's.
    let script = "mkdir -p .skep; touch met-$SKEP_RUN_ID; until [ $(ls met-* | wc -l) = 2 ]; do sleep 0.05; done; \
                  echo from $SKEP_RUN_ID > .skep/summary; echo I am $SKEP_RUN_ID";
    let job = hive.job("pair", json!({ "instructions": script, "overlap": "allow" })).await;
    let (a, b) = (hive.run(job).await, hive.run(job).await);
    for id in [a, b] {
        let run = hive.over(id).await;
        assert_eq!(run["status"], "succeeded", "{run:#}");
        assert_eq!(hive.said(&run).await, format!("I am {id}\n"));
        assert_eq!(run["summary"], format!("I am {id}"), "not one that the other may have written");
    }
    let script = script.replace("met-", "again-").replace(".skep/summary", ".skep/summary-$SKEP_RUN_ID");
    let job = hive.job("names", json!({ "instructions": script, "overlap": "allow" })).await;
    for id in [hive.run(job).await, hive.run(job).await] {
        assert_eq!(hive.over(id).await["summary"], format!("from {id}"));
    }
    assert_eq!(hive.sh("one", "ls .skep").await["stdout"], "", "what was taken is gone");
}

/// Says a value in every way that an accident may.
const LEAK: &str = r#"
echo "plain $CANARY"; echo "$CANARY" >&2; printf %s "$CANARY" | base64
python3 -c '
import json, os, sys, time
v = os.environ["CANARY"]
for c in v:
    sys.stdout.write(c); sys.stdout.flush(); time.sleep(0.002)
print(json.dumps({"v": v}), v.encode().hex())'
mkdir -p .skep; echo "wrote $CANARY" > .skep/summary; echo "failed with $CANARY" >&2; exit 4
"#;

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_that_a_run_lets_out_is_in_nothing_that_skep_keeps_or_tells() {
    let canary = "kanarie-4711-\u{fc}/bird";
    let mut hive = TestHive::new(&format!("[agents.one]\nskills = [\"kit@1.0.0\"]\n{SHELL}"));
    let ask = json!(["CANARY"]);
    let escaped = "#!/usr/bin/env python3\nimport os\nv = ''.join('\\\\u%04x' % ord(c) for c in os.environ['CANARY'])\n\
                   print('{\"success\": false, \"error\": \"' + v + '\", \"' + v + '\": [\"' + v + '\"]}')\n";
    hive.tools("kit", &[("escaped.py", escaped)], &json!({ "envVars": ask }));
    hive.write("secrets/env.json", &json!({ "CANARY": canary }).to_string());
    hive.start().await;
    hive.running("one").await;
    let agent = hive.told("agent", LEAK).await;
    assert_eq!((&agent["status"], &agent["summary"]), (&json!("failed"), &json!("wrote ***")), "{agent:#}");
    assert_eq!(agent["error"], "it ended with exit code 4: ***\nfailed with ***", "{agent:#}");
    let said = hive.said(&agent).await;
    assert!(said.starts_with("plain ***\n") && said.contains("{\"v\": \"***\"}"), "{said}");
    let direct = hive.ran("direct", json!({ "tool": "escaped", "args": {} })).await;
    assert_eq!(direct["result"], json!({ "success": false, "error": "***", "***": ["***"] }), "{direct:#}");
    assert_eq!((&direct["error"], &direct["summary"]), (&json!("***"), &json!("***")));
    // A value that is replaced while a run holds it is still a secret.
    let job = hive
        .job("holder", json!({ "instructions": "until [ -e go ]; do sleep 0.05; done; echo $CANARY" }))
        .await;
    let id = hive.run(job).await;
    hive.run_until(id, "running", |run| run["status"] == "running").await;
    let (status, _) =
        hive.send("PUT", "/v1/secrets/CANARY", Some(json!({ "value": "another-bird-0815" }))).await;
    assert_eq!(status, 200);
    hive.sh("one", "touch go").await;
    let holder = hive.over(id).await;
    assert_eq!(holder["summary"], "***", "{holder:#}");
    assert_eq!(hive.said(&holder).await, "***\n");
    hive.sh("one", "rm -rf .skep").await;
    let lists = [hive.text("/v1/runs").await, hive.text("/v1/jobs").await].concat();
    for form in [canary, "kanarie-4711", "a2FuYXJpZS00NzEx", "6b616e617269652d34373131"] {
        let found = holding(&hive.path(".skep"), form.as_bytes());
        assert!(found.is_empty(), "{form} is in {found:?}");
        assert!(!lists.contains(form) && !hive.log().contains(form), "{form}");
    }
}

/// A hive with the agent `one` on the image of an agent program, the stand-in for its model, and the skill `kit`.
async fn with_model(image: &'static str, key: &str, config: &str) -> TestHive {
    let image = tokio::task::spawn_blocking(move || clis::build(image)).await.unwrap();
    let mut hive = TestHive::new(&format!(
        "[agents.one]\nimage = \"{image}\"\nmemory = \"1GiB\"\nskills = [\"model@1.0.0\", \"kit@1.0.0\"]\n\
         main = [\"node\", \"/skills/model/scripts/model.mjs\"]\n{config}\n"
    ));
    hive.tools("model", &[], &json!({}));
    hive.write("skills/model@1.0.0/scripts/model.mjs", include_str!("model.mjs"));
    let look = "#!/bin/bash\n# Looks into a hive.\necho \"{\\\"bees\\\": 40000, \\\"asked\\\": $1}\"\n";
    let tools = [("look.sh", look), ("other.sh", "#!/bin/bash\necho never\n")];
    hive.tools("kit", &tools, &json!({ "envVars": [key] }));
    hive.write("secrets/env.json", &json!({ key: "sk-not-a-real-key-0815" }).to_string());
    hive.start().await;
    hive.running("one").await;
    hive.sh_until("one", "curl -s http://127.0.0.1:8099/").await;
    hive
}

/// Everything that was asked of the model.
fn requests(hive: &TestHive) -> Vec<Value> {
    let text = std::fs::read_to_string(hive.agent_dir("one").join("workspace/requests.jsonl")).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .filter(|r: &Value| !r["body"].is_null())
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn claude_code_does_what_a_job_tells_it_with_the_tools_and_steps_that_it_has() {
    let hive = with_model(
        "claude-code",
        "ANTHROPIC_API_KEY",
        "command = [\"claude\", \"-p\", \"{instructions}\", \"--append-system-prompt-file\", \"/skep/prompt.md\", \
         \"--allowedTools\", \"Bash\"]\n\
         env = { ANTHROPIC_BASE_URL = \"http://127.0.0.1:8099\", CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC = \"1\" }",
    )
    .await;
    let call = |tool: &str| {
        format!(
            "$ curl -s --unix-socket /skep/api.sock -H content-type:application/json -d '{{\"hive\": \"no. 7\"}}' \
             http://skep/v1/runs/$SKEP_RUN_ID/tools/{tool}\n"
        )
    };
    let calls = ["look", "other", "look", "look"].map(call).concat();
    let instructions = format!("Look after the bees.\n{calls}Say: The bees are fine, every one.");
    let body = json!({ "instructions": instructions, "required_tools": ["look"], "max_steps": 2 });
    let run = hive.ran("bees", body).await;
    assert_eq!((&run["status"], &run["exit_code"]), (&json!("succeeded"), &json!(0)), "{run:#}");
    assert_eq!(run["summary"], "The bees are fine, every one.");
    assert_eq!(run["steps"], 2, "{run:#}");

    let requests = requests(&hive);
    let last = requests.iter().rfind(|r| r["url"].as_str().unwrap().starts_with("/v1/messages")).unwrap();
    assert_eq!(last["headers"]["x-api-key"], "sk-not-a-real-key-0815");
    let messages = last["body"]["messages"].as_array().unwrap();
    let parts: Vec<&Value> =
        messages.iter().flat_map(|m| m["content"].as_array().into_iter().flatten()).collect();
    let told = parts.iter().filter_map(|p| p["text"].as_str()).any(|text| text.contains(&instructions));
    assert!(told, "the instructions reached the model whole: {messages:#?}");
    let system = last["body"]["system"].as_array().unwrap();
    let system: Vec<&str> = system.iter().filter_map(|block| block["text"].as_str()).collect();
    let prompt = hive.text("/v1/agents/one/prompt").await;
    assert!(prompt.contains("How to use kit.") && system.concat().contains(prompt.trim()), "{system:#?}");
    let results: Vec<String> =
        parts.iter().filter(|p| p["type"] == "tool_result").map(|p| p["content"].to_string()).collect();
    assert_eq!(results.len(), 4, "{results:#?}");
    for (result, words) in
        results.iter().zip(["40000", "it may call look", "\\\"step\\\":2", "max_steps is 2"])
    {
        assert!(result.contains(words), "{words:?} in {result}");
    }
    assert!(results[0].contains("no. 7"), "{results:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn claude_code_sees_and_calls_through_mcp_what_its_run_requires_and_no_more() {
    let hive = with_model(
        "claude-code",
        "ANTHROPIC_API_KEY",
        "command = [\"claude\", \"-p\", \"{instructions}\", \"--append-system-prompt-file\", \"/skep/prompt.md\", \
         \"--mcp-config\", \"/skep/mcp.json\", \"--strict-mcp-config\", \"--allowedTools\", \"mcp__skep\"]\n\
         env = { ANTHROPIC_BASE_URL = \"http://127.0.0.1:8099\", CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC = \"1\", \
         ENABLE_TOOL_SEARCH = \"false\" }",
    )
    .await;
    let call = |tool: &str| format!("@ mcp__skep__{tool} {{\"hive\": \"no. 7\"}}\n");
    let calls = ["look", "other", "look", "look"].map(call).concat();
    let instructions = format!("Look after the bees.\n{calls}Say: The bees are fine.");
    let body = json!({ "instructions": instructions, "required_tools": ["look"], "max_steps": 2 });
    let run = hive.ran("bees", body).await;
    assert_eq!((&run["status"], &run["exit_code"]), (&json!("succeeded"), &json!(0)), "{run:#}");
    assert_eq!((&run["summary"], &run["steps"]), (&json!("The bees are fine."), &json!(2)), "{run:#}");

    let requests = requests(&hive);
    let asked = |r: &&Value| r["url"].as_str().unwrap().starts_with("/v1/messages");
    let last = requests.iter().rfind(asked).unwrap();
    let tools =
        requests.iter().filter(asked).flat_map(|r| r["body"]["tools"].as_array().into_iter().flatten());
    let names = tools.filter_map(|tool| tool["name"].as_str());
    let all: BTreeSet<&str> = names.collect();
    let ours: Vec<&str> = all.iter().copied().filter(|name| name.starts_with("mcp__")).collect();
    assert_eq!(ours, ["mcp__skep__look"], "exactly what the job requires, of {all:?}");
    let messages = last["body"]["messages"].as_array().unwrap();
    let parts = messages.iter().flat_map(|m| m["content"].as_array().into_iter().flatten());
    let results: Vec<String> =
        parts.filter(|part| part["type"] == "tool_result").map(|part| part["content"].to_string()).collect();
    assert_eq!(results.len(), 4, "{results:#?}");
    for (result, words) in results.iter().zip(["40000", "No such tool available", "no. 7", "max_steps is 2"])
    {
        assert!(result.contains(words), "{words:?} in {result}");
    }
}
