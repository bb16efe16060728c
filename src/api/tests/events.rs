//! `/v1/events`: raised, listed and streamed.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines},
    net::UnixStream,
};

use super::{
    client::request,
    setup::{JOBS, Open, open_with},
};

/// A stream of server-sent events.
struct Stream(Lines<BufReader<UnixStream>>);

impl Stream {
    async fn open(open: &Open, path: &str, headers: &[(&str, &str)]) -> Self {
        let mut socket = UnixStream::connect(open.operator()).await.unwrap();
        let headers = [&[("Host", "a"), ("Accept", "text/event-stream")], headers].concat();
        socket.write_all(&request("GET", path, &headers, "")).await.unwrap();
        let mut stream = Self(BufReader::new(socket).lines());
        assert_eq!(stream.line().await, "HTTP/1.1 200 OK");
        let mut head = String::new();
        loop {
            match stream.line().await {
                line if line.is_empty() => break,
                line => head.push_str(&line.to_ascii_lowercase()),
            }
        }
        assert!(head.contains("text/event-stream"), "{head}");
        stream
    }

    async fn line(&mut self) -> String {
        let line = tokio::time::timeout(Duration::from_secs(20), self.0.next_line()).await;
        line.expect("something comes").unwrap().expect("it goes on")
    }

    /// The next event: its id, its name, its data.
    async fn event(&mut self) -> (i64, String, Value) {
        let (mut id, mut name) = (0, String::new());
        loop {
            let line = self.line().await;
            match line.split_once(": ") {
                Some(("id", value)) => id = value.parse().unwrap(),
                Some(("event", value)) => name = value.to_owned(),
                Some(("data", value)) => return (id, name, serde_json::from_str(value).unwrap()),
                _ => {}
            }
        }
    }
}

async fn raise(open: &Open, name: &str) -> i64 {
    let raised = open.call("POST", "/v1/events", &json!({"name": name, "data": {"n": 1}}).to_string()).await;
    assert_eq!(raised.status, 201, "{raised:?}");
    raised.json()["id"].as_i64().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_begins_with_what_comes_and_is_taken_up_where_it_ended() {
    let open = open_with(JOBS).await;
    raise(&open, "before").await;
    let mut stream = Stream::open(&open, "/v1/events", &[]).await;
    let first = raise(&open, "report").await;
    let (id, name, data) = stream.event().await;
    assert_eq!((id, name.as_str(), &data["data"]), (first, "report", &json!({"n": 1})));
    assert_eq!((&data["name"], data["at"].is_string()), (&json!("report"), true));
    drop(stream);
    let missed = raise(&open, "missed").await;
    let id = first.to_string();
    let mut stream = Stream::open(&open, "/v1/events", &[("Last-Event-ID", &id)]).await;
    assert_eq!(stream.event().await.0, missed);
    let next = raise(&open, "next").await;
    assert_eq!(stream.event().await.0, next);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_tells_what_happens_to_jobs_and_runs() {
    let open = open_with(JOBS).await;
    let mut stream = Stream::open(&open, "/v1/events?name=job:*", &[]).await;
    let id = open.job("writer", "a", &json!({})).await;
    open.call("POST", &format!("/v1/jobs/{id}/run"), "").await;
    open.call("POST", &format!("/v1/jobs/{id}/pause"), "").await;
    open.call("DELETE", &format!("/v1/jobs/{id}"), "").await;
    for expected in ["job:created", "job:paused", "job:deleted"] {
        let (_, name, data) = stream.event().await;
        assert_eq!((name.as_str(), &data["data"]["job"]), (expected, &json!(id)));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn many_followers_and_many_events_lose_none() {
    let open = open_with(JOBS).await;
    let mut streams = Vec::new();
    for _ in 0..5 {
        streams.push(Stream::open(&open, "/v1/events?name=n*", &[]).await);
    }
    for n in 0..600 {
        open.hive.raise(format!("n{n}"), json!(null), None).await.unwrap();
    }
    for mut stream in streams {
        for n in 0..600 {
            assert_eq!(stream.event().await.1, format!("n{n}"));
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn events_that_are_no_longer_kept_are_told_as_a_gap() {
    let open = open_with(JOBS).await;
    for _ in 0..5 {
        raise(&open, "report").await;
    }
    open.hive.db.write(|tx| crate::db::events::prune(tx, 2)).await.unwrap();
    let all = open.call_with("GET", "/v1/events?after=0", &[("Accept", "application/json")], "").await.json();
    let (oldest, newest) = (all["items"][0]["id"].as_i64().unwrap(), all["items"][1]["id"].as_i64().unwrap());
    for after in [1, newest + 100] {
        let mut stream = Stream::open(&open, &format!("/v1/events?after={after}"), &[]).await;
        let (id, name, data) = stream.event().await;
        assert_eq!((id, name.as_str()), (oldest - 1, "hive:gap"));
        assert_eq!(data["data"], json!({"after": after, "oldest": oldest}));
        assert_eq!(stream.event().await.0, oldest);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn events_come_as_pages_for_those_who_take_json() {
    let open = open_with(JOBS).await;
    let mut raised = Vec::new();
    for name in ["a", "b", "crm:new", "crm:old", "c"] {
        raised.push(raise(&open, name).await);
    }
    let json = [("Accept", "application/json")];
    let (mut seen, mut path) = (Vec::new(), format!("/v1/events?limit=2&after={}", raised[0]));
    loop {
        let page = open.call_with("GET", &path, &json, "").await.json();
        seen.extend(page["items"].as_array().unwrap().iter().map(|e| e["id"].as_i64().unwrap()));
        let Some(next) = page["next"].as_str() else { break };
        path = format!("/v1/events?limit=2&cursor={next}");
    }
    assert_eq!(seen, raised[1..]);
    let page = open.call_with("GET", "/v1/events?name=crm:*", &json, "").await.json();
    assert_eq!(page["items"].as_array().unwrap().len(), 2);
    let ended = open.call("GET", "/v1/events?follow=false&name=b", "").await;
    assert_eq!(
        (ended.header("content-type"), ended.body.matches("event: b").count()),
        ("text/event-stream", 1)
    );
    let wrong = open.call_with("GET", "/v1/events", &[("Last-Event-ID", "x")], "").await;
    assert_eq!(wrong.status, 422);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_raised_is_bounded_masked_and_raised_once_by_its_key() {
    let open = open_with(JOBS).await;
    open.call("PUT", "/v1/secrets/API_KEY", r#"{"value":"hunter22hunter"}"#).await;
    let body = r#"{"name":"report","data":{"token":"hunter22hunter","list":["x hunter22hunter"]}}"#;
    let key = [("Content-Type", "application/json"), ("Idempotency-Key", "e")];
    let first = open.call_with("POST", "/v1/events", &key, body).await;
    assert_eq!(first.json()["data"], json!({"token": "***", "list": ["x ***"]}));
    assert_eq!(open.call_with("POST", "/v1/events", &key, body).await.body, first.body);
    let large = json!({"name": "report", "data": "x".repeat(64 * 1024)}).to_string();
    let refused = open.call("POST", "/v1/events", &large).await;
    assert_eq!((refused.status, &refused.json()["errors"][0]["pointer"]), (422, &json!("/data")));
    assert_eq!(open.call("POST", "/v1/events", r#"{"name":"bare"}"#).await.json()["data"], json!({}));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_ends_with_the_supervisor() {
    let open = open_with(JOBS).await;
    let mut stream = Stream::open(&open, "/v1/events", &[]).await;
    open.hive.shutdown(false);
    let ended = async { while let Ok(Some(_)) = stream.0.next_line().await {} };
    tokio::time::timeout(Duration::from_secs(20), ended).await.expect("it ends");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_events_are_found_from_their_end() {
    let open = open_with(JOBS).await;
    let mut ids = Vec::new();
    for name in ["report", "other", "report", "other", "report", "reply"] {
        ids.push(raise(&open, name).await);
    }
    let page = async |query: &str| {
        let path = format!("/v1/events?{query}");
        let answer = open.call_with("GET", &path, &[("Accept", "application/json")], "").await;
        let json = answer.json();
        json["items"].as_array().unwrap().iter().map(|e| e["id"].as_i64().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(page("last=2").await, ids[4..]);
    assert_eq!(page("last=2&name=report").await, [ids[2], ids[4]]);
    assert_eq!(page("last=3&name=rep*").await, [ids[2], ids[4], ids[5]]);
    assert_eq!(page("last=2&name=other&limit=1").await, [ids[1]]);
    assert_eq!(page("last=0").await, [0; 0]);
    assert_eq!(page("last=1000&name=reply").await, [ids[5]]);
    let mut stream = Stream::open(&open, "/v1/events?last=1&name=other", &[]).await;
    assert_eq!(stream.event().await.0, ids[3]);
    let both =
        open.call_with("GET", "/v1/events?last=1&after=2", &[("Accept", "application/json")], "").await;
    assert_eq!(both.status, 422);
}
