//! The Docker engine (and what speaks its API): connection, fate of errors, life of containers, networks.
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
    models::{ContainerSummaryStateEnum, NetworkCreateRequest, NetworkInspect, SystemInfo},
    query_parameters::{
        EventsOptionsBuilder, InspectNetworkOptions, KillContainerOptionsBuilder,
        ListContainersOptionsBuilder, RemoveContainerOptionsBuilder, StartContainerOptions,
        StopContainerOptionsBuilder,
    },
};
use futures_util::StreamExt;
use tokio::{sync::mpsc, time::timeout};

use super::{
    ContainerSpec, Engine, EngineError, EngineEvent, EngineInfo, ImageBuild, ImageInfo, Inspected,
    LABEL_HIVE, Listed, NetworkSpec, Result,
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
const ACTIONS: [&str; 9] = [
    "create", "start", "die", "oom", "pause", "unpause", "destroy", "rename", "update",
];

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
            Some("unix") => {
                Docker::connect_with_unix(&self.endpoint, CLIENT_LIMIT, API_DEFAULT_VERSION)
            }
            Some("tcp" | "http") => {
                Docker::connect_with_http(&self.endpoint, CLIENT_LIMIT, API_DEFAULT_VERSION)
            }
            _ => Err(Error::UnsupportedURISchemeError {
                uri: self.endpoint.clone(),
            }),
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
        let info = self
            .call("the engine", ASK, |c| async move { c.info().await })
            .await?;
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

    async fn network(&self, name: &str) -> Result<NetworkInspect> {
        self.call(&format!("network {name}"), ASK, |c| async move {
            c.inspect_network(name, None::<InspectNetworkOptions>).await
        })
        .await
    }
}

/// A poisoned lock guards plain values here, which a panic cannot leave half done.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn late(what: &str, limit: Duration) -> EngineError {
    EngineError::Unavailable(format!("no answer about {what} within {limit:?}"))
}

/// The fate of every error of the client, decided here and nowhere else. `what` names the thing asked for.
pub(super) fn fate(what: &str, error: Error) -> EngineError {
    match error {
        Error::DockerResponseServerError {
            status_code: 404,
            message,
        } => EngineError::NotFound(missing_thing(what, &message)),
        Error::DockerResponseServerError {
            status_code: 409,
            message,
        } => EngineError::Conflict(format!("{what}: {message}")),
        // A proxy before an engine that is away, and an engine that is going down.
        Error::DockerResponseServerError {
            status_code: status @ (502..=504),
            message,
        } => EngineError::Unavailable(format!("{what}: {status} {message}")),
        Error::DockerResponseServerError { message, .. }
        | Error::DockerContainerWaitError { error: message, .. }
        | Error::DockerStreamError { error: message } => {
            EngineError::Refused(format!("{what}: {message}"))
        }
        Error::SocketNotFoundError(path) => {
            EngineError::Unavailable(format!("there is no socket {path}"))
        }
        error @ Error::UnsupportedURISchemeError { .. } => EngineError::Refused(format!(
            "{error}; DOCKER_HOST may be unix://, tcp:// or http://"
        )),
        // An answer that cannot be read is a disagreement about the API, not an outage.
        error @ (Error::JsonDataError { .. } | Error::JsonSerdeError { .. }) => {
            EngineError::Refused(format!(
                "{what}: the engine's answer makes no sense: {error}"
            ))
        }
        other => EngineError::Unavailable(format!("{what}: {}", chain(&other))),
    }
}

/// The engine says in its message which of several things is missing.
fn missing_thing(what: &str, message: &str) -> String {
    if let Some(image) = message.strip_prefix("No such image: ") {
        format!("image {image}")
    } else if let Some(container) = message.strip_prefix("No such container: ") {
        format!("container {container}")
    } else if message.starts_with("network ") && message.ends_with(" not found") {
        message.trim_end_matches(" not found").to_owned()
    } else {
        what.to_owned()
    }
}

/// The client's transport errors keep the reason in their source.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(e) = source {
        let more = e.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        source = e.source();
    }
    text
}

/// A call that finds its work already done has succeeded.
fn done_when(result: Result<()>, already: impl Fn(&EngineError) -> bool) -> Result<()> {
    match result {
        Err(e) if already(&e) => Ok(()),
        other => other,
    }
}

fn container(name: &str) -> String {
    format!("container {name}")
}

#[async_trait]
impl Engine for DockerEngine {
    async fn info(&self) -> Result<EngineInfo> {
        let info = self.system_info().await?;
        let version = self
            .call(
                "the engine's version",
                ASK,
                |c| async move { c.version().await },
            )
            .await?;
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
            cgroup_version: info
                .cgroup_version
                .map_or_else(|| "1".to_owned(), |v| v.to_string()),
            security_options: info.security_options.unwrap_or_default(),
            warnings: info.warnings.unwrap_or_default(),
        })
    }

    async fn list(&self, hive: &str) -> Result<Vec<Listed>> {
        let filters = HashMap::from([("label", vec![format!("{LABEL_HIVE}={hive}")])]);
        let options = ListContainersOptionsBuilder::new()
            .all(true)
            .filters(&filters)
            .build();
        let found = self
            .call("the list of containers", ASK, |c| async move {
                c.list_containers(Some(options)).await
            })
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
        let options = StopContainerOptionsBuilder::new()
            .t(i32::try_from(seconds).unwrap_or(i32::MAX))
            .build();
        self.call(&container(name), grace + WORK, |c| async move {
            c.stop_container(name, Some(options)).await
        })
        .await
    }

    async fn kill(&self, name: &str) -> Result<()> {
        let options = KillContainerOptionsBuilder::new().signal("KILL").build();
        let result = self
            .call(&container(name), WORK, |c| async move {
                c.kill_container(name, Some(options)).await
            })
            .await;
        done_when(
            result,
            |e| matches!(e, EngineError::Conflict(m) if m.contains("not running")),
        )
    }

    async fn remove(&self, name: &str) -> Result<()> {
        let options = RemoveContainerOptionsBuilder::new()
            .force(true)
            .v(true)
            .build();
        let result = self
            .call(&container(name), WORK, |c| async move {
                c.remove_container(name, Some(options)).await
            })
            .await;
        done_when(result, |e| match e {
            EngineError::NotFound(_) => true,
            EngineError::Conflict(m) => m.contains("already in progress"),
            _ => false,
        })
    }

    async fn pause(&self, name: &str) -> Result<()> {
        let result = self
            .call(&container(name), WORK, |c| async move {
                c.pause_container(name).await
            })
            .await;
        done_when(
            result,
            |e| matches!(e, EngineError::Conflict(m) if m.contains("already paused")),
        )
    }

    async fn unpause(&self, name: &str) -> Result<()> {
        let result = self
            .call(&container(name), WORK, |c| async move {
                c.unpause_container(name).await
            })
            .await;
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

    async fn probe(
        &self,
        image_id: &str,
        command: &[String],
        limit: Duration,
    ) -> Result<Option<String>> {
        self.run_probe(image_id, command, limit).await
    }

    async fn ensure_network(&self, wanted: &NetworkSpec) -> Result<()> {
        match self.network(&wanted.name).await {
            Err(EngineError::NotFound(_)) => {}
            found => return check_network(wanted, &found?),
        }
        let request = network_request(wanted);
        let what = format!("network {}", wanted.name);
        let created = self
            .call(
                &what,
                WORK,
                |c| async move { c.create_network(request).await },
            )
            .await;
        match created {
            Ok(_) => Ok(()),
            Err(e @ EngineError::Unavailable(_)) => Err(e),
            // Another was quicker; the bridge's name admits only one.
            Err(refusal) => match self.network(&wanted.name).await {
                Ok(found) => check_network(wanted, &found),
                Err(_) => Err(refusal),
            },
        }
    }

    async fn remove_network(&self, name: &str) -> Result<()> {
        let result = self
            .call(&format!("network {name}"), WORK, |c| async move {
                c.remove_network(name).await
            })
            .await;
        done_when(result, |e| matches!(e, EngineError::NotFound(_)))
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
                    return Err(EngineError::Unavailable(
                        "the event stream ended".to_owned(),
                    ));
                }
            };
            let (Some(action), Some(id)) = (event.action, event.actor.and_then(|a| a.id)) else {
                continue;
            };
            let event = EngineEvent {
                container: id,
                action,
            };
            if into.send(event).await.is_err() {
                return Ok(());
            }
        }
    }
}

fn network_request(wanted: &NetworkSpec) -> NetworkCreateRequest {
    NetworkCreateRequest {
        name: wanted.name.clone(),
        driver: Some("bridge".to_owned()),
        internal: Some(false),
        attachable: Some(false),
        // With no IPv6 on the network the engine turns it off inside the containers.
        enable_ipv6: Some(false),
        options: Some(network_options(wanted).into_iter().collect()),
        labels: Some(wanted.labels.clone().into_iter().collect()),
        ..Default::default()
    }
}

fn network_options(wanted: &NetworkSpec) -> [(String, String); 2] {
    [
        ("com.docker.network.bridge.name", wanted.bridge.as_str()),
        ("com.docker.network.bridge.enable_icc", "false"),
    ]
    .map(|(k, v)| (k.to_owned(), v.to_owned()))
}

fn check_network(wanted: &NetworkSpec, found: &NetworkInspect) -> Result<()> {
    let options = found.options.clone().unwrap_or_default();
    for (key, value) in network_options(wanted) {
        if options.get(&key) != Some(&value) {
            return Err(EngineError::Refused(format!(
                "network {name} is there, but not with {key}={value}; remove it (`docker network rm {name}`) or rename it",
                name = wanted.name
            )));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(status_code: u16, message: &str) -> EngineError {
        let message = message.to_owned();
        fate(
            "container a",
            Error::DockerResponseServerError {
                status_code,
                message,
            },
        )
    }

    #[test]
    fn every_error_has_one_fate() {
        assert!(matches!(
            server(404, "No such image: x:latest"),
            EngineError::NotFound(what) if what == "image x:latest"
        ));
        assert!(matches!(
            server(404, "network skep-x not found"),
            EngineError::NotFound(what) if what == "network skep-x"
        ));
        assert!(matches!(
            server(404, "?"),
            EngineError::NotFound(what) if what == "container a"
        ));
        assert!(matches!(
            server(409, "name in use"),
            EngineError::Conflict(_)
        ));
        assert!(matches!(server(400, "bad"), EngineError::Refused(m) if m == "container a: bad"));
        assert!(matches!(server(500, "no"), EngineError::Refused(_)));
        assert!(matches!(server(503, "away"), EngineError::Unavailable(_)));
        let eof = std::io::Error::from(std::io::ErrorKind::UnexpectedEof);
        assert!(matches!(
            fate("x", Error::from(eof)),
            EngineError::Unavailable(_)
        ));
        assert!(matches!(
            fate("x", Error::RequestTimeoutError),
            EngineError::Unavailable(_)
        ));
    }

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
