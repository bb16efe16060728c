//! The Docker engine (and what speaks its API): connection, life of containers, events.
//!
//! Every call has a time limit. Nothing is remembered about containers; only what cannot change
//! (an image by its id) or is asked anew after an outage (the engine's abilities) is kept.

use std::{
    collections::HashMap,
    future::Future,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use bollard::{
    API_DEFAULT_VERSION, Docker,
    errors::Error,
    models::{ContainerSummaryStateEnum, SystemInfo},
    query_parameters::{
        EventsOptionsBuilder, KillContainerOptionsBuilder, ListContainersOptionsBuilder,
        RemoveContainerOptionsBuilder, StartContainerOptions, StopContainerOptionsBuilder,
    },
};
use futures_util::StreamExt;
use tokio::{sync::mpsc, time::timeout};

use super::{
    ContainerSpec, Engine, EngineError, EngineEvent, EngineInfo, ImageBuild, ImageInfo, Inspected,
    LABEL_HIVE, Listed, NetworkSpec, Result,
    docker_fate::{done_when, fate, late},
};

/// Where an engine listens when nothing else is said.
pub const DEFAULT_ENDPOINT: &str = "unix:///var/run/docker.sock";
/// Creating, starting, removing.
pub(super) const WORK: Duration = Duration::from_secs(60);
/// Asking.
pub(super) const ASK: Duration = Duration::from_secs(15);
/// The client's own limit in seconds is out of the way: each call brings its own.
const CLIENT_LIMIT: u64 = 24 * 3600;
/// What `events` tells of; the rest (`exec_create`, `attach`, …) is noise.
const ACTIONS: [&str; 9] =
    ["create", "start", "die", "oom", "pause", "unpause", "destroy", "rename", "update"];

/// A connection to an engine; made without the engine, so that a supervisor can start before it.
#[derive(Debug)]
pub struct DockerEngine {
    endpoint: String,
    client: Mutex<Option<Docker>>,
    pub(super) abilities: Mutex<Option<Abilities>>,
    pub(super) image_cache: Mutex<HashMap<String, Arc<ImageInfo>>>,
}

/// What decides how a container is read back.
#[derive(Debug, Clone)]
pub(super) struct Abilities {
    /// The runtime's name where none was asked for.
    pub default_runtime: String,
    /// Whether the kernel can refuse swap; where not, the engine does without.
    pub swap_limit: bool,
}

impl DockerEngine {
    /// `endpoint` as in `DOCKER_HOST`: `unix://…`, `tcp://…`, `http://…` or a socket's path; none: the default
    /// socket. Nothing is dialled yet.
    #[must_use]
    pub fn new(endpoint: Option<&str>) -> Self {
        let endpoint = endpoint.map(str::trim).filter(|e| !e.is_empty());
        let endpoint = endpoint.unwrap_or(DEFAULT_ENDPOINT);
        Self {
            endpoint: match endpoint.strip_prefix('/') {
                Some(path) => format!("unix:///{path}"),
                None => endpoint.to_owned(),
            },
            client: Mutex::new(None),
            abilities: Mutex::new(None),
            image_cache: Mutex::new(HashMap::new()),
        }
    }

    /// Where the engine is dialled.
    #[must_use]
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// The client with the highest API version that both sides know.
    pub(super) async fn client(&self) -> Result<Docker> {
        if let Some(client) = lock(&self.client).as_ref() {
            return Ok(client.clone());
        }
        let client = match self.endpoint.split_once("://").map(|(scheme, _)| scheme) {
            Some("unix") => Docker::connect_with_unix(&self.endpoint, CLIENT_LIMIT, API_DEFAULT_VERSION),
            Some("tcp" | "http") => {
                Docker::connect_with_http(&self.endpoint, CLIENT_LIMIT, API_DEFAULT_VERSION)
            }
            _ => Err(Error::UnsupportedURISchemeError { uri: self.endpoint.clone() }),
        };
        let client = client.map_err(|e| fate(&self.endpoint, e))?;
        let client = timeout(ASK, client.negotiate_version())
            .await
            .map_err(|_| late("the version", ASK))?
            .map_err(|e| fate(&self.endpoint, e))?;
        *lock(&self.client) = Some(client.clone());
        Ok(client)
    }

    /// One call with its time limit and the fate of its error. After an outage versions and abilities are asked
    /// for anew: another engine may answer then.
    pub(super) async fn call<T, F>(
        &self,
        what: &str,
        limit: Duration,
        call: impl FnOnce(Docker) -> F,
    ) -> Result<T>
    where
        F: Future<Output = std::result::Result<T, Error>>,
    {
        let client = self.client().await?;
        let result = match timeout(limit, call(client)).await {
            Ok(answer) => answer.map_err(|e| fate(what, e)),
            Err(_) => Err(late(what, limit)),
        };
        if matches!(result, Err(EngineError::Unavailable(_))) {
            *lock(&self.client) = None;
            *lock(&self.abilities) = None;
        }
        result
    }

    async fn system_info(&self) -> Result<SystemInfo> {
        let info = self.call("the engine", ASK, |c| async move { c.info().await }).await?;
        *lock(&self.abilities) = Some(Abilities {
            default_runtime: info.default_runtime.clone().unwrap_or_default(),
            swap_limit: info.swap_limit.unwrap_or(false),
        });
        Ok(info)
    }

    pub(super) async fn abilities(&self) -> Result<Abilities> {
        let known = lock(&self.abilities).clone();
        match known {
            Some(known) => Ok(known),
            None => {
                self.system_info().await?;
                let asked = lock(&self.abilities).clone();
                asked.ok_or_else(|| late("the engine's abilities", ASK))
            }
        }
    }
}

/// A poisoned lock guards plain values here, which a panic cannot leave half done.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn container(name: &str) -> String {
    format!("container {name}")
}

#[async_trait]
impl Engine for DockerEngine {
    async fn info(&self) -> Result<EngineInfo> {
        let info = self.system_info().await?;
        let version = self.call("the engine's version", ASK, |c| async move { c.version().await }).await?;
        let api = self.client().await?.client_version();
        let mut runtimes: Vec<_> = info.runtimes.unwrap_or_default().into_keys().collect();
        runtimes.sort();
        Ok(EngineInfo {
            version: version.version.unwrap_or_default(),
            api_version: api.to_string(),
            runtimes,
            runtime_version: version
                .components
                .unwrap_or_default()
                .into_iter()
                .find(|c| c.name == "runc")
                .map(|c| c.version),
            storage_driver: info.driver.unwrap_or_default(),
            cgroup_version: info.cgroup_version.map_or_else(|| "1".to_owned(), |v| v.to_string()),
            security_options: info.security_options.unwrap_or_default(),
            warnings: info.warnings.unwrap_or_default(),
        })
    }

    async fn list(&self, hive: &str) -> Result<Vec<Listed>> {
        let filters = HashMap::from([("label", vec![format!("{LABEL_HIVE}={hive}")])]);
        let options = ListContainersOptionsBuilder::new().all(true).filters(&filters).build();
        let found = self
            .call("the list of containers", ASK, |c| async move { c.list_containers(Some(options)).await })
            .await?;
        let listed = found.into_iter().map(|c| Listed {
            id: c.id.unwrap_or_default(),
            // Other names come from links of other containers and have more slashes.
            name: c
                .names
                .unwrap_or_default()
                .iter()
                .filter_map(|n| n.strip_prefix('/'))
                .find(|n| !n.contains('/'))
                .unwrap_or_default()
                .to_owned(),
            labels: c.labels.unwrap_or_default().into_iter().collect(),
            running: matches!(
                c.state,
                Some(
                    ContainerSummaryStateEnum::RUNNING
                        | ContainerSummaryStateEnum::PAUSED
                        | ContainerSummaryStateEnum::RESTARTING
                )
            ),
            paused: c.state == Some(ContainerSummaryStateEnum::PAUSED),
        });
        Ok(listed.collect())
    }

    async fn inspect(&self, name: &str) -> Result<Inspected> {
        self.inspect_container(name).await
    }

    async fn create(&self, spec: &ContainerSpec, spec_hash: &str) -> Result<String> {
        self.create_container(spec, spec_hash).await
    }

    async fn start(&self, name: &str) -> Result<()> {
        self.call(&container(name), WORK, |c| async move {
            c.start_container(name, None::<StartContainerOptions>).await
        })
        .await
    }

    async fn stop(&self, name: &str, grace: Duration) -> Result<()> {
        let seconds = grace.as_millis().div_ceil(1000);
        let options =
            StopContainerOptionsBuilder::new().t(i32::try_from(seconds).unwrap_or(i32::MAX)).build();
        self.call(
            &container(name),
            grace + WORK,
            |c| async move { c.stop_container(name, Some(options)).await },
        )
        .await
    }

    async fn kill(&self, name: &str) -> Result<()> {
        let options = KillContainerOptionsBuilder::new().signal("KILL").build();
        let result = self
            .call(&container(name), WORK, |c| async move { c.kill_container(name, Some(options)).await })
            .await;
        done_when(result, |e| matches!(e, EngineError::Conflict(m) if m.contains("not running")))
    }

    async fn remove(&self, name: &str) -> Result<()> {
        let options = RemoveContainerOptionsBuilder::new().force(true).v(true).build();
        let result = self
            .call(&container(name), WORK, |c| async move { c.remove_container(name, Some(options)).await })
            .await;
        done_when(result, |e| match e {
            EngineError::NotFound(_) => true,
            EngineError::Conflict(m) => m.contains("already in progress"),
            _ => false,
        })
    }

    async fn pause(&self, name: &str) -> Result<()> {
        let result =
            self.call(&container(name), WORK, |c| async move { c.pause_container(name).await }).await;
        done_when(result, |e| matches!(e, EngineError::Conflict(m) if m.contains("already paused")))
    }

    async fn unpause(&self, name: &str) -> Result<()> {
        let result =
            self.call(&container(name), WORK, |c| async move { c.unpause_container(name).await }).await;
        done_when(
            result,
            |e| matches!(e, EngineError::Conflict(m) | EngineError::Refused(m) if m.contains("not paused")),
        )
    }

    async fn image(&self, reference: &str) -> Result<ImageInfo> {
        self.inspect_image(reference).await
    }

    async fn pull(&self, reference: &str, progress: mpsc::Sender<String>) -> Result<()> {
        self.pull_image(reference, &progress).await
    }

    async fn build(&self, build: ImageBuild, progress: mpsc::Sender<String>) -> Result<()> {
        self.build_image(build, &progress).await
    }

    async fn images(&self, label: &str) -> Result<Vec<ImageInfo>> {
        self.list_images(label).await
    }

    async fn remove_image(&self, reference: &str) -> Result<()> {
        self.drop_image(reference).await
    }

    async fn probe(&self, image_id: &str, command: &[String], limit: Duration) -> Result<Option<String>> {
        self.run_probe(image_id, command, limit).await
    }

    async fn ensure_network(&self, network: &NetworkSpec) -> Result<()> {
        self.make_network(network).await
    }

    async fn remove_network(&self, name: &str) -> Result<()> {
        self.drop_network(name).await
    }

    async fn events(&self, hive: &str, into: mpsc::Sender<EngineEvent>) -> Result<()> {
        let client = self.client().await?;
        let filters = HashMap::from([
            ("type", vec!["container".to_owned()]),
            ("label", vec![format!("{LABEL_HIVE}={hive}")]),
            ("event", ACTIONS.map(str::to_owned).to_vec()),
        ]);
        let options = EventsOptionsBuilder::new().filters(&filters).build();
        let mut stream = Box::pin(client.events(Some(options)));
        loop {
            let next = tokio::select! {
                next = stream.next() => next,
                () = into.closed() => return Ok(()),
            };
            let event = match next {
                Some(event) => event.map_err(|e| fate("the event stream", e))?,
                None => {
                    return Err(EngineError::Unavailable("the event stream ended".to_owned()));
                }
            };
            let (Some(action), Some(id)) = (event.action, event.actor.and_then(|a| a.id)) else {
                continue;
            };
            let event = EngineEvent { container: id, action };
            if into.send(event).await.is_err() {
                return Ok(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn without_an_engine_every_call_says_so() {
        let folder = tempfile::tempdir().unwrap();
        let nowhere = folder.path().join("docker.sock");
        let engine = DockerEngine::new(Some(nowhere.to_str().unwrap()));
        let error = engine.list("h").await.unwrap_err();
        assert!(matches!(error, EngineError::Unavailable(_)), "{error}");
        let listener = std::os::unix::net::UnixListener::bind(&nowhere).unwrap();
        drop(listener);
        let error = engine.list("h").await.unwrap_err();
        assert!(matches!(error, EngineError::Unavailable(_)), "{error}");
        let error = DockerEngine::new(Some("ssh://x")).info().await.unwrap_err();
        assert!(matches!(error, EngineError::Refused(_)), "{error}");
    }
}
