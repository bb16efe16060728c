//! Other engine runtimes: what an engine does not know is said, with what to do.

use crate::hive::TestHive;

#[tokio::test(flavor = "multi_thread")]
async fn a_runtime_that_the_engine_does_not_know_fails_its_agent_alone_with_a_reason() {
    let config = |runtime: &str| format!("[agents.odd]\n{runtime}[agents.plain]\n");
    let hive = TestHive::up(&config("runtime = \"no-such\"\n")).await;
    let plain = hive.running("plain").await["container_id"].clone();
    let odd = hive
        .until("odd", "failed with a reason", |v| v["status"] == "failed" && v["reason"].is_string())
        .await;
    let reason = odd["reason"].as_str().unwrap();
    assert!(reason.contains("no-such") && reason.contains("runtime"), "{reason}");
    assert_eq!(odd["container_id"], serde_json::Value::Null);
    hive.configure(&config(""));
    hive.running("odd").await;
    assert_eq!(hive.inspect("odd", "{{.HostConfig.Runtime}}"), "runc");
    assert_eq!(hive.agent("plain").await["container_id"], plain);
}
