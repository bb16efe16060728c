//! The TCP door: `Host` and `Origin` against rebinding and foreign pages, then the bearer token.
//!
//! The operator's unix socket needs none of it: the file's mode is the lock.

use std::{net::IpAddr, sync::Arc};

use axum::{
    extract::{Request, State},
    http::{HeaderMap, StatusCode, Uri, header, uri::Authority},
    middleware::Next,
    response::{IntoResponse, Response},
};
use subtle::ConstantTimeEq;

use super::{access::Access, problem::Problem};
use crate::secrets::SecretValue;

/// Open without a token (contract.md 5).
const OPEN: &[&str] = &["/healthz", "/readyz"];

/// How a door of the operator knows that the operator calls.
#[derive(Debug, Clone)]
pub enum Auth {
    /// A unix socket that only the operator can open.
    Socket,
    /// TCP.
    Tcp(TcpAuth),
}

/// What TCP asks for.
#[derive(Debug, Clone)]
pub struct TcpAuth {
    /// The bearer token; an empty one admits nobody.
    pub token: SecretValue,
    /// The port that is listened on.
    pub port: u16,
    /// Names beside loopback addresses and `localhost`, in lower case (`[api] allowed_hosts`).
    pub allowed_hosts: Vec<String>,
}

/// Admits the operator, and marks the request as theirs.
pub async fn admit(State(auth): State<Arc<Auth>>, mut request: Request, next: Next) -> Response {
    if let Auth::Tcp(tcp) = auth.as_ref()
        && let Err(problem) = tcp.check(request.uri(), request.headers())
    {
        return problem.into_response();
    }
    request.extensions_mut().insert(Access::Operator);
    next.run(request).await
}

impl TcpAuth {
    fn check(&self, uri: &Uri, headers: &HeaderMap) -> Result<(), Problem> {
        self.check_host(uri, headers)?;
        self.check_origin(headers)?;
        if OPEN.contains(&uri.path()) || self.has_token(headers) {
            return Ok(());
        }
        Err(Problem::new(
            StatusCode::UNAUTHORIZED,
            "send the token of .skep/token as `Authorization: Bearer …`, or use the socket .skep/skep.sock",
        ))
    }

    fn check_host(&self, uri: &Uri, headers: &HeaderMap) -> Result<(), Problem> {
        let mut hosts = headers.get_all(header::HOST).iter();
        let (Some(host), None) = (hosts.next(), hosts.next()) else {
            return Err(Problem::new(StatusCode::BAD_REQUEST, "a request has exactly one Host header"));
        };
        let named = host.to_str().ok().and_then(|h| h.parse().ok());
        let absolute = uri.authority().is_none_or(|a| self.is_ours(a));
        if absolute && named.is_some_and(|a| self.is_ours(&a)) {
            return Ok(());
        }
        Err(Problem::forbidden(format!(
            "the Host header names neither this machine's loopback with port {} nor a name in [api] allowed_hosts",
            self.port
        )))
    }

    fn check_origin(&self, headers: &HeaderMap) -> Result<(), Problem> {
        for origin in headers.get_all(header::ORIGIN) {
            let authority = origin
                .to_str()
                .ok()
                .and_then(|o| o.strip_prefix("http://").or_else(|| o.strip_prefix("https://")))
                .and_then(|a| a.parse::<Authority>().ok());
            if !authority.is_some_and(|a| self.is_ours(&a)) {
                return Err(Problem::forbidden("the request comes from a page of another origin"));
            }
        }
        Ok(())
    }

    /// Loopback needs the port, since other programs serve pages there; a configured name may come
    /// through a proxy at the scheme's own port.
    fn is_ours(&self, authority: &Authority) -> bool {
        if authority.as_str().contains('@') {
            return false;
        }
        let written = authority.host().to_ascii_lowercase();
        let host = written.strip_prefix('[').and_then(|h| h.strip_suffix(']')).unwrap_or(&written);
        let port = authority.port_u16();
        // What stands behind the colon must be a port.
        if port.is_none() && authority.as_str().len() != authority.host().len() {
            return false;
        }
        let address = host.parse::<IpAddr>().ok().map(|ip| ip.to_canonical());
        if host == "localhost" || address.is_some_and(|ip| ip.is_loopback()) {
            return port.unwrap_or(80) == self.port;
        }
        let configured =
            self.allowed_hosts.iter().any(|a| a == host || (address.is_some() && a.parse().ok() == address));
        configured && port.is_none_or(|p| p == self.port)
    }

    /// Takes the same time wherever the tokens differ.
    fn has_token(&self, headers: &HeaderMap) -> bool {
        let mut given = headers.get_all(header::AUTHORIZATION).iter();
        let (Some(given), None) = (given.next(), given.next()) else { return false };
        let Some((scheme, token)) = given.to_str().ok().and_then(|g| g.split_once(' ')) else { return false };
        let same: bool = token.trim().as_bytes().ct_eq(self.token.expose().as_bytes()).into();
        same && scheme.eq_ignore_ascii_case("bearer") && !self.token.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tcp() -> TcpAuth {
        TcpAuth {
            token: SecretValue::new("sesame").unwrap(),
            port: 7117,
            allowed_hosts: vec!["localhost".into(), "hive.example.com".into(), "10.0.0.1".into()],
        }
    }

    #[test]
    fn only_our_names_with_our_port_are_ours() {
        for (authority, ours) in [
            ("127.0.0.1:7117", true),
            ("127.8.8.8:7117", true),
            ("[::1]:7117", true),
            ("[::ffff:127.0.0.1]:7117", true),
            ("LOCALHOST:7117", true),
            ("hive.example.com", true),
            ("hive.example.com:7117", true),
            ("10.0.0.1:7117", true),
            ("localhost", false),
            ("localhost:80", false),
            ("localhost:7118", false),
            ("localhost.:7117", false),
            ("localhost.evil.example:7117", false),
            ("evil.example:7117", false),
            ("hive.example.com:81", false),
            ("hive.example.com.evil.example", false),
            ("10.0.0.2:7117", false),
            ("user@localhost:7117", false),
            ("0.0.0.0:7117", false),
        ] {
            assert_eq!(tcp().is_ours(&authority.parse().unwrap()), ours, "{authority}");
        }
    }

    #[test]
    fn no_token_is_as_good_as_an_empty_one() {
        let auth = TcpAuth { token: SecretValue::new("").unwrap(), ..tcp() };
        let mut headers = HeaderMap::new();
        headers.insert(header::AUTHORIZATION, "Bearer ".parse().unwrap());
        assert!(!auth.has_token(&headers));
    }
}
