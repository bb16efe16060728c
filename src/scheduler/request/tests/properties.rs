//! What holds for any body.

use proptest::prelude::*;

use super::*;

/// Any JSON, with keys and texts that often mean something.
fn anything() -> impl Strategy<Value = Value> {
    let words = prop::sample::select(vec![
        "agent",
        "agent_id",
        "name",
        "enabled",
        "trigger",
        "trigger_config",
        "trigger_type",
        "type",
        "schedule",
        "cron",
        "every",
        "interval_minutes",
        "at",
        "in_minutes",
        "in_hours",
        "event",
        "manual",
        "timezone",
        "tool",
        "args",
        "parameters",
        "toolName",
        "instructions",
        "execution_plan",
        "required_tools",
        "max_steps",
        "timeout",
        "missed",
        "missed_within",
        "overlap",
        "retries",
        "jitter",
        "notify",
        "on_completion",
        "targets",
        "count",
        "after",
        "id",
    ]);
    let texts = prop::sample::select(vec![
        "0 9 * * *",
        "*/5 * * * *",
        "@hourly",
        "30m",
        "1h",
        "true",
        "0",
        "-1",
        "9e99",
        "UTC",
        "Asia/Tokyo",
        "cron",
        "manual",
        "2026-12-24T18:00:00",
        "2026-12-24T18:00:00Z",
        "[\"a\"]",
        "{\"at\": \"x\"}",
        "[{\"tool\": \"t\"}]",
        "last",
    ]);
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        (0_i64..100).prop_map(Value::from),
        texts.prop_map(Value::from),
        "\\PC{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 60, 10, move |inner| {
        let key = prop_oneof![8 => words.clone().prop_map(str::to_owned), 1 => "\\PC{0,8}"];
        prop_oneof![
            1 => prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            3 => prop::collection::vec((key, inner), 0..10).prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

/// Bodies that are right more often than not.
fn sensible() -> impl Strategy<Value = Value> {
    let trigger = prop::sample::select(vec![
        json!({"schedule": "0 9 * * MON-FRI"}),
        json!({"schedule": "@daily", "timezone": "Europe/Berlin"}),
        json!({"trigger_config": {"interval_minutes": 7.5}}),
        json!({"in_hours": "36"}),
        json!({"trigger": {"type": "one-shot", "at": "2026-10-25T02:30:00", "timezone": "Europe/Berlin"}}),
        json!({"event": ["a", "b:*"]}),
        json!({"trigger_type": "manual"}),
    ]);
    let action = prop::sample::select(vec![
        json!({"instructions": "Do it."}),
        json!({"tool": "t", "args": {"a": [1, null, {"b": 1.5}]}}),
        json!({"execution_plan": [{"toolName": "t", "parameters": {"x": "y"}}], "instructions": "x"}),
        json!({"execution_plan": [{"tool": "a"}, {"tool": "b"}], "instructions": "x", "required_tools": "b"}),
    ]);
    let policy =
        ("[a-zA-Zäöü ]{1,20}x", 1_u32..1000, 0_u32..=10, 1_u64..600_000, 0_u64..86_400, any::<bool>());
    (trigger, action, policy).prop_map(
        |(trigger, action, (name, steps, retries, timeout, jitter, enabled))| {
            let mut body = json!({
                "name": name, "max_steps": steps, "retries": retries, "timeout": format!("{timeout}s"),
                "jitter": format!("{jitter}s"), "enabled": enabled, "notify_on_completion": enabled,
            });
            for part in [trigger, action] {
                body.as_object_mut().unwrap().extend(part.as_object().unwrap().clone());
            }
            body
        },
    )
}

proptest! {
    #[test]
    fn no_body_makes_it_panic_and_each_refusal_has_a_reason(body in anything()) {
        let old = created(&super::body(&json!({"schedule": "0 9 * * *", "tool": "t"})));
        let existing = Existing { agent: &old.agent, name: &old.name, enabled: true, spec: &old.spec };
        let answers = with_context(|ctx| [
            create(&body, ctx).err(),
            update(&existing, &body, ctx).err(),
            preview(&body, ctx).err(),
        ]);
        for faults in answers.into_iter().flatten() {
            prop_assert!(!faults.is_empty());
            for fault in faults {
                prop_assert!(!fault.detail.is_empty());
                let place = fault.pointer.rsplit_once('/').map_or("", |(parent, _)| parent);
                prop_assert!(body.pointer(place).is_some(), "{fault:?}");
            }
        }
    }

    #[test]
    fn what_is_made_can_be_made_again_from_what_is_shown(body in sensible()) {
        let job = created(&body);
        prop_assert!(job.spec.trigger.compile().is_ok());
        let shown = Value::Object(view(&job.agent, &job.name, job.enabled, &job.spec));
        let again = created(&shown);
        prop_assert_eq!(Draft { notes: job.notes.clone(), ..again }, job.clone());
        let existing = Existing { agent: &job.agent, name: &job.name, enabled: job.enabled, spec: &job.spec };
        let update = with_context(|ctx| update(&existing, &shown, ctx)).unwrap();
        prop_assert!(!update.trigger_changed);
        prop_assert_eq!(&update.draft.spec, &job.spec);
    }
}
