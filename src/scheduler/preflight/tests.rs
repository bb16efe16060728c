use super::*;
use crate::scheduler::job::TriggerSpec;

fn check(path: Option<&str>, run_if: RunIf) -> Preflight {
    Preflight { tool: "look".into(), args: Map::new(), path: path.map(Into::into), run_if }
}

fn requiring(tools: &[&str]) -> JobSpec {
    let required_tools = tools.iter().map(|tool| (*tool).to_owned()).collect();
    JobSpec { required_tools, ..JobSpec::new(TriggerSpec::Manual) }
}

#[test]
fn the_printed_jobs_are_checked_by_the_default_rules_and_no_others_are() {
    let rules = defaults();
    let tool = |name: &str, tools: &[&str]| {
        let spec = requiring(tools);
        of(name, &spec, &rules).map(|check| check.tool.clone())
    };
    let (events, mail) = ("gmail_list_events", "gmail_get_new_emails");
    assert_eq!(tool("Pre-meeting Prep", &[events, "memory_list_contacts"]).as_deref(), Some(events));
    assert_eq!(tool("Meeting Overload Warning", &[events]).as_deref(), Some(events));
    assert_eq!(tool("PREPARE", &[events]).as_deref(), Some(events));
    assert_eq!(tool("Email Processor", &[mail]).as_deref(), Some(mail));
    assert_eq!(tool("Morning Briefing", &[events, mail]), None, "neither name");
    assert_eq!(tool("Email Processor", &[events]), None, "another tool");
    assert_eq!(tool("Meeting notes", &[mail]), None);
    let meeting = rules.iter().find(|rule| rule.check.tool == events).unwrap();
    let args = meeting.check.arguments("2026-03-02T10:00:00Z".parse().unwrap(), "Europe/Berlin");
    assert_eq!(args["time_min"], "2026-03-02T11:00:00+01:00");
    assert_eq!(args["time_max"], "2026-03-02T13:00:00+01:00");
    assert_eq!(args["calendar_id"], "all");
}

#[test]
fn a_jobs_own_check_comes_before_the_rules() {
    let own = check(None, RunIf::NotEmpty);
    let spec = JobSpec { preflight: Some(own.clone()), ..requiring(&["gmail_list_events"]) };
    assert_eq!(of("meeting", &spec, &defaults()), Some(&own));
}

#[test]
fn an_answer_without_anything_in_it_is_empty() {
    for nothing in [
        json!(null),
        json!(""),
        json!(" \n"),
        json!([]),
        json!({}),
        json!(0),
        json!(false),
        json!({"events": []}),
        json!({"events": [], "nextPageToken": "x", "count": 0}),
        json!({"success": true, "data": {"emails": [], "total": 0}}),
        json!({"success": true, "result": []}),
        json!({"calendars": {"primary": {"busy": []}, "work": {"busy": []}}, "timeMin": "2026-01-01"}),
        json!({"count": 0, "query": "is:unread"}),
    ] {
        assert!(!check(None, RunIf::NotEmpty).holds(&nothing), "{nothing}");
        assert!(check(None, RunIf::Empty).holds(&nothing), "{nothing}");
    }
    for something in [
        json!("No events found."),
        json!([1]),
        json!({"events": [{"id": 1}]}),
        json!({"events": [], "emails": [{}]}),
        json!({"success": true, "data": {"emails": [{}]}}),
        json!({"calendars": {"primary": {"busy": []}, "work": {"busy": [{}]}}}),
        json!({"id": "x"}),
        json!({"count": 2}),
        json!(true),
    ] {
        assert!(check(None, RunIf::NotEmpty).holds(&something), "{something}");
        assert!(!check(None, RunIf::Empty).holds(&something), "{something}");
    }
}

#[test]
fn conditions_look_where_their_path_leads() {
    let answer = json!({"calendars": [{"id": "a", "busy": []}, {"id": "b", "busy": [1, 2]}], "unread": 3, "state": "on"});
    for (path, run_if, holds) in [
        (Some("calendars.*.busy"), RunIf::NotEmpty, true),
        (Some("calendars.0.busy"), RunIf::NotEmpty, false),
        (Some("calendars.0.busy"), RunIf::Empty, true),
        (Some("calendars.*.busy"), RunIf::AtLeast(2.0), true),
        (Some("calendars.*.busy"), RunIf::AtLeast(3.0), false),
        (Some("unread"), RunIf::AtLeast(3.0), true),
        (Some("unread"), RunIf::AtLeast(4.0), false),
        (Some("unread"), RunIf::Equals(json!(3.0)), true),
        (Some("state"), RunIf::Equals(json!("on")), true),
        (Some("state"), RunIf::NotEquals(json!("on")), false),
        (Some("state"), RunIf::NotEquals(json!("off")), true),
        (Some("nowhere.at.all"), RunIf::NotEmpty, false),
        (Some("nowhere"), RunIf::Equals(json!(null)), false),
        (Some("nowhere"), RunIf::NotEquals(json!(1)), true),
    ] {
        assert_eq!(check(path, run_if.clone()).holds(&answer), holds, "{path:?} {run_if:?}");
    }
}

#[test]
fn times_are_filled_in_and_other_braces_stay() {
    let args =
        json!({"a": "from {{now-1d}} to {{ now + 90m }}", "b": ["{{later}}", "{{now*2}}", "{{now"], "c": 5});
    let check = Preflight { args: args.as_object().unwrap().clone(), ..check(None, RunIf::NotEmpty) };
    let filled = check.arguments("2026-03-02T10:00:00Z".parse().unwrap(), "UTC");
    assert_eq!(
        Value::from(filled),
        json!({"a": "from 2026-03-01T10:00:00+00:00 to 2026-03-02T11:30:00+00:00",
            "b": ["{{later}}", "{{now*2}}", "{{now"], "c": 5})
    );
}

#[test]
fn a_pattern_matches_either_case_and_a_broken_one_is_refused() {
    assert!(regex("Meeting|prep").unwrap().is_match("my PREParation"));
    assert!(regex("(").is_err() && regex(&"a{1000}".repeat(100)).is_err());
}

#[test]
fn a_check_is_read_and_what_is_wrong_with_it_told() {
    let whole = json!({"tool": "look", "args": {"q": "{{now}}"}, "path": "a.*.b", "run_if": {"at_least": 2}});
    let read = super::read(&whole).unwrap();
    assert_eq!((read.path.as_deref(), &read.run_if), (Some("a.*.b"), &RunIf::AtLeast(2.0)));
    assert_eq!(super::read(&serde_json::to_value(&read).unwrap()).unwrap(), read);
    let short = super::read(&json!({"toolName": "look", "parameters": {}, "run_if": null})).unwrap();
    assert_eq!(short, check(None, RunIf::NotEmpty));
    for (written, place) in [
        (json!("look"), ""),
        (json!({}), "/tool"),
        (json!({"tool": ""}), "/tool"),
        (json!({"tool": "look", "args": []}), "/args"),
        (json!({"tool": "look", "path": "a..b"}), "/path"),
        (json!({"tool": "look", "run_if": "often"}), "/run_if"),
        (json!({"tool": "look", "run_if": {"at_least": "x"}}), "/run_if"),
        (json!({"tool": "look", "toll": 1}), "/toll"),
    ] {
        assert_eq!(super::read(&written).unwrap_err().0, place, "{written}");
    }
}
