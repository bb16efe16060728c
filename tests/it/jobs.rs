//! The verbs for jobs against a real supervisor, where no engine answers: everything but runs that run.

use std::{
    io::{BufRead, BufReader},
    sync::mpsc,
    time::{Duration, Instant},
};

use insta::assert_snapshot;
use serde_json::Value;

use crate::support::{Hive, Ran};

/// A supervisor that is ended also when the test fails.
struct Up(Hive);

impl Up {
    fn new() -> Self {
        let hive = Hive::new();
        let toml = hive.read("skep.toml");
        let toml = toml.replacen("[hive]", "[hive]\ntimezone = \"Europe/Berlin\"", 1);
        let toml = toml.replacen("[agents.helper]", "[agents.helper]\ncommand = [\"cat\"]", 1);
        hive.write("skep.toml", &format!("{toml}\n[api]\nlisten = \"none\"\n"));
        let up = Self(hive);
        up.start();
        up
    }

    /// Without an engine no agent starts; the supervisor answers all the same.
    fn start(&self) {
        let ran = self.0.run(&["up", "-d", "--timeout", "0"]);
        assert!(ran.err.contains("not every agent has started"), "{}", ran.err);
        let patience = Instant::now() + Duration::from_secs(60);
        loop {
            let ran = self.0.run(&["job", "list"]);
            if ran.code == 0 {
                return;
            }
            assert!(Instant::now() < patience, "{}", ran.err);
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// What worked.
    fn ok(&self, args: &[&str]) -> Ran {
        let ran = self.0.run(args);
        assert_eq!(ran.code, 0, "{args:?}: {}{}", ran.out, ran.err);
        ran
    }

    fn json(&self, args: &[&str]) -> Value {
        let ran = self.ok(&[args, &["--json"]].concat());
        serde_json::from_str(&ran.out).unwrap_or_else(|e| panic!("{args:?}: {e}: {}", ran.out))
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        self.0.run(&["down", "--keep-agents"]);
    }
}

#[test]
fn a_job_is_made_shown_paused_resumed_and_removed() {
    let up = Up::new();
    let add = [
        "job",
        "add",
        "--agent",
        "helper",
        "--name",
        "list",
        "--schedule",
        "0 9 1 1 *",
        "--timezone",
        "Pacific/Chatham",
    ];
    let added = up
        .ok(&[&add[..], &["--tool", "list-directory", "--arg", "path=/skills", "--timeout", "5m"]].concat());
    assert_eq!(added.out, "added helper/list as job 1\n");
    assert!(added.err.starts_with("  fires in ") && added.err.contains(" 09:00"), "{}", added.err);
    let job = up.json(&["job", "show", "list"]);
    for (key, wanted) in [("tier", "direct"), ("timeout", "5m"), ("origin", "api")] {
        assert_eq!(job[key], wanted, "{key}");
    }
    assert_eq!(job["args"]["path"], "/skills");
    let fires = up.json(&["job", "next", "helper/list", "-n", "3"]);
    assert_eq!(fires["fires"].as_array().unwrap().len(), 3);
    assert_eq!(up.ok(&["job", "pause", "list"]).out, "helper/list: disabled: paused by the operator\n");
    let listed = up.ok(&["job", "list", "--disabled"]);
    assert_snapshot!(listed.out, @r"
    ID  AGENT   NAME  TIER    TRIGGER                      NEXT  LAST  STATE
    1   helper  list  direct  0 9 1 1 * (Pacific/Chatham)  -     -     disabled: paused by the operator
    ");
    assert!(up.ok(&["job", "resume", "1"]).out.starts_with("helper/list: "));
    assert_eq!(up.ok(&["job", "rm", "list", "--yes"]).out, "removed helper/list (job 1)\n");
    let none = up.ok(&["job", "list"]);
    assert!(none.err.starts_with("there are no jobs yet"), "{}", none.err);
}

#[test]
fn what_is_wrong_with_a_job_is_told_all_at_once_and_is_a_mistake_of_the_command_line() {
    let up = Up::new();
    let ran = up.0.run(&[
        "job",
        "add",
        "--agent",
        "helper",
        "--name",
        "x",
        "--schedule",
        "61 * * * *",
        "--timezone",
        "Berlin",
        "--tool",
        "list-directory",
        "--timeout",
        "5",
    ]);
    assert_eq!(ran.code, 2);
    assert_snapshot!(ran.err, @r#"
    error: 3 mistakes, the first one: the time zone `Berlin` is not known (did you mean `Europe/Berlin`?)
      /schedule: the minute `61` is out of range (write 0 to 59)
      /timeout: timeout is not a duration: "5" (the unit is missing: write "5s" for seconds)
    "#);
    let tool =
        up.0.run(&["job", "add", "--agent", "helper", "--name", "x", "--manual", "--tool", "list-directry"]);
    assert!(tool.code == 2 && tool.err.contains("did you mean \"list-directory\"?"), "{}", tool.err);
}

#[test]
fn a_job_that_was_shown_can_be_added_under_another_name() {
    let up = Up::new();
    let add =
        ["job", "add", "--agent", "helper", "--name", "one", "--event", "report", "--tool", "list-directory"];
    up.ok(&[&add[..], &["--retries", "2", "--no-notify", "--disabled"]].concat());
    let mut job = up.json(&["job", "show", "one"]);
    job["name"] = "two".into();
    up.0.write("job.json", &job.to_string());
    up.ok(&["job", "add", "--file", "job.json"]);
    let other = up.json(&["job", "show", "two"]);
    for key in
        ["agent", "trigger", "tool", "retries", "notify", "enabled", "timeout", "missed", "overlap", "tier"]
    {
        assert_eq!(job[key], other[key], "{key}");
    }
}

#[test]
fn the_jobs_that_come_with_skep_are_added_once() {
    let up = Up::new();
    let first = up.ok(&["job", "add", "--file", "default-jobs"]);
    let many = up.json(&["job", "list", "helper"]).as_array().unwrap().len();
    assert!(first.err.ends_with(&format!("\n{many} added\n")), "{}", first.err);
    assert_eq!(first.err.matches("warning:").count(), 1, "{}", first.err);
    let again = up.ok(&["job", "add", "--file", "default-jobs"]);
    assert!(again.err.ends_with(&format!("\n0 added, {many} left alone\n")), "{}", again.err);
}

#[test]
fn what_cannot_run_waits_can_be_cancelled_and_a_halt_outlives_the_supervisor() {
    let up = Up::new();
    up.ok(&["job", "add", "--agent", "helper", "--name", "list", "--manual", "--tool", "list-directory"]);
    assert!(up.ok(&["halt"]).out.starts_with("the hive is halted"));
    up.0.run(&["down", "--keep-agents"]);
    up.start();
    let ps = up.ok(&["ps"]);
    assert!(ps.err.contains("the hive is halted since") && ps.err.contains("`skep resume`"), "{}", ps.err);
    assert_eq!(up.ok(&["job", "run", "list"]).out, "1\n");
    let queued = up.ok(&["run", "list", "helper", "--status", "queued"]);
    assert!(queued.out.contains("waits: the hive is halted"), "{}", queued.out);
    // What cannot be cancelled is told, and does not keep the others running.
    let cancelled = up.0.run(&["run", "cancel", "77", "1", "78"]);
    assert_eq!((cancelled.code, cancelled.out.as_str()), (1, "run 1 was cancelled before it started\n"));
    assert!(cancelled.err.contains("no run 77") && cancelled.err.contains("no run 78"), "{}", cancelled.err);
    assert_eq!(up.0.run(&["run", "cancel", "1"]).code, 1);
    let nobody = up.0.run(&["run", "list", "nobody"]);
    assert!(nobody.code == 1 && nobody.err.contains("no agent nobody"), "{}", nobody.err);
    assert_eq!(up.0.run(&["run", "list", "--job", "nobody"]).code, 1);
    assert_eq!(up.ok(&["run", "logs", "1"]).err, "run 1: it never started\n");
    assert_eq!(up.ok(&["resume"]).out, "the hive runs what is due again\n");
    let ends: Vec<String> =
        up.ok(&["events", "--name", "hive:*", "--json"]).out.lines().map(ToOwned::to_owned).collect();
    assert!(ends[0].contains("hive:halted") && ends[1].contains("hive:resumed"), "{ends:?}");
}

#[test]
fn an_event_that_is_raised_is_told_to_those_who_follow() {
    let up = Up::new();
    let mut follower = up.0.skep(&["events", "-f", "--name", "report*", "--json"]).spawn().unwrap();
    let stdout = follower.stdout.take().unwrap();
    // It is there once the first event arrives: until then events are raised for it.
    let (send, line) = mpsc::channel();
    std::thread::spawn(move || {
        let first = BufReader::new(stdout).lines().next();
        send.send(first.unwrap().unwrap()).ok();
    });
    let told = loop {
        up.ok(&["events", "--raise", "report:may", "--data", "{\"n\": 1}"]);
        if let Ok(told) = line.recv_timeout(Duration::from_secs(1)) {
            break told;
        }
    };
    follower.kill().unwrap();
    follower.wait().unwrap();
    let event: Value = serde_json::from_str(&told).unwrap();
    assert_eq!((&event["name"], &event["data"]), (&"report:may".into(), &serde_json::json!({"n": 1})));
    let refused = up.0.run(&["events", "--raise", "run:mine"]);
    assert!(refused.code == 1 && refused.err.contains("the hive's own"), "{}", refused.err);
}

#[test]
fn whoever_follows_a_run_that_does_not_start_is_told_why_until_it_is_cancelled() {
    let up = Up::new();
    up.ok(&["job", "add", "--agent", "helper", "--name", "list", "--manual", "--tool", "list-directory"]);
    up.ok(&["halt", "helper"]);
    let mut follower = up.0.skep(&["job", "run", "list", "-f"]).spawn().unwrap();
    let mut lines = BufReader::new(follower.stderr.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "run 1 of helper/list");
    let waits = lines.next().unwrap().unwrap();
    assert!(waits.starts_with("run 1 has not started; it waits: agent helper is halted"), "{waits}");
    up.ok(&["run", "cancel", "1"]);
    assert_eq!(lines.next().unwrap().unwrap(), "run 1 was cancelled before it started");
    assert_eq!(follower.wait().unwrap().code(), Some(1));
}
