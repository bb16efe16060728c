//! A hive whose engine loses answers, goes away, or goes deaf: nothing is doubled, nothing is lost.

use std::time::{Duration, Instant};

use serde_json::Value;

use crate::{
    bare::docker,
    hive::{PATIENCE, TestHive},
    proxy::{Proxy, shared_engine},
};

async fn eventually(what: &str, mut reached: impl AsyncFnMut() -> bool) {
    let began = Instant::now();
    while !reached().await {
        assert!(began.elapsed() < PATIENCE, "never: {what}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

fn behind(proxy: &Proxy, config: &str) -> TestHive {
    let mut hive = TestHive::new(config);
    hive.env.push(proxy.host());
    hive
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_of_the_engine_that_is_lost_costs_no_agent_and_doubles_none() {
    let proxy = Proxy::before(&shared_engine());
    let mut hive = behind(&proxy, "[agents.a]\nstop_grace = \"1s\"\n");
    proxy.lose_answer("/containers/create");
    hive.start().await;
    let first = hive.running("a").await;
    assert!(proxy.lost_all(), "the answer to the create was lost");
    assert_eq!(hive.containers().len(), 1);
    assert_eq!(first["restarts"], 0, "nothing ended by itself: {first:#}");

    proxy.lose_answer("/start");
    assert_eq!(hive.send("POST", "/v1/agents/a/restart", None).await.0, 202);
    let id = first["container_id"].clone();
    let second = hive.until("a", "restarted", |v| v["status"] == "running" && v["container_id"] != id).await;
    assert!(proxy.lost_all(), "the answer to the start was lost");
    assert_eq!(hive.containers(), [second["container_id"].as_str().unwrap()]);
    assert_eq!(second["restarts"], 0, "{second:#}");

    // The same on the way down.
    proxy.lose_answer("/stop");
    proxy.lose_answer("DELETE ");
    assert_eq!(hive.send("POST", "/v1/agents/a/stop", None).await.0, 202);
    hive.status("a", "stopped").await;
    assert_eq!(hive.containers(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn while_the_engine_is_away_the_api_answers_and_agents_are_left_alone() {
    let proxy = Proxy::before(&shared_engine());
    let mut hive = behind(&proxy, "[agents.kept]\n[agents.ended]\nstop_grace = \"1s\"\n");
    hive.start().await;
    let kept = hive.running("kept").await["container_id"].clone();
    hive.running("ended").await;

    proxy.away(true);
    // What concerns the engine waits; what the hive knows is answered.
    assert_eq!(hive.send("POST", "/v1/agents/ended/stop", None).await.0, 202);
    eventually("the outage is told", async || hive.get("/v1/hive").await["engine"] != "ok").await;
    assert!(hive.try_get("/readyz").await.is_none(), "not ready");
    assert!(hive.try_get("/healthz").await.is_some(), "alive");
    assert_eq!(hive.sh("kept", "echo still here").await["stdout"], "still here\n");
    assert_eq!(hive.inspect("ended", "{{.State.Running}}"), "true");

    proxy.away(false);
    hive.status("ended", "stopped").await;
    let view = hive.running("kept").await;
    assert_eq!((&view["container_id"], &view["restarts"]), (&kept, &Value::from(0)));
    eventually("the recovery is told", async || hive.get("/v1/hive").await["engine"] == "ok").await;

    // A supervisor that starts without an engine.
    hive.kill();
    proxy.away(true);
    hive.spawn();
    eventually("it answers", async || hive.try_get("/healthz").await.is_some()).await;
    eventually("the outage is told", async || hive.get("/v1/hive").await["engine"] != "ok").await;
    assert_eq!(hive.agent("kept").await["status"], "pending");
    assert_eq!(hive.agent("ended").await["status"], "stopped");
    assert_eq!(hive.send("POST", "/v1/agents/ended/start", None).await.0, 202);
    proxy.away(false);
    hive.running("ended").await;
    assert_eq!(hive.running("kept").await["container_id"], kept);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_end_that_no_event_tells_of_is_found_within_seconds() {
    let proxy = Proxy::before(&shared_engine());
    let mut hive = behind(&proxy, "[agents.a]\n");
    hive.start().await;
    let id = hive.running("a").await["container_id"].clone();
    proxy.refuse("/events");
    let began = Instant::now();
    docker(&["kill", &hive.container("a")]);
    let again = hive.until("a", "back", |v| v["status"] == "running" && v["container_id"] != id).await;
    let took = began.elapsed();
    assert!(took < Duration::from_secs(12), "{took:?}");
    assert_eq!(again["restarts"], 1);
    assert_eq!(hive.containers().len(), 1);
    // The stream comes back by itself.
    proxy.allow_all();
    eventually("running", async || hive.agent("a").await["status"] == "running").await;
}
