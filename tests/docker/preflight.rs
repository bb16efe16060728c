//! What is looked at before a run (systems.md A11), in a real container.

use serde_json::{Value, json};

use crate::{hive::TestHive, work::SHELL};

/// The tools that the printed jobs require: they answer what lies in the workspace, and fail when nothing does.
const TOOLS: &[(&str, &str)] = &[
    ("gmail_list_events.sh", "#!/bin/bash\necho \"$1\" >> events-asked\ncat events.json\n"),
    ("gmail_get_new_emails.sh", "#!/bin/bash\ncat emails.json\n"),
    ("unread.sh", "#!/bin/bash\ncat unread.json\n"),
    ("post.sh", "#!/bin/bash\necho '{}'\n"),
];

async fn hive(more: &str) -> TestHive {
    let mut hive = TestHive::new(&format!("{more}\n[agents.a]\nskills = [\"kit@1.0.0\"]\n{SHELL}"));
    hive.tools("kit", TOOLS, &json!({}));
    hive.start().await;
    hive.running("a").await;
    hive
}

impl TestHive {
    /// Raises an event and waits for the run that it makes; the run, over.
    async fn raised(&self, job: i64) -> Value {
        let before = self.runs(&format!("job={job}")).await.len();
        let (status, _) = self.send("POST", "/v1/events", Some(json!({"name": "look"}))).await;
        assert!(status < 300);
        let began = std::time::Instant::now();
        loop {
            let runs = self.runs(&format!("job={job}")).await;
            if runs.len() > before && runs[0]["finished_at"].is_string() {
                return runs[0].clone();
            }
            assert!(began.elapsed() < crate::hive::PATIENCE, "no run: {}", self.log());
            tokio::time::sleep(std::time::Duration::from_millis(30)).await;
        }
    }
}

fn skipped(run: &Value) -> bool {
    (&run["status"], &run["reason"]) == (&json!("skipped"), &json!("preflight"))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_printed_jobs_are_skipped_when_there_is_nothing_to_do() {
    let hive = hive("").await;
    let agents = |name: &str, tool: &str| json!({"name": name, "event": ["look"], "instructions": "echo done", "required_tools": [tool]});
    let meeting = hive.make_job(agents("Pre-meeting Prep", "gmail_list_events")).await;
    hive.sh("a", "echo '{\"events\": []}' > events.json").await;
    let run = hive.raised(meeting).await;
    assert!(skipped(&run) && run["summary"].is_null(), "{run:#}");
    let asked = hive.sh("a", "cat events-asked").await;
    let asked: Value = serde_json::from_str(asked["stdout"].as_str().unwrap()).unwrap();
    assert_eq!(asked["calendar_id"], "all");
    let job = hive.get(&format!("/v1/jobs/{meeting}")).await;
    assert_eq!(
        (&job["last_run"], &job["consecutive_failures"]),
        (&Value::Null, &json!(0)),
        "as if it had not been"
    );
    hive.sh("a", "echo '{\"events\": [{\"id\": 1}]}' > events.json").await;
    assert_eq!(hive.raised(meeting).await["status"], "succeeded");
    hive.sh("a", "rm events.json").await;
    assert_eq!(hive.raised(meeting).await["status"], "succeeded", "a check that fails means run");
    hive.sh("a", "echo '[]' > events.json").await;
    assert!(skipped(&hive.raised(meeting).await));
    assert_eq!(hive.outcome(meeting).await["status"], "succeeded", "what somebody asks for is not looked at");
    let (status, _) = hive.send("DELETE", &format!("/v1/jobs/{meeting}"), None).await;
    assert_eq!(status, 204);
    let email = hive.make_job(agents("Email Processor", "gmail_get_new_emails")).await;
    hive.sh("a", "echo '{\"success\": true, \"data\": {\"emails\": [], \"count\": 0}}' > emails.json").await;
    assert!(skipped(&hive.raised(email).await));
    hive.sh("a", "echo '{\"success\": true, \"data\": {\"emails\": [{}], \"count\": 1}}' > emails.json")
        .await;
    assert_eq!(hive.raised(email).await["status"], "succeeded");
}

#[tokio::test(flavor = "multi_thread")]
async fn any_job_may_have_a_check_of_its_own_and_rules_hold_for_many() {
    let rule =
        "[[preflight]]\njob = \"^digest\"\ntool = \"unread\"\npath = \"count\"\nrun_if = { at_least = 3 }\n";
    let hive = hive(rule).await;
    let own = json!({"tool": "unread", "path": "state", "run_if": {"equals": "on"}});
    let own = json!({"name": "own", "event": ["look"], "tool": "post", "preflight": own});
    let own = hive.make_job(own).await;
    let view = hive.get(&format!("/v1/jobs/{own}")).await;
    assert_eq!(view["preflight"]["run_if"], json!({"equals": "on"}), "{view:#}");
    hive.sh("a", "echo '{\"state\": \"off\", \"count\": 2}' > unread.json").await;
    assert!(skipped(&hive.raised(own).await));
    hive.sh("a", "echo '{\"state\": \"on\", \"count\": 2}' > unread.json").await;
    assert_eq!(hive.raised(own).await["status"], "succeeded");
    let body = json!({"preflight": null});
    assert_eq!(hive.send("PATCH", &format!("/v1/jobs/{own}"), Some(body)).await.0, 200);
    hive.sh("a", "echo '{\"state\": \"off\", \"count\": 2}' > unread.json").await;
    assert_eq!(hive.raised(own).await["status"], "succeeded", "without the check");
    assert_eq!(hive.send("DELETE", &format!("/v1/jobs/{own}"), None).await.0, 204);
    // An interval counts on from what was skipped.
    let digest = hive.make_job(json!({"name": "Digest of mail", "every": "2s", "tool": "post"})).await;
    let skips = hive.runs_until(digest, "skipped", 2).await;
    assert!(skips.iter().all(skipped), "{skips:#?}");
    hive.sh("a", "echo '{\"count\": 3}' > unread.json").await;
    hive.runs_until(digest, "succeeded", 1).await;
}
