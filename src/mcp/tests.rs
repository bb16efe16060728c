//! Servers as they should not be, played over pipes.

use std::{sync::Arc, time::Duration};

use serde_json::{Map, Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf},
    task::JoinHandle,
};
use tokio_util::sync::CancellationToken;

use super::{Answer, Connection, McpFault, Remote, Rules};

mod newest;
mod offered;
mod relayed;

const PATIENCE: Duration = Duration::from_secs(20);

/// The server's end.
struct Server {
    reader: Lines<BufReader<ReadHalf<DuplexStream>>>,
    writer: WriteHalf<DuplexStream>,
}

impl Server {
    /// The next message; none: the client is gone.
    async fn hear(&mut self) -> Option<Value> {
        let line = self.reader.next_line().await.ok()??;
        Some(serde_json::from_str(&line).unwrap())
    }

    /// The next request of this method; others are passed over.
    async fn asked(&mut self, method: &str) -> Value {
        loop {
            let message = self.hear().await.expect(method);
            if message["method"] == method {
                return message;
            }
        }
    }

    async fn say(&mut self, text: &str) {
        self.writer.write_all(text.as_bytes()).await.unwrap_or_default();
    }

    async fn answer(&mut self, request: &Value, result: Value) {
        self.say(&format!("{}\n", json!({ "jsonrpc": "2.0", "id": request["id"], "result": result }))).await;
    }

    async fn shake(&mut self) {
        let request = self.asked("initialize").await;
        let result = json!({ "protocolVersion": request["params"]["protocolVersion"],
            "capabilities": { "tools": { "listChanged": true } }, "serverInfo": { "name": "s", "version": "1" } });
        self.answer(&request, result).await;
    }

    /// Waits until the client cut the connection.
    async fn until_cut(mut self) {
        let mut rest = String::new();
        drop(self.writer.shutdown().await);
        let mut reader = self.reader.into_inner();
        drop(reader.read_to_string(&mut rest).await);
    }
}

/// A server that plays this; what became of the handshake.
async fn meet<F, P>(play: P) -> (Result<Connection, McpFault>, JoinHandle<()>)
where
    P: FnOnce(Server) -> F,
    F: Future<Output = ()> + Send + 'static,
{
    meet_within(play, PATIENCE).await
}

async fn meet_within<F, P>(play: P, within: Duration) -> (Result<Connection, McpFault>, JoinHandle<()>)
where
    P: FnOnce(Server) -> F,
    F: Future<Output = ()> + Send + 'static,
{
    let (ours, theirs) = tokio::io::duplex(64 << 10);
    let (reader, writer) = tokio::io::split(theirs);
    let played = tokio::spawn(play(Server { reader: BufReader::new(reader).lines(), writer }));
    let (reader, writer) = tokio::io::split(ours);
    (Connection::over_streams(reader, writer, within).await, played)
}

async fn call(connection: &Connection, limit: Duration) -> Result<Answer, McpFault> {
    connection.call("t", Map::new(), limit, &CancellationToken::new(), None).await
}

fn tool(name: &str) -> Value {
    json!({ "name": name, "description": format!("Does {name}."), "inputSchema": { "type": "object" } })
}

#[tokio::test]
async fn a_server_tells_of_its_tools_page_by_page_and_answers_calls() {
    let (connection, played) = meet(|mut server| async move {
        server.shake().await;
        for (page, next) in [(["a", "b"], Some("2")), (["c", "d"], None)] {
            let request = server.asked("tools/list").await;
            let mut result = json!({ "tools": page.map(tool) });
            if let Some(next) = next {
                result["nextCursor"] = json!(next);
            }
            server.answer(&request, result).await;
        }
        let request = server.asked("tools/call").await;
        assert_eq!((&request["params"]["name"], &request["params"]["arguments"]), (&json!("t"), &json!({})));
        let content = json!([{ "type": "text", "text": "hello" }]);
        server.answer(&request, json!({ "content": content, "structuredContent": { "n": 1 } })).await;
    })
    .await;
    let connection = connection.unwrap();
    let names: Vec<String> =
        connection.tools(PATIENCE).await.unwrap().into_iter().map(|tool| tool.name).collect();
    assert_eq!(names, ["a", "b", "c", "d"]);
    let answer = call(&connection, PATIENCE).await.unwrap();
    assert_eq!(answer.structured, Some(json!({ "n": 1 })));
    assert_eq!(answer.content, [json!({ "type": "text", "text": "hello" })]);
    assert!(!answer.is_error);
    played.await.unwrap();
}

#[tokio::test]
async fn a_handshake_that_is_never_answered_is_given_up() {
    let within = Duration::from_millis(200);
    let (connection, _played) =
        meet_within(|mut server| async move { while server.hear().await.is_some() {} }, within).await;
    assert_eq!(connection.err(), Some(McpFault::Handshake(within)));
}

#[tokio::test]
async fn rubbish_and_half_a_json_are_passed_over() {
    let (connection, played) = meet(|mut server| async move {
        server.say("Starting up...\n\u{1b}[31mred\u{1b}[0m\n{\"jsonrpc\":\"2.0\",\n[]\n42\n\n").await;
        server.shake().await;
        server.say("{\"jsonrpc\": \"2.0\", \"id\": 1, \"resu\nlt\": {}}\n{}\n").await;
        let request = server.asked("tools/call").await;
        server.writer.write_all(b"\xff\xfe rubbish\n").await.unwrap();
        server.answer(&request, json!({ "content": [] })).await;
    })
    .await;
    let connection = connection.unwrap();
    assert_eq!(call(&connection, PATIENCE).await.unwrap(), Answer::default());
    played.await.unwrap();
}

#[tokio::test]
async fn a_server_that_dies_in_a_call_fails_it_at_once() {
    let (connection, played) = meet(|mut server| async move {
        server.shake().await;
        server.asked("tools/call").await;
        server.say("{\"jsonrpc\":\"2.0\",\"id\":").await;
    })
    .await;
    let connection = connection.unwrap();
    assert_eq!(call(&connection, PATIENCE).await, Err(McpFault::Closed));
    played.await.unwrap();
    assert!(connection.is_over());
    connection.watch().over.cancelled().await;
}

#[tokio::test]
async fn an_answer_of_a_hundred_megabytes_is_refused_and_the_next_one_is_taken() {
    let (connection, played) = meet(|mut server| async move {
        server.shake().await;
        let request = server.asked("tools/call").await;
        server.say(&format!("{{\"jsonrpc\":\"2.0\",\"id\":{},\"result\":\"", request["id"])).await;
        let piece = "x".repeat(1 << 20);
        for _ in 0..100 {
            server.say(&piece).await;
        }
        server.say("\"}\n").await;
        let request = server.asked("tools/call").await;
        server.answer(&request, json!({ "content": [] })).await;
    })
    .await;
    let connection = connection.unwrap();
    assert_eq!(call(&connection, PATIENCE).await, Err(McpFault::TooLarge));
    assert_eq!(call(&connection, PATIENCE).await.unwrap(), Answer::default());
    played.await.unwrap();
}

#[tokio::test]
async fn an_answer_that_is_too_large_fails_its_own_call_and_no_other() {
    let (connection, played) = meet(|mut server| async move {
        server.shake().await;
        let first = server.asked("tools/call").await;
        let second = server.asked("tools/call").await;
        // Behind the result, as many servers write it.
        let long = "x".repeat(9 << 20);
        server.say(&format!("{{\"result\":\"{long}\",\"jsonrpc\":\"2.0\",\"id\":{}}}\n", first["id"])).await;
        server.answer(&second, json!({ "content": [] })).await;
    })
    .await;
    let connection = connection.unwrap();
    let (one, two) = tokio::join!(call(&connection, PATIENCE), call(&connection, PATIENCE));
    let mut answers = [one, two];
    answers.sort_by_key(Result::is_err);
    assert_eq!(answers, [Ok(Answer::default()), Err(McpFault::TooLarge)]);
    played.await.unwrap();
}

#[tokio::test]
async fn a_line_without_end_that_nobody_asked_for_ends_the_connection() {
    let (connection, played) = meet(|mut server| async move {
        server.shake().await;
        let piece = "x".repeat(1 << 20);
        for _ in 0..20 {
            server.say(&piece).await;
        }
        server.until_cut().await;
    })
    .await;
    let connection = connection.unwrap();
    connection.watch().over.cancelled().await;
    assert_eq!(connection.cut_off(), Some(McpFault::Flood("it sends a message without end")));
    assert!(matches!(call(&connection, PATIENCE).await, Err(McpFault::Flood(_))));
    drop(connection);
    played.await.unwrap();
}

#[tokio::test]
async fn a_flood_ends_the_connection_whatever_it_is_made_of() {
    let notification = json!({ "jsonrpc": "2.0", "method": "notifications/message",
        "params": { "level": "info", "data": "x" } });
    for flood in [notification.to_string(), "rubbish".to_owned(), "[]".to_owned()] {
        let (connection, played) = meet(|mut server| async move {
            server.shake().await;
            let Server { mut reader, mut writer } = server;
            let many = format!("{flood}\n").repeat(100);
            let write = async { while writer.write_all(many.as_bytes()).await.is_ok() {} };
            let read = async { while let Ok(Some(_)) = reader.next_line().await {} };
            tokio::join!(write, read);
        })
        .await;
        let connection = connection.unwrap();
        assert!(matches!(call(&connection, PATIENCE).await, Err(McpFault::Flood(_))));
        drop(connection);
        played.await.unwrap();
    }
}

#[tokio::test]
async fn a_server_that_pings_without_reading_the_answers_is_cut_off() {
    let (connection, played) = meet(|mut server| async move {
        server.shake().await;
        let mut id = 0;
        // Slower than a flood, and for ever.
        while server
            .writer
            .write_all(format!("{}\n", json!({ "jsonrpc": "2.0", "id": id, "method": "ping" })).as_bytes())
            .await
            .is_ok()
        {
            id += 1;
            if id % 100 == 0 {
                tokio::time::sleep(Duration::from_millis(25)).await;
            }
        }
    })
    .await;
    let connection = connection.unwrap();
    let fault = call(&connection, PATIENCE).await.unwrap_err();
    assert_eq!(fault, McpFault::Flood("it sends without reading what it is told"));
    drop(connection);
    played.await.unwrap();
}

#[tokio::test]
async fn a_list_of_tools_has_an_end() {
    let (connection, _played) = meet(|mut server| async move {
        server.shake().await;
        while let Some(request) = server.hear().await {
            if request["method"] == "tools/list" {
                server.answer(&request, json!({ "tools": [tool("a")], "nextCursor": "again" })).await;
            }
        }
    })
    .await;
    let fault = connection.unwrap().tools(PATIENCE).await.unwrap_err();
    assert_eq!(fault.to_string(), "its list of tools goes in a circle");

    let (connection, _played) = meet(|mut server| async move {
        server.shake().await;
        let mut page = 0;
        while let Some(request) = server.hear().await {
            if request["method"] == "tools/list" {
                let tools: Vec<Value> = (0..500).map(|n| tool(&format!("t{page}-{n}"))).collect();
                page += 1;
                server.answer(&request, json!({ "tools": tools, "nextCursor": page.to_string() })).await;
            }
        }
    })
    .await;
    let fault = connection.unwrap().tools(PATIENCE).await.unwrap_err();
    assert!(fault.to_string().contains("more than 10000 tools"), "{fault}");
}

#[tokio::test]
async fn a_call_ends_with_its_time_and_with_its_caller_and_the_server_is_told() {
    let (connection, played) = meet(|mut server| async move {
        server.shake().await;
        for reason in ["its time is up", "the caller is gone"] {
            let call = server.asked("tools/call").await;
            let told = server.asked("notifications/cancelled").await;
            assert_eq!(told["params"], json!({ "requestId": call["id"], "reason": reason }));
        }
    })
    .await;
    let connection = connection.unwrap();
    let limit = Duration::from_millis(100);
    assert_eq!(call(&connection, limit).await, Err(McpFault::Silent(limit)));
    let ended = CancellationToken::new();
    let end = ended.clone();
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_millis(100)).await;
        end.cancel();
    });
    assert_eq!(connection.call("t", Map::new(), PATIENCE, &ended, None).await, Err(McpFault::Cancelled));
    played.await.unwrap();
}

#[tokio::test]
async fn a_change_of_tools_and_a_refusal_are_told() {
    let (connection, played) = meet(|mut server| async move {
        server.shake().await;
        server.say("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}\n").await;
        let request = server.asked("tools/call").await;
        let error = json!({ "code": -32602, "message": "no\nsuch tool" });
        server.say(&format!("{}\n", json!({ "jsonrpc": "2.0", "id": request["id"], "error": error }))).await;
    })
    .await;
    let connection = connection.unwrap();
    tokio::time::timeout(PATIENCE, connection.watch().changed.notified()).await.unwrap();
    let fault = call(&connection, PATIENCE).await.unwrap_err();
    assert_eq!(fault.to_string(), "it answered: no such tool (code -32602)");
    played.await.unwrap();
}

#[test]
fn an_agent_reaches_public_addresses_and_what_is_allowed_by_name() {
    use crate::notify::allow::AllowRule;
    let allow: Arc<[AllowRule]> = Arc::from([AllowRule::parse("127.0.0.1:9000").unwrap()]);
    let check = |public, host: &str, port| {
        Rules { public, allow: allow.clone() }.check(host, host.parse().unwrap(), port)
    };
    check(true, "93.184.216.34", 443).unwrap();
    assert!(check(false, "93.184.216.34", 443).is_err());
    check(false, "127.0.0.1", 9000).unwrap();
    for host in ["127.0.0.1", "10.0.0.1", "169.254.169.254", "192.168.1.1"] {
        assert!(check(true, host, 443).unwrap_err().contains("where agents may not connect"), "{host}");
    }
}

/// A remote server of one answer for each request, which notes the requests' heads.
async fn remote(answers: Vec<String>) -> (String, JoinHandle<Vec<String>>) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let served = tokio::spawn(async move {
        let mut heads = Vec::new();
        for answer in answers {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                head.push(stream.read_u8().await.unwrap());
            }
            heads.push(String::from_utf8(head).unwrap());
            stream.write_all(answer.as_bytes()).await.unwrap();
        }
        heads
    });
    (url, served)
}

fn to(url: &str, allow: &[&str]) -> Remote {
    let allow: Vec<_> =
        allow.iter().map(|rule| crate::notify::allow::AllowRule::parse(rule).unwrap()).collect();
    let headers = vec![("authorization".to_owned(), "Bearer hunter22".to_owned().into())];
    Remote { url: url.to_owned(), headers, rules: Rules { public: true, allow: allow.into() }, bundle: None }
}

#[tokio::test]
async fn a_remote_server_is_not_connected_to_where_the_agent_may_not_and_redirects_are_not_followed() {
    let (url, served) = remote(Vec::new()).await;
    let fault = Connection::over_http(to(&url, &[]), PATIENCE).await.err().unwrap();
    assert!(fault.to_string().contains("127.0.0.1 leads to a loopback address"), "{fault}");
    let named = url.replace("127.0.0.1", "localhost");
    let fault = Connection::over_http(to(&named, &[]), PATIENCE).await.err().unwrap();
    assert!(!fault.to_string().contains("hunter22"), "{fault}");
    served.abort();

    let (elsewhere, reached) = remote(vec![String::new()]).await;
    let moved = format!(
        "HTTP/1.1 307 Moved\r\nlocation: {elsewhere}\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
    );
    let (url, served) = remote(vec![moved; 2]).await;
    let fault = Connection::over_http(to(&url, &["127.0.0.1"]), PATIENCE).await.err().unwrap();
    assert!(!fault.to_string().contains("hunter22"), "{fault}");
    assert!(!reached.is_finished(), "nobody went elsewhere");
    served.abort();
    reached.abort();
}

/// A well-behaved remote server with the tool `hum`, which answers what it was authorised with.
#[derive(Clone)]
struct Hummer;

impl rmcp::ServerHandler for Hummer {
    fn get_info(&self) -> rmcp::model::ServerConfig {
        let capabilities = rmcp::model::ServerCapabilities::builder().enable_tools().build();
        rmcp::model::ServerConfig::new(capabilities)
    }

    async fn list_tools(
        &self,
        _: Option<rmcp::model::PaginatedRequestParams>,
        _: rmcp::service::RequestContext<rmcp::RoleServer>,
    ) -> Result<rmcp::model::ListToolsResult, rmcp::ErrorData> {
        let schema = json!({ "type": "object" }).as_object().unwrap().clone();
        Ok(rmcp::model::ListToolsResult::with_all_items(vec![rmcp::model::Tool::new("hum", "Hums.", schema)]))
    }

    async fn call_tool(
        &self,
        _: rmcp::model::CallToolRequestParams,
        context: rmcp::service::RequestContext<rmcp::RoleServer>,
    ) -> Result<rmcp::model::CallToolResponse, rmcp::ErrorData> {
        let parts = context.extensions.get::<axum::http::request::Parts>().unwrap();
        let said = parts.headers["authorization"].to_str().unwrap().to_owned();
        Ok(rmcp::model::CallToolResult::success(vec![rmcp::model::ContentBlock::text(said)]).into())
    }
}

#[tokio::test]
async fn a_remote_server_is_called_with_its_headers_where_the_agent_may_connect() {
    use rmcp::transport::streamable_http_server::{
        StreamableHttpServerConfig, StreamableHttpService, session::local::LocalSessionManager,
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let sessions = Arc::new(LocalSessionManager::default());
    let service = StreamableHttpService::new(|| Ok(Hummer), sessions, StreamableHttpServerConfig::default());
    let served = tokio::spawn(async move {
        axum::serve(listener, axum::Router::new().route_service("/mcp", service)).await.unwrap();
    });
    let connection = Connection::over_http(to(&url, &["127.0.0.1"]), PATIENCE).await.unwrap();
    let tools = connection.tools(PATIENCE).await.unwrap();
    assert_eq!((tools[0].name.as_str(), tools[0].description.as_str()), ("hum", "Hums."));
    let answer = call(&connection, PATIENCE).await.unwrap();
    assert_eq!(answer.content, [json!({ "type": "text", "text": "Bearer hunter22" })]);
    served.abort();
}
