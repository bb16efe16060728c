//! The tools of an agent as the API, the command line, jobs and the agent itself see and call them.

use std::process::{Command, Output};

use serde_json::{Value, json};

use crate::{hive::TestHive, work::SHELL};

const TOOLS: &[(&str, &str)] = &[
    ("echo.sh", "#!/bin/bash\n# Says what it got. More is not told.\necho \"$1\"\n"),
    (
        "weather.py",
        "#!/usr/bin/env python3\nimport json, os, sys\n\
         if '--describe' in sys.argv:\n    \
         print(json.dumps({'description': 'Tells the weather. Of a city.', 'input_schema': {'type': 'object', \
         'required': ['city'], 'properties': {'city': {'type': 'string'}, 'days': {'type': 'integer'}}}}))\n    \
         sys.exit()\n\
         args = json.loads(sys.argv[1])\n\
         print(json.dumps({'success': True, 'args': args, 'key': 'KEY' in os.environ}))\n",
    ),
    (
        "post.sh",
        "#!/bin/bash\n# Counts its calls.\necho x >> posted\necho '{\"success\": false, \"error\": \"no such chat\"}'\n",
    ),
    ("telegram_send_message.sh", "#!/bin/bash\necho \"$1\"\n"),
    ("slow.sh", "#!/bin/bash\ntouch began\nsleep 6003\n"),
    (
        "big.py",
        "#!/usr/bin/env python3\nimport json, sys\n\
         ok = json.loads(sys.argv[1])['ok']\n\
         print(json.dumps({'rows': 'x' * 1500000, 'success': ok, 'error': None if ok else 'it failed'}))\n",
    ),
];

async fn hive() -> TestHive {
    let mut hive = TestHive::new(&format!(
        "[tools.defaults.telegram_send_message]\nchat_id = \"8304042211\"\n\
         [[tools.strip]]\ntools = \"ec*\"\nparameters = [\"slug\"]\n\
         [agents.one]\nskills = [\"kit@1.0.0\"]\ntools.defaults.echo = {{ unit = \"C\" }}\n{SHELL}\
         [agents.two]\nskills = []\n"
    ));
    hive.tools("kit", TOOLS, &json!({ "envVars": ["KEY"] }));
    hive.write("secrets/env.json", "{\"KEY\": \"swordfish-78\"}");
    let schema = json!({ "type": "object", "additionalProperties": true,
        "properties": { "n": { "type": "number", "maximum": 9 }, "on": { "type": "boolean" } } });
    hive.write("skills/kit@1.0.0/scripts/echo.schema.json", &schema.to_string());
    hive.start().await;
    hive.running("one").await;
    hive.running("two").await;
    hive
}

fn skep(hive: &TestHive, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_skep")).arg("--dir").arg(hive.path("")).args(args).output().unwrap()
}

fn said(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).unwrap()
}

async fn call(hive: &TestHive, tool: &str, args: Value) -> (u16, Value) {
    hive.send("POST", &format!("/v1/agents/one/tools/{tool}"), Some(args)).await
}

#[tokio::test(flavor = "multi_thread")]
async fn tools_are_listed_with_what_they_say_of_themselves() {
    let hive = hive().await;
    let listed = hive.get("/v1/tools?agent=one&limit=1000").await;
    let of = |name: &str| {
        let found = listed["items"].as_array().unwrap().iter().find(|tool| tool["name"] == name);
        found.unwrap_or_else(|| panic!("no {name} in {listed:#}")).clone()
    };
    assert_eq!(of("echo")["description"], "Says what it got");
    assert_eq!(of("echo")["input_schema"]["properties"]["n"]["maximum"], 9);
    let weather = of("weather");
    assert_eq!(
        (&weather["server"], &weather["kind"], &weather["skill"]),
        (&json!("kit"), &json!("script"), &json!("kit"))
    );
    assert_eq!(weather["description"], "Tells the weather");
    assert_eq!(weather["input_schema"]["required"], json!(["city"]), "asked with --describe");
    let hives = of("get_tool_catalog");
    assert_eq!(
        (&hives["server"], &hives["kind"], &hives["skill"]),
        (&json!("skep"), &json!("hive"), &Value::Null)
    );
    assert_eq!(hive.sh("one", "ls").await["stdout"], "home\n", "nobody was called to be listed");

    let catalog = said(&skep(&hive, &["call", "one", "get_tool_catalog"]));
    let catalog: Value = serde_json::from_str(&catalog).unwrap();
    assert_eq!(catalog["success"], true);
    let kit: Vec<&str> = catalog["data"]["catalog"]["kit"]
        .as_array()
        .unwrap()
        .iter()
        .map(|t| t["name"].as_str().unwrap())
        .collect();
    assert_eq!(kit, ["big", "echo", "post", "slow", "telegram_send_message", "weather"]);
    let table = said(&skep(&hive, &["tools", "one"]));
    assert!(table.contains("Tells the weather") && table.contains("create_skill"), "{table}");
    let of_two = said(&skep(&hive, &["tools", "two", "--json"]));
    assert!(!of_two.contains("\"kit\"") && of_two.contains("get_tool_catalog"), "{of_two}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_script_that_could_not_be_asked_is_asked_again() {
    let describes = "#!/bin/bash\n# Feels.\n[ \"$1\" = --describe ] || exit 0\n\
        if [ -e slow ]; then touch asked; sleep 4; fi\n\
        echo '{\"description\": \"Feels.\", \"parameters\": {\"type\": \"object\", \"required\": [\"mood\"]}}'\n";
    let broken = "#!/bin/bash\n# Knows no --describe.\necho x >> asked-broken; exit 3\n";
    let mut hive = TestHive::new("[agents.one]\nskills = [\"kit@1.0.0\"]\n");
    hive.tools("kit", &[("feel.sh", describes), ("broken.sh", broken)], &json!({}));
    hive.start().await;
    let first = hive.running("one").await["container_id"].clone();
    hive.sh("one", "touch slow").await;
    let schema = |listed: &Value| {
        let found = listed["items"].as_array().unwrap().iter().find(|tool| tool["name"] == "feel");
        found.unwrap()["input_schema"].clone()
    };
    let (listed, ()) = tokio::join!(hive.get("/v1/tools?agent=one&limit=1000"), async {
        hive.sh_until("one", "test -e asked").await;
        crate::bare::docker(&["kill", &hive.container("one")]);
    });
    assert_eq!(schema(&listed), Value::Null, "its container was taken from under it");
    hive.until("one", "there again", |a| a["status"] == "running" && a["container_id"] != first).await;
    hive.sh("one", "rm slow").await;
    let listed = hive.get("/v1/tools?agent=one&limit=1000").await;
    assert_eq!(schema(&listed)["required"], json!(["mood"]));
    hive.get("/v1/tools?agent=one&limit=1000").await;
    let asked = hive.sh("one", "wc -l < asked-broken").await["stdout"].as_str().unwrap().trim().to_owned();
    assert_eq!(asked, "1", "one that ended by itself is asked once");
}

#[tokio::test(flavor = "multi_thread")]
async fn everybody_who_calls_a_tool_gets_the_same() {
    let hive = hive().await;
    let wanted = json!({"success": true, "args": {"city": "Bonn", "days": 2}, "key": true});
    let (status, reply) = call(&hive, "weather", json!({"city": "Bonn", "days": 2})).await;
    assert_eq!((status, &reply["success"], &reply["result"]), (200, &json!(true), &wanted), "{reply:#}");
    let printed = said(&skep(&hive, &["call", "one", "kit/weather.py", r#"{"city": "Bonn", "days": 2}"#]));
    assert_eq!(serde_json::from_str::<Value>(&printed).unwrap(), wanted);
    let run = hive.ran("direct", json!({"tool": "weather", "args": {"city": "Bonn", "days": "2"}})).await;
    assert_eq!((&run["status"], &run["result"]), (&json!("succeeded"), &wanted), "{run:#}");
    let inside = "curl -s --unix-socket /skep/api.sock -H 'content-type: application/json' \
                  -d '{\"city\": \"Bonn\", \"days\": 2}' http://skep/v1/agents/$SKEP_AGENT/tools/weather";
    let inside = hive.sh("one", inside).await;
    let inside: Value = serde_json::from_str(inside["stdout"].as_str().unwrap()).unwrap();
    assert_eq!(inside["result"], wanted);

    let (status, _) = call(&hive, "wether", json!({})).await;
    assert_eq!(status, 404);
    let other = "curl -s --unix-socket /skep/api.sock -XPOST http://skep/v1/agents/one/tools/weather; \
                 curl -s --unix-socket /skep/api.sock http://skep/v1/tools?agent=one";
    let other = hive.sh("two", other).await;
    assert_eq!(other["stdout"].as_str().unwrap().matches("\"status\":403").count(), 2, "{other:#}");
    let failed = skep(&hive, &["call", "one", "post"]);
    assert_eq!(failed.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&failed.stderr).contains("no such chat"));
    assert_eq!(skep(&hive, &["call", "one", "post", "[1]"]).status.code(), Some(2), "no JSON object");
}

#[tokio::test(flavor = "multi_thread")]
async fn arguments_are_set_right_then_checked_and_a_wrong_call_is_none() {
    let hive = hive().await;
    let (_, reply) =
        call(&hive, "echo", json!({"n": "3", "on": "true", "slug": "x", "note": null, "t": "true"})).await;
    assert_eq!(reply["result"], json!({"n": 3, "on": true, "unit": "C", "t": true}), "{reply:#}");
    let (_, reply) =
        call(&hive, "telegram_send_message", json!({"chat_id": "123456789012345678901", "message": "x"}))
            .await;
    assert_eq!(reply["result"], json!({"chat_id": "8304042211", "message": "x"}));
    let (status, problem) = call(&hive, "echo", json!({"n": 10, "on": 1})).await;
    assert_eq!(status, 422, "{problem:#}");
    let told = problem["errors"].to_string();
    assert!(told.contains("/n") && told.contains("maximum of 9") && told.contains("/on"), "{told}");
    hive.get("/v1/tools?agent=one").await;
    let (status, problem) = call(&hive, "weather", json!({"days": 1})).await;
    assert_eq!(
        (status, problem["errors"][0]["detail"].as_str().unwrap().contains("city")),
        (422, true),
        "{problem:#}"
    );
    let run = hive.ran("wrong", json!({"tool": "echo", "args": {"n": 10}})).await;
    assert_eq!(run["status"], "failed");
    assert!(run["error"].as_str().unwrap().contains("/n: 10 is greater than the maximum of 9"), "{run:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_calls_a_tool_of_the_hive_and_a_caller_that_goes_ends_its_call() {
    let hive = hive().await;
    let args = json!({"name": "notes", "title": "Notes", "description": "Of bees.", "content": "# Notes", "tags": []});
    let run = hive.ran("write", json!({"tool": "create_skill", "args": args})).await;
    assert_eq!(
        (&run["status"], &run["result"]),
        (&json!("succeeded"), &json!({"name": "notes", "version": 1})),
        "{run:#}"
    );
    assert_eq!(hive.get("/v1/documents/notes").await["source"], "agent", "in its agent's name");
    let run = hive.ran("again", json!({"tool": "create_skill", "args": args})).await;
    assert_eq!(run["status"], "failed");
    assert!(run["error"].as_str().unwrap().contains("notes"), "{run:#}");

    let mut waiting = Command::new(env!("CARGO_BIN_EXE_skep"))
        .arg("--dir")
        .arg(hive.path(""))
        .args(["call", "one", "slow"])
        .spawn()
        .unwrap();
    hive.sh_until("one", "test -e began").await;
    waiting.kill().unwrap();
    waiting.wait().unwrap();
    hive.sh_until("one", "! pgrep -f '[s]leep 6003'").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn json_that_ends_too_early_is_text_with_a_warning_and_a_failure_where_it_says_so() {
    let mut hive = TestHive::new("[agents.one]\nskills = [\"kit@1.0.0\"]\n");
    let scripts = [
        ("half.sh", "#!/bin/sh\nprintf '{\"success\": true, \"result\": \"on'\n"),
        ("denied.sh", "#!/bin/sh\nprintf '{\"success\": false, \"error\": \"no ro'\n"),
        ("text.sh", "#!/bin/sh\necho '[INFO] done'\n"),
    ];
    hive.tools("kit", &scripts, &json!({}));
    hive.start().await;
    hive.running("one").await;
    let warned = "the output begins like JSON and does not end like it, so it is taken as text";
    let call = async |tool: &str| {
        hive.send("POST", &format!("/v1/agents/one/tools/{tool}"), Some(json!({}))).await.1
    };
    let half = call("half").await;
    assert_eq!((&half["success"], &half["warnings"]), (&json!(true), &json!([warned])), "{half:#}");
    assert_eq!(half["result"], "{\"success\": true, \"result\": \"on");
    let denied = call("denied").await;
    assert_eq!((&denied["success"], &denied["warnings"]), (&json!(false), &json!([warned])), "{denied:#}");
    assert!(
        denied["error"].as_str().unwrap().starts_with("it answered success: false, and the output begins")
    );
    let text = call("text").await;
    assert_eq!(
        (&text["success"], &text["result"], text.get("warnings")),
        (&json!(true), &json!("[INFO] done"), None)
    );
    let said = hive.skep(&["call", "one", "half"]);
    assert!(said.status.success() && String::from_utf8_lossy(&said.stderr).contains(warned));
    for (tool, status, warnings) in [
        ("half", "succeeded", json!([warned])),
        ("denied", "failed", json!([warned])),
        ("text", "succeeded", Value::Null),
    ] {
        let run = hive.ran(tool, json!({ "tool": tool })).await;
        assert_eq!((&run["status"], &run["warnings"]), (&json!(status), &warnings), "{run:#}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_too_long_to_be_kept_is_judged_by_all_of_it_and_told() {
    let hive = hive().await;
    for (ok, status) in [(true, "succeeded"), (false, "failed")] {
        let (_, reply) = call(&hive, "big", json!({ "ok": ok })).await;
        assert_eq!(
            (&reply["success"], &reply["truncated"]),
            (&json!(ok), &json!(true)),
            "{}",
            reply["error"]
        );
        let told = reply["warnings"][0].as_str().unwrap();
        assert_eq!(told, "the output was cut after 1 MiB, so it is taken as text");
        let job = hive.job(&format!("big-{ok}"), json!({ "tool": "big", "args": { "ok": ok } })).await;
        let run = hive.run(job).await;
        let run = hive.over(run).await;
        assert_eq!(run["status"], status, "{}", run["error"]);
        let told = run["warnings"][0].as_str().unwrap();
        assert_eq!(told, "the output was cut after 256 KiB, so it is taken as text");
        if !ok {
            for error in [&reply["error"], &run["error"]] {
                assert!(
                    error.as_str().unwrap().starts_with("it answered success: false, and its"),
                    "{error}"
                );
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_fails_for_wrong_arguments_is_not_tried_again() {
    let hive = hive().await;
    let made = json!({ "name": "wrong", "agent": "one", "manual": true, "retries": 3, "tool": "weather" });
    let (status, made) = hive.send("POST", "/v1/jobs", Some(made)).await;
    assert_eq!(status, 201, "{made:#}");
    let warned = made["warnings"].to_string();
    assert!(warned.contains("its runs will fail: ") && warned.contains("city"), "{warned}");
    // What a step answered is a wrong argument of the next: nobody knew before.
    let next = json!({ "toolName": "weather", "parameters": { "city": "x", "days": "{{a.city}}" } });
    let flow = json!({ "type": "workflow", "workflowSteps":
        [{ "id": "a", "toolName": "echo", "parameters": { "city": "Bonn" } }, next] });
    let (status, task) = hive
        .send("POST", "/v1/tasks", Some(json!({ "name": "wrong", "action": flow, "agent": "one" })))
        .await;
    assert_eq!(status, 202, "{task:#}");
    for id in [hive.run(made["id"].as_i64().unwrap()).await, task["run"].as_i64().unwrap()] {
        let run = hive.over(id).await;
        assert_eq!((&run["status"], &run["attempt"]), (&json!("failed"), &json!(1)), "{run:#}");
        assert!(run["error"].as_str().unwrap().contains("not what weather takes"), "{run:#}");
    }
    let (_, task) = hive.send("GET", &format!("/v1/tasks/{}", task["id"]), None).await;
    assert_eq!((&task["status"], &task["attempt"]), (&json!("failed"), &json!(1)), "{task:#}");
    let waits = hive.get("/v1/runs?status=queued").await;
    assert_eq!(waits["items"], json!([]), "nothing is tried again");
}
