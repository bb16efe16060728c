//! What a call of a tool costs, on a real engine: over `/mcp` to a script and to a warm MCP server in a container; what
//! servers cost that nobody uses; and a large catalogue.
//!
//! Each call stands beside the same by `docker exec`, measured in turns. Nothing is asserted here. Scaled down by
//! `SKEP_BENCH_AGENTS`, `SKEP_BENCH_CALLS` and `SKEP_BENCH_TOOLS`.
#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]

#[allow(dead_code, reason = "each benchmark uses a part of it")]
mod support;

use std::{
    collections::HashMap,
    fs,
    io::Write,
    process::{Command, ExitCode, Stdio},
    time::{Duration, Instant},
};

use rmcp::{
    RoleClient, ServiceExt,
    model::CallToolRequestParams,
    service::RunningService,
    transport::{StreamableHttpClientTransport, streamable_http_client::StreamableHttpClientTransportConfig},
};
use serde_json::{Value, json};
use support::{
    Result, docker,
    hive::Hive,
    load::scale,
    machine::{self, mib},
    stats::{Samples, show},
    table::Table,
};

/// For the engine to finish with an exec that it has answered.
const AFTERMATH: Duration = Duration::from_millis(100);

/// An MCP server without libraries: one tool that says what it got.
const SERVER: &str = r#"
import { createInterface } from 'node:readline';
const tools = [{ name: 'say', description: 'Says it.', inputSchema: { type: 'object', properties: { text: { type: 'string' } } } }];
const answers = {
  initialize: (p) => ({ protocolVersion: p.protocolVersion, capabilities: { tools: {} }, serverInfo: { name: 'bench', version: '1' } }),
  ping: () => ({}),
  'tools/list': () => ({ tools }),
  'tools/call': (p) => ({ content: [{ type: 'text', text: p.arguments.text }] }),
};
createInterface({ input: process.stdin }).on('line', (line) => {
  const { id, method, params } = JSON.parse(line);
  if (id === undefined) return;
  process.stdout.write(JSON.stringify({ jsonrpc: '2.0', id, result: answers[method](params ?? {}) }) + '\n');
});
"#;

#[tokio::main(flavor = "multi_thread", worker_threads = 1)]
async fn main() -> ExitCode {
    support::run(measure).await
}

async fn measure(table: &mut Table) -> Result<()> {
    calls(table).await?;
    unused(table).await
}

/// A skill with so many MCP servers.
fn server_skill(hive: &Hive, id: &str, servers: usize) -> Result<()> {
    let folder = hive.root().join(format!("skills/{id}@1.0.0"));
    fs::create_dir_all(folder.join("mcp"))?;
    fs::write(folder.join("mcp/server.mjs"), SERVER)?;
    fs::write(folder.join("context.md"), "Nothing to know.\n")?;
    let all: Vec<Value> = (0..servers)
        .map(|n| {
            json!({ "name": format!("{id}-{n}"), "type": "local", "command": "node", "args": ["mcp/server.mjs"],
                "idle_timeout": 60 })
        })
        .collect();
    let manifest = json!({
        "id": id, "name": id, "version": "1.0.0", "description": "Servers to measure with", "owner": "operator",
        "context": ["context.md"], "mcpServers": all,
    });
    Ok(fs::write(folder.join("manifest.json"), manifest.to_string())?)
}

/// A skill with so many scripts.
fn script_skill(hive: &Hive, id: &str, scripts: usize) -> Result<()> {
    let folder = hive.root().join(format!("skills/{id}@1.0.0"));
    fs::create_dir_all(folder.join("scripts"))?;
    fs::write(folder.join("context.md"), "Nothing to know.\n")?;
    let mut paths = Vec::new();
    for n in 0..scripts {
        let path = format!("scripts/{id}-{n:04}.sh");
        fs::write(folder.join(&path), format!("#!/bin/sh\n# Does number {n} of {id}.\n"))?;
        fs::set_permissions(folder.join(&path), std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
        paths.push(path);
    }
    let manifest = json!({
        "id": id, "name": id, "version": "1.0.0", "description": "Scripts to list", "owner": "operator",
        "context": ["context.md"], "scripts": paths,
    });
    Ok(fs::write(folder.join("manifest.json"), manifest.to_string())?)
}

type Client = RunningService<RoleClient, ()>;

async fn connect(port: u16, token: &str) -> Result<Client> {
    let client = reqwest::Client::builder().build()?;
    let mut headers = HashMap::new();
    headers.insert("authorization".parse()?, format!("Bearer {token}").parse()?);
    let config =
        StreamableHttpClientTransportConfig::with_uri(format!("http://127.0.0.1:{port}/mcp?agent=a000"))
            .custom_headers(headers);
    Ok(().serve(StreamableHttpClientTransport::with_client(client, config)).await?)
}

async fn call(client: &Client, name: &str, args: Value) -> Result<()> {
    let args = args.as_object().cloned().unwrap_or_default();
    let answer = client.call_tool(CallToolRequestParams::new(name.to_owned()).with_arguments(args)).await?;
    if answer.is_error == Some(true) {
        return Err(format!("{name} failed: {answer:?}").into());
    }
    Ok(())
}

/// The same server started by `docker exec` for one call: handshake, call, end.
fn exec_server(container: &str) -> Result<()> {
    let mut child = Command::new("docker")
        .args(["exec", "-i", container, "node", "/skills/served/mcp/server.mjs"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let messages = [
        json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-11-25",
            "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}}),
        json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "say", "arguments": {"text": "x"}}}),
    ];
    if let Some(mut input) = child.stdin.take() {
        for message in messages {
            writeln!(input, "{message}")?;
        }
    }
    let output = child.wait_with_output()?;
    let said = String::from_utf8_lossy(&output.stdout).lines().count();
    if said == 2 { Ok(()) } else { Err(format!("the server said {said} lines").into()) }
}

async fn calls(table: &mut Table) -> Result<()> {
    let times = scale("SKEP_BENCH_CALLS", 500);
    let tools = scale("SKEP_BENCH_TOOLS", 5_000);
    let port = machine::free_port()?;
    let mut hive = Hive::new("t1-", 1)?;
    hive.listen(port)?;
    hive.script("say", "#!/bin/sh\necho \"$1\"\n")?;
    server_skill(&hive, "served", 1)?;
    let mut skills = vec!["\"bench@1.0.0\"".to_owned(), "\"served@1.0.0\"".to_owned()];
    for n in 0..tools.div_ceil(500) {
        let id = format!("many{n}");
        script_skill(&hive, &id, 500.min(tools - n * 500))?;
        skills.push(format!("\"{id}@1.0.0\""));
    }
    hive.extend("", &format!("skills = [{}]", skills.join(", ")))?;
    hive.up()?;
    hive.until("a000", "running").await?;
    let container = hive.container("a000");
    let client = connect(port, &hive.token()?).await?;
    let script = || call(&client, "bench/say.sh", json!({"text": "x"}));
    let served = || call(&client, "served-0/say", json!({"text": "x"}));
    script().await?;
    served().await?;

    let [mut ours, mut theirs] = [const { Samples::new() }; 2];
    for n in 0..times {
        let began = Instant::now();
        script().await?;
        ours.since(began);
        if n % 10 == 0 {
            let began = Instant::now();
            docker(&["exec", &container, "/skills/bench/scripts/say.sh", "{}"])?;
            theirs.since(began);
            tokio::time::sleep(AFTERMATH).await;
        }
    }
    compare("call of a script over /mcp", &ours, ("docker exec", &theirs), "< 8 ms", 8, table);

    let [mut ours, mut theirs] = [const { Samples::new() }; 2];
    for n in 0..times {
        let began = Instant::now();
        served().await?;
        ours.since(began);
        if n % 10 == 0 {
            let began = Instant::now();
            exec_server(&container)?;
            theirs.since(began);
            tokio::time::sleep(AFTERMATH).await;
        }
    }
    compare(
        "call of a warm MCP server over /mcp",
        &ours,
        ("docker exec -i node", &theirs),
        "< 4 ms",
        4,
        table,
    );

    let mut listings = Samples::new();
    for n in 0..51 {
        let began = Instant::now();
        let answer = hive.post("/v1/agents/a000/tools/get_tool_catalog", Some(&json!({}))).await?;
        if n == 0 {
            // The only one that reads what each script says of itself.
            table.figure(
                &format!("catalogue of {tools} tools, the first since the start"),
                show(began.elapsed()),
                None,
            );
        } else {
            listings.since(began);
        }
        if answer["success"] != true {
            return Err(format!("no catalogue: {answer}").into());
        }
    }
    let usual = listings.median();
    let aim = Some((usual < Duration::from_millis(10), "< 10 ms"));
    table.figure(&format!("catalogue of {tools} tools, p50"), show(usual), aim);
    table.figure(&format!("catalogue of {tools} tools, p99"), show(listings.percentile(99)), None);
    Ok(())
}

fn compare(what: &str, ours: &Samples, peer: (&str, &Samples), aim: &str, most_ms: u64, table: &mut Table) {
    let p50 = ours.median();
    table.ratio(&format!("{what}, p50"), p50, (peer.0, peer.1.median()), None);
    table.ratio(&format!("{what}, p99"), ours.percentile(99), (peer.0, peer.1.percentile(99)), None);
    let aim = Some((p50 < Duration::from_millis(most_ms), aim));
    table.figure(&format!("{what}, p50 of {}", ours.count()), show(p50), aim);
}

/// Servers that nobody used.
async fn unused(table: &mut Table) -> Result<()> {
    let agents = scale("SKEP_BENCH_AGENTS", 200);
    let mut hive = Hive::new("t2-", agents)?;
    server_skill(&hive, "served", 3)?;
    hive.extend("", "skills = [\"served@1.0.0\"]")?;
    hive.up()?;
    hive.all_running(agents).await?;
    tokio::time::sleep(Duration::from_secs(5)).await;
    let mut processes = 0;
    for n in (0..agents).step_by(agents.div_ceil(20)) {
        let listed = docker(&["top", &hive.container(&Hive::agent(n)), "-eo", "pid,args"])?;
        processes += listed.lines().filter(|line| line.contains("server.mjs")).count();
    }
    let name = format!("{agents} agents with 3 MCP servers each, idle: servers that run, of 20 agents");
    table.figure(&name, processes.to_string(), Some((processes == 0, "0")));
    let memory = hive.memory()?;
    table.figure(&format!("supervisor with these {agents} agents, resident"), mib(memory.rss), None);
    Ok(())
}
