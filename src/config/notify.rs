//! `[notify]`: intervals, addresses that may be reached, and targets.
//!
//! Pure. Addresses that stand in the file are checked here; names are looked up only when something is sent. No fault
//! shows what a URL says, which may be secret.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

use reqwest::{
    Url,
    header::{HeaderName, HeaderValue},
};
use toml::de::DeValue;

use super::{
    keys::{self, Key},
    model::{Notify, NotifyTarget, NotifyTo},
    reader::{Field, Reader, Table},
};
use crate::{
    ids::SecretName,
    notify::allow::{self, AllowRule},
    secrets::template::Template,
};

/// A year.
const MOST_MINUTES: u32 = 525_600;

/// Headers that say what the request is; skep sets them.
const OWN_HEADERS: &[&str] = &[
    "connection",
    "content-length",
    "content-type",
    "host",
    "transfer-encoding",
    "webhook-id",
    "webhook-signature",
    "webhook-timestamp",
];

/// Reads the section, if it is there.
pub(super) fn read(r: &mut Reader, root: &Table<'_, '_>) -> Notify {
    let Some(table) = r.read(root, "notify", |r, f| r.table(f, keys::NOTIFY)) else {
        return Notify::default();
    };
    let allow = r.read(&table, "allow", |r, f| {
        r.array(f, |r, f| {
            let written = r.filled(f)?;
            r.accept(f, AllowRule::parse(written))
        })
    });
    let allow = allow.unwrap_or_default();
    let mut targets = Targets::default();
    targets.read(r, &table, "webhook", keys::WEBHOOK, |r, t| webhook(r, t, &allow));
    targets.read(r, &table, "telegram", keys::TELEGRAM, |r, t| telegram(r, t, &allow));
    targets.read(r, &table, "ntfy", keys::NTFY, |r, t| ntfy(r, t, &allow));
    let interval_minutes = r.read(&table, "interval_minutes", interval).unwrap_or(0);
    Notify { interval_minutes, targets: targets.all, allow }
}

fn interval(r: &mut Reader, f: &Field<'_, '_>) -> Option<u32> {
    let minutes = u32::try_from(r.integer(f)?).ok().filter(|n| *n <= MOST_MINUTES);
    let refused = || {
        (
            format!("{} must be from 0 to {MOST_MINUTES} minutes", f.path),
            "write a number such as 30".to_owned(),
        )
    };
    r.accept(f, minutes.ok_or_else(refused))
}

/// The table of one target.
struct Entry<'t, 'a, 'i> {
    field: &'t Field<'a, 'i>,
    table: &'t Table<'a, 'i>,
}

impl<'a, 'i> Entry<'_, 'a, 'i> {
    /// A key that must be there.
    fn required<T>(
        &self,
        r: &mut Reader,
        key: &str,
        example: &str,
        how: impl FnOnce(&mut Reader, &Field<'a, 'i>) -> Option<T>,
    ) -> Option<T> {
        if self.table.field(key).is_none() {
            r.fault(
                &self.field.span(),
                format!("{} has no {key}", self.field.path),
                format!("add {key} = {example}"),
            );
        }
        r.read(self.table, key, how)
    }
}

/// The targets so far, with the names that are taken.
#[derive(Default)]
struct Targets {
    all: Vec<NotifyTarget>,
    names: BTreeSet<String>,
}

impl Targets {
    /// Reads all tables of one kind.
    fn read(
        &mut self,
        r: &mut Reader,
        notify: &Table<'_, '_>,
        kind: &str,
        known: &[Key],
        mut how: impl FnMut(&mut Reader, &Entry<'_, '_, '_>) -> Option<NotifyTo>,
    ) {
        r.read(notify, kind, |r, f| {
            let DeValue::Array(_) = f.value.get_ref() else {
                let help = format!("write [[{}]] and its keys below", f.path);
                return r.wrong_type::<()>(f, "an array of tables", &help);
            };
            let mut number = 0;
            r.array(f, |r, f| {
                number += 1;
                let table = r.table(f, known)?;
                let written = r.read(&table, "name", name);
                let name = written.unwrap_or_else(|| format!("{kind}-{number}"));
                if !self.names.insert(name.clone()) {
                    let place = table.field("name").map_or_else(|| f.span(), |f| f.span());
                    r.fault(
                        &place,
                        format!("two targets are called {name:?}"),
                        "give each a name of its own",
                    );
                }
                let to = how(r, &Entry { field: f, table: &table })?;
                self.all.push(NotifyTarget { name, to });
                Some(())
            });
            Some(())
        });
    }
}

fn name(r: &mut Reader, f: &Field<'_, '_>) -> Option<String> {
    let written = r.filled(f)?;
    let ours = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    let good = written.len() <= 40 && !written.starts_with('-') && written.bytes().all(ours);
    let refused = || {
        (
            format!("{written:?} is not a valid name of a target"),
            "use lowercase letters, digits and hyphens, at most 40 characters".to_owned(),
        )
    };
    r.accept(f, if good { Ok(written.to_owned()) } else { Err(refused()) })
}

fn webhook(r: &mut Reader, t: &Entry<'_, '_, '_>, allow: &[AllowRule]) -> Option<NotifyTo> {
    let secret = r.read(t.table, "secret", secret);
    let headers = r.read(t.table, "headers", headers).unwrap_or_default();
    let confidential = headers.values().any(|value| value.secrets().next().is_some());
    let url = t.required(r, "url", "\"https://…\"", |r, f| {
        let written = r.filled(f)?;
        let template = r.accept(f, template(f, written))?;
        let filled = |value| template.fill(|_| Some(value)).unwrap_or_default();
        let url = address(r, f, &filled("a"), allow)?;
        if Url::parse(&filled("b")).ok().map(|u| u.origin()) != Some(url.origin()) {
            let message = format!("{} has a secret in its host", f.path);
            r.fault(&f.span(), message, "secrets may stand behind the host only: https://host/${NAME}");
            return None;
        }
        in_clear(r, f, &url, confidential || template.secrets().next().is_some(), allow);
        Some(template)
    })?;
    Some(NotifyTo::Webhook { url, secret, headers })
}

fn telegram(r: &mut Reader, t: &Entry<'_, '_, '_>, allow: &[AllowRule]) -> Option<NotifyTo> {
    let chat_id = t.required(r, "chat_id", "\"8304042211\"", chat);
    let token = t.required(r, "token", "\"TELEGRAM_TOKEN\", the name of a secret", secret);
    let base_url = r.read(t.table, "base_url", |r, f| server(r, f, true, allow));
    Some(NotifyTo::Telegram {
        chat_id: chat_id?,
        token: token?,
        base_url: base_url.unwrap_or_else(|| "https://api.telegram.org".to_owned()),
    })
}

fn ntfy(r: &mut Reader, t: &Entry<'_, '_, '_>, allow: &[AllowRule]) -> Option<NotifyTo> {
    let topic = t.required(r, "topic", "\"my-alerts\"", topic);
    let token = r.read(t.table, "token", secret);
    let priority = r.read(t.table, "priority", priority);
    let url = t.required(r, "url", "\"https://ntfy.sh\"", |r, f| {
        let url = server(r, f, token.is_some(), allow)?;
        let topic =
            topic.as_deref().filter(|topic| url.trim_end_matches('/').ends_with(&format!("/{topic}")));
        if topic.is_some() {
            r.fault(&f.span(), format!("{} ends with the topic", f.path), "write the server alone");
        }
        Some(url)
    });
    Some(NotifyTo::Ntfy { url: url?, topic: topic?, token, priority })
}

/// The name of a secret. What else stands there may be the secret itself, so it is not repeated.
fn secret(r: &mut Reader, f: &Field<'_, '_>) -> Option<SecretName> {
    let written = r.filled(f)?;
    let refused = || {
        (
            format!("{} is not the name of a secret", f.path),
            "keep the value with `skep secret set NAME`, and write NAME here".to_owned(),
        )
    };
    r.accept(f, written.parse().map_err(|_| refused()))
}

fn template(f: &Field<'_, '_>, written: &str) -> Result<Template, (String, String)> {
    let help = "write ${NAME} with the name of a secret";
    Template::parse(written).map_err(|why| (format!("{}: {why}", f.path), help.to_owned()))
}

fn headers(r: &mut Reader, f: &Field<'_, '_>) -> Option<BTreeMap<String, Template>> {
    let table = r.open(f)?;
    let mut headers = BTreeMap::new();
    for (written, field) in table.fields() {
        let name = HeaderName::from_bytes(written.as_bytes()).ok().map(|n| n.as_str().to_owned());
        let value = r.string(&field).and_then(|value| r.accept(&field, template(&field, value)));
        let (Some(name), Some(value)) = (name.clone(), value) else {
            if name.is_none() {
                r.fault(
                    &field.key,
                    format!("{written:?} is not a name of a header"),
                    "write it as in X-Team",
                );
            }
            continue;
        };
        let sendable = value.fill(|_| Some("")).is_ok_and(|v| HeaderValue::from_str(&v).is_ok());
        if OWN_HEADERS.contains(&name.as_str()) {
            r.fault(&field.key, format!("the header {written} is set by skep itself"), "remove it");
        } else if !sendable {
            r.fault(
                &field.span(),
                format!("{} holds a control character", field.path),
                "write it in one line",
            );
        } else if headers.insert(name, value).is_some() {
            r.fault(&field.key, format!("the header {written} is written twice"), "remove one of them");
        }
    }
    Some(headers)
}

/// A server's address, to which paths are added.
fn server(r: &mut Reader, f: &Field<'_, '_>, confidential: bool, allow: &[AllowRule]) -> Option<String> {
    let written = r.filled(f)?;
    let url = address(r, f, written, allow)?;
    if url.query().is_some() || url.fragment().is_some() {
        let message = format!("{} has more than a path behind its host", f.path);
        r.fault(&f.span(), message, "remove what follows ? or #");
        return None;
    }
    in_clear(r, f, &url, confidential, allow);
    Some(written.to_owned())
}

/// An HTTP address. One that is plainly not of the public internet must be allowed.
fn address(r: &mut Reader, f: &Field<'_, '_>, text: &str, allow: &[AllowRule]) -> Option<Url> {
    let url = Url::parse(text).ok().filter(|u| matches!(u.scheme(), "http" | "https"));
    let refused = || {
        (
            format!("{} is not an HTTP address", f.path),
            "write it like \"https://hooks.example.com/x\"".to_owned(),
        )
    };
    let url = r.accept(f, url.ok_or_else(refused))?;
    if !url.username().is_empty() || url.password().is_some() {
        let help = "send them as a header, with a secret: headers = { Authorization = \"Basic ${NAME}\" }";
        r.fault(&f.span(), format!("{} holds a user name or password", f.path), help);
        return None;
    }
    let (host, port) = (url.host_str()?, url.port_or_known_default()?);
    let known = match allow::literal(host) {
        Some(address) => vec![address],
        None if is_localhost(host) => vec![Ipv4Addr::LOCALHOST.into(), IpAddr::from(Ipv6Addr::LOCALHOST)],
        None => Vec::new(),
    };
    let checks: Vec<_> = known.iter().map(|ip| allow::check(allow, host, *ip, port)).collect();
    if let Some(Err(refused)) = checks.first()
        && checks.iter().all(Result::is_err)
    {
        r.fault(&f.span(), format!("{}: {}", f.path, refused.what()), refused.remedy());
        return None;
    }
    Some(url)
}

/// RFC 6761: this name, and all below it, are the machine itself.
fn is_localhost(host: &str) -> bool {
    let host = host.trim_end_matches('.');
    host == "localhost" || host.ends_with(".localhost")
}

/// Warns of secrets that can be read on their way through the public internet.
fn in_clear(r: &mut Reader, f: &Field<'_, '_>, url: &Url, confidential: bool, allow: &[AllowRule]) {
    let host = url.host_str().unwrap_or_default();
    let (address, port) = (allow::literal(host), url.port_or_known_default().unwrap_or_default());
    let near = address.is_some_and(|a| allow::not_public(a).is_some())
        || is_localhost(host)
        || allow.iter().any(|rule| rule.covers(host, Ipv4Addr::UNSPECIFIED.into(), port));
    if confidential && url.scheme() == "http" && !near {
        r.warn(&f.span(), format!("{}: its secret can be read on the way", f.path), "use https");
    }
}

fn chat(r: &mut Reader, f: &Field<'_, '_>) -> Option<String> {
    if let DeValue::Integer(_) = f.value.get_ref() {
        return r.integer(f).map(|id| id.to_string());
    }
    let written = r.filled(f)?;
    let word = |name: &str| !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    let good = written.parse::<i64>().is_ok() || written.strip_prefix('@').is_some_and(word);
    let refused = || {
        (
            format!("{written:?} is not a Telegram chat"),
            "write its number, such as \"8304042211\", or the \"@name\" of a channel".to_owned(),
        )
    };
    r.accept(f, if good { Ok(written.to_owned()) } else { Err(refused()) })
}

/// A topic as ntfy allows it.
fn topic(r: &mut Reader, f: &Field<'_, '_>) -> Option<String> {
    let written = r.filled(f)?;
    let ours = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
    let good = written.len() <= 64 && written.bytes().all(ours);
    let refused = || {
        (
            format!("{written:?} is not a topic of ntfy"),
            "use letters, digits, hyphens and underscores, at most 64 characters".to_owned(),
        )
    };
    r.accept(f, if good { Ok(written.to_owned()) } else { Err(refused()) })
}

fn priority(r: &mut Reader, f: &Field<'_, '_>) -> Option<u8> {
    let priority = u8::try_from(r.integer(f)?).ok().filter(|n| (1..=5).contains(n));
    let refused = || {
        (format!("{} must be from 1 to 5", f.path), "write 3 for the usual, 5 for the most urgent".to_owned())
    };
    r.accept(f, priority.ok_or_else(refused))
}
