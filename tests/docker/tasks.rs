//! Background tasks (systems.md A21) in a real container: queued, run, piped, tried again, durable.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::hive::{PATIENCE, TestHive};

const TOOLS: &[(&str, &str)] = &[
    ("say.sh", "#!/bin/bash\n# Says what it got.\necho \"{\\\"success\\\": true, \\\"result\\\": $1}\"\n"),
    ("fail.sh", "#!/bin/bash\necho again >> tries; echo 'no disk' >&2; exit 5\n"),
    ("slow.sh", "#!/bin/bash\necho began >> slow; sleep 8; echo '{\"done\": true}'\n"),
];

async fn hive() -> TestHive {
    let mut hive = TestHive::new("[agents.one]\nskills = [\"kit@1.0.0\"]\n");
    hive.tools("kit", TOOLS, &json!({}));
    hive.start().await;
    hive.running("one").await;
    hive
}

impl TestHive {
    async fn queued(&self, name: &str, action: Value) -> i64 {
        let body = json!({"name": name, "action": action});
        let (status, task) = self.send("POST", "/v1/tasks", Some(body)).await;
        assert_eq!((status, &task["status"]), (202, &json!("queued")), "{task:#}");
        task["taskId"].as_i64().unwrap()
    }

    /// Waits until a task stands so.
    async fn task(&self, id: i64, status: &str) -> Value {
        let began = Instant::now();
        loop {
            let task = match self.try_get(&format!("/v1/tasks/{id}")).await {
                Some(text) => serde_json::from_str(&text).unwrap(),
                None => Value::Null,
            };
            if task["status"] == status {
                return task;
            }
            assert!(began.elapsed() < PATIENCE, "task {id} is never {status}: {task:#}\n{}", self.log());
            tokio::time::sleep(Duration::from_millis(30)).await;
        }
    }
}

#[allow(clippy::needless_pass_by_value, reason = "reads well at the call")]
fn call(tool: &str, parameters: Value) -> Value {
    json!({"type": "tool_call", "toolName": tool, "parameters": parameters})
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_makes_its_calls_and_its_answer_is_kept() {
    let hive = hive().await;
    let one = hive.queued("one call", call("say", json!({"a": [1, "x"]}))).await;
    let done = hive.task(one, "completed").await;
    assert_eq!(done["result"], json!({"success": true, "result": {"a": [1, "x"]}}));
    assert_eq!((&done["attempt"], &done["error"]), (&json!(1), &Value::Null));
    assert!(done["duration_ms"].is_i64() && done["finished_at"].is_string(), "{done:#}");
    let own = hive.queued("of the hive", call("get_tool_catalog", json!({}))).await;
    let done = hive.task(own, "completed").await;
    assert_eq!(done["result"]["success"], true, "{done:#}");
    // Later steps get what earlier ones answered, with its type.
    let steps = json!([
        {"id": "step1", "toolName": "say", "parameters": {"n": 7, "list": ["a", "b"], "text": "News"}},
        {"id": "catalog", "toolName": "get_tool_catalog"},
        {"id": "step2", "tool": "kit/say", "params": {"n": "{{step1.n}}", "whole": "{{step1.list}}",
            "line": "{{step1.text}} no. {{step1.n}}: {{step1.result.list.1}}", "tools": "{{catalog.data.summary}}"}},
    ]);
    let flow = hive.queued("flow", json!({"type": "workflow", "workflowSteps": steps})).await;
    let done = hive.task(flow, "completed").await;
    let last = &done["result"]["steps"][2];
    assert_eq!((&last["id"], &last["result"]["result"]["n"]), (&json!("step2"), &json!(7)), "{done:#}");
    assert_eq!(last["result"]["result"]["whole"], json!(["a", "b"]));
    assert_eq!(last["result"]["result"]["line"], "News no. 7: b");
    assert!(last["result"]["result"]["tools"].as_str().unwrap().contains(" tools across "), "{done:#}");
    let run = hive.get(&format!("/v1/runs/{}", done["run"])).await;
    assert_eq!(
        (&run["status"], &run["job"], &run["tier"]),
        (&json!("succeeded"), &Value::Null, &json!("direct"))
    );
    // From the inside, through the agent's own door.
    let script = "curl -s --unix-socket /skep/api.sock -H 'content-type: application/json' \
        -d '{\"name\": \"inside\", \"action\": {\"toolName\": \"say\", \"parameters\": {}}}' http://skep/v1/tasks";
    let answer = hive.sh("one", script).await;
    let task: Value = serde_json::from_str(answer["stdout"].as_str().unwrap()).unwrap();
    hive.task(task["taskId"].as_i64().unwrap(), "completed").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_fails_is_tried_four_times_and_its_error_is_a_fact() {
    let hive = hive().await;
    let missing = json!([{"id": "a", "toolName": "say", "parameters": {}}, {"id": "b", "toolName": "say",
        "parameters": {"x": "{{a.titel}}"}}]);
    let bad = hive.queued("bad field", json!({"type": "workflow", "workflowSteps": missing})).await;
    let task = hive.queued("hopeless", call("fail", json!({}))).await;
    for attempt in 1..=4_i64 {
        // The pauses between attempts pass in a moment: 10, 20 and 40 seconds.
        hive.sh_until("one", &format!("test \"$(grep -c again tries)\" = {attempt}")).await;
        hive.write(".skep/clock", &(attempt * 60).to_string());
        // A clock that was moved is noticed when something happens.
        hive.send("POST", "/v1/events", Some(json!({"name": "tick"}))).await;
    }
    let failed = hive.task(task, "failed").await;
    assert_eq!(failed["attempt"], 4);
    assert!(failed["error"].as_str().unwrap().contains("no disk"), "{failed:#}");
    let failed = hive.task(bad, "failed").await;
    assert!(
        failed["error"].as_str().unwrap().contains("step b (say): {{a.titel}}: a answered no \"titel\""),
        "{failed:#}"
    );
    let facts = hive.get("/v1/facts?category=error").await;
    let facts = facts["items"].as_array().unwrap();
    assert_eq!(facts.len(), 2, "{facts:#?}");
    let fact = facts.iter().find(|fact| fact["source"] == format!("task:{task}")).unwrap();
    assert_eq!((&fact["agent_id"], &fact["category"]), (&json!("orchestrator"), &json!("error")));
    assert!(fact["fact"].as_str().unwrap().contains("no disk"), "{fact:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_halt_holds_tasks_and_a_killed_supervisor_loses_none() {
    let mut hive = hive().await;
    assert_eq!(hive.send("POST", "/v1/halt", Some(json!({}))).await.0, 200);
    let task = hive.queued("held", call("slow", json!({}))).await;
    let flow = json!({"type": "workflow", "workflowSteps": [{"toolName": "say"}]});
    let second = hive.queued("held too", flow).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(hive.get(&format!("/v1/tasks/{task}")).await["status"], "queued");
    hive.kill();
    hive.start().await;
    assert_eq!(hive.get(&format!("/v1/tasks/{task}")).await["status"], "queued", "the halt outlives it");
    assert_eq!(hive.send("POST", "/v1/resume", Some(json!({}))).await.0, 200);
    hive.task(task, "running").await;
    hive.sh_until("one", "test -s slow").await;
    hive.kill();
    hive.start().await;
    let done = hive.task(task, "completed").await;
    assert_eq!((&done["result"], &done["attempt"]), (&json!({"done": true}), &json!(1)), "{done:#}");
    assert_eq!(hive.sh("one", "cat slow").await["stdout"], "began\n", "it ran once");
    hive.task(second, "completed").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_loses_its_supervisor_is_lost_and_nobodys_failure() {
    let mut hive = hive().await;
    for by in ["kill", "stop"] {
        let flow = json!({"type": "workflow", "workflowSteps": [{"toolName": "slow"}]});
        let task = hive.queued(by, flow).await;
        hive.sh_until("one", "test -s slow").await;
        let first = hive.get(&format!("/v1/tasks/{task}")).await["run"].as_i64().unwrap();
        if by == "kill" {
            hive.kill();
        } else {
            assert_eq!(hive.send("POST", "/v1/shutdown", Some(json!({"stop_agents": false}))).await.0, 202);
            hive.ended().await;
        }
        hive.start().await;
        let run = hive.over(first).await;
        assert_eq!((&run["status"], &run["exit_code"]), (&json!("lost"), &Value::Null), "{by}: {run:#}");
        assert!(
            run["error"].as_str().unwrap().contains("nobody knows whether its tool did its work"),
            "{run:#}"
        );
        let done = hive.task(task, "completed").await;
        assert_eq!(done["attempt"], 2, "at least once: {done:#}");
        assert_eq!(hive.sh("one", "cat slow; rm slow").await["stdout"], "began\nbegan\n");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_operator_lists_shows_and_cancels_tasks() {
    let hive = hive().await;
    let said = hive.queued("said", call("say", json!({"a": 1}))).await;
    hive.task(said, "completed").await;
    let slow = hive.queued("slow one", call("slow", json!({}))).await;
    hive.task(slow, "running").await;
    hive.sh_until("one", "test -s slow").await;
    let skep = |args: &[&str]| {
        let ran = hive.skep(args);
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (ran.status.code().unwrap(), text(ran.stdout), text(ran.stderr))
    };
    let (code, listed, _) = skep(&["task", "list"]);
    let lines: Vec<&str> = listed.lines().collect();
    assert_eq!((code, lines.len()), (0, 3), "{listed}");
    assert!(lines[1].contains("slow one") && lines[1].contains("running"), "{listed}");
    assert!(lines[2].contains("completed") && lines[2].contains("\"result\":{\"a\":1}"), "{listed}");
    let (_, json, _) = skep(&["task", "list", "one", "--status", "running", "--json"]);
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!((json.as_array().unwrap().len(), &json[0]["id"]), (1, &json!(slow)));
    let (code, shown, _) = skep(&["task", "show", &said.to_string()]);
    assert!(
        code == 0 && shown.contains("\"toolName\": \"say\"") && shown.contains("status     completed"),
        "{shown}"
    );

    let (code, told, err) = skep(&["task", "cancel", &slow.to_string(), &said.to_string()]);
    assert_eq!(
        (code, told.as_str()),
        (1, format!("task {slow} is over: it was cancelled\n").as_str()),
        "{err}"
    );
    assert!(err.contains(&format!("task {said} is over: it is completed")), "{err}");
    let task = hive.task(slow, "failed").await;
    assert_eq!(task["attempt"], 1, "what is cancelled is not tried again");
    assert_eq!(hive.get(&format!("/v1/runs/{}", task["run"])).await["status"], "cancelled");
    assert_eq!(hive.sh("one", "pgrep -c '^sleep$' || true").await["stdout"], "0\n", "its processes are dead");
    for (args, told) in
        [(["task", "show", "99"], "there is no task 99"), (["task", "list", "nobody"], "nobody")]
    {
        let (code, _, err) = skep(&args);
        assert!(code == 1 && err.contains(told), "{err}");
    }
    assert_eq!(skep(&["task", "show", "slow one"]).0, 2);
}
