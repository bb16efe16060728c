//! What a server says and asks beside its answer, and to whom.
#![expect(deprecated, reason = "servers up to 2025-11-25 log, sample and ask for roots")]

use rmcp::model::{
    ClientResult, ElicitRequestParams, ElicitResult, ElicitationAction, ListRootsResult, LoggingLevel,
    ServerRequest,
};
use tokio::sync::mpsc;

use super::*;
use crate::{
    mcp::{Asks, Ears, Line, Question, Said, Speaker},
    secrets::{SecretValue, mask::Masker},
};

const ALL: Asks = Asks { sampling: true, elicitation: true, roots: true };

/// A caller that hears everything, and what it hears.
fn caller() -> (Speaker, mpsc::Receiver<Said>) {
    caller_with(ALL)
}

fn caller_with(asks: Asks) -> (Speaker, mpsc::Receiver<Said>) {
    let (line, heard) =
        Line::new(Ears { progress: true, logs: Some(LoggingLevel::Info), asks, ..Ears::default() });
    let masker = Masker::new(&[SecretValue::new("hunter22-hunter22").unwrap()]);
    (Speaker::new(line, masker, "server s".to_owned()), heard)
}

async fn question(heard: &mut mpsc::Receiver<Said>) -> Question {
    match heard.recv().await {
        Some(Said::Question(question)) => question,
        other => panic!("no question: {other:?}"),
    }
}

async fn call_for(connection: &Connection, speaker: Speaker) -> Result<Answer, McpFault> {
    connection.call("t", Map::new(), PATIENCE, &CancellationToken::new(), Some(speaker)).await
}

/// What was said, in short.
fn all(heard: &mut mpsc::Receiver<Said>) -> Vec<String> {
    let mut all = Vec::new();
    while let Ok(said) = heard.try_recv() {
        all.push(match said {
            Said::Progress(told) => format!("{} {}", told.progress, told.message.unwrap_or_default()),
            Said::Log(told) => told.data.to_string(),
            Said::Question(asked) => format!("{:?}", asked.request),
        });
    }
    all
}

impl Server {
    async fn tell(&mut self, method: &str, params: Value) {
        self.say(&format!("{}\n", json!({ "jsonrpc": "2.0", "method": method, "params": params }))).await;
    }

    async fn log(&mut self, level: &str, data: &str) {
        self.tell("notifications/message", json!({ "level": level, "data": data })).await;
    }

    async fn progress(&mut self, call: &Value, progress: u32, message: &str) {
        let token = &call["params"]["_meta"]["progressToken"];
        let params = json!({ "progressToken": token, "progress": progress, "message": message });
        self.tell("notifications/progress", params).await;
    }

    /// Asks, and waits for the answer.
    async fn ask(&mut self, method: &str, params: Value) -> Value {
        let request = json!({ "jsonrpc": "2.0", "id": "q", "method": method, "params": params });
        self.say(&format!("{request}\n")).await;
        loop {
            let message = self.hear().await.unwrap();
            if message["id"] == "q" {
                return message;
            }
        }
    }

    async fn elicit(&mut self) -> Value {
        let schema = json!({ "type": "object", "properties": { "a": { "type": "string" } } });
        let params = json!({ "message": "Your hunter22-hunter22?", "requestedSchema": schema });
        self.ask("elicitation/create", params).await
    }

    async fn done(&mut self, call: &Value) {
        self.answer(call, json!({ "content": [] })).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn progress_and_logs_of_a_call_are_heard_before_its_answer_in_their_order_and_without_secrets() {
    let (connection, played) = meet(|mut server| async move {
        server.shake().await;
        let call = server.asked("tools/call").await;
        for step in 0..100 {
            server.progress(&call, step, "hunter22-hunter22").await;
        }
        server.log("debug", "nobody wants to know").await;
        server.log("info", "hunter22-hunter22").await;
        server.done(&call).await;
    })
    .await;
    let (speaker, mut heard) = caller();
    call_for(&connection.unwrap(), speaker).await.unwrap();
    let mut expected: Vec<String> = (0..100).map(|step| format!("{step} ***")).collect();
    expected.push("\"***\"".to_owned());
    assert_eq!(all(&mut heard), expected);
    played.await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_calls_each_hears_its_own_progress_and_none_hears_a_log_that_may_be_the_others() {
    let (connection, played) = meet(|mut server| async move {
        server.shake().await;
        let mut calls = [server.asked("tools/call").await, server.asked("tools/call").await];
        // They may come in either order.
        calls.sort_by_key(|call| call["params"]["name"].to_string());
        let [first, second] = calls;
        server.log("error", "whose is it?").await;
        server.progress(&second, 2, "").await;
        server.progress(&first, 1, "").await;
        server.tell("notifications/progress", json!({ "progressToken": "x", "progress": 3 })).await;
        server.done(&first).await;
        server.done(&second).await;
        let third = server.asked("tools/call").await;
        server.log("error", "the third's").await;
        server.done(&third).await;
    })
    .await;
    let connection = connection.unwrap();
    let (first, mut of_first) = caller();
    let (second, mut of_second) = caller();
    let never = CancellationToken::new();
    let (one, two) = tokio::join!(
        connection.call("1", Map::new(), PATIENCE, &never, Some(first)),
        connection.call("2", Map::new(), PATIENCE, &never, Some(second)),
    );
    assert_eq!((one.unwrap(), two.unwrap()), Default::default());
    assert_eq!((all(&mut of_first), all(&mut of_second)), (vec!["1 ".to_owned()], vec!["2 ".to_owned()]));
    let (third, mut of_third) = caller();
    call_for(&connection, third).await.unwrap();
    assert_eq!(all(&mut of_third), ["\"the third's\""]);
    played.await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn who_does_not_listen_holds_no_call_up() {
    let (connection, played) = meet(|mut server| async move {
        server.shake().await;
        let call = server.asked("tools/call").await;
        for step in 0..2_000 {
            server.progress(&call, step, "").await;
        }
        server.done(&call).await;
    })
    .await;
    let (speaker, mut heard) = caller();
    call_for(&connection.unwrap(), speaker).await.unwrap();
    let told = all(&mut heard);
    assert!(told.len() < 2_000 && told[0] == "0 ", "{}", told.len());
    played.await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_is_asked_to_log_in_more_detail_when_somebody_wants_it_and_once() {
    let (connection, played) = meet(|mut server| async move {
        let request = server.asked("initialize").await;
        let result = json!({ "protocolVersion": "2025-11-25", "capabilities": { "logging": {} },
            "serverInfo": { "name": "s", "version": "1" } });
        server.answer(&request, result).await;
        let mut levels = 0;
        for _ in 0..3 {
            loop {
                let message = server.hear().await.unwrap();
                if message["method"] == "logging/setLevel" {
                    assert_eq!(message["params"]["level"], "debug");
                    server.answer(&message, json!({})).await;
                    levels += 1;
                } else if message["method"] == "tools/call" {
                    server.done(&message).await;
                    break;
                }
            }
        }
        assert_eq!(levels, 1);
    })
    .await;
    let connection = connection.unwrap();
    for level in [LoggingLevel::Error, LoggingLevel::Debug, LoggingLevel::Debug] {
        let (line, _heard) = Line::new(Ears { logs: Some(level), ..Ears::default() });
        call_for(&connection, Speaker::new(line, Masker::new([]), String::new())).await.unwrap();
    }
    played.await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_server_asks_the_client_answers_that_called_and_is_told_who_asks() {
    let (connection, played) = meet(|mut server| async move {
        let request = server.asked("initialize").await;
        let offered = json!({ "sampling": {}, "roots": {}, "elicitation": { "form": {} } });
        assert_eq!(request["params"]["capabilities"], offered);
        let result = json!({ "protocolVersion": "2025-11-25", "capabilities": {},
            "serverInfo": { "name": "s", "version": "1" } });
        server.answer(&request, result).await;
        let call = server.asked("tools/call").await;
        let answer = server.elicit().await;
        assert_eq!(answer["result"], json!({ "action": "accept", "content": { "a": "b" } }));
        let answer = server.ask("roots/list", json!({})).await;
        assert_eq!(answer["result"], json!({ "roots": [] }));
        let content = json!({ "type": "text", "text": "2+2" });
        let params = json!({ "messages": [{ "role": "user", "content": content }], "maxTokens": 9,
            "includeContext": "allServers" });
        let answer = server.ask("sampling/createMessage", params).await;
        assert_eq!(answer["error"]["message"], "the client's answer is none to this question");
        server.done(&call).await;
    })
    .await;
    let connection = connection.unwrap();
    let (speaker, mut heard) = caller();
    let answers = async {
        let Question { request, answer } = question(&mut heard).await;
        let ServerRequest::ElicitRequest(asked) = request else { panic!("{request:?}") };
        let ElicitRequestParams::FormElicitationParams { message, .. } = asked.params else { panic!() };
        assert_eq!(message, "[server s] Your ***?");
        let accepted = ElicitResult::new(ElicitationAction::Accept).with_content(json!({ "a": "b" }));
        answer.send(Ok(ClientResult::ElicitResult(accepted))).unwrap();
        let asked = question(&mut heard).await;
        assert!(matches!(asked.request, ServerRequest::ListRootsRequest(_)));
        asked.answer.send(Ok(ClientResult::ListRootsResult(ListRootsResult::default()))).unwrap();
        let Question { request, answer } = question(&mut heard).await;
        let ServerRequest::CreateMessageRequest(asked) = request else { panic!("{request:?}") };
        assert_eq!(asked.params.include_context, None, "a server gets no context of others");
        answer.send(Ok(ClientResult::ListRootsResult(ListRootsResult::default()))).unwrap();
    };
    let (called, ()) = tokio::join!(call_for(&connection, speaker), answers);
    called.unwrap();
    played.await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn who_cannot_be_asked_is_not_and_the_server_is_told_why() {
    let alone = Arc::new(tokio::sync::Notify::new());
    let told = alone.clone();
    let (connection, played) = meet(|mut server| async move {
        server.shake().await;
        let answer = server.elicit().await;
        assert!(answer["error"]["message"].as_str().unwrap().contains("no call is in flight"), "{answer}");
        told.notify_one();
        // Of nobody that could hear, and of a client that did not announce it.
        for _ in 0..2 {
            let call = server.asked("tools/call").await;
            let answer = server.elicit().await;
            assert_eq!(answer["error"]["code"], -32601);
            assert!(answer["error"]["message"].as_str().unwrap().contains("no MCP client"), "{answer}");
            server.done(&call).await;
        }
        let call = server.asked("tools/call").await;
        let params =
            json!({ "mode": "url", "message": "m", "url": "https://a.example", "elicitationId": "1" });
        let answer = server.ask("elicitation/create", params).await;
        assert_eq!(answer["error"]["code"], -32602);
        server.done(&call).await;
    })
    .await;
    let connection = connection.unwrap();
    alone.notified().await;
    call(&connection, PATIENCE).await.unwrap();
    for asks in [Asks { elicitation: false, ..ALL }, ALL] {
        let (speaker, mut heard) = caller_with(asks);
        call_for(&connection, speaker).await.unwrap();
        assert_eq!(all(&mut heard), Vec::<String>::new());
    }
    played.await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn with_two_calls_in_flight_nobody_is_asked_whatever_the_other_can_hear() {
    let (connection, played) = meet(|mut server| async move {
        server.shake().await;
        let first = server.asked("tools/call").await;
        let second = server.asked("tools/call").await;
        let answer = server.elicit().await;
        assert!(answer["error"]["message"].as_str().unwrap().contains("several calls"), "{answer}");
        server.done(&first).await;
        server.done(&second).await;
    })
    .await;
    let connection = connection.unwrap();
    let (speaker, mut heard) = caller();
    let (one, two) = tokio::join!(call_for(&connection, speaker), call(&connection, PATIENCE));
    assert_eq!((one.unwrap(), two.unwrap()), Default::default());
    assert_eq!(all(&mut heard), Vec::<String>::new());
    played.await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_ends_with_its_call() {
    let (connection, played) = meet(|mut server| async move {
        server.shake().await;
        server.asked("tools/call").await;
        let answer = server.elicit().await;
        assert!(answer["error"]["message"].as_str().unwrap().contains("the call is over"), "{answer}");
    })
    .await;
    let connection = connection.unwrap();
    let (speaker, mut heard) = caller();
    let limit = Duration::from_millis(300);
    let never = CancellationToken::new();
    let called = connection.call("t", Map::new(), limit, &never, Some(speaker));
    let unanswered = async { question(&mut heard).await.answer.closed().await };
    let (called, ()) = tokio::join!(called, unanswered);
    assert_eq!(called, Err(McpFault::Silent(limit)));
    played.await.unwrap();
}
