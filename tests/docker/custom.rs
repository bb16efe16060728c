//! Skills that agents write in their containers: in any order, again, wrongly, and how they are told.

use std::{fs, time::Duration};

use serde_json::{Value, json};

use crate::{engine_faults::eventually, hive::TestHive};

/// A hive with one agent that runs, and no other skill but the built-in ones.
async fn writer(config: &str) -> TestHive {
    let hive = TestHive::up(&format!("{config}\n[agents.writer]\n")).await;
    hive.running("writer").await;
    hive
}

pub async fn write(hive: &TestHive, script: &str) {
    let answer = hive.sh("writer", &format!("set -e; cd /skills/custom; {script}")).await;
    assert_eq!(answer["exit_code"], 0, "{answer:#}");
}

/// Shell that writes a file of a skill.
pub fn file(path: &str, text: &str) -> String {
    format!("mkdir -p $(dirname {path}); cat > {path} <<'END'\n{text}\nEND\n")
}

fn md(name: &str, body: &str) -> String {
    file(&format!("{name}/SKILL.md"), &format!("---\nname: {name}\ndescription: Does {name}\n---\n{body}"))
}

pub fn manifest(id: &str, version: &str, more: &Value) -> String {
    let mut all = json!({ "id": id, "name": id, "version": version, "description": format!("Does {id}"),
        "scripts": ["scripts/show.sh"], "context": ["context/how.md"] });
    all.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap_or_default());
    file(&format!("{id}/manifest.json"), &all.to_string())
}

pub fn script(id: &str, says: &str) -> String {
    file(&format!("{id}/scripts/show.sh"), &format!("#!/bin/bash\n# Shows.\necho '{says}'"))
        + &format!("chmod +x {id}/scripts/show.sh\n")
}

fn context(id: &str, text: &str) -> String {
    file(&format!("{id}/context/how.md"), text)
}

/// The versions of a skill as the registry has them, newest first: `version trust owner`.
pub async fn versions(hive: &TestHive, id: &str) -> Vec<String> {
    let Some(text) = hive.try_get(&format!("/v1/skills/{id}")).await else { return Vec::new() };
    let view: Value = serde_json::from_str(&text).unwrap();
    let owner = view["owner"].as_str().unwrap();
    let all = view["versions"].as_array().unwrap().iter();
    all.map(|v| format!("{} {} {owner}", v["version"].as_str().unwrap(), v["trust"].as_str().unwrap()))
        .collect()
}

pub async fn registered(hive: &TestHive, id: &str, wanted: &[&str]) {
    eventually(&format!("{id} is {wanted:?}"), async || versions(hive, id).await == wanted).await;
}

/// Every event of a name that is kept, as its data.
pub async fn events(hive: &TestHive, name: &str) -> Vec<Value> {
    let text = hive.text(&format!("/v1/events?follow=false&last=1000&name={name}")).await;
    text.lines()
        .filter_map(|line| line.strip_prefix("data:"))
        .map(|data| serde_json::from_str::<Value>(data.trim()).unwrap()["data"].clone())
        .collect()
}

/// The notice beside a skill as the agent reads it; empty: none.
async fn notice(hive: &TestHive, id: &str) -> String {
    let read =
        hive.sh("writer", &format!("cat /skills/custom/{id}/.skep-errors.md 2>/dev/null || true")).await;
    read["stdout"].as_str().unwrap().to_owned()
}

fn all_of(id: &str, version: &str) -> [String; 3] {
    [manifest(id, version, &json!({})), script(id, id), context(id, "How.")]
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_order_its_files_arrive_in_a_skill_is_registered_once() {
    let hive = writer("").await;
    // Manifest first and what it lists later, by steps, and every other order.
    let orders = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];
    for (n, order) in orders.iter().enumerate() {
        for (pause, kind) in [("", "at-once"), ("sleep 0.3\n", "slowly")] {
            let id = format!("{kind}-{n}");
            let parts = all_of(&id, "1.0.0");
            let script: Vec<String> = order.iter().map(|i| format!("{}{pause}", parts[*i])).collect();
            write(&hive, &script.concat()).await;
        }
    }
    let build = |id: &str| format!("mkdir -p /tmp/w && cd /tmp/w\n{}", all_of(id, "1.0.0").concat());
    write(
        &hive,
        &format!(
            "({}mv moved /skills/custom/moving; mv /skills/custom/moving /skills/custom/moved)",
            build("moved")
        ),
    )
    .await;
    write(
        &hive,
        &format!(
            "({}cp -r renamed /skills/custom/.renamed; mv /skills/custom/.renamed /skills/custom/renamed)",
            build("renamed")
        ),
    )
    .await;
    write(&hive, &format!("({}tar c tarred | tar x -C /skills/custom)", build("tarred"))).await;
    write(
        &hive,
        &format!(
            "({}cd cloned && git init -q . && git add . && git -c user.name=a -c user.email=a@b commit -qm x \
             && git clone -q /tmp/w/cloned /skills/custom/cloned)",
            build("cloned")
        ),
    )
    .await;
    write(&hive, &md("plain", "Hello.")).await;
    // The closing write of the manifest over and over, as an editor saves.
    write(
        &hive,
        &format!(
            "{}for i in 1 2 3; do cp saved/manifest.json m; mv m saved/manifest.json; done",
            all_of("saved", "1.0.0").concat()
        ),
    )
    .await;

    let mut ids: Vec<String> = (0..6).flat_map(|n| [format!("at-once-{n}"), format!("slowly-{n}")]).collect();
    ids.extend(["moved", "renamed", "tarred", "cloned", "saved"].map(str::to_owned));
    for id in &ids {
        registered(&hive, id, &["1.0.0 pending writer"]).await;
        assert_eq!(notice(&hive, id).await, "", "{id}");
    }
    registered(&hive, "plain", &["0.0.0 pending writer"]).await;
    ids.push("plain".to_owned());
    let mut created: Vec<String> = events(&hive, "skill:created")
        .await
        .iter()
        .filter(|event| event["createdBy"] == "writer")
        .map(|event| event["skill"]["id"].as_str().unwrap().to_owned())
        .collect();
    created.sort();
    ids.sort();
    assert_eq!(created, ids);
    assert_eq!(events(&hive, "skill:updated").await, Vec::<Value>::new());
    assert_eq!(events(&hive, "skill:rejected").await, Vec::<Value>::new());
    assert_eq!(hive.agent("writer").await["warnings"], json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_wrong_is_told_to_the_agent_and_the_operator_until_it_is_mended() {
    let hive = writer("").await;
    write(&hive, &file("broken/manifest.json", "{\"id\": \"broken\", \"version\": \"one\"}")).await;
    eventually("the agent is told", async || notice(&hive, "broken").await.contains("version")).await;
    let told = notice(&hive, "broken").await;
    assert!(told.contains("Missing name") && told.contains("Missing description"), "every reason: {told}");
    let owner = hive.sh("writer", "stat -c %u /skills/custom/broken/.skep-errors.md; id -u").await;
    let owner: Vec<&str> = owner["stdout"].as_str().unwrap().lines().collect();
    assert_eq!(owner[0], owner[1], "the agent can remove it");
    let view = hive.agent("writer").await;
    let warnings = view["warnings"].to_string();
    assert!(warnings.contains("/skills/custom/broken is not registered"), "{warnings}");
    let rejected = events(&hive, "skill:rejected").await;
    assert_eq!(rejected.len(), 1, "{rejected:#?}");
    assert_eq!(
        (&rejected[0]["skill"]["id"], &rejected[0]["createdBy"]),
        (&json!("broken"), &json!("writer"))
    );
    assert!(rejected[0]["reasons"].as_array().unwrap().len() >= 3, "{rejected:#?}");
    let ps = std::process::Command::new(env!("CARGO_BIN_EXE_skep"))
        .arg("--dir")
        .arg(hive.dir.path())
        .arg("ps")
        .output()
        .unwrap();
    assert!(
        String::from_utf8_lossy(&ps.stdout).contains("broken"),
        "{}",
        String::from_utf8_lossy(&ps.stdout)
    );

    write(&hive, &all_of("broken", "1.0.0").concat()).await;
    registered(&hive, "broken", &["1.0.0 pending writer"]).await;
    eventually("the notice goes", async || notice(&hive, "broken").await.is_empty()).await;
    assert_eq!(hive.agent("writer").await["warnings"], json!([]));

    // Other content under the same version, then a version of its own.
    write(&hive, &script("broken", "changed")).await;
    eventually("the remedy is told", async || notice(&hive, "broken").await.contains("new version")).await;
    write(&hive, &manifest("broken", "1.0.1", &json!({}))).await;
    registered(&hive, "broken", &["1.0.1 pending writer", "1.0.0 pending writer"]).await;
    // A lower version.
    write(&hive, &manifest("broken", "0.9.0", &json!({}))).await;
    eventually("not newer", async || notice(&hive, "broken").await.contains("not newer")).await;
    // Back to what was registered: nothing is wrong any more.
    write(&hive, &manifest("broken", "1.0.1", &json!({}))).await;
    eventually("the notice goes", async || notice(&hive, "broken").await.is_empty()).await;
    assert_eq!(events(&hive, "skill:updated").await.len(), 1);
    assert_eq!(events(&hive, "skill:rejected").await.len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_with_too_many_files_is_told_and_a_skill_after_a_flood_is_registered() {
    let hive = writer("").await;
    let flood = "mkdir huge; cd huge; printf '%s\\n' '---' 'name: huge' 'description: d' '---' > SKILL.md\n\
                 for i in $(seq 10000); do : > f$i; done\n";
    write(&hive, flood).await;
    write(&hive, &md("after", "Hello.")).await;
    registered(&hive, "after", &["0.0.0 pending writer"]).await;
    eventually("huge is refused", async || notice(&hive, "huge").await.contains("registry.limits.files"))
        .await;
    let told = events(&hive, "skill:rejected").await;
    let reasons: Vec<String> =
        told.iter().filter(|t| t["skill"]["id"] == "huge").map(|t| t["reasons"].to_string()).collect();
    assert!(reasons.len() == 1 && reasons[0].contains("registry.limits.files"), "{told:#?}");
    // Names that would drive a terminal, or are no text at all.
    write(
        &hive,
        "d=$(printf 'red\\033[31m`x`'); mkdir \"$d\"; : > \"$d/skill.md\"; mkdir $(printf 'no-\\377-text')",
    )
    .await;
    let warned = async || hive.agent("writer").await["warnings"].to_string();
    eventually("both are told", async || {
        let told = warned().await;
        told.contains("red\\\\u{1b}[31m") && told.contains("no-\\\\xff-text")
    })
    .await;
    assert!(notice(&hive, ".").await.contains("no-\\xff-text"));
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_become_versions_and_neither_deleting_nor_restarting_unmakes_or_repeats_them() {
    let mut hive = writer("").await;
    write(&hive, &md("notes", "One.")).await;
    registered(&hive, "notes", &["0.0.0 pending writer"]).await;
    write(&hive, &md("notes", "Two.")).await;
    registered(&hive, "notes", &["0.0.1 pending writer", "0.0.0 pending writer"]).await;
    write(&hive, &md("notes", "One.")).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(versions(&hive, "notes").await.len(), 2, "the same content is no new version");
    write(&hive, &md("other", "x")).await;
    registered(&hive, "other", &["0.0.0 pending writer"]).await;
    write(&hive, "rm -r notes").await;
    let before = (events(&hive, "skill:created").await, events(&hive, "skill:updated").await);
    for _ in 0..2 {
        hive.kill();
        hive.start().await;
        hive.running("writer").await;
        // Written while nobody listened, or at once afterwards.
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    assert_eq!((events(&hive, "skill:created").await, events(&hive, "skill:updated").await), before);
    assert_eq!(versions(&hive, "notes").await.len(), 2, "deleting the folder deletes no version");
    hive.kill();
    let custom = hive.agent_dir("writer").join("custom/offline");
    fs::create_dir(&custom).unwrap();
    fs::write(custom.join("SKILL.md"), "---\nname: offline\ndescription: d\n---\nx").unwrap();
    hive.start().await;
    registered(&hive, "offline", &["0.0.0 pending writer"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_author_uses_its_skill_at_once_and_others_once_it_is_approved() {
    let hive = TestHive::up("[agents.writer]\n[agents.reader]\nskills = [\"fresh\"]\n[agents.other]\n").await;
    hive.running("writer").await;
    hive.running("other").await;
    hive.status("reader", "failed").await;
    write(&hive, &(all_of("fresh", "1.0.0").concat() + &md("told", "Body of told."))).await;
    registered(&hive, "fresh", &["1.0.0 pending writer"]).await;
    eventually("its author's prompt has it", async || {
        let prompt = hive.text("/v1/agents/writer/prompt").await;
        prompt.contains("## fresh (v1.0.0)") && prompt.contains("How.") && prompt.contains("Does told")
    })
    .await;
    let seen = hive
        .sh("writer", "cat /skep/prompt.md; /skills/fresh/scripts/show.sh; cat /skills/told/SKILL.md")
        .await;
    let seen = seen["stdout"].as_str().unwrap();
    assert!(
        seen.contains("## fresh (v1.0.0)") && seen.contains("\nfresh\n") && seen.contains("Body of told."),
        "{seen}"
    );
    assert!(!hive.text("/v1/agents/other/prompt").await.contains("fresh"));
    assert_eq!(hive.agent("reader").await["status"], "failed");

    let (status, answer) = hive.send("POST", "/v1/skills/fresh/versions/1.0.0/approve", None).await;
    assert!(status < 300, "{answer:#}");
    hive.running("reader").await;
    assert!(hive.text("/v1/agents/reader/prompt").await.contains("## fresh (v1.0.0)"));

    // The next version is its author's alone again.
    write(&hive, &(manifest("fresh", "1.1.0", &json!({})) + &script("fresh", "newer"))).await;
    registered(&hive, "fresh", &["1.1.0 pending writer", "1.0.0 approved writer"]).await;
    eventually("its author has the newest", async || {
        hive.sh("writer", "/skills/fresh/scripts/show.sh").await["stdout"] == "newer\n"
    })
    .await;
    assert_eq!(hive.sh("reader", "/skills/fresh/scripts/show.sh").await["stdout"], "fresh\n");
    let (status, answer) = hive.send("POST", "/v1/skills/fresh/versions/1.1.0/reject", None).await;
    assert!(status < 300, "{answer:#}");
    eventually("its author has the approved one again", async || {
        hive.sh("writer", "/skills/fresh/scripts/show.sh").await["stdout"] == "fresh\n"
    })
    .await;
    assert_eq!(fs::read_to_string(hive.path("skep.lock")).unwrap().matches("told").count(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_agents_write_is_assignable_at_once_when_the_operator_says_so() {
    let hive = TestHive::up(
        "[registry]\nagent_skills = \"auto\"\npoll = \"500ms\"\n[agents.writer]\n[agents.reader]\nskills = [\"fresh\"]\n",
    )
    .await;
    hive.running("writer").await;
    write(&hive, &all_of("fresh", "1.0.0").concat()).await;
    registered(&hive, "fresh", &["1.0.0 approved writer"]).await;
    hive.running("reader").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pending_skill_gets_no_secret_and_breaks_nothing_whatever_it_asks_for() {
    let hive = TestHive::new("[agents.writer]\n[agents.rich]\nskills = [\"bank@1.0.0\"]\n");
    hive.write("secrets/env.json", "{\"TOKEN\": \"sesame-sesame\"}");
    fs::set_permissions(hive.path("secrets/env.json"), std::os::unix::fs::PermissionsExt::from_mode(0o600))
        .unwrap();
    hive.skill("bank", "1.0.0", &json!({ "envVars": ["TOKEN"] }));
    let mut hive = hive;
    hive.start().await;
    hive.running("writer").await;
    let container = hive.agent("writer").await["container_id"].clone();
    write(
        &hive,
        &[
            manifest("asks", "1.0.0", &json!({ "envVars": ["TOKEN"], "systemPackages": ["sl"] })),
            script("asks", "x"),
            context("asks", "x"),
            manifest("leans", "1.0.0", &json!({ "dependencies": ["bank"] })),
            script("leans", "x"),
            context("leans", "x"),
            manifest("modern", "1.0.0", &json!({ "nodeVersion": ">=99.0.0" })),
            script("modern", "x"),
            context("modern", "x"),
            manifest("lost", "1.0.0", &json!({ "dependencies": ["no-such-skill"] })),
            script("lost", "x"),
            context("lost", "x"),
        ]
        .concat(),
    )
    .await;
    for id in ["asks", "leans", "modern", "lost"] {
        registered(&hive, id, &["1.0.0 pending writer"]).await;
    }
    eventually("it has what may be had", async || {
        let prompt = hive.text("/v1/agents/writer/prompt").await;
        prompt.contains("## asks") && prompt.contains("## modern")
    })
    .await;
    let prompt = hive.text("/v1/agents/writer/prompt").await;
    assert!(
        !prompt.contains("## bank") && !prompt.contains("## leans") && !prompt.contains("## lost"),
        "{prompt}"
    );
    for told in ["leans is left out", "lost is left out", "secret TOKEN of asks is withheld"] {
        eventually(told, async || hive.agent("writer").await["warnings"].to_string().contains(told)).await;
    }
    let env = hive.sh("writer", "env; ls /skills; cat /proc/1/environ").await["stdout"].to_string();
    assert!(!env.contains("sesame") && !env.contains("bank"), "{env}");
    assert_eq!(hive.agent("writer").await["container_id"], container, "no new container for it");
    assert_eq!(hive.agent("writer").await["status"], "running");
}
