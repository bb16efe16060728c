//! Asks a command of an image something, in a throw-away container with nothing in it.
//!
//! The engine removes the container by itself, so that a supervisor that dies leaves nothing.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use bollard::{
    container::LogOutput,
    query_parameters::{AttachContainerOptionsBuilder, StartContainerOptions},
};
use futures_util::StreamExt;
use tokio::time::timeout;

use super::{
    ContainerSpec, Engine, EngineError, Result,
    docker::{DockerEngine, WORK},
    docker_create::create_body,
};

/// The engine's (and its runtime's) words for a command that an image does not have.
const NOT_THERE: [&str; 3] = ["executable file not found", "no such file or directory", "permission denied"];
/// Names differ: the engine may still be removing the one before.
static COUNT: AtomicU32 = AtomicU32::new(0);
/// Bytes of output that are read.
const OUTPUT: usize = 64 << 10;

impl DockerEngine {
    /// See [`Engine::probe`].
    pub(super) async fn run_probe(
        &self,
        image_id: &str,
        command: &[String],
        limit: Duration,
    ) -> Result<Option<String>> {
        let image = self.inspect_image(image_id).await?;
        let spec = probe_spec(image_id, command);
        let mut body = create_body(&spec, &image);
        body.attach_stdout = Some(true);
        if let Some(host) = &mut body.host_config {
            host.auto_remove = Some(true);
        }
        let id = self.create_from(&spec.name, body).await?;
        let output = timeout(limit, self.probe_output(&id)).await;
        self.remove(&id).await?;
        match output {
            Ok(Ok(text)) => Ok(Some(text)),
            Ok(Err(EngineError::Refused(why))) if NOT_THERE.iter().any(|n| why.contains(n)) => Ok(None),
            Ok(Err(e)) => Err(e),
            Err(_) => Err(EngineError::Refused(format!(
                "{command:?} of image {image_id} did not end within {limit:?}"
            ))),
        }
    }

    async fn probe_output(&self, id: &str) -> Result<String> {
        let options = AttachContainerOptionsBuilder::new().stream(true).stdout(true).build();
        let what = format!("container {id}");
        let mut attached =
            self.call(&what, WORK, |c| async move { c.attach_container(id, Some(options)).await }).await?;
        self.call(&what, WORK, |c| async move { c.start_container(id, None::<StartContainerOptions>).await })
            .await?;
        let mut bytes = Vec::new();
        while let Some(Ok(output)) = attached.output.next().await {
            if let LogOutput::StdOut { message } = output {
                bytes.extend_from_slice(&message[..message.len().min(OUTPUT - bytes.len())]);
            }
        }
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}

fn probe_spec(image_id: &str, command: &[String]) -> ContainerSpec {
    let short = image_id.trim_start_matches("sha256:");
    ContainerSpec {
        name: format!(
            "skep-probe-{}-{}-{}",
            short.get(..12).unwrap_or(short),
            std::process::id(),
            COUNT.fetch_add(1, Ordering::Relaxed)
        ),
        image: image_id.to_owned(),
        image_id: image_id.to_owned(),
        command: command.to_vec(),
        env: BTreeMap::new(),
        user: (65_534, 65_534),
        working_dir: "/".to_owned(),
        hostname: "probe".to_owned(),
        mounts: Vec::new(),
        tmpfs: Vec::new(),
        memory: 512 << 20,
        nano_cpus: 1_000_000_000,
        pids: 64,
        shm_size: 1 << 20,
        network: "none".to_owned(),
        runtime: None,
        stop_timeout: 1,
        labels: BTreeMap::from([("skep.probe".to_owned(), "true".to_owned())]),
    }
}
