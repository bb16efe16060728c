//! A hive with a running container is backed up and restored into another folder, where the same agent goes on.

use std::{
    fs,
    process::Command,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::hive::{PATIENCE, TestHive};

fn skep(args: &[&str]) -> String {
    let ran = Command::new(env!("CARGO_BIN_EXE_skep")).args(args).output().unwrap();
    assert!(ran.status.success(), "{args:?}: {}", String::from_utf8_lossy(&ran.stderr));
    String::from_utf8(ran.stdout).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_goes_on_in_a_restored_hive_with_its_files_owned_as_they_were() {
    let config = "[agents.a]\nskills = [\"greet@1.0.0\"]\n\
                  main = [\"sh\", \"-c\", \"while :; do date >> busy; sleep 0.01; done\"]\n";
    let mut hive = TestHive::new(config);
    hive.skill("greet", "1.0.0", &json!({ "envVars": ["KEY"] }));
    hive.write("secrets/env.json", r#"{"KEY": "canary-2b7f-in-the-container"}"#);
    hive.start().await;
    hive.running("a").await;
    let script = "echo \"$KEY\" > leaked; echo kept > kept; ln -s kept link; mkfifo pipe; \
                  mkdir -p home/deep && head -c 3000000 /dev/urandom > home/deep/noise; \
                  sha256sum home/deep/noise";
    let before = hive.sh("a", script).await;
    let file = hive.path("a.tar.zst");
    let root = hive.dir.path().to_str().unwrap().to_owned();
    let report = skep(&["--dir", &root, "backup", "--json", file.to_str().unwrap()]);
    let report: serde_json::Value = serde_json::from_str(&report).unwrap();
    let told = report["left_out"].to_string();
    for path in ["workspace/leaked", "workspace/pipe"] {
        assert!(told.contains(path), "{path}: {told}");
    }
    hive.running("a").await;
    assert_eq!(skep(&["--dir", &root, "down"]), "");
    hive.kill();

    let mut other = TestHive::new("");
    other.name.clone_from(&hive.name);
    skep(&["restore", "--force", file.to_str().unwrap(), other.dir.path().to_str().unwrap()]);
    let aside = format!("{}.before-restore", other.dir.path().display());
    fs::remove_dir_all(aside).unwrap();
    other.start().await;
    let view = other.running("a").await;
    assert_eq!(view["skills"][0]["version"], "1.0.0");
    assert_eq!(view["missing_secrets"], json!(["KEY"]));
    let after = other.sh("a", "cat link; sha256sum home/deep/noise; echo more >> kept && ls").await;
    let stdout = after["stdout"].as_str().unwrap();
    assert!(stdout.contains(before["stdout"].as_str().unwrap()) && stdout.contains("kept"), "{after:#}");
    assert_eq!(after["exit_code"], 0, "its files are its own: {after:#}");
    assert!(!stdout.contains("leaked") && !stdout.contains("pipe"), "{stdout}");
}

/// Waits until a shell command succeeds in an agent's container.
async fn until(hive: &TestHive, agent: &str, script: &str) {
    let began = Instant::now();
    while hive.sh(agent, script).await["exit_code"] != 0 {
        assert!(began.elapsed() < PATIENCE, "never so: {script}\n{}", hive.log());
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Waits until a task stands so.
async fn task(hive: &TestHive, id: &Value, status: &str) -> Value {
    let began = Instant::now();
    loop {
        let task = hive.get(&format!("/v1/tasks/{id}")).await;
        if task["status"] == status {
            return task;
        }
        assert!(began.elapsed() < PATIENCE, "task {id} is never {status}: {task:#}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn mail_with_its_attachments_and_tasks_go_on_in_a_restored_hive() {
    let mut hive = TestHive::new("[agents.a]\nskills = [\"kit@1.0.0\"]\n[agents.b]\n");
    let say = "#!/bin/bash\n# Says what it got.\necho \"{\\\"success\\\": true, \\\"said\\\": $1}\"\n";
    hive.tools("kit", &[("say.sh", say)], &json!({}));
    hive.start().await;
    hive.running("a").await;
    hive.running("b").await;
    let letter =
        json!({"to": ["b"], "subject": "Report", "body": "See the file.", "attachments": ["out/report.txt"]});
    let send = format!(
        "mkdir out && head -c 2000000 /dev/urandom > out/report.txt && skep call send_mail '{letter}' && sha256sum < out/report.txt"
    );
    let sent = hive.sh("a", &send).await;
    let sum = sent["stdout"].as_str().unwrap().lines().last().unwrap().to_owned();
    assert_eq!(sent["exit_code"], 0, "{sent:#}");
    until(&hive, "b", "test -s .skep/mail/1/report.txt").await;
    let held = json!({"to": "a", "subject": "Thanks", "body": "Well done."});
    assert_eq!(hive.send("POST", "/v1/mail", Some(held)).await.0, 201);
    let queue = |name: &str| json!({"name": name, "agent": "a", "action": {"toolName": "say", "parameters": {"n": 7}}});
    let (_, done) = hive.send("POST", "/v1/tasks", Some(queue("done"))).await;
    task(&hive, &done["id"], "completed").await;
    assert_eq!(hive.send("POST", "/v1/halt", Some(json!({}))).await.0, 200);
    let (_, waits) = hive.send("POST", "/v1/tasks", Some(queue("waits"))).await;
    let (_, cancelled) = hive.send("POST", "/v1/tasks", Some(queue("cancelled"))).await;
    let cancel = format!("/v1/tasks/{}/cancel", cancelled["id"]);
    assert_eq!(hive.send("POST", &cancel, None).await.0, 202);
    let kept = async |hive: &TestHive| {
        let mut all = Vec::new();
        for path in
            ["agents/b/mail?box=inbox", "agents/a/mail?box=inbox", "agents/a/mail?box=sent", "tasks", "facts"]
        {
            let items = hive.get(&format!("/v1/{path}")).await["items"].clone();
            assert_ne!(items, json!([]), "{path}");
            all.push(items);
        }
        all
    };
    let before = kept(&hive).await;
    let file = hive.path("a.tar.zst");
    let root = hive.dir.path().to_str().unwrap().to_owned();
    skep(&["--dir", &root, "backup", file.to_str().unwrap()]);
    skep(&["--dir", &root, "down"]);
    hive.kill();

    let mut other = TestHive::new("");
    other.name.clone_from(&hive.name);
    skep(&["restore", "--force", file.to_str().unwrap(), other.dir.path().to_str().unwrap()]);
    fs::remove_dir_all(format!("{}.before-restore", other.dir.path().display())).unwrap();
    // What is shown comes from the backup alone.
    fs::remove_dir_all(hive.path(".skep")).unwrap();
    other.start().await;
    other.running("a").await;
    other.running("b").await;
    assert_eq!(kept(&other).await, before);
    let sum_of = async |path: &str| other.sh("b", &format!("sha256sum < {path}")).await["stdout"].clone();
    assert_eq!(sum_of(".skep/mail/1/report.txt").await, format!("{sum}\n"), "as it was laid");
    let door = "curl -sf --unix-socket /skep/api.sock -o again http://skep/v1/mail/1/attachments/report.txt";
    assert_eq!(other.sh("b", door).await["exit_code"], 0);
    assert_eq!(sum_of("again").await, format!("{sum}\n"), "as it was sent");
    assert_eq!(
        other.get(&format!("/v1/tasks/{}", waits["id"])).await["status"],
        "queued",
        "it is halted still"
    );
    assert_eq!(other.send("POST", "/v1/resume", Some(json!({}))).await.0, 200);
    assert_eq!(task(&other, &waits["id"], "completed").await["result"]["said"], json!({"n": 7}));
    let (_, more) = other.send("POST", "/v1/tasks", Some(queue("more"))).await;
    assert!(more["id"].as_i64() > cancelled["id"].as_i64(), "numbers go on: {more:#}");
    task(&other, &more["id"], "completed").await;
    let reply = other.sh("b", "skep call reply_mail '{\"id\": 1, \"body\": \"Got it.\"}'").await;
    assert_eq!(reply["exit_code"], 0, "{reply:#}");
    let began = Instant::now();
    while other.get("/v1/agents/a/mail?box=inbox&q=Got").await["items"] == json!([]) {
        assert!(began.elapsed() < PATIENCE, "no answer came");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
