//! MCP clients on a real hive: over TCP, on an agent's socket, and through `skep mcp` in a container.

use std::{
    collections::HashMap,
    process::Stdio,
    time::{Duration, Instant},
};

use reqwest::header::{AUTHORIZATION, HeaderName, HeaderValue};
use rmcp::{
    RoleClient,
    model::{CallToolRequestParams, ProtocolVersion},
    service::{ClientLifecycleMode, RunningService, serve_client_with_lifecycle_and_ct},
    transport::{
        async_rw::AsyncRwTransport,
        streamable_http_client::{StreamableHttpClientTransport, StreamableHttpClientTransportConfig},
    },
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Lines},
    process::{Child, ChildStdin, ChildStdout, Command},
};
use tokio_util::sync::CancellationToken;

use crate::{
    hive::{PATIENCE, TestHive},
    work::SHELL,
};

const TOOLS: &[(&str, &str)] = &[
    ("look.sh", "#!/bin/bash\n# Looks into a hive.\necho \"{\\\"bees\\\": 40000, \\\"asked\\\": $1}\"\n"),
    ("other.sh", "#!/bin/bash\necho other\n"),
    ("fail.sh", "#!/bin/bash\necho 'no disk' >&2; exit 5\n"),
    ("slow.sh", "#!/bin/bash\ntouch slow-began\nexec sleep 7001\n"),
];

const OLD: ClientLifecycleMode = ClientLifecycleMode::Initialize;

fn new() -> ClientLifecycleMode {
    ClientLifecycleMode::Discover { preferred_versions: vec![ProtocolVersion::V_2026_07_28] }
}

/// A hive that listens on TCP too, its agent `one` with the skill `kit`; its port and token.
async fn hive() -> (TestHive, u16, String) {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut hive = TestHive::new(&format!("[agents.one]\nskills = [\"kit@1.0.0\"]\n{SHELL}"));
    let config = std::fs::read_to_string(hive.path("skep.toml")).unwrap();
    let config = config.replace("listen = \"none\"", &format!("listen = \"127.0.0.1:{port}\""));
    hive.write("skep.toml", &config);
    hive.tools("kit", TOOLS, &json!({}));
    hive.start().await;
    hive.running("one").await;
    let token = std::fs::read_to_string(hive.path(".skep/token")).unwrap().trim().to_owned();
    (hive, port, token)
}

type Conn = RunningService<RoleClient, ()>;

async fn over_http(http: reqwest::Client, uri: &str, token: Option<&str>, mode: ClientLifecycleMode) -> Conn {
    let mut headers: HashMap<HeaderName, HeaderValue> = HashMap::new();
    if let Some(token) = token {
        headers.insert(AUTHORIZATION, format!("Bearer {token}").parse().unwrap());
    }
    let config = StreamableHttpClientTransportConfig::with_uri(uri).custom_headers(headers);
    let transport = StreamableHttpClientTransport::with_client(http, config);
    serve_client_with_lifecycle_and_ct((), transport, mode, CancellationToken::new()).await.unwrap()
}

/// Through `skep mcp` in the container of `one`, as an agent program starts it.
async fn over_stdio(hive: &TestHive, mode: ClientLifecycleMode) -> (Conn, Child) {
    let mut bridge = bridge(hive, &[]);
    let (output, input) = (bridge.stdout.take().unwrap(), bridge.stdin.take().unwrap());
    let transport = AsyncRwTransport::new_client(output, input);
    let conn =
        serve_client_with_lifecycle_and_ct((), transport, mode, CancellationToken::new()).await.unwrap();
    (conn, bridge)
}

fn bridge(hive: &TestHive, env: &[&str]) -> Child {
    let mut command = Command::new("docker");
    command.args(["exec", "-i"]).args(env.iter().flat_map(|pair| ["-e", pair]));
    command.args([&hive.container("one"), "/skep/bin/skep", "mcp"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true).spawn().unwrap()
}

async fn called(conn: &Conn, tool: &str, args: Value) -> Value {
    let args = serde_json::from_value(args).unwrap();
    let result = conn.call_tool(CallToolRequestParams::new(tool.to_owned()).with_arguments(args)).await;
    let mut result = serde_json::to_value(result.unwrap()).unwrap();
    result.as_object_mut().unwrap().remove("resultType");
    result
}

#[tokio::test(flavor = "multi_thread")]
async fn every_client_calls_the_same_tools_with_the_same_results() {
    let (hive, port, token) = hive().await;
    let socket = hive.agent_dir("one").join("skep/api.sock");
    let mut conns = Vec::new();
    let mut bridges = Vec::new();
    for mode in [OLD, new()] {
        let http = reqwest::Client::new();
        let uri = format!("http://127.0.0.1:{port}/mcp");
        conns.push(over_http(http, &uri, Some(&token), mode.clone()).await);
        let http = reqwest::Client::builder().unix_socket(socket.clone()).build().unwrap();
        conns.push(over_http(http, "http://skep/mcp", None, mode.clone()).await);
        let (conn, bridge) = over_stdio(&hive, mode).await;
        conns.push(conn);
        bridges.push(bridge);
    }
    let args = json!({ "hive": "no. 7" });
    let (status, direct) = hive.send("POST", "/v1/agents/one/tools/look", Some(args.clone())).await;
    assert_eq!((status, &direct["success"]), (200, &json!(true)), "{direct:#}");
    for conn in &conns {
        let tools = conn.list_all_tools().await.unwrap();
        let look = tools.iter().find(|tool| tool.name == "look").expect("the skill's script");
        assert!(look.description.as_deref().unwrap().starts_with("Looks into a hive"), "{look:?}");
        let result = called(conn, "look", args.clone()).await;
        assert_eq!(result["structuredContent"], direct["result"]);
        assert_eq!(result["isError"], false);
        let failed = called(conn, "fail", json!({})).await;
        assert_eq!(failed["isError"], true);
        assert!(failed["content"][0]["text"].as_str().unwrap().contains("no disk"), "{failed:#}");
    }
    for conn in conns {
        conn.cancel().await.unwrap();
    }
    for mut bridge in bridges {
        let ended = tokio::time::timeout(PATIENCE, bridge.wait()).await.expect("it ends with its client");
        assert!(ended.unwrap().success());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn strangers_are_refused_before_anything_is_read() {
    let (_hive, port, token) = hive().await;
    let http = reqwest::Client::new();
    let host = format!("127.0.0.1:{port}");
    let right = format!("Bearer {token}");
    for (host, auth, origin, status) in [
        (host.as_str(), "Bearer wrong", None, 401),
        (&host, "", None, 401),
        ("evil.example", &right, None, 403),
        (&host, &right, Some("http://evil.example"), 403),
        (&host, &right, Some("null"), 403),
        (&host, &right, None, 200),
    ] {
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
            "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } } });
        let mut request = http
            .post(format!("http://127.0.0.1:{port}/mcp"))
            .header("host", host)
            .header("authorization", auth)
            .header("accept", "application/json, text/event-stream")
            .json(&body);
        if let Some(origin) = origin {
            request = request.header("origin", origin);
        }
        assert_eq!(request.send().await.unwrap().status(), status, "{host} {auth} {origin:?}");
    }
}

impl TestHive {
    async fn slow_began(&self) {
        self.sh_until("one", "[ -e slow-began ] && pgrep -f '^sleep 7001$'").await;
        self.sh("one", "rm slow-began").await;
    }

    async fn slow_is_gone(&self) {
        self.sh_until("one", "! pgrep -f '^sleep 7001$'").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_goes_mid_call_takes_the_process_along() {
    let (hive, port, token) = hive().await;
    let uri = format!("http://127.0.0.1:{port}/mcp");
    let slow = || CallToolRequestParams::new("slow");
    for mode in [OLD, new()] {
        // It cancels.
        let conn = over_http(reqwest::Client::new(), &uri, Some(&token), mode.clone()).await;
        let peer = conn.peer().clone();
        let call = tokio::spawn(async move { peer.call_tool(slow()).await });
        hive.slow_began().await;
        call.abort();
        hive.slow_is_gone().await;

        // It vanishes.
        let peer = conn.peer().clone();
        let call = tokio::spawn(async move { peer.call_tool(slow()).await });
        hive.slow_began().await;
        call.abort();
        drop(conn);
        hive.slow_is_gone().await;

        // Its program is killed.
        let (conn, mut bridge) = over_stdio(&hive, mode).await;
        let peer = conn.peer().clone();
        let call = tokio::spawn(async move { peer.call_tool(slow()).await });
        hive.slow_began().await;
        // From where it was started: what the init starts may not signal it.
        let kill = ["exec", &hive.container("one"), "pkill", "-9", "-f", "^/skep/bin/skep mcp"];
        crate::bare::docker(&kill);
        hive.slow_is_gone().await;
        bridge.kill().await.unwrap();
        let answer = tokio::time::timeout(PATIENCE, call).await.expect("the client notices").unwrap();
        assert!(answer.is_err(), "{answer:?}");
    }
    // It hangs up in the middle of a session's answer, and the session goes on.
    let http = reqwest::Client::new();
    let ask = |session: Option<&str>, body: Value| {
        let request = http
            .post(&uri)
            .bearer_auth(&token)
            .header("accept", "application/json, text/event-stream")
            .json(&body);
        session.into_iter().fold(request, |request, session| request.header("mcp-session-id", session))
    };
    let hello = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } } });
    let begun = ask(None, hello).send().await.unwrap();
    let session = begun.headers()["mcp-session-id"].to_str().unwrap().to_owned();
    let ready = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
    assert_eq!(ask(Some(&session), ready).send().await.unwrap().status(), 202);
    let call = json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": { "name": "slow" } });
    let call = ask(Some(&session), call).send().await.unwrap();
    hive.slow_began().await;
    drop(call);
    hive.slow_is_gone().await;
    let ping = json!({ "jsonrpc": "2.0", "id": 3, "method": "ping" });
    assert_eq!(ask(Some(&session), ping).send().await.unwrap().status(), 200);
}

/// The bridge with bare lines.
struct Talk {
    child: Child,
    input: Option<ChildStdin>,
    output: Lines<BufReader<ChildStdout>>,
}

impl Talk {
    fn new(hive: &TestHive) -> Self {
        let mut child = bridge(hive, &[]);
        let output = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { input: child.stdin.take(), output, child }
    }

    async fn say(&mut self, text: &str) {
        let input = self.input.as_mut().unwrap();
        input.write_all(text.as_bytes()).await.unwrap();
        input.flush().await.unwrap();
    }

    async fn hear(&mut self) -> Value {
        let line = tokio::time::timeout(PATIENCE, self.output.next_line()).await.expect("it answers");
        serde_json::from_str(&line.unwrap().expect("a line")).unwrap()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_bridge_takes_lines_as_they_come_and_a_slow_call_holds_up_nothing() {
    let (hive, _, _) = hive().await;
    let mut talk = Talk::new(&hive);
    talk.say("rubbish\n\n[1,2]\n{\"jsonrpc\": \"2.0\"\n").await;
    for _ in 0..3 {
        let refused = talk.hear().await;
        assert_eq!((&refused["error"]["code"], &refused["id"]), (&json!(-32700), &Value::Null), "{refused}");
    }
    talk.say(&format!("{{\"jsonrpc\":\"2.0\",\"id\":0,\"x\":\"{}\"}}\n", "x".repeat(3 << 20))).await;
    assert_eq!(talk.hear().await["error"]["code"], -32700);
    let hello = json!({ "jsonrpc": "2.0", "id": "one", "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } } });
    let hello = hello.to_string();
    let (half, rest) = hello.split_at(50);
    talk.say(half).await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    talk.say(&format!("{rest}\n")).await;
    let begun = talk.hear().await;
    assert_eq!((&begun["id"], &begun["result"]["protocolVersion"]), (&json!("one"), &json!("2025-11-25")));
    talk.say("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n").await;
    talk.say("{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"tools/call\",\"params\":{\"name\":\"slow\"}}\n")
        .await;
    hive.slow_began().await;
    talk.say("{\"jsonrpc\":\"2.0\",\"id\":8,\"method\":\"ping\"}\n").await;
    assert_eq!(talk.hear().await, json!({ "jsonrpc": "2.0", "id": 8, "result": {} }));
    let cancel =
        "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":7}}\n";
    talk.say(cancel).await;
    hive.slow_is_gone().await;
    talk.say("{\"jsonrpc\":\"2.0\",\"id\":9,\"method\":\"tools/call\",\"params\":{\"name\":\"other\"}}\n")
        .await;
    let mut other = talk.hear().await;
    // The answer may cross the cancellation.
    if other["id"] == 7 {
        other = talk.hear().await;
    }
    assert_eq!(
        (&other["id"], &other["result"]["content"][0]["text"]),
        (&json!(9), &json!("other")),
        "{other}"
    );
    // Changes of tools reach it.
    let config = std::fs::read_to_string(hive.path("skep.toml")).unwrap();
    hive.write(
        "skep.toml",
        &config.replace("skills = [\"kit@1.0.0\"]", "skills = [\"kit@1.0.0\", \"basic-tools@1.0.0\"]"),
    );
    assert_eq!(talk.hear().await["method"], "notifications/tools/list_changed");
    // What was asked before the end is answered.
    talk.say("{\"jsonrpc\":\"2.0\",\"id\":10,\"method\":\"ping\"}").await;
    drop(talk.input.take());
    let mut rest = Vec::new();
    while let Some(line) = talk.output.next_line().await.unwrap() {
        rest.push(serde_json::from_str::<Value>(&line).unwrap());
    }
    assert!(rest.iter().any(|answer| answer["id"] == 10), "{rest:?}");
    assert!(talk.child.wait().await.unwrap().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_bridge_begins_its_session_anew_when_the_supervisor_was_restarted() {
    let (mut hive, _, _) = hive().await;
    let hello = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } } });
    let ready = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
    let call = |id: i64| json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": { "name": "other" } });
    let changed = json!({ "jsonrpc": "2.0", "method": "notifications/tools/list_changed" });
    let (mut listens, mut asks) = (Talk::new(&hive), Talk::new(&hive));
    for talk in [&mut listens, &mut asks] {
        talk.say(&format!("{hello}\n")).await;
        assert_eq!(talk.hear().await["id"], 0);
        talk.say(&format!("{ready}\n{}\n", call(1))).await;
        assert_eq!(talk.hear().await["id"], 1);
    }
    hive.kill();
    hive.start().await;
    hive.running("one").await;
    // Several at once, of which one begins the session.
    asks.say(&format!("{}\n{}\n{}\n", call(2), call(3), call(4))).await;
    let mut answers = Vec::new();
    while answers.len() < 3 {
        let heard = asks.hear().await;
        if heard["id"].is_i64() {
            assert_eq!(heard["result"]["content"][0]["text"], "other", "{heard:#}");
            answers.push(heard["id"].as_i64().unwrap());
        } else {
            assert_eq!(heard["method"], "notifications/tools/list_changed", "{heard:#}");
        }
    }
    answers.sort_unstable();
    assert_eq!(answers, [2, 3, 4]);
    // One that asks nothing is told of changes again.
    assert_eq!(listens.hear().await, changed, "what it missed is not known");
    let config = std::fs::read_to_string(hive.path("skep.toml")).unwrap();
    hive.write("skep.toml", &config.replace("[\"kit@1.0.0\"]", "[\"kit@1.0.0\", \"basic-tools@1.0.0\"]"));
    assert_eq!(listens.hear().await["method"], "notifications/tools/list_changed");
    listens.say(&format!("{}\n", call(5))).await;
    loop {
        let heard = listens.hear().await;
        if heard["id"] == 5 {
            break assert_eq!(heard["result"]["content"][0]["text"], "other", "{heard:#}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_is_held_to_its_tools_and_steps_by_its_own_endpoint() {
    let (hive, _, _) = hive().await;
    let line = |id: i64, method: &str, params: Value| {
        json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }).to_string()
    };
    let hello = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } });
    let call = |id, tool: &str| line(id, "tools/call", json!({ "name": tool, "arguments": { "hive": 7 } }));
    let lines = [
        line(1, "initialize", hello),
        line(2, "tools/list", json!({})),
        call(3, "look"),
        call(4, "other"),
        call(5, "get_tool_catalog"),
        call(6, "kit/look.sh"),
        call(7, "look"),
        line(8, "resources/list", json!({})),
    ];
    // One after the other, with an environment as bare as some agent programs give it.
    let asks = lines.map(|line| format!("echo '{line}' | env -i /skep/bin/skep mcp\n")).concat();
    let body = json!({ "instructions": asks, "required_tools": ["look"], "max_steps": 2 });
    let run = hive.ran("held", body).await;
    assert_eq!((&run["status"], &run["steps"]), (&json!("succeeded"), &json!(2)), "{run:#}");
    let said = hive.said(&run).await;
    let said: Vec<Value> = said.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of =
        |id: i64| said.iter().find(|answer| answer["id"] == id).unwrap_or_else(|| panic!("{id}: {said:#?}"));
    assert_eq!(of(1)["result"]["capabilities"], json!({ "tools": {} }), "no resources");
    let tools = of(2)["result"]["tools"].as_array().unwrap();
    let names: Vec<&Value> = tools.iter().map(|tool| &tool["name"]).collect();
    assert_eq!(names, ["look"]);
    assert_eq!(of(3)["result"]["structuredContent"]["bees"], 40_000);
    for other in [4, 5] {
        let error = &of(other)["error"];
        assert_eq!(error["code"], -32602, "{error}");
        assert!(error["message"].as_str().unwrap().contains("it may call look"), "{error}");
    }
    assert_eq!(of(6)["result"]["structuredContent"]["bees"], 40_000, "the same tool by its full name");
    let refused = &of(7)["result"];
    assert_eq!(refused["isError"], true, "{refused}");
    assert!(refused["content"][0]["text"].as_str().unwrap().contains("max_steps is 2"), "{refused}");
    assert_eq!(of(8)["error"]["code"], -32601, "{}", of(8));
    // Over, it serves nobody.
    let url = format!("/v1/runs/{}/mcp", run["id"]);
    let (status, answer) = hive.send("POST", &url, Some(json!({}))).await;
    assert_eq!(status, 409, "{answer:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flood_of_calls_through_the_bridge_is_answered_whole() {
    let (hive, _, _) = hive().await;
    let mut talk = Talk::new(&hive);
    let began = Instant::now();
    for id in 0..60 {
        let version = "\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\",\
                       \"io.modelcontextprotocol/clientInfo\":{\"name\":\"t\",\"version\":\"1\"},\
                       \"io.modelcontextprotocol/clientCapabilities\":{}}";
        talk.say(&format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"tools/call\",\"params\":{{\"name\":\"other\",{version}}}}}\n"
        ))
        .await;
    }
    let mut ids = Vec::new();
    while ids.len() < 60 && began.elapsed() < PATIENCE {
        let answer = talk.hear().await;
        assert!(
            answer["result"].is_object() || answer["error"]["message"].as_str().unwrap().contains("429"),
            "{answer}"
        );
        ids.push(answer["id"].as_i64().unwrap());
    }
    ids.sort_unstable();
    assert_eq!(ids, (0..60).collect::<Vec<i64>>());
    drop(talk.input.take());
    let mut rest = String::new();
    talk.output.into_inner().read_to_string(&mut rest).await.unwrap();
    assert_eq!(rest, "");
}
