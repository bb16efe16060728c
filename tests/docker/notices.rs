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

impl Hook {
    /// The notices of a kind that came so far.
    fn of(&self, kind: &str) -> Vec<Value> {
        let got = self.got.lock().unwrap();
        got.iter().filter(|(_, body)| body["type"] == kind).map(|(_, body)| body.clone()).collect()
    }

    async fn until_of(&self, kind: &str, count: usize, patience: Duration) -> Vec<Value> {
        let began = Instant::now();
        loop {
            let got = self.of(kind);
            if got.len() >= count {
                return got;
            }
            assert!(began.elapsed() < patience, "{} notices of {kind} came: {got:#?}", got.len());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

/// The data of the hive's events of a name.
async fn raised(hive: &TestHive, name: &str) -> Vec<Value> {
    crate::custom::events(hive, name).await
}

/// The endpoint of a model: answers `GET /api/tags` until it is dropped, and counts how often.
struct Model {
    asked: Arc<AtomicU32>,
    served: tokio::task::JoinHandle<()>,
}

impl Model {
    async fn at(address: std::net::SocketAddr) -> Self {
        let listener = TcpListener::bind(address).await.unwrap();
        let asked = Arc::new(AtomicU32::new(0));
        let count = asked.clone();
        let served = tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut head = vec![0; 4096];
                let n = stream.read(&mut head).await.unwrap_or(0);
                let status = if head[..n].starts_with(b"GET /api/tags ") { "200 OK" } else { "404 No" };
                let answer =
                    format!("HTTP/1.1 {status}\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{{}}");
                stream.write_all(answer.as_bytes()).await.unwrap_or_default();
                count.fetch_add(1, Ordering::SeqCst);
            }
        });
        Self { asked, served }
    }

    async fn until_asked(&self) {
        let began = Instant::now();
        while self.asked.load(Ordering::SeqCst) == 0 {
            assert!(began.elapsed() < PATIENCE, "nobody asks the endpoint");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Nothing answers there any more.
    async fn gone(self) {
        self.served.abort();
        self.served.await.unwrap_err();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_alert_tells_that_the_model_went_and_one_that_it_is_back_beyond_the_supervisor() {
    let hook = Hook::new().await;
    let address = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let model = Model::at(address).await;
    let allow = format!("allow = [\"127.0.0.1:{}\", \"{address}\"]", hook.port);
    let config = config(hook.port, "").replace(&format!("allow = [\"127.0.0.1:{}\"]", hook.port), &allow);
    let mut hive = TestHive::new(&format!("[model]\nendpoint = \"http://{address}\"\n{config}"));
    write_skill(&hive, &[("works.sh", "#!/bin/sh\necho fine\n")], &json!({}));
    hive.write("secrets/env.json", "{\"HOOK_KEY\": \"a-signing-key-of-ours\"}");
    hive.start().await;
    model.until_asked().await;
    // The supervisor asks when it starts, and every minute.
    hive.kill();
    model.gone().await;
    for _ in 0..2 {
        hive.start().await;
        let told = hook.until_of("hive:model", 1, PATIENCE).await;
        assert_eq!(told.len(), 1, "{told:#?}");
        assert_eq!(told[0]["data"]["status"], "down", "{told:#?}");
        tokio::time::sleep(Duration::from_millis(1500)).await;
        let events = raised(&hive, "hive:model").await;
        assert_eq!(events.len(), 1, "told once, also after a restart: {events:#?}");
        assert_eq!(events[0]["url"], format!("http://{address}/api/tags"));
        hive.kill();
    }
    let model = Model::at(address).await;
    hive.start().await;
    model.until_asked().await;
    let told = hook.until_of("hive:model", 2, PATIENCE).await;
    assert_eq!((told.len(), &told[1]["data"]["status"]), (2, &json!("up")), "{told:#?}");
    hive.kill();
    hive.start().await;
    tokio::time::sleep(Duration::from_millis(1500)).await;
    assert_eq!(hook.of("hive:model").len(), 2, "it is there as before");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_changed_since_the_health_report_before_is_told_after_six_hours() {
    // It is looked once a minute whether a report is due.
    const MINUTE: Duration = Duration::from_secs(60);
    let hook = Hook::new().await;
    let second =
        "[[notify.webhook]]\nname = \"spare\"\nurl = \"http://127.0.0.1:9/\"\nsecret = \"SPARE_KEY\"\n";
    let allow = format!("allow = [\"127.0.0.1:{}\"]", hook.port);
    let config = config(hook.port, "").replace(&allow, "allow = [\"127.0.0.1\"]");
    let mut hive = TestHive::new(&format!("{config}{second}"));
    write_skill(&hive, &[("works.sh", "#!/bin/sh\necho fine\n")], &json!({}));
    let secrets = "{\"HOOK_KEY\": \"a-signing-key-of-ours\", \"SPARE_KEY\": \"a-signing-key-of-theirs\"}";
    hive.write("secrets/env.json", secrets);
    hive.start().await;
    tokio::time::sleep(MINUTE + Duration::from_secs(15)).await;
    assert_eq!(
        raised(&hive, "hive:health").await,
        Vec::<Value>::new(),
        "the first has nothing to be compared with"
    );
    let notify = async || {
        let found = hive.get("/v1/doctor").await;
        found.to_string().contains("nothing can be sent to the target spare")
    };
    assert!(!notify().await);
    hive.write("secrets/env.json", "{\"HOOK_KEY\": \"a-signing-key-of-ours\"}");
    let began = Instant::now();
    while !notify().await {
        assert!(began.elapsed() < PATIENCE, "{}", hive.log());
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(hook.of("hive:health").len(), 0, "it is not six hours later");
    hive.write(".skep/clock", &(6 * 3600 + 1).to_string());
    let told = hook.until_of("hive:health", 1, MINUTE * 2).await;
    assert_eq!(told[0]["data"]["status"], "worse", "{told:#?}");
    assert!(
        told[0].to_string().contains("new: notify (warning): nothing can be sent to the target spare"),
        "{told:#?}"
    );
    let events = raised(&hive, "hive:health").await;
    assert_eq!((events.len(), &events[0]["new"][0]["check"]), (1, &json!("notify")), "{events:#?}");
}
