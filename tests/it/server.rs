//! A supervisor's API as the command line sees it: the routes on a hive's socket, scripted answers.

mod jobs;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use axum::{
    Json, Router,
    extract::{
        Path, Query, State, WebSocketUpgrade,
        ws::{Message, WebSocket},
    },
    http::StatusCode,
    response::{IntoResponse, Response},
    routing::{get, post, put},
};
use serde_json::{Value, json};
use skep::{
    app::types::{AttachControl, AttachEvent, AttachRequest},
    db::lock::{HiveLock, Holder},
};
use tokio::net::UnixListener;

use crate::support::Hive;

/// What the server was asked, in order.
type Asked = Arc<Mutex<Vec<String>>>;

pub struct Server {
    runtime: Option<tokio::runtime::Runtime>,
    _lock: HiveLock,
    asked: Asked,
}

impl Server {
    pub fn start(hive: &Hive) -> Self {
        let state = hive.root.join(".skep");
        std::fs::create_dir_all(&state).unwrap();
        let socket = state.join("skep.sock");
        let holder = Holder {
            pid: std::process::id(),
            started_at: "2026-01-02T03:04:05Z".parse().unwrap(),
            socket: socket.display().to_string(),
        };
        let lock = HiveLock::acquire(&state.join("supervisor.lock"), &holder).unwrap();
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let asked = Asked::default();
        let router = router(asked.clone());
        let listener = runtime.block_on(async { UnixListener::bind(socket) }).unwrap();
        runtime.spawn(async move { axum::serve(listener, router).await });
        Self { runtime: Some(runtime), _lock: lock, asked }
    }

    pub fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

fn router(asked: Asked) -> Router {
    Router::new()
        .route("/readyz", get(|| async { "ok" }))
        .route("/v1/hive", get(|| async { Json(hive()) }))
        .route("/v1/agents", get(agents))
        .route("/v1/agents/{agent}", get(agent))
        .route("/v1/agents/{agent}/{verb}", post(act))
        .route("/v1/agents/{agent}/logs", get(logs))
        .route("/v1/agents/{agent}/prompt", get(|| async { "You are \u{1b}[31mred\n" }))
        .route("/v1/agents/{agent}/attach", get(attach))
        .route("/v1/skills/{id}", get(refuse))
        .route("/v1/update", post(update))
        .route("/v1/secrets/{name}", put(set_secret))
        .merge(jobs::router())
        .with_state(asked)
}

fn told(asked: &Asked, what: impl Into<String>) {
    asked.lock().unwrap().push(what.into());
}

fn hive() -> Value {
    json!({"name": "hive", "root": "/", "version": "0", "pid": 1, "started_at": "2026-01-02T03:04:05Z",
        "engine": "ok", "config_faults": [], "warnings": ["a source folder is missing"], "progress": []})
}

fn view(id: &str, status: &str) -> Value {
    let reason = (status == "failed").then_some("no image");
    json!({"id": id, "description": "", "status": status, "reason": reason, "image": "i",
        "skills": [{"id": "a", "version": "1.0.0", "digest": "sha256:0", "owner": "operator"}],
        "missing_secrets": if id == "writer" { vec!["API_KEY"] } else { vec![] }, "warnings": [],
        "container_id": null, "started_at": null, "restarts": 2, "main": null, "network": "none",
        "memory": 1, "disk_used": null})
}

/// Two pages.
async fn agents(Query(query): Query<HashMap<String, String>>) -> Json<Value> {
    Json(match query.get("cursor").map(String::as_str) {
        None => json!({"items": [view("helper", "running")], "next": "2"}),
        Some(_) => json!({"items": [view("writer", "failed")], "next": null}),
    })
}

fn problem(status: StatusCode, detail: &str, errors: &Value) -> Response {
    let body = json!({"type": "about:blank", "title": "t", "status": status.as_u16(), "detail": detail,
        "errors": errors});
    (status, [("content-type", "application/problem+json")], body.to_string()).into_response()
}

async fn agent(Path(id): Path<String>, State(asked): State<Asked>) -> Response {
    let acted = |verb: &str| asked.lock().unwrap().contains(&format!("{verb} {id}"));
    match id.as_str() {
        "helper" if acted("stop") => Json(view("helper", "stopped")).into_response(),
        "helper" => Json(view("helper", "running")).into_response(),
        "writer" => Json(view("writer", "failed")).into_response(),
        _ => problem(StatusCode::NOT_FOUND, &format!("there is no agent {id}"), &json!([])),
    }
}

async fn act(Path((id, verb)): Path<(String, String)>, State(asked): State<Asked>) -> StatusCode {
    told(&asked, format!("{verb} {id}"));
    StatusCode::ACCEPTED
}

async fn logs(Query(query): Query<HashMap<String, String>>, State(asked): State<Asked>) -> Vec<u8> {
    let mut query: Vec<_> = query.into_iter().map(|(k, v)| format!("{k}={v}")).collect();
    query.sort();
    told(&asked, format!("logs {}", query.join("&")));
    b"one\ntwo \xff\n".to_vec()
}

async fn refuse() -> Response {
    let errors =
        json!([{"pointer": "/a", "detail": "first"}, {"pointer": "/b", "detail": "second\u{1b}[2J"}]);
    problem(StatusCode::UNPROCESSABLE_ENTITY, "two things are wrong", &errors)
}

async fn update(State(asked): State<Asked>, Json(body): Json<Value>) -> Json<Value> {
    told(&asked, format!("update {body}"));
    Json(json!({"changes": [{"agent": "helper", "id": "a", "from": "1.0.0", "to": "1.1.0"},
        {"agent": "helper", "id": "b", "from": null, "to": "2.0.0"}]}))
}

async fn set_secret(
    Path(name): Path<String>,
    State(asked): State<Asked>,
    Json(body): Json<Value>,
) -> StatusCode {
    told(&asked, format!("secret {name} {body}"));
    StatusCode::NO_CONTENT
}

async fn attach(upgrade: WebSocketUpgrade, State(asked): State<Asked>) -> Response {
    upgrade.on_upgrade(|socket| async move { serve(socket, asked).await })
}

async fn send(socket: &mut WebSocket, channel: u8, bytes: &[u8]) {
    let mut frame = vec![channel];
    frame.extend_from_slice(bytes);
    socket.send(Message::binary(frame)).await.ok();
}

async fn event(socket: &mut WebSocket, event: &AttachEvent) {
    socket.send(Message::text(serde_json::to_string(event).unwrap())).await.ok();
}

/// Plays the command that was asked for.
async fn serve(mut socket: WebSocket, asked: Asked) {
    let Some(Ok(Message::Text(first))) = socket.recv().await else { return };
    told(&asked, format!("attach {first}"));
    let request: AttachRequest = serde_json::from_str(&first).unwrap();
    match request.command.first().map(String::as_str) {
        Some("missing") => {
            event(&mut socket, &AttachEvent::Failed("no program missing in the container".into())).await;
            return;
        }
        Some("drop") => return,
        _ => event(&mut socket, &AttachEvent::Started(7)).await,
    }
    if request.command.first().is_some_and(|c| c == "both") {
        send(&mut socket, 1, b"out\n").await;
        send(&mut socket, 2, b"err\n").await;
        event(&mut socket, &AttachEvent::Exited(request.command[1].parse().unwrap())).await;
        return;
    }
    if let Some(size) = request.tty {
        send(&mut socket, 1, format!("size {}x{}\r\n", size.rows, size.cols).as_bytes()).await;
    } else {
        send(&mut socket, 1, b"ready\n").await;
    }
    // Like `cat`, until its input ends, a signal comes, or somebody types q.
    while let Some(Ok(message)) = socket.recv().await {
        let code = match message {
            Message::Binary(frame) if &frame[1..] == b"q" => Some(3),
            Message::Binary(frame) => {
                assert_eq!(frame[0], 0);
                send(&mut socket, 1, &frame[1..]).await;
                None
            }
            Message::Text(text) => match serde_json::from_str(&text).unwrap() {
                AttachControl::Eof => Some(0),
                AttachControl::Signal(number) => Some(128 + number),
                AttachControl::Resize(size) => {
                    send(&mut socket, 1, format!("size {}x{}\r\n", size.rows, size.cols).as_bytes()).await;
                    None
                }
            },
            _ => None,
        };
        if let Some(code) = code {
            event(&mut socket, &AttachEvent::Exited(code)).await;
            return;
        }
    }
}
