//! Notices through the front door: what a webhook is told of runs that fail, and when it is told nothing.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};

use crate::{
    hive::{PATIENCE, TestHive},
    jobs::write_skill,
};

/// A server that keeps what it is sent, and fails so many times first.
struct Hook {
    port: u16,
    got: Arc<Mutex<Vec<(String, Value)>>>,
    failures: Arc<AtomicU32>,
}

impl Hook {
    async fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (got, failures) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicU32::new(0)));
        let (kept, fails) = (got.clone(), failures.clone());
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let (kept, fails) = (kept.clone(), fails.clone());
                tokio::spawn(async move {
                    let (mut bytes, mut buffer) = (Vec::new(), [0; 4096]);
                    let (head, body) = loop {
                        let n = stream.read(&mut buffer).await.unwrap_or(0);
                        bytes.extend_from_slice(&buffer[..n]);
                        let text = String::from_utf8_lossy(&bytes).into_owned();
                        if let Some((head, body)) = text.split_once("\r\n\r\n")
                            && let Ok(body) = serde_json::from_str(body)
                        {
                            break (head.to_lowercase(), body);
                        }
                        if n == 0 {
                            return;
                        }
                    };
                    let failing =
                        fails.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1));
                    let status = if failing.is_ok() { "500 No" } else { "204 Yes" };
                    if failing.is_err() {
                        kept.lock().unwrap().push((head, body));
                    }
                    let answer =
                        format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
                    stream.write_all(answer.as_bytes()).await.unwrap_or_default();
                });
            }
        });
        Self { port, got, failures }
    }

    async fn until(&self, count: usize) -> Vec<(String, Value)> {
        let began = Instant::now();
        loop {
            let got = self.got.lock().unwrap().clone();
            if got.len() >= count {
                return got;
            }
            assert!(began.elapsed() < PATIENCE, "only {} notices came", got.len());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

fn config(port: u16, more: &str) -> String {
    format!(
        "[agents.a]\nskills = [\"work@1.0.0\"]\n[notify]\nallow = [\"127.0.0.1:{port}\"]\n{more}\n\
         [[notify.webhook]]\nname = \"ops\"\nurl = \"http://127.0.0.1:{port}/hook\"\nsecret = \"HOOK_KEY\"\n"
    )
}

async fn hive(hook: &Hook, more: &str) -> TestHive {
    let mut hive = TestHive::new(&config(hook.port, more));
    let scripts = [
        ("fails.sh", "#!/bin/sh\necho cannot reach it >&2; exit 4\n"),
        ("works.sh", "#!/bin/sh\necho fine\n"),
    ];
    write_skill(&hive, &scripts, &json!({}));
    hive.write("secrets/env.json", "{\"HOOK_KEY\": \"a-signing-key-of-ours\"}");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(hive.path("secrets/env.json"), mode).unwrap();
    hive.start().await;
    hive.running("a").await;
    hive
}

#[tokio::test(flavor = "multi_thread")]
async fn failures_and_wanted_successes_are_told_signed_and_the_fifth_failure_by_a_notice_of_its_own() {
    let hook = Hook::new().await;
    let hive = hive(&hook, "").await;
    let quiet = json!({ "name": "quiet", "tool": "works", "notify": { "on_completion": false } });
    let quiet = hive.make_job(quiet).await;
    let loud = hive.make_job(json!({ "name": "loud", "tool": "works" })).await;
    let fails = hive.make_job(json!({ "name": "fails", "tool": "fails" })).await;
    hive.outcome(quiet).await;
    hive.outcome(loud).await;
    let got = hook.until(1).await;
    assert_eq!(got.len(), 1, "{got:#?}");
    assert!(got[0].1.to_string().contains("loud") && got[0].1.to_string().contains("run:succeeded"));
    for header in ["webhook-id: ", "webhook-timestamp: ", "webhook-signature: v1,"] {
        assert!(got[0].0.contains(header), "{}", got[0].0);
    }
    for _ in 0..5 {
        hive.outcome(fails).await;
    }
    let got = hook.until(7).await;
    let kinds: Vec<String> =
        got.iter().map(|(_, body)| body["type"].as_str().unwrap_or_default().to_owned()).collect();
    assert_eq!(kinds.iter().filter(|k| *k == "run:failed").count(), 5, "{got:#?}");
    assert_eq!(kinds.iter().filter(|k| *k == "job:disabled").count(), 1, "{kinds:?}");
    assert!(got[1].1.to_string().contains("it ended with exit code 4: cannot reach it"));
    let view = hive.get(&format!("/v1/jobs/{fails}")).await;
    assert_eq!(view["enabled"], false);
    assert!(view["disabled_reason"].as_str().unwrap().contains("5 runs in a row failed"), "{view:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn notices_of_one_job_keep_their_distance_but_not_the_one_that_it_was_disabled() {
    let hook = Hook::new().await;
    let hive = hive(&hook, "interval_minutes = 60").await;
    let fails = hive.make_job(json!({ "name": "fails", "tool": "fails" })).await;
    for _ in 0..5 {
        hive.outcome(fails).await;
    }
    let got = hook.until(2).await;
    assert_eq!((&got[0].1["type"], &got[1].1["type"]), (&json!("run:failed"), &json!("job:disabled")));
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(hook.until(2).await.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_notice_outlives_a_server_that_fails_and_a_supervisor_that_is_killed() {
    let hook = Hook::new().await;
    hook.failures.store(1, Ordering::SeqCst);
    let mut hive = hive(&hook, "").await;
    let fails = hive.make_job(json!({ "name": "fails", "tool": "fails" })).await;
    hive.outcome(fails).await;
    while hook.failures.load(Ordering::SeqCst) > 0 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    hive.kill();
    hive.start().await;
    let got = hook.until(1).await;
    assert_eq!(got.len(), 1);
    assert_eq!(got[0].1["type"], "run:failed");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_leave_a_webhook_of_this_machine_is_refused_with_the_file() {
    let hive = TestHive::new("[agents.a]\n[[notify.webhook]]\nurl = \"http://127.0.0.1:9/hook\"\n");
    let said = std::process::Command::new(env!("CARGO_BIN_EXE_skep"))
        .arg("--dir")
        .arg(hive.dir.path())
        .arg("validate")
        .output()
        .unwrap();
    assert_eq!(said.status.code(), Some(2));
    let text = String::from_utf8_lossy(&said.stderr).into_owned() + &String::from_utf8_lossy(&said.stdout);
    assert!(text.contains("127.0.0.1") && text.contains("allow"), "{text}");
}
