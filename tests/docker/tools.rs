//! The built-in tools as an agent runs them: every case of tests/basic-tools/cases.json, in a container.

use serde_json::{Value, json};

use crate::hive::TestHive;

/// Runs every case in a cleared workspace and prints a JSON line for each: the tool's one document, its
/// exit code, and the exit codes of `setup` and `after`. Programs of the container do the work, not ours.
const DRIVER: &str = r"
import json, os, subprocess, sys
def clear():
    for name in os.listdir('.'):
        subprocess.run(['rm', '-rf', '--', name], check=True)
def shell(script):
    return subprocess.run(['bash', '-euc', script]).returncode if script else 0
for case in json.load(sys.stdin):
    clear()
    out = {'setup': shell(case.get('setup'))}
    tool = '/skills/basic-tools/scripts/' + case['tool'] + '.ts'
    text = json.dumps(case['args'])
    run = subprocess.run([tool, text] if case['by'] == 'argument' else [tool], capture_output=True,
                         input='' if case['by'] == 'argument' else text, text=True, timeout=30)
    out.update(code=run.returncode, stdout=run.stdout, stderr=run.stderr, after=shell(case.get('after')))
    print('CASE ' + json.dumps(out), flush=True)
clear()
";

/// Every value that `expected` names is the same in `actual`; lists have the same length.
pub fn has(actual: &Value, expected: &Value) -> bool {
    match (actual, expected) {
        (Value::Object(a), Value::Object(e)) => e.iter().all(|(k, v)| a.get(k).is_some_and(|a| has(a, v))),
        (Value::Array(a), Value::Array(e)) => a.len() == e.len() && a.iter().zip(e).all(|(a, e)| has(a, e)),
        (a, e) => a == e,
    }
}

fn fault(case: &Value, told: &Value) -> Option<String> {
    let document: Value = serde_json::from_str(told["stdout"].as_str()?).unwrap_or(Value::Null);
    let fine = match case.get("error").and_then(Value::as_str) {
        Some(error) => {
            document["success"] == false
                && told["code"] == 1
                && document["error"].as_str().is_some_and(|e| e.contains(error))
        }
        None => document["success"] == true && told["code"] == 0,
    };
    let result = case.get("result").is_none_or(|expected| has(&document["result"], expected));
    let clean = told["stderr"] == "" && told["setup"] == 0 && told["after"] == 0;
    (!fine || !result || !clean).then(|| format!("{}: {told}", case["name"]))
}

#[tokio::test(flavor = "multi_thread")]
async fn every_documented_case_of_the_tools_holds_in_an_agents_container() {
    let hive = TestHive::up("[agents.one]\nskills = [\"basic-tools@1.0.0\"]\n").await;
    hive.running("one").await;
    let cases: Vec<Value> = serde_json::from_str(include_str!("../basic-tools/cases.json")).unwrap();
    let mut faults = Vec::new();
    for (n, some) in cases.chunks(25).enumerate() {
        let some: Vec<Value> = some
            .iter()
            .cloned()
            .enumerate()
            .map(|(i, mut case)| {
                case["by"] = json!(if (n + i) % 2 == 0 { "argument" } else { "input" });
                case
            })
            .collect();
        let body = json!({
            "command": ["python3", "-c", DRIVER], "stdin": serde_json::to_string(&some).unwrap(), "timeout": "90s",
        });
        let (status, answer) = hive.send("POST", "/v1/agents/one/exec", Some(body)).await;
        assert_eq!((status, &answer["exit_code"]), (200, &json!(0)), "{answer:#}");
        let told: Vec<Value> = answer["stdout"]
            .as_str()
            .unwrap()
            .lines()
            .filter_map(|l| serde_json::from_str(l.strip_prefix("CASE ")?).ok())
            .collect();
        assert_eq!(told.len(), some.len(), "{answer:#}");
        faults.extend(some.iter().zip(&told).filter_map(|(case, told)| fault(case, told)));
    }
    assert!(cases.len() >= 78, "only {} cases", cases.len());
    assert_eq!(faults, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_tools_keep_to_their_caps_and_see_the_skills_but_no_more() {
    let hive = TestHive::up("[agents.one]\nskills = [\"basic-tools@1.0.0\"]\n").await;
    hive.running("one").await;
    // Long texts are counted inside: an answer of exec has its own cap.
    let count = "jq -c 'walk(if type == \"string\" and length > 5000 then length else . end)'";
    let call = async |name: &str, args: Value| -> Value {
        let args = args.to_string().replace('\'', "'\\''");
        let answer =
            hive.sh("one", &format!("/skills/basic-tools/scripts/{name}.ts '{args}' | {count}")).await;
        serde_json::from_str(answer["stdout"].as_str().unwrap()).unwrap_or_else(|_| panic!("{answer:#}"))
    };
    hive.sh("one", "head -c 20000000 /dev/zero | tr '\\0' x > big").await;
    let read = call("read-file", json!({ "path": "big" })).await;
    assert_eq!((&read["result"]["size"], &read["result"]["truncated"]), (&json!(20_000_000), &json!(true)));
    assert!(read["result"]["bytes"].as_u64().unwrap() <= 10 << 20, "{}", read["result"]["bytes"]);
    let flood = call("run-command", json!({ "command": "yes | head -c 50000000" })).await;
    assert_eq!((&flood["success"], &flood["result"]["truncated"]), (&json!(true), &json!(true)));
    assert!(flood["result"]["stdout"].as_u64().unwrap() <= 10 << 20, "{flood}");
    let skill = call("read-file", json!({ "path": "/skills/basic-tools/manifest.json" })).await;
    assert_eq!(skill["success"], true, "{skill}");
    for path in ["/skep/prompt.md", "/etc/hostname", "/skills/../etc/passwd", "/proc/1/environ"] {
        let read = call("read-file", json!({ "path": path })).await;
        assert!(
            read["error"].as_str().is_some_and(|e| e.contains("outside the workspace")),
            "{path}: {read}"
        );
    }
    let write = call("write-file", json!({ "path": "/skills/basic-tools/x", "content": "" })).await;
    assert_eq!(write["success"], false, "{write}");
    let offline = call("http-request", json!({ "url": "http://192.0.2.1/", "timeout_ms": 2000 })).await;
    assert_eq!(offline["success"], false, "{offline}");
    let started = std::time::Instant::now();
    let slow = call(
        "run-command",
        json!({ "command": "trap '' TERM; sleep 60 & wait; sleep 60", "timeout_ms": 500 }),
    )
    .await;
    assert!(slow["error"].as_str().is_some_and(|e| e.contains("500 ms")), "{slow}");
    assert!(started.elapsed().as_secs() < 15);
    assert_eq!(hive.sh("one", "pgrep -c '^sleep$' || true").await["stdout"], "0\n", "nothing is left behind");
}
