//! The built-in memory as an agent has it: every case of tests/memory-tools/cases.json by hand, and what it survives.

use serde_json::json;

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
