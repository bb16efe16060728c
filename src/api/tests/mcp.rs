//! `/mcp` through stock clients of both generations of the protocol, and through rude ones.

use std::{collections::HashMap, sync::Arc, time::Duration};

use axum::http::{HeaderName, HeaderValue, header};
use rmcp::{
    ClientHandler, RoleClient,
    model::{
        CallToolRequestParams, ErrorCode, GetSkillRequestParams, PaginatedRequestParams, ProtocolVersion,
        ReadResourceDirectoryRequestParams, ReadResourceRequestParams, ResourceContents, ServerNotification,
        SkillResources, SubscriptionFilter,
    },
    service::{
        ClientLifecycleMode, NotificationContext, RunningService, ServiceError,
        serve_client_with_lifecycle_and_ct,
    },
    transport::streamable_http_client::{StreamableHttpClientTransport, StreamableHttpClientTransportConfig},
};
use serde_json::{Map, Value, json};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::{
    client::bearer,
    setup::{Open, open, open_with},
};
use crate::{
    app::tools::{ServerKey, ServerTool, ServerTools},
    ids::{AgentId, SkillId},
};

const OLD: ClientLifecycleMode = ClientLifecycleMode::Initialize;

fn new() -> ClientLifecycleMode {
    ClientLifecycleMode::Discover { preferred_versions: vec![ProtocolVersion::V_2026_07_28] }
}

#[derive(Clone, Default)]
struct Client {
    changed: Arc<Notify>,
}

impl ClientHandler for Client {
    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.changed.notify_one();
    }
}

type Conn = RunningService<RoleClient, Client>;

async fn speak(http: reqwest::Client, uri: &str, token: bool, mode: ClientLifecycleMode) -> Conn {
    let mut headers: HashMap<HeaderName, HeaderValue> = HashMap::new();
    if token {
        headers.insert(header::AUTHORIZATION, bearer().parse().unwrap());
    }
    let config = StreamableHttpClientTransportConfig::with_uri(uri).custom_headers(headers);
    let transport = StreamableHttpClientTransport::with_client(http, config);
    serve_client_with_lifecycle_and_ct(Client::default(), transport, mode, CancellationToken::new())
        .await
        .unwrap()
}

/// The operator on TCP, with the token.
async fn operator(open: &Open, query: &str, mode: ClientLifecycleMode) -> Conn {
    crate::tls::install();
    speak(reqwest::Client::new(), &format!("http://{}/mcp{query}", open.host()), true, mode).await
}

/// The agent `writer` on its socket.
async fn agent(open: &Open, mode: ClientLifecycleMode) -> Conn {
    crate::tls::install();
    let http = reqwest::Client::builder().unix_socket(open.agent()).build().unwrap();
    speak(http, "http://skep/mcp", false, mode).await
}

async fn call(conn: &Conn, tool: &str, args: Value) -> Result<Value, ServiceError> {
    let args: Map<String, Value> = serde_json::from_value(args).unwrap();
    let result = conn.call_tool(CallToolRequestParams::new(tool.to_owned()).with_arguments(args)).await?;
    Ok(serde_json::to_value(result).unwrap())
}

fn text(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn stock_clients_of_both_generations_list_and_call_on_both_doors() {
    let open = open().await;
    for conn in [
        operator(&open, "?agent=writer", OLD).await,
        operator(&open, "?agent=writer", new()).await,
        agent(&open, OLD).await,
        agent(&open, new()).await,
    ] {
        let tools = conn.list_all_tools().await.unwrap();
        for name in ["create_skill", "edit_system_prompt", "get_tool_catalog", "skill_management"] {
            let tool = tools.iter().find(|tool| tool.name == name).unwrap_or_else(|| panic!("no {name}"));
            assert_eq!(tool.input_schema["type"], "object");
            assert!(tool.description.is_some());
        }
        let reads = tools.iter().find(|tool| tool.name == "read_skill").unwrap();
        assert_eq!(reads.annotations.as_ref().unwrap().read_only_hint, Some(true));
        let catalogue = call(&conn, "get_tool_catalog", json!({})).await.unwrap();
        assert_eq!(catalogue["structuredContent"]["success"], true, "{catalogue:#}");
        assert_eq!(
            serde_json::from_str::<Value>(text(&catalogue)).unwrap(),
            catalogue["structuredContent"],
            "the text says the same"
        );
        let absent = call(&conn, "read_skill", json!({ "name": "nothing" })).await.unwrap();
        assert_eq!((&absent["isError"], text(&absent)), (&json!(true), "there is no skill document nothing"));
        let Err(ServiceError::McpError(unknown)) = call(&conn, "creat_skill", json!({})).await else {
            panic!("an unknown tool is no result")
        };
        assert_eq!(unknown.code, ErrorCode::INVALID_PARAMS);
        assert!(unknown.message.contains("did you mean \"create_skill\"?"), "{unknown:?}");
        conn.cancel().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_has_its_own_rights_and_the_operator_chooses_whose_tools() {
    let open = open().await;
    let conn = agent(&open, new()).await;
    let new_skill =
        json!({ "name": "notes", "title": "Notes", "description": "Takes notes.", "content": "Write." });
    let made = call(&conn, "create_skill", new_skill.clone()).await.unwrap();
    assert_eq!(made["structuredContent"], json!({ "name": "notes", "version": 1 }), "{made:#}");
    assert_eq!(open.hive.document(None, &"notes".parse().unwrap()).await.unwrap().source, "agent");
    let others = call(&conn, "delete_skill", json!({ "name": "alpha-tools" })).await.unwrap();
    assert_eq!(others["isError"], true, "{others:#}");
    let conn = operator(&open, "?agent=reader", OLD).await;
    let read = call(&conn, "read_skill", json!({ "name": "notes" })).await.unwrap();
    assert_eq!(read["structuredContent"]["content"], "Write.");
    for (path, status) in [("/mcp?agent=nobody", 404), ("/mcp", 422), ("/mcp?agent=Wrong%20Name", 422)] {
        let answer = open.call("POST", path, r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#).await;
        assert_eq!(answer.status, status, "{path}: {answer:?}");
    }
    let answer = open.call_as_agent("POST", "/mcp?agent=reader", "{}").await;
    assert_eq!(answer.status, 403, "{answer:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn five_thousand_tools_come_in_pages() {
    let open = with_server(5_000).await;
    for mode in [OLD, new()] {
        let conn = operator(&open, "?agent=writer", mode).await;
        let first = conn.list_tools(Some(PaginatedRequestParams::default())).await.unwrap();
        assert_eq!(first.tools.len(), 1_000);
        assert!(first.next_cursor.is_some());
        let all = conn.list_all_tools().await.unwrap();
        let served = all.iter().filter(|tool| tool.name.starts_with("tool_")).count();
        assert_eq!(served, 5_000);
        let odd = all.iter().find(|tool| tool.name.starts_with("odd_name_")).unwrap();
        assert!(
            odd.name.len() <= 64
                && odd.name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-./".contains(&b))
        );
        // It is found again by the name under which it was shown.
        let called = call(&conn, &odd.name, json!({})).await.unwrap();
        assert!(!text(&called).contains("has no tool"), "{called:#}");
        let wrong =
            conn.list_tools(Some(PaginatedRequestParams::default().with_cursor(Some("x".into())))).await;
        assert!(matches!(wrong, Err(ServiceError::McpError(e)) if e.code == ErrorCode::INVALID_PARAMS));
    }
}

/// `writer` has a skill whose server once told of so many tools.
async fn with_server(tools: usize) -> Open {
    let open = open().await;
    let folder = open.hive.paths.root.join("skills/many@1.0.0");
    std::fs::create_dir_all(&folder).unwrap();
    let text =
        "---\nname: many\ndescription: Brings many tools.\nmetadata:\n  mcp:\n    command: node\n---\n\nx\n";
    std::fs::write(folder.join("SKILL.md"), text).unwrap();
    let config = std::fs::read_to_string(open.hive.paths.root.join("skep.toml")).unwrap();
    let config = config.replace("\"alpha-tools@0.0.0\"", "\"alpha-tools@0.0.0\", \"many\"");
    std::fs::write(open.hive.paths.root.join("skep.toml"), config).unwrap();
    open.hive.refresh(&crate::app::world::UpdateScope::default()).await;
    let (writer, skill): (AgentId, SkillId) = ("writer".parse().unwrap(), "many".parse().unwrap());
    let world = open.hive.world();
    let resolution = world.resolutions[&writer].as_ref().unwrap();
    let digest = resolution.skills[&skill].digest;
    let manifest = open.hive.db.read({
        let (skill, version) = (skill.clone(), resolution.skills[&skill].version.clone());
        move |conn| crate::db::skills::manifest(conn, &skill, &version)
    });
    let server = manifest.await.unwrap().unwrap().mcp_servers[0].name.clone();
    let named = |name: String| ServerTool {
        name,
        description: "One of many.".into(),
        input_schema: json!({ "type": "object" }),
        output_schema: None,
        annotations: None,
    };
    let mut told: Vec<ServerTool> = (0..tools).map(|n| named(format!("tool_{n}"))).collect();
    told.push(named(format!("odd name {}", "ü".repeat(100))));
    let key = ServerKey { agent: writer, skill, server };
    assert!(open.hive.tools.learn(key, ServerTools { digest, tools: told, left_out: Vec::new() }));
    open
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_message_is_told_in_the_protocols_words() {
    let open = open().await;
    for (body, status, code) in [
        ("{\"jsonrpc\": \"2.0\", ", 400, -32700),
        ("[{\"jsonrpc\": \"2.0\", \"id\": 1, \"method\": \"ping\"}]", 400, -32600),
        ("7", 400, -32600),
    ] {
        let answer = open.call_as_agent("POST", "/mcp", body).await;
        let said = answer.json();
        assert_eq!((answer.status, said["error"]["code"].as_i64()), (status, Some(code)), "{body}: {said}");
        assert_eq!((&said["jsonrpc"], &said["id"]), (&json!("2.0"), &Value::Null));
    }
    let large =
        format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\",\"x\":\"{}\"}}", "x".repeat(1 << 20));
    assert_eq!(open.call_as_agent("POST", "/mcp", &large).await.status, 413);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_hives_own_tools_are_not_for_agents_that_do_not_exist() {
    let open = open().await;
    let answer = open.call("POST", "/v1/agents/nobody/tools/list_skills", "{}").await;
    assert_eq!(answer.status, 404, "{answer:?}");
    assert!(answer.json()["detail"].as_str().unwrap().contains("nobody"), "{answer:?}");
    assert_eq!(open.call("POST", "/v1/agents/writer/tools/list_skills", "{}").await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_is_nobody_elses() {
    let open = open().await;
    crate::tls::install();
    let http = reqwest::Client::new();
    let at = |query: &str| format!("http://{}/mcp{query}", open.host());
    let ask = |method: reqwest::Method, query: &str| {
        http.request(method, at(query))
            .header("authorization", bearer())
            .header("accept", "application/json, text/event-stream")
            .header("content-type", "application/json")
    };
    let hello = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } } });
    let begun = ask(reqwest::Method::POST, "?agent=writer").body(hello.to_string()).send().await.unwrap();
    assert_eq!(begun.status(), 200);
    let session = begun.headers()["mcp-session-id"].to_str().unwrap().to_owned();
    let ping = json!({ "jsonrpc": "2.0", "id": 2, "method": "ping" }).to_string();
    for (method, query, session, status) in [
        (reqwest::Method::POST, "?agent=reader", session.as_str(), 404),
        (reqwest::Method::GET, "?agent=reader", &session, 404),
        (reqwest::Method::DELETE, "?agent=reader", &session, 404),
        (reqwest::Method::POST, "?agent=writer", "00000000-0000-0000-0000-000000000000", 404),
        (reqwest::Method::POST, "?agent=writer", &session, 200),
        (reqwest::Method::DELETE, "?agent=writer", &session, 202),
        (reqwest::Method::POST, "?agent=writer", &session, 404),
    ] {
        let body = if method == reqwest::Method::POST { ping.clone() } else { String::new() };
        let request = ask(method.clone(), query).header("mcp-session-id", session).body(body);
        let answer = request.send().await.unwrap();
        assert_eq!(answer.status(), status, "{method} {query}");
        if status == 404 {
            assert_eq!(answer.headers()["content-type"], "application/problem+json");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_of_tools_are_told_to_both_generations() {
    let open = open().await;
    let old = agent(&open, OLD).await;
    let new = agent(&open, new()).await;
    let mut news = new.listen(SubscriptionFilter::builder().tools_list_changed().build()).await.unwrap();
    let told = old.service().changed.clone();
    let patience = Duration::from_secs(30);
    let config = std::fs::read_to_string(open.hive.paths.root.join("skep.toml")).unwrap();
    let config = config.replace("\"alpha-tools@0.0.0\"", "\"zeta-tools@0.0.0\"");
    std::fs::write(open.hive.paths.root.join("skep.toml"), config).unwrap();
    open.hive.refresh(&crate::app::world::UpdateScope::default()).await;
    tokio::time::timeout(patience, told.notified()).await.expect("the session is told");
    let next = tokio::time::timeout(patience, news.next()).await.expect("the subscription is told").unwrap();
    assert!(matches!(next, Some(ServerNotification::ToolListChangedNotification(_))), "{next:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agents_skills_are_resources_with_digests_that_hold() {
    let open = open().await;
    let root = &open.hive.paths.root;
    std::fs::create_dir_all(root.join("skills/filed@1.0.0/data")).unwrap();
    std::fs::write(root.join("skills/filed@1.0.0/data/a b.bin"), [0xff, 0, 1]).unwrap();
    let text = "---\nname: filed\ndescription: Has files.\nlicense: MIT\n---\n\nText.\n";
    std::fs::write(root.join("skills/filed@1.0.0/SKILL.md"), text).unwrap();
    let config = std::fs::read_to_string(root.join("skep.toml")).unwrap();
    let config = config.replace("\"alpha-tools@0.0.0\"", "\"alpha-tools@0.0.0\", \"filed\"");
    std::fs::write(root.join("skep.toml"), config).unwrap();
    open.hive.refresh(&crate::app::world::UpdateScope::default()).await;
    for mode in [OLD, new()] {
        let conn = agent(&open, mode).await;
        let skills = conn.list_all_skills().await.unwrap();
        let names: Vec<&str> = skills.iter().map(rmcp::model::Skill::name).collect();
        assert_eq!(names, ["alpha-tools", "filed"], "only what it resolved");
        let skill = conn.get_skill(GetSkillRequestParams::new("skill://filed/SKILL.md")).await.unwrap().skill;
        assert_eq!(skill.frontmatter.description, "Has files.");
        assert_eq!(skill.frontmatter.extra["license"], "MIT");
        let SkillResources::Files(files) = &skill.resources else { panic!("{skill:?}") };
        let uris: Vec<&str> = files.iter().map(|file| file.uri.as_str()).collect();
        assert_eq!(uris, ["skill://filed/SKILL.md", "skill://filed/data/a%20b.bin"]);
        for (folder, inside) in
            [("skill://filed", &["SKILL.md", "data"][..]), ("skill://filed/data", &["a%20b.bin"])]
        {
            let asked = ReadResourceDirectoryRequestParams::new(folder);
            let read = conn.read_resource_directory(asked).await.unwrap();
            let names: Vec<&str> = read.resources.iter().map(|resource| resource.name.as_str()).collect();
            assert_eq!(names, inside);
        }
        for file in files {
            let read = conn.read_resource(ReadResourceRequestParams::new(file.uri.clone())).await.unwrap();
            let bytes = match &read.contents[0] {
                ResourceContents::TextResourceContents { text, .. } => text.clone().into_bytes(),
                ResourceContents::BlobResourceContents { blob, .. } => {
                    use base64::Engine;
                    base64::engine::general_purpose::STANDARD.decode(blob).unwrap()
                }
                other => panic!("{other:?}"),
            };
            file.verify(&bytes).unwrap();
        }
        assert_eq!(conn.list_all_resources().await.unwrap().len(), 2);
        for uri in [
            "skill://zeta-tools/SKILL.md",
            "skill://alpha-tools/../zeta-tools/SKILL.md",
            "file:///etc/passwd",
        ] {
            let read = conn.read_resource(ReadResourceRequestParams::new(uri)).await;
            assert!(matches!(read, Err(ServiceError::McpError(_))), "{uri}: {read:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_soul_is_edited_by_its_agent_where_the_operator_allows_it() {
    let open = open().await;
    let (conn, append) = (agent(&open, OLD).await, json!({ "operation": "append", "content": "x" }));
    let refused = call(&conn, "edit_system_prompt", append).await.unwrap();
    assert!(refused["isError"] == true && text(&refused).contains("allow_soul_edit"), "{refused:#}");
    let config = "[hive]\nname = 'demo'\n[agents.writer]\nsoul = 'souls/writer.md'\nallow_soul_edit = true\n";
    let open = open_with(config).await;
    let conn = agent(&open, new()).await;
    let edit = async |args: Value| call(&conn, "edit_system_prompt", args).await.unwrap();
    let soul = || std::fs::read_to_string(open.hive.paths.root.join("souls/writer.md")).unwrap();
    for (args, after) in [
        (
            json!({ "operation": "append", "content": "Be kind. Be brief.\n" }),
            "# Writer\nBe kind. Be brief.\n",
        ),
        (json!({ "operation": "prepend", "content": "You.\n" }), "You.\n# Writer\nBe kind. Be brief.\n"),
        (
            json!({ "operation": "find_replace", "find": "Be", "replace": "Stay", "replace_all": "true" }),
            "You.\n# Writer\nStay kind. Stay brief.\n",
        ),
        (json!({ "operation": "delete", "content": " Stay brief." }), "You.\n# Writer\nStay kind.\n"),
        (json!({ "operation": "replace", "content": "# Anew, anew\n" }), "# Anew, anew\n"),
    ] {
        let edited = edit(args.clone()).await;
        assert_eq!((&edited["isError"], soul().as_str()), (&json!(false), after), "{args} {edited:#}");
    }
    for (args, why) in [
        (json!({ "operation": "delete", "content": "gone" }), "does not hold the text"),
        (json!({ "operation": "find_replace", "find": "n", "replace": "m" }), "more than once"),
        (json!({ "operation": "append", "content": "\u{1b}[31m" }), "control character"),
        (json!({ "operation": "append" }), "content is missing"),
        (json!({ "operation": "burn", "content": "x" }), "/operation: "),
        (json!({}), "operation"),
    ] {
        let refused = edit(args.clone()).await;
        assert!(refused["isError"] == true && text(&refused).contains(why), "{args} {refused:#}");
        assert_eq!(soul(), "# Anew, anew\n");
    }
}
