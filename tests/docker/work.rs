//! Jobs and runs for tests: made, started and waited for through the API.

use std::{fs, os::unix::fs::PermissionsExt, time::Instant};

use serde_json::{Value, json};

use crate::hive::{PATIENCE, TestHive};

/// An agent whose command is a shell that gets the instructions as its script.
pub const SHELL: &str = "command = [\"bash\", \"-c\", \"{instructions}\"]\n";

impl TestHive {
    /// A skill of the operator whose scripts, by file name, are tools; `more` goes into its manifest.
    pub fn tools(&self, id: &str, scripts: &[(&str, &str)], more: &Value) {
        let folder = format!("skills/{id}@1.0.0");
        let paths: Vec<String> = scripts.iter().map(|(name, _)| format!("scripts/{name}")).collect();
        let mut manifest = json!({
            "id": id, "name": id, "version": "1.0.0", "description": format!("The skill {id}"),
            "owner": "operator", "context": ["context/instructions.md"], "scripts": paths,
        });
        manifest.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap_or_default());
        self.write(&format!("{folder}/manifest.json"), &manifest.to_string());
        self.write(&format!("{folder}/context/instructions.md"), &format!("How to use {id}.\n"));
        for (path, (_, text)) in paths.iter().zip(scripts) {
            self.write(&format!("{folder}/{path}"), text);
            let mode = fs::Permissions::from_mode(0o755);
            fs::set_permissions(self.path(&format!("{folder}/{path}")), mode).unwrap();
        }
        if more.get("envVars").is_some() {
            self.write(&format!("{folder}/.env.example"), "");
        }
    }

    /// Makes a job that fires only when asked for; its id.
    pub async fn job(&self, name: &str, more: Value) -> i64 {
        let mut body = json!({ "agent": "one", "name": name, "manual": true });
        body.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap());
        let (status, job) = self.send("POST", "/v1/jobs", Some(body)).await;
        assert_eq!(status, 201, "{job:#}");
        job["id"].as_i64().unwrap()
    }

    /// Asks for a run of a job; its id.
    pub async fn run(&self, job: i64) -> i64 {
        let (status, run) = self.send("POST", &format!("/v1/jobs/{job}/run"), None).await;
        assert_eq!(status, 202, "{run:#}");
        run["id"].as_i64().unwrap()
    }

    /// Waits until a run's view satisfies `reached`.
    pub async fn run_until(&self, run: i64, what: &str, reached: impl Fn(&Value) -> bool) -> Value {
        let began = Instant::now();
        loop {
            // A test may have killed the supervisor just now.
            let view = match self.try_get(&format!("/v1/runs/{run}")).await {
                Some(text) => serde_json::from_str(&text).unwrap(),
                None => Value::Null,
            };
            if reached(&view) {
                return view;
            }
            assert!(began.elapsed() < PATIENCE, "run {run} is never {what}: {view:#}\n{}", self.log());
            tokio::time::sleep(std::time::Duration::from_millis(30)).await;
        }
    }

    /// Waits for the end of a run.
    pub async fn over(&self, run: i64) -> Value {
        self.run_until(run, "over", |view| view["finished_at"].is_string()).await
    }

    /// Makes a job, runs it, and waits for its end.
    pub async fn ran(&self, name: &str, more: Value) -> Value {
        let job = self.job(name, more).await;
        let run = self.run(job).await;
        self.over(run).await
    }

    /// The same, of agent `one` with these instructions alone.
    pub async fn told(&self, name: &str, instructions: &str) -> Value {
        self.ran(name, json!({ "instructions": instructions })).await
    }

    /// What a run said.
    pub async fn said(&self, run: &Value) -> String {
        self.text(&format!("/v1/runs/{}/output", run["id"])).await
    }

    /// Waits until a shell command in the agent's container succeeds.
    pub async fn sh_until(&self, agent: &str, script: &str) {
        let began = Instant::now();
        while self.sh(agent, script).await["exit_code"] != 0 {
            assert!(began.elapsed() < PATIENCE, "never: {script}\n{}", self.log());
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    }
}
