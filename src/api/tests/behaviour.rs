//! What the routes answer.

use std::time::Duration;

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::UnixStream,
};

use super::{
    client::request,
    setup::{living, open},
};

#[tokio::test]
async fn lists_come_in_pages_by_id() {
    let open = open().await;
    for (list, all) in [
        ("/v1/agents", ["reader", "writer", "zoe"]),
        ("/v1/skills", ["basic-tools", "cron-tools", "mail-tools"]),
    ] {
        let first = open.call("GET", &format!("{list}?limit=2&unknown=1"), "").await.json();
        assert_eq!(first["items"][0]["id"], all[0]);
        assert_eq!(first["items"][1]["id"], all[1]);
        let next = first["next"].as_str().unwrap();
        let second = open.call("GET", &format!("{list}?limit=2&cursor={next}"), "").await.json();
        assert_eq!(second["items"][0]["id"], all[2]);
        assert!(second["next"].is_null());
    }
    let found = open.call("GET", "/v1/skills?q=mail", "").await.json();
    assert_eq!(found["items"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn start_and_stop_answer_202_with_the_agent() {
    let open = open().await;
    let stopped = open.call("POST", "/v1/agents/writer/stop", "").await;
    assert_eq!((stopped.status, stopped.json()["id"].as_str()), (202, Some("writer")));
    assert_eq!(open.call("GET", "/v1/agents/writer", "").await.json()["status"], "stopped");
    assert_eq!(open.call("POST", "/v1/agents/writer/start", "").await.json()["status"], "running");
    assert_eq!(open.call("POST", "/v1/agents/nobody/restart", "").await.status, 404);
}

#[tokio::test]
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

#[tokio::test]
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

#[tokio::test]
async fn resolve_and_update_answer_in_their_shapes() {
    let open = open().await;
    let resolved = open.call("POST", "/v1/resolve", r#"{"skills":["a@^1"]}"#).await.json();
    assert!(resolved["locked"].is_array() && resolved["warnings"].is_array());
    let explained = open.call("GET", "/v1/agents/writer/resolve?explain=true", "").await.json();
    assert_eq!((&explained["agent"], explained["explanation"].is_string()), (&"writer".into(), true));
    let changed = open.call("POST", "/v1/update", r#"{"agents":["writer"],"dry_run":true}"#).await.json();
    assert_eq!(changed["changes"][0]["agent"], "writer");
    assert_eq!(open.call("POST", "/v1/update", "").await.json()["changes"], serde_json::json!([]));
}

#[tokio::test]
async fn a_hive_that_ends_is_healthy_and_not_ready() {
    let open = open().await;
    assert_eq!(open.call("GET", "/readyz", "").await.status, 200);
    assert_eq!(open.call("POST", "/v1/shutdown", r#"{"stop_agents":true}"#).await.status, 202);
    assert_eq!(open.call("GET", "/healthz", "").await.status, 200);
    let not = open.call("GET", "/readyz", "").await;
    assert_eq!((not.status, not.header("content-type")), (503, "application/problem+json"));
    assert_eq!(not.header("retry-after"), "1");
}

#[tokio::test]
async fn metrics_count_agents_and_requests_by_route() {
    let open = open().await;
    open.call("GET", "/v1/agents/writer", "").await;
    open.call("GET", "/v1/nowhere/hunter22", "").await;
    let metrics = open.call("GET", "/metrics", "").await;
    assert!(metrics.header("content-type").starts_with("text/plain; version=0.0.4"));
    for line in [
        "skep_agents{status=\"running\"} 3\n",
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

#[tokio::test]
async fn every_answer_forbids_sniffing_and_caching() {
    let open = open().await;
    for path in ["/v1/agents", "/v1/nowhere", "/docs", "/healthz", "/v1/agents/writer/logs"] {
        let answer = open.call("GET", path, "").await;
        assert_eq!(answer.header("x-content-type-options"), "nosniff");
        assert_eq!(answer.header("cache-control"), "no-store");
        assert!(answer.header("content-security-policy").starts_with("default-src 'none'"));
    }
}

#[tokio::test]
async fn logs_end_when_not_followed() {
    let open = open().await;
    let logs = open.call("GET", "/v1/agents/writer/logs?tail=2&timestamps=0&stream=stdout", "").await;
    assert_eq!(
        (logs.header("content-type"), logs.body.as_str()),
        ("text/plain; charset=utf-8", "line 0\nline 1\n")
    );
}

#[tokio::test]
async fn followed_logs_come_as_they_are_written_until_the_client_goes() {
    let open = open().await;
    let mut stream = UnixStream::connect(open.operator()).await.unwrap();
    let ask = request("GET", "/v1/agents/writer/logs?follow=true&tail=0", &[("Host", "skep")], "");
    stream.write_all(&ask).await.unwrap();
    let (mut seen, mut piece) = (String::new(), [0; 1024]);
    while seen.matches("more\n").count() < 3 {
        let n = stream.read(&mut piece).await.unwrap();
        assert!(n > 0, "{seen}");
        seen.push_str(std::str::from_utf8(&piece[..n]).unwrap());
    }
    assert_eq!(living(&open.hive), 1);
    drop(stream);
    tokio::time::timeout(Duration::from_secs(5), async {
        while living(&open.hive) > 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await
    .expect("the source of the lines is dropped");
}
