//! What the routes answer.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{Router, routing::get};
use bytes::Bytes;
use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::UnixStream,
    sync::mpsc,
};
use tokio_util::sync::CancellationToken;

use super::{client::request, setup::open};
use crate::api::{agents::streamed, serve::serve_connection};

#[tokio::test(flavor = "multi_thread")]
async fn lists_come_in_pages_by_id() {
    let open = open().await;
    let first = open.call("GET", "/v1/agents?limit=2&unknown=1", "").await.json();
    assert_eq!((&first["items"][0]["id"], &first["items"][1]["id"]), (&json!("reader"), &json!("writer")));
    let next = first["next"].as_str().unwrap();
    let second = open.call("GET", &format!("/v1/agents?limit=2&cursor={next}"), "").await.json();
    assert_eq!((&second["items"][0]["id"], &second["next"]), (&json!("zoe"), &json!(null)));
    let skills = open.call("GET", "/v1/skills", "").await.json();
    let ids: Vec<_> = skills["items"].as_array().unwrap().iter().map(|s| s["id"].as_str().unwrap()).collect();
    assert!(ids.is_sorted() && ids.contains(&"alpha-tools") && ids.contains(&"zeta-tools"), "{ids:?}");
    let found = open.call("GET", "/v1/skills?q=zeta", "").await.json();
    assert_eq!(found["items"].as_array().unwrap().len(), 1);
    assert_eq!(open.call("GET", "/v1/skills/zeta-tools", "").await.json()["usedBy"], json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn start_and_stop_answer_202_with_the_agent() {
    let open = open().await;
    let stopped = open.call("POST", "/v1/agents/writer/stop", "").await;
    assert_eq!((stopped.status, stopped.json()["id"].as_str()), (202, Some("writer")));
    assert_eq!(open.call("GET", "/v1/agents/writer", "").await.json()["status"], "stopped");
    assert_eq!(open.call("POST", "/v1/agents/writer/start", "").await.json()["status"], "pending");
    assert_eq!(open.call("POST", "/v1/agents/nobody/restart", "").await.status, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_soul_is_read_as_it_was_put() {
    let open = open().await;
    let markdown = [("Content-Type", "text/markdown; charset=utf-8")];
    let put = open.call_with("PUT", "/v1/agents/writer/soul", &markdown, "# Wrïter\n").await;
    assert_eq!((put.status, put.body.as_str()), (204, ""));
    let got = open.call("GET", "/v1/agents/writer/soul", "").await;
    assert_eq!(got.header("content-type"), "text/markdown; charset=utf-8");
    assert_eq!(got.body, "# Wrïter\n");
    assert_eq!(open.call("PUT", "/v1/agents/writer/soul", "{}").await.status, 415);
}

#[tokio::test(flavor = "multi_thread")]
async fn secrets_go_in_and_only_their_names_come_out() {
    let open = open().await;
    let set = open.call("PUT", "/v1/secrets/API_KEY", r#"{"value":"hunter22"}"#).await;
    assert_eq!((set.status, set.json()["name"].as_str()), (200, Some("API_KEY")));
    let list = open.call("GET", "/v1/secrets", "").await;
    assert_eq!(list.json()["items"][0]["name"], "API_KEY");
    assert!(!list.body.contains("hunter22"));
    assert_eq!(open.call("DELETE", "/v1/secrets/API_KEY", "").await.status, 204);
    assert_eq!(open.call("DELETE", "/v1/secrets/API_KEY", "").await.status, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn resolve_and_update_answer_in_their_shapes() {
    let open = open().await;
    let resolved = open.call("POST", "/v1/resolve", r#"{"skills":["zeta-tools"]}"#).await.json();
    assert_eq!(resolved["locked"][0]["id"], "zeta-tools");
    assert_eq!(resolved["warnings"].as_array().unwrap().len(), 1);
    let explained = open.call("GET", "/v1/agents/writer/resolve?explain=true", "").await.json();
    assert_eq!((&explained["agent"], explained["explanation"].is_string()), (&"writer".into(), true));
    let changed = open.call("POST", "/v1/update", r#"{"agents":["writer"],"dry_run":true}"#).await.json();
    assert_eq!(changed["changes"], json!([]));
    assert_eq!(open.call("POST", "/v1/update", "").await.json()["changes"], json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hive_without_its_engine_is_healthy_and_not_ready() {
    let open = open().await;
    assert_eq!(open.call("GET", "/readyz", "").await.status, 200);
    open.hive.note_engine(Some("the container engine does not answer".into()));
    assert_eq!(open.call("GET", "/healthz", "").await.status, 200);
    let not = open.call("GET", "/readyz", "").await;
    assert_eq!((not.status, not.header("content-type")), (503, "application/problem+json"));
    assert_eq!(not.header("retry-after"), "1");
    assert!(open.call("GET", "/metrics", "").await.body.contains("skep_engine_up 0\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn shutdown_is_passed_on() {
    let open = open().await;
    assert_eq!(open.call("POST", "/v1/shutdown", r#"{"stop_agents":true}"#).await.status, 202);
    assert!(open.hive.stopping.is_cancelled() && open.hive.stops_agents());
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_count_agents_and_requests_by_route() {
    let open = open().await;
    open.call("GET", "/v1/agents/writer", "").await;
    open.call("GET", "/v1/nowhere/hunter22", "").await;
    let metrics = open.call("GET", "/metrics", "").await;
    assert!(metrics.header("content-type").starts_with("text/plain; version=0.0.4"));
    for line in [
        "skep_agents{status=\"pending\"} 3\n",
        "skep_agents{status=\"failed\"} 0\n",
        "skep_http_requests_total{method=\"GET\",route=\"/v1/agents/{agent}\",status=\"200\"} ",
        "skep_http_requests_total{method=\"GET\",route=\"none\",status=\"404\"} ",
        "process_resident_memory_bytes ",
        "skep_engine_up 1\n",
    ] {
        assert!(metrics.body.contains(line), "{line} in {}", metrics.body);
    }
    assert!(!metrics.body.contains("hunter22"));
}

#[tokio::test(flavor = "multi_thread")]
async fn every_answer_forbids_sniffing_and_caching() {
    let open = open().await;
    for path in ["/v1/agents", "/v1/nowhere", "/docs", "/healthz", "/v1/agents/writer/logs"] {
        let answer = open.call("GET", path, "").await;
        assert_eq!(answer.header("x-content-type-options"), "nosniff");
        assert_eq!(answer.header("cache-control"), "no-store");
        assert!(answer.header("content-security-policy").starts_with("default-src 'none'"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn logs_of_an_agent_that_never_ran_are_empty() {
    let open = open().await;
    let logs = open.call("GET", "/v1/agents/writer/logs?tail=2&timestamps=0&stream=stdout", "").await;
    assert_eq!((logs.status, logs.body.as_str()), (200, ""));
    assert_eq!(logs.header("content-type"), "text/plain; charset=utf-8");
}

#[tokio::test(flavor = "multi_thread")]
async fn lines_are_streamed_as_they_come_and_their_source_is_dropped_with_the_client() {
    let (mut client, server) = UnixStream::pair().unwrap();
    let (out, lines) = mpsc::channel::<Bytes>(2);
    let lines = Arc::new(Mutex::new(Some(lines)));
    let router = Router::new().route("/", get(async move || streamed(lines.lock().unwrap().take().unwrap())));
    let (end, patience) = (CancellationToken::new(), Duration::from_secs(5));
    tokio::spawn(serve_connection(server, router, None, end, patience));
    client.write_all(&request("GET", "/", &[("Host", "a")], "")).await.unwrap();
    let (mut seen, mut piece) = (String::new(), [0; 1024]);
    for line in ["one\n", "two\n", "three\n"] {
        out.send(line.into()).await.unwrap();
        while !seen.contains(line) {
            let n = client.read(&mut piece).await.unwrap();
            assert!(n > 0, "{seen}");
            seen.push_str(std::str::from_utf8(&piece[..n]).unwrap());
        }
    }
    drop(client);
    tokio::time::timeout(Duration::from_secs(5), out.closed()).await.expect("the source is dropped");
}
