//! The contract's form and the keys of `skep.toml`: what they mean, and how mistakes are told.

use std::time::Duration;

use super::*;
use crate::scheduler::job::{MAX_ARGS, MAX_INSTRUCTIONS};

#[test]
fn every_key_of_the_contract_is_understood() {
    let job = created(&json!({
        "agent": "writer",
        "name": "  morning post ",
        "description": "Greets",
        "enabled": false,
        "trigger": {"type": "cron", "schedule": "0 9 * * MON-FRI", "timezone": "Asia/Tokyo"},
        "instructions": "Say good morning.",
        "tool": "post-twitter",
        "args": {"content": "Good morning"},
        "required_tools": ["post-twitter"],
        "max_steps": 3,
        "timeout": "15m",
        "missed": "all",
        "missed_within": "2h",
        "overlap": "queue",
        "retries": 2,
        "jitter": "30s",
        "notify": {"on_completion": false, "interval_minutes": 10, "targets": ["ops"]},
    }));
    assert_eq!((job.agent.as_str(), job.name.as_str(), job.enabled), ("writer", "morning post", false));
    assert_eq!(job.notes, Vec::<String>::new());
    let spec = JobSpec {
        description: "Greets".into(),
        instructions: Some("Say good morning.".into()),
        tool: Some("post-twitter".into()),
        args: json!({"content": "Good morning"}).as_object().unwrap().clone(),
        required_tools: vec!["post-twitter".into()],
        max_steps: 3,
        timeout: Some(Duration::from_secs(900)),
        missed: Missed::All,
        missed_within: Some(Duration::from_secs(7200)),
        overlap: Overlap::Queue,
        retries: 2,
        jitter: Duration::from_secs(30),
        notify: JobNotify { on_completion: false, interval_minutes: 10, targets: Some(vec!["ops".into()]) },
        ..JobSpec::new(cron("0 9 * * MON-FRI", "Asia/Tokyo"))
    };
    assert_eq!(job.spec, spec);
}

#[test]
fn what_is_left_out_has_the_defaults() {
    let job = created(&body(&json!({"manual": true})));
    let spec = JobSpec { instructions: Some("Do it.".into()), ..JobSpec::new(TriggerSpec::Manual) };
    assert_eq!((job.spec, job.enabled), (spec, true));
}

#[test]
fn each_trigger_of_the_contract_and_the_file_is_understood() {
    let event =
        |names: &[&str]| TriggerSpec::Event { event: names.iter().map(ToString::to_string).collect() };
    for (keys, trigger) in [
        (json!({"trigger": {"schedule": "@daily"}}), cron("@daily", ZONE)),
        (json!({"trigger": {"type": "interval", "every": "30m"}}), every("30m")),
        (json!({"trigger": {"every": "90m"}}), every("90m")),
        (json!({"trigger": {"type": "cron", "every": "1h"}}), every("1h")),
        (
            json!({"trigger": {"type": "one-shot", "at": "2026-12-24T18:00:00"}}),
            once("2026-12-24T23:00:00Z", ZONE),
        ),
        (
            json!({"trigger": {"at": "2026-12-24T18:00:00+01:00", "timezone": "Europe/Berlin"}}),
            once("2026-12-24T17:00:00Z", "Europe/Berlin"),
        ),
        (json!({"trigger": {"type": "event", "event": ["a", "b:*"]}}), event(&["a", "b:*"])),
        (json!({"trigger": {"type": "manual"}}), TriggerSpec::Manual),
        (json!({"schedule": "0 0 9 * * *", "timezone": "UTC"}), cron("0 0 9 * * *", "UTC")),
        (json!({"every": "1h30m"}), every("1h30m")),
        (json!({"at": "2026-12-24T18:00:00Z"}), once("2026-12-24T18:00:00Z", ZONE)),
        (json!({"event": "a"}), event(&["a"])),
        (json!({"event": ["a", "a"]}), event(&["a"])),
        (json!({"manual": true}), TriggerSpec::Manual),
        (json!({"manual": false, "every": "1h"}), every("1h")),
    ] {
        assert_eq!(created(&body(&keys)).spec.trigger, trigger, "{keys}");
    }
    let job = created(&body(&json!({"every": "1h", "timezone": "UTC"})));
    assert!(job.notes.iter().any(|note| note.contains("UTC was left out")), "{:?}", job.notes);
}

#[test]
fn wrong_values_are_told_with_their_place_and_a_remedy() {
    #[rustfmt::skip]
    let cases = [
        (json!({"name": " "}), "/name", "is empty"),
        (json!({"name": "x".repeat(101)}), "/name", "at most 100 characters"),
        (json!({"name": "a\nb"}), "/name", "U+000A"),
        (json!({"name": "a\u{200b}"}), "/name", "U+200B"),
        (json!({"name": "+12"}), "/name", "by number too"),
        (json!({"name": "99999999999999999999"}), "/name", "by number too"),
        (json!({"description": "a\u{2066}b"}), "/description", "U+2066"),
        (json!({"name": 5}), "/name", "must be a string, not 5"),
        (json!({"agent": "Bad Name"}), "/agent", "not a valid agent name"),
        (json!({"description": "\u{0}"}), "/description", "U+0000"),
        (json!({"instructions": "x".repeat(MAX_INSTRUCTIONS + 1)}), "/instructions", "at most 100000"),
        (json!({"instructions": "a\u{0}"}), "/instructions", "NUL"),
        (json!({"instructions": ["a"]}), "/instructions", "must be a string, not a list"),
        (json!({"instructions": " "}), "/instructions", "needs something to do"),
        (json!({"enabled": "yes"}), "/enabled", "must be true or false, not \"yes\""),
        (json!({"max_steps": 0}), "/max_steps", "from 1 to 1000, not 0"),
        (json!({"max_steps": 1001}), "/max_steps", "from 1 to 1000"),
        (json!({"max_steps": 1.5}), "/max_steps", "must be a whole number, not 1.5"),
        (json!({"max_steps": "many"}), "/max_steps", "must be a whole number, not \"many\""),
        (json!({"retries": -1}), "/retries", "from 0 to 10, not -1"),
        (json!({"retries": 1e300}), "/retries", "must be a whole number"),
        (json!({"timeout": 900}), "/timeout", "write the unit: \"900s\" or \"900m\""),
        (json!({"timeout": "900"}), "/timeout", "\"900s\""),
        (json!({"timeout": "500ms"}), "/timeout", "from 1s to 7d"),
        (json!({"timeout": "8d"}), "/timeout", "from 1s to 7d"),
        (json!({"jitter": "25h"}), "/jitter", "from 0s to 1d"),
        (json!({"missed_within": "0s"}), "/missed_within", "from 1s to 366d"),
        (json!({"missed": "lsat"}), "/missed", "did you mean \"last\"?"),
        (json!({"overlap": "forbid"}), "/overlap", "use \"skip\" or \"queue\" or \"replace\" or \"allow\""),
        (json!({"notify": true}), "/notify", "must be an object, not true"),
        (json!({"notify": {"interval_minutes": -1}}), "/notify/interval_minutes", "from 0 to"),
        (json!({"notify": {"on_complete": true}}), "/notify/on_complete", "did you mean \"on_completion\"?"),
        (json!({"notify": {"targets": ["a", 1]}}), "/notify/targets/1", "must be a string"),
        (json!({"notify": {"on_completion": true}, "notify_on_completion": false}), "/notify/on_completion", "mean the same and differ"),
        (json!({"required_tools": ["a", ""]}), "/required_tools/1", "is empty"),
        (json!({"required_tools": {"a": 1}}), "/required_tools", "a list of strings"),
        (json!({"required_tools": "[\"a\", 1]"}), "/required_tools", "must be a string, not 1"),
        (json!({"event": "a b"}), "/event", "holds blanks"),
        (json!({"event": "a*b"}), "/event", "before its end"),
        (json!({"event": []}), "/event", "names no event"),
        (json!({"every": 30}), "/every", "write the unit"),
        (json!({"every": "10ms"}), "/every", "1s"),
        (json!({"args": {"a": 1}}), "/args", "none is named"),
        (json!({"tool": "t", "args": [1]}), "/args", "must be an object, not a list"),
        (json!({"tool": "t", "args": {"a": "x".repeat(MAX_ARGS)}}), "/args", "at most 98304"),
        (json!({"tool": "", "args": {}}), "/tool", "is empty"),
        (json!({"tool": "t", "execution_plan": [{"tool": "u"}]}), "/tool", "both say what is called"),
        (json!({"execution_plan": 5}), "/execution_plan", "must be a list of steps"),
        (json!({"execution_plan": [5]}), "/execution_plan/0", "must be an object"),
        (json!({"execution_plan": [{"id": "1"}]}), "/execution_plan/0", "names no tool"),
        (json!({"execution_plan": [{"toolName": 1}, {"toolName": "a"}]}), "/execution_plan/0/toolName", "must be a string"),
        (json!({"execution_plan": [{"toolName": "a", "paramters": {}}]}), "/execution_plan/0/paramters", "did you mean \"parameters\"?"),
        (json!({"execution_plan": [{"toolName": "a", "parameters": [1]}]}), "/execution_plan/0/parameters", "must be an object"),
        (json!({"max_step": 1}), "/max_step", "did you mean \"max_steps\"?"),
        (json!({"scheduel": "0 9 * * *"}), "/scheduel", "did you mean \"schedule\"?"),
        (json!({"on_completion": true}), "/on_completion", "it belongs in notify"),
        (json!({"trigger": {"jitter": "5s"}}), "/trigger/jitter", "it belongs in the job itself"),
        (json!({"a/b~c": 1}), "/a~1b~0c", "known keys are agent, name"),
        (json!({"preflight": {"tool": "x", "runif": 1}}), "/preflight/runif", "did you mean \"run_if\"?"),
    ];
    for (keys, place, told) in cases {
        let trigger = ["event", "every", "trigger"].iter().any(|key| keys.get(key).is_some());
        let mut whole = body(&if trigger { json!({}) } else { json!({"manual": true}) });
        whole.as_object_mut().unwrap().extend(keys.as_object().unwrap().clone());
        let (pointer, detail) = only(&whole);
        assert_eq!(pointer, place, "{keys}: {detail}");
        assert!(detail.contains(told), "{keys}: {detail}");
    }
}

#[test]
fn a_body_that_is_no_object_is_refused() {
    for body in [json!(null), json!([]), json!("{}"), json!(5)] {
        assert_eq!(only(&body).0, "");
    }
}

#[test]
fn every_mistake_is_told_at_once() {
    let all = refused(&json!({
        "agent": "Bad", "schedule": "0 9 *", "at": "x", "timeout": 5, "notify": {"targets": 1}, "retries": "x", "oops": 1
    }));
    let places: Vec<_> = all.iter().map(|(pointer, _)| pointer.as_str()).collect();
    assert_eq!(
        places,
        ["/oops", "/agent", "/name", "/at", "/instructions", "/timeout", "/retries", "/notify/targets"]
    );
}

#[test]
fn what_only_the_supervisor_writes_may_be_sent_back() {
    let echo = json!({
        "manual": true, "id": 7, "tier": "agent", "origin": "api", "disabled_reason": null, "missing_tools": [],
        "next_fire_at": null, "last_run": {"id": 1}, "last_run_at": null, "consecutive_failures": 0,
        "backoff_until": null, "created_at": NOW, "updated_at": NOW, "preflight": null,
    });
    assert_eq!(created(&body(&echo)), created(&body(&json!({"manual": true}))));
}

#[test]
fn a_job_shown_is_read_back_as_the_same_job() {
    for keys in [
        json!({"schedule": "0 9 * * *", "timeout": "90s", "missed": "skip", "overlap": "allow", "jitter": "1m"}),
        json!({"every": "30m", "missed_within": "3h", "notify_on_completion": false}),
        json!({"at": "2026-07-01T18:00:00", "timezone": "Asia/Kathmandu", "notify": {"targets": []}}),
        json!({"event": ["a", "b*"], "tool": "t", "args": {"a": [1, {"b": null}]}}),
        json!({"manual": true, "enabled": false, "required_tools": ["a", "b"], "retries": 10}),
    ] {
        let job = created(&body(&keys));
        let shown = Value::Object(view(&job.agent, &job.name, job.enabled, &job.spec));
        let again = Draft { notes: job.notes.clone(), ..created(&shown) };
        assert_eq!(again, job, "{shown}");
    }
}

#[test]
fn times_are_shown_with_the_offset_of_their_zone() {
    let at = "2026-07-01T12:00:00.250Z".parse().unwrap();
    assert_eq!(shown(at, Some("Europe/Berlin")), "2026-07-01T14:00:00.25+02:00");
    assert_eq!(shown("2026-07-01T12:00:00Z".parse().unwrap(), None), "2026-07-01T12:00:00+00:00");
}
