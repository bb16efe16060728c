//! `GET /v1/agents/{agent}/attach`: a process of an agent over a WebSocket.
//!
//! Text messages are JSON (`AttachRequest` first, then `AttachControl` and `AttachEvent`), binary ones
//! begin with the channel byte. The two directions wait for nothing but their own far end, so that a
//! slow one holds back its source and not the other. When the client goes, so does the process.

use std::{sync::Arc, time::Duration};

use axum::{
    extract::{
        State, WebSocketUpgrade,
        ws::{CloseFrame, Message, WebSocket, close_code, rejection::WebSocketUpgradeRejection},
    },
    http::StatusCode,
    response::Response,
};
use bytes::{BufMut, Bytes, BytesMut};
use futures_util::{
    SinkExt, StreamExt,
    stream::{SplitSink, SplitStream},
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use super::{
    extract::Name,
    problem::{Problem, Problems},
    work,
};
use crate::{
    app::{
        AttachInput, AttachOutput, Attached, Hive,
        types::{AppError, AttachControl, AttachEvent, AttachRequest},
    },
    ids::AgentId,
};

/// Channel bytes (contract of `AttachControl` and `AttachEvent`).
const STDIN: u8 = 0;
const STDOUT: u8 = 1;
const STDERR: u8 = 2;
/// Bytes of one message of the client.
const MAX_MESSAGE: usize = 1024 * 1024;
/// For the first message to come.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(15);
/// A silent client is asked so often whether it is still there.
const PING: Duration = Duration::from_secs(20);
/// Sessions at a time.
const MAX_SESSIONS: usize = 256;
static SESSIONS: std::sync::LazyLock<Arc<Semaphore>> =
    std::sync::LazyLock::new(|| Arc::new(Semaphore::new(MAX_SESSIONS)));

/// Starts a process and attaches to it, by WebSocket. First message: an `AttachRequest` as text. Then
/// text `{"resize": {"rows", "cols"}}`, `"eof"`, `{"signal": n}` and binary `0` + standard input from the
/// client; text `{"started": pid}`, `{"exited": code}`, `{"failed": why}` and binary `1` + output or `2` +
/// error from the server. The process ends when the client goes.
#[utoipa::path(get, path = "/v1/agents/{agent}/attach", tag = "agents", params(("agent" = String, Path)),
    responses((status = 101, description = "The WebSocket is open"), Problems))]
pub async fn attach(
    State(hive): State<Arc<Hive>>,
    Name(agent): Name<AgentId>,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Result<Response, Problem> {
    work::read(hive.agent(&agent)).await??;
    let upgrade = upgrade.map_err(|e| Problem::new(StatusCode::UPGRADE_REQUIRED, e.body_text()))?;
    open(upgrade, move |request| async move { hive.attach(&agent, request).await })
}

/// Opens the WebSocket of a session whose process `start` starts.
pub(super) fn open<S, F>(upgrade: WebSocketUpgrade, start: S) -> Result<Response, Problem>
where
    S: FnOnce(AttachRequest) -> F + Send + 'static,
    F: Future<Output = Result<Attached, AppError>> + Send + 'static,
{
    let slot = SESSIONS.clone().try_acquire_owned().map_err(|_| {
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, format!("there are {MAX_SESSIONS} sessions already"))
    })?;
    Ok(upgrade
        .max_message_size(MAX_MESSAGE)
        .max_frame_size(MAX_MESSAGE)
        .on_upgrade(move |socket| session(socket, slot, start)))
}

async fn session<S, F>(socket: WebSocket, _slot: OwnedSemaphorePermit, start: S)
where
    S: FnOnce(AttachRequest) -> F,
    F: Future<Output = Result<Attached, AppError>>,
{
    let (mut sink, mut stream) = socket.split();
    let first = tokio::time::timeout(REQUEST_TIMEOUT, first_request(&mut stream)).await;
    let attached = match first {
        Ok(Ok(request)) => start(request).await.map_err(|e| e.to_string()),
        Ok(Err(why)) => Err(why),
        Err(_) => Err("no AttachRequest came".to_owned()),
    };
    let refused = match attached {
        Ok(Attached { events, input }) => tokio::select! {
            () = output(&mut sink, events) => None,
            ended = input_from(&mut stream, input) => ended.err(),
        },
        Err(why) => Some(why),
    };
    let close = match refused {
        Some(why) => {
            let told = sink.send(event(&AttachEvent::Failed(why))).await;
            if told.is_err() {
                return;
            }
            close_code::POLICY
        }
        None => close_code::NORMAL,
    };
    let frame = CloseFrame { code: close, reason: "".into() };
    if sink.send(Message::Close(Some(frame))).await.is_err() {
        tracing::trace!("the client of a session went first");
    }
}

async fn first_request(stream: &mut SplitStream<WebSocket>) -> Result<AttachRequest, String> {
    loop {
        match stream.next().await {
            Some(Ok(Message::Text(text))) => {
                return serde_json::from_str(text.as_str())
                    .map_err(|e| format!("the first message is no AttachRequest: {e}"));
            }
            Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
            Some(Ok(Message::Binary(_))) => return Err("the first message must be an AttachRequest".into()),
            Some(Ok(Message::Close(_)) | Err(_)) | None => return Err("the client went".into()),
        }
    }
}

/// To the client, until the process ended or the client cannot be reached.
async fn output(sink: &mut SplitSink<WebSocket, Message>, mut events: mpsc::Receiver<AttachOutput>) {
    loop {
        let (message, last) = match tokio::time::timeout(PING, events.recv()).await {
            Err(_) => (Message::Ping(Bytes::new()), false),
            Ok(Some(AttachOutput::Started(pid))) => (event(&AttachEvent::Started(pid)), false),
            Ok(Some(AttachOutput::Stdout(bytes))) => (on_channel(STDOUT, &bytes), false),
            Ok(Some(AttachOutput::Stderr(bytes))) => (on_channel(STDERR, &bytes), false),
            Ok(Some(AttachOutput::Exited(code))) => (event(&AttachEvent::Exited(code)), true),
            Ok(Some(AttachOutput::Failed(why))) => (event(&AttachEvent::Failed(why)), true),
            Ok(None) => (event(&AttachEvent::Failed("the link to the process broke".into())), true),
        };
        if sink.send(message).await.is_err() || last {
            return;
        }
    }
}

/// From the client, until it goes. When the process takes no more, this waits for ever: its end is told
/// by the other direction.
///
/// # Errors
/// What the client did wrong.
async fn input_from(
    stream: &mut SplitStream<WebSocket>,
    input: mpsc::Sender<AttachInput>,
) -> Result<(), String> {
    while let Some(Ok(message)) = stream.next().await {
        let message = match message {
            Message::Binary(bytes) if bytes.first() == Some(&STDIN) => AttachInput::Stdin(bytes.slice(1..)),
            Message::Binary(_) => return Err("binary messages begin with the byte 0".into()),
            Message::Text(text) => control(text.as_str())?,
            Message::Ping(_) | Message::Pong(_) => continue,
            Message::Close(_) => return Ok(()),
        };
        if input.send(message).await.is_err() {
            // The process is over; what it still said is on its way.
            std::future::pending::<()>().await;
        }
    }
    Ok(())
}

fn control(text: &str) -> Result<AttachInput, String> {
    match serde_json::from_str(text).map_err(|e| format!("not an AttachControl: {e}"))? {
        AttachControl::Resize(size) => Ok(AttachInput::Resize(size)),
        AttachControl::Eof => Ok(AttachInput::Eof),
        AttachControl::Signal(signal) if (1..=64).contains(&signal) => Ok(AttachInput::Signal(signal)),
        AttachControl::Signal(signal) => Err(format!("{signal} is not a signal")),
    }
}

fn event(event: &AttachEvent) -> Message {
    Message::Text(serde_json::to_string(event).unwrap_or_default().into())
}

fn on_channel(channel: u8, bytes: &[u8]) -> Message {
    let mut message = BytesMut::with_capacity(bytes.len() + 1);
    message.put_u8(channel);
    message.put_slice(bytes);
    Message::Binary(message.freeze())
}
