//! Mail between agents in containers: delivered, answered, held, and what is refused; and the built-in tools that look
//! through it or manage jobs, every case of their cases.json by hand.

use std::{
    process::Command,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::{
    hive::{PATIENCE, TestHive},
    tools::has,
    work::SHELL,
};

/// Makes the calls of a file of cases, one after the other, with `skep call`.
pub fn holds(hive: &TestHive, cases: &str) {
    let cases: Vec<Value> = serde_json::from_str(cases).unwrap();
    let mut faults = Vec::new();
    for case in &cases {
        let ran = Command::new(env!("CARGO_BIN_EXE_skep"))
            .arg("--dir")
            .arg(hive.dir.path())
            .args(["call", "one", case["tool"].as_str().unwrap(), &case["args"].to_string(), "--json"])
            .output()
            .unwrap();
        let reply: Value = serde_json::from_slice(&ran.stdout).unwrap_or(Value::Null);
        let said = format!("{reply}{}", String::from_utf8_lossy(&ran.stderr));
        let fine = match case.get("error").and_then(Value::as_str) {
            Some(error) => ran.status.code() != Some(0) && said.replace("\\\"", "\"").contains(error),
            None => ran.status.success() && reply["result"]["success"] == true,
        };
        let of = |key: &str| case.get(key).is_none_or(|expected| has(&reply["result"][key], expected));
        if !(fine && of("result") && of("data")) {
            faults.push(format!("{}: {said}", case["name"]));
        }
    }
    assert!(cases.len() > 10);
    assert_eq!(faults, Vec::<String>::new());
}

impl TestHive {
    async fn mail(&self, body: Value) -> Value {
        let (status, sent) = self.send("POST", "/v1/mail", Some(body)).await;
        assert_eq!(status, 201, "{sent:#}");
        sent
    }

    async fn mailbox(&self, of: &str, query: &str) -> Vec<Value> {
        let page = self.get(&format!("/v1/agents/{of}/mail?{query}")).await;
        page["items"].as_array().unwrap().clone()
    }

    /// Waits until a mailbox is as it should be.
    async fn mailbox_until(&self, of: &str, query: &str, reached: impl Fn(&[Value]) -> bool) -> Vec<Value> {
        let began = Instant::now();
        loop {
            let found = match self.try_get(&format!("/v1/agents/{of}/mail?{query}")).await {
                Some(text) => {
                    serde_json::from_str::<Value>(&text).unwrap()["items"].as_array().unwrap().clone()
                }
                None => Vec::new(),
            };
            if reached(&found) {
                return found;
            }
            assert!(began.elapsed() < PATIENCE, "the mail of {of} is never so: {found:#?}\n{}", self.log());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// A request on an agent's own door: the status and the answer.
    async fn at_door(&self, agent: &str, method: &str, path: &str, body: Option<&Value>) -> (String, Value) {
        let body =
            body.map(|body| format!("-H 'content-type: application/json' -d '{body}'")).unwrap_or_default();
        let script = format!(
            "curl -s -w '\\n%{{http_code}}' --unix-socket /skep/api.sock -X {method} {body} http://skep{path}"
        );
        let answer = self.sh(agent, &script).await;
        let out = answer["stdout"].as_str().unwrap().to_owned();
        let (text, status) = out.rsplit_once('\n').unwrap_or_else(|| panic!("{answer:#}"));
        (status.to_owned(), serde_json::from_str(text).unwrap_or(Value::Null))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_documented_case_of_mail_tools_holds_in_an_agents_container() {
    let hive = TestHive::up("[agents.one]\nskills = [\"mail-tools@1.0.0\"]\n[agents.two]\n").await;
    hive.running("one").await;
    hive.running("two").await;
    hive.mail(json!({"to": "one", "subject": "Weekly report", "body": "Please write the weekly report."}))
        .await;
    let ask = json!({"to": ["two"], "subject": "Question", "body": "Which colour has the bicycle?"});
    assert_eq!(hive.at_door("one", "POST", "/v1/mail", Some(&ask)).await.0, "201");
    let answer = json!({"to": "one", "subject": "Colours", "body": "The bicycle is red."});
    assert_eq!(hive.at_door("two", "POST", "/v1/mail", Some(&answer)).await.0, "201");
    assert!(hive.at_door("one", "GET", "/v1/mail/1", None).await.1["read_at"].is_string());
    holds(&hive, include_str!("../mail-tools/cases.json"));
}

#[tokio::test(flavor = "multi_thread")]
async fn every_documented_case_of_cron_tools_holds_in_an_agents_container() {
    let mut hive = TestHive::new(&format!(
        "[agents.one]\nskills = [\"cron-tools@1.0.0\"]\n{SHELL}[agents.two]\nskills = [\"cron-tools@1.0.0\"]\n"
    ));
    let config = std::fs::read_to_string(hive.path("skep.toml")).unwrap();
    hive.write("skep.toml", &config.replace("[hive]\n", "[hive]\ntimezone = \"UTC\"\n"));
    hive.start().await;
    hive.running("one").await;
    holds(&hive, include_str!("../cron-tools/cases.json"));
    hive.running("two").await;
    let (_, theirs) = hive.send("POST", "/v1/agents/two/tools/list-cron-jobs", Some(json!({}))).await;
    assert_eq!(theirs["result"]["result"]["jobs"], json!([]), "jobs of others are not seen: {theirs:#}");
}

/// What an agent's command finds, hands on and answers.
const CLERK: &str = r#"
set -e
cat > instructions
echo "$SKEP_EVENT $SKEP_EVENT_DATA" > event
skep=/skep/bin/skep
$skep run read_mail > read.json
mkdir -p out; echo "figures of yesterday" > out/report.txt
$skep run send_mail '{"to": ["reader"], "subject": "Report", "body": "See the file.", "attachments": ["out/report.txt"]}' > sent.json
$skep run reply_mail '{"body": "It is with the reader."}' > replied.json
"#;

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_is_woken_by_mail_does_its_work_and_its_answer_comes_back() {
    let hive = TestHive::up(&format!(
        "[agents.clerk]\ncommand = [\"bash\", \"-c\", '''{CLERK}''']\n[agents.reader]\n"
    ))
    .await;
    hive.running("clerk").await;
    hive.running("reader").await;
    let mail = hive.mail(json!({"to": "clerk", "subject": "Posts", "body": "How did they perform?"})).await;
    let inbox = hive.mailbox_until("operator", "", |found| !found.is_empty()).await;
    assert_eq!(inbox[0]["body"], "It is with the reader.", "{inbox:#?}");
    let shown = async || hive.get(&format!("/v1/mail/{}", mail["id"])).await;
    let began = Instant::now();
    while shown().await["status"] != "answered" {
        assert!(began.elapsed() < PATIENCE, "{:#}", shown().await);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(shown().await["deliveries"][0]["read_at"].is_string());
    let told = hive.sh("clerk", "cat instructions event").await["stdout"].as_str().unwrap().to_owned();
    for words in ["From: operator\n", "Subject: Posts\n", "How did they perform?", "mail:received {"] {
        assert!(told.contains(words), "{words} in {told}");
    }
    let came = hive.mailbox_until("reader", "", |found| !found.is_empty()).await;
    let path = came[0]["attachments"][0]["path"].as_str().unwrap();
    let read = hive.sh("reader", &format!("cat {path} && rm {path}")).await;
    assert_eq!(
        (&read["stdout"], &read["exit_code"]),
        (&json!("figures of yesterday\n"), &json!(0)),
        "{read:#}"
    );
    assert_eq!(hive.mailbox("operator", "").await.len(), 1, "one answer, and no notice");
}

#[tokio::test(flavor = "multi_thread")]
async fn two_agents_that_answer_everything_stop_after_ten_answers() {
    let both = |name: &str| {
        format!(
            "[agents.{name}]\ncommand = [\"bash\", \"-c\", 'cat > /dev/null; echo I, {name}, disagree.']\n"
        )
    };
    let hive = TestHive::up(&(both("ping") + &both("pong"))).await;
    hive.running("ping").await;
    hive.running("pong").await;
    let start = json!({"to": "pong", "subject": "Who is right?", "body": "I am."});
    assert_eq!(hive.at_door("ping", "POST", "/v1/mail", Some(&start)).await.0, "201");
    let held = hive.mailbox_until("operator", "box=queue", |found| !found.is_empty()).await;
    assert_eq!((&held[0]["status"], held.len()), (&json!("held"), 1));
    tokio::time::sleep(Duration::from_secs(2)).await;
    let sent =
        async || hive.mailbox("ping", "box=sent").await.len() + hive.mailbox("pong", "box=sent").await.len();
    assert_eq!(sent().await, 12, "the beginning, ten answers, and the one that is held");
    let runs = hive.get("/v1/runs?limit=100").await;
    assert_eq!(runs["items"].as_array().unwrap().len(), 11);
    let release = format!("/v1/mail/{}/release", held[0]["id"]);
    assert_eq!(hive.send("POST", &release, None).await.0, 200);
    hive.mailbox_until("operator", "box=queue", |found| found.len() == 1 && found[0]["id"] != held[0]["id"])
        .await;
    assert_eq!(sent().await, 23, "eleven more, the last of them held");
}

#[tokio::test(flavor = "multi_thread")]
async fn mail_waits_for_a_stopped_agent_and_is_answered_once_whatever_happens_to_the_supervisor() {
    let mut hive = TestHive::up("[agents.one]\ncommand = [\"bash\", \"-c\", 'sleep 2; echo done']\n").await;
    hive.running("one").await;
    assert_eq!(hive.send("POST", "/v1/agents/one/stop", None).await.0, 202);
    hive.status("one", "stopped").await;
    let mail = hive.mail(json!({"to": "one", "subject": "Wake up", "body": "Please."})).await;
    assert_eq!(mail["status"], "queued");
    assert_eq!(hive.send("POST", "/v1/agents/one/start", None).await.0, 202);
    let running = |found: &[Value]| !found.is_empty();
    let began = Instant::now();
    while hive.get("/v1/runs?status=running").await["items"].as_array().unwrap().is_empty() {
        assert!(began.elapsed() < PATIENCE, "{}", hive.log());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    hive.kill();
    hive.start().await;
    let inbox = hive.mailbox_until("operator", "", running).await;
    assert_eq!((inbox.len(), &inbox[0]["body"]), (1, &json!("done")), "{inbox:#?}");
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(hive.mailbox("operator", "").await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn hostile_attachments_and_floods_are_refused_and_others_mail_is_not_read() {
    let hive = TestHive::up("[agents.bad]\n[agents.good]\n").await;
    hive.running("bad").await;
    hive.running("good").await;
    let made = hive
        .sh(
            "bad",
            "ln -s /etc/passwd link; ln -s / up; mkfifo fifo; echo x > file; ln file hard; mkdir folder; \
             head -c 10485761 /dev/zero > big; mkdir -p deep && ln -s /skep deep/door; echo ok > fine",
        )
        .await;
    assert_eq!(made["exit_code"], 0, "{made:#}");
    let with = |path: &str| json!({"to": "good", "subject": "x", "body": "x", "attachments": [path]});
    for path in [
        "link",
        "up/etc/passwd",
        "fifo",
        "file",
        "folder",
        "big",
        "deep/door/api.sock",
        "/etc/passwd",
        "../../skep.toml",
        "/workspace/../skep/prompt.md",
        ".",
        "none",
    ] {
        let (status, told) = hive.at_door("bad", "POST", "/v1/mail", Some(&with(path))).await;
        assert_eq!(status, "422", "{path}: {told:#}");
    }
    let secret = hive.mail(json!({"to": "good", "subject": "For you", "body": "alone"})).await;
    for path in [
        format!("/v1/mail/{}", secret["id"]),
        "/v1/agents/good/mail".into(),
        "/v1/agents/operator/mail".into(),
    ] {
        assert_eq!(hive.at_door("bad", "GET", &path, None).await.0, "403", "{path}");
    }
    let flood = "head -c 104857600 /dev/zero | curl -s -o /dev/null -w '%{http_code}' --unix-socket /skep/api.sock \
                 -H 'content-type: application/json' -T - -X POST http://skep/v1/mail";
    assert_eq!(hive.sh("bad", flood).await["stdout"], "413");
    // The recipient may put what it likes where its files are laid.
    hive.sh("good", "ln -s /skep .skep").await;
    let (status, sent) = hive.at_door("bad", "POST", "/v1/mail", Some(&with("fine"))).await;
    assert_eq!((status.as_str(), &sent["status"]), ("201", &json!("delivered")), "{sent:#}");
    let seen = hive.mailbox("good", "").await;
    assert_eq!(
        seen[0]["attachments"][0]["path"],
        Value::Null,
        "nothing was laid through the link: {seen:#?}"
    );
    let path = format!("/v1/mail/{}/attachments/fine", sent["id"]);
    assert_eq!(hive.text(&path).await, "ok\n");
    for n in 0..40 {
        let body = json!({"to": "good", "subject": "x", "body": "x"});
        let (status, told) = hive.at_door("bad", "POST", "/v1/mail", Some(&body)).await;
        if status == "429" {
            assert!(told["detail"].as_str().unwrap().contains("30 are possible"), "{told:#}");
            return;
        }
        assert_eq!(status, "201", "{n}: {told:#}");
    }
    panic!("nobody stops a flood of mail");
}
