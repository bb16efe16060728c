//! The peers: the engine's own program and its bare API, with containers like those of the agents.

use std::process::Command;

use serde_json::{Value, json};

use super::{Result, docker, remove_labelled};

/// How the peers start containers: all that the engine holds of an agent's, with `sleep` as the program.
pub struct Peer {
    label: String,
    config: Value,
    host: Value,
    client: reqwest::Client,
}

impl Drop for Peer {
    fn drop(&mut self) {
        if let Err(e) = remove_labelled(&self.label) {
            eprintln!("cleaning up: {e}");
        }
    }
}

impl Peer {
    /// Like this agent's container.
    pub fn like(container: &str) -> Result<Self> {
        let all: Value = serde_json::from_str(&docker(&["inspect", container])?)?;
        let label = format!("skep.bench={}", std::process::id());
        let mut config = all[0]["Config"].clone();
        config["Entrypoint"] = json!(["sleep", "infinity"]);
        config["Labels"] = json!({ "skep.bench": std::process::id().to_string() });
        let endpoint = std::env::var("DOCKER_HOST").unwrap_or_default();
        let socket = endpoint.strip_prefix("unix://").unwrap_or("/var/run/docker.sock").to_owned();
        skep::tls::install();
        let client = reqwest::Client::builder().unix_socket(socket).build()?;
        Ok(Self { label, config, host: all[0]["HostConfig"].clone(), client })
    }

    /// `docker run -d` with every limit and mount.
    pub fn run_arguments(&self) -> Vec<String> {
        let text = |v: &Value| v.as_str().unwrap_or_default().to_owned();
        let number = |v: &Value| v.as_i64().unwrap_or(0);
        let (c, h) = (&self.config, &self.host);
        let mut all: Vec<String> =
            ["run", "-d", "--read-only", "--cap-drop", "ALL"].map(str::to_owned).into();
        let mut option = |name: &str, value: String| all.extend([format!("--{name}"), value]);
        option("security-opt", "no-new-privileges".to_owned());
        option("label", self.label.clone());
        option("network", text(&h["NetworkMode"]));
        option("memory", number(&h["Memory"]).to_string());
        option("memory-swap", number(&h["MemorySwap"]).to_string());
        option("cpus", format!("{}", number(&h["NanoCpus"]) as f64 / 1e9));
        option("pids-limit", number(&h["PidsLimit"]).to_string());
        option("shm-size", number(&h["ShmSize"]).to_string());
        option("ulimit", "core=1:1".to_owned());
        option("log-opt", "max-size=1m".to_owned());
        option("log-opt", "max-file=1".to_owned());
        option("user", text(&c["User"]));
        option("workdir", text(&c["WorkingDir"]));
        option("hostname", text(&c["Hostname"]));
        for pair in c["Env"].as_array().into_iter().flatten() {
            option("env", text(pair));
        }
        for (target, options) in h["Tmpfs"].as_object().into_iter().flatten() {
            option("tmpfs", format!("{target}:{}", text(options)));
        }
        for mount in h["Mounts"].as_array().into_iter().flatten().filter(|m| m["Type"] == "bind") {
            let read_only = if mount["ReadOnly"] == true { ",readonly" } else { "" };
            let (source, target) = (text(&mount["Source"]), text(&mount["Target"]));
            option(
                "mount",
                format!("type=bind,source={source},target={target}{read_only},bind-nonrecursive"),
            );
        }
        option("entrypoint", "sleep".to_owned());
        all.extend([text(&c["Image"]), "infinity".to_owned()]);
        all
    }

    /// `docker run -d`; the container's id.
    pub fn run(&self) -> Result<String> {
        docker(&self.run_arguments())
    }

    /// A loop of `docker run -d`, so many at once.
    pub fn run_many(&self, count: usize, at_once: usize) -> Result<()> {
        let status = Command::new("bash")
            .args([
                "-c",
                "n=$1 p=$2; shift 2; seq \"$n\" | xargs -P \"$p\" -I{} docker \"$@\" >/dev/null",
                "bash",
            ])
            .args([count.to_string(), at_once.to_string()])
            .args(self.run_arguments())
            .status()?;
        if status.success() { Ok(()) } else { Err("the loop of docker run failed".into()) }
    }

    /// Creates and starts with two calls to the engine's API, on a connection that is kept.
    pub async fn run_raw(&self) -> Result<String> {
        let mut body = self.config.clone();
        body["HostConfig"] = self.host.clone();
        let url = "http://engine/v1.41/containers";
        let answer = self.client.post(format!("{url}/create")).json(&body).send().await?;
        let created: Value = serde_json::from_slice(&answer.bytes().await?)?;
        let id = created["Id"]
            .as_str()
            .ok_or_else(|| format!("the engine created nothing: {created}"))?
            .to_owned();
        let started = self.client.post(format!("{url}/{id}/start")).send().await?;
        if started.status().is_success() { Ok(id) } else { Err(started.text().await?.into()) }
    }

    /// `docker exec … true`.
    pub fn exec_true(container: &str) -> Result<()> {
        docker(&["exec", container, "true"]).map(|_| ())
    }

    /// Removes all that were started.
    pub fn clear(&self) -> Result<()> {
        remove_labelled(&self.label)
    }
}
