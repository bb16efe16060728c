//! The wall around agent-tier runs (systems.md A13): what belongs to a run is held to it at the agent's own door too,
//! however it hides; everything else of the agent keeps its rights meanwhile.

use serde_json::{Value, json};

use crate::{hive::TestHive, work::SHELL};

/// `ask METHOD PATH [BODY]` prints the status, a blank, and the answer.
const ASK: &str = r#"
ask() {
  local said; said=$(curl -s -m 60 -w '\n%{http_code}' --unix-socket /skep/api.sock -H 'content-type: application/json' \
    -H 'accept: application/json, text/event-stream' -X "$1" ${3:+-d "$3"} "http://skep$2"); echo "${said##*$'\n'} ${said%$'\n'*}"
}
"#;

/// A main process that asks again and again for what only the agent may.
const MAIN: &str = "main = [\"bash\", \"-c\", 'while sleep 0.1; do curl -s -o /dev/null -w \"%{http_code}\\n\" \
    --unix-socket /skep/api.sock http://skep/v1/agents/one >> main-got; done']\n";

async fn hive() -> TestHive {
    let mut hive = TestHive::new(&format!("[agents.one]\nskills = [\"kit@1.0.0\"]\n{SHELL}{MAIN}"));
    let look = "#!/bin/bash\n# Looks into a hive.\ncurl -s --unix-socket /skep/api.sock http://skep/v1/agents/one | jq '{id}'\n";
    hive.tools("kit", &[("look.sh", look), ("other.sh", "#!/bin/bash\necho other\n")], &json!({}));
    hive.start().await;
    hive.running("one").await;
    hive
}

async fn ran(hive: &TestHive, name: &str, script: &str) -> (i64, Vec<String>) {
    let body =
        json!({ "instructions": format!("{ASK}{script}"), "required_tools": ["look"], "max_steps": 3 });
    let run = hive.ran(name, body).await;
    assert_eq!(run["status"], "succeeded", "{run:#}\n{}", hive.log());
    let said = hive.said(&run).await;
    (run["id"].as_i64().unwrap(), said.lines().map(str::to_owned).collect())
}

fn told(line: &str) -> (u16, Value) {
    let (status, answer) = line.split_once(' ').unwrap_or_else(|| panic!("{line:?}"));
    (status.parse().unwrap(), serde_json::from_str(answer).unwrap_or_else(|e| panic!("{e}: {line:?}")))
}

fn assert_held(line: &str, run: i64) {
    let (status, answer) = told(line);
    assert_eq!(status, 403, "{line}");
    let detail = answer["detail"].as_str().unwrap();
    assert!(detail.contains(&format!("belongs to run {run}")) && detail.contains("required_tools"), "{line}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_reaches_its_own_endpoints_and_nothing_else_of_the_agent() {
    let hive = hive().await;
    let refused = [
        ("GET", "/v1/agents/one", ""),
        ("GET", "/v1/agents/one/tools", ""),
        ("POST", "/v1/agents/one/tools/other", "{}"),
        ("POST", "/v1/agents/one/tools/list_skills", "{}"),
        ("POST", "/v1/document-tools/list_skills", "{}"),
        ("GET", "/v1/documents", ""),
        ("POST", "/v1/mail", r#"{"to": "operator", "body": "x"}"#),
        ("POST", "/v1/jobs", "{}"),
        ("POST", "/v1/tasks", "{}"),
        ("POST", "/v1/skills", "{}"),
        ("GET", "/v1/runs", ""),
        ("GET", "/v1/runs/1000", ""),
        ("POST", "/v1/runs/1000/tools/look", "{}"),
        ("GET", "/mcp", ""),
        ("DELETE", "/mcp", ""),
        ("GET", "/no/such/route", ""),
    ];
    let line = |(method, path, body): (&str, &str, &str)| format!("ask {method} {path} '{body}'\n");
    let own = r#"
ask GET /v1/runs/$SKEP_RUN_ID; ask GET /v1/runs/$SKEP_RUN_ID/tools; ask POST /v1/runs/$SKEP_RUN_ID/tools/look '{}'
ask POST /v1/runs/$SKEP_RUN_ID/tools/other '{}'
ask POST /mcp '{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}'
ask POST /mcp '{"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "look", "arguments": {}}}'
curl -s -o /dev/null -w '%{http_code} {}\n' --unix-socket /skep/api.sock http://skep/healthz
/skep/bin/skep run look '{}'; /skep/bin/skep skills 2>&1 || true
"#;
    let (run, lines) = ran(&hive, "reaching", &[refused.map(line).concat().as_str(), own].concat()).await;
    for line in &lines[..refused.len()] {
        assert_held(line, run);
    }
    let own = &lines[refused.len()..];
    let (status, shown) = told(&own[0]);
    assert_eq!((status, &shown["id"], &shown["status"]), (200, &json!(run), &json!("running")));
    assert_eq!(told(&own[1]).1["items"].as_array().unwrap().len(), 1, "{own:#?}");
    let (status, look) = told(&own[2]);
    let id = json!({ "id": "one" });
    assert_eq!((status, &look["result"]), (200, &id), "a tool is no process of the run: {look:#}");
    assert_eq!(told(&own[3]).0, 403);
    let (_, listed) = told(&own[4]);
    let tools = listed["result"]["tools"].as_array().unwrap_or_else(|| panic!("{listed:#}"));
    assert_eq!(tools.iter().map(|tool| &tool["name"]).collect::<Vec<_>>(), ["look"]);
    let (_, called) = told(&own[5]);
    assert_eq!(called["result"]["structuredContent"], id, "{called:#}");
    assert_eq!(told(&own[6]).0, 200);
    assert_eq!(serde_json::from_str::<Value>(&own[7]).unwrap()["step"], 3, "{own:#?}");
    assert!(own[8].contains(&format!("belongs to run {run}")), "{own:#?}");
    // A script of the direct tier is no such run.
    let direct = hive.ran("direct", json!({ "tool": "look" })).await;
    assert_eq!(direct["result"], id, "{direct:#}");
}

/// Connects, forks, and lets the child ask on the connection once its parent is dead.
const HAND_ON: &str = r#"
import os, socket, time
s = socket.socket(socket.AF_UNIX)
s.connect('/skep/api.sock')
parent = os.getpid()
if os.fork(): os._exit(0)
while os.getppid() == parent: time.sleep(0.01)
s.sendall(b'GET /v1/agents/one HTTP/1.0\r\nhost: skep\r\n\r\n')
answer = b''
while piece := s.recv(65536): answer += piece
print(answer.split()[1].decode(), answer.split(b'\r\n\r\n')[1].decode(), flush=True)
"#;

#[tokio::test(flavor = "multi_thread")]
async fn no_process_of_a_run_gets_out_of_it_while_others_keep_their_rights() {
    let hive = hive().await;
    let hiding = r#"
export -f ask
(setsid bash -c '(sleep 0.3; ask GET /v1/agents/one > orphan.new; mv orphan.new orphan; sleep 300) & disown' &)
until [ -e orphan ]; do sleep 0.05; done; cat orphan
python3 -c "$HAND_ON_SCRIPT" &
wait; sleep 0.5
env -i /usr/bin/curl -s -o /dev/null -w '%{http_code} {}\n' --unix-socket /skep/api.sock http://skep/v1/agents/one
for i in $(seq 100); do curl -s -o /dev/null -w '%{http_code}\n' --unix-socket /skep/api.sock http://skep/v1/agents/one & done | sort | uniq -c
touch ready; until [ -e done ]; do sleep 0.05; done"#;
    let script = format!("{ASK}HAND_ON_SCRIPT=$(cat <<'PY'\n{HAND_ON}\nPY\n)\n{hiding}");
    let job = hive.job("hiding", json!({ "instructions": script })).await;
    let run = hive.run(job).await;
    hive.sh_until("one", "test -e ready").await;
    let mine =
        "curl -s -o /dev/null -w '%{http_code}' --unix-socket /skep/api.sock http://skep/v1/agents/one";
    assert_eq!(hive.sh("one", mine).await["stdout"], "200", "skep exec");
    assert_eq!(crate::bare::docker(&["exec", &hive.container("one"), "sh", "-c", mine]), "200");
    hive.sh("one", "rm main-got").await;
    hive.sh_until("one", "[ $(wc -l < main-got) -ge 3 ]").await;
    let main = hive.sh("one", "sort -u main-got").await;
    assert_eq!(main["stdout"], "200\n", "the main process");
    hive.sh("one", "touch done").await;
    let over = hive.over(run).await;
    assert_eq!(over["status"], "succeeded", "{over:#}");
    let said = hive.said(&over).await;
    let lines: Vec<&str> = said.lines().collect();
    assert_held(lines[0], run);
    let (status, handed_on) = told(lines[1]);
    assert_eq!(status, 403);
    assert!(handed_on["detail"].as_str().unwrap().contains("nobody can tell"), "{handed_on:#}");
    assert_eq!(told(lines[2]).0, 403, "without its environment too");
    assert_eq!(lines[3].trim(), "100 403", "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn two_runs_are_held_each_to_its_own_also_when_the_supervisor_comes_back() {
    let mut hive = hive().await;
    let script = r#"
other=$((SKEP_RUN_ID % 2 ? SKEP_RUN_ID + 1 : SKEP_RUN_ID - 1))
touch up-$SKEP_RUN_ID
until [ -e done ]; do
  for path in /v1/agents/one /v1/runs/$other; do
    curl -s -m 20 -o /dev/null -w '%{http_code}\n' --unix-socket /skep/api.sock http://skep$path
  done
  curl -s -m 20 -o /dev/null -w 'own %{http_code}\n' --unix-socket /skep/api.sock http://skep/v1/runs/$SKEP_RUN_ID
done | sort | uniq -c"#;
    let job = hive.job("pair", json!({ "instructions": script, "overlap": "allow" })).await;
    let (a, b) = (hive.run(job).await, hive.run(job).await);
    assert_eq!((a % 2, b), (1, a + 1), "each asks for the other");
    hive.sh_until("one", &format!("test -e up-{a} && test -e up-{b}")).await;
    hive.kill();
    hive.start().await;
    hive.running("one").await;
    hive.sh("one", "sleep 1; touch done").await;
    for run in [a, b] {
        let over = hive.over(run).await;
        assert_eq!(over["status"], "succeeded", "{over:#}");
        let said = hive.said(&over).await;
        let codes: Vec<&str> = said.lines().map(|line| line.trim().split_once(' ').unwrap().1).collect();
        let expected = ["000", "403", "own 000", "own 200", "own 403"];
        assert!(codes.iter().all(|code| expected.contains(code)), "{said}");
        assert!(codes.contains(&"403") && codes.contains(&"own 200"), "{said}");
    }
}
