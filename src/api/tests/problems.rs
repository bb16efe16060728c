//! What refusals look like.

use std::time::Duration;

use axum::{Router, middleware::from_fn, routing::get};
use tokio::net::UnixStream;
use tokio_util::sync::CancellationToken;

use super::{
    client::{Answer, request, send},
    setup::{Open, open},
};
use crate::{
    api::{Access, Problem, serve::serve_connection},
    app::types::AppError,
};

async fn problem(open: &Open, method: &str, path: &str, body: &str, status: u16) -> serde_json::Value {
    let answer = open.call(method, path, body).await;
    assert_eq!(answer.status, status, "{method} {path} {body}: {answer:?}");
    assert_eq!(answer.header("content-type"), "application/problem+json");
    let problem = answer.json();
    assert_eq!(problem["status"], status);
    assert_eq!(problem["type"], "about:blank");
    assert!(!problem["title"].as_str().unwrap().is_empty());
    assert!(!problem["detail"].as_str().unwrap().is_empty());
    problem
}

#[tokio::test(flavor = "multi_thread")]
async fn every_refusal_is_a_problem_that_points_at_what_is_wrong() {
    let open = open().await;
    let exec = "/v1/agents/writer/exec";
    for (method, path, body, status, pointer) in [
        ("GET", "/v1/nowhere", "", 404, None),
        ("GET", "/v1/agents/nobody", "", 404, None),
        ("GET", "/v1/skills/nothing", "", 404, None),
        ("DELETE", "/v1/secrets/NONE", "", 404, None),
        ("GET", "/v1/agents/No%20Name", "", 422, Some("{agent}")),
        ("GET", "/v1/skills/..", "", 422, Some("{id}")),
        ("PUT", "/v1/secrets/A-B", r#"{"value":"x"}"#, 422, Some("{name}")),
        ("GET", "/v1/agents/%ff", "", 400, None),
        ("GET", "/v1/agents?limit=many", "", 422, Some("?limit")),
        ("GET", "/v1/agents?limit=0", "", 422, Some("?limit")),
        ("GET", "/v1/agents?limit=-1", "", 422, Some("?limit")),
        ("GET", "/v1/agents?cursor=~", "", 422, Some("?cursor")),
        ("GET", "/v1/agents/writer/logs?follow=maybe", "", 422, Some("?follow")),
        ("GET", "/v1/agents/writer/logs?stream=stdin", "", 422, None),
        ("POST", exec, "{", 400, None),
        ("POST", exec, "{} {}", 422, Some("")),
        ("POST", exec, "[]", 422, Some("")),
        ("POST", exec, r#"{"command":["a",1]}"#, 422, Some("/command/1")),
        ("POST", exec, r#"{"command":["a"],"env":{"a/b":1}}"#, 422, Some("/env/a~1b")),
        ("POST", exec, r#"{"command":["a"],"comand":1}"#, 422, Some("/comand")),
        ("POST", exec, r#"{"command":["a","b\u0000c"]}"#, 422, Some("/command/1")),
        ("POST", exec, r#"{"command":["a"],"env":{"A":"\u0000"}}"#, 422, Some("/env")),
        ("POST", exec, r#"{"command":["true"]}"#, 409, None),
        ("POST", "/v1/resolve", r#"{"skills":["a@1","a@@"]}"#, 422, Some("/skills/1")),
        ("POST", "/v1/resolve", r#"{"skills":["nothing@1.0.0"]}"#, 409, None),
        ("PUT", "/v1/secrets/A", r#"{"value":""}"#, 422, Some("/value")),
        ("PUT", "/v1/secrets/A", r#"{"value":"a\u0000"}"#, 422, Some("/value")),
        ("GET", "/v1/agents/writer/attach", "", 426, None),
        ("GET", "/v1/jobs/7", "", 404, None),
        ("GET", "/v1/jobs/seven", "", 422, Some("{id}")),
        ("GET", "/v1/jobs?trigger=crom", "", 422, Some("?trigger")),
        ("GET", "/v1/jobs?enabled=maybe", "", 422, Some("?enabled")),
        ("GET", "/v1/jobs?agent=No%20Name", "", 422, Some("?agent")),
        ("GET", "/v1/jobs?cursor=~", "", 422, Some("?cursor")),
        ("GET", "/v1/jobs/7/next?count=0", "", 422, Some("?count")),
        ("POST", "/v1/jobs", "{", 400, None),
        ("POST", "/v1/jobs", "[]", 422, Some("")),
        ("POST", "/v1/jobs", r#"{"agent":"writer","name":"a","every":"1h","tool":"x"}"#, 422, Some("/tool")),
        ("POST", "/v1/jobs/7/run", "", 404, None),
        ("POST", "/v1/schedules/preview", r#"{"schedule":"0 9 *"}"#, 422, Some("/schedule")),
        ("GET", "/v1/runs?status=done", "", 422, Some("?status")),
        ("GET", "/v1/runs?job=x", "", 422, Some("?job")),
        ("GET", "/v1/runs/7", "", 404, None),
        ("GET", "/v1/runs/7/output?stream=stdin", "", 422, None),
        ("POST", "/v1/runs/7/cancel", "", 404, None),
        ("POST", "/v1/halt", r#"{"agent":"nobody"}"#, 404, None),
        ("POST", "/v1/halt", r#"{"agent":"No Name"}"#, 422, Some("/agent")),
        ("POST", "/v1/halt", r#"{"agents":"writer"}"#, 422, Some("/agents")),
        ("POST", "/v1/events", r#"{"name":"run:succeeded"}"#, 422, Some("/name")),
        ("POST", "/v1/events", r#"{"name":"Report"}"#, 422, Some("/name")),
        ("POST", "/v1/events", r#"{}"#, 422, None),
    ] {
        let problem = problem(&open, method, path, body, status).await;
        if let Some(pointer) = pointer {
            assert_eq!(problem["errors"][0]["pointer"], pointer, "{path} {body}: {problem}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_bad_reference_is_named_at_once() {
    let open = open().await;
    let problem = problem(&open, "POST", "/v1/resolve", r#"{"skills":["A","ok","b@@"]}"#, 422).await;
    let pointers: Vec<_> = problem["errors"].as_array().unwrap().iter().map(|e| &e["pointer"]).collect();
    assert_eq!(pointers, ["/skills/0", "/skills/2"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_method_that_a_route_does_not_know_is_answered_with_those_it_knows() {
    let open = open().await;
    problem(&open, "DELETE", "/v1/agents", "", 405).await;
    assert_eq!(open.call("DELETE", "/v1/agents", "").await.header("allow"), "GET,HEAD");
    let allow = open.call("POST", "/v1/secrets/A", "").await;
    assert_eq!((allow.status, allow.header("allow")), (405, "PUT,DELETE"));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_form_can_send_is_refused_on_every_write() {
    let open = open().await;
    for (method, path, ..) in super::doors::ROUTES.iter().filter(|r| r.0 != "GET") {
        let path = super::doors::filled(path, "writer");
        for kind in ["application/x-www-form-urlencoded", "multipart/form-data; boundary=a", "text/html"] {
            let answer = open.call_with(method, &path, &[("Content-Type", kind)], "a=b").await;
            assert_eq!(answer.status, 415, "{method} {path} {kind}");
            assert_eq!(answer.header("content-type"), "application/problem+json");
        }
        if *method == "POST" {
            let answer = open.call_with(method, &path, &[("Content-Type", "text/plain")], "{}").await;
            assert_eq!(answer.status, 415, "{method} {path}");
        }
    }
    let untyped = open.call_with("POST", "/v1/resolve", &[], r#"{"skills":[]}"#).await;
    assert_eq!(untyped.status, 415);
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_are_bounded_and_those_of_exec_have_more_room() {
    let open = open().await;
    let stdin = "x".repeat(1024 * 1024);
    let exec = format!(r#"{{"command":["cat"],"stdin":"{stdin}"}}"#);
    // Taken in whole; the agent does not run.
    problem(&open, "POST", "/v1/agents/writer/exec", &exec, 409).await;
    problem(&open, "POST", "/v1/agents/writer/exec", &format!("{exec}{exec}"), 413).await;
    problem(&open, "POST", "/v1/resolve", &format!(r#"{{"skills":["{stdin}"]}}"#), 413).await;
    let soul = open
        .call_with("PUT", "/v1/agents/writer/soul", &[("Content-Type", "text/plain")], &(stdin + "x"))
        .await;
    assert_eq!(soul.status, 413);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_secret_is_not_repeated() {
    let open = open().await;
    for body in [r#""hunter22""#, r#"{"value":7,"hunter22":1}"#, r#"{"hunter22":"#, r#"["hunter22"]"#] {
        let answer = open.call("PUT", "/v1/secrets/A", body).await;
        assert_eq!(answer.status, 422);
        assert!(!answer.body.contains("hunter22"), "{answer:?}");
    }
}

/// A router with faults of ours, behind what every router stands behind.
async fn call_faulty(path: &'static str, access: Access) -> Answer {
    let bees = || async { Problem::from(AppError::Internal("the disk is full of bees".into())) };
    let panic = || async {
        if true {
            panic!("asked to")
        }
    };
    let router = Router::new()
        .route("/v1/skills", get(bees))
        .route("/healthz", get(panic))
        .layer(from_fn(crate::api::access::enforce));
    let router = crate::api::outside(router);
    let (client, server) = UnixStream::pair().unwrap();
    let (end, patience) = (CancellationToken::new(), Duration::from_secs(5));
    tokio::spawn(serve_connection(server, router, Some(access), end, patience));
    send(client, &request("GET", path, &[("Host", "a")], "")).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_is_a_problem_and_tells_nothing() {
    let answer = call_faulty("/healthz", Access::Operator).await;
    assert_eq!((answer.status, answer.header("content-type")), (500, "application/problem+json"));
    assert!(!answer.body.contains("asked to"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failure_inside_is_told_to_the_operator_and_not_to_agents() {
    let operator = call_faulty("/v1/skills", Access::Operator).await;
    assert_eq!((operator.status, operator.body.contains("bees")), (500, true));
    let agent = call_faulty("/v1/skills", Access::Agent("writer".parse().unwrap())).await;
    assert_eq!((agent.status, agent.body.contains("bees")), (500, false));
    assert_eq!(agent.header("content-type"), "application/problem+json");
}
