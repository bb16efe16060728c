//! `/v1/jobs…` as operator and as the agent `writer`.

use serde_json::{Value, json};

use super::setup::{JOBS, Open, open_with};

impl Open {
    /// A job of `agent` with this name and these keys, made by the operator; its id.
    pub async fn job(&self, agent: &str, name: &str, more: &Value) -> i64 {
        let mut body = json!({"agent": agent, "name": name, "tool": "read-file", "manual": true});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let made = self.call("POST", "/v1/jobs", &body.to_string()).await;
        assert_eq!(made.status, 201, "{made:?}");
        made.json()["id"].as_i64().unwrap()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_goes_through_its_life() {
    let open = open_with(JOBS).await;
    let body = r#"{"name":"post","trigger":{"type":"cron","schedule":"0 9 * * MON-FRI"},"tool":"read-file"}"#;
    let made = open.call("POST", "/v1/jobs", body).await;
    assert_eq!(made.status, 201);
    let made = made.json();
    assert_eq!((&made["agent"], &made["tier"]), (&json!("writer"), &json!("direct")));
    assert_eq!(made["trigger"]["timezone"], "Europe/Berlin");
    assert_eq!(made["next_fires"].as_array().unwrap().len(), 3);
    let path = format!("/v1/jobs/{}", made["id"]);
    let changed = open.call("PATCH", &path, r#"{"trigger":{"every":"30m"},"retries":2}"#).await;
    assert_eq!((changed.status, &changed.json()["retries"]), (200, &json!(2)));
    let shown = open.call("GET", &path, "").await.json();
    assert_eq!(shown["trigger"], json!({"type": "interval", "every": "30m"}));
    let next = open.call("GET", &format!("{path}/next?count=2"), "").await.json();
    assert_eq!((next["fires"].as_array().unwrap().len(), &next["wildcard"]), (2, &json!(false)));
    let paused = open.call("POST", &format!("{path}/pause"), "").await;
    assert_eq!((paused.status, &paused.json()["enabled"]), (200, &json!(false)));
    assert_eq!(open.call("POST", &format!("{path}/resume"), "").await.json()["enabled"], true);
    let run = open.call("POST", &format!("{path}/run"), "").await;
    assert_eq!((run.status, &run.json()["trigger"]), (202, &json!("manual")));
    assert_eq!(open.call("POST", &format!("{path}/run"), "").await.status, 409);
    assert_eq!(open.call("DELETE", &path, "").await.status, 204);
    assert_eq!(open.call("GET", &path, "").await.status, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_come_in_pages_and_filtered() {
    let open = open_with(JOBS).await;
    for n in 1..=5 {
        let agent = if n % 2 == 0 { "reader" } else { "writer" };
        let more = if n == 5 { json!({"enabled": false}) } else { json!({}) };
        open.job(agent, &format!("job-{n}"), &more).await;
    }
    let (mut seen, mut path) = (Vec::new(), "/v1/jobs?limit=2".to_owned());
    loop {
        let page = open.call("GET", &path, "").await.json();
        seen.extend(page["items"].as_array().unwrap().iter().map(|job| job["id"].as_i64().unwrap()));
        let Some(next) = page["next"].as_str() else { break };
        path = format!("/v1/jobs?limit=2&cursor={next}");
    }
    assert_eq!(seen, [1, 2, 3, 4, 5]);
    for (query, names) in [
        ("agent=reader", vec!["job-2", "job-4"]),
        ("enabled=false", vec!["job-5"]),
        ("enabled=1&agent=writer", vec!["job-1", "job-3"]),
        ("trigger=cron", vec![]),
        ("trigger=manual&name=job-3", vec!["job-3"]),
        ("agent=nobody", vec![]),
    ] {
        let page = open.call("GET", &format!("/v1/jobs?{query}"), "").await.json();
        let found: Vec<_> = page["items"].as_array().unwrap().iter().map(|j| j["name"].clone()).collect();
        assert_eq!(found, names, "{query}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_manages_its_own_jobs_through_its_door() {
    let open = open_with(JOBS).await;
    let others = open.job("reader", "theirs", &json!({})).await;
    let body = r#"{"name":"mine","every":"1h","tool":"read-file"}"#;
    let made = open.call_as_agent("POST", "/v1/jobs", body).await;
    assert_eq!((made.status, &made.json()["origin"]), (201, &json!("agent")));
    let own = made.json()["id"].as_i64().unwrap();
    let list = open.call_as_agent("GET", "/v1/jobs", "").await.json();
    assert_eq!(list["items"].as_array().unwrap().len(), 1);
    assert_eq!(open.call_as_agent("GET", "/v1/jobs?agent=reader", "").await.json()["items"], json!([]));
    let foreign = body.replace("mine\"", "other\",\"agent\":\"reader\"");
    assert_eq!(open.call_as_agent("POST", "/v1/jobs", &foreign).await.status, 403);
    for (method, rest, body, status) in [
        ("GET", "", "", 200),
        ("PATCH", "", r#"{"every":"2h"}"#, 200),
        ("GET", "/next", "", 200),
        ("POST", "/pause", "", 200),
        ("POST", "/resume", "", 200),
        ("POST", "/run", "", 202),
        ("DELETE", "", "", 204),
    ] {
        let answer = open.call_as_agent(method, &format!("/v1/jobs/{own}{rest}"), body).await;
        assert_eq!(answer.status, status, "{method} {rest}: {answer:?}");
        let theirs = open.call_as_agent(method, &format!("/v1/jobs/{others}{rest}"), body).await;
        let nobodys = open.call_as_agent(method, &format!("/v1/jobs/999{rest}"), body).await;
        assert_eq!((theirs.status, nobodys.status), (404, 404), "{method} {rest}");
        assert_eq!(theirs.body.replace(&others.to_string(), "999"), nobodys.body);
    }
    let preview = open.call_as_agent("POST", "/v1/schedules/preview", r#"{"every":"1h","count":2}"#).await;
    assert_eq!((preview.status, preview.json()["fires"].as_array().unwrap().len()), (200, 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeat_with_the_same_key_is_the_same_request() {
    let open = open_with(JOBS).await;
    let headers = [("Content-Type", "application/json"), ("Idempotency-Key", "k-1")];
    let body = r#"{"name":"a","manual":true,"tool":"read-file","overlap":"allow"}"#;
    let first = open.call_with("POST", "/v1/jobs", &headers, body).await;
    let again = open.call_with("POST", "/v1/jobs", &headers, body).await;
    assert_eq!((first.status, again.status, &again.body), (201, 201, &first.body));
    let run = open.call_with("POST", "/v1/jobs/1/run", &headers[1..], "").await.json();
    let same = open.call_with("POST", "/v1/jobs/1/run", &headers[1..], "").await.json();
    assert_eq!(run, same);
    let other = open.call_with("POST", "/v1/jobs/1/run", &[("Idempotency-Key", "k-2")], "").await.json();
    assert_ne!(run["id"], other["id"]);
    let changed = open.call_with("POST", "/v1/jobs", &headers, &body.replace("allow", "skip")).await;
    assert_eq!((changed.status, &changed.json()["errors"][0]["pointer"]), (422, &json!("Idempotency-Key")));
    for bad in ["", &"k".repeat(201)] {
        let headers = [("Content-Type", "application/json"), ("Idempotency-Key", bad)];
        assert_eq!(open.call_with("POST", "/v1/jobs", &headers, body).await.status, 422);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_job_is_shown_as_can_be_sent_back() {
    let open = open_with(JOBS).await;
    let id = open.job("writer", "a", &json!({"args": {"path": "x"}})).await;
    let path = format!("/v1/jobs/{id}");
    let shown = open.call("GET", &path, "").await;
    let sent = open.call("PATCH", &path, &shown.body).await;
    assert_eq!(sent.status, 200, "{sent:?}");
    assert_eq!(open.call("GET", &path, "").await.json(), shown.json());
}
