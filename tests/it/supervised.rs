//! What is asked of a supervisor, and how its answers are shown.

use insta::assert_snapshot;

use crate::{server::Server, support::Hive};

#[test]
fn the_agents_are_shown_with_what_is_wrong() {
    let hive = Hive::new();
    let _server = Server::start(&hive);
    let ran = hive.run(&["ps"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert_snapshot!(ran.out, @r"
    AGENT   STATUS   SKILLS  RESTARTS  SINCE  NOTE
    helper  running  1       2         -
    writer  failed   1       2         -      no image; missing secrets: API_KEY
    ");
    assert_eq!(ran.err, "warning: a source folder is missing\n");
    let json: serde_json::Value = serde_json::from_str(&hive.run(&["ps", "--json"]).out).unwrap();
    assert_eq!(json.as_array().unwrap().len(), 2, "every page");
}

#[test]
fn logs_are_passed_on_byte_for_byte_with_what_was_asked() {
    let hive = Hive::new();
    let server = Server::start(&hive);
    let output =
        hive.skep(&["logs", "helper", "-f", "-n", "5", "--timestamps", "--stream", "stderr"]).output();
    assert_eq!(output.unwrap().stdout, b"one\ntwo \xff\n");
    assert_eq!(server.asked(), ["logs follow=true&stream=stderr&tail=5&timestamps=true"]);
}

#[test]
fn a_prompt_in_a_pipe_is_the_text_itself() {
    let hive = Hive::new();
    let _server = Server::start(&hive);
    assert_eq!(hive.run(&["prompt", "helper"]).out, "You are \u{1b}[31mred\n");
}

#[test]
fn stopping_waits_until_it_is_done() {
    let hive = Hive::new();
    let server = Server::start(&hive);
    let ran = hive.run(&["stop", "helper"]);
    assert_eq!((ran.code, ran.out.as_str()), (0, "helper stopped\n"));
    assert_eq!(server.asked(), ["stop helper"]);
}

#[test]
fn an_agent_that_does_not_start_is_a_failure() {
    let hive = Hive::new();
    let _server = Server::start(&hive);
    let ran = hive.run(&["start", "writer"]);
    assert_eq!((ran.code, ran.out.as_str()), (1, "writer failed: no image\n"));
    assert_eq!(hive.run(&["start", "--no-wait", "writer"]).code, 0);
}

#[test]
fn an_unknown_agent_stops_nothing() {
    let hive = Hive::new();
    let server = Server::start(&hive);
    let ran = hive.run(&["stop", "helper", "nobody"]);
    assert_eq!((ran.code, ran.err.as_str()), (1, "error: there is no agent nobody\n"));
    assert!(server.asked().is_empty());
}

#[test]
fn a_refusal_is_shown_with_every_reason_and_cannot_drive_the_terminal() {
    let hive = Hive::new();
    let _server = Server::start(&hive);
    let ran = hive.run(&["skill", "show", "some"]);
    assert_eq!(ran.code, 1);
    assert_snapshot!(ran.err, @r"
    error: two things are wrong
      /a: first
      /b: second�[2J
    ");
}

#[test]
fn an_update_shows_what_changes() {
    let hive = Hive::new();
    let server = Server::start(&hive);
    let ran = hive.run(&["update", "helper", "--skill", "a", "--dry-run"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert_snapshot!(ran.out, @r"
    AGENT   SKILL  FROM   TO
    helper  a      1.0.0  1.1.0
    helper  b      -      2.0.0
    ");
    assert_eq!(server.asked(), [r#"update {"agents":["helper"],"skills":["a"],"dry_run":true}"#]);
}

#[test]
fn a_secret_goes_to_the_supervisor_when_one_runs() {
    let hive = Hive::new();
    let server = Server::start(&hive);
    assert_eq!(hive.feed(&["secret", "set", "KEY"], b"value-value\n").code, 0);
    assert_eq!(server.asked(), [r#"secret KEY {"value":"value-value"}"#]);
    assert!(!hive.root.join("secrets/env.json").exists());
}

#[test]
fn a_second_supervisor_is_refused_naming_the_first() {
    let hive = Hive::new();
    let _server = Server::start(&hive);
    for args in [&["up"][..], &["up", "-d"]] {
        let ran = hive.run(args);
        assert_eq!(ran.code, 1);
        let process = format!("already: process {} since 2026-01-02T03:04:05Z", std::process::id());
        assert!(ran.err.contains(&process), "{}", ran.err);
    }
}
