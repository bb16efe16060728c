//! A hive whose engine loses answers, goes away, or goes deaf: nothing is doubled, nothing is lost.

use std::{
    fs,
    path::PathBuf,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use serde_json::Value;

use crate::{
    bare::docker,
    hive::{PATIENCE, TestHive},
    proxy::{Proxy, shared_engine},
};

/// A command that needs more than a user may.
pub fn root_command(command: &[&str]) -> Command {
    let own: &[&str] = if rustix::process::geteuid().is_root() { &[] } else { &["sudo", "-n"] };
    let words: Vec<&&str> = own.iter().chain(command).collect();
    let mut made = Command::new(words[0]);
    made.args(&words[1..]);
    made
}

pub fn as_root(command: &[&str]) {
    let done = root_command(command).status().unwrap();
    assert!(done.success(), "as root: {}", command.join(" "));
}

pub async fn eventually(what: &str, mut reached: impl AsyncFnMut() -> bool) {
    let began = Instant::now();
    while !reached().await {
        assert!(began.elapsed() < PATIENCE, "never: {what}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

fn behind(proxy: &Proxy, config: &str) -> TestHive {
    let mut hive = TestHive::new(config);
    hive.env.push(proxy.host());
    hive
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_of_the_engine_that_is_lost_costs_no_agent_and_doubles_none() {
    let proxy = Proxy::before(&shared_engine());
    let mut hive = behind(&proxy, "[agents.a]\nstop_grace = \"1s\"\n");
    proxy.lose_answer("/containers/create");
    hive.start().await;
    let first = hive.running("a").await;
    assert!(proxy.lost_all(), "the answer to the create was lost");
    assert_eq!(hive.containers().len(), 1);
    assert_eq!(first["restarts"], 0, "nothing ended by itself: {first:#}");

    proxy.lose_answer("/start");
    assert_eq!(hive.send("POST", "/v1/agents/a/restart", None).await.0, 202);
    let id = first["container_id"].clone();
    let second = hive.until("a", "restarted", |v| v["status"] == "running" && v["container_id"] != id).await;
    assert!(proxy.lost_all(), "the answer to the start was lost");
    assert_eq!(hive.containers(), [second["container_id"].as_str().unwrap()]);
    assert_eq!(second["restarts"], 0, "{second:#}");

    // The same on the way down.
    proxy.lose_answer("/stop");
    proxy.lose_answer("DELETE ");
    assert_eq!(hive.send("POST", "/v1/agents/a/stop", None).await.0, 202);
    hive.status("a", "stopped").await;
    assert_eq!(hive.containers(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn while_the_engine_is_away_the_api_answers_and_agents_are_left_alone() {
    let proxy = Proxy::before(&shared_engine());
    let mut hive = behind(&proxy, "[agents.kept]\n[agents.ended]\nstop_grace = \"1s\"\n");
    hive.start().await;
    let kept = hive.running("kept").await["container_id"].clone();
    hive.running("ended").await;

    proxy.away(true);
    // What concerns the engine waits; what the hive knows is answered.
    assert_eq!(hive.send("POST", "/v1/agents/ended/stop", None).await.0, 202);
    eventually("the outage is told", async || hive.get("/v1/hive").await["engine"] != "ok").await;
    assert!(hive.try_get("/readyz").await.is_none(), "not ready");
    assert!(hive.try_get("/healthz").await.is_some(), "alive");
    assert_eq!(hive.sh("kept", "echo still here").await["stdout"], "still here\n");
    assert_eq!(hive.inspect("ended", "{{.State.Running}}"), "true");

    proxy.away(false);
    hive.status("ended", "stopped").await;
    let view = hive.running("kept").await;
    assert_eq!((&view["container_id"], &view["restarts"]), (&kept, &Value::from(0)));
    eventually("the recovery is told", async || hive.get("/v1/hive").await["engine"] == "ok").await;

    // A supervisor that starts without an engine.
    hive.kill();
    proxy.away(true);
    hive.spawn();
    eventually("it answers", async || hive.try_get("/healthz").await.is_some()).await;
    eventually("the outage is told", async || hive.get("/v1/hive").await["engine"] != "ok").await;
    assert_eq!(hive.agent("kept").await["status"], "pending");
    assert_eq!(hive.agent("ended").await["status"], "stopped");
    assert_eq!(hive.send("POST", "/v1/agents/ended/start", None).await.0, 202);
    proxy.away(false);
    hive.running("ended").await;
    assert_eq!(hive.running("kept").await["container_id"], kept);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_end_that_no_event_tells_of_is_found_within_seconds() {
    let proxy = Proxy::before(&shared_engine());
    let mut hive = behind(&proxy, "[agents.a]\n");
    hive.start().await;
    let id = hive.running("a").await["container_id"].clone();
    proxy.refuse("/events");
    let began = Instant::now();
    docker(&["kill", &hive.container("a")]);
    let again = hive.until("a", "back", |v| v["status"] == "running" && v["container_id"] != id).await;
    let took = began.elapsed();
    assert!(took < Duration::from_secs(12), "{took:?}");
    assert_eq!(again["restarts"], 1);
    assert_eq!(hive.containers().len(), 1);
    // The stream comes back by itself.
    proxy.allow_all();
    eventually("running", async || hive.agent("a").await["status"] == "running").await;
}

/// An engine of its own, away from the shared one: no network, no rules, its own folders and namespaces.
struct PrivateEngine {
    folder: tempfile::TempDir,
}

impl PrivateEngine {
    async fn new() -> Self {
        let engine = Self { folder: tempfile::tempdir().unwrap() };
        engine.start().await;
        // The init is all that such a container runs, and it is mounted.
        fs::write(engine.folder.path().join("empty.tar"), [0; 10240]).unwrap();
        engine.docker(&["import", engine.folder.path().join("empty.tar").to_str().unwrap(), "empty:latest"]);
        engine
    }

    /// An image with a shell and `sleep`, of this machine's own.
    fn shell_image(&self) -> &'static str {
        let tar = self.inner("shell.tar");
        let script = "set -- /bin/sh /bin/sleep; tar -chPf \"$0\" \"$@\" $(ldd \"$@\" | grep -o '/[^ :]*\\.so[^ ]*' | sort -u)";
        let made = Command::new("sh").args(["-c", script, &tar]).status().unwrap();
        assert!(made.success());
        self.docker(&["import", &tar, "shell:latest"]);
        "shell:latest"
    }

    fn inner(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    fn host(&self) -> String {
        format!("unix://{}", self.inner("sock"))
    }

    fn docker(&self, args: &[&str]) -> String {
        docker(&[&["-H", &self.host()], args].concat())
    }

    async fn start(&self) {
        // Where nobody reaps the dead, their pids look alive to the next engine.
        for pid in ["pid", "exec/containerd/containerd.pid"] {
            as_root(&["rm", "-f", &self.inner(pid)]);
        }
        let log = fs::File::options().create(true).append(true).open(self.inner("log")).unwrap();
        let (data, exec, pid, host) =
            (self.inner("data"), self.inner("exec"), self.inner("pid"), self.host());
        let command = [
            &["unshare", "--net", "--mount", "dockerd", "--bridge=none", "--iptables=false"][..],
            &[
                "--ip-forward=false",
                "--data-root",
                &data,
                "--exec-root",
                &exec,
                "--pidfile",
                &pid,
                "-H",
                &host,
            ],
        ]
        .concat();
        let mut child = root_command(&command)
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        // Ends with the engine.
        std::thread::spawn(move || child.wait());
        eventually("the private engine answers", async || {
            let asked = root_command(&["docker", "-H", &host, "version"]).output().unwrap();
            asked.status.success()
        })
        .await;
    }

    /// Every process of the engine and of its containers: each shim has its folder in its arguments, each
    /// container has a shim for parent.
    fn processes(&self) -> Vec<String> {
        let folder = self.folder.path().as_os_str().as_encoded_bytes();
        let all: Vec<PathBuf> = fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path()).collect();
        let pid = |process: &PathBuf| process.file_name().unwrap().to_str().unwrap().to_owned();
        let own: Vec<String> = all
            .iter()
            .filter(|process| {
                let command = fs::read(process.join("cmdline")).unwrap_or_default();
                let engine = [&b"dockerd"[..], b"containerd"].iter().any(|name| holds(&command, name));
                engine && holds(&command, folder)
            })
            .map(pid)
            .collect();
        let children = all.iter().filter(|process| {
            let stat = fs::read_to_string(process.join("stat")).unwrap_or_default();
            let parent = stat.rsplit(") ").next().and_then(|rest| rest.split(' ').nth(1));
            parent.is_some_and(|parent| own.iter().any(|pid| pid == parent))
        });
        let mut found: Vec<String> = children.map(pid).collect();
        found.extend(own.clone());
        found.sort();
        found.dedup();
        found
    }

    /// All of it dies at once.
    fn crash(&self) {
        for pid in self.processes() {
            root_command(&["kill", "-9", &pid]).stderr(Stdio::null()).status().unwrap();
        }
    }
}

fn holds(bytes: &[u8], needle: &[u8]) -> bool {
    bytes.windows(needle.len()).any(|window| window == needle)
}

impl Drop for PrivateEngine {
    fn drop(&mut self) {
        let host = self.host();
        let ids = root_command(&["docker", "-H", &host, "ps", "-aq"]).output().unwrap();
        for id in String::from_utf8_lossy(&ids.stdout).split_whitespace() {
            root_command(&["docker", "-H", &host, "rm", "-f", id]).output().ok();
        }
        if std::thread::panicking() {
            eprintln!(
                "--- log of the private engine\n{}",
                fs::read_to_string(self.inner("log")).unwrap_or_default()
            );
        }
        self.crash();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_that_crashes_with_all_its_containers_and_comes_back_gets_its_agents_again() {
    let engine = PrivateEngine::new().await;
    let mut hive = TestHive::new(
        "[defaults]\nimage = \"empty:latest\"\n[agents.a]\n[agents.b]\n[agents.off]\nautostart = false\n",
    );
    hive.env.push(("DOCKER_HOST".into(), engine.host()));
    hive.start().await;
    for agent in ["a", "b"] {
        hive.running(agent).await;
    }
    hive.status("off", "stopped").await;
    fs::write(hive.agent_dir("a").join("workspace/kept"), "work").unwrap();
    engine.crash();
    eventually("the crash is told", async || hive.get("/v1/hive").await["engine"] != "ok").await;
    assert!(hive.try_get("/healthz").await.is_some());
    for agent in ["a", "b"] {
        hive.status(agent, "pending").await;
    }
    engine.start().await;
    for agent in ["a", "b"] {
        let view = hive.running(agent).await;
        assert_eq!(view["restarts"], 1, "{view:#}");
    }
    assert_eq!(hive.agent("off").await["status"], "stopped");
    let listed = engine.docker(&["ps", "-aq", "--filter", "status=running"]);
    assert_eq!(listed.lines().count(), 2);
    assert_eq!(engine.docker(&["ps", "-aq"]).lines().count(), 2);
    assert_eq!(fs::read_to_string(hive.agent_dir("a").join("workspace/kept")).unwrap(), "work");
    hive.kill();
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_that_an_engine_took_with_it_are_lost_and_tried_again_by_their_policy() {
    let engine = PrivateEngine::new().await;
    let image = engine.shell_image();
    let mut hive = TestHive::new(&format!("[agents.one]\nimage = \"{image}\"\nskills = [\"kit@1.0.0\"]\n"));
    let script = "#!/bin/sh\n[ -e again ] && exit 0\n: > again\nsleep 600\n";
    hive.tools("kit", &[("long.sh", script)], &serde_json::json!({}));
    hive.env.push(("DOCKER_HOST".into(), engine.host()));
    hive.start().await;
    hive.running("one").await;
    let job = hive.job("long", serde_json::json!({ "tool": "long", "retries": 1 })).await;
    let run = hive.run(job).await;
    eventually("the run runs", async || hive.agent_dir("one").join("workspace/again").exists()).await;
    engine.crash();
    eventually("the crash is told", async || hive.get("/v1/hive").await["engine"] != "ok").await;
    engine.start().await;
    let lost = hive.over(run).await;
    assert_eq!((&lost["status"], &lost["exit_code"]), (&"lost".into(), &serde_json::Value::Null), "{lost:#}");
    let again = hive.runs_until(job, "succeeded", 1).await;
    assert_eq!(again[0]["attempt"], 2);
    hive.kill();
}
