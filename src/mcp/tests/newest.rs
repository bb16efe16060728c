//! Servers of 2026-07-28 over pipes: they know no `initialize`, and ask for input instead of answering.

use rmcp::model::InputRequest;

use super::*;
use crate::{
    mcp::{Again, Asks, Ears, Instead, Line, MAX_STATE, Slot, Speaker},
    secrets::{SecretValue, mask::Masker},
};

const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";

impl Server {
    async fn shake_newest(&mut self) {
        let request = self.asked("initialize").await;
        let error = json!({ "code": -32022, "message": "no", "data": { "supported": ["2026-07-28"] } });
        self.fail(&request, error).await;
        let request = self.asked("server/discover").await;
        let result = json!({ "resultType": "complete", "supportedVersions": ["2026-07-28"],
            "capabilities": { "tools": {} }, "ttlMs": 0, "cacheScope": "private" });
        self.answer(&request, result).await;
    }

    async fn fail(&mut self, request: &Value, error: Value) {
        self.say(&format!("{}\n", json!({ "jsonrpc": "2.0", "id": request["id"], "error": error }))).await;
    }

    async fn want(&mut self, request: &Value, requests: Value, state: &str) {
        let result =
            json!({ "resultType": "input_required", "inputRequests": requests, "requestState": state });
        self.answer(request, result).await;
    }
}

fn caller(ears: Ears) -> (Speaker, Slot) {
    let (line, _) = Line::new(ears);
    let slot = line.slot();
    let masker = Masker::new(&[SecretValue::new("hunter22-hunter22").unwrap()]);
    (Speaker::new(line, masker, "server s".to_owned()), slot)
}

fn newest(again: Option<Again>) -> Ears {
    let asks = Asks { elicitation: true, ..Asks::default() };
    Ears { asks, instead: true, again, ..Ears::default() }
}

async fn call_for(connection: &Connection, ears: Ears) -> (Result<Answer, McpFault>, Option<Instead>) {
    let (speaker, slot) = caller(ears);
    let called = connection.call("t", Map::new(), PATIENCE, &CancellationToken::new(), Some(speaker)).await;
    let instead = slot.lock().unwrap().take();
    (called, instead)
}

fn form() -> Value {
    let schema = json!({ "type": "object", "properties": { "a": { "type": "string" } } });
    json!({ "method": "elicitation/create",
        "params": { "mode": "form", "message": "Your hunter22-hunter22?", "requestedSchema": schema } })
}

#[tokio::test]
async fn a_caller_is_asked_instead_of_answered_and_brings_back_what_it_was_given() {
    let (connection, played) = meet(|mut server| async move {
        server.shake_newest().await;
        let call = server.asked("tools/call").await;
        let able = &call["params"]["_meta"][CAPABILITIES];
        assert_eq!(*able, json!({ "elicitation": { "form": {} } }), "what this caller announced");
        server.want(&call, json!({ "q": form() }), "s.1").await;
        let call = server.asked("tools/call").await;
        assert_eq!(call["params"]["inputResponses"], json!({ "q": { "action": "accept", "x": [1] } }));
        assert_eq!(call["params"]["requestState"], "s.1");
        let error = json!({ "code": -32602, "message": "hunter22-hunter22", "data": { "n": 1 } });
        server.fail(&call, error).await;
    })
    .await;
    let connection = connection.unwrap();
    let (called, instead) = call_for(&connection, newest(None)).await;
    assert!(matches!(called, Err(McpFault::Odd(_))), "{called:?}");
    let Some(Instead::Asked(asked)) = instead else { panic!("{instead:?}") };
    assert_eq!(asked.request_state.as_deref(), Some("s.1"));
    let requests = asked.input_requests.unwrap();
    assert!(matches!(requests["q"], InputRequest::Elicitation(_)));
    let told = serde_json::to_value(&requests["q"]).unwrap();
    assert_eq!(told["params"]["message"], "[server s] Your ***?");

    let answer = json!({ "action": "accept", "x": [1] });
    let responses = Some([("q".to_owned(), answer)].into());
    let again = Again { responses, state: Some("s.1".to_owned()) };
    let (_, instead) = call_for(&connection, newest(Some(again))).await;
    let Some(Instead::Refused(refusal)) = instead else { panic!("{instead:?}") };
    assert_eq!((refusal.code.0, refusal.message.as_ref()), (-32602, "***"));
    assert_eq!(refusal.data, Some(json!({ "n": 1 })));
    played.await.unwrap();
}

#[tokio::test]
async fn what_a_caller_lacks_it_is_told_and_other_refusals_are_for_the_model() {
    let (connection, played) = meet(|mut server| async move {
        server.shake_newest().await;
        for code in [-32021, -32602] {
            let call = server.asked("tools/call").await;
            server.fail(&call, json!({ "code": code, "message": "no" })).await;
        }
    })
    .await;
    let connection = connection.unwrap();
    let (_, instead) = call_for(&connection, newest(None)).await;
    assert!(matches!(instead, Some(Instead::Refused(_))), "{instead:?}");
    let (called, instead) = call_for(&connection, newest(None)).await;
    assert!(matches!(called, Err(McpFault::Refused { code: -32602, .. })) && instead.is_none());
    played.await.unwrap();
}

#[tokio::test]
async fn nobody_is_asked_what_was_not_announced_nor_given_a_secret_or_a_burden_to_keep() {
    let url = json!({ "method": "elicitation/create",
        "params": { "mode": "url", "message": "m", "url": "https://a.example" } });
    let large = "x".repeat(MAX_STATE + 1);
    let cases = [
        (json!({ "q": { "method": "roots/list" } }), "s".to_owned(), "it asks for q"),
        (json!({ "q": url }), "s".to_owned(), "only forms"),
        (json!({ "q": form() }), "a hunter22-hunter22".to_owned(), "a secret in it"),
        (json!({ "q": form() }), large, "more than 64 KiB"),
    ];
    let played_with = cases.clone();
    let (connection, played) = meet(|mut server| async move {
        server.shake_newest().await;
        for (requests, state, _) in played_with {
            let call = server.asked("tools/call").await;
            server.want(&call, requests, &state).await;
        }
        // Of a caller that cannot be asked so, and of none.
        for _ in 0..2 {
            let call = server.asked("tools/call").await;
            assert_eq!(call["params"]["_meta"][CAPABILITIES], json!({}));
            server.want(&call, json!({ "q": form() }), "s").await;
        }
    })
    .await;
    let connection = connection.unwrap();
    for (_, _, why) in cases {
        let (called, instead) = call_for(&connection, newest(None)).await;
        let said = called.unwrap_err().to_string();
        assert!(said.contains(why) && instead.is_none(), "{said}");
    }
    let older = Ears { asks: Asks { elicitation: true, ..Asks::default() }, ..Ears::default() };
    let (called, instead) = call_for(&connection, older).await;
    assert!(called.unwrap_err().to_string().contains("nobody is there") && instead.is_none());
    let fault = call(&connection, PATIENCE).await.unwrap_err();
    assert!(fault.to_string().contains("nobody is there"), "{fault}");
    played.await.unwrap();
}

#[tokio::test]
async fn a_server_that_knows_neither_way_to_begin_is_told_of_by_its_first_refusal() {
    let (connection, played) = meet(|mut server| async move {
        for (method, message) in [("initialize", "first"), ("server/discover", "second")] {
            let request = server.asked(method).await;
            server.fail(&request, json!({ "code": -32601, "message": message })).await;
        }
    })
    .await;
    assert_eq!(connection.err().unwrap().to_string(), "it answered: first (code -32601)");
    played.await.unwrap();
}
