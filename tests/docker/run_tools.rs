//! The tools of an agent-tier run: those that its job requires, so many calls of them, and none beyond its end.

use serde_json::{Value, json};

use crate::{hive::TestHive, work::SHELL};

/// For agents' scripts: `call TOOL ARGS` prints the status, a blank, and the answer; `of RUN TOOL ARGS` of another run.
const CALL: &str = r#"
of() {
  local said; said=$(curl -s -m 60 -w '\n%{http_code}' --unix-socket /skep/api.sock -H 'content-type: application/json' \
    -d "$3" "http://skep/v1/runs/$1/tools/$2"); echo "${said##*$'\n'} ${said%$'\n'*}"
}
call() { of $SKEP_RUN_ID "$@"; }
"#;

/// Tools of the skill `kit`; `slow` does not end when it is told to.
const TOOLS: &[(&str, &str)] = &[
    ("echo.sh", "#!/bin/bash\n# Says what it got.\nread -r line; [ \"$line\" = \"$1\" ] && echo \"$1\"\n"),
    (
        "refuse.py",
        "# Refuses.\nimport json, os\nprint(json.dumps({'success': False, 'error': 'no ' + os.environ['SKEP_RUN_ID']}))\n",
    ),
    ("fail.sh", "#!/bin/bash\necho partly; echo 'no disk' >&2; exit 5\n"),
    ("big.sh", "#!/bin/bash\nhead -c 3000000 /dev/zero | tr '\\0' x\n"),
    (
        "slow.sh",
        "#!/bin/bash\ntrap '' TERM\nsetsid bash -c 'trap \"\" TERM; sleep 6001' &\ntouch slow-began\nsleep 6002\n",
    ),
    ("env.sh", "#!/bin/bash\nenv\n"),
    ("ask.sh", "#!/bin/bash\n# Calls another tool by itself.\nskep call kit/echo '{\"a\": 1}'\n"),
];

async fn hive() -> TestHive {
    let mut hive = TestHive::new(&format!(
        "[agents.one]\nskills = [\"kit@1.0.0\"]\n{SHELL}[agents.two]\nskills = [\"kit@1.0.0\"]\n{SHELL}"
    ));
    let ask = json!(["KEY"]);
    hive.tools("kit", TOOLS, &json!({ "envVars": ask }));
    hive.write("secrets/env.json", "{\"KEY\": \"swordfish-77\"}");
    let schema = json!({ "type": "object", "description": "Says it again.", "properties": { "a": {} } });
    hive.write("skills/kit@1.0.0/scripts/echo.schema.json", &schema.to_string());
    hive.start().await;
    hive.running("one").await;
    hive.running("two").await;
    hive
}

/// Runs a script as an agent-tier run that requires these tools; the run, and the lines that it said.
async fn ran(hive: &TestHive, name: &str, tools: Value, steps: u32, script: &str) -> (Value, Vec<String>) {
    let instructions = format!("{CALL}\n{script}");
    let body = json!({ "instructions": instructions, "required_tools": tools, "max_steps": steps });
    let run = hive.ran(name, body).await;
    assert_eq!(run["status"], "succeeded", "{run:#}\n{}", hive.log());
    let said = hive.said(&run).await;
    (run, said.lines().map(str::to_owned).collect())
}

/// Status and answer of a line that `call` printed.
fn told(line: &str) -> (u16, Value) {
    let (status, answer) = line.split_once(' ').unwrap_or_else(|| panic!("{line:?}"));
    (status.parse().unwrap(), serde_json::from_str(answer).unwrap_or_else(|e| panic!("{e}: {line:?}")))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_calls_the_tools_that_it_requires_and_gets_their_result() {
    let hive = hive().await;
    let tools = json!(["echo", "kit/refuse", "fail.sh", "big", "env"]);
    let script = r#"
curl -s --unix-socket /skep/api.sock http://skep/v1/runs/$SKEP_RUN_ID/tools; echo
call echo '{"a": "it'\''s \"two\"\nlines"}'; call kit%2Frefuse '{}'; call refuse.py '{}'; call fail '{}'
call big '{}' | cut -c 1-40; call env ''; call gone '{}'; call echo '[1]'; call echo '{"a":'
"#;
    let (run, lines) = ran(&hive, "calls", tools, 10, script).await;
    let listed: Value = serde_json::from_str(&lines[0]).unwrap();
    let items = listed["items"].as_array().unwrap();
    let names: Vec<&str> = items.iter().map(|item| item["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["echo", "kit/refuse", "fail.sh", "big", "env"], "exactly what it requires");
    assert_eq!(items[0]["description"], "Says it again");
    assert_eq!(items[0]["input_schema"]["properties"], json!({ "a": {} }));
    assert_eq!((&items[1]["description"], &items[1]["input_schema"]), (&json!("Refuses"), &Value::Null));

    let (status, echo) = told(&lines[1]);
    assert_eq!((status, &echo["success"], &echo["exit_code"]), (200, &json!(true), &json!(0)), "{echo:#}");
    assert_eq!(echo["result"], json!({ "a": "it's \"two\"\nlines" }), "as argument and on standard input");
    assert_eq!((&echo["step"], &echo["max_steps"], &echo["error"]), (&json!(1), &json!(10), &Value::Null));
    for (line, step) in [(2, 2), (3, 3)] {
        let (status, refuse) = told(&lines[line]);
        assert_eq!((status, &refuse["success"], &refuse["exit_code"]), (200, &json!(false), &json!(0)));
        assert_eq!((&refuse["error"], &refuse["step"]), (&json!(format!("no {}", run["id"])), &json!(step)));
    }
    let (_, fail) = told(&lines[4]);
    assert_eq!(
        (&fail["success"], &fail["exit_code"], &fail["result"]),
        (&json!(false), &json!(5), &json!("partly"))
    );
    assert_eq!(
        (&fail["error"], &fail["stderr"]),
        (&json!("it ended with exit code 5: no disk"), &json!("no disk\n"))
    );
    assert!(lines[5].starts_with("200 {\"tool\":\"big\""), "{}", lines[5]);
    let (_, env) = told(&lines[6]);
    let env = env["result"].as_str().unwrap();
    for line in [format!("SKEP_RUN_ID={}", run["id"]), "SKEP_JOB=calls".to_owned(), "KEY=***".to_owned()] {
        assert!(env.lines().any(|l| l == line), "{line} in\n{env}");
    }
    assert_eq!([7, 8, 9].map(|n| told(&lines[n]).0), [403, 422, 400], "{lines:#?}");
    assert_eq!(run["steps"], 6, "a call that cannot be made is no step");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_skep_command_keeps_to_the_tools_of_a_run_that_follows_instructions() {
    let hive = hive().await;
    let script = r#"
skep tools; skep call echo --arg 'a=it is'; env -i /skep/bin/skep call kit/refuse '{"b": [1]}' 2> told; echo "$? $(cat told)"
skep call env 2>&1; skep call list_skills 2>&1; skep call echo --arg a=b 2>&1; true
"#;
    let (run, lines) = ran(&hive, "commands", json!(["echo", "refuse"]), 2, script).await;
    let listed: Value = serde_json::from_str(&lines[0]).unwrap();
    let names: Vec<&str> =
        listed["items"].as_array().unwrap().iter().map(|item| item["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["echo", "refuse"]);
    let echo: Value = serde_json::from_str(&lines[1]).unwrap();
    assert_eq!((&echo["result"], &echo["step"]), (&json!({"a": "it is"}), &json!(1)), "{echo:#}");
    let refused: Value = serde_json::from_str(&lines[2]).unwrap();
    assert_eq!((&refused["success"], &refused["step"]), (&json!(false), &json!(2)), "{refused:#}");
    assert_eq!(lines[3], format!("1 skep: kit/refuse failed: no {}", run["id"]));
    for (line, tool) in [(4, "env"), (5, "list_skills")] {
        let told = format!("skep: run {} may not call {tool:?}; it may call echo, refuse (403)", run["id"]);
        assert_eq!(lines[line], told);
    }
    assert!(lines[6].contains("max_steps is 2") && lines[6].ends_with("(409)"), "{}", lines[6]);
    assert_eq!(run["steps"], 2);
    // A script that no run of instructions stands above has the agent's tools.
    let direct = hive.ran("asks", json!({ "tool": "ask" })).await;
    assert_eq!(direct["result"]["result"], json!({ "a": 1 }), "{direct:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_call_after_the_last_step_and_any_other_tool_are_refused() {
    let hive = hive().await;
    let script = "call fail {}; call nothing {}; call echo.sh {}; call fail {}; call echo {}; call fail {}";
    let (run, lines) = ran(&hive, "limited", json!(["echo", "kit/echo"]), 2, script).await;
    let answers: Vec<(u16, Value)> = lines.iter().map(|line| told(line)).collect();
    assert_eq!(answers.iter().map(|(status, _)| *status).collect::<Vec<_>>(), [403, 403, 200, 403, 200, 403]);
    let detail = answers[0].1["detail"].as_str().unwrap();
    assert_eq!(detail, format!("run {} may not call \"fail\"; it may call echo, kit/echo", run["id"]));
    assert_eq!(run["steps"], 2);
    // Ten at once are as good as ten in a row.
    let script = "for i in $(seq 10); do call echo \"{\\\"n\\\": $i}\" & done; wait; call echo {}";
    let (run, lines) = ran(&hive, "at-once", json!(["echo"]), 3, script).await;
    let answers: Vec<(u16, Value)> = lines.iter().map(|line| told(line)).collect();
    assert_eq!(answers.iter().filter(|(status, _)| *status == 200).count(), 3, "{lines:#?}");
    let (status, over) = answers.last().unwrap();
    assert_eq!(*status, 409);
    let limit = format!(
        "run {} may call tools 3 times, and it did: finish without them (its job's max_steps is 3)",
        run["id"]
    );
    assert_eq!(over["detail"], limit);
    assert_eq!(run["steps"], 3);
    let (run, lines) = ran(&hive, "none", json!([]), 10, "call echo {}").await;
    let (status, none) = told(&lines[0]);
    assert_eq!(status, 403);
    assert!(
        none["detail"].as_str().unwrap().ends_with("it may call no tools: its job requires none"),
        "{none}"
    );
    assert_eq!(run["steps"], 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_is_over_or_anothers_has_no_tools_and_tells_nothing() {
    let hive = hive().await;
    let (first, _) = ran(&hive, "first", json!(["echo"]), 5, "true").await;
    let body = json!({ "agent": "two", "instructions": "until [ -e done ]; do sleep 0.05; done",
                       "required_tools": ["echo"] });
    let other = hive.job("other", body).await;
    let other = hive.run(other).await;
    hive.run_until(other, "running", |run| run["status"] == "running").await;
    let nobody = other + 1000;
    let script = format!(
        "of {} echo {{}}; of {other} echo {{}}; of {nobody} echo {{}}; of {other} nothing {{}}; of x echo {{}}
         curl -s -o /dev/null -w '%{{http_code}} {{}}\n' --unix-socket /skep/api.sock http://skep/v1/runs/{other}/tools",
        first["id"]
    );
    let (nosy, lines) = ran(&hive, "nosy", json!(["echo"]), 5, &script).await;
    for line in &lines {
        assert!(line.starts_with("403 "), "run {} is held to itself: {lines:#?}", nosy["id"]);
    }
    // Its agent may ask, beside any run.
    let seen = hive.sh("one", &format!("{CALL}{script}")).await;
    let lines: Vec<&str> = seen["stdout"].as_str().unwrap().lines().collect();
    let answers: Vec<(u16, Value)> = lines.iter().map(|line| told(line)).collect();
    assert_eq!(answers[0].0, 409);
    assert_eq!(answers[0].1["detail"], format!("run {} does not run: it is succeeded", first["id"]));
    let detail = |n: usize, id: i64| answers[n].1["detail"].as_str().unwrap().replace(&id.to_string(), "N");
    assert_eq!((answers[1].0, answers[2].0, answers[3].0, answers[5].0), (404, 404, 404, 404));
    assert_eq!(detail(1, other), detail(2, nobody), "another's run is as good as none");
    assert_eq!(detail(3, other), detail(2, nobody));
    assert!((400..500).contains(&answers[4].0), "{lines:#?}");
    // The operator may.
    let (status, call) =
        hive.send("POST", &format!("/v1/runs/{other}/tools/echo"), Some(json!({ "a": 1 }))).await;
    assert_eq!((status, &call["result"]), (200, &json!({ "a": 1 })), "{call:#}");
    hive.sh("two", "touch done").await;
    assert_eq!(hive.over(other).await["steps"], 1);
    let direct = hive.ran("direct", json!({ "tool": "env", "args": {} })).await;
    assert_eq!((&direct["status"], &direct["steps"]), (&json!("succeeded"), &json!(0)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_ends_when_its_caller_goes_and_never_outlives_its_run() {
    let hive = hive().await;
    let wait = "until [ -e slow-began ]; do sleep 0.05; done; rm slow-began";
    let gone = "while pgrep -f '^sleep 600' >/dev/null; do sleep 0.05; done";
    let script = format!("call slow {{}} & {wait}; pkill curl; wait; {gone}; echo {{}}");
    let (run, _) = ran(&hive, "left", json!(["slow"]), 5, &script).await;
    assert_eq!(run["steps"], 1);
    // The run ends by itself while its call goes on.
    let (_, _) =
        ran(&hive, "straggler", json!(["slow"]), 5, &format!("call slow {{}} & {wait}; echo {{}}")).await;
    assert_eq!(hive.sh("one", "pgrep -c -f '^sleep 600' || true").await["stdout"], "0\n");
    // Somebody else calls, and the run is cancelled.
    let body = json!({ "instructions": "sleep 7000", "required_tools": ["slow", "echo"] });
    let job = hive.job("cancelled", body).await;
    let id = hive.run(job).await;
    hive.run_until(id, "running", |run| run["status"] == "running").await;
    let path = format!("/v1/runs/{id}/tools/slow");
    let call = hive.send("POST", &path, None);
    let cancel = async {
        hive.sh_until("one", "test -e slow-began").await;
        let (status, _) = hive.send("POST", &format!("/v1/runs/{id}/cancel"), None).await;
        assert_eq!(status, 202);
    };
    let ((status, answer), ()) = tokio::join!(call, cancel);
    assert_eq!(status, 409);
    assert_eq!(answer["detail"], format!("run {id} is over, so its call of slow was ended"));
    assert_eq!(hive.over(id).await["status"], "cancelled");
    assert_eq!(hive.sh("one", "pgrep -c -f '^sleep [67]00' || true").await["stdout"], "0\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn steps_are_counted_across_a_kill_of_the_supervisor() {
    let mut hive = hive().await;
    let script = format!(
        "{CALL}\ncall echo {{}}; touch once; until [ -e go ]; do sleep 0.05; done
         (call slow {{}} >/dev/null &); until [ -e again ]; do sleep 0.05; done; call echo {{}}; call echo {{}}"
    );
    let body = json!({ "instructions": script, "required_tools": ["echo", "slow"], "max_steps": 3 });
    let job = hive.job("long", body).await;
    let id = hive.run(job).await;
    hive.sh_until("one", "test -e once").await;
    hive.sh("one", "touch go").await;
    hive.sh_until("one", "test -e slow-began").await;
    hive.kill();
    hive.start().await;
    hive.running("one").await;
    // What somebody waited for ended with whom it waited for.
    hive.sh_until("one", "! pgrep -f '^sleep 600'").await;
    hive.sh("one", "touch again").await;
    let run = hive.over(id).await;
    assert_eq!((&run["status"], &run["steps"]), (&json!("succeeded"), &json!(3)), "{run:#}");
    let said = hive.said(&run).await;
    let status: Vec<u16> = said.lines().map(|line| told(line).0).collect();
    assert_eq!(status, [200, 200, 409], "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_that_its_agent_lost_meanwhile_is_told_to_be_missing() {
    let hive = hive().await;
    let body =
        json!({ "instructions": "until [ -e done ]; do sleep 0.05; done", "required_tools": ["echo"] });
    let job = hive.job("waits", body).await;
    let id = hive.run(job).await;
    hive.run_until(id, "running", |run| run["status"] == "running").await;
    hive.configure(&format!("[agents.one]\n{SHELL}"));
    hive.until("one", "without skills", |view| view["skills"] == json!([])).await;
    let listed = hive.get(&format!("/v1/runs/{id}/tools")).await;
    assert_eq!(listed["items"][0]["name"], "echo");
    assert!(listed["items"][0]["missing"].as_str().unwrap().contains("no tool \"echo\""), "{listed:#}");
    let (status, answer) = hive.send("POST", &format!("/v1/runs/{id}/tools/echo"), None).await;
    assert_eq!(status, 404, "{answer:#}");
    hive.sh("one", "touch done").await;
    assert_eq!(hive.over(id).await["steps"], 0);
}
