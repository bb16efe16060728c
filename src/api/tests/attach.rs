//! Processes over WebSockets.

use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::net::UnixStream;
use tokio_tungstenite::{WebSocketStream, client_async, tungstenite::Message};

use super::setup::{Open, living, open};

type Socket = WebSocketStream<UnixStream>;

async fn attach(open: &Open, first: Message) -> Socket {
    let stream = UnixStream::connect(open.operator()).await.unwrap();
    let (mut socket, answer) = client_async("ws://skep/v1/agents/writer/attach", stream).await.unwrap();
    assert_eq!(answer.status(), 101);
    socket.send(first).await.unwrap();
    socket
}

fn text(value: &Value) -> Message {
    Message::text(value.to_string())
}

async fn next(socket: &mut Socket) -> Message {
    tokio::time::timeout(Duration::from_secs(5), socket.next()).await.unwrap().unwrap().unwrap()
}

async fn next_event(socket: &mut Socket) -> Value {
    serde_json::from_str(next(socket).await.to_text().unwrap()).unwrap()
}

async fn gone(open: &Open) {
    tokio::time::timeout(Duration::from_secs(5), async {
        while living(&open.hive) > 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await
    .expect("the process ends");
}

#[tokio::test]
async fn input_output_and_controls_go_over_one_socket() {
    let open = open().await;
    let mut socket = attach(&open, text(&json!({"command": ["cat"], "tty": {"rows": 24, "cols": 80}}))).await;
    assert_eq!(next_event(&mut socket).await, json!({"started": 7}));
    socket.send(Message::binary(b"\x00hello".to_vec())).await.unwrap();
    assert_eq!(next(&mut socket).await.into_data(), b"\x01hello".as_slice());
    socket.send(text(&json!({"resize": {"rows": 1, "cols": 2}}))).await.unwrap();
    assert_eq!(next(&mut socket).await.into_data(), b"\x021x2".as_slice());
    socket.send(text(&json!("eof"))).await.unwrap();
    assert_eq!(next_event(&mut socket).await, json!({"exited": 0}));
    let Message::Close(Some(frame)) = next(&mut socket).await else { panic!("it closes") };
    assert_eq!(u16::from(frame.code), 1000);
    gone(&open).await;
}

#[tokio::test]
async fn a_signal_reaches_the_process() {
    let open = open().await;
    let mut socket = attach(&open, text(&json!({"command": []}))).await;
    next_event(&mut socket).await;
    socket.send(text(&json!({"signal": 15}))).await.unwrap();
    assert_eq!(next_event(&mut socket).await, json!({"exited": 143}));
}

#[tokio::test]
async fn the_process_ends_when_the_client_goes_with_or_without_a_word() {
    let open = open().await;
    for polite in [true, false] {
        let mut socket = attach(&open, text(&json!({"command": []}))).await;
        next_event(&mut socket).await;
        assert_eq!(living(&open.hive), 1);
        if polite {
            socket.close(None).await.unwrap();
        }
        drop(socket);
        gone(&open).await;
    }
}

#[tokio::test]
async fn what_breaks_the_protocol_ends_the_session_with_the_reason() {
    let open = open().await;
    let start = text(&json!({"command": []}));
    for (first, second, why) in [
        (Message::binary(b"\x00x".to_vec()), None, "first message"),
        (Message::text("{"), None, "no AttachRequest"),
        (text(&json!({"command": ["missing"]})), None, "no such program"),
        (start.clone(), Some(Message::binary(b"\x01x".to_vec())), "byte 0"),
        (start.clone(), Some(Message::binary(Vec::new())), "byte 0"),
        (start.clone(), Some(text(&json!({"signal": 0}))), "not a signal"),
        (start, Some(Message::text("what")), "not an AttachControl"),
    ] {
        let mut socket = attach(&open, first).await;
        if let Some(second) = second {
            next_event(&mut socket).await;
            socket.send(second).await.unwrap();
        }
        let failed = next_event(&mut socket).await;
        assert!(failed["failed"].as_str().unwrap().contains(why), "{failed}");
        let Message::Close(Some(frame)) = next(&mut socket).await else { panic!("it closes") };
        assert_eq!(u16::from(frame.code), 1008);
    }
    gone(&open).await;
}

#[tokio::test]
async fn a_client_that_takes_nothing_holds_the_process_back_and_loses_nothing() {
    let open = open().await;
    let socket = attach(&open, text(&json!({"command": ["cat"]}))).await;
    let (mut to, mut from) = socket.split();
    let piece = [vec![0], vec![b'x'; 64 * 1024]].concat();
    let mut sent = 0;
    let full = async {
        loop {
            to.send(Message::binary(piece.clone())).await.unwrap();
            sent += 1;
        }
    };
    assert!(tokio::time::timeout(Duration::from_secs(1), full).await.is_err());
    assert!(sent < 200, "{sent} pieces of 64 KiB were taken in without anyone reading");
    let mut got = 0;
    while got < sent * 64 * 1024 {
        let message =
            tokio::time::timeout(Duration::from_secs(5), from.next()).await.unwrap().unwrap().unwrap();
        if let Message::Binary(bytes) = message {
            got += bytes.len() - 1;
        }
    }
}

#[tokio::test]
async fn an_agent_that_is_not_there_has_nothing_to_attach_to() {
    let open = open().await;
    let stream = UnixStream::connect(open.operator()).await.unwrap();
    let refused = client_async("ws://skep/v1/agents/nobody/attach", stream).await.unwrap_err();
    let tokio_tungstenite::tungstenite::Error::Http(answer) = refused else { panic!("{refused}") };
    assert_eq!(answer.status(), 404);
}
