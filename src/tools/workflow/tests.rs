use super::*;

fn answers() -> Answers {
    let answers = json!({
        "step1": {"id": 7, "title": "News", "items": [{"name": "a"}, {"name": "b"}], "ok": true, "none": null},
        "text": "plain",
        "wrapped": {"result": [1, 2]},
        "script": {"success": true, "result": {"path": "a.md", "lines": ["x"]}},
        "hive": {"success": true, "data": {"id": 3}},
    });
    answers.as_object().unwrap().clone()
}

fn filled_one(value: &Value) -> Result<Value, String> {
    let parameters = json!({ "x": value });
    filled(parameters.as_object().unwrap(), &answers()).map(|mut filled| filled.remove("x").unwrap())
}

#[test]
fn a_placeholder_alone_keeps_the_type_of_what_was_answered() {
    for (written, meant) in [
        (json!("{{step1.id}}"), json!(7)),
        (json!("{{ step1.ok }}"), json!(true)),
        (json!("{{step1.none}}"), json!(null)),
        (json!("{{step1.items}}"), json!([{"name": "a"}, {"name": "b"}])),
        (json!("{{step1.items.1.name}}"), json!("b")),
        (json!("{{text}}"), json!("plain")),
        (json!("{{text.result}}"), json!("plain")),
        (json!("{{wrapped.result}}"), json!([1, 2])),
        (json!("{{script.path}}"), json!("a.md")),
        (json!("{{script.result.lines.0}}"), json!("x")),
        (json!("{{script.success}}"), json!(true)),
        (json!("{{hive.id}}"), json!(3)),
        (json!({"deep": [["{{step1.id}}"]]}), json!({"deep": [[7]]})),
    ] {
        assert_eq!(filled_one(&written), Ok(meant), "{written}");
    }
    let all = filled_one(&json!("{{step1.result}}")).unwrap();
    assert_eq!((&all["id"], &all["title"]), (&json!(7), &json!("News")));
}

#[test]
fn within_other_text_it_becomes_text() {
    for (written, meant) in [
        ("no. {{step1.id}}: {{step1.title}}!", "no. 7: News!"),
        ("{{step1.items.0}}?", "{\"name\":\"a\"}?"),
        ("{{step1.id}}{{step1.id}}", "77"),
        (" {{step1.id}}", " 7"),
    ] {
        assert_eq!(filled_one(&json!(written)), Ok(json!(meant)), "{written}");
    }
}

#[test]
fn what_is_no_placeholder_stays() {
    for text in ["", "{{}}", "{{ a b }}", "{{#if x}}", "{{open", "}}{{", "{ {step1.id} }", "{{a..b}}"] {
        assert_eq!(filled_one(&json!(text)), Ok(json!(text)));
    }
    assert_eq!(filled_one(&json!("{{{step1.id}}}")), Ok(json!("{7}")), "the inner pair");
    for value in [json!(1.5), json!(null), json!([]), json!({})] {
        assert_eq!(filled_one(&value), Ok(value.clone()));
    }
}

#[test]
fn a_field_that_was_not_answered_is_told_with_what_there_is() {
    for (written, told) in [
        (
            "{{step1.titel}}",
            "{{step1.titel}}: step1 answered no \"titel\"; it has id, title, items, ok, none",
        ),
        ("{{step1.items.2}}", "{{step1.items.2}}: step1.items answered no \"2\"; it is a list of 2"),
        ("x {{step2.id}}", "{{step2.id}}: no step \"step2\" ran before"),
        ("{{text.length}}", "{{text.length}}: text answered no \"length\"; it is text"),
        ("{{step1.none.x}}", "{{step1.none.x}}: step1.none answered no \"x\"; it is null"),
    ] {
        assert_eq!(filled_one(&json!(written)), Err(told.to_owned()));
    }
}

#[test]
fn an_action_is_read_in_every_form_that_models_write() {
    let call = Action::ToolCall {
        tool: "send".into(),
        parameters: json!({"message": "Hello!"}).as_object().unwrap().clone(),
    };
    let args = json!({"message": "Hello!"});
    for written in [
        json!({"type": "tool_call", "toolName": "send", "parameters": args}),
        json!({"toolName": "send", "parameters": args.to_string()}),
        json!({"type": "tool_call", "tool": "send", "params": args, "workflowSteps": null}),
        json!(json!({"tool_name": " send ", "args": args}).to_string()),
    ] {
        assert_eq!(Action::read(&written), Ok(call.clone()), "{written}");
    }
    assert_eq!(Action::read(&call.shown()), Ok(call));
    let steps = json!([{"toolName": "search", "parameters": {"q": "x"}}, {"id": "send", "tool": "send", "params": {
        "message": "{{step1.title}}"}, "dependsOn": "step1"}]);
    let workflow = Action::read(&json!({"type": "workflow", "workflowSteps": steps})).unwrap();
    let Action::Workflow(read) = &workflow else { panic!() };
    assert_eq!(read.iter().map(|step| step.id.as_str()).collect::<Vec<_>>(), ["step1", "send"]);
    let calls = workflow.calls();
    assert_eq!((calls[1].0.as_str(), calls[1].1), ("/workflowSteps/1", "send"));
    let waits: Vec<bool> = calls.iter().map(|(_, _, parameters)| waits(parameters)).collect();
    assert_eq!(waits, [false, true]);
    assert_eq!(Action::read(&json!({"workflowSteps": steps.to_string()})), Ok(workflow.clone()));
    assert_eq!(Action::read(&workflow.shown()), Ok(workflow));
}

#[test]
fn everything_that_is_wrong_with_an_action_is_told_with_its_place() {
    let step = |id: &str| json!({"id": id, "toolName": "a"});
    for (written, place, told) in [
        (json!("send"), "", "action must be an object"),
        (json!({"type": "script", "toolName": "a"}), "/type", "\"tool_call\" or \"workflow\""),
        (json!({"type": "tool_call"}), "/toolName", "toolName is missing"),
        (json!({"toolName": "a", "parameters": 5}), "/parameters", "must be an object"),
        (json!({"toolName": "a", "paramters": {}}), "/paramters", "unknown key"),
        (
            json!({"type": "tool_call", "toolName": "a", "workflowSteps": []}),
            "/workflowSteps",
            "type workflow",
        ),
        (json!({"type": "workflow"}), "/workflowSteps", "needs workflowSteps"),
        (json!({"type": "workflow", "workflowSteps": []}), "/workflowSteps", "1 to 50 steps"),
        (json!({"workflowSteps": ["a"]}), "/workflowSteps/0", "must be an object"),
        (
            json!({"workflowSteps": [step("a"), step("a")]}),
            "/workflowSteps/1/id",
            "two steps are called \"a\"",
        ),
        (json!({"workflowSteps": [step("a b")]}), "/workflowSteps/0/id", "letters, digits"),
        (
            json!({"workflowSteps": [{"toolName": "a", "parameters": {"x": "{{step2.y}}"}}, step("step2")]}),
            "/workflowSteps/0/parameters",
            "{{step2.y}} is no answer of an earlier step: it is the first step",
        ),
    ] {
        let faults = Action::read(&written).unwrap_err();
        assert_eq!(faults.len(), 1, "{written}: {faults:?}");
        assert_eq!(faults[0].0, place, "{written}");
        assert!(faults[0].1.contains(told), "{written}: {faults:?}");
    }
}

proptest::proptest! {
    #[test]
    fn any_text_is_filled_in_or_refused_and_text_without_braces_stays(text in ".{0,40}", tail in "[{}a-z. ]{0,20}") {
        let written = format!("{text}{tail}");
        let done = filled_one(&json!(written));
        if !written.contains("{{") {
            proptest::prop_assert_eq!(done, Ok(json!(written)));
        }
    }
}
