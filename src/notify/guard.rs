//! The only way to a target: HTTP clients that connect to nothing that `allow` refuses.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use reqwest::{Client, Url};

use super::allow::{self, AllowRule, Refused};
use crate::outbound::{self, Outbound, chain};

/// A connection is made within this time.
const CONNECT: Duration = Duration::from_secs(5);

/// Makes clients, and keeps them: one for each scheme and port, because a rule may hold for one port alone, and the
/// lookup of a name is not told the port.
pub(super) struct Guard {
    rules: Arc<[AllowRule]>,
    /// Certificate authorities that are trusted beside the system's.
    bundle: Option<PathBuf>,
    clients: Mutex<BTreeMap<(bool, u16), Client>>,
}

/// Why there is no client for a URL.
#[derive(Debug, thiserror::Error)]
pub(super) enum NoClient {
    #[error(transparent)]
    Refused(#[from] Refused),
    #[error(
        "no HTTP client can be made: {0}; are the certificates of the system (ca-certificates) installed?"
    )]
    Broken(String),
}

impl Guard {
    pub(super) fn new(rules: &[AllowRule]) -> Self {
        Self { rules: rules.into(), bundle: None, clients: Mutex::default() }
    }

    /// Trusts the certificates in this file too.
    pub(super) fn trust(&mut self, bundle: PathBuf) {
        self.bundle = Some(bundle);
    }

    /// A client for this URL. It must not be used for another one.
    pub(super) async fn client(&self, url: &Url) -> Result<Client, NoClient> {
        let port = url.port_or_known_default().unwrap_or_default();
        let host = url.host_str().unwrap_or_default();
        // An address is connected to without a lookup, so nothing else would check it.
        if let Some(address) = allow::literal(host) {
            allow::check(&self.rules, host, address, port)?;
        }
        let key = (url.scheme() == "https", port);
        let kept = self.clients.lock().unwrap_or_else(PoisonError::into_inner).get(&key).cloned();
        if let Some(client) = kept {
            return Ok(client);
        }
        let (rules, bundle) = (self.rules.clone(), self.bundle.clone());
        let made = tokio::task::spawn_blocking(move || {
            let check = move |host: &str, address| Ok(allow::check(&rules, host, address, port)?);
            let outbound = Outbound {
                tls: key.0,
                port,
                check: Arc::new(check),
                within: CONNECT,
                bundle: bundle.as_deref(),
            };
            // Each attempt connects, and so is checked, anew.
            outbound::client(outbound, |builder| builder.pool_max_idle_per_host(0))
        })
        .await;
        let client = made.map_err(|e| NoClient::Broken(e.to_string()))?.map_err(NoClient::Broken)?;
        self.clients.lock().unwrap_or_else(PoisonError::into_inner).insert(key, client.clone());
        Ok(client)
    }
}

/// The rule that an error came of.
pub(super) fn refusal(error: &reqwest::Error) -> Option<&Refused> {
    chain(error).find_map(|e| e.downcast_ref())
}
