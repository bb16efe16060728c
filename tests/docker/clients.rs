//! What other registries' clients make of a hive: ClawHub's own program, and one of agent-skills discovery, each
//! installed from npm in a container and speaking to a real hive over loopback.

use std::{
    collections::BTreeMap,
    fs,
    net::TcpListener,
    path::Path,
    process::{Command, Output},
};

use serde_json::{Value, json};

use crate::hive::TestHive;

/// A hive that listens, with the skill `work` (a manifest) and the skill `notes` (a SKILL.md alone).
async fn listening() -> (TestHive, u16, String) {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut hive = TestHive::new("");
    let config = fs::read_to_string(hive.path("skep.toml")).unwrap();
    let listen = format!("listen = \"127.0.0.1:{port}\"");
    hive.write("skep.toml", &config.replace("listen = \"none\"", &listen));
    hive.skill("work", "1.0.0", &json!({}));
    hive.write("skills/work@1.0.0/data/noise.bin", "\0\u{1}\u{2}\0");
    hive.write(
        "skills/notes/SKILL.md",
        "---\nname: notes\ndescription: Takes notes.\n---\n\nWrite it down.\n",
    );
    hive.start().await;
    let token = fs::read_to_string(hive.path(".skep/token")).unwrap().trim().to_owned();
    (hive, port, token)
}

/// Runs a script beside the hive, with a client from npm at hand; `/out` is a folder of the host.
async fn beside(client: &str, out: &Path, env: &[(&str, &str)], script: &str) -> Output {
    let mut command = Command::new("docker");
    command.args([
        "run",
        "--rm",
        "--network",
        "host",
        "--user",
        "0:0",
        "--workdir",
        "/out",
        "-e",
        "HOME=/tmp/home",
    ]);
    command.args(["-v", &format!("{}:/out", out.display())]);
    for (name, value) in env {
        command.args(["-e", &format!("{name}={value}")]);
    }
    let install = format!(
        "set -eu; mkdir -p /tmp/home /tmp/npm; npm install --silent --no-fund --no-audit --prefix /tmp/npm {client} >&2; \
         PATH=/tmp/npm/node_modules/.bin:$PATH; umask 000; {script}"
    );
    command.args(["skep-agent:latest", "bash", "-c", &install]);
    tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap()
}

fn said(output: &Output) -> String {
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "is npm's registry reachable?\n{out}\n{err}");
    format!("{out}{err}")
}

/// Files below a folder that a client did not make for itself.
fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let all = walkdir::WalkDir::new(folder).into_iter().map(Result::unwrap);
    let files = all.filter(|entry| entry.file_type().is_file());
    let named = files.map(|entry| {
        let path = entry.path().strip_prefix(folder).unwrap().to_str().unwrap().to_owned();
        (path, fs::read(entry.path()).unwrap())
    });
    named.filter(|(path, _)| !path.starts_with('.')).collect()
}

/// What was installed is what was published, and a SKILL.md.
fn assert_installed(folder: &Path, published: &Path) {
    let mut installed = files(folder);
    let published = files(published);
    let text = installed.get("SKILL.md").cloned().expect("clients look for nothing else");
    if !published.contains_key("SKILL.md") {
        assert!(text.starts_with(b"---\nname: "));
        installed.remove("SKILL.md");
    }
    assert_eq!(installed, published);
}

#[tokio::test(flavor = "multi_thread")]
async fn clawhubs_own_client_searches_inspects_installs_and_updates() {
    let (hive, port, token) = listening().await;
    let out = tempfile::tempdir().unwrap();
    let registry = format!("http://127.0.0.1:{port}");
    let env =
        [("CLAWHUB_REGISTRY", registry.as_str()), ("CLAWHUB_DISABLE_TELEMETRY", "1"), ("TOKEN", &token)];
    let script = "say() { echo \"== $1\"; shift; clawhub --no-input --workdir /out \"$@\"; }; \
        say wrong search work 2>&1 || true; \
        say login login --token $TOKEN; say whoami whoami; say search search 'skill work'; say explore explore; \
        say json inspect work --json --files --versions > /out/inspect.json; \
        say file inspect work --file context/instructions.md; \
        say install install work; say again install notes --version 0.0.0; \
        say missing install nothing 2>&1 || true; \
        say update update --all --no-input";
    let first = said(&beside("clawhub@0.23.3", out.path(), &env, script).await);
    let after = |mark: &str| {
        first
            .split(&format!("== {mark}\n"))
            .nth(1)
            .unwrap_or_default()
            .split("== ")
            .next()
            .unwrap()
            .to_owned()
    };
    assert!(after("wrong").contains(".skep/token"), "the refusal is shown as it is: {first}");
    assert!(after("search").contains("work v1.0.0"), "{first}");
    assert!(after("explore").contains("work") && after("explore").contains("notes"), "{first}");
    assert!(after("file").contains("How to use work 1.0.0."), "{first}");
    assert!(after("missing").contains("there is no skill nothing"), "{first}");
    let inspected = fs::read_to_string(out.path().join("inspect.json")).unwrap();
    let inspected: Value = serde_json::from_str(inspected.split_once('\n').unwrap().1).unwrap();
    assert_eq!(inspected["latestVersion"]["version"], "1.0.0");
    assert_eq!(inspected["version"]["files"].as_array().unwrap().len(), 5, "{inspected:#}");
    assert_installed(&out.path().join("skills/work"), &hive.path("skills/work@1.0.0"));
    assert_installed(&out.path().join("skills/notes"), &hive.path("skills/notes"));

    // It knows by their bytes what it has: the older and the newer way of counting them.
    hive.skill("work", "1.1.0", &json!({}));
    let (status, published) =
        hive.send("POST", "/v1/skills", Some(json!({ "path": "skills/work@1.1.0" }))).await;
    assert!(status < 300, "{published:#}");
    for client in ["clawhub@0.23.3", "clawhub@0.20.0"] {
        let script = "clawhub --no-input login --token $TOKEN; rm -rf skills/work; \
                      clawhub --no-input --workdir /out install work --version 1.0.0 --force; \
                      rm -r skills/work/.clawhub; \
                      clawhub --no-input --workdir /out update --all; clawhub --no-input --workdir /out update --all";
        let told = said(&beside(client, out.path(), &env, script).await);
        assert!(!told.contains("local changes"), "{client}: {told}");
        assert!(told.contains("up to date"), "{client}: {told}");
        assert_installed(&out.path().join("skills/work"), &hive.path("skills/work@1.1.0"));
    }
}

/// Speaks to the hive for clients that know no token, as a proxy in front of it would.
const PROXY: &str = "const http = require('http'), [to, token] = process.argv.slice(1); \
    http.createServer((q, s) => http.get({ port: to, path: q.url, headers: { host: '127.0.0.1:' + to, \
    authorization: 'Bearer ' + token } }, a => { s.writeHead(a.statusCode, a.headers); a.pipe(s) })) \
    .listen(0, '127.0.0.1', function () { require('fs').writeFileSync('/tmp/port', '' + this.address().port) })";

#[tokio::test(flavor = "multi_thread")]
async fn a_client_of_agent_skills_discovery_verifies_and_installs_every_skill() {
    let (hive, port, token) = listening().await;
    let out = tempfile::tempdir().unwrap();
    let port = port.to_string();
    let env = [
        ("PORT", port.as_str()),
        ("TOKEN", &token),
        ("DO_NOT_TRACK", "1"),
        ("PROXY", PROXY),
        ("NO_COLOR", "1"),
    ];
    let script = "node -e \"$PROXY\" $PORT $TOKEN & while ! [ -s /tmp/port ]; do sleep 0.1; done; \
        at=http://127.0.0.1:$(cat /tmp/port); \
        skills add $at --list </dev/null; \
        skills add $at --skill work notes --agent claude-code --copy --yes </dev/null";
    let told = said(&beside("skills@1.7.4", out.path(), &env, script).await);
    let index = hive.get("/.well-known/agent-skills/index.json").await;
    let skills = index["skills"].as_array().unwrap();
    assert!(skills.len() > 2, "{index:#}");
    assert!(
        told.contains(&format!("Found {} skills", skills.len())),
        "none was refused for its digest: {told}"
    );
    assert_installed(&out.path().join(".claude/skills/work"), &hive.path("skills/work@1.0.0"));
    assert_installed(&out.path().join(".claude/skills/notes"), &hive.path("skills/notes"));
}
