//! Jobs, runs and events over connections that break, and what no real supervisor is needed for.

use std::{
    io::{BufRead, BufReader},
    process::Stdio,
};

use insta::assert_snapshot;

use crate::{server::Server, support::Hive};

#[test]
fn a_run_that_is_followed_is_printed_whole_though_the_connection_breaks() {
    let hive = Hive::new();
    let server = Server::start(&hive);
    let ran = hive.run(&["job", "run", "writer/post", "-f"]);
    assert_eq!((ran.code, ran.out.as_str()), (0, "one\ntwo\nthree\n"), "{}", ran.err);
    assert_snapshot!(ran.err, @r"
    run 11 of writer/post
    run 11 succeeded after 1.5 s
    ");
    assert_eq!(server.asked(), ["run 1", "output 11", "output 11"]);
}

#[test]
fn a_run_that_fails_is_a_failure_of_the_command_that_waits_for_it() {
    let hive = Hive::new();
    let _server = Server::start(&hive);
    let followed = hive.run(&["job", "run", "2", "--follow"]);
    assert_eq!(followed.code, 1, "{}", followed.err);
    assert!(followed.err.ends_with("run 12 failed after 1.5 s: exit code 3\n"), "{}", followed.err);
    let waited = hive.run(&["job", "run", "2", "--wait", "--json"]);
    assert_eq!(waited.code, 1);
    assert!(waited.out.contains("\"status\": \"failed\""), "{}", waited.out);
    let left = hive.run(&["job", "run", "2"]);
    assert_eq!((left.code, left.out.as_str()), (0, "12\n"));
}

#[test]
fn a_job_is_found_by_number_by_agent_and_name_and_by_a_name_that_is_unique() {
    let hive = Hive::new();
    let server = Server::start(&hive);
    for name in ["1", "writer/post", "post"] {
        let ran = hive.run(&["job", "rm", "--yes", name]);
        assert_eq!((ran.code, ran.out.as_str()), (0, "removed writer/post (job 1)\n"), "{name}: {}", ran.err);
    }
    assert_eq!(server.asked(), ["remove 1", "remove 1", "remove 1"]);
    let told = ["poll", "writer/pots", "4", "helper/post"].map(|name| hive.run(&["job", "show", name]).err);
    assert_snapshot!(told.join("\n"), @r#"
    error: 2 agents have a job named "poll":
      writer/poll (job 2)
      helper/poll (job 3)
    help: say which: write AGENT/NAME or the job's number

    error: there is no job "writer/pots"
    help: did you mean "writer/post"? `skep job list` shows the jobs

    error: there is no job 4
    help: `skep job list` shows the jobs

    error: there is no job "helper/post"
    help: did you mean "helper/poll"? `skep job list` shows the jobs
    "#);
}

#[test]
fn a_name_that_does_not_exist_removes_nothing_and_neither_does_a_question_without_a_terminal() {
    let hive = Hive::new();
    let server = Server::start(&hive);
    assert_eq!(hive.run(&["job", "rm", "--yes", "post", "nothing"]).code, 1);
    let ran = hive.run(&["job", "rm", "post"]);
    assert_eq!(ran.code, 2);
    assert_snapshot!(ran.err, @r"
    error: rm asks first, and there is no terminal to ask on
    help: add --yes when you are sure
    ");
    assert!(server.asked().is_empty());
}

#[test]
fn a_file_of_jobs_is_added_as_far_as_it_goes() {
    let hive = Hive::new();
    let server = Server::start(&hive);
    let jobs = r#"[{"name": "post"}, {"name": "bad", "agent": "helper"}, {"name": "new"}]"#;
    let ran = hive.feed(&["job", "add", "--file", "-", "--agent", "writer"], jobs.as_bytes());
    assert_eq!(ran.code, 1);
    assert_snapshot!(format!("{}---\n{}", ran.out, ran.err), @r#"
    added writer/new as job 9
    ---
    left "post" alone: agent writer has a job named "post" already
    error: "bad" was refused: no such minute
      run it with `skep job run 9`
    warning: the zone was filled in
    1 added, 1 left alone, 1 refused
    "#);
    assert_eq!(
        server.asked(),
        [
            r#"add {"name":"post","agent":"writer"}"#,
            r#"add {"name":"bad","agent":"helper"}"#,
            r#"add {"name":"new","agent":"writer"}"#
        ]
    );
    hive.write("jobs.json", r#"{"name": "post"}"#);
    let again = hive.run(&["job", "add", "--file", "jobs.json"]);
    assert_eq!(again.code, 0, "a name that exists is no failure: {}", again.err);
}

#[test]
fn runs_of_several_states_are_listed_newest_first() {
    let hive = Hive::new();
    let server = Server::start(&hive);
    let ran =
        hive.run(&["run", "list", "writer", "--status", "lost", "--status", "failed", "-n", "2", "--json"]);
    let runs: Vec<serde_json::Value> = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(runs.iter().map(|run| run["id"].as_i64().unwrap()).collect::<Vec<_>>(), [13, 12]);
    assert_eq!(
        server.asked(),
        ["runs agent=writer&limit=2&status=failed", "runs agent=writer&limit=2&status=lost"]
    );
}

#[test]
fn cancelling_waits_until_the_run_is_over() {
    let hive = Hive::new();
    let server = Server::start(&hive);
    let ran = hive.run(&["run", "cancel", "13"]);
    assert_eq!((ran.code, ran.out.as_str()), (0, "run 13 was cancelled after 1.5 s\n"), "{}", ran.err);
    assert_eq!(server.asked(), ["cancel 13"]);
    let again = hive.run(&["run", "cancel", "13"]);
    assert!(again.code == 1 && again.err.contains("run 13 is over: it was cancelled"), "{}", again.err);
    let name = hive.run(&["run", "cancel", "post"]);
    assert!(name.code == 2 && name.err.contains("by its number"), "{}", name.err);
}

#[test]
fn a_halt_says_what_goes_on_and_a_resume_what_is_halted_still() {
    let hive = Hive::new();
    let server = Server::start(&hive);
    let (halt, resume) = (hive.run(&["halt", "helper"]), hive.run(&["resume"]));
    assert!(halt.out.contains("agent helper is halted"), "{}", halt.out);
    assert!(resume.err.contains("lift it with `skep resume helper`"), "{}", resume.err);
    assert_eq!(server.asked(), [r#"halt {"agent":"helper"}"#, r#"halt {"agent":null}"#]);
}

#[test]
fn the_last_events_are_lines() {
    let hive = Hive::new();
    let _server = Server::start(&hive);
    let ran = hive.run(&["events", "-n", "2", "--json"]);
    let ids: Vec<i64> = ran
        .out
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["id"].as_i64().unwrap())
        .collect();
    assert_eq!(ids, [2, 3], "{}", ran.err);
}

#[test]
fn events_are_followed_across_connections_without_gap_or_repeat() {
    let hive = Hive::new();
    let server = Server::start(&hive);
    let mut child = hive.skep(&["events", "-f", "-n", "1"]).stderr(Stdio::null()).spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines().take(7);
    let ids: Vec<String> =
        lines.map(|line| line.unwrap().split_whitespace().next().unwrap().to_owned()).collect();
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(ids, ["3", "4", "5", "6", "7", "8", "9"]);
    let asked =
        ["the last 1 events", "the last 1 events", "events after 3", "events after 5", "events after 7"];
    assert_eq!(server.asked(), asked);
}

#[test]
fn without_a_supervisor_the_remedy_is_named() {
    let hive = Hive::new();
    for args in [&["job", "list"][..], &["run", "list"], &["halt"], &["events", "-f"], &["job", "next", "x"]]
    {
        let ran = hive.run(args);
        assert_eq!(ran.code, 1, "{args:?}");
        assert!(ran.err.contains("start it with `skep up -d`"), "{args:?}: {}", ran.err);
    }
}
