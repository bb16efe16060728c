//! What skills' servers say, ask and offer beside their tools, to MCP clients on a real hive.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use reqwest::header::{AUTHORIZATION, HeaderName, HeaderValue};
use rmcp::{
    ClientHandler, ErrorData, RoleClient,
    model::{
        CallToolRequestParams, ClientCapabilities, ClientConfig, ElicitRequestParams, ElicitResult,
        ElicitationAction, GetPromptRequestParams, Implementation, ReadResourceRequestParams,
        ResourceUpdatedNotificationParam, SubscribeRequestParams,
    },
    service::{NotificationContext, RequestContext, RunningService, ServiceError, serve_client},
    transport::{
        async_rw::AsyncRwTransport,
        streamable_http_client::{StreamableHttpClientTransport, StreamableHttpClientTransportConfig},
    },
};
use serde_json::{Value, json};
use tokio::{process::Child, sync::Notify, time::timeout};

use crate::hive::{PATIENCE, TestHive};

/// A server of skill `sys.argv[1]`.
const ASKER: &str = r#"
import json, os, sys, threading
lock, asked = threading.Lock(), {}
def say(message):
    with lock: print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)
def ask(method, params):
    asked["q"] = {"there": threading.Event()}
    say({"id": "q", "method": method, "params": params})
    asked["q"]["there"].wait(60)
    return asked["q"]["told"]
def answer(m):
    method, params = m["method"], m.get("params", {})
    if method == "initialize":
        result = {"protocolVersion": params["protocolVersion"], "serverInfo": {"name": "asker", "version": "1"},
                  "capabilities": {"tools": {}, "prompts": {"listChanged": True}, "resources": {"subscribe": True}}}
    elif method == "tools/list":
        result = {"tools": [{"name": sys.argv[1] + "-" + n, "inputSchema": {"type": "object"}} for n in ["ask", "turn"]]}
    elif method == "tools/call" and params["name"].endswith("ask"):
        schema = {"type": "object", "properties": {"name": {"type": "string"}}}
        told = ask("elicitation/create", {"message": "Who are you?", "requestedSchema": schema})
        result = {"content": [{"type": "text", "text": json.dumps(told.get("result", told.get("error")))}]}
    elif method == "tools/call":
        say({"method": "notifications/resources/updated", "params": {"uri": "page://" + sys.argv[1]}})
        result = {"content": []}
    elif method == "prompts/list": result = {"prompts": [{"name": n, "description": os.environ["GREETING"]} for n in ["greet", "only-" + sys.argv[1]]]}
    elif method == "prompts/get":
        words = "%s of %s says %s" % (params["name"], sys.argv[1], os.environ["GREETING"])
        result = {"messages": [{"role": "user", "content": {"type": "text", "text": words}}]}
    elif method == "resources/list":
        result = {"resources": [{"uri": u, "name": u} for u in ["page://" + sys.argv[1], "skill://sly/SKILL.md"]]}
    elif method == "resources/templates/list":
        result = {"resourceTemplates": [{"uriTemplate": sys.argv[1] + "://{page}", "name": "pages"}]}
    elif method == "resources/read":
        result = {"contents": [{"uri": params["uri"], "text": sys.argv[1] + " " + os.environ["GREETING"]}]}
    else: result = {}
    say({"id": m["id"], "result": result})
for line in sys.stdin:
    m = json.loads(line)
    if "method" not in m:
        asked[m["id"]]["told"] = m; asked[m["id"]]["there"].set()
    elif "id" in m: threading.Thread(target=answer, args=(m,), daemon=True).start()
"#;

/// A client that answers forms with its own name.
#[derive(Clone)]
struct Client {
    name: &'static str,
    asked: Arc<Mutex<Vec<String>>>,
    updated: Arc<Notify>,
}

impl ClientHandler for Client {
    fn get_info(&self) -> ClientConfig {
        let able = ClientCapabilities::builder().enable_elicitation().build();
        ClientConfig::new(able, Implementation::new(self.name, "1"))
    }

    async fn create_elicitation(
        &self,
        params: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let ElicitRequestParams::FormElicitationParams { message, .. } = params else { panic!("{params:?}") };
        self.asked.lock().unwrap().push(message);
        Ok(ElicitResult::new(ElicitationAction::Accept).with_content(json!({ "name": self.name })))
    }

    async fn on_resource_updated(
        &self,
        params: ResourceUpdatedNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        assert_eq!(params.uri, "page://one");
        self.updated.notify_one();
    }
}

type Conn = RunningService<RoleClient, Client>;

fn client(name: &'static str) -> Client {
    Client { name, asked: Arc::default(), updated: Arc::default() }
}

/// A hive whose agent has two skills with a server of the same name each; its operator's client.
async fn hive() -> (TestHive, Conn) {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut hive = TestHive::new("[agents.one]\nskills = [\"one@1.0.0\", \"two@1.0.0\"]\n");
    let config = std::fs::read_to_string(hive.path("skep.toml")).unwrap();
    let config = config.replace("listen = \"none\"", &format!("listen = \"127.0.0.1:{port}\""));
    hive.write("skep.toml", &config);
    hive.write("secrets/env.json", "{\"WHO\": \"swordfish-77\"}");
    for skill in ["one", "two"] {
        let server = json!({ "name": "asker", "command": "python3", "args": ["asker.py", skill],
            "env": { "GREETING": "${WHO} is here" } });
        let broken = json!({ "name": "broken", "command": "false" });
        hive.write(&format!("skills/{skill}@1.0.0/asker.py"), ASKER);
        hive.skill(skill, "1.0.0", &json!({ "mcpServers": [broken, server], "envVars": ["WHO"] }));
    }
    hive.start().await;
    hive.running("one").await;
    let token = std::fs::read_to_string(hive.path(".skep/token")).unwrap();
    let bearer: HeaderValue = format!("Bearer {}", token.trim()).parse().unwrap();
    let uri = format!("http://127.0.0.1:{port}/mcp?agent=one");
    let headers: std::collections::HashMap<HeaderName, HeaderValue> = [(AUTHORIZATION, bearer)].into();
    let config = StreamableHttpClientTransportConfig::with_uri(uri).custom_headers(headers);
    let transport = StreamableHttpClientTransport::with_client(reqwest::Client::new(), config);
    let operator = serve_client(client("operator"), transport).await.unwrap();
    (hive, operator)
}

/// The agent's own client, in its container.
async fn agent(hive: &TestHive) -> (Conn, Child) {
    let mut command = tokio::process::Command::new("docker");
    command.args(["exec", "-i", &hive.container("one"), "/skep/bin/skep", "mcp"]);
    command.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped()).kill_on_drop(true);
    let mut bridge = command.spawn().unwrap();
    let (output, input) = (bridge.stdout.take().unwrap(), bridge.stdin.take().unwrap());
    let conn = serve_client(client("agent"), AsyncRwTransport::new_client(output, input)).await.unwrap();
    (conn, bridge)
}

async fn call(conn: &Conn, tool: &str) -> Result<Value, ServiceError> {
    let result = conn.call_tool(CallToolRequestParams::new(tool.to_owned())).await?;
    Ok(serde_json::to_value(result).unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_servers_question_reaches_the_client_that_called_on_either_door_and_nobody_else() {
    let (hive, operator) = hive().await;
    let (agent, _bridge) = agent(&hive).await;
    for (caller, other) in [(&operator, &agent), (&agent, &operator)] {
        let before = other.service().asked.lock().unwrap().len();
        let answered = call(caller, "one-ask").await.unwrap();
        let name = caller.service().name;
        let text = answered["content"][0]["text"].as_str().unwrap();
        assert_eq!(serde_json::from_str::<Value>(text).unwrap()["content"], json!({ "name": name }));
        let said = "[MCP server asker of skill one, agent one] Who are you?";
        assert_eq!(caller.service().asked.lock().unwrap().as_slice(), [said]);
        assert_eq!(other.service().asked.lock().unwrap().len(), before);
    }
    // Of a call without a client there is nobody to ask.
    let (status, answer) = hive.send("POST", "/v1/agents/one/tools/one-ask", Some(json!({}))).await;
    assert!(status == 200 && answer.to_string().contains("no MCP client"), "{answer:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn prompts_and_resources_of_servers_are_told_apart_and_have_no_secrets() {
    let (_hive, operator) = hive().await;
    let prompts = operator.list_prompts(None).await.unwrap().prompts;
    let mut names: Vec<&str> = prompts.iter().map(|prompt| prompt.name.as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, ["asker/greet", "only-one", "only-two", "two/asker/greet"]);
    assert!(prompts.iter().all(|prompt| prompt.description.as_deref() == Some("*** is here")), "{prompts:?}");
    for (name, words) in [
        ("asker/greet", "greet of one says *** is here"),
        ("two/asker/greet", "greet of two says *** is here"),
        ("only-two", "only-two of two says *** is here"),
    ] {
        let got = operator.get_prompt(GetPromptRequestParams::new(name)).await.unwrap();
        assert_eq!(serde_json::to_value(&got.messages).unwrap()[0]["content"]["text"], words);
    }
    assert!(operator.get_prompt(GetPromptRequestParams::new("greet")).await.is_err());

    let resources = operator.list_resources(None).await.unwrap().resources;
    let pages: Vec<&str> = resources.iter().map(|resource| resource.uri.as_str()).collect();
    assert!(pages.contains(&"page://one") && pages.contains(&"page://two"), "{pages:?}");
    assert!(!pages.contains(&"skill://sly/SKILL.md"), "{pages:?}");
    for (uri, words) in [("page://two", "two *** is here"), ("one://x", "one *** is here")] {
        let read = operator.read_resource(ReadResourceRequestParams::new(uri)).await.unwrap();
        assert_eq!(serde_json::to_value(&read.contents).unwrap()[0]["text"], words);
    }
    for uri in ["nobody://x", "skill://sly/SKILL.md"] {
        assert!(operator.read_resource(ReadResourceRequestParams::new(uri)).await.is_err(), "{uri}");
    }
}

#[tokio::test(flavor = "multi_thread")]
#[expect(deprecated, reason = "clients up to 2025-11-25 subscribe so")]
async fn a_client_is_told_of_a_resource_that_it_follows_and_of_no_other() {
    let (_hive, operator) = hive().await;
    operator.subscribe(SubscribeRequestParams::new("page://one")).await.unwrap();
    call(&operator, "two-turn").await.unwrap();
    call(&operator, "one-turn").await.unwrap();
    let updated = operator.service().updated.clone();
    timeout(PATIENCE, updated.notified()).await.unwrap();
    operator.unsubscribe(rmcp::model::UnsubscribeRequestParams::new("page://one")).await.unwrap();
    call(&operator, "one-turn").await.unwrap();
    assert!(timeout(Duration::from_secs(1), updated.notified()).await.is_err());
}
