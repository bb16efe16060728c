//! What the author of a skill is told of it inside its container.

use serde_json::json;

use crate::{
    custom::{events, file, registered, write},
    engine_faults::eventually,
    hive::TestHive,
};

const WHY: &str = "it sends the notes to nobody-knows.example";

async fn read(hive: &TestHive, path: &str) -> String {
    let seen = hive.sh("writer", &format!("cat /skills/custom/{path} 2>/dev/null || true")).await;
    seen["stdout"].as_str().unwrap().to_owned()
}

async fn reject(hive: &TestHive, id: &str, version: &str) {
    let path = format!("/v1/skills/{id}/versions/{version}/reject");
    let (status, answer) = hive.send("POST", &path, Some(json!({ "reason": WHY }))).await;
    assert_eq!(status, 200, "{answer:#}");
}

fn notes(body: &str) -> String {
    file("notes/SKILL.md", &format!("---\nname: notes\ndescription: Takes notes\n---\n{body}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rejection_reaches_the_author_with_its_reason_until_there_is_something_new() {
    let mut hive = TestHive::up("[agents.writer]\n").await;
    hive.running("writer").await;
    write(&hive, &notes("One.")).await;
    registered(&hive, "notes", &["0.0.0 pending writer"]).await;
    reject(&hive, "notes", "0.0.0").await;
    let told = async |hive: &TestHive| {
        let text = read(hive, "notes/.skep-errors.md").await;
        text.contains("notes@0.0.0 was rejected") && text.contains(WHY)
    };
    eventually("its author reads why", async || told(&hive).await).await;
    let announced = events(&hive, "skill:rejected").await;
    assert_eq!((announced.len(), &announced[0]["reason"]), (1, &json!(WHY)), "{announced:#?}");
    // It is looked at again, and stays rejected.
    hive.kill();
    hive.start().await;
    hive.running("writer").await;
    write(&hive, "touch notes/SKILL.md").await;
    tokio::time::sleep(std::time::Duration::from_secs(2)).await;
    assert!(told(&hive).await, "{}", read(&hive, "notes/.skep-errors.md").await);
    write(&hive, &notes("Two.")).await;
    registered(&hive, "notes", &["0.0.1 pending writer", "0.0.0 rejected writer"]).await;
    eventually("the notice goes", async || read(&hive, "notes/.skep-errors.md").await.is_empty()).await;

    // What came over the socket has no folder there.
    let make = "printf 'Do it.' | skep document create sent --title Sent --description d --file -";
    let made = hive.sh("writer", make).await;
    assert_eq!(made["exit_code"], 0, "{made:#}");
    reject(&hive, "sent", "0.0.0").await;
    eventually("its author reads why", async || {
        let text = read(&hive, ".skep-errors.md").await;
        text.contains("sent@0.0.0 was rejected") && text.contains(WHY)
    })
    .await;
}
