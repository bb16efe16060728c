//! The way to a remote server: streamable HTTP, to addresses that the agent may reach and nowhere else.

use std::{collections::HashMap, net::IpAddr, path::PathBuf, sync::Arc, time::Duration};

use reqwest::{
    Url,
    header::{HeaderName, HeaderValue},
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
use crate::{
    notify::allow::{AllowRule, literal, not_public},
    outbound::{self, Outbound},
};

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
    /// `[hive] ca_bundle`: certificate authorities that are trusted beside the system's.
    pub bundle: Option<PathBuf>,
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
        let (tls, rules, bundle) = (url.scheme() == "https", remote.rules.clone(), remote.bundle.clone());
        let made = tokio::task::spawn_blocking(move || {
            let check = move |host: &str, address| Ok(rules.check(host, address, port)?);
            let outbound =
                Outbound { tls, port, check: Arc::new(check), within: CONNECT, bundle: bundle.as_deref() };
            outbound::client(outbound, |builder| builder)
        })
        .await;
        let client = made
            .map_err(|e| bad(e.to_string()))?
            .map_err(|why| bad(format!("no HTTP client can be made: {why}")))?;
        let config = StreamableHttpClientTransportConfig::with_uri(remote.url.clone())
            .custom_headers(headers)
            .max_sse_event_size(MAX_MESSAGE)
            .max_concurrent_requests(AT_ONCE);
        let transport = StreamableHttpClientTransport::with_client(client, config);
        let mode = ClientLifecycleMode::Auto {
            preferred_versions: vec![ProtocolVersion::V_2026_07_28],
            legacy_version: Some(ProtocolVersion::V_2025_11_25),
        };
        Self::shake(transport, Gate::new(false), mode, within).await
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio_rustls::{TlsAcceptor, rustls};

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(10);

    /// A server for `localhost` that an authority of its own vouches for: that authority's certificate, and the server.
    fn server() -> (String, TlsAcceptor) {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let authority = params.self_signed(&key).unwrap().pem();
        let issuer = Issuer::new(params, key);
        let own = KeyPair::generate().unwrap();
        let certificate =
            CertificateParams::new(vec!["localhost".to_owned()]).unwrap().signed_by(&own, &issuer).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], own.serialize_der().try_into().unwrap())
            .unwrap();
        (authority, TlsAcceptor::from(Arc::new(config)))
    }

    #[tokio::test]
    async fn a_server_that_only_the_hives_bundle_vouches_for_is_trusted_with_it_alone() {
        let (authority, acceptor) = server();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("https://localhost:{}/mcp", listener.local_addr().unwrap().port());
        let (said, mut heard) = tokio::sync::mpsc::unbounded_channel();
        let served = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                // A client that does not trust it goes here.
                let Ok(mut stream) = acceptor.accept(stream).await else { continue };
                let mut head = [0; 14];
                stream.read_exact(&mut head).await.unwrap();
                said.send(String::from_utf8_lossy(&head).into_owned()).unwrap();
                let refused = b"HTTP/1.1 503 Busy\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
                drop(stream.write_all(refused).await);
            }
        });
        let dir = tempfile::tempdir().unwrap();
        let bundle = dir.path().join("authority.pem");
        std::fs::write(&bundle, authority).unwrap();
        let allow: Arc<[AllowRule]> = Arc::from([AllowRule::parse("localhost").unwrap()]);
        let connect = |bundle: Option<PathBuf>| {
            let rules = Rules { public: true, allow: allow.clone() };
            Connection::over_http(Remote { url: url.clone(), headers: Vec::new(), rules, bundle }, PATIENCE)
        };
        connect(None).await.err().expect("nobody vouches for it");
        assert!(heard.try_recv().is_err(), "nothing was said to who cannot be trusted");
        connect(Some(bundle.clone())).await.err().expect("it is busy");
        assert_eq!(heard.recv().await.unwrap(), "POST /mcp HTTP");

        std::fs::remove_file(&bundle).unwrap();
        let why = connect(Some(bundle)).await.err().unwrap().to_string();
        assert!(why.contains("[hive] ca_bundle") && why.contains("No such file"), "{why}");
        served.abort();
    }
}
