//! Jobs and tasks under the names of the Annabelle documents, through the API (systems.md A1 to A7, A9, A12, A21, A26).

use serde_json::{Value, json};

use super::setup::{JOBS, Open, open_with};

impl Open {
    /// Calls a tool of `writer` as the operator; what it answered.
    async fn answered(&self, name: &str, args: &Value) -> Value {
        let answer = self.call("POST", &format!("/v1/agents/writer/tools/{name}"), &args.to_string()).await;
        assert_eq!(answer.status, 200, "{name} {args}: {answer:?}");
        let reply = answer.json();
        // What the tool says of itself, the call says too.
        assert_eq!(reply["success"], reply["result"]["success"].as_bool().unwrap_or(true), "{reply}");
        reply["result"].clone()
    }

    async fn done(&self, name: &str, args: &Value) -> Value {
        let answer = self.answered(name, args).await;
        assert_eq!(answer["success"], true, "{name} {args}: {answer}");
        answer["data"].clone()
    }

    async fn refused(&self, name: &str, args: &Value) -> String {
        let answer = self.answered(name, args).await;
        assert_eq!(answer["success"], false, "{name} {args}: {answer}");
        assert_eq!(answer.as_object().unwrap().len(), 2, "{answer}");
        answer["error"].as_str().unwrap().to_owned()
    }
}

fn with(more: &Value) -> Value {
    let mut skill = json!({"name": "x", "instructions": "Do it."});
    skill.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    skill
}

#[tokio::test(flavor = "multi_thread")]
async fn a_skill_goes_through_its_life_under_the_names_of_the_documents() {
    let open = open_with(JOBS).await;
    let stored = open
        .done(
            "memory_store_skill",
            &json!({"name": "Morning Briefing", "trigger_type": "cron", "trigger_config": {"schedule": "0 6 * * *"},
                "instructions": "Read the news.", "required_tools": ["read-file"]}),
        )
        .await;
    assert_eq!((&stored["id"], &stored["agent_id"]), (&json!(1), &json!("writer")));
    assert_eq!(stored["trigger_config"], json!({"schedule": "0 6 * * *", "timezone": "Europe/Berlin"}));
    assert_eq!((&stored["tier"], &stored["execution_plan"]), (&json!("agent"), &json!(null)));
    let defaults = ["max_steps", "notify_on_completion", "notify_interval_minutes", "enabled"];
    assert_eq!(defaults.map(|key| stored[key].clone()), [json!(10), json!(true), json!(0), json!(true)]);
    assert_eq!(stored["next_fires"].as_array().unwrap().len(), 3);
    assert_eq!(stored["last_run_status"], json!(null));
    let id = json!({"id": stored["id"]});
    let changed = json!({"id": "1", "trigger_config": {"interval_minutes": 30}, "max_steps": 5});
    let changed = open.done("memory_update_skill", &changed).await;
    assert_eq!((&changed["trigger_type"], &changed["max_steps"]), (&json!("cron"), &json!(5)));
    assert_eq!(changed["trigger_config"], json!({"interval_minutes": 30}));
    let got = open.done("memory_get_skill", &id).await;
    assert_eq!(
        (&got["trigger_config"], &got["name"]),
        (&changed["trigger_config"], &json!("Morning Briefing"))
    );
    open.done("memory_store_skill", &with(&json!({"trigger_type": "manual", "enabled": false}))).await;
    for (filter, names) in [
        (json!({}), vec!["Morning Briefing", "x"]),
        (json!({"enabled": true}), vec!["Morning Briefing"]),
        (json!({"enabled": "false"}), vec!["x"]),
        (json!({"trigger_type": "cron"}), vec!["Morning Briefing"]),
        (json!({"trigger_type": "manual", "agent_id": "writer"}), vec!["x"]),
        (json!({"agent_id": "reader"}), vec![]),
    ] {
        let listed = open.done("memory_list_skills", &filter).await;
        let found: Vec<_> = listed["skills"].as_array().unwrap().iter().map(|s| s["name"].clone()).collect();
        assert_eq!(found, names, "{filter}");
    }
    assert_eq!(open.done("memory_delete_skill", &id).await, json!({"id": 1, "deleted": true}));
    for tool in ["memory_get_skill", "memory_delete_skill", "memory_update_skill"] {
        assert_eq!(open.refused(tool, &id).await, "there is no job 1");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_wrong_with_a_skill_is_an_answer_that_says_what_to_do() {
    let open = open_with(JOBS).await;
    open.done("memory_store_skill", &with(&json!({"name": "taken", "trigger_type": "manual"}))).await;
    let cron = |schedule: &str| with(&json!({"trigger_config": {"schedule": schedule}}));
    for (skill, told) in [
        (with(&json!({"name": "taken", "trigger_type": "manual"})), "it is job 1"),
        (json!({"name": "x", "trigger_type": "manual"}), "\"instructions\" is a required property"),
        (json!({"instructions": "Go.", "trigger_type": "manual"}), "\"name\" is a required property"),
        (
            json!({"name": "x", "instructions": " ", "trigger_type": "manual"}),
            "instructions: a skill needs instructions",
        ),
        (with(&json!({})), "trigger: a job needs a trigger"),
        (cron("0 9 *"), "trigger_config/schedule: "),
        (cron("99 * * * *"), "99"),
        (cron("0 0 30 2 *"), "never"),
        (cron("soon"), "trigger_config/schedule: "),
        (with(&json!({"trigger_config": {"at": "2020-01-01T00:00:00"}})), "in the past"),
        (
            with(&json!({"trigger_type": "manual", "required_tools": ["red-file"]})),
            "did you mean \"read-file\"?",
        ),
        (with(&json!({"trigger_type": "manual", "agent_id": "nobody"})), "there is no agent nobody"),
        (with(&json!({"trigger_type": "sometimes"})), "trigger_type: "),
        (with(&json!({"trigger_type": "manual", "execution_plan": [{"params": {}}]})), "names no tool"),
    ] {
        let error = open.refused("memory_store_skill", &skill).await;
        assert!(error.contains(told), "{skill}: {error}");
    }
    assert!(
        open.refused("memory_update_skill", &json!({"max_steps": 5})).await.contains("\"id\" is a required")
    );
    assert!(open.refused("memory_update_skill", &json!({"id": "first"})).await.starts_with("id: "));
    let bad = json!({"id": 1, "trigger_config": {"schedule": "0 9 *"}});
    assert!(open.refused("memory_update_skill", &bad).await.contains("trigger_config/schedule: "));
    let unknown = json!({"id": 1, "required_tools": ["nothing-like-it"]});
    assert!(open.refused("memory_update_skill", &unknown).await.contains("required_tools/0: "));
    assert!(
        open.refused("memory_list_skills", &json!({"trigger_type": "daily"}))
            .await
            .contains("trigger_type: ")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_of_one_step_is_a_direct_job_and_a_longer_one_the_agents() {
    let open = open_with(JOBS).await;
    let step = |tool: &str| json!({"tool": tool, "params": {"path": "a"}});
    let one = with(&json!({"trigger_type": "manual", "execution_plan": [step("read-file")]}));
    let direct = open.done("memory_store_skill", &one).await;
    assert_eq!(direct["tier"], "direct");
    let plan = json!([{"id": "step1", "toolName": "read-file", "parameters": {"path": "a"}}]);
    assert_eq!(direct["execution_plan"], plan);
    let steps = [step("read-file"), step("write-file"), step("read-file")];
    let many = with(&json!({"name": "y", "trigger_type": "manual", "required_tools": "[\"list-directory\"]",
        "execution_plan": steps}));
    let agents = open.done("memory_store_skill", &many).await;
    assert_eq!((&agents["tier"], &agents["execution_plan"]), (&json!("agent"), &json!(null)));
    assert_eq!(agents["required_tools"], json!(["list-directory", "read-file", "write-file"]));
    assert!(agents["notes"].to_string().contains("the plan of 3 steps was dropped"), "{agents}");
    let changed =
        open.done("memory_update_skill", &json!({"id": direct["id"], "execution_plan": steps})).await;
    assert_eq!(
        (&changed["tier"], &changed["required_tools"]),
        (&json!("agent"), &json!(["read-file", "write-file"]))
    );
    assert!(changed["notes"].to_string().contains("was dropped"), "{changed}");
    let same = open.done("memory_update_skill", &json!({"id": direct["id"], "execution_plan": []})).await;
    assert_eq!(same["tier"], "agent");
    let empty = with(&json!({"name": "z", "trigger_type": "manual", "execution_plan": "[]"}));
    assert_eq!(open.done("memory_store_skill", &empty).await["tier"], "agent");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_models_write_is_mended_on_the_way_in() {
    let open = open_with(JOBS).await;
    for (n, (written, meant)) in [
        (json!({"schedule": "0 * * * *"}), json!({"schedule": "0 * * * *", "timezone": "Europe/Berlin"})),
        (
            json!({"trigger_config": {"cronExpression": "0 9 * * *"}}),
            json!({"schedule": "0 9 * * *", "timezone": "Europe/Berlin"}),
        ),
        (json!({"intervalMinutes": "30"}), json!({"interval_minutes": 30})),
        (json!({"trigger_config": "{\"interval_minutes\": 90}"}), json!({"interval_minutes": 90})),
    ]
    .into_iter()
    .enumerate()
    {
        let skill = with(&json!({"name": format!("s{n}")}));
        let mut skill = skill.as_object().unwrap().clone();
        skill.extend(written.as_object().unwrap().clone());
        skill.extend([
            ("required_tools".to_owned(), json!("read-file")),
            ("max_steps".to_owned(), json!("15")),
            ("notify_on_completion".to_owned(), json!("false")),
        ]);
        let stored = open.done("memory_store_skill", &skill.into()).await;
        assert_eq!(
            (&stored["trigger_type"], &stored["trigger_config"]),
            (&json!("cron"), &meant),
            "{written}"
        );
        assert_eq!(stored["required_tools"], json!(["read-file"]));
        assert_eq!((&stored["max_steps"], &stored["notify_on_completion"]), (&json!(15), &json!(false)));
    }
    let once = open.done("memory_store_skill", &with(&json!({"in_minutes": 5}))).await;
    assert!(
        once["trigger_config"]["at"].is_string() && once["next_fires"].as_array().unwrap().len() == 1,
        "{once}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disabled_skill_lists_the_tools_that_it_waits_for() {
    let open = open_with(JOBS).await;
    let skill = with(
        &json!({"every": "1h", "enabled": "false", "required_tools": ["gmail_list_events", "read-file"]}),
    );
    let stored = open.done("memory_store_skill", &skill).await;
    assert_eq!(
        (&stored["enabled"], &stored["missing_tools"]),
        (&json!(false), &json!(["gmail_list_events"]))
    );
    assert!(stored["disabled_reason"].as_str().unwrap().contains("gmail_list_events"), "{stored}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_reaches_its_own_skills_and_tasks_alone() {
    let open = open_with(JOBS).await;
    let theirs = open.job("reader", "theirs", &json!({})).await;
    let call = async |tool: &str, args: Value| {
        let path = format!("/v1/agents/writer/tools/{tool}");
        open.call_as_agent("POST", &path, &args.to_string()).await.json()["result"].clone()
    };
    let stored = call("memory_store_skill", with(&json!({"trigger_type": "manual"}))).await;
    assert_eq!(stored["data"]["agent_id"], "writer", "{stored}");
    assert_eq!(call("memory_get_skill", json!({"id": theirs})).await["success"], false);
    assert_eq!(call("memory_list_skills", json!({})).await["data"]["count"], 1);
    let other = call("memory_store_skill", with(&json!({"manual": true, "agent_id": "reader"}))).await;
    assert_eq!(other["error"], "agent writer may make jobs for itself alone");
    let task = json!({"name": "t", "agent": "reader", "action": {"toolName": "read-file", "parameters": {"path": "a"}}});
    let queued = open.call("POST", "/v1/tasks", &task.to_string()).await;
    assert_eq!(queued.status, 202, "{queued:?}");
    let path = format!("/v1/tasks/{}", queued.json()["taskId"]);
    assert_eq!(open.call("GET", &path, "").await.json()["agent"], "reader");
    assert_eq!(open.call_as_agent("GET", &path, "").await.status, 404);
    assert_eq!(open.call_as_agent("POST", "/v1/tasks", &task.to_string()).await.status, 403);
    let own = call(
        "queue_task",
        json!({"name": "t", "action": {"toolName": "read-file", "parameters": {"path": "a"}}}),
    )
    .await;
    assert_eq!((&own["data"]["agent"], &own["data"]["status"]), (&json!("writer"), &json!("queued")));
}

#[tokio::test(flavor = "multi_thread")]
async fn tasks_are_listed_and_cancelled_each_agent_its_own() {
    let open = open_with(JOBS).await;
    let mut ids = Vec::new();
    for agent in ["reader", "writer", "writer", "reader"] {
        let task = json!({"name": "t", "agent": agent, "action": {"toolName": "read-file", "parameters": {"path": "a"}}});
        ids.push(open.call("POST", "/v1/tasks", &task.to_string()).await.json()["id"].as_i64().unwrap());
    }
    let listed = async |query: &str| -> Vec<i64> {
        let answer = open.call("GET", &format!("/v1/tasks{query}"), "").await;
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.json()["items"].as_array().unwrap().iter().map(|task| task["id"].as_i64().unwrap()).collect()
    };
    assert_eq!(listed("").await, [ids[3], ids[2], ids[1], ids[0]]);
    assert_eq!(listed("?agent=writer").await, [ids[2], ids[1]]);
    let page = open.call("GET", "/v1/tasks?limit=3", "").await.json();
    let rest = format!("/v1/tasks?limit=3&cursor={}", page["next"].as_str().unwrap());
    let rest = open.call("GET", &rest, "").await.json();
    assert_eq!((&rest["items"][0]["id"], &rest["next"]), (&json!(ids[0]), &json!(null)));
    let mine = open.call_as_agent("GET", "/v1/tasks", "").await.json();
    assert_eq!(mine["items"].as_array().unwrap().len(), 2, "{mine}");
    assert_eq!(open.call_as_agent("GET", "/v1/tasks?agent=reader", "").await.json()["items"], json!([]));

    let cancel = |id: i64| format!("/v1/tasks/{id}/cancel");
    assert_eq!(open.call_as_agent("POST", &cancel(ids[0]), "").await.status, 404, "another's");
    let own = open.call_as_agent("POST", &cancel(ids[1]), "").await;
    assert_eq!((own.status, &own.json()["status"]), (202, &json!("failed")));
    assert_eq!(own.json()["error"], "it was cancelled before it started");
    let run = open.call("GET", &format!("/v1/runs/{}", own.json()["run"]), "").await.json();
    assert_eq!(run["status"], "cancelled");
    assert_eq!(open.call("POST", &cancel(ids[0]), "").await.status, 202);
    let again = open.call("POST", &cancel(ids[0]), "").await;
    assert_eq!(
        (again.status, &again.json()["detail"]),
        (409, &json!(format!("task {} is over: it is failed", ids[0])))
    );
    assert_eq!(open.call("POST", &cancel(99), "").await.status, 404);
    assert_eq!(listed("?status=failed").await, [ids[1], ids[0]]);
    assert_eq!(listed("?status=queued&agent=writer").await, [ids[2]]);
    assert_eq!(listed("?status=running").await, [0_i64; 0]);
    assert_eq!(listed("?status=completed").await, [0_i64; 0]);
    let odd = open.call("GET", "/v1/tasks?status=done", "").await;
    assert_eq!(odd.status, 422);
    assert!(
        odd.json()["detail"].as_str().unwrap().contains("there are queued, running, completed, failed"),
        "{odd:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_is_queued_at_once_and_its_faults_are_told_together() {
    let open = open_with(JOBS).await;
    let call = json!({"name": "Greet", "action": {"type": "tool_call", "toolName": "read-file", "parameters": {"path": "a"}}});
    let queued = open.done("queue_task", &call).await;
    assert_eq!(
        (&queued["taskId"], &queued["status"], &queued["attempt"]),
        (&json!(1), &json!("queued"), &json!(1))
    );
    assert_eq!(queued["action"], call["action"]);
    for id in [json!({"taskId": 1}), json!({"taskId": "1"}), json!({"job_id": 1})] {
        assert_eq!(open.done("get_job_status", &id).await["name"], "Greet");
    }
    assert!(open.refused("get_job_status", &json!({})).await.starts_with("taskId: "));
    assert!(open.refused("get_job_status", &json!({"taskId": 9})).await.starts_with("there is no task 9;"));
    let wrong = open
        .refused("queue_task", &json!({"name": " ", "action": {"type": "tool_call", "toolName": "red-file"}}))
        .await;
    assert!(wrong.contains("name: ") && wrong.contains("action/toolName: the agent has no tool"), "{wrong}");
    let step =
        |id: &str, path: &str| json!({"id": id, "toolName": "read-file", "parameters": {"path": path}});
    let workflow =
        |steps: Value| json!({"name": "w", "action": {"type": "workflow", "workflowSteps": steps}});
    let queued = open.done("queue_task", &workflow(json!([step("a", "x"), step("b", "{{a.path}}")]))).await;
    assert_eq!(queued["action"]["workflowSteps"][1]["parameters"]["path"], "{{a.path}}");
    let wrong = open.refused("queue_task", &workflow(json!([step("a", "{{b.path}}"), step("b", "x")]))).await;
    assert!(wrong.contains("action/workflowSteps/0/parameters: {{b.path}} is no answer"), "{wrong}");
    let run = open.call("GET", &format!("/v1/runs/{}", queued["run"]), "").await.json();
    assert_eq!(
        (&run["status"], &run["tier"], &run["job"]),
        (&json!("queued"), &json!("direct"), &json!(null))
    );
    let headers = [("Content-Type", "application/json"), ("Idempotency-Key", "k")];
    let first = open.call_with("POST", "/v1/tasks", &headers, &call.to_string()).await;
    let again = open.call_with("POST", "/v1/tasks", &headers, &call.to_string()).await;
    assert_eq!((first.status, first.body), (again.status, again.body));
    assert_eq!(open.call("GET", "/v1/facts?category=error", "").await.json()["items"], json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_goes_to_the_agent_that_is_named_and_what_nobody_knows_is_refused() {
    let open = open_with(JOBS).await;
    let call = |more: Value| {
        let mut call = json!({"name": "t", "action": {"toolName": "read-file", "parameters": {"path": "a"}}});
        call.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        call
    };
    for key in ["agent", "agent_id"] {
        assert_eq!(open.done("queue_task", &call(json!({key: "reader"}))).await["agent"], "reader", "{key}");
    }
    assert_eq!(open.done("queue_task", &call(json!({}))).await["agent"], "writer");
    let two = open.refused("queue_task", &call(json!({"agent": "reader", "agent_id": "zoe"}))).await;
    assert_eq!(two, "agent: agent_id says \"zoe\" and agent says \"reader\": name one");
    let odd = open.refused("queue_task", &call(json!({"agnet": "reader"}))).await;
    assert!(odd.contains("agnet"), "{odd}");
    assert_eq!(open.call("GET", "/v1/tasks", "").await.json()["items"].as_array().unwrap().len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_whose_arguments_cannot_pass_is_not_queued() {
    let open = open_with(JOBS).await;
    let call = |parameters: Value| json!({"name": "t", "action": {"toolName": "read-file", "parameters": parameters}});
    let wrong = open.refused("queue_task", &call(json!({"pth": "a"}))).await;
    assert!(wrong.contains("action/parameters") && wrong.contains("path"), "{wrong}");
    let step = |parameters: Value| json!({"id": "s", "toolName": "read-file", "parameters": parameters});
    let later = json!({"toolName": "read-file", "parameters": {"path": "{{s.path}}"}});
    let flow = |first: Value| json!({"name": "w", "action": {"type": "workflow", "workflowSteps": [step(first), later]}});
    let wrong = open.refused("queue_task", &flow(json!({}))).await;
    assert!(wrong.contains("action/workflowSteps/0/parameters"), "{wrong}");
    assert_eq!(open.call("GET", "/v1/tasks", "").await.json()["items"], json!([]));
    open.done("queue_task", &flow(json!({"path": "a"}))).await;
}
