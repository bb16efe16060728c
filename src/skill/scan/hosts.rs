//! Hosts that scripts talk to and the skill does not declare, and places known for stolen data.

use std::{collections::BTreeSet, net::Ipv4Addr, sync::LazyLock};

use regex::bytes::Regex;

use super::{
    declared::Declared,
    finding::{
        Findings, Rule,
        Severity::{Info, Warning},
    },
    pattern::{Pattern, Table, regex},
    text::Text,
};
use crate::skill::diff::capability::host_of;

static URL: LazyLock<Regex> =
    LazyLock::new(|| regex(r"\b(?:https?|wss?|ftps?|sftp)://[^\s'\x22`<>\\)\]|,;]{1,300}"));
static COMMENT: LazyLock<Regex> = LazyLock::new(|| regex(r"\A[ \t]*(?:#(?:[^!]|$)|//|\*|--|/\*|REM\b)"));

const SITES: &[Pattern] = &[Pattern {
    rule: Rule::DropSite,
    severity: Warning,
    in_prose: Warning,
    expression: r"(?i)\b(?:webhook\.site|requestbin\.(?:com|net)|[\w-]+\.(?:m\.)?pipedream\.net|[\w-]+\.(?:ngrok(?:-free)?\.(?:io|app|dev)|trycloudflare\.com|loca\.lt|serveo\.net|burpcollaborator\.net|oastify\.com|interact\.sh|oast\.\w{2,6}|requestcatcher\.com|beeceptor\.com|dnslog\.cn)|pastebin\.com/(?:raw|api)|paste\.ee/|hastebin\.com|transfer\.sh\b|(?:https?://|@)?\bfile\.io/|0x0\.st\b|gofile\.io|termbin\.com|tmpfiles\.org|catbox\.moe|anonfiles\.com|discord(?:app)?\.com/api/webhooks/|api\.telegram\.org/bot)",
    unless: None,
    message: "A place where anybody can leave data, often used for what was stolen: see what is sent there",
}];
static TABLE: LazyLock<Table> = LazyLock::new(|| Table::new(SITES));

/// Never reached, or names of formats rather than places.
const PASSED_OVER: [&str; 16] = [
    "localhost",
    "example.com",
    "example.org",
    "example.net",
    "host.docker.internal",
    "www.w3.org",
    "w3.org",
    "schemas.openxmlformats.org",
    "schemas.microsoft.com",
    "json-schema.org",
    "purl.org",
    "purl.oclc.org",
    "ns.adobe.com",
    "docs.oasis-open.org",
    "schema.org",
    "xmlns.com",
];
const PASSED_OVER_ENDS: [&str; 9] = [
    ".localhost",
    ".example",
    ".invalid",
    ".test",
    ".local",
    ".example.com",
    ".example.org",
    ".example.net",
    ".internal",
];

/// Drop sites in any text, and addresses without a name.
pub(super) fn drop_sites(text: &Text<'_>, findings: &mut Findings) {
    TABLE.check(text, findings);
    for hit in URL.find_iter(&text.bytes) {
        let host = host_of(&String::from_utf8_lossy(hit.as_bytes()));
        let address = host.as_deref().and_then(address);
        let strange = host.as_deref().is_some_and(|h| h.split('.').any(|part| part.starts_with("xn--")));
        let message = if address.is_some_and(is_public) {
            "Talks to an address without a name: nobody can tell whose it is"
        } else if strange {
            "A host name with letters beyond ASCII, which may look like another"
        } else {
            continue;
        };
        if !findings.at(text, hit.range(), (Rule::DropSite, Warning), message) {
            break;
        }
    }
}

/// Also as one number, which browsers and curl understand.
fn address(host: &str) -> Option<Ipv4Addr> {
    let whole = || match host.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None => host.parse().ok(),
    };
    host.parse().ok().or_else(|| whole().map(Ipv4Addr::from))
}

fn is_public(address: Ipv4Addr) -> bool {
    !(address.is_private()
        || address.is_loopback()
        || address.is_link_local()
        || address.is_unspecified()
        || address.is_documentation()
        || address.is_broadcast()
        || address.is_multicast()
        || address.octets()[0] == 0)
}

/// Hosts in a script that nothing declares; each is told once a file.
pub(super) fn undeclared(text: &Text<'_>, declared: &Declared, findings: &mut Findings) {
    let mut told = BTreeSet::new();
    for hit in URL.find_iter(&text.bytes) {
        let Some(host) = host_of(&String::from_utf8_lossy(hit.as_bytes())) else { continue };
        let name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
        let passed_over = !host.contains('.')
            || !host.chars().all(name)
            || PASSED_OVER.contains(&host.as_str())
            || PASSED_OVER_ENDS.iter().any(|end| host.ends_with(end))
            || address(&host).is_some_and(|a| !is_public(a));
        if passed_over || declared.has_host(&host) || COMMENT.is_match(text.whole_line(hit.start())) {
            continue;
        }
        if told.insert(host.clone()) {
            let message = format!("Names the host {host}, which the skill does not declare");
            if !findings.at(text, hit.range(), (Rule::UndeclaredHost, Info), &message) {
                break;
            }
        }
    }
}
