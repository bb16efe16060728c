//! Prompts and resources of a server, and changes of them.

use super::*;

impl Server {
    /// Shakes hands as one that has prompts and resources.
    async fn shake_with(&mut self, capabilities: Value) {
        let request = self.asked("initialize").await;
        let result = json!({ "protocolVersion": "2025-11-25", "capabilities": capabilities,
            "serverInfo": { "name": "s", "version": "1" } });
        self.answer(&request, result).await;
    }

    async fn refuse(&mut self, request: &Value, code: i32) {
        let error = json!({ "code": code, "message": "no" });
        self.say(&format!("{}\n", json!({ "jsonrpc": "2.0", "id": request["id"], "error": error }))).await;
    }
}

#[tokio::test]
async fn a_server_is_asked_for_what_it_announced_and_may_know_less() {
    let (connection, played) = meet(|mut server| async move {
        server.shake_with(json!({ "prompts": {}, "resources": {} })).await;
        for (page, next) in [("a", Some("2")), ("b", None)] {
            let request = server.asked("prompts/list").await;
            let mut result = json!({ "prompts": [{ "name": page }] });
            if let Some(next) = next {
                result["nextCursor"] = json!(next);
            }
            server.answer(&request, result).await;
        }
        let request = server.asked("resources/list").await;
        server.answer(&request, json!({ "resources": [{ "uri": "x://y", "name": "y" }] })).await;
        let request = server.asked("resources/templates/list").await;
        server.refuse(&request, -32601).await;
    })
    .await;
    let offers = connection.unwrap().offers(PATIENCE).await.unwrap();
    let names: Vec<&str> = offers.prompts.iter().map(|prompt| prompt.name.as_str()).collect();
    assert_eq!(names, ["a", "b"]);
    assert_eq!((offers.resources[0].uri.as_str(), offers.templates.len()), ("x://y", 0));
    played.await.unwrap();

    let (connection, played) = meet(|mut server| async move {
        server.shake_with(json!({ "tools": {} })).await;
        assert_eq!(server.asked("notifications/initialized").await["id"], Value::Null);
        assert!(server.hear().await.is_none(), "it is asked for nothing that it has not");
    })
    .await;
    let connection = connection.unwrap();
    assert_eq!(connection.offers(PATIENCE).await.unwrap(), Default::default());
    drop(connection);
    played.await.unwrap();
}

#[tokio::test]
async fn prompts_and_resources_come_as_the_server_has_them_and_changes_are_told() {
    let (connection, played) = meet(|mut server| async move {
        server.shake_with(json!({ "prompts": { "listChanged": true }, "resources": {} })).await;
        let request = server.asked("prompts/get").await;
        assert_eq!(request["params"]["arguments"], json!({ "a": "b" }));
        let messages = json!([{ "role": "user", "content": { "type": "text", "text": "hello" } }]);
        server.answer(&request, json!({ "messages": messages })).await;
        let request = server.asked("resources/read").await;
        let contents = json!([{ "uri": request["params"]["uri"], "text": "t" }]);
        server.answer(&request, json!({ "contents": contents })).await;
        server.say("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/prompts/list_changed\"}\n").await;
        while server.hear().await.is_some() {}
    })
    .await;
    let connection = connection.unwrap();
    let never = CancellationToken::new();
    let args = json!({ "a": "b" }).as_object().cloned();
    let prompt = connection.prompt("p", args, PATIENCE, &never, None).await.unwrap();
    assert_eq!(serde_json::to_value(&prompt.messages).unwrap()[0]["content"]["text"], "hello");
    let read = connection.read("x://y", PATIENCE, &never, None).await.unwrap();
    assert_eq!(serde_json::to_value(&read.contents).unwrap(), json!([{ "uri": "x://y", "text": "t" }]));
    tokio::time::timeout(PATIENCE, connection.watch().offers.notified()).await.unwrap();
    drop(connection);
    played.await.unwrap();
}

#[tokio::test]
async fn a_resource_is_followed_once_however_many_do_and_until_the_last_one_leaves() {
    let (connection, played) = meet(|mut server| async move {
        server.shake_with(json!({ "resources": { "subscribe": true } })).await;
        let request = server.asked("resources/subscribe").await;
        assert_eq!(request["params"]["uri"], "x://y");
        server.answer(&request, json!({})).await;
        let request = server.asked("tools/call").await;
        for uri in ["x://other", "x://y"] {
            let told = json!({ "jsonrpc": "2.0", "method": "notifications/resources/updated",
                "params": { "uri": uri } });
            server.say(&format!("{told}\n")).await;
        }
        server.answer(&request, json!({ "content": [] })).await;
        let request = server.asked("resources/unsubscribe").await;
        assert_eq!(request["params"]["uri"], "x://y");
        let request = server.asked("resources/subscribe").await;
        server.refuse(&request, -32602).await;
    })
    .await;
    let connection = connection.unwrap();
    let mut first = connection.follow("x://y", PATIENCE).await.unwrap();
    let mut second = connection.follow("x://y", PATIENCE).await.unwrap();
    call(&connection, PATIENCE).await.unwrap();
    for followed in [&mut first, &mut second] {
        tokio::time::timeout(PATIENCE, followed.changed.changed()).await.unwrap().unwrap();
    }
    drop(first);
    assert!(!second.changed.has_changed().unwrap());
    drop(second);
    tokio::time::sleep(Duration::from_millis(100)).await;
    let refused = connection.follow("x://y", PATIENCE).await.err();
    assert!(matches!(refused, Some(McpFault::Refused { code: -32602, .. })), "{refused:?}");
    played.await.unwrap();
}
