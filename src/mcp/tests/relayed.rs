//! What a server says beside its answer, and to whom.

use rmcp::model::LoggingLevel;
use tokio::sync::mpsc;

use super::*;
use crate::{
    mcp::{Ears, Line, Said, Speaker},
    secrets::{SecretValue, mask::Masker},
};

/// A caller that hears everything, and what it hears.
fn caller() -> (Speaker, mpsc::Receiver<Said>) {
    let (line, heard) = Line::new(Ears { progress: true, logs: Some(LoggingLevel::Info) });
    (Speaker::new(line, Masker::new(&[SecretValue::new("hunter22-hunter22").unwrap()])), heard)
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
        let first = server.asked("tools/call").await;
        let second = server.asked("tools/call").await;
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
    // In this order, so that the server can tell them apart.
    let (one, two) = tokio::join!(call_for(&connection, first), call_for(&connection, second));
    (one.unwrap(), two.unwrap());
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
        let (line, _heard) = Line::new(Ears { progress: false, logs: Some(level) });
        call_for(&connection, Speaker::new(line, Masker::new([]))).await.unwrap();
    }
    played.await.unwrap();
}
