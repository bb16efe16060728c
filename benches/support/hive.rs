//! A hive under measurement: the real program in a folder of its own, spoken to over its socket.

use std::{
    fs,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use super::{Result, machine, machine::Memory, remove_labelled};

/// Longest wait for anything.
const PATIENCE: Duration = Duration::from_secs(180);

/// A hive; dropped, its supervisor ends and its containers go.
pub struct Hive {
    /// Holds the log, and the hive's own folder, whose changes the supervisor watches.
    folder: tempfile::TempDir,
    name: String,
    supervisor: Option<Child>,
    client: reqwest::Client,
}

impl Drop for Hive {
    fn drop(&mut self) {
        if let Err(e) = self.kill().and_then(|()| remove_labelled(&self.label())) {
            eprintln!("cleaning up: {e}");
        }
    }
}

impl Hive {
    /// Not started; with so many agents.
    pub fn new(name: &str, agents: usize) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        fs::create_dir(folder.path().join("hive"))?;
        let socket = folder.path().join("hive/.skep/skep.sock");
        skep::tls::install();
        let client = reqwest::Client::builder().unix_socket(socket).timeout(PATIENCE).build()?;
        let name = format!("{name}{}", std::process::id());
        let hive = Self { folder, name, supervisor: None, client };
        hive.configure(agents)?;
        Ok(hive)
    }

    fn label(&self) -> String {
        format!("skep.hive={}", self.name)
    }

    /// Name of agent number `n`.
    pub fn agent(n: usize) -> String {
        format!("a{n:03}")
    }

    /// Name of an agent's container.
    pub fn container(&self, agent: &str) -> String {
        format!("skep-{}-{agent}", self.name)
    }

    /// Writes `skep.toml` anew; a running supervisor follows.
    pub fn configure(&self, agents: usize) -> Result<()> {
        let mut text = format!(
            "[hive]\nname = \"{}\"\n[api]\nlisten = \"none\"\n[defaults]\nmemory = \"64MiB\"\n",
            self.name
        );
        for n in 0..agents {
            text += &format!("[agents.{}]\nskills = [\"basic-tools@1.0.0\"]\n", Self::agent(n));
        }
        let path = self.root().join("skep.toml");
        fs::write(path.with_extension("new"), text)?;
        Ok(fs::rename(path.with_extension("new"), path)?)
    }

    /// A script of the skill `bench@1.0.0`.
    pub fn script(&self, name: &str, text: &str) -> Result<()> {
        let folder = self.root().join("skills/bench@1.0.0");
        fs::create_dir_all(folder.join("scripts"))?;
        let path = folder.join(format!("scripts/{name}.sh"));
        fs::write(&path, text)?;
        fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
        let scripts: Vec<String> = fs::read_dir(folder.join("scripts"))?
            .map(|entry| Ok(format!("scripts/{}", entry?.file_name().to_string_lossy())))
            .collect::<Result<_>>()?;
        let manifest = json!({
            "id": "bench", "name": "bench", "version": "1.0.0", "description": "Scripts to measure with",
            "owner": "operator", "context": ["context.md"], "scripts": scripts,
        });
        fs::write(folder.join("context.md"), "Nothing to know.\n")?;
        Ok(fs::write(folder.join("manifest.json"), manifest.to_string())?)
    }

    /// Adds sections to `skep.toml`, and gives the agents other skills.
    pub fn extend(&self, sections: &str, skills: &str) -> Result<()> {
        let path = self.root().join("skep.toml");
        let text = fs::read_to_string(&path)?.replace("skills = [\"basic-tools@1.0.0\"]", skills);
        Ok(fs::write(path, text + sections)?)
    }

    /// Listens on loopback too.
    pub fn listen(&self, port: u16) -> Result<()> {
        let path = self.root().join("skep.toml");
        let text = fs::read_to_string(&path)?;
        Ok(fs::write(path, text.replace("\"none\"", &format!("\"127.0.0.1:{port}\"")))?)
    }

    /// What TCP asks for.
    pub fn token(&self) -> Result<String> {
        Ok(fs::read_to_string(self.root().join(".skep/token"))?.trim().to_owned())
    }

    /// Publishes an archive; its answer.
    pub async fn publish(&self, archive: Vec<u8>) -> Result<Value> {
        let request = self.client.post("http://skep/v1/skills").header("content-type", "application/gzip");
        let answer = request.body(archive).send().await?;
        let status = answer.status();
        let text = answer.text().await?;
        if status.is_success() {
            Ok(serde_json::from_str(&text)?)
        } else {
            Err(format!("{status} {text}").into())
        }
    }

    /// The events from now on, as they come.
    pub async fn events(
        &self,
    ) -> Result<impl futures_util::Stream<Item = reqwest::Result<bytes::Bytes>> + use<>> {
        Ok(self.client.get("http://skep/v1/events").send().await?.error_for_status()?.bytes_stream())
    }

    /// Starts the supervisor without waiting.
    pub fn up(&mut self) -> Result<()> {
        let log = fs::File::options().create(true).append(true).open(self.log_path())?;
        let child = Command::new(env!("CARGO_BIN_EXE_skep"))
            .arg("--dir")
            .arg(self.root())
            .arg("up")
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()?;
        self.supervisor = Some(child);
        Ok(())
    }

    /// The hive's folder.
    pub fn root(&self) -> std::path::PathBuf {
        self.folder.path().join("hive")
    }

    fn log_path(&self) -> std::path::PathBuf {
        self.folder.path().join("bench.log")
    }

    /// SIGKILL for the supervisor; the agents run on.
    pub fn kill(&mut self) -> Result<()> {
        if let Some(mut child) = self.supervisor.take() {
            child.kill()?;
            child.wait()?;
        }
        Ok(())
    }

    /// What the supervisor takes.
    pub fn memory(&self) -> Result<Memory> {
        machine::memory(self.pid())
    }

    /// The supervisor's pid.
    pub fn pid(&self) -> u32 {
        self.supervisor.as_ref().map_or(0, Child::id)
    }

    async fn ask(&self, path: &str) -> Option<Value> {
        let answer = self.client.get(format!("http://skep{path}")).send().await.ok()?;
        if !answer.status().is_success() {
            return None;
        }
        serde_json::from_slice(&answer.bytes().await.ok()?).ok()
    }

    /// What the supervisor answers.
    pub async fn get(&self, path: &str) -> Result<Value> {
        self.ask(path).await.ok_or_else(|| format!("GET {path} failed").into())
    }

    /// Many commands, eight at a time.
    pub async fn post_all(&self, path: &str, bodies: Vec<Value>) -> Result<()> {
        use futures_util::{StreamExt, TryStreamExt};
        let sent = bodies.iter().map(|body| self.post(path, Some(body)));
        futures_util::stream::iter(sent).buffer_unordered(8).try_for_each(|_| async { Ok(()) }).await
    }

    /// A command to the supervisor that must succeed.
    pub async fn post(&self, path: &str, body: Option<&Value>) -> Result<Value> {
        let request = self.client.post(format!("http://skep{path}"));
        let answer = match body {
            Some(body) => request.json(body).send().await?,
            None => request.send().await?,
        };
        let status = answer.status();
        let text = answer.text().await?;
        if !status.is_success() {
            return Err(format!("POST {path}: {status} {text}").into());
        }
        Ok(serde_json::from_str(&text).unwrap_or(Value::Null))
    }

    /// Waits until an agent has this status.
    pub async fn until(&self, agent: &str, status: &str) -> Result<()> {
        let path = format!("/v1/agents/{agent}");
        self.wait(Duration::from_millis(3), &format!("{agent} is never {status}"), || async {
            self.ask(&path).await.is_some_and(|view| view["status"] == status)
        })
        .await
    }

    /// Waits until so many agents run.
    pub async fn all_running(&self, agents: usize) -> Result<()> {
        self.wait(Duration::from_millis(20), "not all agents run", || async {
            let Some(answer) = self.ask("/v1/agents?limit=1000").await else { return false };
            let items = answer["items"].as_array();
            items.is_some_and(|a| a.iter().filter(|v| v["status"] == "running").count() == agents)
        })
        .await
    }

    async fn wait<F: Future<Output = bool>>(
        &self,
        pause: Duration,
        never: &str,
        done: impl Fn() -> F,
    ) -> Result<()> {
        let began = Instant::now();
        while !done().await {
            if began.elapsed() > PATIENCE {
                let log = fs::read_to_string(self.log_path()).unwrap_or_default();
                let last: Vec<&str> = log.lines().rev().take(20).collect();
                return Err(format!(
                    "{never}; the supervisor's last words, newest first:\n{}",
                    last.join("\n")
                )
                .into());
            }
            tokio::time::sleep(pause).await;
        }
        Ok(())
    }

    /// Runs `true` in an agent.
    pub async fn exec_true(&self, agent: &str) -> Result<()> {
        let answer =
            self.post(&format!("/v1/agents/{agent}/exec"), Some(&json!({ "command": ["true"] }))).await?;
        if answer["exit_code"] == 0 {
            return Ok(());
        }
        Err(format!("`true` failed: {answer}").into())
    }
}
