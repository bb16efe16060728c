//! MCP servers of skills, in agents' containers: real ones of npm and PyPI, and one that does what it should not.

use std::{
    fs,
    path::Path,
    process::{Command, Output},
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::hive::{PATIENCE, TestHive};

/// A server of its own: what its tools do is in their names.
const POCKET: &str = r#"
import json, os, sys, threading, time
lock, tools = threading.Lock(), ["where", "env", "fail", "die", "wait", "grow"]
def say(message):
    with lock: print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)
def call(name, args):
    text = lambda t: {"content": [{"type": "text", "text": t}]}
    if name == "where":
        return {**text(""), "structuredContent": {"pid": os.getpid(), "cwd": os.getcwd(), "version": sys.argv[1]}}
    if name == "env": return text(json.dumps(dict(os.environ)))
    if name == "fail": return {**text("no such bee"), "isError": True}
    if name == "die":
        print("cannot open the hive", file=sys.stderr, flush=True); os._exit(3)
    if name == "wait":
        while not os.path.exists("/workspace/go"): time.sleep(0.05)
        return text("waited in " + sys.argv[1])
    if name == "grow":
        tools.append("grown"); say({"method": "notifications/tools/list_changed"}); return text("more")
    return text(name)
def answer(m):
    if m["method"] == "initialize":
        result = {"protocolVersion": m["params"]["protocolVersion"], "capabilities": {"tools": {"listChanged": True}},
                  "serverInfo": {"name": "pocket", "version": sys.argv[1]}}
    elif m["method"] == "tools/list":
        result = {"tools": [{"name": n, "description": f"Does {n}. Well.", "inputSchema": {"type": "object"}} for n in tools]}
    elif m["method"] == "tools/call": result = call(m["params"]["name"], m["params"].get("arguments", {}))
    else: result = {}
    say({"id": m["id"], "result": result})
for line in sys.stdin:
    m = json.loads(line)
    if "id" in m: threading.Thread(target=answer, args=(m,), daemon=True).start()
"#;

impl TestHive {
    /// A skill whose server is `server.py`.
    fn pocket(&self, version: &str, more: &Value) {
        let server = json!({ "name": "pocket", "command": "python3", "args": ["server.py", version],
            "env": { "GREETING": "${WHO} is here" } });
        self.write(&format!("skills/pocket@{version}/server.py"), POCKET);
        let mut manifest = json!({ "mcpServers": [server], "envVars": ["WHO"] });
        manifest.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        self.skill("pocket", version, &manifest);
        self.write("secrets/env.json", "{\"WHO\": \"swordfish-77\"}");
    }

    async fn call(&self, tool: &str, args: Value) -> Value {
        let path = format!("/v1/agents/one/tools/{}", tool.replace('/', "%2F"));
        let (status, answer) = self.send("POST", &path, Some(args)).await;
        assert_eq!(status, 200, "{tool}: {answer:#}\n{}", self.log());
        answer
    }

    /// The names of an agent's tools of MCP servers.
    async fn served(&self) -> Vec<String> {
        let listed = self.get("/v1/agents/one/tools?limit=200").await;
        let items = listed["items"].as_array().unwrap().iter().filter(|item| item["kind"] == "mcp");
        items.map(|item| item["name"].as_str().unwrap().to_owned()).collect()
    }

    /// How many processes of the container have this in their command line.
    async fn count(&self, what: &str) -> usize {
        // The bracket keeps the counter from counting itself.
        let script = format!(
            "cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' ' | grep -o '[{}]{}' | wc -l",
            &what[..1],
            &what[1..]
        );
        self.sh("one", &script).await["stdout"].as_str().unwrap().trim().parse().unwrap()
    }

    async fn until_count(&self, what: &str, wanted: usize) {
        let began = Instant::now();
        while self.count(what).await != wanted {
            assert!(began.elapsed() < PATIENCE, "{what} is never there {wanted} times\n{}", self.log());
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    pub fn skep(&self, args: &[&str]) -> Output {
        let program = env!("CARGO_BIN_EXE_skep");
        Command::new(program).arg("--dir").arg(self.dir.path()).args(args).output().unwrap()
    }
}

const CONFIG: &str =
    "[agents.one]\nskills = [\"pocket@latest\"]\n[agents.two]\nskills = [\"pocket@latest\"]\n";

async fn pocket() -> TestHive {
    let mut hive = TestHive::new(CONFIG);
    hive.pocket("1.0.0", &json!({}));
    hive.start().await;
    hive.running("one").await;
    hive
}

/// Puts real servers into a skill's folder, as `npm install` and `pip install` lay them.
async fn install(folder: &Path, script: &str) {
    fs::create_dir_all(folder).unwrap();
    let mut command = Command::new("docker");
    let mount = format!("{}:/out", folder.display());
    command.args(["run", "--rm", "--network", "host", "--user", "0:0", "-e", "HOME=/tmp/home", "-v", &mount]);
    let script = format!("set -eu; umask 022; mkdir /tmp/home; cd /out; {script}");
    command.args(["--workdir", "/out", "skep-agent:latest", "bash", "-c", &script]);
    let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "are npm's registry and PyPI reachable?\n{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_of_npm_and_pypi_run_without_network_for_people_programs_and_jobs() {
    let mut hive = TestHive::new(
        "[registry.limits]\nfiles = 20000\ntotal = \"256MiB\"\n[agents.one]\nskills = [\"kit@1.0.0\", \"clock@1.0.0\"]\n",
    );
    let npm = "npm install --silent --no-fund --no-audit --no-bin-links @modelcontextprotocol/server-filesystem \
        @modelcontextprotocol/server-everything @modelcontextprotocol/server-memory >&2";
    install(&hive.path("skills/kit@1.0.0"), npm).await;
    let pip = "pip install -q --no-compile --root-user-action ignore --target lib mcp-server-time >&2; rm -rf lib/bin";
    install(&hive.path("skills/clock@1.0.0"), pip).await;
    let node = |name: &str, args: &[&str]| {
        let path = format!("node_modules/@modelcontextprotocol/server-{name}/dist/index.js");
        let args: Vec<&str> = [path.as_str()].into_iter().chain(args.iter().copied()).collect();
        json!({ "name": name, "command": "node", "args": args, "env": { "MEMORY_FILE_PATH": "/workspace/memory.jsonl" } })
    };
    let servers = [node("filesystem", &["/workspace"]), node("everything", &[]), node("memory", &[])];
    hive.skill("kit", "1.0.0", &json!({ "mcpServers": servers }));
    let time = json!({ "name": "time", "command": "python3", "args": ["-m", "mcp_server_time", "--local-timezone", "UTC"],
        "env": { "PYTHONPATH": "lib" } });
    hive.skill("clock", "1.0.0", &json!({ "mcpServers": [time] }));
    hive.start().await;
    hive.running("one").await;
    assert_eq!(
        hive.count("dist/index.js").await + hive.count("mcp_server_time").await,
        0,
        "nobody used them"
    );

    let listed = hive.skep(&["tools", "one"]);
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    let agent = hive.agent("one").await;
    for (server, tool) in [
        ("filesystem", "write_file"),
        ("everything", "echo"),
        ("memory", "create_entities"),
        ("time", "convert_time"),
    ] {
        let line = |line: &str| line.contains(server) && line.contains(tool);
        assert!(listed.lines().any(line), "{server} {tool}\n{listed}\n{agent:#}");
    }
    assert_eq!(agent["warnings"], json!([]));
    assert_eq!(hive.count("dist/index.js").await, 3, "one of each");

    let written =
        hive.call("filesystem/write_file", json!({ "path": "/workspace/a", "content": "bees" })).await;
    assert_eq!(written["success"], true, "{written:#}");
    assert_eq!(hive.sh("one", "cat a").await["stdout"], "bees");
    let refused = hive.call("filesystem/write_file", json!({ "path": "/etc/a", "content": "x" })).await;
    assert_eq!(refused["success"], false);
    assert!(refused["error"].as_str().unwrap().contains("denied"), "{refused:#}");

    let called = hive.skep(&["call", "one", "everything/echo", "{\"message\": \"hum\"}"]);
    assert_eq!(
        (called.status.code(), String::from_utf8_lossy(&called.stdout).trim()),
        (Some(0), "Echo: hum")
    );
    let image = hive.call("get-tiny-image", json!({})).await;
    assert!(image["content"].as_array().unwrap().iter().any(|block| block["type"] == "image"), "{image:#}");

    let bee = json!({ "entities": [{ "name": "bee", "entityType": "insect", "observations": ["hums"] }] });
    let job = hive.job("remember", json!({ "tool": "create_entities", "args": bee })).await;
    let run = hive.run(job).await;
    let run = hive.over(run).await;
    assert_eq!(run["status"], "succeeded", "{run:#}\n{}", hive.log());
    let graph = hive.call("read_graph", json!({})).await;
    assert_eq!(graph["result"]["entities"][0]["name"], "bee", "{graph:#}");

    let noon = json!({ "source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo" });
    let time = hive.call("convert_time", noon).await;
    assert_eq!(time["result"]["time_difference"], "+9.0h", "{time:#}");
    let began = Instant::now();
    loop {
        let prompt = hive.text("/v1/agents/one/prompt").await;
        if prompt.contains("# MCP Tools") && prompt.contains("- time: get_current_time, convert_time") {
            break;
        }
        assert!(began.elapsed() < PATIENCE, "{prompt}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_starts_with_its_first_use_once_and_ends_when_it_is_idle() {
    let hive = pocket().await;
    assert_eq!(hive.count("server.py").await, 0);
    // Nothing known has this name, so the servers are asked.
    let calls = futures_util::future::join_all((0..8).map(|_| hive.call("where", json!({})))).await;
    let pids: std::collections::BTreeSet<i64> =
        calls.iter().map(|call| call["result"]["pid"].as_i64().unwrap()).collect();
    assert_eq!(pids.len(), 1, "{calls:#?}");
    assert_eq!(calls[0]["result"]["cwd"], "/skills/.v/pocket@1.0.0");
    assert_eq!(hive.count("server.py").await, 1);
    let mut served = hive.served().await;
    served.sort();
    assert_eq!(served, ["die", "env", "fail", "grow", "wait", "where"]);

    let env = hive.call("env", json!({})).await;
    assert_eq!(env["result"]["GREETING"], "*** is here", "{env:#}");
    let failed = hive.call("fail", json!({})).await;
    assert_eq!((&failed["success"], &failed["error"]), (&json!(false), &json!("no such bee")));

    fs::write(hive.path(".skep/clock"), "301").unwrap();
    hive.until_count("server.py", 0).await;
    assert_eq!(hive.served().await.len(), 6, "they stay listed");
    assert_eq!(hive.count("server.py").await, 0, "a listing of what is known starts nothing");
    let again = hive.call("where", json!({})).await;
    assert!(!pids.contains(&again["result"]["pid"].as_i64().unwrap()), "{again:#}");
    assert_eq!(hive.agent("one").await["warnings"], json!([]));
}

async fn until_works(hive: &TestHive) {
    let began = Instant::now();
    while hive.send("POST", "/v1/agents/one/tools/where", Some(json!({}))).await.0 != 200 {
        assert!(began.elapsed() < PATIENCE, "{}", hive.log());
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_dies_is_told_of_with_its_last_words_and_started_again_ever_more_slowly() {
    let hive = pocket().await;
    let died = hive.call("die", json!({})).await;
    let error = died["error"].as_str().unwrap();
    assert!(error.contains("it ended with code 3: cannot open the hive"), "{error}");
    assert_eq!(hive.call("where", json!({})).await["success"], true, "the next call starts it again");
    // The second pause is longer than it takes to see it.
    for _ in 0..2 {
        until_works(&hive).await;
        hive.call("die", json!({})).await;
    }
    let (status, refused) = hive.send("POST", "/v1/agents/one/tools/where", Some(json!({}))).await;
    assert_eq!(status, 503, "{refused:#}");
    let detail = refused["detail"].as_str().unwrap();
    assert!(detail.contains("code 3") && detail.contains("not started again for another"), "{detail}");
    let warnings = hive.agent("one").await["warnings"].to_string();
    assert!(warnings.contains("pocket of skill pocket: it ended with code 3"), "{warnings}");
    until_works(&hive).await;
    assert_eq!(hive.agent("one").await["warnings"], json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn another_version_takes_over_while_calls_of_the_old_one_finish() {
    let hive = pocket().await;
    assert_eq!(hive.call("where", json!({})).await["result"]["version"], "1.0.0");
    let job = hive.job("where", json!({ "tool": "where" })).await;
    let waiting = hive.call("wait", json!({}));
    let swap = async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        hive.pocket("1.1.0", &json!({}));
        assert_eq!(hive.send("POST", "/v1/update", Some(json!({}))).await.0, 200);
        hive.until("one", "swapped", |view| view["skills"].to_string().contains("1.1.0")).await;
        // A run of a tool that no known server has any more: the new one is asked.
        let run = hive.run(job).await;
        let run = hive.over(run).await;
        assert_eq!(run["result"]["version"], "1.1.0", "{run:#}");
        assert_eq!(hive.count("server.py").await, 2);
        hive.sh("one", "touch go").await;
    };
    let (waited, ()) = tokio::join!(waiting, swap);
    assert_eq!(waited["result"], "waited in 1.0.0", "{waited:#}");
    hive.until_count("server.py 1.0.0", 0).await;
    assert_eq!(hive.count("server.py 1.1.0").await, 1);

    hive.configure("[agents.one]\nskills = []\n");
    hive.until_count("server.py", 0).await;
    hive.until("one", "without it", |view| !view["skills"].to_string().contains("pocket")).await;
    assert_eq!(hive.served().await, Vec::<String>::new(), "they leave with the skill");
}

#[tokio::test(flavor = "multi_thread")]
async fn tools_that_change_are_taken_up_told_of_and_kept_beyond_the_supervisor() {
    let mut hive = pocket().await;
    let body =
        json!({ "agent": "one", "name": "patient", "manual": true, "tool": "grown", "enabled": false });
    let (status, job) = hive.send("POST", "/v1/jobs", Some(body)).await;
    assert_eq!(status, 201, "{job:#}");
    assert_eq!(hive.call("grow", json!({})).await["success"], true);
    let began = Instant::now();
    while hive.get(&format!("/v1/jobs/{}", job["id"])).await["enabled"] != true {
        assert!(began.elapsed() < PATIENCE, "the job never enables itself\n{}", hive.log());
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert!(hive.served().await.contains(&"grown".to_owned()));
    let events = hive.text("/v1/events?follow=false&last=100&name=tools:changed").await;
    assert!(events.contains("\"server\":\"pocket\""), "{events}");

    hive.kill();
    hive.start().await;
    hive.running("one").await;
    assert_eq!(hive.served().await.len(), 7);
    hive.until_count("server.py", 0).await;
    assert_eq!(hive.call("grow", json!({})).await["success"], true, "a call starts it again");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_waits_for_a_tool_enables_itself_when_a_server_that_has_it_appears() {
    let mut hive = TestHive::new("[agents.one]\nskills = [\"basic-tools@1.0.0\"]\n");
    hive.pocket("1.0.0", &json!({}));
    hive.start().await;
    hive.running("one").await;
    let body = |name: &str, tool: &str| json!({ "agent": "one", "name": name, "every": "1h", "tool": tool, "enabled": false });
    let unknown = json!({ "agent": "one", "name": "eager", "every": "1h", "tool": "where" });
    let (status, refused) = hive.send("POST", "/v1/jobs", Some(unknown)).await;
    assert!(
        status == 422 && refused["detail"].as_str().unwrap().contains("no tool \"where\""),
        "{refused:#}"
    );
    let mut ids = Vec::new();
    for (name, tool) in [("patient", "where"), ("paused", "where"), ("hopeless", "nowhere")] {
        let (status, job) = hive.send("POST", "/v1/jobs", Some(body(name, tool))).await;
        assert_eq!((status, &job["missing_tools"]), (201, &json!([tool])), "{job:#}");
        ids.push(job["id"].as_i64().unwrap());
    }
    assert_eq!(hive.send("POST", &format!("/v1/jobs/{}/pause", ids[1]), None).await.0, 200);
    let enabled = async |n: usize| hive.get(&format!("/v1/jobs/{}", ids[n])).await["enabled"].clone();
    assert_eq!(enabled(0).await, false);
    // Nobody lists or calls a tool: the server is asked because a job waits.
    hive.configure("[agents.one]\nskills = [\"basic-tools@1.0.0\", \"pocket@1.0.0\"]\n");
    let began = Instant::now();
    while enabled(0).await != true {
        assert!(began.elapsed() < PATIENCE, "the job never enables itself\n{}", hive.log());
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(
        (enabled(1).await, enabled(2).await),
        (json!(false), json!(false)),
        "paused, and without its tool"
    );
    let job = hive.get(&format!("/v1/jobs/{}", ids[0])).await;
    assert!(job["next_fire_at"].is_string() && job["missing_tools"] == json!([]), "{job:#}");
    let run = hive.run(ids[0]).await;
    assert_eq!(hive.over(run).await["result"]["version"], "1.0.0");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_of_a_version_that_nobody_approved_gets_no_secret_and_does_not_start_for_want_of_one() {
    let mut hive = TestHive::new("[agents.one]\nskills = [\"pocket@1.0.0\"]\n[agents.two]\n");
    hive.pocket("1.0.0", &json!({}));
    hive.start().await;
    hive.running("one").await;
    let server =
        |args: &[&str], env: Value| json!({ "name": "own", "command": "python3", "args": args, "env": env });
    let write = async |id: &str, server: Value| {
        let manifest =
            json!({ "id": id, "name": id, "version": "1.0.0", "description": id, "mcpServers": [server] });
        let python = POCKET.replace("\"where\", \"env\"", &format!("\"where\", \"{id}_env\""));
        let python = python.replace("name == \"env\"", &format!("name == \"{id}_env\""));
        let script = format!(
            "mkdir -p /skills/custom/{id} && cd /skills/custom/{id} && cat > server.py <<'END'\n{python}\nEND\n\
             cat > manifest.json <<'END'\n{manifest}\nEND"
        );
        assert_eq!(hive.sh("one", &script).await["exit_code"], 0);
    };
    write("asks", server(&["server.py", "asks"], json!({ "GREETING": "${WHO} is here" }))).await;
    write("plain", server(&["server.py", "plain"], json!({}))).await;
    let has = |view: &Value| ["asks", "plain"].iter().all(|id| view["skills"].to_string().contains(id));
    let view = hive.until("one", "with its own skills", has).await;
    assert_eq!(view["unavailable"], json!([{ "skill": "asks", "missing": ["env:WHO"] }]), "{view:#}");
    let served = hive.served().await;
    assert!(
        served.contains(&"plain_env".to_owned()) && !served.contains(&"asks_env".to_owned()),
        "{served:?}"
    );
    let (status, refused) = hive.send("POST", "/v1/agents/one/tools/asks_env", Some(json!({}))).await;
    assert_eq!(status, 404, "{refused:#}");
    assert_eq!(hive.count("server.py asks").await, 0, "it is not started");
    // Its author may use what asks for nothing; the secret that the agent has is not there.
    let env = async |tool: &str| hive.call(tool, json!({})).await["result"].to_string();
    let given = env("env").await;
    assert!(given.contains("WHO") && given.contains("*** is here"), "{given}");
    let own = env("plain_env").await;
    assert!(own.contains("SKEP_AGENT") && !own.contains("WHO") && !own.contains("***"), "{own}");
    let (status, _) = hive.send("POST", "/v1/skills/asks/versions/1.0.0/approve", None).await;
    assert_eq!(status, 200);
    hive.until("one", "with all it asks for", |view| view["unavailable"] == json!([])).await;
    let approved = env("asks_env").await;
    assert!(approved.contains("*** is here"), "{approved}");
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_that_cannot_be_used_are_warnings_and_keep_no_listing_waiting() {
    let mut hive = TestHive::new("[agents.one]\nskills = [\"broken@1.0.0\", \"lacking@1.0.0\"]\n");
    let server = |name: &str, script: &str, seconds: u32| json!({ "name": name, "command": "bash", "args": ["-c", script], "startup_timeout": seconds });
    let servers = json!([
        server("quits", "echo 'no licence' >&2; exit 7", 5),
        server("silent", "exec sleep 6003", 1),
        server("floods", "yes | head -c 100000000; exec sleep 6004", 30),
        json!({ "name": "gone", "command": "/no/such/program" }),
        json!({ "name": "remote", "url": "https://example.com/mcp" }),
    ]);
    hive.skill("broken", "1.0.0", &json!({ "mcpServers": servers }));
    let lacking = json!({ "name": "lacking", "command": "true", "env": { "A": "${NOBODY_HAS_THIS}" } });
    hive.skill("lacking", "1.0.0", &json!({ "mcpServers": [lacking] }));
    hive.start().await;
    hive.running("one").await;
    assert_eq!(hive.served().await, Vec::<String>::new());
    let all = [
        "quits of skill broken: it ended with code 7: no licence",
        "silent of skill broken: it did not answer the MCP handshake within 1 s",
        "floods of skill broken: it was cut off: it floods",
        "gone of skill broken: it cannot be started",
        "remote of skill broken: the agent has no network",
    ];
    let told = |agent: &Value| all.iter().all(|words| agent["warnings"].to_string().contains(words));
    let agent = hive.until("one", "told of each", told).await;
    assert_eq!(agent["unavailable"], json!([{ "skill": "lacking", "missing": ["env:NOBODY_HAS_THIS"] }]));
    // The list of tools says what is not in it, `ps` each warning.
    let listed = hive.get("/v1/agents/one/tools").await["warnings"].to_string();
    let (tools, ps) = (hive.skep(&["tools", "one"]), hive.skep(&["ps"]));
    for (said, what) in [
        (listed, "HTTP"),
        (String::from_utf8_lossy(&tools.stderr).into_owned(), "skep tools"),
        (String::from_utf8_lossy(&[ps.stdout, ps.stderr].concat()).into_owned(), "skep ps"),
    ] {
        for words in all {
            assert!(said.contains(words), "{what}: {words:?} not in\n{said}");
        }
        let lacks = "skill lacking cannot be used: it misses env:NOBODY_HAS_THIS";
        assert!(said.contains(lacks) || what == "skep ps", "{what}: {said}");
        assert!(
            said.contains("it is started again when its tools are listed or called") || what == "skep ps"
        );
    }
    hive.until_count("sleep 600", 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_name_waits_for_no_mute_server_beyond_those_that_it_may_be_of() {
    let mut hive = TestHive::new("[agents.one]\nskills = [\"pocket@1.0.0\", \"mute@1.0.0\"]\n");
    hive.pocket("1.0.0", &json!({}));
    let mute = json!({ "name": "mute-server", "command": "sleep", "args": ["6005"], "startup_timeout": 60 });
    hive.skill("mute", "1.0.0", &json!({ "mcpServers": [mute] }));
    hive.start().await;
    hive.running("one").await;
    let asked = async |tool: &str| {
        let began = Instant::now();
        let path = format!("/v1/agents/one/tools/{}", tool.replace('/', "%2F"));
        let (status, answer) = hive.send("POST", &path, Some(json!({}))).await;
        (status, answer["detail"].as_str().unwrap_or_default().to_owned(), began.elapsed())
    };
    // A server's own name asks that one alone.
    let (status, detail, took) = asked("pocket/where").await;
    assert_eq!(status, 200, "{detail}");
    assert!(took < Duration::from_secs(30), "{took:?}");
    assert_eq!(hive.count("sleep 6005").await, 0, "nobody asked the other");
    let (status, detail, took) = asked("pocket/nothing").await;
    assert!(status == 404 && took < Duration::from_secs(30) && !detail.contains("mute"), "{detail} {took:?}");
    // A bare one may be of the mute one, and that is told.
    let (status, detail, took) = asked("nothing").await;
    assert_eq!(status, 404, "{detail}");
    assert!(took > Duration::from_secs(4) && took < Duration::from_secs(30), "{took:?}");
    assert!(detail.contains("the agent has no tool \"nothing\""), "{detail}");
    let why = "; server mute-server of skill mute has not told its tools: it has not answered within 5 s";
    assert!(detail.contains(why), "{detail}");
    assert!(!detail.contains("server pocket"), "{detail}");
    let (status, _, took) = asked("where").await;
    assert!(status == 200 && took < Duration::from_secs(30), "a known name waits for nobody: {took:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn tools_whose_names_cannot_be_called_or_carried_are_told_below_the_list() {
    let mut hive = TestHive::new(CONFIG);
    hive.pocket("1.0.0", &json!({}));
    let odd = POCKET.replace("[\"where\"", "[\"two words\", \"\", \"z\\u200bero\", \"grüß\", \"where\"");
    hive.write("skills/pocket@1.0.0/server.py", &odd);
    hive.start().await;
    hive.running("one").await;
    assert!(hive.served().await.contains(&"grüß".to_owned()));
    let cannot = "the MCP server pocket of skill pocket has tools that cannot be called, because of their names: \
                  \"two words\", \"\", \"z\\u{200b}ero\" (a name has 1 to 128 characters";
    let shown = "MCP clients know the tool \"grüß\" as gr__-";
    let listed = hive.skep(&["tools", "one"]);
    let told = String::from_utf8_lossy(&listed.stderr).into_owned();
    assert!(listed.status.success() && told.contains(cannot) && told.contains(shown), "{told}");
    let warnings = hive.get("/v1/tools?agent=one&limit=1").await["warnings"].clone();
    assert_eq!(warnings.as_array().unwrap().len(), 2, "{warnings:#}");
    hive.kill();
    hive.start().await;
    hive.running("one").await;
    assert_eq!(
        hive.get("/v1/tools?agent=one&limit=1").await["warnings"],
        warnings,
        "it outlives the supervisor"
    );
    assert_eq!(hive.skep(&["stop", "two"]).status.code(), Some(0));
    let asleep = hive.get("/v1/agents/two/tools").await["warnings"][0].to_string();
    assert!(asleep.contains("agent two does not run") && asleep.contains("skep start two"), "{asleep}");
}
