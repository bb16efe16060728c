//! The only way to a target: HTTP clients that connect to nothing that `allow` refuses.
//!
//! Addresses are checked after a name was looked up and before anything is connected, so that a name which leads
//! elsewhere the second time gains nothing. Redirects are not followed and proxies are not used: both would lead
//! around the check.

use std::{
    collections::BTreeMap,
    error::Error,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use reqwest::{
    Certificate, Client, Url,
    dns::{Addrs, Name, Resolve, Resolving},
    redirect,
};

use super::allow::{self, AllowRule, Refused};

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
        let lookup = Lookup { rules: self.rules.clone(), port };
        // Reads the certificates of the system, which takes a while.
        let bundle = self.bundle.clone();
        let made = tokio::task::spawn_blocking(move || make(key.0, lookup, bundle.as_deref())).await;
        let client = made.map_err(|e| NoClient::Broken(e.to_string()))?.map_err(NoClient::Broken)?;
        self.clients.lock().unwrap_or_else(PoisonError::into_inner).insert(key, client.clone());
        Ok(client)
    }
}

fn make(tls: bool, lookup: Lookup, bundle: Option<&Path>) -> Result<Client, String> {
    crate::tls::install();
    let builder = Client::builder()
        .user_agent(concat!("skep/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(CONNECT)
        .redirect(redirect::Policy::none())
        .no_proxy()
        .referer(false)
        // Each attempt connects, and so is checked, anew.
        .pool_max_idle_per_host(0)
        .dns_resolver(Arc::new(lookup));
    // Without TLS no certificate is needed, and a machine that has none can still send.
    let builder = match bundle {
        _ if !tls => builder.tls_certs_only([]),
        Some(bundle) => builder.tls_certs_merge(certificates(bundle)?),
        None => builder,
    };
    builder.build().map_err(|e| root(&e))
}

fn certificates(bundle: &Path) -> Result<Vec<Certificate>, String> {
    let bad = |why: String| format!("[hive] ca_bundle {}: {why}", bundle.display());
    let pem = std::fs::read(bundle).map_err(|e| bad(e.to_string()))?;
    Certificate::from_pem_bundle(&pem).map_err(|e| bad(root(&e)))
}

/// Looks names up and keeps back what may not be connected to.
struct Lookup {
    rules: Arc<[AllowRule]>,
    port: u16,
}

impl Resolve for Lookup {
    fn resolve(&self, name: Name) -> Resolving {
        let (rules, port) = (self.rules.clone(), self.port);
        Box::pin(async move {
            let mut allowed = Vec::new();
            let mut refused = None;
            for address in tokio::net::lookup_host((name.as_str(), port)).await? {
                match allow::check(&rules, name.as_str(), address.ip(), port) {
                    Ok(()) => allowed.push(address),
                    Err(e) => refused = Some(e),
                }
            }
            match refused {
                Some(refused) if allowed.is_empty() => Err(refused.into()),
                _ => Ok(Box::new(allowed.into_iter()) as Addrs),
            }
        })
    }
}

/// Whether an error came of [`Lookup`].
pub(super) fn refusal(error: &reqwest::Error) -> Option<&Refused> {
    chain(error).find_map(|e| e.downcast_ref())
}

/// The innermost cause of an error, which names no URL.
pub(super) fn root(error: &reqwest::Error) -> String {
    chain(error).last().map(ToString::to_string).unwrap_or_default()
}

fn chain<'e>(error: &'e reqwest::Error) -> impl Iterator<Item = &'e (dyn Error + 'static)> {
    std::iter::successors(Some(error as &(dyn Error + 'static)), |&e| e.source())
}
