use serde_json::json;

use super::*;
use crate::cli::{job::tests::clock, run::tests::view};

#[test]
fn a_run_is_shown_with_its_result() {
    insta::assert_snapshot!(text(&view(&json!({})), &clock()), @r#"
    12  writer/morning-post

    status     succeeded
    job        7
    cause      its fire time came
    tier       direct
    scheduled  Fri 06:00
    started    60 min ago · Fri 06:00
    took       12.5 s
    exit code  0
    output     120 bytes (`skep run logs 12` prints them)
    summary    posted

    result:
    {
      "success": true
    }
    "#);
}

#[test]
fn what_is_odd_about_an_answer_is_told() {
    let run = view(&json!({"result": "{\"a\": ", "warnings": ["the output begins like JSON"]}));
    assert!(
        text(&run, &clock()).contains("warning    the output begins like JSON\n"),
        "{}",
        text(&run, &clock())
    );
}

#[test]
fn a_failed_run_is_shown_with_its_error_and_what_the_clocks_did() {
    let run =
        view(&json!({"status": "failed", "attempt": 2, "exit_code": 3, "error": "exit code 3:\n  no way\n",
        "result": "text\u{1b}[2J", "summary": null, "job": null, "trigger": "catch_up", "steps": 4,
        "shifted_by_dst": "2026-03-29T02:30:00", "output_bytes": null}));
    insta::assert_snapshot!(text(&run, &clock()), @r"
    12  writer/morning-post

    status     failed
    job        removed since
    cause      its fire time was missed, and made up for
    tier       direct
    scheduled  Fri 06:00
               a clock change left 2026-03-29T02:30:00 out
    started    60 min ago · Fri 06:00
    took       12.5 s
    attempt    2
    exit code  3
    steps      4

    error:
    exit code 3:
      no way

    result:
    text�[2J
    ");
}

#[test]
fn a_skipped_run_says_why_and_for_how_many_it_stands() {
    let run = view(&json!({"status": "skipped", "reason": "missed", "skipped": 3,
        "skipped_until": "2026-01-02T05:50:00+01:00", "started_at": null, "finished_at": null, "exit_code": null,
        "result": null, "summary": null, "output_bytes": null}));
    insta::assert_snapshot!(text(&run, &clock()), @r"
    12  writer/morning-post

    status     skipped; missed: skep was down or halted (3 times, the last Fri 05:50)
    job        7
    cause      its fire time came
    tier       direct
    scheduled  Fri 06:00
    ");
}
