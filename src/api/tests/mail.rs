//! `/v1/mail…` as operator and as the agent `writer`. Nothing runs here: the engine is a fake, and runs that answer
//! are ended by hand.

use std::fs;

use serde_json::{Value, json};

use super::{
    client::{Answer, send},
    setup::{JOBS, Open, open_with},
};
use crate::{
    db::{
        self,
        queue::{Readiness, World},
    },
    runs::{result::Outcome, state::RunStatus},
};

impl Open {
    async fn mail(&self, as_agent: bool, body: &Value) -> Answer {
        let body = body.to_string();
        if as_agent {
            return self.call_as_agent("POST", "/v1/mail", &body).await;
        }
        self.call("POST", "/v1/mail", &body).await
    }

    async fn sent(&self, as_agent: bool, body: &Value) -> Value {
        let answer = self.mail(as_agent, body).await;
        assert_eq!(answer.status, 201, "{answer:?}");
        answer.json()
    }

    async fn mailbox(&self, of: &str, query: &str) -> Vec<Value> {
        let page = self.call("GET", &format!("/v1/agents/{of}/mail?{query}"), "").await;
        assert_eq!(page.status, 200, "{page:?}");
        page.json()["items"].as_array().unwrap().clone()
    }

    async fn one(&self, id: &Value) -> Value {
        self.call("GET", &format!("/v1/mail/{id}"), "").await.json()
    }

    /// Has the run end that answers a message, if one waits, and whatever follows from it happen.
    async fn ends(&self, status: RunStatus, summary: Option<&str>) -> Option<i64> {
        let waiting = self.call("GET", "/v1/runs?status=queued", "").await.json();
        let run = waiting["items"].as_array()?.last()?["id"].as_i64()?;
        let error = (status != RunStatus::Succeeded).then(|| "it broke".to_owned());
        let outcome = Outcome {
            status,
            exit_code: Some(0),
            result: None,
            error,
            warning: None,
            summary: summary.map(str::to_owned),
            lasting: false,
        };
        // Later than any retry.
        let now = self.hive.now().checked_add(jiff::SignedDuration::from_hours(run)).unwrap();
        let world = self.hive.world();
        let limits = world.config.runs;
        let there = Readiness { alive_since: Some(now), container: Some("c".into()) };
        let ready = world.config.agents.keys().map(|agent| (agent.clone(), there.clone())).collect();
        let write = self.hive.db.write(move |tx| {
            db::queue::tick(
                tx,
                &World { now, agents: &ready, limits, lease: "test", next_proc: &|_| 1 },
                &[],
            )?;
            db::queue::finish(tx, run, &outcome, None, None, now, &|_, _, _, _| Ok(false))
        });
        write.await.unwrap().unwrap();
        self.hive.deliver_mail().await.unwrap();
        Some(run)
    }
}

fn letter(to: &str) -> Value {
    json!({"to": [to], "subject": "Figures", "body": "How did yesterday's posts do?"})
}

fn subjects(mails: &[Value]) -> Vec<&str> {
    mails.iter().map(|mail| mail["subject"].as_str().unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_comes_into_the_inbox_and_is_read() {
    let open = open_with(JOBS).await;
    let sent = open.sent(true, &letter("reader")).await;
    assert_eq!((&sent["from"], &sent["to"]), (&json!("writer"), &json!(["reader"])));
    assert_eq!((&sent["status"], &sent["thread"]), (&json!("delivered"), &sent["id"]), "{sent:#}");
    assert_eq!(open.mailbox("reader", "").await[0]["read_at"], Value::Null);
    assert_eq!(open.mailbox("writer", "box=sent").await.len(), 1);
    assert!(open.mailbox("writer", "").await.is_empty());
    assert_eq!(open.mail(false, &letter("operator")).await.status, 422, "nobody writes to himself");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_reads_what_it_wrote_or_got_and_nothing_else() {
    let open = open_with(JOBS).await;
    let theirs = open.sent(false, &letter("reader")).await;
    let path = format!("/v1/mail/{}", theirs["id"]);
    for rest in ["", "/attachments/a"] {
        assert_eq!(open.call_as_agent("GET", &format!("{path}{rest}"), "").await.status, 403);
    }
    assert_eq!(open.call_as_agent("GET", "/v1/mail/99", "").await.status, 404);
    assert_eq!(open.call_as_agent("GET", "/v1/agents/reader/mail", "").await.status, 403);
    assert_eq!(open.call_as_agent("GET", "/v1/agents/operator/mail", "").await.status, 403);
    assert_eq!(open.call_as_agent("POST", &format!("{path}/release"), "").await.status, 403);
    let reply = json!({"reply_to": theirs["id"], "body": "I read it too."});
    let refused = open.mail(true, &reply).await;
    assert_eq!((refused.status, &refused.json()["errors"][0]["pointer"]), (422, &json!("/reply_to")));
    let mine = open.sent(true, &json!({"to": "operator", "subject": "Hello", "body": "Done."})).await;
    assert_eq!(mine["status"], "delivered");
    assert_eq!(open.call_as_agent("GET", &format!("/v1/mail/{}", mine["id"]), "").await.status, 200);
    assert_eq!(open.one(&mine["id"]).await["status"], "delivered");
    let read = open.mailbox("operator", "").await;
    assert!(read[0]["read_at"].is_string(), "the operator read it: {read:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn mail_is_found_by_its_words_and_comes_in_pages() {
    let open = open_with(JOBS).await;
    for (n, body) in ["the red bicycle", "a blue bicycle", "nothing (\"at\" all* NEAR"].iter().enumerate() {
        let body = json!({"to": "reader", "subject": format!("s{n}"), "body": body});
        open.sent(false, &body).await;
    }
    assert_eq!(subjects(&open.mailbox("reader", "q=bicycles").await), ["s1", "s0"]);
    assert_eq!(subjects(&open.mailbox("reader", "q=red%20bicycle").await), ["s0"]);
    assert_eq!(subjects(&open.mailbox("reader", "q=%22at%22%20NEAR(").await), ["s2"]);
    assert!(open.mailbox("writer", "q=bicycle").await.is_empty(), "others' mail is not found");
    let japanese = json!({"to": "reader", "subject": "週報", "body": "来週までに送ってください"});
    let id = open.sent(false, &japanese).await["id"].as_i64().unwrap();
    assert_eq!(open.mailbox("reader", "q=%E6%9D%A5%E9%80%B1").await.len(), 1);
    let forget = open.hive.db.write(|tx| db::mail::prune(tx, jiff::Timestamp::MAX, 100));
    assert_eq!(
        forget.await.unwrap(),
        usize::try_from(id).unwrap(),
        "of what waits for nobody nothing is left"
    );
    assert!(open.mailbox("reader", "q=%E6%9D%A5%E9%80%B1").await.is_empty());
    for (n, body) in ["the red bicycle", "a blue bicycle", "nothing"].iter().enumerate() {
        open.sent(false, &json!({"to": "reader", "subject": format!("s{n}"), "body": body})).await;
    }
    let page = open.call("GET", "/v1/agents/reader/mail?limit=2", "").await.json();
    let next = page["next"].as_str().unwrap();
    let rest = open.mailbox("reader", &format!("limit=2&cursor={next}")).await;
    assert_eq!(subjects(&rest), ["s0"]);
    assert_eq!(open.call("GET", "/v1/agents/reader/mail?box=other", "").await.status, 422);
    assert_eq!(open.call("GET", "/v1/agents/nobody/mail", "").await.status, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_is_woken_for_a_message_and_its_summary_is_the_answer() {
    let open = open_with(JOBS).await;
    let mail = open.sent(false, &letter("writer")).await;
    assert_eq!(mail["status"], "queued");
    assert_eq!(open.sent(false, &letter("writer")).await["status"], "queued");
    let runs = open.call("GET", "/v1/runs", "").await.json();
    let runs = runs["items"].as_array().unwrap();
    assert_eq!(runs.len(), 1, "one at a time");
    assert_eq!(
        (&runs[0]["job_name"], &runs[0]["event"]["name"]),
        (&json!("answer-mail"), &json!("mail:received"))
    );
    assert_eq!(open.mailbox("writer", "box=queue").await.len(), 2);
    open.ends(RunStatus::Succeeded, Some("They did well.")).await.unwrap();
    assert_eq!(open.one(&mail["id"]).await["status"], "answered");
    let answer = open.mailbox("operator", "").await.remove(0);
    assert_eq!((&answer["from"], &answer["body"]), (&json!("writer"), &json!("They did well.")));
    assert_eq!((&answer["subject"], &answer["thread"]), (&json!("Re: Figures"), &mail["thread"]));
    assert_eq!((&answer["automatic"], &answer["reply_to"]), (&json!(true), &mail["id"]));
    open.ends(RunStatus::Succeeded, None).await.expect("the second is next");
    assert_eq!(open.mailbox("writer", "box=queue").await.len(), 0);
    assert!(open.ends(RunStatus::Succeeded, None).await.is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_of_the_agents_own_is_the_only_one() {
    let open = open_with(JOBS).await;
    let mail = open.sent(false, &letter("writer")).await;
    let body = json!({"body": "Well."}).to_string();
    let reply = open.call_as_agent("POST", "/v1/agents/writer/tools/reply_mail", &body).await;
    assert!(
        reply.json()["result"]["success"] == false && reply.body.contains("no run answers one just now"),
        "{reply:?}"
    );
    let body = json!({"id": mail["id"], "body": "Well."}).to_string();
    let reply = open.call_as_agent("POST", "/v1/agents/writer/tools/reply_mail", &body).await.json();
    assert_eq!(
        (&reply["result"]["success"], &reply["result"]["data"]["to"]),
        (&json!(true), &json!(["operator"]))
    );
    open.ends(RunStatus::Succeeded, Some("I answered.")).await.unwrap();
    assert_eq!(open.one(&mail["id"]).await["status"], "answered");
    assert_eq!(open.mailbox("operator", "").await.len(), 1);
    let listed =
        open.call_as_agent("POST", "/v1/agents/writer/tools/list_mail", r#"{"box": "sent"}"#).await.json();
    assert_eq!(listed["result"]["data"][0]["body"], "Well.");
    let args = json!({"id": mail["id"]}).to_string();
    let read = open.call_as_agent("POST", "/v1/agents/writer/tools/read_mail", &args).await.json();
    assert!(read["result"]["data"]["read_at"].is_string(), "{read:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_delivered_or_answered_is_a_dead_letter_of_which_both_are_told() {
    let open = open_with(JOBS).await;
    let lost = open.sent(true, &letter("raeder")).await;
    assert_eq!((&lost["status"], &lost["reason"]), (&json!("dead"), &json!("there is no agent raeder")));
    for of in ["writer", "operator"] {
        let told = open.mailbox(of, "").await;
        assert_eq!((told.len(), &told[0]["from"], &told[0]["reply_to"]), (1, &json!("skep"), &lost["id"]));
    }
    assert!(open.ends(RunStatus::Succeeded, None).await.is_none(), "a notice wakes nobody");
    let mail = open.sent(false, &letter("writer")).await;
    for _ in 0..3 {
        assert_eq!(open.one(&mail["id"]).await["status"], "queued");
        open.ends(RunStatus::Failed, None).await.expect("it is tried three times");
    }
    let dead = open.one(&mail["id"]).await;
    assert_eq!(dead["status"], "dead");
    assert!(dead["reason"].as_str().unwrap().contains("it broke"), "{dead:#}");
    assert_eq!(subjects(&open.mailbox("operator", "").await)[0], "Not answered: Figures");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thread_stops_after_ten_answers_and_goes_on_when_the_operator_lets_it() {
    let open = open_with(&JOBS.replace("[agents.zoe]", "[agents.zoe]\ncommand = ['true']")).await;
    open.sent(true, &letter("zoe")).await;
    let mut answers = 0;
    while open.ends(RunStatus::Succeeded, Some("And you?")).await.is_some() {
        answers += 1;
        assert!(answers < 50, "it never stops");
    }
    assert_eq!(answers, 11, "ten answers were delivered, and the eleventh is held");
    let held = open.mailbox("operator", "box=queue").await;
    assert_eq!((held.len(), &held[0]["status"]), (1, &json!("held")));
    assert!(held[0]["reason"].as_str().unwrap().contains("10 times"), "{held:?}");
    assert_eq!(subjects(&open.mailbox("operator", "").await), ["Held: Re: Figures"]);
    let to = held[0]["to"][0].as_str().unwrap().to_owned();
    assert!(!open.mailbox(&to, "").await.iter().any(|mail| mail["id"] == held[0]["id"]), "it did not arrive");
    let path = format!("/v1/mail/{}/release", held[0]["id"]);
    assert_eq!(open.call("POST", &path, "").await.json()["status"], "queued");
    assert_eq!(open.call("POST", &path, "").await.status, 409);
    let mut more = 0;
    while open.ends(RunStatus::Succeeded, Some("And you?")).await.is_some() {
        more += 1;
        assert!(more < 50, "it never stops");
    }
    assert_eq!(more, 11);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_job_keeps_mail_waiting() {
    let open = open_with(JOBS).await;
    open.sent(false, &letter("writer")).await;
    open.ends(RunStatus::Succeeded, None).await.unwrap();
    let jobs = open.call("GET", "/v1/jobs?name=answer-mail", "").await.json();
    let job = format!("/v1/jobs/{}", jobs["items"][0]["id"]);
    open.call("POST", &format!("{job}/pause"), "").await;
    let mail = open.sent(false, &letter("writer")).await;
    assert!(open.ends(RunStatus::Succeeded, None).await.is_none());
    assert_eq!(open.one(&mail["id"]).await["status"], "queued");
    assert_eq!(open.call("POST", &format!("{job}/resume"), "").await.status, 200);
    open.hive.deliver_mail().await.unwrap();
    assert!(open.ends(RunStatus::Succeeded, None).await.is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_too_much_is_refused() {
    let open = open_with(JOBS).await;
    let bad = json!({"to": ["writer", "No One"], "subject": "", "body": ""});
    let refused = open.mail(true, &bad).await;
    let pointers: Vec<Value> =
        refused.json()["errors"].as_array().unwrap().iter().map(|e| e["pointer"].clone()).collect();
    assert_eq!(
        (refused.status, pointers),
        (422, ["/to/0", "/to/1", "/subject", "/body"].map(Value::from).to_vec())
    );
    let long = json!({"to": "reader", "subject": "x", "body": "x".repeat(64 * 1024 + 1)});
    assert_eq!(open.mail(true, &long).await.status, 422);
    let stream = tokio::net::UnixStream::connect(open.agent()).await.unwrap();
    let head = "POST /v1/mail HTTP/1.1\r\nHost: skep\r\nConnection: close\r\nContent-Type: application/json\r\n\
                Content-Length: 104857600\r\n\r\n";
    let flood = [head.as_bytes(), &vec![b'x'; 4 << 20]].concat();
    assert_eq!(send(stream, &flood).await.status, 413);
    for n in 0..31 {
        let answer = open.mail(true, &letter("reader")).await;
        assert_eq!(answer.status, if n < 30 { 201 } else { 429 }, "{n}: {answer:?}");
    }
    assert_eq!(open.mail(false, &letter("reader")).await.status, 201, "the operator is not limited");
}

#[tokio::test(flavor = "multi_thread")]
async fn attachments_are_copied_out_of_the_senders_workspace() {
    let open = open_with(JOBS).await;
    let (from, to) = ("writer".parse().unwrap(), "reader".parse().unwrap());
    let (from, to) = (open.hive.paths.agent(&from).workspace(), open.hive.paths.agent(&to).workspace());
    fs::create_dir_all(&from).unwrap();
    fs::create_dir_all(&to).unwrap();
    fs::write(from.join("a.txt"), "content").unwrap();
    std::os::unix::fs::symlink("/etc/passwd", from.join("link")).unwrap();
    let with = |path: &str| json!({"to": "reader", "subject": "x", "body": "x", "attachments": [path]});
    for path in ["link", "../../agents/reader", "/etc/passwd", "none"] {
        assert_eq!(open.mail(true, &with(path)).await.status, 422, "{path}");
    }
    assert_eq!(open.mail(false, &with("a.txt")).await.status, 422, "the operator has no workspace");
    let sent = open.sent(true, &with("/workspace/a.txt")).await;
    let seen = open.mailbox("reader", "").await.remove(0);
    let path = format!("/workspace/.skep/mail/{}/a.txt", sent["id"]);
    assert_eq!(seen["attachments"], json!([{"name": "a.txt", "size": 7, "path": path}]));
    fs::write(from.join("a.txt"), "changed").unwrap();
    let laid = to.join(format!(".skep/mail/{}/a.txt", sent["id"]));
    assert_eq!(fs::read_to_string(laid).unwrap(), "content");
    let file = open.call("GET", &format!("/v1/mail/{}/attachments/a.txt", sent["id"]), "").await;
    assert_eq!((file.status, file.body.as_str()), (200, "content"));
    assert_eq!(open.call("GET", &format!("/v1/mail/{}/attachments/b", sent["id"]), "").await.status, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_request_sends_one_message() {
    let open = open_with(JOBS).await;
    let (key, kind) = (("Idempotency-Key", "k1"), ("Content-Type", "application/json"));
    let body = letter("reader").to_string();
    let first = open.call_with("POST", "/v1/mail", &[key, kind], &body).await.json();
    let again = open.call_with("POST", "/v1/mail", &[key, kind], &body).await.json();
    assert_eq!(first["id"], again["id"]);
    assert_eq!(open.mailbox("reader", "").await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_agent_asks_for_in_a_run_is_as_deep_as_the_run() {
    let open = open_with(JOBS).await;
    let job = open.job("writer", "deep", &json!({"manual": null, "event": ["report"]})).await;
    let ask = async |name: &str, as_agent: bool| {
        let task = json!({"name": "t", "agent": "writer",
            "action": {"toolName": "read-file", "parameters": {"path": "a"}}});
        let run = format!("/v1/jobs/{}/run", open.job("writer", name, &json!({})).await);
        let call = async |path: &str, body: &str| {
            let answer = match as_agent {
                true => open.call_as_agent("POST", path, body).await,
                false => open.call("POST", path, body).await,
            };
            assert_eq!(answer.status, 202, "{answer:?}");
            answer.json()
        };
        let task = call("/v1/tasks", &task.to_string()).await["run"].as_i64().unwrap();
        let run = call(&run, "").await["id"].as_i64().unwrap();
        let mail = open.sent(as_agent, &letter("reader")).await["id"].as_i64().unwrap();
        let read = open.hive.db.read(move |conn| {
            let depth = |id| Ok::<_, db::DbError>(db::runs::get(conn, id)?.unwrap().depth);
            let events = db::events::raised(conn, 0, 1_000)?;
            let heard = events.iter().rfind(|event| event.name == "mail:received").unwrap().depth;
            Ok::<_, db::DbError>([
                depth(task)?,
                depth(run)?,
                db::mail::get(conn, mail)?.unwrap().depth,
                heard,
            ])
        });
        read.await.unwrap()
    };
    assert_eq!(ask("before", true).await, [0; 4], "nothing goes on");
    let now = open.hive.now();
    let write = open.hive.db.write(move |tx| {
        let id = db::events::append_about(tx, now, "report", &json!({}), None, 5)?;
        let events: Vec<_> =
            db::events::raised(tx, 0, 1_000)?.into_iter().filter(|event| event.id == id).collect();
        let there = Readiness { alive_since: Some(now), container: Some("c".into()) };
        let world = World {
            now,
            agents: &[("writer".parse().unwrap(), there)].into(),
            limits: crate::config::model::Runs::default(),
            lease: "test",
            next_proc: &|_| 1,
        };
        db::queue::tick(tx, &world, &events)
    });
    let leased = write.await.unwrap().leased;
    assert!(leased.iter().any(|run| run.job == Some(job) && run.depth == 5), "{leased:?}");
    assert_eq!(ask("within", true).await, [5, 5, 6, 6]);
    let answered = open.sent(false, &letter("writer")).await;
    assert_eq!(ask("operators", false).await, [0; 4], "the operator is led by nothing");
    assert_eq!(answered["status"], "queued");
}
