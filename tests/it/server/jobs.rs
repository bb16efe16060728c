//! Jobs, runs and events as the command line sees them; connections of this server break in the middle.

use std::collections::HashMap;

use axum::{
    Json, Router,
    body::Body,
    extract::{Path, Query, State},
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use futures_util::{StreamExt, stream};
use serde_json::{Value, json};

use super::{Asked, problem, told};

pub fn router() -> Router<Asked> {
    Router::new()
        .route("/v1/jobs", get(jobs).post(add))
        .route("/v1/jobs/{id}", get(job).delete(remove))
        .route("/v1/jobs/{id}/{verb}", post(act))
        .route("/v1/runs", get(runs))
        .route("/v1/runs/{id}", get(run))
        .route("/v1/runs/{id}/output", get(output))
        .route("/v1/runs/{id}/cancel", post(cancel))
        .route("/v1/halt", get(halted).post(halt))
        .route("/v1/resume", post(halt))
        .route("/v1/events", get(events))
}

fn a_job(id: i64, agent: &str, name: &str) -> Value {
    json!({
        "id": id, "agent": agent, "name": name, "description": "", "origin": "api", "enabled": true,
        "disabled_reason": null, "waiting_reason": null, "tier": "direct", "trigger": {"type": "manual"},
        "tool": "t", "args": {}, "required_tools": [], "missing_tools": [], "max_steps": 10, "timeout": "1m",
        "missed": "last", "missed_within": "1d", "overlap": "skip", "retries": 0, "jitter": "0s",
        "notify": {"on_completion": true, "interval_minutes": 0}, "next_fire_at": null, "last_run": null,
        "consecutive_failures": 0, "backoff_until": null, "last_notified_at": null,
        "created_at": "2026-01-01T06:00:00Z", "updated_at": "2026-01-01T06:00:00Z"
    })
}

/// The jobs of this hive.
const JOBS: [(i64, &str, &str); 3] = [(1, "writer", "post"), (2, "writer", "poll"), (3, "helper", "poll")];

async fn jobs(Query(query): Query<HashMap<String, String>>) -> Json<Value> {
    let is = |key: &str, value: &str| query.get(key).is_none_or(|wanted| wanted == value);
    let items: Vec<Value> = JOBS
        .into_iter()
        .filter(|(_, agent, name)| is("agent", agent) && is("name", name))
        .map(|(id, agent, name)| a_job(id, agent, name))
        .collect();
    Json(json!({"items": items, "next": null}))
}

async fn job(Path(id): Path<i64>) -> Response {
    match JOBS.into_iter().find(|job| job.0 == id) {
        Some((id, agent, name)) => Json(a_job(id, agent, name)).into_response(),
        None => problem(StatusCode::NOT_FOUND, &format!("there is no job {id}"), &json!([])),
    }
}

async fn add(State(asked): State<Asked>, Json(body): Json<Value>) -> Response {
    told(&asked, format!("add {body}"));
    match body["name"].as_str() {
        Some("post") => {
            problem(StatusCode::CONFLICT, "agent writer has a job named \"post\" already", &json!([]))
        }
        Some("bad") => {
            let errors = json!([{"pointer": "/schedule", "detail": "no such minute"}]);
            problem(StatusCode::UNPROCESSABLE_ENTITY, "no such minute", &errors)
        }
        name => {
            let mut job = a_job(9, "writer", name.unwrap_or_default());
            job["warnings"] = json!(["the zone was filled in"]);
            job["next_fires"] = json!([]);
            (StatusCode::CREATED, Json(job)).into_response()
        }
    }
}

async fn remove(Path(id): Path<i64>, State(asked): State<Asked>) -> StatusCode {
    told(&asked, format!("remove {id}"));
    StatusCode::NO_CONTENT
}

async fn act(Path((id, verb)): Path<(i64, String)>, State(asked): State<Asked>) -> Response {
    told(&asked, format!("{verb} {id}"));
    (StatusCode::ACCEPTED, Json(a_run(id + 10, "queued"))).into_response()
}

fn a_run(id: i64, status: &str) -> Value {
    json!({
        "id": id, "agent": "writer", "job": 1, "job_name": "post", "tier": "direct", "trigger": "manual",
        "scheduled_at": "2026-01-02T05:00:00Z", "started_at": "2026-01-02T05:00:00Z",
        "finished_at": "2026-01-02T05:00:01.500Z", "attempt": 1, "status": status, "exit_code": 0, "result": null,
        "error": if status == "failed" { json!("exit code 3") } else { Value::Null }, "summary": null, "steps": 0,
        "output_bytes": null
    })
}

async fn runs(Query(query): Query<HashMap<String, String>>, State(asked): State<Asked>) -> Json<Value> {
    let mut query: Vec<_> = query.into_iter().map(|(k, v)| format!("{k}={v}")).collect();
    query.sort();
    told(&asked, format!("runs {}", query.join("&")));
    let failed = query.contains(&"status=failed".to_owned());
    let items = if failed { vec![a_run(12, "failed")] } else { vec![a_run(13, "lost"), a_run(11, "lost")] };
    Json(json!({"items": items, "next": null}))
}

/// Run 11 succeeds and 12 fails once their output was asked for twice; 13 ends when it is cancelled.
async fn run(Path(id): Path<i64>, State(asked): State<Asked>) -> Json<Value> {
    let asked = asked.lock().unwrap();
    let times = |what: &str| asked.iter().filter(|line| *line == &format!("{what} {id}")).count();
    let status = match id {
        11 if times("output") >= 2 => "succeeded",
        12 if times("output") >= 2 => "failed",
        13 if times("cancel") >= 1 => "cancelled",
        _ => "running",
    };
    Json(a_run(id, status))
}

/// The first connection breaks in the middle of the second line.
async fn output(Path(id): Path<i64>, State(asked): State<Asked>) -> Response {
    told(&asked, format!("output {id}"));
    let before = asked.lock().unwrap().iter().filter(|line| **line == format!("output {id}")).count();
    if before > 1 {
        return "one\ntwo\nthree\n".into_response();
    }
    let pieces = stream::iter(["one\n", "tw"].map(Ok)).chain(stream::once(async {
        // What was sent is on its way before the connection breaks.
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        Err(std::io::Error::other("broken"))
    }));
    Body::from_stream(pieces).into_response()
}

async fn cancel(Path(id): Path<i64>, State(asked): State<Asked>) -> StatusCode {
    told(&asked, format!("cancel {id}"));
    StatusCode::ACCEPTED
}

async fn halted() -> Json<Value> {
    Json(json!({"hive": null, "agents": {}, "running": 0}))
}

async fn halt(State(asked): State<Asked>, Json(body): Json<Value>) -> Json<Value> {
    told(&asked, format!("halt {body}"));
    Json(json!({"hive": null, "agents": {"helper": "2026-01-02T05:00:00Z"}, "running": 1}))
}

fn an_event(id: i64) -> Value {
    json!({"id": id, "at": "2026-01-02T05:00:00Z", "name": "report", "data": {"n": id}})
}

/// A stream of two events that ends, and then waits.
async fn events(
    Query(query): Query<HashMap<String, String>>,
    headers: HeaderMap,
    State(asked): State<Asked>,
) -> Response {
    let accept = headers.get(header::ACCEPT).and_then(|v| v.to_str().ok()).unwrap_or_default();
    let last = headers.get("last-event-id").and_then(|v| v.to_str().ok()).unwrap_or("none");
    if accept == "application/json" {
        let last: i64 = query["last"].parse().unwrap();
        told(&asked, format!("the last {last} events"));
        let items: Vec<Value> = (4 - last..4).map(an_event).collect();
        return Json(json!({"items": items, "next": null})).into_response();
    }
    told(&asked, format!("events after {last}"));
    let first: i64 = last.parse().map_or(4, |last: i64| last + 1);
    let text = (first..first + 2).map(|id| format!("id: {id}\nevent: report\ndata: {}\n\n", an_event(id)));
    let sent = stream::iter(text.map(Ok::<_, std::io::Error>).collect::<Vec<_>>());
    let body =
        if first < 8 { Body::from_stream(sent) } else { Body::from_stream(sent.chain(stream::pending())) };
    ([(header::CONTENT_TYPE, "text/event-stream")], body).into_response()
}
