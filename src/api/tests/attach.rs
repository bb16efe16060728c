//! Processes over WebSockets.

use std::{sync::Arc, time::Duration};

use axum::{Router, extract::WebSocketUpgrade, response::Response, routing::get};
use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::{net::UnixStream, sync::mpsc};
use tokio_tungstenite::{WebSocketStream, client_async, tungstenite::Message};
use tokio_util::sync::CancellationToken;

use super::setup;
use crate::{
    api::{Problem, attach::open, serve::serve_connection},
    app::{
        AttachInput, AttachOutput, Attached,
        types::{AppError, AttachRequest},
    },
};

type Socket = WebSocketStream<UnixStream>;

/// Who holds the count without being a process: the test and `gone`.
const BYSTANDERS: usize = 2;

/// A process that answers what it is told, and counts itself while it lives.
async fn echo(request: AttachRequest, alive: Arc<()>) -> Result<Attached, AppError> {
    if request.command.first().is_some_and(|c| c == "missing") {
        return Err(AppError::Conflict("no such program".into()));
    }
    let ((out, events), (input, mut inputs)) = (mpsc::channel(4), mpsc::channel(4));
    tokio::spawn(async move {
        let _alive = alive;
        let mut answer = AttachOutput::Started(7);
        loop {
            let last = matches!(answer, AttachOutput::Exited(_));
            if out.send(answer).await.is_err() || last {
                return;
            }
            answer = match inputs.recv().await {
                Some(AttachInput::Stdin(bytes)) => AttachOutput::Stdout(bytes),
                Some(AttachInput::Resize(s)) => AttachOutput::Stderr(format!("{}x{}", s.rows, s.cols).into()),
                Some(AttachInput::Signal(signal)) => AttachOutput::Exited(128 + signal),
                Some(AttachInput::Eof) => AttachOutput::Exited(0),
                None => return,
            };
        }
    });
    Ok(Attached { events, input })
}

async fn attach(alive: &Arc<()>, first: Message) -> Socket {
    let (client, server) = UnixStream::pair().unwrap();
    let alive = alive.clone();
    let route = get(async move |upgrade: WebSocketUpgrade| -> Result<Response, Problem> {
        open(upgrade, move |request| echo(request, alive))
    });
    let (router, end) = (Router::new().route("/", route), CancellationToken::new());
    tokio::spawn(serve_connection(server, router, None, end, Duration::from_secs(5)));
    let (mut socket, answer) = client_async("ws://skep/", client).await.unwrap();
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

async fn gone(alive: Arc<()>) {
    tokio::time::timeout(Duration::from_secs(5), async {
        while Arc::strong_count(&alive) > BYSTANDERS {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await
    .expect("the process ends");
}

#[tokio::test(flavor = "multi_thread")]
async fn input_output_and_controls_go_over_one_socket() {
    let alive = Arc::new(());
    let mut socket =
        attach(&alive, text(&json!({"command": ["cat"], "tty": {"rows": 24, "cols": 80}}))).await;
    assert_eq!(next_event(&mut socket).await, json!({"started": 7}));
    socket.send(Message::binary(b"\x00hello".to_vec())).await.unwrap();
    assert_eq!(next(&mut socket).await.into_data(), b"\x01hello".as_slice());
    socket.send(text(&json!({"resize": {"rows": 1, "cols": 2}}))).await.unwrap();
    assert_eq!(next(&mut socket).await.into_data(), b"\x021x2".as_slice());
    socket.send(text(&json!("eof"))).await.unwrap();
    assert_eq!(next_event(&mut socket).await, json!({"exited": 0}));
    let Message::Close(Some(frame)) = next(&mut socket).await else { panic!("it closes") };
    assert_eq!(u16::from(frame.code), 1000);
    gone(alive.clone()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signal_reaches_the_process() {
    let alive = Arc::new(());
    let mut socket = attach(&alive, text(&json!({"command": []}))).await;
    next_event(&mut socket).await;
    socket.send(text(&json!({"signal": 15}))).await.unwrap();
    assert_eq!(next_event(&mut socket).await, json!({"exited": 143}));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_process_ends_when_the_client_goes_with_or_without_a_word() {
    let alive = Arc::new(());
    for polite in [true, false] {
        let mut socket = attach(&alive, text(&json!({"command": []}))).await;
        next_event(&mut socket).await;
        assert!(Arc::strong_count(&alive) > 1);
        if polite {
            socket.close(None).await.unwrap();
        }
        drop(socket);
        gone(alive.clone()).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_breaks_the_protocol_ends_the_session_with_the_reason() {
    let alive = Arc::new(());
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
        let mut socket = attach(&alive, first).await;
        if let Some(second) = second {
            next_event(&mut socket).await;
            socket.send(second).await.unwrap();
        }
        let failed = next_event(&mut socket).await;
        assert!(failed["failed"].as_str().unwrap().contains(why), "{failed}");
        let Message::Close(Some(frame)) = next(&mut socket).await else { panic!("it closes") };
        assert_eq!(u16::from(frame.code), 1008);
    }
    gone(alive.clone()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_takes_nothing_holds_the_process_back_and_loses_nothing() {
    let alive = Arc::new(());
    let socket = attach(&alive, text(&json!({"command": ["cat"]}))).await;
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

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_is_not_there_has_nothing_to_attach_to() {
    let open = setup::open().await;
    let stream = UnixStream::connect(open.operator()).await.unwrap();
    let refused = client_async("ws://skep/v1/agents/nobody/attach", stream).await.unwrap_err();
    let tokio_tungstenite::tungstenite::Error::Http(answer) = refused else { panic!("{refused}") };
    assert_eq!(answer.status(), 404);
}
