use proptest::prelude::*;

use super::*;

fn at() -> Timestamp {
    "2026-03-01T12:00:00.5Z".parse().unwrap()
}

fn about() -> About {
    About { hive: "demo".into(), agent: "writer".into(), job: Some((3, "morning-post".into())) }
}

fn failed(error: &str) -> Notice {
    Notice::of_run(about(), 17, RunStatus::Failed, Some(error.into()), Some("posted half".into()), at())
}

#[test]
fn a_webhook_is_told_everything_by_name() {
    insta::assert_json_snapshot!(failed("exit code 1").webhook(), @r#"
    {
      "type": "run:failed",
      "timestamp": "2026-03-01T12:00:00.5Z",
      "data": {
        "hive": "demo",
        "agent": "writer",
        "job": {
          "id": 3,
          "name": "morning-post"
        },
        "run": 17,
        "status": "failed",
        "title": "morning-post of writer: failed",
        "text": "",
        "error": "exit code 1",
        "summary": "posted half"
      }
    }
    "#);
}

#[test]
fn people_read_plain_text_with_what_is_short_first() {
    insta::assert_snapshot!(failed("exit code 1\nno such <b>file</b>").telegram("42")["text"].as_str().unwrap(), @r"
    morning-post of writer: failed
    demo / writer / morning-post (job 3), run 17, failed, 2026-03-01T12:00:00Z

    Error: exit code 1
    no such <b>file</b>

    posted half
    ");
    let disabled = Notice::of_disabled_job(about(), Some(17), 5, Some("exit code 1".into()), at());
    insta::assert_snapshot!(disabled.telegram("42")["text"].as_str().unwrap(), @r"
    morning-post of writer: disabled
    demo / writer / morning-post (job 3), run 17, disabled, 2026-03-01T12:00:00Z

    It failed 5 times in a row and does not run any more. Put right what fails, then resume it.

    Error: exit code 1
    ");
    let done = Notice::of_run(About { job: None, ..about() }, 9, RunStatus::Succeeded, None, None, at());
    insta::assert_snapshot!(done.telegram("42")["text"].as_str().unwrap(), @r"
    run 9 of writer: succeeded
    demo / writer, run 9, succeeded, 2026-03-01T12:00:00Z
    ");
}

#[test]
fn telegram_is_given_a_chat_and_text_without_markup() {
    let sent = failed("x").telegram("-100123");
    assert_eq!(sent["chat_id"], "-100123");
    assert_eq!(sent["link_preview_options"]["is_disabled"], true);
    assert!(sent.get("parse_mode").is_none());
}

#[test]
fn ntfy_is_given_a_topic_a_title_and_a_message() {
    let sent = failed("naïve 🐝").ntfy("alerts", Some(5));
    assert_eq!(sent["title"], "morning-post of writer: failed");
    assert_eq!((&sent["topic"], &sent["priority"]), (&json!("alerts"), &json!(5)));
    assert!(sent["message"].as_str().unwrap().contains("Error: naïve 🐝"));
    assert!(failed("x").ntfy("alerts", None).get("priority").is_none());
}

#[test]
fn every_end_but_success_is_told_as_a_failure_with_its_status() {
    for status in RunStatus::ALL {
        let notice = Notice::of_run(about(), 1, status, None, None, at());
        let good = status == RunStatus::Succeeded;
        assert_eq!(notice.kind, if good { NoticeKind::RunSucceeded } else { NoticeKind::RunFailed });
        assert_eq!(notice.status, status.as_str());
    }
}

#[test]
fn a_summary_that_repeats_the_error_is_said_once() {
    let notice = Notice::of_run(about(), 1, RunStatus::Lost, Some("gone".into()), Some("gone".into()), at());
    assert_eq!(notice.body().matches("gone").count(), 1);
}

proptest! {
    #[test]
    fn no_text_makes_a_message_too_long_or_loses_its_beginning(
        unit in "\\PC|[\u{0}-\u{1f}]|\"|🐝|\\\\", times in 0_usize..9000, title in "\\PC{0,400}", topic in "[a-z]{1,64}"
    ) {
        let mut notice = failed(&unit.repeat(times));
        notice.title = title;
        for notice in [notice.clone(), notice.clipped()] {
            let telegram = notice.telegram("1")["text"].as_str().unwrap().to_owned();
            prop_assert!(telegram.encode_utf16().count() <= 4096);
            prop_assert!(telegram.contains("morning-post (job 3), run 17"));
            let ntfy = notice.ntfy(&topic, Some(1));
            prop_assert!(ntfy.to_string().len() <= 4096, "{}", ntfy.to_string().len());
            prop_assert!(ntfy["message"].as_str().unwrap().contains("morning-post (job 3), run 17"));
            if times * unit.encode_utf16().count() > 5000 && !printable(&unit).trim().is_empty() {
                prop_assert!(telegram.ends_with("… (cut)"));
            }
        }
    }

    #[test]
    fn a_notice_survives_its_way_through_the_outbox(
        error in prop::option::of("\\PC{0,50}"), summary in prop::option::of(".{0,50}"), run in prop::option::of(any::<i64>()),
        job in prop::option::of((any::<i64>(), "\\PC{0,20}")), kind in 0..3
    ) {
        let kind = [NoticeKind::RunFailed, NoticeKind::RunSucceeded, NoticeKind::JobDisabled][usize::try_from(kind).unwrap()];
        let notice = Notice { kind, error, summary, run, job, ..failed("x") };
        let stored = serde_json::to_string(&notice).unwrap();
        prop_assert_eq!(serde_json::from_str::<Notice>(&stored).unwrap(), notice);
    }

    #[test]
    fn a_clipped_notice_is_small_whatever_was_said(text in "\\PC{0,3}", times in 0_usize..30_000) {
        let mut notice = failed(&text.repeat(times));
        notice.summary = notice.error.clone();
        notice.title = text.repeat(times);
        let clipped = notice.clone().clipped();
        prop_assert!(serde_json::to_string(&clipped).unwrap().len() < 100_000);
        prop_assert_eq!(clipped.clone().clipped(), clipped);
    }
}
