//! Which addresses a target may stand at: public ones, and those that `[notify] allow` lists.
//!
//! Pure: it looks no name up. `guard` asks it for every address before it connects.

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
};

use reqwest::Url;
use serde::Serialize;

/// One entry of `[notify] allow`: a host, an address or a network, each with a port or with any.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(into = "String")]
pub struct AllowRule {
    place: Place,
    port: Option<u16>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Place {
    /// Wherever this name leads.
    Host(String),
    Net {
        address: IpAddr,
        prefix: u8,
    },
}

/// Why a target is not connected to.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}; {}", self.what(), self.remedy())]
pub struct Refused {
    host: String,
    leads: &'static str,
    kind: &'static str,
    address: IpAddr,
    port: u16,
}

impl Refused {
    /// What is wrong.
    #[must_use]
    pub fn what(&self) -> String {
        format!("{} {} {}, where notices are not sent", self.host, self.leads, self.kind)
    }

    /// What to do.
    #[must_use]
    pub fn remedy(&self) -> String {
        let place = SocketAddr::new(self.address, self.port).to_string();
        format!("if it is meant, add {place:?} to notify.allow")
    }
}

/// Whether a target called `host` may be connected to at `address` and `port`.
///
/// # Errors
/// The address is not a public one, and no rule covers it.
pub fn check(rules: &[AllowRule], host: &str, address: IpAddr, port: u16) -> Result<(), Refused> {
    let Some(kind) = not_public(address) else {
        return Ok(());
    };
    if rules.iter().any(|rule| rule.covers(host, address, port)) {
        return Ok(());
    }
    let leads = if literal(host).is_some() { "is" } else { "leads to" };
    Err(Refused { host: host.to_owned(), leads, kind, address: address.to_canonical(), port })
}

/// The address that a URL's host is, if it is one.
#[must_use]
pub fn literal(host: &str) -> Option<IpAddr> {
    host.trim_matches(['[', ']']).parse().ok()
}

impl AllowRule {
    /// Reads an entry as it is written in `skep.toml`.
    ///
    /// # Errors
    /// What is wrong with it, and the remedy.
    pub fn parse(written: &str) -> Result<Self, (String, String)> {
        let refused =
            |help: &str| (format!("{written:?} is not a host, address or network"), help.to_owned());
        let forms = "write \"hooks.lan\", \"hooks.lan:9000\", \"127.0.0.1:9000\" or \"10.0.0.0/8\"";
        let (place, port) = split(written).ok_or_else(|| refused(forms))?;
        let port = port.map(|p| {
            p.parse().ok().filter(|p| *p > 0).ok_or_else(|| refused("a port is a number from 1 to 65535"))
        });
        let port = port.transpose()?;
        let place = match place.split_once('/') {
            Some((address, prefix)) => network(address, prefix).map_err(|help| refused(&help))?,
            None => host(place).ok_or_else(|| refused(forms))?,
        };
        Ok(Self { place, port })
    }

    /// Whether it allows a connection to `host` at this address and port.
    #[must_use]
    pub fn covers(&self, host: &str, address: IpAddr, port: u16) -> bool {
        let place = match &self.place {
            Place::Host(name) => name == host.trim_end_matches('.'),
            Place::Net { address: network, prefix } => masked(address, *prefix) == Some(*network),
        };
        place && self.port.is_none_or(|p| p == port)
    }
}

impl fmt::Display for AllowRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = match &self.place {
            Place::Host(name) => name.clone(),
            Place::Net { address, prefix } if *prefix == width(*address) => address.to_string(),
            Place::Net { address, prefix } => format!("{address}/{prefix}"),
        };
        match self.port {
            None => f.write_str(&place),
            Some(port) if place.contains(':') => write!(f, "[{place}]:{port}"),
            Some(port) => write!(f, "{place}:{port}"),
        }
    }
}

impl From<AllowRule> for String {
    fn from(rule: AllowRule) -> Self {
        rule.to_string()
    }
}

/// An entry without its port, and the port as written. An IPv6 address or network with a port stands in brackets.
fn split(written: &str) -> Option<(&str, Option<&str>)> {
    if written.contains("//") {
        return None;
    }
    if let Some(inner) = written.strip_prefix('[') {
        let (place, behind) = inner.split_once(']')?;
        return match behind {
            "" => Some((place, None)),
            _ => Some((place, Some(behind.strip_prefix(':')?))),
        };
    }
    match written.split_once(':') {
        Some((place, port)) if !port.contains(':') => Some((place, Some(port))),
        _ => Some((written, None)),
    }
}

fn network(address: &str, prefix: &str) -> Result<Place, String> {
    let forms = || "write a network as \"10.0.0.0/8\" or \"fd00::/8\"".to_owned();
    let address: IpAddr = address.parse().map_err(|_| forms())?;
    let prefix: u8 = prefix.parse().map_err(|_| forms())?;
    match masked(address, prefix) {
        Some(first) if first == address => Ok(Place::Net { address, prefix }),
        Some(first) => Err(format!("the network is called \"{first}/{prefix}\"")),
        None => Err(forms()),
    }
}

/// A host as URLs have it: other spellings of an address (`127.1`) are that address, names are in ASCII.
fn host(written: &str) -> Option<Place> {
    let bracketed = if written.contains(':') { format!("[{written}]") } else { written.to_owned() };
    let url = Url::parse(&format!("http://{bracketed}/")).ok()?;
    let host = url.host_str()?;
    if let Some(address) = literal(host) {
        let address = address.to_canonical();
        return Some(Place::Net { address, prefix: width(address) });
    }
    let label =
        |l: &str| !l.is_empty() && l.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_');
    let name = host.trim_end_matches('.');
    // Anything else in the entry (a path, a user) would have gone elsewhere than into the host.
    let whole = url.path() == "/" && url.username().is_empty() && url.port().is_none();
    (whole && url.query().is_none() && name.split('.').all(label)).then(|| Place::Host(name.to_owned()))
}

fn width(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

/// The first address of the network of so many bits that an address is in; none when it has fewer bits.
fn masked(address: IpAddr, prefix: u8) -> Option<IpAddr> {
    let address = address.to_canonical();
    let free = u32::from(width(address).checked_sub(prefix)?);
    Some(match address {
        IpAddr::V4(a) => Ipv4Addr::from_bits(a.to_bits() & u32::MAX.checked_shl(free).unwrap_or(0)).into(),
        IpAddr::V6(a) => Ipv6Addr::from_bits(a.to_bits() & u128::MAX.checked_shl(free).unwrap_or(0)).into(),
    })
}

/// What kind of address it is, if it is not one of the public internet (the special-purpose registries of IANA).
#[must_use]
pub fn not_public(address: IpAddr) -> Option<&'static str> {
    match address.to_canonical() {
        IpAddr::V4(a) => not_public_v4(a),
        IpAddr::V6(a) => not_public_v6(a),
    }
}

fn not_public_v4(address: Ipv4Addr) -> Option<&'static str> {
    match address.octets() {
        [0, ..] => Some("an unspecified address"),
        [127, ..] => Some("a loopback address"),
        [10, ..] | [172, 16..=31, ..] | [192, 168, ..] => Some("a private address"),
        [100, 64..=127, ..] => Some("a carrier's private address"),
        [169, 254, ..] => Some("a link-local address"),
        [192, 0, 2, _] | [198, 51, 100, _] | [203, 0, 113, _] => Some("an address for documentation"),
        [224..=239, ..] => Some("a multicast address"),
        [192, 0, 0, _] | [192, 88, 99, _] | [198, 18..=19, ..] | [240..=255, ..] => {
            Some("a reserved address")
        }
        _ => None,
    }
}

fn not_public_v6(address: Ipv6Addr) -> Option<&'static str> {
    let embedded =
        |high: u16, low: u16| not_public_v4(Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low)));
    match address.segments() {
        [0, 0, 0, 0, 0, 0, 0, 0] => Some("an unspecified address"),
        [0, 0, 0, 0, 0, 0, 0, 1] => Some("a loopback address"),
        [0xfe80..=0xfebf, ..] => Some("a link-local address"),
        [0xfc00..=0xfdff, ..] => Some("a private address"),
        [0xff00..=0xffff, ..] => Some("a multicast address"),
        [0x2001, 0xdb8, ..] | [0x3fff, 0..=0xfff, ..] => Some("an address for documentation"),
        // NAT64 and 6to4 lead to the IPv4 address inside.
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] | [0x2002, high, low, ..] => embedded(high, low),
        [0x2001, 0..=0x1ff, ..] => Some("a reserved address"),
        [0x2000..=0x3fff, ..] => None,
        _ => Some("a reserved address"),
    }
}

#[cfg(test)]
#[path = "allow_tests.rs"]
mod tests;
