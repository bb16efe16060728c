//! The forms of the Annabelle documents: each line of their tables, each printed call (systems.md A2 to A6).

use super::*;

#[test]
fn the_printed_calls_are_understood_as_printed() {
    // 000, direct tier.
    let water = created(&json!({
        "name": "Drink water reminder",
        "trigger_type": "cron",
        "trigger_config": {"in_minutes": 30},
        "instructions": "Send a reminder to drink water",
        "required_tools": ["telegram_send_message"],
        "execution_plan": [{"id": "step1", "toolName": "telegram_send_message",
            "parameters": {"chat_id": "8304042211", "message": "Drink water!"}}],
        "notify_on_completion": false,
        "agent_id": "thinker"
    }));
    assert_eq!(
        (water.agent.as_str(), water.name.as_str(), water.enabled),
        ("thinker", "Drink water reminder", true)
    );
    assert_eq!(water.spec.trigger, once("2026-02-14T17:30:00Z", ZONE));
    assert_eq!(water.spec.tier(), Tier::Direct);
    assert_eq!(water.spec.tool.as_deref(), Some("telegram_send_message"));
    assert_eq!(Value::from(water.spec.args), json!({"chat_id": "8304042211", "message": "Drink water!"}));
    assert_eq!(water.spec.instructions.as_deref(), Some("Send a reminder to drink water"));
    assert_eq!(water.spec.required_tools, ["telegram_send_message"]);
    assert!(!water.spec.notify.on_completion);
    assert_eq!(water.notes, ["in_minutes became the time 2026-02-14T12:30:00-05:00"]);

    // 000, agent tier; 001 prints the same without the agent.
    let briefing = json!({
        "name": "Morning Briefing",
        "trigger_type": "cron",
        "trigger_config": {"schedule": "0 6 * * *"},
        "instructions": "Check unread emails, summarize the top 5, and send a briefing via Telegram.",
        "required_tools": ["gmail_list_messages", "gmail_get_message", "telegram_send_message"],
        "max_steps": 15,
        "notify_on_completion": true,
        "agent_id": "thinker"
    });
    let first = created(&briefing);
    assert_eq!(first.spec.tier(), Tier::Agent);
    assert_eq!(first.spec.trigger, cron("0 6 * * *", ZONE));
    assert_eq!((first.spec.max_steps, first.spec.notify.on_completion), (15, true));
    assert_eq!(first.spec.required_tools.len(), 3);
    assert_eq!(
        first.notes,
        ["no time zone was named: the schedule is in that of the hive, America/New_York"]
    );
    let mut without = briefing;
    without.as_object_mut().unwrap().remove("agent_id");
    let second = created(&without);
    assert_eq!((second.agent.as_str(), &second.spec), ("thinker", &first.spec));
    assert!(second.notes[0].contains("default agent, thinker"), "{:?}", second.notes);

    // 001, direct tier.
    let hourly = created(&json!({
        "name": "Drink water reminder",
        "trigger_type": "cron",
        "trigger_config": {"schedule": "0 * * * *"},
        "instructions": "Send a reminder to drink water",
        "required_tools": ["telegram_send_message"],
        "execution_plan": [{
            "id": "step1",
            "toolName": "telegram_send_message",
            "parameters": {"message": "Drink water!"}
        }],
        "notify_on_completion": false
    }));
    assert_eq!((hourly.spec.tier(), hourly.spec.trigger), (Tier::Direct, cron("0 * * * *", ZONE)));
}

#[test]
fn every_trigger_of_the_documents_is_read_nested_in_a_string_and_flat() {
    let cases = [
        (json!({"schedule": "0 9 * * *"}), cron("0 9 * * *", ZONE)),
        (json!({"schedule": "0 9 * * *", "timezone": "europe/berlin"}), cron("0 9 * * *", "Europe/Berlin")),
        (json!({"schedule": "*/5 * * * *"}), cron("*/5 * * * *", ZONE)),
        (json!({"schedule": "0 */3 * * *"}), cron("0 */3 * * *", ZONE)),
        (json!({"interval_minutes": 30}), every("30m")),
        (json!({"at": "2026-02-14T15:00:00"}), once("2026-02-14T20:00:00Z", ZONE)),
        (json!({"in_minutes": 5}), once("2026-02-14T17:05:00Z", ZONE)),
        (json!({"in_minutes": 10}), once("2026-02-14T17:10:00Z", ZONE)),
        (json!({"in_minutes": 60}), once("2026-02-14T18:00:00Z", ZONE)),
        (json!({"in_hours": 2}), once("2026-02-14T19:00:00Z", ZONE)),
        // Aliases.
        (json!({"cronExpression": "0 9 * * *"}), cron("0 9 * * *", ZONE)),
        (json!({"cron_expression": "0 9 * * *"}), cron("0 9 * * *", ZONE)),
        (json!({"cron": "0 9 * * *"}), cron("0 9 * * *", ZONE)),
        (json!({"intervalMinutes": 30}), every("30m")),
        (json!({"inMinutes": 5}), once("2026-02-14T17:05:00Z", ZONE)),
        (json!({"inHours": 0.5}), once("2026-02-14T17:30:00Z", ZONE)),
        // Numbers from strings.
        (json!({"interval_minutes": "90"}), every("1h30m")),
        (json!({"in_minutes": " 5 "}), once("2026-02-14T17:05:00Z", ZONE)),
    ];
    for (config, trigger) in cases {
        let text = config.to_string();
        for form in [
            json!({"trigger_type": "cron", "trigger_config": config}),
            json!({"trigger_type": "cron", "trigger_config": text}),
            json!({"triggerType": "cron", "triggerConfig": config}),
            json!({"trigger_config": config}),
            json!({"trigger": config}),
            config.clone(),
        ] {
            assert_eq!(created(&body(&form)).spec.trigger, trigger, "{form}");
        }
    }
}

#[test]
fn types_are_read_and_inferred() {
    let event = TriggerSpec::Event { event: vec!["report".into()] };
    for (keys, trigger) in [
        (json!({"trigger_type": "manual"}), TriggerSpec::Manual),
        (json!({"trigger_type": "Manual", "trigger_config": {}}), TriggerSpec::Manual),
        (json!({"trigger_type": "manual", "trigger_config": ""}), TriggerSpec::Manual),
        (json!({"trigger_type": "manual", "trigger_config": null, "schedule": null}), TriggerSpec::Manual),
        (json!({"trigger_type": "event", "trigger_config": {"event": "report"}}), event.clone()),
        (json!({"trigger_type": "event", "event": ["report"]}), event.clone()),
        (json!({"trigger_config": {"event_name": "report"}}), event),
    ] {
        assert_eq!(created(&body(&keys)).spec.trigger, trigger, "{keys}");
    }
}

#[test]
fn lists_numbers_and_booleans_are_read_out_of_strings() {
    let manual = |keys| created(&body(&json!({"manual": true}))).spec == created(&body(&keys)).spec;
    assert!(manual(json!({"manual": "true", "max_steps": "10", "notify_on_completion": "TRUE"})));
    for (written, tools) in [
        (json!(["tool_a", "tool_b", "tool_a"]), &["tool_a", "tool_b"][..]),
        (json!("[\"tool_a\"]"), &["tool_a"]),
        (json!("tool_a"), &["tool_a"]),
        (json!(" "), &[]),
        (json!("[]"), &[]),
        (json!(null), &[]),
    ] {
        let job = created(&body(&json!({"trigger_type": "manual", "required_tools": written})));
        assert_eq!(job.spec.required_tools, tools, "{written}");
    }
    let job = created(&body(&json!({
        "trigger_type": "manual", "max_steps": "15", "notify_on_completion": "false", "enabled": "false",
        "notify_interval_minutes": "30", "retries": 2.0
    })));
    assert_eq!((job.spec.max_steps, job.spec.retries, job.enabled), (15, 2, false));
    assert_eq!((job.spec.notify.on_completion, job.spec.notify.interval_minutes), (false, 30));
    // The columns of their table are numbers.
    let job = created(&body(&json!({"trigger_type": "manual", "notify_on_completion": 0, "enabled": 1})));
    assert_eq!((job.spec.notify.on_completion, job.enabled), (false, true));
}

#[test]
fn a_plan_of_one_step_is_a_tool_call_however_it_is_written() {
    let args = json!({"message": "hello"});
    let step = json!({"tool": "telegram_send_message", "params": args});
    for plan in [
        json!([{"id": "step1", "toolName": "telegram_send_message", "parameters": args}]),
        json!([{"id": "step1", "toolName": "telegram_send_message", "parameters": args.to_string()}]),
        json!([{"tool_name": "telegram_send_message", "arguments": args}]),
        json!([step]),
        json!(step),
        json!(step.to_string()),
        json!(format!("[{step}]")),
    ] {
        let job = created(&json!({"name": "x", "trigger_type": "manual", "execution_plan": plan}));
        assert_eq!(job.spec.tool.as_deref(), Some("telegram_send_message"), "{plan}");
        assert_eq!(Value::from(job.spec.args), args, "{plan}");
        assert_eq!(job.notes.len(), 1, "only of the agent");
    }
    let bare = json!({"name": "x", "trigger_type": "manual", "execution_plan": [{"tool": "a"}]});
    assert!(created(&bare).spec.args.is_empty());
}

#[test]
fn a_longer_plan_is_left_to_the_agent_and_the_reply_says_so() {
    let job = created(&body(&json!({
        "trigger_type": "manual",
        "required_tools": ["b", "z"],
        "execution_plan": [
            {"id": "1", "toolName": "a", "parameters": {}},
            {"id": "2", "toolName": "b", "dependsOn": "1"},
            {"tool": "a", "params": "{{step1.result}}"},
        ]
    })));
    assert_eq!(job.spec.tier(), Tier::Agent);
    assert_eq!((job.spec.tool, job.spec.args.is_empty()), (None, true));
    assert_eq!(job.spec.required_tools, ["b", "z", "a"]);
    assert!(
        job.notes.iter().any(|note| note.starts_with("the plan of 3 steps was dropped")),
        "{:?}",
        job.notes
    );
    let (place, told) = only(&json!({
        "name": "x", "trigger_type": "manual", "execution_plan": [{"tool": "a"}, {"tool": "b"}]
    }));
    assert_eq!(place, "/instructions");
    assert!(told.contains("a plan of 2 steps is left to the agent"), "{told}");
}

#[test]
fn an_empty_plan_counts_as_absent() {
    for plan in [json!([]), json!("[]"), json!(""), json!(null)] {
        let job = created(&body(&json!({"trigger_type": "manual", "execution_plan": plan})));
        assert_eq!((job.spec.tier(), job.notes.len()), (Tier::Agent, 1), "{plan}");
    }
}

#[test]
fn the_agent_is_the_one_named_else_the_caller_else_the_default() {
    let manual = body(&json!({"trigger_type": "manual"}));
    let (now, caller, default) = (NOW.parse().unwrap(), id("caller"), id("thinker"));
    let context = |caller, default_agent| Context { now, zone: ZONE, caller, default_agent };
    let agent = |body: &Value, ctx: &Context<'_>| create(body, ctx).map(|draft| draft.agent.to_string());
    let named = body(&json!({"trigger_type": "manual", "agent_id": "main"}));
    assert_eq!(agent(&named, &context(Some(&caller), Some(&default))).unwrap(), "main");
    assert_eq!(agent(&manual, &context(Some(&caller), Some(&default))).unwrap(), "caller");
    assert_eq!(agent(&manual, &context(None, Some(&default))).unwrap(), "thinker");
    let faults = agent(&manual, &context(None, None)).unwrap_err();
    assert_eq!(faults[0].pointer, "/agent");
    assert!(faults[0].detail.contains("set default_agent"), "{faults:?}");
}

#[test]
fn a_form_that_fits_no_trigger_is_refused_with_the_reason() {
    #[rustfmt::skip]
    let cases = [
        // The diagram of 000 prints three fields.
        (json!({"trigger_config": {"schedule": "0 9 *"}}), "/trigger_config/schedule", "0 9 *"),
        (json!({"schedule": "61 * * * *"}), "/schedule", "61"),
        (json!({"schedule": "0 0 30 2 *"}), "/schedule", "never"),
        (json!({"schedule": ""}), "/schedule", ""),
        (json!({"schedule": 5}), "/schedule", "must be a string, not 5"),
        (json!({"trigger_type": "cron"}), "/trigger_type", "type cron does not say when (write schedule, interval_minutes, at, in_minutes or in_hours)"),
        (json!({"trigger_type": "cron", "trigger_config": {}}), "/trigger_type", "does not say when"),
        (json!({"trigger_type": "cron", "event": "x"}), "/event", "a trigger of type cron has no event"),
        (json!({"trigger_type": "manual", "trigger_config": {"schedule": "0 9 * * *"}}), "/trigger_config/schedule", "a manual job has no schedule"),
        (json!({"trigger_type": "manual", "in_minutes": 5}), "/in_minutes", "a manual job has no in_minutes"),
        (json!({"trigger_type": "event"}), "/trigger_type", "to match the words of a message is not supported yet"),
        (json!({"trigger_type": "event", "trigger_config": {"keywords": ["mail"]}}), "/trigger_config/keywords", "not supported by this version yet"),
        (json!({"trigger_type": "event", "schedule": "0 9 * * *"}), "/schedule", "a trigger of type event has no schedule"),
        (json!({"trigger_type": "webhook", "manual": true}), "/trigger_type", "cannot be \"webhook\""),
        (json!({"trigger_type": "manaul"}), "/trigger_type", "did you mean \"manual\"?"),
        (json!({"schedule": "0 9 * * *", "interval_minutes": 5}), "/interval_minutes", "schedule and interval_minutes are both written"),
        (json!({"trigger_config": {"in_minutes": 5}, "inHours": 1}), "/inHours", "in_minutes and inHours are both written"),
        (json!({"trigger_config": {"schedule": "0 9 * * *"}, "cron": "0 8 * * *"}), "/cron", "schedule and cron mean the same and differ"),
        (json!({"interval_minutes": 0}), "/interval_minutes", "1s"),
        (json!({"interval_minutes": -5}), "/interval_minutes", "must be from 0"),
        (json!({"interval_minutes": "soon"}), "/interval_minutes", "must be a number, not \"soon\""),
        (json!({"in_minutes": -5}), "/in_minutes", "must be from 0"),
        (json!({"in_minutes": 1e300}), "/in_minutes", "a hundred years"),
        (json!({"in_hours": []}), "/in_hours", "must be a number, not a list"),
        (json!({"at": "2026-02-14T11:58:00"}), "/at", "in the past, 2 minutes ago"),
        (json!({"at": "next tuesday"}), "/at", "cannot be read as a time"),
        (json!({"schedule": "0 9 * * *", "timezone": "Europe/Berln"}), "/timezone", "did you mean `Europe/Berlin`?"),
        (json!({"trigger_config": "{\"schedule\": \"0 9 *\"}"}), "/trigger_config", "0 9 *"),
        (json!({"trigger_config": "every day"}), "/trigger_config", "must be an object, not \"every day\""),
        (json!({"trigger_config": {"cronExpresion": "0 9 * * *"}}), "/trigger_config/cronExpresion", "did you mean \"cron_expression\"?"),
        (json!({"timezone": "Europe/Berlin"}), "", "a time zone alone is no trigger"),
        (json!({}), "/trigger", "a job needs a trigger"),
    ];
    for (keys, place, told) in cases {
        let (pointer, detail) = only(&body(&keys));
        assert_eq!(pointer, place, "{keys}: {detail}");
        assert!(detail.contains(told), "{keys}: {detail}");
    }
}

#[test]
fn a_time_of_the_last_minute_still_counts() {
    let job = created(&body(&json!({"at": "2026-02-14T11:59:30"})));
    assert_eq!(job.spec.trigger, once("2026-02-14T16:59:30Z", ZONE));
    assert_eq!(created(&body(&json!({"in_minutes": 0}))).spec.trigger, once(NOW, ZONE));
}
