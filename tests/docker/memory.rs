//! The built-in memory as an agent has it: every case of tests/memory-tools/cases.json by hand, and what it survives.

use serde_json::{Value, json};

use crate::{hive::TestHive, mail::holds};

const AGENT: &str = "[agents.one]\nskills = [\"memory-tools@1.0.0\"]\n";

#[tokio::test(flavor = "multi_thread")]
async fn every_documented_case_of_the_memory_holds_in_an_agents_container() {
    let hive = TestHive::up(AGENT).await;
    hive.running("one").await;
    holds(&hive, include_str!("../memory-tools/cases.json"));
    let listed = hive.get("/v1/agents/one/tools").await;
    let names: Vec<&str> =
        listed["items"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    for name in ["memory_list_facts", "memory_list_contacts", "memory_list_projects"] {
        assert!(names.contains(&name), "{names:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn many_remember_at_once_and_nothing_is_lost_or_read_by_others() {
    let hive = TestHive::up(&format!("{AGENT}{}", AGENT.replace("one", "two"))).await;
    hive.running("one").await;
    hive.running("two").await;
    // As many at once as the memory of a container has room for.
    let store = "seq 1 20 | xargs -P 6 -I N sh -c '/skills/memory-tools/scripts/memory_store_fact.ts \
                 \"{\\\"fact\\\": \\\"number N\\\"}\"' | grep -c '\"success\":true'";
    let one = hive.sh("one", store);
    let two = hive.sh("two", store);
    let (one, two) = tokio::join!(one, two);
    assert_eq!((&one["stdout"], &two["stdout"]), (&json!("20\n"), &json!("20\n")), "{one:#} {two:#}");
    let (_, listed) = hive.send("POST", "/v1/agents/one/tools/memory_list_facts", Some(json!({}))).await;
    assert_eq!(listed["result"]["data"]["total"], 20, "{listed:#}");
    let damaged =
        hive.sh("one", "rm -r .skep && mkdir .skep && head -c 9000 /dev/urandom > .skep/memory.db").await;
    assert_eq!(damaged["exit_code"], 0, "{damaged:#}");
    let (_, told) = hive.send("POST", "/v1/agents/one/tools/memory_list_facts", Some(json!({}))).await;
    assert!(told["error"].as_str().unwrap().contains("is no memory; move it away"), "{told:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_went_wrong_in_a_task_is_among_the_facts_that_the_memory_lists() {
    let config = AGENT.replace("[\"memory-tools@1.0.0\"]", "[\"memory-tools@1.0.0\", \"kit@1.0.0\"]");
    let mut hive = TestHive::new(&format!("{config}{}", AGENT.replace("one", "two")));
    hive.tools("kit", &[("fail.sh", "#!/bin/bash\necho 'no disk on Tuesday' >&2; exit 5\n")], &json!({}));
    hive.start().await;
    hive.running("one").await;
    hive.running("two").await;
    let list = async |agent: &str, args: Value| {
        let path = format!("/v1/agents/{agent}/tools/memory_list_facts");
        let (status, listed) = hive.send("POST", &path, Some(args)).await;
        assert_eq!(status, 200, "{listed:#}");
        listed["result"]["data"].clone()
    };
    let errors = json!({ "category": "error" });
    assert_eq!(list("one", errors.clone()).await["total"], 0);
    let store = json!({ "fact": "the door sticks", "category": "error" });
    assert_eq!(hive.send("POST", "/v1/agents/one/tools/memory_store_fact", Some(store)).await.0, 200);
    let task = json!({ "name": "hopeless", "agent": "one", "action": { "toolName": "fail" } });
    let (_, task) = hive.send("POST", "/v1/tasks", Some(task)).await;
    let path = format!("/v1/tasks/{}", task["id"]);
    let began = std::time::Instant::now();
    let mut passed = 0;
    while hive.get(&path).await["status"] != "failed" {
        assert!(began.elapsed() < crate::hive::PATIENCE, "{:#}", hive.get(&path).await);
        // The pauses between its four attempts pass in a moment.
        passed += 60;
        hive.write(".skep/clock", &passed.to_string());
        hive.send("POST", "/v1/events", Some(json!({ "name": "tick" }))).await;
        tokio::time::sleep(std::time::Duration::from_millis(500)).await;
    }
    let listed = hive.get("/v1/facts?category=error").await["items"].clone();
    assert_eq!((listed.as_array().unwrap().len(), &listed[0]["about"]), (1, &json!("one")), "{listed:#}");
    let facts = list("one", errors.clone()).await;
    assert_eq!(facts["total"], 2, "{facts:#}");
    let of_hive: Vec<&Value> =
        facts["facts"].as_array().unwrap().iter().filter(|fact| fact["source"] == "hive").collect();
    let [fact] = of_hive.as_slice() else { panic!("{facts:#}") };
    assert!(fact["fact"].as_str().unwrap().contains("\"hopeless\") failed"), "{fact:#}");
    assert!(fact["fact"].as_str().unwrap().contains("no disk on Tuesday"), "{fact:#}");
    assert_eq!(list("one", json!({})).await["total"], 1, "only where they are asked for");
    assert_eq!(list("one", json!({ "category": "person" })).await["total"], 0);
    assert_eq!(list("two", errors).await["total"], 0, "another agent's failures are not its own");
}
