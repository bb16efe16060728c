//! HTTP clients for addresses that others chose: they connect to nothing that a check refuses.
//!
//! Addresses are checked after a name was looked up and before anything is connected, so that a name which leads
//! elsewhere the second time gains nothing. Redirects are not followed and proxies are not used: both would lead
//! around the check. What has an address for its host is connected to without a lookup: check that yourself.

use std::{error::Error, net::IpAddr, path::Path, sync::Arc, time::Duration};

use reqwest::{
    Certificate, Client, ClientBuilder,
    dns::{Addrs, Name, Resolve, Resolving},
    redirect,
};

type BoxError = Box<dyn Error + Send + Sync>;
/// Whether a host may be connected to at an address; the error is the cause of the client's.
pub(crate) type Check = Arc<dyn Fn(&str, IpAddr) -> Result<(), BoxError> + Send + Sync>;

/// How a client connects.
pub(crate) struct Outbound<'a> {
    /// Whether it will speak TLS: without, no certificate is needed, and a machine that has none can still connect.
    pub tls: bool,
    /// The only port that it will be used for (the lookup of a name is not told the port).
    pub port: u16,
    pub check: Check,
    /// A connection is made within this time.
    pub within: Duration,
    /// `[hive] ca_bundle`: certificate authorities that are trusted beside the system's.
    pub bundle: Option<&'a Path>,
}

/// A client that checks; `more` sets what else it needs. Reads the certificates of the system, which takes a while.
///
/// # Errors
/// The bundle or the system's certificates cannot be used.
pub(crate) fn client(
    outbound: Outbound<'_>,
    more: impl FnOnce(ClientBuilder) -> ClientBuilder,
) -> Result<Client, String> {
    crate::tls::install();
    let builder = Client::builder()
        .user_agent(concat!("skep/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(outbound.within)
        .redirect(redirect::Policy::none())
        .no_proxy()
        .referer(false)
        .dns_resolver(Arc::new(Lookup { check: outbound.check, port: outbound.port }));
    let builder = match outbound.bundle {
        _ if !outbound.tls => builder.tls_certs_only([]),
        Some(bundle) => builder.tls_certs_merge(certificates(bundle)?),
        None => builder,
    };
    more(builder).build().map_err(|e| root(&e))
}

fn certificates(bundle: &Path) -> Result<Vec<Certificate>, String> {
    let bad = |why: String| format!("[hive] ca_bundle {}: {why}", bundle.display());
    let pem = std::fs::read(bundle).map_err(|e| bad(e.to_string()))?;
    Certificate::from_pem_bundle(&pem).map_err(|e| bad(root(&e)))
}

/// Looks names up and keeps back what may not be connected to.
struct Lookup {
    check: Check,
    port: u16,
}

impl Resolve for Lookup {
    fn resolve(&self, name: Name) -> Resolving {
        let (check, port) = (self.check.clone(), self.port);
        Box::pin(async move {
            let mut allowed = Vec::new();
            let mut refused = None;
            for address in tokio::net::lookup_host((name.as_str(), port)).await? {
                match check(name.as_str(), address.ip()) {
                    Ok(()) => allowed.push(address),
                    Err(why) => refused = Some(why),
                }
            }
            match refused {
                Some(why) if allowed.is_empty() => Err(why),
                _ => Ok(Box::new(allowed.into_iter()) as Addrs),
            }
        })
    }
}

/// An error and what caused it, from the outside in.
pub(crate) fn chain<'e>(error: &'e (dyn Error + 'static)) -> impl Iterator<Item = &'e (dyn Error + 'static)> {
    std::iter::successors(Some(error), |&e| e.source())
}

/// The innermost cause of an error, which names no URL.
pub(crate) fn root(error: &(dyn Error + 'static)) -> String {
    chain(error).last().map(ToString::to_string).unwrap_or_default()
}
