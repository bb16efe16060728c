//! The way to a remote server: streamable HTTP, to addresses that the agent may reach and nowhere else.
//!
//! Addresses are checked after a name was looked up and before anything is connected. Redirects are not followed and
//! proxies are not used: both would lead around the check.

use std::{collections::HashMap, error::Error, net::IpAddr, sync::Arc, time::Duration};

use reqwest::{
    Client, Url,
    dns::{Addrs, Name, Resolve, Resolving},
    header::{HeaderName, HeaderValue},
    redirect,
};
use rmcp::{
    model::ProtocolVersion,
    service::ClientLifecycleMode,
    transport::streamable_http_client::{StreamableHttpClientTransport, StreamableHttpClientTransportConfig},
};
use zeroize::Zeroizing;

use super::{
    client::Connection,
    fault::{MAX_MESSAGE, McpFault},
    gate::Gate,
};
use crate::notify::allow::{AllowRule, literal, not_public};

/// A connection is made within this time.
const CONNECT: Duration = Duration::from_secs(10);
/// Requests to one server at once.
const AT_ONCE: usize = 16;

/// Where an agent may connect to.
#[derive(Debug, Clone)]
pub struct Rules {
    /// Every public address.
    pub public: bool,
    /// And these, wherever they are.
    pub allow: Arc<[AllowRule]>,
}

impl Rules {
    /// Whether an address may be connected to.
    ///
    /// # Errors
    /// Why not.
    pub fn check(&self, host: &str, address: IpAddr, port: u16) -> Result<(), String> {
        if self.allow.iter().any(|rule| rule.covers(host, address, port)) {
            return Ok(());
        }
        match not_public(address) {
            Some(kind) => Err(format!("{host} leads to {kind}, where agents may not connect")),
            None if self.public => Ok(()),
            None => Err(format!("the agent's network does not allow {host}:{port}")),
        }
    }
}

/// A remote server.
pub struct Remote {
    /// Where it is.
    pub url: String,
    /// Headers of every request; values may be secret.
    pub headers: Vec<(String, Zeroizing<String>)>,
    /// Where it may lead.
    pub rules: Rules,
}

impl Connection {
    /// Connects to a remote server and shakes hands.
    ///
    /// # Errors
    /// It may not be reached, cannot be, or does not keep to MCP.
    pub async fn over_http(remote: Remote, within: Duration) -> Result<Self, McpFault> {
        let bad = |why: String| McpFault::Unreachable(why);
        let url: Url = remote.url.parse().map_err(|e| bad(format!("{:?} is no URL: {e}", remote.url)))?;
        let host = url.host_str().unwrap_or_default().to_owned();
        let port = url.port_or_known_default().unwrap_or_default();
        // An address is connected to without a lookup, so nothing else would check it.
        if let Some(address) = literal(&host) {
            remote.rules.check(&host, address, port).map_err(bad)?;
        }
        let mut headers = HashMap::new();
        for (name, value) in &remote.headers {
            let (named, valued) = (name.parse::<HeaderName>(), HeaderValue::from_str(value));
            let (Ok(named), Ok(mut valued)) = (named, valued) else {
                return Err(bad(format!("the header {name:?} or its value is none that HTTP allows")));
            };
            valued.set_sensitive(true);
            headers.insert(named, valued);
        }
        let lookup = Lookup { rules: remote.rules.clone(), port };
        // Reads the certificates of the system, which takes a while.
        let made = tokio::task::spawn_blocking(move || client(lookup)).await;
        let client = made.map_err(|e| bad(e.to_string()))?.map_err(bad)?;
        let config = StreamableHttpClientTransportConfig::with_uri(remote.url.clone())
            .custom_headers(headers)
            .max_sse_event_size(MAX_MESSAGE)
            .max_concurrent_requests(AT_ONCE);
        let transport = StreamableHttpClientTransport::with_client(client, config);
        let mode = ClientLifecycleMode::Auto {
            preferred_versions: vec![ProtocolVersion::V_2026_07_28],
            legacy_version: Some(ProtocolVersion::V_2025_11_25),
        };
        Self::shake(transport, Gate::new(), mode, within).await
    }
}

fn client(lookup: Lookup) -> Result<Client, String> {
    crate::tls::install();
    Client::builder()
        .user_agent(concat!("skep/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(CONNECT)
        .redirect(redirect::Policy::none())
        .no_proxy()
        .referer(false)
        .dns_resolver(Arc::new(lookup))
        .build()
        .map_err(|e| format!("no HTTP client can be made: {}", root(&e)))
}

/// Looks names up and keeps back what may not be connected to.
struct Lookup {
    rules: Rules,
    port: u16,
}

impl Resolve for Lookup {
    fn resolve(&self, name: Name) -> Resolving {
        let (rules, port) = (self.rules.clone(), self.port);
        Box::pin(async move {
            let mut allowed = Vec::new();
            let mut refused = None;
            for address in tokio::net::lookup_host((name.as_str(), port)).await? {
                match rules.check(name.as_str(), address.ip(), port) {
                    Ok(()) => allowed.push(address),
                    Err(why) => refused = Some(why),
                }
            }
            match refused {
                Some(why) if allowed.is_empty() => Err(why.into()),
                _ => Ok(Box::new(allowed.into_iter()) as Addrs),
            }
        })
    }
}

/// The innermost cause of an error, which names no URL.
fn root(error: &(dyn Error + 'static)) -> String {
    std::iter::successors(Some(error), |&e| e.source()).last().map(ToString::to_string).unwrap_or_default()
}
