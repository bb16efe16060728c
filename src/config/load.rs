//! Reads `skep.toml` of a hive and checks what needs the file system: files it names exist.
//!
//! The parsing itself is `parse`'s, and pure. Writes nothing.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use base64::Engine as _;
use sha2::{Digest as _, Sha256};

use super::{
    check::key_in,
    env::Env,
    model::{Config, Workspace},
    parse::{Parsed, Unsaid, parse_with},
    reader::position,
};
use crate::{error::Fault, ids::HiveName, scheduler::rules};

/// The name of the file in a hive's folder.
pub const FILE: &str = "skep.toml";

/// Largest `skep.toml` that is read.
const MOST_BYTES: u64 = 1 << 20;

/// Largest CA bundle that is read.
const MOST_CA_BYTES: u64 = 8 << 20;

/// A valid configuration as read.
#[derive(Debug, Clone)]
pub struct Loaded {
    /// What it says.
    pub config: Config,
    /// What is accepted but probably not meant.
    pub warnings: Vec<Fault>,
    /// SHA-256 of the file, 64 hex digits: the same text needs no second look.
    pub hash: String,
    /// The file itself, to show warnings in it.
    pub text: String,
}

/// Why a hive's configuration could not be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// There is none.
    #[error("no skep.toml in {}: run `skep init` or pass --dir", .0.display())]
    NotFound(PathBuf),
    /// It cannot be read.
    #[error("cannot read {}: check that it is a regular file of at most 1 MiB that you may read", path.display())]
    Unreadable {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It is wrong; `render` shows the faults in the text.
    #[error("{}", summary(faults))]
    Invalid {
        /// Every fault.
        faults: Vec<Fault>,
        /// The text they are in.
        text: String,
    },
}

fn summary(faults: &[Fault]) -> String {
    let list: Vec<_> = faults.iter().map(ToString::to_string).collect();
    let count = if faults.len() == 1 { "a mistake".to_owned() } else { format!("{} mistakes", faults.len()) };
    format!("skep.toml has {count}:\n{}", list.join("\n"))
}

/// Reads and checks the configuration of the hive in `hive_dir`. A hive that says no name is
/// called after its folder, and one that says no time zone is in the system's.
///
/// # Errors
/// [`ConfigError`]; nothing of a file with a mistake is used.
pub fn load(hive_dir: &Path) -> Result<Loaded, ConfigError> {
    load_under(hive_dir, &Env::read())
}

/// As [`load`], in an environment that tests choose.
fn load_under(hive_dir: &Path, env: &Env) -> Result<Loaded, ConfigError> {
    let path = hive_dir.join(FILE);
    let bytes = read_regular(&path, MOST_BYTES).map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => ConfigError::NotFound(hive_dir.to_owned()),
        _ => ConfigError::Unreadable { path, source },
    })?;
    let hash = hex::encode(Sha256::digest(&bytes));
    let text = String::from_utf8(bytes).map_err(|e| not_utf8(&e))?;
    let unsaid = Unsaid { name: folder_name(hive_dir), zone: system_zone() };
    let mut parsed = match parse_with(&text, FILE, unsaid) {
        Ok(parsed) => parsed,
        Err(faults) => return Err(ConfigError::Invalid { faults, text }),
    };
    let mut faults = on_disk(hive_dir, &parsed, &text);
    faults.extend(from_environment(&mut parsed, env));
    if !faults.is_empty() {
        return Err(ConfigError::Invalid { faults, text });
    }
    Ok(Loaded { config: parsed.config, warnings: parsed.warnings, hash, text })
}

/// Fills in what the environment says where the file says nothing.
fn from_environment(parsed: &mut Parsed, env: &Env) -> Option<Fault> {
    let written = env.notify_interval.as_ref()?;
    if parsed.places.contains_key("notify.interval_minutes") {
        return None;
    }
    match written.trim().parse() {
        Ok(minutes) => parsed.config.notify.interval_minutes = minutes,
        Err(_) => {
            let fault = Fault::new(
                "SKILL_NOTIFY_INTERVAL_MINUTES",
                format!("{written:?} is not a number of minutes"),
            );
            return Some(fault.help("set the variable to a number such as 30, or remove it"));
        }
    }
    None
}

/// Reads a regular file of at most `most` bytes, without waiting on a pipe put in its place.
fn read_regular(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let file: File = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let mut bytes = Vec::new();
    file.take(most + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        return Err(io::Error::other(format!("it is larger than {most} bytes")));
    }
    Ok(bytes)
}

fn not_utf8(e: &std::string::FromUtf8Error) -> ConfigError {
    let good = e.utf8_error().valid_up_to();
    let text = String::from_utf8_lossy(e.as_bytes()).into_owned();
    let (line, column) = position(&text, good);
    let fault = Fault::new(FILE, format!("byte {good} is not UTF-8")).at(line, column);
    ConfigError::Invalid { faults: vec![fault.help("save the file as UTF-8")], text }
}

/// The system's time zone by its IANA name; UTC when it has none.
fn system_zone() -> String {
    let zone = jiff::tz::TimeZone::system();
    let name = zone.iana_name().filter(|_| !zone.is_unknown()).map(str::to_owned);
    // Where /etc/localtime is a copy and not a link, it tells no name.
    let name = name.or_else(|| fs::read_to_string("/etc/timezone").ok());
    name.and_then(|name| rules::zone(&name).ok()).unwrap_or_else(|| "UTC".to_owned())
}

/// The folder's name as far as a hive may be called so.
fn folder_name(hive_dir: &Path) -> HiveName {
    let full = fs::canonicalize(hive_dir).unwrap_or_else(|_| hive_dir.to_owned());
    let name = full.file_name().map(|n| n.to_string_lossy().to_lowercase()).unwrap_or_default();
    let mut slug = String::new();
    for c in name.chars() {
        match c {
            'a'..='z' | '0'..='9' => slug.push(c),
            _ if slug.ends_with('-') || slug.is_empty() => {}
            _ => slug.push('-'),
        }
    }
    slug.truncate(40);
    let slug = slug.trim_end_matches('-');
    slug.parse().unwrap_or_else(|_| "hive".parse().expect("a literal that fits the rule"))
}

/// Faults about files that the configuration names.
fn on_disk(hive_dir: &Path, parsed: &Parsed, text: &str) -> Vec<Fault> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let config = &parsed.config;
    let mut found: Vec<(usize, Fault)> = Vec::new();
    let mut check = |key: &str, result: Result<(), (String, String)>| {
        let at = parsed.places.get(key).copied();
        if let Err((message, help)) = result {
            let fault = Fault::new(FILE, message).help(help);
            let (line, column) = position(text, at.unwrap_or(0));
            let fault = if at.is_some() { fault.at(line, column) } else { fault };
            if !found.iter().any(|(_, f)| *f == fault) {
                found.push((at.unwrap_or(0), fault));
            }
        }
    };
    for (n, source) in config.registry.sources.iter().enumerate() {
        let key = format!("registry.sources[{n}]");
        if parsed.places.contains_key(&key) {
            check(&key, folder(&hive_dir.join(source), source, true));
        }
    }
    if let Some(bundle) = &config.ca_bundle {
        check("hive.ca_bundle", certificates(&hive_dir.join(bundle), bundle));
    }
    if parsed.places.contains_key("secrets.file") {
        check("secrets.file", beneath(hive_dir, &config.secrets_file));
    }
    for (id, agent) in &config.agents {
        if let Some(soul) = &agent.soul {
            let exists = beneath(hive_dir, soul).and_then(|()| regular(&hive_dir.join(soul), soul));
            check(&key_in(&parsed.places, id, "soul"), exists);
        }
        if let Workspace::Path(path) = &agent.workspace {
            let fits = beneath(hive_dir, path)
                .and_then(|()| folder(&hive_dir.join(path), path, false))
                .and_then(|()| apart(hive_dir, path, config));
            check(&key_in(&parsed.places, id, "workspace"), fits);
        }
    }
    found.sort_by_key(|(at, _)| *at);
    found.into_iter().map(|(_, fault)| fault).collect()
}

fn because(path: &Path, why: impl std::fmt::Display, help: &str) -> (String, String) {
    (format!("{:?} {why}", path.display().to_string()), help.to_owned())
}

fn regular(full: &Path, written: &Path) -> Result<(), (String, String)> {
    match fs::metadata(full) {
        Ok(meta) if meta.is_file() => Ok(()),
        Ok(_) => Err(because(written, "is not a regular file", "name a file")),
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            Err(because(written, "does not exist", "create it, or correct the path"))
        }
        Err(e) => Err(because(written, format!("cannot be read: {e}"), "check its permissions")),
    }
}

fn folder(full: &Path, written: &Path, must_exist: bool) -> Result<(), (String, String)> {
    match fs::metadata(full) {
        Ok(meta) if meta.is_dir() => Ok(()),
        Ok(_) => Err(because(written, "is not a folder", "name a folder")),
        Err(e) if e.kind() != io::ErrorKind::NotFound => {
            Err(because(written, format!("cannot be read: {e}"), "check its permissions"))
        }
        Err(_) if must_exist => {
            Err(because(written, "does not exist", "create the folder, or correct the path"))
        }
        Err(_) => Ok(()),
    }
}

/// Follows links of the longest part that exists: it must end inside the hive and outside `.skep`.
fn beneath(hive_dir: &Path, written: &Path) -> Result<(), (String, String)> {
    let real = |p: &Path| fs::canonicalize(p);
    let hive = real(hive_dir)
        .map_err(|e| because(hive_dir, format!("cannot be read: {e}"), "check its permissions"))?;
    let existing = written.ancestors().find(|p| hive_dir.join(p).symlink_metadata().is_ok());
    let existing = existing.unwrap_or(Path::new(""));
    let target = real(&hive_dir.join(existing))
        .map_err(|e| because(existing, format!("cannot be followed: {e}"), "remove the broken link"))?;
    let whole_hive = target == hive && !existing.as_os_str().is_empty();
    if !target.starts_with(&hive) || whole_hive || target.starts_with(hive.join(".skep")) {
        return Err(because(
            written,
            "leads out of the hive through a link",
            "use a real folder or file inside the hive",
        ));
    }
    Ok(())
}

/// A workspace has no links in its path, and nothing trusted lies in it by way of a link or an
/// absolute path: `check` compares paths only as written.
fn apart(hive_dir: &Path, workspace: &Path, config: &Config) -> Result<(), (String, String)> {
    let Ok(hive) = fs::canonicalize(hive_dir) else {
        return Ok(());
    };
    let linked = |p: &&Path| fs::canonicalize(hive_dir.join(p)).is_ok_and(|real| real != hive.join(p));
    if let Some(link) = workspace.ancestors().find(linked) {
        return Err(because(link, "is a link", "name the folder that it leads to"));
    }
    let souls = config.agents.values().filter_map(|a| a.soul.as_ref());
    let trusted = souls.chain(&config.registry.sources).chain(&config.ca_bundle);
    let inside = hive.join(workspace);
    for path in trusted.chain([&config.secrets_file]) {
        let real = fs::canonicalize(hive_dir.join(path));
        if real.is_ok_and(|real| real.starts_with(&inside) || inside.starts_with(&real)) {
            let why = format!("would let the agent write {:?}", path.display().to_string());
            return Err(because(workspace, why, "choose a folder apart from it"));
        }
    }
    Ok(())
}

/// A bundle that holds at least one certificate, and only such as can be decoded (RFC 7468).
fn certificates(full: &Path, written: &Path) -> Result<(), (String, String)> {
    regular(full, written)?;
    let help = "name a file in PEM format with at least one certificate";
    let bytes = read_regular(full, MOST_CA_BYTES)
        .map_err(|e| because(written, format!("cannot be read: {e}"), help))?;
    let text = String::from_utf8_lossy(&bytes);
    let mut count = 0;
    for block in text.split("-----BEGIN CERTIFICATE-----").skip(1) {
        count += 1;
        let body: Option<String> =
            block.split_once("-----END CERTIFICATE-----").map(|(body, _)| body.split_whitespace().collect());
        let der = body.and_then(|b| base64::engine::general_purpose::STANDARD.decode(b).ok());
        // A certificate is an ASN.1 SEQUENCE.
        if der.is_none_or(|d| d.first() != Some(&0x30)) {
            return Err(because(written, format!("holds a broken certificate, number {count}"), help));
        }
    }
    if count == 0 {
        return Err(because(written, "holds no certificate", help));
    }
    Ok(())
}

#[cfg(test)]
#[path = "load_tests.rs"]
mod tests;
