//! An agent's own door over HTTP: it reads itself, nothing else, and cannot keep anybody out.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::hive::TestHive;

/// Status code and the first bytes of the answer, for each line of `method path`.
const ASK: &str = r#"ask() { curl -s -m 20 -o /tmp/answer -w '%{http_code}' --unix-socket /skep/api.sock -X "$@"; echo " $2"; }
"#;

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_reads_itself_and_is_refused_everything_else() {
    let hive = TestHive::up("[agents.bad]\nskills = [\"basic-tools@1.0.0\"]\n[agents.good]\n").await;
    hive.running("bad").await;
    hive.running("good").await;
    let base = "http://skep/v1";
    let mut script = ASK.to_owned();
    let mut wanted = String::new();
    let mut ask = |status: u16, method: &str, path: &str, more: &str| {
        script.push_str(&format!("ask {method} {base}{path} {more}\n"));
        wanted.push_str(&format!("{status} {base}{path}\n"));
    };
    for path in ["/agents/bad", "/agents/bad/prompt", "/agents/bad/logs", "/skills", "/skills/basic-tools"] {
        ask(200, "GET", path, "");
    }
    for path in [
        "/agents",
        "/agents/good",
        "/agents/good/prompt",
        "/agents/good/logs",
        "/agents/good/soul",
        "/agents/nobody",
        "/agents/BAD",
        "/agents/%62ad/soul",
        "/secrets",
        "/hive",
        "/doctor",
        "/no/such/route",
        "/agents/bad/../good",
    ] {
        ask(403, "GET", path, "--path-as-is");
    }
    for (method, path) in [
        ("POST", "/agents/bad/start"),
        ("POST", "/agents/bad/stop"),
        ("POST", "/agents/good/restart"),
        ("POST", "/agents/bad/exec"),
        ("POST", "/agents/good/exec"),
        ("PUT", "/agents/bad/soul"),
        ("PUT", "/secrets/KEY"),
        ("DELETE", "/secrets/KEY"),
        ("POST", "/update"),
        ("POST", "/hive/shutdown"),
        ("DELETE", "/skills/basic-tools"),
    ] {
        ask(403, method, path, "-H 'content-type: application/json' -d '{\"command\":[\"true\"]}'");
    }
    // Archives it may send, folders of the operator's it may not name.
    ask(403, "POST", "/skills", "-H 'content-type: application/json' -d '{\"path\":\"skills/x\"}'");
    ask(403, "POST", "/agents/bad/stop", "-d a=b");
    ask(403, "POST", "/agents/bad/stop", "-H 'x-skep-access: operator' -H 'authorization: Bearer x' -d ''");
    let seen = hive.sh("bad", &script).await;
    assert_eq!(seen["stdout"], wanted, "{seen:#}");
    let own = hive
        .sh("bad", "curl -s --unix-socket /skep/api.sock http://x/v1/agents/bad | jq -r .id,.status")
        .await;
    assert_eq!(own["stdout"], "bad\nrunning\n");
    let prompt = hive.sh("bad", "curl -s --unix-socket /skep/api.sock http://x/v1/agents/bad/prompt").await;
    assert_eq!(prompt["stdout"], hive.text("/v1/agents/bad/prompt").await);
    assert_eq!(hive.agent("bad").await["status"], "running");
    assert_eq!(hive.agent("good").await["restarts"], 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn floods_at_the_door_block_neither_init_nor_operator() {
    let mut hive = TestHive::up("[agents.bad]\n[agents.good]\n").await;
    hive.running("bad").await;
    hive.running("good").await;
    let bad = hive.agent("bad").await["container_id"].clone();
    let oversized = hive
        .sh(
            "bad",
            "head -c 3000000 /dev/zero | tr '\\0' x > /tmp/big
             curl -s -m 20 -o /dev/null -w '%{http_code}\\n' --unix-socket /skep/api.sock -X POST http://x/v1/resolve \
                -H 'content-type: application/json' --data-binary @/tmp/big
             head -c 200000 /dev/zero | tr '\\0' x > /tmp/head
             curl -s -m 20 -o /dev/null -w '%{http_code}\\n' --unix-socket /skep/api.sock \
                http://x/v1/skills -H @<(printf 'x-big: '; cat /tmp/head)
             python3 -c \"
import socket
s = socket.socket(socket.AF_UNIX); s.connect('/skep/api.sock')
s.sendall(b'POST /v1/resolve HTTP/1.1\\\\r\\\\nhost: x\\\\r\\\\ncontent-length: 99999999999\\\\r\\\\n\\\\r\\\\n')
s.settimeout(5); print(s.recv(12).decode())\"",
        )
        .await;
    let lines: Vec<&str> = oversized["stdout"].as_str().unwrap().lines().collect();
    assert!(
        matches!(lines[..], ["403" | "413", "400" | "431", "HTTP/1.1 403" | "HTTP/1.1 413"]),
        "{oversized:#}"
    );

    // Silent ones, and ones that begin a request and stop: held while others ask.
    let silent = json!({ "command": ["python3", "-c", "
import socket, time
held = []
for n in range(200):
    try:
        s = socket.socket(socket.AF_UNIX); s.settimeout(2); s.connect('/skep/api.sock')
        if n % 2: s.sendall(b'GET /v1/skills HT')
        held.append(s)
    except OSError: pass
print(len(held), flush=True)
time.sleep(6)"], "timeout": "20s" });
    let (_, slowest) = tokio::join!(hive.send("POST", "/v1/agents/bad/exec", Some(silent)), async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let mut slowest = Duration::ZERO;
        for _ in 0..20 {
            let began = Instant::now();
            assert_eq!(hive.sh("bad", "echo linked").await["stdout"], "linked\n");
            assert_eq!(
                hive.sh(
                    "good",
                    "curl -s -o /dev/null -w '%{http_code}' --unix-socket /skep/api.sock http://x/v1/skills"
                )
                .await["stdout"],
                "200"
            );
            hive.get("/v1/agents").await;
            slowest = slowest.max(began.elapsed());
        }
        slowest
    });
    assert!(slowest < Duration::from_secs(2), "{slowest:?}");

    // Also when the init must dial anew: a process that keeps the door full must not keep it out.
    let keeps = json!({ "command": ["bash", "-c", "setsid python3 -c \"
import socket, time
held = []
while True:
    try:
        s = socket.socket(socket.AF_UNIX); s.settimeout(1); s.connect('/skep/api.sock'); held.append(s)
    except OSError: time.sleep(0.005)
    if len(held) > 300: held.pop(0).close()
\" & sleep 600"], "timeout": "10m" });
    let url = "/v1/agents/bad/exec";
    tokio::time::timeout(Duration::from_secs(2), hive.send("POST", url, Some(keeps))).await.ok();
    hive.kill();
    hive.start().await;
    hive.running("bad").await;
    assert_eq!(hive.sh("bad", "echo adopted").await["stdout"], "adopted\n");
    assert_eq!(hive.agent("bad").await["container_id"], bad, "adopted, not replaced");
    hive.running("good").await;
    assert_eq!(hive.sh("good", "echo adopted").await["stdout"], "adopted\n");
}
