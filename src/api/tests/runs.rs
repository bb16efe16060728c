//! `/v1/runs…`, halts and figures. Nothing runs here: the engine is a fake.

use serde_json::{Value, json};

use super::setup::{JOBS, Open, open_with};

impl Open {
    async fn run(&self, job: i64) -> i64 {
        let run = self.call("POST", &format!("/v1/jobs/{job}/run"), "").await;
        assert_eq!(run.status, 202, "{run:?}");
        run.json()["id"].as_i64().unwrap()
    }
}

fn ids(page: &Value) -> Vec<i64> {
    page["items"].as_array().unwrap().iter().map(|item| item["id"].as_i64().unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_come_in_pages_newest_first() {
    let open = open_with(JOBS).await;
    let allow = json!({"overlap": "allow"});
    let (a, b) = (open.job("writer", "a", &allow).await, open.job("reader", "b", &allow).await);
    for job in [a, b, a, b, a] {
        open.run(job).await;
    }
    open.call("POST", "/v1/runs/1/cancel", "").await;
    let (mut seen, mut path) = (Vec::new(), "/v1/runs?limit=2".to_owned());
    loop {
        let page = open.call("GET", &path, "").await.json();
        seen.extend(ids(&page));
        let Some(next) = page["next"].as_str() else { break };
        path = format!("/v1/runs?limit=2&cursor={next}");
    }
    assert_eq!(seen, [5, 4, 3, 2, 1]);
    for (query, expected) in [
        ("agent=reader", vec![4, 2]),
        ("job=1", vec![5, 3, 1]),
        ("status=cancelled", vec![1]),
        ("agent=writer&status=queued", vec![5, 3]),
        ("job=1&agent=reader", vec![]),
    ] {
        let page = open.call("GET", &format!("/v1/runs?{query}"), "").await.json();
        assert_eq!(ids(&page), expected, "{query}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_waits_is_shown_and_cancelled() {
    let open = open_with(JOBS).await;
    let job = open.job("writer", "a", &json!({})).await;
    let run = open.run(job).await;
    let shown = open.call("GET", &format!("/v1/runs/{run}"), "").await.json();
    assert_eq!(
        (&shown["status"], &shown["job"], &shown["job_name"]),
        (&"queued".into(), &job.into(), &"a".into())
    );
    let output = open.call("GET", &format!("/v1/runs/{run}/output?stream=stderr"), "").await;
    assert_eq!((output.status, output.body.as_str()), (200, ""));
    assert_eq!(output.header("content-type"), "text/plain; charset=utf-8");
    let cancelled = open.call("POST", &format!("/v1/runs/{run}/cancel"), "").await;
    assert_eq!((cancelled.status, &cancelled.json()["status"]), (202, &json!("cancelled")));
    assert_eq!(open.call("POST", &format!("/v1/runs/{run}/cancel"), "").await.status, 409);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_sees_its_own_runs_alone() {
    let open = open_with(JOBS).await;
    let (own, other) = (open.job("writer", "a", &json!({})).await, open.job("reader", "b", &json!({})).await);
    let (own, other) = (open.run(own).await, open.run(other).await);
    assert_eq!(ids(&open.call_as_agent("GET", "/v1/runs", "").await.json()), [own]);
    assert!(ids(&open.call_as_agent("GET", "/v1/runs?agent=reader", "").await.json()).is_empty());
    for rest in ["", "/output"] {
        assert_eq!(open.call_as_agent("GET", &format!("/v1/runs/{own}{rest}"), "").await.status, 200);
        let theirs = open.call_as_agent("GET", &format!("/v1/runs/{other}{rest}"), "").await;
        let nobodys = open.call_as_agent("GET", &format!("/v1/runs/999{rest}"), "").await;
        assert_eq!((theirs.status, nobodys.status), (404, 404));
        assert_eq!(theirs.body.replace(&other.to_string(), "999"), nobodys.body);
    }
    assert_eq!(open.call_as_agent("POST", &format!("/v1/runs/{own}/cancel"), "").await.status, 403);
}

#[tokio::test(flavor = "multi_thread")]
async fn halts_are_set_shown_and_lifted() {
    let open = open_with(JOBS).await;
    let halted = open.call("POST", "/v1/halt", r#"{"agent":"writer"}"#).await;
    assert_eq!((halted.status, &halted.json()["hive"]), (200, &json!(null)));
    assert!(halted.json()["agents"]["writer"].is_string());
    assert!(open.call("POST", "/v1/halt", "").await.json()["hive"].is_string());
    assert_eq!(open.call("POST", "/v1/resume", r#"{"agent":"writer"}"#).await.status, 409);
    let lifted = open.call("POST", "/v1/resume", "{}").await.json();
    assert_eq!(lifted, json!({"hive": null, "agents": {}, "running": 0}));
    assert_eq!(open.call("GET", "/v1/halt", "").await.json(), lifted);
    assert_eq!(open.call_as_agent("POST", "/v1/halt", "").await.status, 403);
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_count_jobs_and_runs() {
    let open = open_with(JOBS).await;
    let job = open.job("writer", "a", &json!({"overlap": "allow"})).await;
    open.job("writer", "b", &json!({"enabled": false})).await;
    let run = open.run(job).await;
    open.run(job).await;
    open.call("POST", &format!("/v1/runs/{run}/cancel"), "").await;
    for _ in 0..2 {
        let metrics = open.call("GET", "/metrics", "").await.body;
        for line in [
            "skep_jobs{enabled=\"true\"} 1\n",
            "skep_jobs{enabled=\"false\"} 1\n",
            "skep_runs_running 0\n",
            "skep_runs_queued 1\n",
            "skep_run_total{status=\"cancelled\"} 1\n",
            "skep_run_total{status=\"succeeded\"} 0\n",
        ] {
            assert!(metrics.contains(line), "{line} in {metrics}");
        }
        assert!(!metrics.contains("status=\"queued\""));
    }
}
