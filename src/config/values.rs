//! Rules for single values of `skep.toml`: paths, addresses, images, zones, names of variables.
//!
//! Pure: each takes what was written and answers with the value or with (what is wrong, remedy).

use std::{
    net::{IpAddr, SocketAddr},
    path::{Component, Path, PathBuf},
};

use super::keys;

type Checked<T> = Result<T, (String, String)>;

fn refuse<T>(message: impl Into<String>, help: impl Into<String>) -> Checked<T> {
    Err((message.into(), help.into()))
}

/// A path inside the hive, relative and without `.` or `..`; never in `.skep`, which may be deleted.
pub(super) fn inside_hive(written: &str) -> Checked<PathBuf> {
    let help = "write a path inside the hive, relative to skep.toml";
    let mut path = PathBuf::new();
    for part in Path::new(written).components() {
        match part {
            Component::Normal(name) => path.push(name),
            Component::CurDir => {}
            Component::ParentDir => {
                return refuse(format!("{written:?} leads out of the hive with `..`"), help);
            }
            Component::RootDir | Component::Prefix(_) => {
                return refuse(format!("{written:?} is an absolute path"), help);
            }
        }
    }
    if written.starts_with('~') {
        return refuse(format!("{written:?}: `~` is not expanded here"), help);
    }
    if path.as_os_str().is_empty() {
        return refuse(format!("{written:?} is the hive itself"), "name a file or folder inside the hive");
    }
    if path.starts_with(".skep") {
        let message = format!("{written:?} is in .skep, which holds state that may be deleted");
        return refuse(message, "keep what you write outside of .skep");
    }
    Ok(path)
}

/// A path inside the hive, or an absolute one: the operator's own files.
pub(super) fn operators_path(written: &str) -> Checked<PathBuf> {
    let path = Path::new(written);
    if !path.is_absolute() {
        return inside_hive(written);
    }
    if path.components().any(|c| c == Component::ParentDir) || path == Path::new("/") {
        return refuse(format!("{written:?} is not a plain absolute path"), "write it without `..`");
    }
    Ok(path.to_owned())
}

/// A socket address with a port, or `none`.
pub(super) fn listen(written: &str) -> Checked<Option<SocketAddr>> {
    if written == "none" {
        return Ok(None);
    }
    if let Ok(address) = written.parse() {
        return Ok(Some(address));
    }
    let message = format!("{written:?} is not an IP address with a port");
    if let Ok(ip) = written.trim_matches(['[', ']']).parse::<IpAddr>() {
        return refuse(message, format!("add the port: \"{}\"", SocketAddr::new(ip, 7117)));
    }
    let port = written.rsplit(':').next().unwrap_or_default();
    if port.parse::<u16>().is_ok()
        && (written.starts_with("localhost:") || written.starts_with(':') || port == written)
    {
        return refuse(message, format!("write \"127.0.0.1:{port}\""));
    }
    refuse(message, "write \"127.0.0.1:7117\", or \"none\" for the unix socket alone")
}

/// A host name or IP address alone, in lower case.
pub(super) fn host(written: &str) -> Checked<String> {
    let label = |l: &str| {
        !l.is_empty()
            && l.len() <= 63
            && !l.starts_with('-')
            && !l.ends_with('-')
            && l.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
    };
    let address = written.trim_matches(['[', ']']).parse::<IpAddr>().is_ok();
    if address || (written.len() <= 253 && written.split('.').all(label)) {
        return Ok(written.to_ascii_lowercase());
    }
    refuse(
        format!("{written:?} is not a host name"),
        "write the name alone, such as \"hive.example.com\": no scheme, port, path or wildcard",
    )
}

/// An IANA time zone, in its own spelling.
pub(super) fn timezone(written: &str) -> Checked<String> {
    let zones = jiff::tz::TimeZoneDatabase::bundled();
    if let Some(name) = zones.get(written).ok().and_then(|z| z.iana_name().map(str::to_owned)) {
        return Ok(name);
    }
    let names: Vec<String> = zones.available().map(|n| n.as_str().to_owned()).collect();
    let city = |n: &&String| {
        let last = n.rsplit('/').next().unwrap_or(n);
        last.eq_ignore_ascii_case(&written.replace(' ', "_"))
    };
    let near = names
        .iter()
        .find(city)
        .map(String::as_str)
        .or_else(|| keys::nearest(written, names.iter().map(String::as_str)));
    refuse(
        format!("{written:?} is not a known time zone"),
        near.map_or_else(
            || "use an IANA name such as \"Europe/Berlin\" or \"UTC\"".to_owned(),
            |n| format!("did you mean \"{n}\"?"),
        ),
    )
}

/// An image reference, `[host[:port]/]path[:tag][@algorithm:digest]` (the grammar of
/// distribution/reference, shortened to what it accepts).
pub(super) fn image(written: &str) -> Checked<String> {
    let (name, digest) = written.split_once('@').map_or((written, None), |(n, d)| (n, Some(d)));
    let tag_at = name.rfind(':').filter(|at| !name[*at..].contains('/'));
    let (path, tag) = tag_at.map_or((name, None), |at| (&name[..at], Some(&name[at + 1..])));
    let (host, path) = match path.split_once('/') {
        Some((first, rest)) if first.contains(['.', ':']) || first == "localhost" => (Some(first), rest),
        _ => (None, path),
    };
    let component = |c: &str| {
        let alnum = |b: Option<u8>| b.is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
        alnum(c.bytes().next())
            && alnum(c.bytes().last())
            && c.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"._-".contains(&b))
    };
    let word = |t: &str| t.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b));
    let tag_ok = tag.is_none_or(|t| !t.is_empty() && t.len() <= 128 && word(t) && !t.starts_with(['.', '-']));
    let digest_ok = digest.is_none_or(|d| {
        d.split_once(':').is_some_and(|(algorithm, hex)| {
            !algorithm.is_empty()
                && word(algorithm)
                && hex.bytes().all(|b| b.is_ascii_hexdigit())
                && (if algorithm == "sha256" { hex.len() == 64 } else { hex.len() >= 32 })
        })
    });
    let host_ok = host.is_none_or(|h| {
        let (name, port) = h.split_once(':').unwrap_or((h, "443"));
        !name.is_empty() && word(name) && port.parse::<u16>().is_ok()
    });
    if tag_ok && digest_ok && host_ok && path.len() <= 255 && path.split('/').all(component) {
        return Ok(written.to_owned());
    }
    let lower = written.to_ascii_lowercase();
    let help = if lower != written && digest.is_none() && image(&lower).is_ok() {
        format!("names of images are in lower case: \"{lower}\"")
    } else {
        "write name:tag, such as \"skep-agent:latest\", with a host before it if it has one".to_owned()
    };
    refuse(format!("{written:?} is not an image reference"), help)
}

/// The name of an engine runtime.
pub(super) fn runtime(written: &str) -> Checked<String> {
    let word = |b: u8| b.is_ascii_alphanumeric() || b"._-".contains(&b);
    let starts_well = written.bytes().next().is_some_and(|b| b.is_ascii_alphanumeric());
    if starts_well && written.len() <= 64 && written.bytes().all(word) {
        return Ok(written.to_owned());
    }
    refuse(
        format!("{written:?} is not a runtime name"),
        "write the name the engine knows it by, such as \"runsc\"",
    )
}

/// The name of an environment variable that the writer may set.
pub(super) fn variable(written: &str) -> Checked<String> {
    let first = written.bytes().next().is_some_and(|b| b.is_ascii_alphabetic() || b == b'_');
    if !first || !written.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') {
        return refuse(
            format!("{written:?} is not a name of an environment variable"),
            "use letters, digits and underscores, not starting with a digit",
        );
    }
    if written.starts_with("SKEP_") {
        return refuse(
            format!("{written} is set by skep itself"),
            "choose a name that does not begin with SKEP_",
        );
    }
    if written == "HOME" {
        return refuse("HOME is always /workspace/home", "remove it");
    }
    Ok(written.to_owned())
}
