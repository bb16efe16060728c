//! Changes of a job: only what is written changes.

use super::*;

fn direct() -> Draft {
    created(&body(
        &json!({"schedule": "0 9 * * *", "tool": "t", "args": {"a": 1}, "required_tools": ["r"], "max_steps": 4}),
    ))
}

fn agents() -> Draft {
    created(&body(&json!({"every": "1h", "required_tools": ["r"]})))
}

fn changed(old: &Draft, body: &Value) -> Result<Update, Vec<Fault>> {
    let existing = Existing { agent: &old.agent, name: &old.name, enabled: old.enabled, spec: &old.spec };
    with_context(|ctx| update(&existing, body, ctx))
}

fn spec(old: &Draft, body: &Value) -> JobSpec {
    changed(old, body).unwrap_or_else(|faults| panic!("{body}\n{faults:#?}")).draft.spec
}

#[test]
fn nothing_written_changes_nothing() {
    for old in [direct(), agents()] {
        for body in [json!({}), json!({"id": 5, "tier": "agent", "trigger": null, "execution_plan": []})] {
            let update = changed(&old, &body).unwrap();
            assert_eq!(update.draft, Draft { notes: vec![], ..old.clone() });
            assert!(!update.trigger_changed && !update.enabled_written);
        }
        let shown = Value::Object(view(&old.agent, &old.name, old.enabled, &old.spec));
        let update = changed(&old, &shown).unwrap();
        assert_eq!(update.draft.spec, old.spec);
        assert!(!update.trigger_changed && update.enabled_written);
    }
}

#[test]
fn only_what_is_written_changes() {
    let old = direct();
    let update =
        changed(&old, &json!({"name": "y", "enabled": "false", "max_steps": "9", "timeout": "5m"})).unwrap();
    assert_eq!(
        (update.draft.name.as_str(), update.draft.enabled, update.enabled_written),
        ("y", false, true)
    );
    let timeout = Some(std::time::Duration::from_secs(300));
    assert_eq!(update.draft.spec, JobSpec { max_steps: 9, timeout, ..old.spec.clone() });
    assert_eq!(spec(&old, &json!({"args": {"b": 2}})).args, *json!({"b": 2}).as_object().unwrap());
    assert_eq!(spec(&old, &json!({"tool": "u"})).args, old.spec.args);
    assert_eq!(spec(&old, &json!({"notify": {"interval_minutes": 5}})).notify.interval_minutes, 5);
    assert!(spec(&old, &json!({"notify_interval_minutes": 5})).notify.on_completion);
}

#[test]
fn null_puts_back_the_default() {
    let old = created(&body(&json!({
        "manual": true, "description": "d", "required_tools": ["r"], "max_steps": 4, "timeout": "5m", "missed": "all",
        "missed_within": "1h", "overlap": "allow", "retries": 3, "jitter": "5s", "notify": {"targets": ["a"]}
    })));
    let nulls: serde_json::Map<_, _> = [
        "description",
        "required_tools",
        "max_steps",
        "timeout",
        "missed",
        "missed_within",
        "overlap",
        "retries",
        "jitter",
        "notify",
    ]
    .iter()
    .map(|key| ((*key).to_owned(), Value::Null))
    .collect();
    let plain = created(&body(&json!({"manual": true})));
    assert_eq!(spec(&old, &Value::Object(nulls)), plain.spec);
    let update =
        changed(&old, &json!({"name": null, "enabled": null, "agent": null, "trigger": null})).unwrap();
    assert_eq!(update.draft.spec, old.spec);
    assert!(!update.enabled_written);
}

#[test]
fn a_tool_that_is_removed_takes_its_arguments_along() {
    let spec = spec(&direct(), &json!({"tool": null}));
    assert_eq!((spec.tool.as_deref(), spec.args.len(), spec.tier()), (None, 0, Tier::Agent));
    let faults = changed(&direct(), &json!({"tool": null, "instructions": null})).unwrap_err();
    assert_eq!(faults[0].pointer, "/instructions");
}

#[test]
fn a_plan_means_on_update_what_it_means_on_creation() {
    let one = spec(&agents(), &json!({"execution_plan": [{"tool": "t", "params": {"x": 1}}]}));
    assert_eq!((one.tool.as_deref(), one.args.len()), (Some("t"), 1));
    let several =
        changed(&direct(), &json!({"execution_plan": [{"tool": "a"}, {"tool": "r"}]})).unwrap().draft;
    assert_eq!((several.spec.tool.as_deref(), several.spec.args.len()), (None, 0));
    assert_eq!(several.spec.required_tools, ["r", "a"], "those it had and those of the plan");
    assert!(several.notes[0].contains("the plan of 2 steps was dropped"));
    let given = json!({"execution_plan": [{"tool": "a"}, {"tool": "b"}], "required_tools": "b"});
    assert_eq!(spec(&direct(), &given).required_tools, ["b", "a"]);
}

#[test]
fn a_trigger_that_is_written_replaces_the_old_one_whole() {
    let old = created(&body(&json!({"schedule": "0 9 * * *", "timezone": "Asia/Tokyo"})));
    let cases = [
        (json!({"trigger_config": {"schedule": "0 8 * * *"}}), cron("0 8 * * *", ZONE)),
        (json!({"cronExpression": "0 8 * * *"}), cron("0 8 * * *", ZONE)),
        (json!({"trigger": {"every": "5m"}}), every("5m")),
        (json!({"in_minutes": "5"}), once("2026-02-14T17:05:00Z", ZONE)),
        (json!({"trigger_type": "manual"}), TriggerSpec::Manual),
        (json!({"timezone": "UTC"}), cron("0 9 * * *", "UTC")),
        (json!({"trigger_type": "cron", "timezone": "UTC"}), cron("0 9 * * *", "UTC")),
    ];
    for (body, trigger) in cases {
        let update = changed(&old, &body).unwrap();
        assert_eq!((update.draft.spec.trigger, update.trigger_changed), (trigger, true), "{body}");
    }
    for body in [json!({"trigger_type": "cron"}), json!({"timezone": "asia/tokyo"})] {
        let update = changed(&old, &body).unwrap();
        assert_eq!(
            (update.draft.spec.trigger, update.trigger_changed),
            (old.spec.trigger.clone(), false),
            "{body}"
        );
        assert_eq!(update.draft.notes, Vec::<String>::new());
    }
    let faults = changed(&old, &json!({"trigger_type": "event"})).unwrap_err();
    assert_eq!(faults[0].pointer, "/trigger_type");
    let faults = changed(&old, &json!({"trigger_type": "manual", "trigger": {"every": "5m"}})).unwrap_err();
    assert_eq!(faults[0].pointer, "/trigger/every");
}

#[test]
fn a_one_shot_that_fired_may_be_sent_back_but_not_set_to_another_past_time() {
    let mut old = agents();
    old.spec.trigger = once("2026-01-01T12:00:00Z", ZONE);
    let shown = Value::Object(view(&old.agent, &old.name, false, &old.spec));
    assert!(!changed(&old, &shown).unwrap().trigger_changed);
    let faults = changed(&old, &json!({"at": "2026-01-02T12:00:00Z"})).unwrap_err();
    assert!(faults[0].detail.contains("in the past, 43 days ago"), "{faults:?}");
}

#[test]
fn a_default_that_is_sent_back_stays_a_default() {
    let shown = json!({"timeout": "60s", "missed_within": "24h"});
    assert_eq!(spec(&direct(), &shown), direct().spec);
    let minute = Some(std::time::Duration::from_secs(60));
    assert_eq!(
        spec(&direct(), &json!({"tool": null, "timeout": "60s"})).timeout,
        minute,
        "not the agent tier's"
    );
    assert_eq!(spec(&direct(), &json!({"timeout": "61s"})).timeout, minute.map(|m| m + m / 60));
}

#[test]
fn a_job_stays_with_its_agent() {
    let old = agents();
    assert!(changed(&old, &json!({"agent_id": "thinker"})).is_ok());
    let faults = changed(&old, &json!({"agent_id": "other"})).unwrap_err();
    assert_eq!(faults[0].pointer, "/agent_id");
    assert!(faults[0].detail.contains("stays with its agent, thinker"), "{faults:?}");
}

#[test]
fn new_instructions_of_a_direct_job_say_that_it_still_calls_its_tool() {
    let update = changed(&direct(), &json!({"instructions": "Think."})).unwrap();
    assert_eq!(update.draft.spec.tier(), Tier::Direct);
    assert_eq!(
        update.draft.notes,
        ["the job still calls t and nothing else: with tool null, the agent follows the instructions"]
    );
}

#[test]
fn the_whole_job_must_be_right_after_the_change() {
    let faults = changed(&agents(), &json!({"args": {"a": 1}, "max_steps": 0, "schedule": "x"})).unwrap_err();
    let places: Vec<_> = faults.iter().map(|fault| fault.pointer.as_str()).collect();
    assert_eq!(places, ["/schedule", "/args", "/max_steps"]);
}
