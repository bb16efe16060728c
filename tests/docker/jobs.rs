//! Jobs and runs in a real container, through the API: what is due runs as promised, and its end is told.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::{
    bare::docker,
    hive::{PATIENCE, TestHive, holding},
};

/// One agent whose skill `work` has these scripts; more keys of the agent in `config`.
pub async fn hive_with(scripts: &[(&str, &str)], config: &str) -> TestHive {
    let mut hive =
        TestHive::new(&format!("{config}\n[agents.a]\nskills = [\"work@1.0.0\"]\nstop_grace = \"1s\"\n"));
    write_skill(&hive, scripts, &json!({}));
    hive.start().await;
    hive.running("a").await;
    hive
}

/// The skill `work@1.0.0`.
pub fn write_skill(hive: &TestHive, scripts: &[(&str, &str)], more: &Value) {
    let paths: Vec<String> = scripts.iter().map(|(name, _)| format!("scripts/{name}")).collect();
    let mut manifest = json!({
        "id": "work", "name": "Work", "version": "1.0.0", "description": "Works", "owner": "operator",
        "context": ["context/work.md"], "scripts": paths,
    });
    manifest.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap_or_default());
    hive.write("skills/work@1.0.0/manifest.json", &manifest.to_string());
    hive.write("skills/work@1.0.0/context/work.md", "Work.\n");
    if more.get("envVars").is_some() {
        hive.write("skills/work@1.0.0/.env.example", "");
    }
    for (name, text) in scripts {
        let inner = format!("skills/work@1.0.0/scripts/{name}");
        hive.write(&inner, text);
        fs::set_permissions(hive.path(&inner), fs::Permissions::from_mode(0o755)).unwrap();
    }
}

impl TestHive {
    /// Makes a job of agent `a`; its id.
    pub async fn make_job(&self, body: Value) -> i64 {
        let mut whole = json!({ "agent": "a" });
        if !["trigger", "schedule", "every", "at", "event"].iter().any(|key| body.get(key).is_some()) {
            whole["manual"] = json!(true);
        }
        whole.as_object_mut().unwrap().extend(body.as_object().unwrap().clone());
        let (status, answer) = self.send("POST", "/v1/jobs", Some(whole)).await;
        assert_eq!(status, 201, "{answer:#}");
        answer["id"].as_i64().unwrap()
    }

    /// Runs a job now, to its end.
    pub async fn outcome(&self, job: i64) -> Value {
        let run = self.run(job).await;
        self.over(run).await
    }

    /// Runs, newest first.
    pub async fn runs(&self, query: &str) -> Vec<Value> {
        let page = self.get(&format!("/v1/runs?limit=1000&{query}")).await;
        page["items"].as_array().unwrap().clone()
    }

    /// Waits until so many runs of a job have this status; they, newest first.
    pub async fn runs_until(&self, job: i64, status: &str, count: usize) -> Vec<Value> {
        let began = Instant::now();
        loop {
            let found = self.runs(&format!("job={job}&status={status}")).await;
            if found.len() >= count {
                return found;
            }
            assert!(began.elapsed() < PATIENCE, "only {} runs are {status}: {}", found.len(), self.log());
            tokio::time::sleep(Duration::from_millis(30)).await;
        }
    }
}

pub fn is_over(run: &Value) -> bool {
    run["status"].as_str().is_some_and(|s| s != "queued" && s != "running")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_script_gets_its_arguments_twice_its_run_and_the_workspace() {
    let script = r#"#!/bin/bash
# Shows what it gets.
read -r input
printf '{"success": true, "first": %s, "input": %s, "cwd": "%s", "run": "%s", "job": "%s", "group": %s}' \
  "$1" "$input" "$PWD" "$SKEP_RUN_ID" "$SKEP_JOB" "$(ps -o pgid= -p $$)"
"#;
    let hive = hive_with(&[("show.sh", script)], "").await;
    let job = hive.make_job(json!({ "name": "Show it", "tool": "show", "args": { "n": [1, "zwei"] } })).await;
    let run = hive.outcome(job).await;
    assert_eq!(run["status"], "succeeded", "{run:#}");
    let result = &run["result"];
    assert_eq!(result["first"], json!({ "n": [1, "zwei"] }));
    assert_eq!(result["input"], result["first"]);
    assert_eq!((&result["cwd"], &result["job"]), (&json!("/workspace"), &json!("Show it")));
    assert_eq!(result["run"], run["id"].to_string());
    assert_ne!(result["group"], 1, "a process group of its own");
    assert_eq!(
        (&run["tier"], &run["trigger"], &run["exit_code"]),
        (&json!("direct"), &json!("manual"), &json!(0))
    );
    let view = hive.get(&format!("/v1/jobs/{job}")).await;
    assert_eq!(view["last_run"]["status"], "succeeded");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_is_made_ready_beforehand_and_never_begins_before_its_time() {
    let hive = hive_with(&[("stamp.sh", "#!/bin/bash\nprintf '\"%s\"' $EPOCHREALTIME\n")], "").await;
    let job = hive.make_job(json!({ "name": "stamp", "tool": "stamp", "every": "1s" })).await;
    for run in hive.runs_until(job, "succeeded", 8).await {
        let at = |key: &str| run[key].as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
        let (seconds, micros) = run["result"].as_str().unwrap().split_once('.').unwrap();
        let began = seconds.parse::<i64>().unwrap() * 1_000_000 + micros.parse::<i64>().unwrap();
        assert!(began >= at("scheduled_at").as_microsecond(), "{run:#}");
        assert!(at("started_at") >= at("scheduled_at") && at("finished_at") >= at("started_at"), "{run:#}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_kind_of_script_and_of_answer_is_understood() {
    let scripts = [
        (
            "python.py",
            "import json, sys\nprint(json.dumps({'success': True, 'doubled': json.loads(sys.argv[1])['n'] * 2}))\n",
        ),
        (
            "typed.ts",
            "const args: { n: number } = JSON.parse(process.argv[2]);\nconsole.log(JSON.stringify({ success: true, doubled: args.n * 2 }));\n",
        ),
        (
            "module.mjs",
            "import fs from 'node:fs';\nconst { n } = JSON.parse(fs.readFileSync(0, 'utf8'));\nconsole.log(JSON.stringify({ doubled: n * 2 }));\n",
        ),
        ("text.sh", "#!/bin/sh\necho just text\n"),
        ("silent.sh", "#!/bin/sh\ntrue\n"),
        ("refuses.sh", "#!/bin/sh\necho '{\"success\": false, \"error\": \"no route to it\"}'\n"),
        ("fails.sh", "#!/bin/sh\necho '{\"success\": true}'; echo 'cannot open it' >&2; exit 3\n"),
        ("half.sh", "#!/bin/sh\nprintf '{\"success\": tr'\n"),
        ("bytes.sh", "#!/bin/bash\nprintf 'a\\xff\\x00b'\n"),
    ];
    let hive = hive_with(&scripts, "").await;
    let mut outcomes = std::collections::BTreeMap::new();
    for (name, _) in scripts {
        let job = hive.make_job(json!({ "name": name, "tool": name, "args": { "n": 21 } })).await;
        outcomes.insert(name, hive.outcome(job).await);
    }
    for name in ["python.py", "typed.ts", "module.mjs"] {
        assert_eq!(outcomes[name]["result"]["doubled"], 42, "{:#}", outcomes[name]);
    }
    assert_eq!(
        (&outcomes["text.sh"]["status"], &outcomes["text.sh"]["result"]),
        (&json!("succeeded"), &json!("just text"))
    );
    assert_eq!(
        (&outcomes["silent.sh"]["status"], &outcomes["silent.sh"]["result"]),
        (&json!("succeeded"), &Value::Null)
    );
    assert_eq!(
        (&outcomes["refuses.sh"]["status"], &outcomes["refuses.sh"]["error"]),
        (&json!("failed"), &json!("no route to it"))
    );
    assert_eq!(outcomes["fails.sh"]["exit_code"], 3);
    assert_eq!(outcomes["fails.sh"]["error"], "it ended with exit code 3: cannot open it");
    assert_eq!(outcomes["half.sh"]["result"], "{\"success\": tr");
    assert_eq!(outcomes["bytes.sh"]["result"], "a\u{fffd}\u{0}b");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_is_given_to_the_script_and_nowhere_else() {
    let mut hive = TestHive::new("[agents.a]\nskills = [\"work@1.0.0\"]\n");
    let script = "#!/bin/bash\necho \"{\\\"success\\\": false, \\\"error\\\": \\\"key is $CANARY\\\"}\"; printf %s \"${CANARY:0:9}\" >&2; sleep 0.3; echo \"${CANARY:9}\" >&2; echo \"$CANARY\" >&2\n";
    write_skill(&hive, &[("leak.sh", script)], &json!({ "envVars": ["CANARY"] }));
    let canary = "canary-Zx81-do-not-show";
    hive.write("secrets/env.json", &json!({ "CANARY": canary }).to_string());
    fs::set_permissions(hive.path("secrets/env.json"), fs::Permissions::from_mode(0o600)).unwrap();
    hive.start().await;
    hive.running("a").await;
    let job = hive.make_job(json!({ "name": "leak", "tool": "leak" })).await;
    let run = hive.outcome(job).await;
    assert_eq!(run["error"], "key is ***", "{run:#}");
    let output = hive.text(&format!("/v1/runs/{}/output", run["id"])).await;
    assert!(output.contains("***") && !output.contains("Zx81"), "{output}");
    let list = hive.try_get("/v1/runs").await.unwrap() + &hive.try_get("/v1/jobs").await.unwrap();
    assert!(!list.contains("Zx81"));
    assert_eq!(holding(&hive.path(".skep"), b"Zx81"), Vec::<std::path::PathBuf>::new());
    assert!(!hive.log().contains("Zx81"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_script_that_ignores_its_timeout_is_proven_dead_before_it_is_tried_again() {
    // Each attempt leaves a grandchild that hides from its group and ignores SIGTERM.
    let script = r#"#!/bin/bash
trap '' TERM
for pid in $(cat pids 2>/dev/null); do [ -d /proc/$pid ] && echo $pid >> alive; done
(trap '' TERM; setsid sleep 600) &
echo $! $$ >> pids
sleep 600
"#;
    let hive = hive_with(&[("stubborn.sh", script)], "").await;
    let job = hive.make_job(json!({ "name": "s", "tool": "stubborn", "timeout": "1s", "retries": 1 })).await;
    let run = hive.outcome(job).await;
    assert_eq!(run["status"], "timed_out", "{run:#}");
    let again = hive.runs_until(job, "timed_out", 2).await;
    assert_eq!((&again[0]["attempt"], &again[1]["attempt"]), (&json!(2), &json!(1)));
    assert!(again[0]["started_at"].as_str() > again[1]["finished_at"].as_str());
    assert_eq!(hive.sh("a", "cat alive 2>/dev/null; pgrep -c sleep").await["stdout"], "0\n");
    assert_eq!(
        hive.get(&format!("/v1/jobs/{job}")).await["consecutive_failures"],
        1,
        "only the last attempt counts"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_is_cancelled_while_it_waits_and_while_it_runs() {
    let hive =
        hive_with(&[("long.sh", "#!/bin/bash\necho begun; sleep 600\n")], "[runs]\nmax_running = 1\n").await;
    let job = hive.make_job(json!({ "name": "l", "tool": "long", "overlap": "allow" })).await;
    let first = hive.run(job).await;
    let second = hive.run(job).await;
    hive.run_until(first, "running", |r| r["status"] == "running").await;
    let waiting = hive.get(&format!("/v1/runs/{second}")).await;
    assert_eq!(waiting["status"], "queued");
    assert!(waiting["reason"].as_str().unwrap().contains("slot"), "{waiting:#}");
    for run in [second, first] {
        let (status, _) = hive.send("POST", &format!("/v1/runs/{run}/cancel"), None).await;
        assert_eq!(status, 202);
        assert_eq!(hive.over(run).await["status"], "cancelled");
    }
    assert_eq!(hive.sh("a", "pgrep -c sleep").await["stdout"], "0\n");
    let (status, refused) = hive.send("POST", &format!("/v1/runs/{first}/cancel"), None).await;
    assert_eq!((status, refused["detail"].as_str().unwrap().contains("is over")), (409, true));
    assert_eq!(hive.get(&format!("/v1/jobs/{job}")).await["consecutive_failures"], 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn slots_hold_for_the_hive_and_for_each_agent() {
    let script = "#!/bin/bash\necho + >> log; sleep 0.4; echo - >> log\n";
    let hive =
        hive_with(&[("work.sh", script)], "[runs]\nmax_running = 3\nmax_running_per_agent = 2\n").await;
    let job = hive.make_job(json!({ "name": "w", "tool": "work", "overlap": "allow" })).await;
    let mut made = Vec::new();
    for _ in 0..6 {
        made.push(hive.run(job).await);
    }
    for run in made {
        assert_eq!(hive.over(run).await["status"], "succeeded");
    }
    let log = hive.sh("a", "cat log").await["stdout"].as_str().unwrap().to_owned();
    let (mut now, mut most) = (0, 0);
    for line in log.lines() {
        now += if line == "+" { 1 } else { -1 };
        most = most.max(now);
    }
    assert_eq!((now, most), (0, 2), "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn overlap_policies_hold_for_what_really_runs() {
    let hive = hive_with(&[("long.sh", "#!/bin/bash\ntrap 'exit 9' TERM\nsleep 600 & wait\n")], "").await;
    let every = |name: &str, overlap: &str| json!({ "name": name, "tool": "long", "overlap": overlap, "trigger": { "type": "interval", "every": "1s" } });
    let skip = hive.make_job(every("skip", "skip")).await;
    let replace = hive.make_job(every("replace", "replace")).await;
    let queue = hive.make_job(every("queue", "queue")).await;
    hive.runs_until(replace, "cancelled", 3).await;
    let skipped = hive.runs_until(skip, "skipped", 2).await;
    assert!(skipped.iter().all(|r| r["reason"] == "overlap"), "{skipped:#?}");
    assert_eq!(hive.runs(&format!("job={skip}&status=running")).await.len(), 1);
    hive.runs_until(queue, "skipped", 2).await;
    assert_eq!(hive.runs(&format!("job={queue}&status=queued")).await.len(), 1);
    let replaced = hive.runs(&format!("job={replace}&status=cancelled")).await;
    assert_eq!(replaced[0]["error"], "a newer run of its job took its place");
    for job in [skip, replace, queue] {
        assert_eq!(hive.send("POST", &format!("/v1/jobs/{job}/pause"), None).await.0, 200);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn output_is_followed_live_capped_and_told_apart_by_stream() {
    let flood =
        "#!/bin/bash\necho first; head -c 3000000 /dev/zero | tr '\\0' x; echo; echo oops >&2; echo last\n";
    let slow = "#!/bin/bash\necho one; while [ ! -e go ]; do sleep 0.05; done; echo two\n";
    let hive = hive_with(&[("flood.sh", flood), ("slow.sh", slow)], "[runs]\noutput = \"64KiB\"\n").await;
    let job = hive.make_job(json!({ "name": "flood", "tool": "flood" })).await;
    let run = hive.outcome(job).await;
    assert_eq!(run["status"], "succeeded");
    let output = hive.text(&format!("/v1/runs/{}/output", run["id"])).await;
    assert!(
        output.starts_with("first\n") && output.contains("bytes not kept") && output.contains("\nlast\n"),
        "{}",
        &output[output.len() - 200..]
    );
    assert!(output.len() < 200_000 && run["output_bytes"].as_u64().unwrap() < 100_000, "{}", output.len());
    let errors = hive.text(&format!("/v1/runs/{}/output?stream=stderr", run["id"])).await;
    assert!(errors.ends_with("oops\n") && !errors.contains("last"), "{errors}");

    let job = hive.make_job(json!({ "name": "slow", "tool": "slow" })).await;
    let run = hive.run(job).await;
    let url = format!("/v1/runs/{run}/output?follow=true");
    let follow = hive.text(&url);
    let go = async {
        hive.run_until(run, "running", |r| r["status"] == "running").await;
        hive.sh("a", "touch go").await;
    };
    let (followed, ()) = tokio::join!(follow, go);
    assert_eq!(followed, "one\ntwo\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_halt_stops_new_starts_survives_a_restart_and_lifts() {
    let mut hive = hive_with(&[("work.sh", "#!/bin/bash\nsleep 1; echo done\n")], "").await;
    let job = hive.make_job(json!({ "name": "w", "tool": "work", "overlap": "allow" })).await;
    let running = hive.run(job).await;
    hive.run_until(running, "running", |r| r["status"] == "running").await;
    assert_eq!(hive.send("POST", "/v1/halt", Some(json!({ "agent": "a" }))).await.0, 200);
    let held = hive.run(job).await;
    assert_eq!(hive.over(running).await["status"], "succeeded", "what ran goes on");
    hive.kill();
    hive.start().await;
    hive.running("a").await;
    let view = hive.get(&format!("/v1/runs/{held}")).await;
    assert_eq!(view["status"], "queued");
    assert!(view["reason"].as_str().unwrap().contains("halted"), "{view:#}");
    let shown = hive.get(&format!("/v1/jobs/{job}")).await;
    assert!(shown["waiting_reason"].as_str().unwrap().contains("halted"), "{shown:#}");
    assert_eq!(hive.send("POST", "/v1/resume", Some(json!({}))).await.0, 200);
    assert_eq!(hive.over(held).await["status"], "succeeded");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_starts_the_jobs_that_wait_for_it() {
    let script = "#!/bin/bash\necho \"$SKEP_EVENT: $SKEP_EVENT_DATA\"\n";
    let hive = hive_with(&[("work.sh", script)], "").await;
    let job = hive
        .make_job(
            json!({ "name": "w", "tool": "work", "trigger": { "type": "event", "event": ["report.*"] } }),
        )
        .await;
    let chained = hive.make_job(json!({ "name": "c", "tool": "work", "event": ["run:succeeded"] })).await;
    let (status, _) =
        hive.send("POST", "/v1/events", Some(json!({ "name": "report.daily", "data": { "n": 1 } }))).await;
    assert_eq!(status, 201);
    let run = hive.runs_until(job, "succeeded", 1).await;
    assert_eq!((&run[0]["trigger"], &run[0]["event"]["name"]), (&json!("event"), &json!("report.daily")));
    assert_eq!(run[0]["result"], "report.daily: {\"n\":1}");
    hive.runs_until(chained, "succeeded", 1).await;
    let (status, _) = hive.send("POST", "/v1/events", Some(json!({ "name": "other", "data": {} }))).await;
    assert_eq!(status, 201);
    let once = hive.outcome(chained).await;
    assert_eq!((&once["status"], &once["result"]), (&json!("succeeded"), &json!(":")));
    assert_eq!(hive.runs(&format!("job={job}")).await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_that_is_killed_loses_its_run_honestly_and_the_policy_tries_again() {
    let hive =
        hive_with(&[("long.sh", "#!/bin/bash\n[ -e second ] && exit 0\ntouch second; sleep 600\n")], "")
            .await;
    let job = hive.make_job(json!({ "name": "l", "tool": "long", "retries": 1 })).await;
    let run = hive.run(job).await;
    hive.run_until(run, "running", |r| r["status"] == "running").await;
    while hive.sh("a", "ls second 2>/dev/null").await["stdout"] == "" {}
    docker(&["kill", "-s", "KILL", &hive.container("a")]);
    let lost = hive.over(run).await;
    assert_eq!((&lost["status"], &lost["exit_code"]), (&json!("lost"), &Value::Null), "{lost:#}");
    let again = hive.runs_until(job, "succeeded", 1).await;
    assert_eq!(again[0]["attempt"], 2);
    assert_eq!(hive.get(&format!("/v1/jobs/{job}")).await["consecutive_failures"], 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn memory_that_runs_out_is_told_apart_from_other_ends() {
    let greedy = "python3 -c 'x = bytearray(900 * 1024 * 1024)\nfor i in range(0, len(x), 4096): x[i] = 1'";
    let (itself, child) =
        (format!("#!/bin/bash\nexec {greedy}\n"), format!("#!/bin/bash\n{greedy} || exit 3\n"));
    let scripts = [("greedy.sh", itself.as_str()), ("child.sh", child.as_str())];
    let hive = hive_with(&scripts, "[defaults]\nmemory = \"128MiB\"\n").await;
    let job = hive.make_job(json!({ "name": "g", "tool": "greedy" })).await;
    let run = hive.outcome(job).await;
    assert_eq!(
        (&run["status"], &run["error"]),
        (&json!("failed"), &json!("it ran out of memory")),
        "{run:#}"
    );
    hive.running("a").await;
    let job = hive.make_job(json!({ "name": "c", "tool": "child" })).await;
    let run = hive.outcome(job).await;
    let error = run["error"].as_str().unwrap();
    let told = "it ended with exit code 3, and a process in its container was killed for memory meanwhile";
    assert!(error.starts_with(told) && run["exit_code"] == 3, "{run:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_is_ended_with_its_agent_is_nobodys_failure() {
    let hive = hive_with(&[("long.sh", "#!/bin/bash\nsleep 600\n")], "").await;
    let job = hive.make_job(json!({ "name": "l", "tool": "long" })).await;
    for verb in ["restart", "stop"] {
        let run = hive.run(job).await;
        hive.run_until(run, "running", |r| r["status"] == "running").await;
        assert_eq!(hive.send("POST", &format!("/v1/agents/a/{verb}"), None).await.0, 202);
        let over = hive.over(run).await;
        assert_eq!(over["status"], "lost", "{over:#}");
        if verb == "restart" {
            hive.running("a").await;
        }
    }
    let view = hive.get(&format!("/v1/jobs/{job}")).await;
    assert_eq!((&view["consecutive_failures"], &view["backoff_until"]), (&json!(0), &Value::Null));
}
