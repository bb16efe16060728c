//! A real hive for tests: the `skep` program on a folder of its own, spoken to over its socket.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicU32, Ordering},
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::bare::docker;

pub const PATIENCE: Duration = Duration::from_secs(60);

/// A hive; its supervisor is ended and its containers are removed when dropped.
pub struct TestHive {
    pub dir: tempfile::TempDir,
    pub name: String,
    /// Environment of the supervisor (`DOCKER_HOST` …).
    pub env: Vec<(String, String)>,
    supervisor: Option<Child>,
    client: reqwest::Client,
}

impl Drop for TestHive {
    fn drop(&mut self) {
        self.kill();
        let filter = format!("label=skep.hive={}", self.name);
        let ids = Command::new("docker").args(["ps", "-aq", "--filter", &filter]).output().unwrap();
        for id in String::from_utf8_lossy(&ids.stdout).split_whitespace() {
            Command::new("docker").args(["rm", "-f", id]).output().ok();
        }
        let network = format!("skep-{}-internet", self.name);
        Command::new("docker").args(["network", "rm", &network]).output().ok();
        if std::thread::panicking() {
            let log = fs::read_to_string(self.path("supervisor.log")).unwrap_or_default();
            let lines: Vec<&str> = log.lines().collect();
            eprintln!("--- log of the supervisor\n{}", lines[lines.len().saturating_sub(60)..].join("\n"));
        }
    }
}

impl TestHive {
    /// A hive with this `skep.toml` below its `[hive]` table; not started.
    pub fn new(config: &str) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("t{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let dir = tempfile::tempdir().unwrap();
        skep::tls::install();
        let client = reqwest::Client::builder()
            .unix_socket(dir.path().join(".skep/skep.sock"))
            .timeout(Duration::from_secs(120))
            .build()
            .unwrap();
        let hive = Self { dir, name, env: Vec::new(), supervisor: None, client };
        hive.configure(config);
        hive
    }

    /// The same, its supervisor ready.
    pub async fn up(config: &str) -> Self {
        let mut hive = Self::new(config);
        hive.start().await;
        hive
    }

    pub fn path(&self, inner: &str) -> PathBuf {
        self.dir.path().join(inner)
    }

    /// Writes `skep.toml` as an editor does: a new file renamed over the old.
    pub fn configure(&self, config: &str) {
        let text = format!("[hive]\nname = \"{}\"\n[api]\nlisten = \"none\"\n{config}", self.name);
        self.write("skep.toml.new", &text);
        fs::rename(self.path("skep.toml.new"), self.path("skep.toml")).unwrap();
    }

    pub fn write(&self, inner: &str, text: &str) {
        let path = self.path(inner);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// A skill of the operator with a manifest and one script, which prints its arguments and environment.
    pub fn skill(&self, id: &str, version: &str, more: &Value) {
        let mut manifest = json!({
            "id": id, "name": id, "version": version, "description": format!("The skill {id}"),
            "owner": "operator", "context": ["context/instructions.md"], "scripts": ["scripts/show.sh"],
        });
        manifest.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap_or_default());
        let folder = format!("skills/{id}@{version}");
        self.write(&format!("{folder}/manifest.json"), &manifest.to_string());
        self.write(&format!("{folder}/context/instructions.md"), &format!("How to use {id} {version}.\n"));
        self.write(
            &format!("{folder}/scripts/show.sh"),
            "#!/bin/bash\n# Shows what it gets.\necho \"$1\"; env\n",
        );
        let script = self.path(&format!("{folder}/scripts/show.sh"));
        fs::set_permissions(script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        if more.get("envVars").is_some() {
            self.write(&format!("{folder}/.env.example"), "");
        }
    }

    /// Starts the supervisor, without waiting.
    pub fn spawn(&mut self) {
        let log = fs::File::options().create(true).append(true).open(self.path("supervisor.log")).unwrap();
        let child = Command::new(env!("CARGO_BIN_EXE_skep"))
            .arg("--dir")
            .arg(self.dir.path())
            .arg("up")
            .envs(self.env.iter().cloned())
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        self.supervisor = Some(child);
    }

    /// Starts the supervisor and waits until it answers.
    pub async fn start(&mut self) {
        self.spawn();
        let began = Instant::now();
        while self.try_get("/readyz").await.is_none() {
            let ended = self.supervisor.as_mut().unwrap().try_wait().unwrap();
            assert!(
                ended.is_none() && began.elapsed() < PATIENCE,
                "the supervisor is not up: {}",
                self.log()
            );
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    pub fn log(&self) -> String {
        fs::read_to_string(self.path("supervisor.log")).unwrap_or_default()
    }

    pub fn pid(&self) -> u32 {
        self.supervisor.as_ref().unwrap().id()
    }

    /// SIGKILL for the supervisor.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.supervisor.take() {
            child.kill().ok();
            child.wait().ok();
        }
    }

    /// Waits until the supervisor ended by itself; its exit code and log.
    pub async fn ended(&mut self) -> (i32, String) {
        let mut child = self.supervisor.take().unwrap();
        let began = Instant::now();
        loop {
            if let Some(status) = child.try_wait().unwrap() {
                return (status.code().unwrap_or(-1), self.log());
            }
            if began.elapsed() > PATIENCE {
                child.kill().ok();
                panic!("the supervisor does not end: {}", self.log());
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// GET; none unless it answers with success.
    pub async fn try_get(&self, path: &str) -> Option<String> {
        let response = self.client.get(format!("http://skep{path}")).send().await.ok()?;
        if response.status().is_success() { response.text().await.ok() } else { None }
    }

    pub async fn get(&self, path: &str) -> Value {
        let text = self.try_get(path).await.unwrap_or_else(|| panic!("GET {path} failed: {}", self.log()));
        serde_json::from_str(&text).unwrap()
    }

    pub async fn text(&self, path: &str) -> String {
        self.try_get(path).await.unwrap_or_else(|| panic!("GET {path} failed"))
    }

    /// Any request: status and body.
    pub async fn send(&self, method: &str, path: &str, body: Option<Value>) -> (u16, Value) {
        let method = method.parse().unwrap();
        let mut request = self.client.request(method, format!("http://skep{path}"));
        if let Some(body) = body {
            request = request.json(&body);
        }
        let response = request.send().await.unwrap();
        let status = response.status().as_u16();
        let text = response.text().await.unwrap();
        (status, serde_json::from_str(&text).unwrap_or(Value::String(text)))
    }

    pub async fn agent(&self, agent: &str) -> Value {
        self.get(&format!("/v1/agents/{agent}")).await
    }

    /// Waits until what the API says of an agent satisfies `reached`.
    pub async fn until(&self, agent: &str, what: &str, reached: impl Fn(&Value) -> bool) -> Value {
        let began = Instant::now();
        loop {
            let view = match self.try_get(&format!("/v1/agents/{agent}")).await {
                Some(text) => serde_json::from_str(&text).unwrap(),
                None => Value::Null,
            };
            if reached(&view) {
                return view;
            }
            assert!(began.elapsed() < PATIENCE, "{agent} is never {what}: {view:#}\n{}", self.log());
            tokio::time::sleep(Duration::from_millis(30)).await;
        }
    }

    pub async fn status(&self, agent: &str, status: &str) -> Value {
        self.until(agent, status, |view| view["status"] == status).await
    }

    pub async fn running(&self, agent: &str) -> Value {
        self.status(agent, "running").await
    }

    /// Runs a shell script in an agent's container.
    pub async fn sh(&self, agent: &str, script: &str) -> Value {
        let body = json!({ "command": ["bash", "-c", script], "timeout": "30s" });
        let (status, answer) = self.send("POST", &format!("/v1/agents/{agent}/exec"), Some(body)).await;
        assert_eq!(status, 200, "{answer:#}");
        answer
    }

    pub fn container(&self, agent: &str) -> String {
        format!("skep-{}-{agent}", self.name)
    }

    /// Ids of all containers of this hive.
    pub fn containers(&self) -> Vec<String> {
        let filter = format!("label=skep.hive={}", self.name);
        docker(&["ps", "-aq", "--no-trunc", "--filter", &filter]).lines().map(str::to_owned).collect()
    }

    pub fn inspect(&self, agent: &str, format: &str) -> String {
        docker(&["inspect", "-f", format, &self.container(agent)])
    }

    pub fn agent_dir(&self, agent: &str) -> PathBuf {
        self.path(".skep/agents").join(agent)
    }
}

/// Every file below a folder that holds these bytes.
pub fn holding(folder: &Path, needle: &[u8]) -> Vec<PathBuf> {
    walkdir::WalkDir::new(folder)
        .into_iter()
        .flatten()
        .filter(|entry| entry.file_type().is_file())
        .filter(|entry| {
            fs::read(entry.path()).is_ok_and(|bytes| bytes.windows(needle.len()).any(|w| w == needle))
        })
        .map(walkdir::DirEntry::into_path)
        .collect()
}
