//! The bridge network of a hive's agents.
//!
//! What the engine does not close by itself is closed by `firewall`.

use std::time::Duration;

use bollard::{
    models::{NetworkCreateRequest, NetworkInspect},
    query_parameters::InspectNetworkOptions,
};

use super::{
    EngineError, NetworkSpec, Result,
    docker::{ASK, DockerEngine, WORK},
    docker_fate::done_when,
};

/// How often, and how far apart, a network that another is just making is looked for.
const TRIES: u32 = 20;
const PAUSE: Duration = Duration::from_millis(100);

impl DockerEngine {
    /// See [`super::Engine::ensure_network`].
    pub(super) async fn make_network(&self, wanted: &NetworkSpec) -> Result<()> {
        let what = format!("network {}", wanted.name);
        let mut refusal = None;
        for _ in 0..TRIES {
            match self.network(&wanted.name).await {
                Err(EngineError::NotFound(_)) => {}
                found => return check_network(wanted, &found?),
            }
            let request = network_request(wanted);
            let created = self.call(&what, WORK, |c| async move { c.create_network(request).await }).await;
            match created {
                Ok(_) => return Ok(()),
                Err(e @ EngineError::Unavailable(_)) => return Err(e),
                // Perhaps another is making it (the bridge's name admits only one), and it shows soon.
                Err(e) => refusal = Some(e),
            }
            tokio::time::sleep(PAUSE).await;
        }
        Err(refusal.unwrap_or(EngineError::NotFound(what)))
    }

    pub(super) async fn drop_network(&self, name: &str) -> Result<()> {
        let result = self
            .call(&format!("network {name}"), WORK, |c| async move { c.remove_network(name).await })
            .await;
        done_when(result, |e| matches!(e, EngineError::NotFound(_)))
    }

    async fn network(&self, name: &str) -> Result<NetworkInspect> {
        self.call(&format!("network {name}"), ASK, |c| async move {
            c.inspect_network(name, None::<InspectNetworkOptions>).await
        })
        .await
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
