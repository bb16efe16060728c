//! Every example that the reference documents print of a call of a tool, run as printed: against an agent `thinker` with a
//! skill whose MCP server has the printed tools. Only times that have passed are moved on. The test reads the examples out of the
//! documents' text (`tests/reference/README.md`).

use std::{collections::BTreeSet, fs, path::Path};

use regex::Regex;
use serde_json::{Map, Value, json};

use crate::hive::TestHive;

/// The printed tools of other servers: each keeps what it was called with.
const PRINTED: [&str; 7] = [
    "telegram_send_message",
    "gmail_list_messages",
    "gmail_get_message",
    "gmail_send_email",
    "gmail_get_new_emails",
    "gmail_list_events",
    "tool_a",
];

/// A fake of their servers.
const SERVER: &str = r#"
import json, sys
tools = sys.argv[1].split()
for line in sys.stdin:
    m = json.loads(line)
    if "id" not in m: continue
    result = {}
    if m["method"] == "initialize":
        result = {"protocolVersion": m["params"]["protocolVersion"], "capabilities": {"tools": {}},
                  "serverInfo": {"name": "printed", "version": "1"}}
    elif m["method"] == "tools/list":
        result = {"tools": [{"name": n, "description": f"Fakes {n}.", "inputSchema": {"type": "object"}} for n in tools]}
    elif m["method"] == "tools/call":
        name, args = m["params"]["name"], m["params"].get("arguments", {})
        with open(f"/workspace/{name}.calls", "a") as calls: print(json.dumps(args), file=calls)
        result = {"content": [{"type": "text", "text": json.dumps({"ok": True})}]}
    print(json.dumps({"jsonrpc": "2.0", "id": m["id"], "result": result}), flush=True)
"#;

/// An agent program: it calls every tool that its run may.
const COMMAND: &str = r#"command = ["bash", "-ec", """for tool in $(echo "$SKEP_REQUIRED_TOOLS" | tr -c 'a-z_' ' '); do skep run $tool '{}'; done; cat""" ]"#;

/// The text of the documents, by file.
fn documents() -> Vec<(String, String)> {
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/reference");
    let folder = std::env::var_os("SKEP_REFERENCE").map_or(kept, Into::into);
    let mut all: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .flatten()
        .filter(|entry| entry.file_name() != "README.md")
        .map(|entry| {
            (entry.file_name().to_string_lossy().into_owned(), fs::read_to_string(entry.path()).unwrap())
        })
        .collect();
    all.sort();
    assert!(all.len() >= 4);
    all
}

/// What a document prints.
#[derive(Default)]
struct Printed {
    /// `tool({…})` in a block.
    calls: Vec<(String, Value)>,
    /// A trigger alone, in a block, a line or a diagram.
    triggers: Vec<Value>,
    /// `execution_plan: […]` alone.
    plans: Vec<Value>,
    /// Arguments of `queue_task`.
    tasks: Vec<Value>,
    /// An answer of `get_tool_catalog`.
    catalogues: Vec<Value>,
    /// Definitions of tools, with the names of the fields that they return.
    definitions: Vec<(Value, BTreeSet<String>)>,
    /// A whole document.
    pages: Vec<String>,
    /// Lines of the list in the prompt: name, description, tags.
    listed: Vec<(String, String, Vec<String>)>,
    /// Operations of `skill_management`.
    operations: Vec<String>,
}

/// JSON, also with keys that are not quoted.
fn object(text: &str) -> Option<Value> {
    let keys = Regex::new(r#"([{,]\s*)([A-Za-z_]\w*)\s*:"#).unwrap();
    serde_json::from_str(text)
        .ok()
        .or_else(|| serde_json::from_str(&keys.replace_all(text, "$1\"$2\":")).ok())
}

fn read(text: &str) -> Printed {
    let mut printed = Printed::default();
    let words = Regex::new(r"[a-z]+").unwrap();
    let operation = Regex::new(r"^(?:\| )?`((?:create|list|get|delete)_skills?)`(?: \||$)").unwrap();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if let Some(kind) = line.strip_prefix("```") {
            let block: Vec<&str> = lines.by_ref().take_while(|line| !line.starts_with("```")).collect();
            read_block(kind, &block.join("\n"), &mut printed);
            continue;
        }
        let returns = line.strip_prefix("**Returns:**");
        for form in line.split('`').skip(1).step_by(2) {
            if let Some(plan) = form.strip_prefix("execution_plan: ").and_then(object) {
                printed.plans.push(plan);
            } else if form.starts_with("{ \"") {
                printed.triggers.extend(object(form).filter(is_trigger));
            } else if returns.is_some() {
                let types = ["string", "number", "boolean"];
                let fields = words.find_iter(form).map(|m| m.as_str().to_owned());
                let fields: BTreeSet<String> = fields.filter(|f| !types.contains(&f.as_str())).collect();
                for (_, returned) in
                    printed.definitions.iter_mut().filter(|(_, returned)| returned.is_empty())
                {
                    returned.clone_from(&fields);
                }
            }
        }
        printed.operations.extend(operation.captures(line).map(|found| found[1].to_owned()));
    }
    printed
}

fn read_block(kind: &str, block: &str, printed: &mut Printed) {
    let call = Regex::new(r"(?s)^(\w+)\((\{.*\})\)\s*$").unwrap();
    let arrow = Regex::new(r"→ (\{[^}]*\})").unwrap();
    let line = Regex::new(r"(?m)^- ([a-z-]+): (.*) \[(.*)\]$").unwrap();
    if let Some(found) = call.captures(block) {
        printed.calls.push((found[1].to_owned(), object(&found[2]).unwrap_or_else(|| panic!("{block}"))));
    } else if block.contains("→ {") {
        printed
            .triggers
            .extend(arrow.captures_iter(block).filter_map(|found| object(&found[1]).filter(is_trigger)));
    } else if kind == "markdown" && block.starts_with("# ") && block.contains("Standards and procedures") {
        printed.pages.push(block.to_owned());
    } else if let Some(value) = object(block) {
        match &value {
            v if is_trigger(v) => printed.triggers.push(value),
            v if v["action"].is_object() => printed.tasks.push(value),
            v if v["data"]["catalog"].is_object() => printed.catalogues.push(value),
            v if v["parameters"]["type"] == "object" => printed.definitions.push((value, BTreeSet::new())),
            _ => {}
        }
    } else {
        let tags = |tags: &str| tags.split(", ").map(str::to_owned).collect();
        printed
            .listed
            .extend(line.captures_iter(block).map(|l| (l[1].to_owned(), l[2].to_owned(), tags(&l[3]))));
    }
}

fn is_trigger(value: &Value) -> bool {
    let keys = ["schedule", "interval_minutes", "at", "in_minutes", "in_hours"];
    value.as_object().is_some_and(|map| map.len() == 1 && keys.iter().any(|key| map.contains_key(*key)))
}

/// The same with `at` in a year to come.
fn moved(mut value: Value) -> Value {
    let year = jiff::Zoned::now().year() + 1;
    for at in ["/at", "/trigger_config/at"] {
        if let Some(Value::String(text)) = value.pointer_mut(at) {
            text.replace_range(..4, &year.to_string());
        }
    }
    value
}

async fn hive() -> TestHive {
    let mut hive = TestHive::new(&format!(
        "default_agent = \"thinker\"\n[agents.thinker]\nskills = [\"printed@1.0.0\"]\n{COMMAND}\n"
    ));
    // `[hive]` comes first in the file.
    let text = fs::read_to_string(hive.path("skep.toml")).unwrap();
    let text = text.replace("default_agent = \"thinker\"\n", "");
    hive.write("skep.toml", &text.replacen("[hive]\n", "[hive]\ndefault_agent = \"thinker\"\n", 1));
    let names = PRINTED.join(" ");
    let server = json!({"name": "printed", "command": "python3", "args": ["server.py", names]});
    hive.skill("printed", "1.0.0", &json!({"mcpServers": [server]}));
    hive.write("skills/printed@1.0.0/server.py", SERVER);
    hive.start().await;
    hive.running("thinker").await;
    hive
}

impl TestHive {
    /// Calls a tool of `thinker`; what it answered.
    async fn answer(&self, tool: &str, args: &Value) -> Value {
        let path = format!("/v1/agents/thinker/tools/{tool}");
        let (status, reply) = self.send("POST", &path, Some(args.clone())).await;
        assert_eq!(status, 200, "{tool} {args}: {reply:#}");
        // The tools that say themselves whether they worked are told of as they say.
        let said = reply["result"]["success"].as_bool().unwrap_or(true);
        assert_eq!(reply["success"], said, "{tool} {args}: {reply:#}");
        reply["result"].clone()
    }

    /// The same, of the tools that answer `{success, data | error}`.
    async fn data(&self, tool: &str, args: &Value) -> Value {
        let answer = self.answer(tool, args).await;
        assert_eq!(answer["success"], true, "{tool} {args}: {answer:#}");
        answer["data"].clone()
    }

    /// What a printed tool was called with last.
    async fn last_call(&self, tool: &str) -> Value {
        let last = self.sh("thinker", &format!("tail -n 1 {tool}.calls")).await;
        serde_json::from_str(last["stdout"].as_str().unwrap()).unwrap()
    }

    async fn forget(&self, skill: &Value) {
        self.data("memory_delete_skill", &json!({"id": skill["id"]})).await;
    }
}

/// A skill with this trigger, or with this plan.
fn skill(more: &[(&str, &Value)]) -> Value {
    let mut skill = json!({"name": "example", "instructions": "As printed."});
    skill
        .as_object_mut()
        .unwrap()
        .extend(more.iter().map(|(key, value)| ((*key).to_owned(), (*value).clone())));
    skill
}

#[tokio::test(flavor = "multi_thread")]
async fn every_printed_example_of_a_call_runs_as_printed() {
    let hive = hive().await;
    let mut ran = [0; 8];
    for (file, text) in documents() {
        let printed = read(&text);
        for (tool, args) in &printed.calls {
            stored(&hive, tool, args).await;
            ran[0] += 1;
        }
        for trigger in &printed.triggers {
            triggered(&hive, trigger).await;
            ran[1] += 1;
        }
        for plan in &printed.plans {
            let made = skill(&[("trigger_type", &json!("manual")), ("execution_plan", plan)]);
            let stored = hive.data("memory_store_skill", &made).await;
            assert_eq!(stored["tier"], "direct", "{plan}");
            let done = hive.over(hive.run(stored["id"].as_i64().unwrap()).await).await;
            assert_eq!(done["status"], "succeeded", "{done:#}");
            assert_eq!(hive.last_call("telegram_send_message").await, plan[0]["params"]);
            hive.forget(&stored).await;
            ran[2] += 1;
        }
        for task in &printed.tasks {
            let queued = hive.data("queue_task", task).await;
            let args = json!({"taskId": queued["taskId"]});
            let began = std::time::Instant::now();
            let mut told = queued;
            while told["status"] != "completed" {
                assert!(began.elapsed() < crate::hive::PATIENCE && told["status"] != "failed", "{told:#}");
                tokio::time::sleep(std::time::Duration::from_millis(50)).await;
                told = hive.data("get_job_status", &args).await;
            }
            assert_eq!(hive.last_call("telegram_send_message").await, task["action"]["parameters"]);
            ran[3] += 1;
        }
        for catalogue in &printed.catalogues {
            has_the_form_of(&hive.answer("get_tool_catalog", &json!({})).await, catalogue);
            ran[4] += 1;
        }
        for (definition, returns) in &printed.definitions {
            defined(&hive, definition, returns).await;
            ran[5] += 1;
        }
        for page in &printed.pages {
            kept(&hive, page, &printed.listed).await;
            ran[6] += 1;
        }
        if !text.contains("### `create_skill`") && !printed.operations.is_empty() {
            assert_eq!(
                printed.operations,
                ["create_skill", "list_skills", "get_skill", "delete_skill"],
                "{file}"
            );
            managed(&hive, &printed.operations).await;
            ran[7] += 1;
        }
    }
    // Calls, triggers, plans, tasks, catalogues, definitions, pages, skill_management.
    assert!(ran[1] >= 17, "{ran:?}");
    assert_eq!((ran[0], ran[2], ran[3], ran[4]), (4, 1, 1, 1), "{ran:?}");
    assert_eq!((ran[5], ran[6], ran[7]), (7, 1, 1), "{ran:?}");
}

/// `memory_store_skill` as printed; its run makes the printed call, or follows the instructions.
async fn stored(hive: &TestHive, tool: &str, args: &Value) {
    let stored = hive.data(tool, &moved(args.clone())).await;
    for key in ["name", "trigger_type", "instructions", "required_tools", "notify_on_completion"] {
        assert_eq!(stored[key], args[key], "{key}");
    }
    assert_eq!(stored["agent_id"], "thinker");
    assert!(!stored["next_fires"].as_array().unwrap().is_empty(), "{stored:#}");
    let twice = hive.answer(tool, &moved(args.clone())).await;
    assert!(twice["error"].as_str().unwrap().contains(&format!("job {}", stored["id"])), "{twice}");
    let run = hive.over(hive.run(stored["id"].as_i64().unwrap()).await).await;
    assert_eq!(run["status"], "succeeded", "{run:#}\n{}", hive.said(&run).await);
    if let Some(step) = args["execution_plan"].get(0) {
        assert_eq!(stored["execution_plan"], args["execution_plan"]);
        assert_eq!((&stored["tier"], &run["tier"]), (&json!("direct"), &json!("direct")));
        assert_eq!(hive.last_call(step["toolName"].as_str().unwrap()).await, step["parameters"]);
    } else {
        assert_eq!((&stored["tier"], &stored["max_steps"]), (&json!("agent"), &args["max_steps"]));
        let called = args["required_tools"].as_array().unwrap().len();
        assert_eq!(run["steps"], called, "{run:#}");
        assert!(hive.said(&run).await.contains(args["instructions"].as_str().unwrap()));
    }
    let got = hive.data("memory_get_skill", &json!({"id": stored["id"]})).await;
    assert_eq!(got["last_run_status"], "success", "{got:#}");
    assert!(got["last_run_at"].is_string(), "{got:#}");
    hive.forget(&stored).await;
}

/// A printed trigger, nested and flat. Three fields are no cron expression, wherever they are printed.
async fn triggered(hive: &TestHive, trigger: &Value) {
    let nested = skill(&[("trigger_type", &json!("cron")), ("trigger_config", trigger)]);
    let mut flat = skill(&[]);
    flat.as_object_mut().unwrap().extend(trigger.as_object().unwrap().clone());
    for form in [nested, flat] {
        let form = moved(form);
        if trigger["schedule"] == "0 9 *" {
            let refused = hive.answer("memory_store_skill", &form).await;
            assert_eq!(refused["success"], false, "{refused}");
            assert!(refused["error"].as_str().unwrap().contains("schedule"), "{refused}");
            continue;
        }
        let stored = hive.data("memory_store_skill", &form).await;
        assert_eq!(stored["trigger_type"], "cron");
        let config = stored["trigger_config"].as_object().unwrap();
        let (key, value) = trigger.as_object().unwrap().iter().next().unwrap();
        match key.as_str() {
            "schedule" => {
                assert_eq!(&config["schedule"], value);
                assert!(config["timezone"].is_string(), "the hive's zone is written in");
            }
            "interval_minutes" => assert_eq!(&config["interval_minutes"], value),
            _ => assert!(config["at"].is_string(), "{stored:#}"),
        }
        let once = usize::from(config.contains_key("at"));
        assert_eq!(
            stored["next_fires"].as_array().unwrap().len(),
            if once == 1 { 1 } else { 3 },
            "{stored:#}"
        );
        hive.forget(&stored).await;
    }
}

/// The same keys at each depth, but for the names of servers.
fn has_the_form_of(answer: &Value, printed: &Value) {
    let keys = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!(keys(answer), keys(printed));
    assert_eq!(keys(&answer["data"]), keys(&printed["data"]));
    let summary = Regex::new(r"^\d+ tools across \d+ MCP servers?$").unwrap();
    for value in [answer, printed] {
        assert!(summary.is_match(value["data"]["summary"].as_str().unwrap()), "{value:#}");
    }
    let first =
        |value: &Value| value["data"]["catalog"].as_object().unwrap().values().next().unwrap()[0].clone();
    assert_eq!(keys(&first(answer)), keys(&first(printed)));
    let mine = &answer["data"]["catalog"]["printed"];
    assert!(mine.as_array().unwrap().iter().any(|tool| tool["name"] == "telegram_send_message"), "{mine:#}");
}

/// A tool is listed with exactly the printed parameters, and answers the printed fields.
async fn defined(hive: &TestHive, definition: &Value, returns: &BTreeSet<String>) {
    let name = definition["name"].as_str().unwrap();
    let tools = hive.get("/v1/agents/thinker/tools?limit=1000").await;
    let tool = tools["items"].as_array().unwrap().iter().find(|tool| tool["name"] == name).unwrap();
    let (schema, parameters) = (&tool["input_schema"], &definition["parameters"]);
    let names = |schema: &Value| {
        let properties = schema["properties"].as_object().unwrap();
        let of = |(name, it): (&String, &Value)| (name.clone(), (it["type"].clone(), it["enum"].clone()));
        properties.iter().map(of).collect::<std::collections::BTreeMap<_, _>>()
    };
    assert_eq!(names(schema), names(parameters), "{name}");
    let required = |schema: &Value| schema["required"].as_array().cloned().unwrap_or_default();
    assert_eq!(required(schema), required(parameters), "{name}");
    let about = json!({"name": "an-example", "title": "T", "description": "D", "content": "C"});
    let args: Map<String, Value> = match name {
        "list_skills" => Map::new(),
        "create_skill" => about.as_object().unwrap().clone(),
        "update_skill" => json!({"name": "an-example", "title": "T2"}).as_object().unwrap().clone(),
        _ => Map::from_iter([("name".to_owned(), json!("an-example"))]),
    };
    if name != "create_skill" {
        hive.send("POST", "/v1/documents", Some(about)).await;
    }
    let answer = hive.answer(name, &args.into()).await;
    let mut fields: BTreeSet<String> = answer.as_object().unwrap().keys().cloned().collect();
    if let Some(item) = answer["skills"].get(0).and_then(Value::as_object) {
        fields.extend(item.keys().cloned());
    }
    assert_eq!(&fields, returns, "{name}: {answer:#}");
    hive.send("DELETE", "/v1/documents/an-example", None).await;
}

/// The printed document is kept and read back, and the printed list has a line for each.
async fn kept(hive: &TestHive, page: &str, listed: &[(String, String, Vec<String>)]) {
    assert_eq!(listed.len(), 4);
    for (name, description, tags) in listed {
        let title = page.lines().next().unwrap().trim_start_matches("# ");
        let new =
            json!({"name": name, "title": title, "description": description, "content": page, "tags": tags});
        assert_eq!(hive.answer("create_skill", &new).await, json!({"name": name, "version": 1}));
        let read = hive.answer("read_skill", &json!({"name": name})).await;
        assert_eq!(read["content"].as_str().unwrap().trim(), page.trim());
        assert_eq!((&read["description"], &read["tags"]), (&json!(description), &json!(tags)));
    }
    let all = hive.answer("list_skills", &json!({"tag": "excel"})).await;
    let names: Vec<_> = all["skills"].as_array().unwrap().iter().map(|skill| skill["name"].clone()).collect();
    assert_eq!(names, ["data-cleaning-procedures", "quarterly-excel-reports"]);
}

async fn managed(hive: &TestHive, operations: &[String]) {
    let about = json!({"name": "managed", "description": "D", "content": "C"});
    for operation in operations {
        let mut args = json!({"operation": operation});
        match operation.as_str() {
            "create_skill" => args.as_object_mut().unwrap().extend(about.as_object().unwrap().clone()),
            "list_skills" => {}
            _ => args["name"] = json!("managed"),
        }
        let answer = hive.answer("skill_management", &args).await;
        match operation.as_str() {
            "get_skill" => assert_eq!(answer["content"], "C"),
            "delete_skill" => assert_eq!(answer, json!({"deleted": true})),
            "list_skills" => assert!(answer.to_string().contains("managed"), "{answer}"),
            _ => assert_eq!(answer["name"], "managed"),
        }
    }
}
