//! What the tests of the engine share: names of their own, clean-up after a panic, raw looks at the engine.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use bollard::{Docker, container::LogOutput, query_parameters::LogsOptionsBuilder};
use futures_util::StreamExt;
use serde_json::Value;
use skep::{
    engine::{ContainerSpec, Engine, EngineError, docker::DockerEngine},
    sandbox::spec::spec_hash,
};

/// The image that everything is tried on; `make test` builds it.
pub const IMAGE: &str = "skep-agent:latest";

static COUNT: AtomicU32 = AtomicU32::new(0);

/// An engine, and names that no other test has; what was made under them is removed at the end.
pub struct World {
    pub engine: Arc<DockerEngine>,
    pub raw: Docker,
    pub prefix: String,
    trash: std::sync::Mutex<Vec<Trash>>,
}

#[derive(Clone)]
pub enum Trash {
    Container(String),
    Network(String),
    Image(String),
}

impl World {
    pub async fn new() -> Self {
        let endpoint = std::env::var("DOCKER_HOST").ok();
        let engine = Arc::new(DockerEngine::new(endpoint.as_deref()));
        let raw = match &endpoint {
            Some(host) => Docker::connect_with_host(host),
            None => Docker::connect_with_unix_defaults(),
        };
        let raw = raw.expect("a Docker engine (make up)");
        let raw = raw.negotiate_version().await.expect("a Docker engine (make up)");
        let n = COUNT.fetch_add(1, Ordering::Relaxed);
        Self {
            engine,
            raw,
            prefix: format!("t{}x{n}", std::process::id()),
            trash: std::sync::Mutex::default(),
        }
    }

    /// To be removed, whatever happens.
    pub fn later(&self, trash: Trash) {
        self.trash.lock().unwrap().push(trash);
    }

    /// A specification with nothing special, running `script` in bash.
    pub async fn spec(&self, name: &str, image: &str, script: &str) -> ContainerSpec {
        let image_id = self
            .engine
            .image(image)
            .await
            .unwrap_or_else(|e| panic!("{e}; build it: images/build.sh agent"))
            .id;
        ContainerSpec {
            name: format!("skep-{}-{name}", self.prefix),
            image: image.to_owned(),
            image_id,
            command: ["bash", "-c", script].map(str::to_owned).to_vec(),
            env: BTreeMap::new(),
            user: (100_123, 100_124),
            working_dir: "/workspace".to_owned(),
            hostname: name.to_owned(),
            mounts: Vec::new(),
            tmpfs: Vec::new(),
            memory: 128 << 20,
            nano_cpus: 500_000_000,
            pids: 64,
            shm_size: 8 << 20,
            network: "none".to_owned(),
            runtime: None,
            stop_timeout: 3,
            labels: BTreeMap::from([
                ("skep.hive".to_owned(), self.prefix.clone()),
                ("skep.agent".to_owned(), name.to_owned()),
            ]),
        }
    }

    pub async fn create(&self, spec: &ContainerSpec) -> Result<String, EngineError> {
        self.later(Trash::Container(spec.name.clone()));
        self.engine.create(spec, &spec_hash(spec)).await
    }

    pub async fn start(&self, spec: &ContainerSpec) -> String {
        let id = self.create(spec).await.unwrap();
        self.engine.start(&id).await.unwrap();
        id
    }

    /// Runs it to its end; standard output.
    pub async fn run(&self, spec: &ContainerSpec) -> String {
        let id = self.start(spec).await;
        let wait = async {
            while self.engine.inspect(&id).await.unwrap().state.running {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), wait).await.expect("it ends");
        self.output(&id).await
    }

    pub async fn output(&self, id: &str) -> String {
        let options = LogsOptionsBuilder::new().stdout(true).stderr(true).build();
        let mut logs = self.raw.logs(id, Some(options));
        let mut text = String::new();
        while let Some(line) = logs.next().await {
            match line.unwrap() {
                LogOutput::StdOut { message } | LogOutput::StdErr { message } => {
                    text += &String::from_utf8_lossy(&message);
                }
                _ => {}
            }
        }
        text
    }

    /// The engine's own words about a container.
    pub async fn inspect_raw(&self, id: &str) -> Value {
        let options = None::<bollard::query_parameters::InspectContainerOptions>;
        let found = self.raw.inspect_container(id, options).await.unwrap();
        serde_json::to_value(found).unwrap()
    }

    /// A small image on top of the agent's.
    pub async fn image(&self, name: &str, lines: &str) -> String {
        let tag = format!("skep-test-{}:{name}", self.prefix);
        self.later(Trash::Image(tag.clone()));
        let build = skep::engine::ImageBuild {
            tag: tag.clone(),
            context: tar_of("Dockerfile", &format!("FROM {IMAGE}\n{lines}\n")),
            args: BTreeMap::new(),
            labels: BTreeMap::new(),
        };
        let (progress, _taken) = tokio::sync::mpsc::channel(1);
        self.engine.build(build, progress).await.unwrap();
        tag
    }
}

pub fn tar_of(path: &str, content: &str) -> Vec<u8> {
    let mut tar = tar::Builder::new(Vec::new());
    let mut header = tar::Header::new_gnu();
    header.set_size(content.len() as u64);
    header.set_mode(0o644);
    tar.append_data(&mut header, path, content.as_bytes()).unwrap();
    tar.into_inner().unwrap()
}

impl Drop for World {
    fn drop(&mut self) {
        let mut trash = std::mem::take(&mut *self.trash.lock().unwrap());
        // Containers were made after the networks and images that they use.
        trash.reverse();
        let engine = DockerEngine::new(Some(self.engine.endpoint()));
        let clean = move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.unwrap().block_on(async move {
                for one in trash {
                    let removed = match &one {
                        Trash::Container(name) => engine.remove(name).await,
                        Trash::Network(name) => engine.remove_network(name).await,
                        Trash::Image(name) => engine.remove_image(name).await,
                    };
                    if let Err(e) = removed {
                        eprintln!("clean-up: {e}");
                    }
                }
            });
        };
        std::thread::spawn(clean).join().ok();
    }
}
