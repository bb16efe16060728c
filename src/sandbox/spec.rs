//! From an agent's configuration to its container (contract.md 3), and how far a real one is from that.
//!
//! Pure: no engine, no file system, no clock. Never puts a secret anywhere.

use std::{
    collections::BTreeMap,
    fmt::Debug,
    path::{Path, PathBuf},
};

use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::container::{ContainerSpec, Inspected, Mount, Tmpfs};
use crate::{
    config::model::{Agent, Network, Workspace},
    ids::HiveName,
};

/// Part of every hash: raised when what `engine` adds to each container (hardening that the specification does
/// not name) changes, so that older containers are replaced.
const LAYOUT: u32 = 1;
/// Where the certificates of a configured bundle are bound.
pub const CA_BUNDLE: &str = "/etc/ssl/certs/ca-certificates.crt";
/// Each tool has its own idea of where certificates are; all are told the same.
const CA_VARIABLES: [&str; 6] = [
    "CURL_CA_BUNDLE",
    "GIT_SSL_CAINFO",
    "NODE_EXTRA_CA_CERTS",
    "PIP_CERT",
    "REQUESTS_CA_BUNDLE",
    "SSL_CERT_FILE",
];
/// Below the door: the JavaScript module `skep`.
pub const MODULE: &str = "node_modules/skep";
const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
const MIB: u64 = 1 << 20;

/// Folders and files on the host, absolute, that an agent's container is given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentPaths {
    /// The door: `init`, `bin/skep`, `api.sock`, `prompt.md`, [`MODULE`] → `/skep`.
    pub skep: PathBuf,
    /// The view → `/skills`; it holds an empty folder `custom`.
    pub view: PathBuf,
    /// What the agent writes → `/skills/custom`.
    pub custom: PathBuf,
    /// `/workspace`; none when it is in memory.
    pub workspace: Option<PathBuf>,
    /// `/soul.md`; none when there is none.
    pub soul: Option<PathBuf>,
    /// A file with [`passwd_file`]'s text → `/etc/passwd`.
    pub passwd: PathBuf,
    /// A file with [`group_file`]'s text → `/etc/group`.
    pub group: PathBuf,
}

/// Everything that decides a container.
#[derive(Debug, Clone)]
pub struct SpecInput<'a> {
    /// The hive.
    pub hive: &'a HiveName,
    /// The agent with defaults applied.
    pub agent: &'a Agent,
    /// Host paths.
    pub paths: &'a AgentPaths,
    /// Uid and gid of its processes.
    pub user: (u32, u32),
    /// Image to create from: the configured one, or the layer built on it.
    pub image: &'a str,
    /// That image's id.
    pub image_id: &'a str,
    /// That image's environment (`NAME=value`); its `PATH` is kept.
    pub image_env: &'a [String],
    /// A complete PEM bundle on the host: it replaces the image's own.
    pub ca_bundle: Option<&'a Path>,
    /// Name of the engine's network for `network = "internet"`.
    pub internet: &'a str,
}

/// The container of an agent (contract.md 3).
#[must_use]
pub fn container_spec(input: &SpecInput) -> ContainerSpec {
    let agent = input.agent;
    ContainerSpec {
        name: container_name(input.hive, agent.id.as_str()),
        image: input.image.to_owned(),
        image_id: input.image_id.to_owned(),
        command: vec!["/skep/init".to_owned()],
        env: environment(input),
        user: input.user,
        working_dir: "/workspace".to_owned(),
        hostname: agent.id.to_string(),
        mounts: mounts(input),
        tmpfs: tmpfs(input),
        memory: agent.memory,
        nano_cpus: nano_cpus(agent.cpus),
        pids: i64::from(agent.pids),
        shm_size: (agent.memory / 8).min(64 * MIB),
        network: match agent.network {
            Network::None => "none".to_owned(),
            Network::Internet => input.internet.to_owned(),
        },
        runtime: agent.runtime.clone(),
        stop_timeout: i64::try_from(agent.stop_grace.as_millis().div_ceil(1000).max(1)).unwrap_or(i64::MAX),
        labels: BTreeMap::from([
            ("skep.agent".to_owned(), agent.id.to_string()),
            ("skep.hive".to_owned(), input.hive.to_string()),
        ]),
    }
}

/// `skep-<hive>-<agent>`.
#[must_use]
pub fn container_name(hive: &HiveName, agent: &str) -> String {
    format!("skep-{hive}-{agent}")
}

/// The configuration refuses what is not a small positive number.
#[expect(clippy::cast_possible_truncation, reason = "a float saturates")]
fn nano_cpus(cpus: f64) -> i64 {
    (cpus * 1e9).round() as i64
}

fn environment(input: &SpecInput) -> BTreeMap<String, String> {
    let mut env = input.agent.env.clone();
    let mut set = |name: &str, value: &str| env.insert(name.to_owned(), value.to_owned());
    set("SKEP_AGENT", input.agent.id.as_str());
    set("SKEP_HIVE", input.hive.as_str());
    set("SKEP_API", "/skep/api.sock");
    set("HOME", "/workspace/home");
    if input.ca_bundle.is_some() {
        for name in CA_VARIABLES {
            set(name, CA_BUNDLE);
        }
    }
    env.entry("LANG".to_owned()).or_insert_with(|| "C.UTF-8".to_owned());
    let image_path = input.image_env.iter().find_map(|e| e.strip_prefix("PATH="));
    let path = env.entry("PATH".to_owned()).or_insert_with(|| image_path.unwrap_or(DEFAULT_PATH).to_owned());
    // Last, so that it hides nothing.
    path.push_str(":/skep/bin");
    env
}

fn mounts(input: &SpecInput) -> Vec<Mount> {
    let paths = input.paths;
    let mut mounts = Vec::new();
    let mut bind = |target: &str, source: &Path, read_only| {
        mounts.push(Mount { target: target.to_owned(), source: source.to_owned(), read_only });
    };
    bind("/skep", &paths.skep, true);
    // Here every script of Node and Bun finds it, wherever it stands: both look for modules up to the root.
    bind("/node_modules/skep", &paths.skep.join(MODULE), true);
    bind("/skills", &paths.view, true);
    bind("/skills/custom", &paths.custom, false);
    bind("/etc/passwd", &paths.passwd, true);
    bind("/etc/group", &paths.group, true);
    if let Some(workspace) = &paths.workspace {
        bind("/workspace", workspace, false);
    }
    if let Some(soul) = &paths.soul {
        bind("/soul.md", soul, !input.agent.allow_soul_edit);
    }
    if let Some(bundle) = input.ca_bundle {
        bind(CA_BUNDLE, bundle, true);
    }
    mounts.sort();
    mounts
}

/// In-memory file systems count as the container's memory. Both allow programs to be executed: package managers
/// and compilers do so in `/tmp`, and an agent may write programs anyway.
fn tmpfs(input: &SpecInput) -> Vec<Tmpfs> {
    let mut all = vec![Tmpfs {
        target: "/tmp".to_owned(),
        size: input.agent.memory / 4,
        mode: 0o1777,
        exec: true,
        user: (0, 0),
    }];
    if input.agent.workspace == Workspace::Tmpfs || input.paths.workspace.is_none() {
        all.push(Tmpfs {
            target: "/workspace".to_owned(),
            size: input.agent.disk.min(input.agent.memory / 2),
            mode: 0o755,
            exec: true,
            user: input.user,
        });
    }
    all
}

/// SHA-256 in hex over the specification as JSON with sorted keys: the `skep.spec` label.
#[must_use]
pub fn spec_hash(spec: &ContainerSpec) -> String {
    // A host path that is not UTF-8 has no JSON; its debug form is as stable.
    let value = serde_json::to_value(spec).unwrap_or_else(|_| Value::from(format!("{spec:?}")));
    let mut sha = Sha256::new();
    sha.update(format!("{LAYOUT}\n{}", sorted(value)));
    hex::encode(sha.finalize())
}

fn sorted(value: Value) -> Value {
    match value {
        Value::Object(map) => {
            let map: BTreeMap<_, _> = map.into_iter().map(|(k, v)| (k, sorted(v))).collect();
            Value::Object(map.into_iter().collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(sorted).collect()),
        other => other,
    }
}

/// `/etc/passwd` inside: the agent's uid has a name.
#[must_use]
pub fn passwd_file(uid: u32, gid: u32) -> String {
    let mut text = "root:x:0:0:root:/root:/usr/sbin/nologin\n".to_owned();
    text += &format!("agent:x:{uid}:{gid}:agent:/workspace/home:/bin/sh\n");
    if uid != 65534 {
        text += "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n";
    }
    text
}

/// `/etc/group` inside.
#[must_use]
pub fn group_file(gid: u32) -> String {
    let mut text = format!("root:x:0:\nagent:x:{gid}:\n");
    if gid != 65534 {
        text += "nogroup:x:65534:\n";
    }
    text
}

/// How the container that the engine has differs from the wanted one, a sentence a difference; empty: adopt it.
#[must_use]
pub fn drift(wanted: &ContainerSpec, have: &Inspected) -> Vec<String> {
    let mut found = Found(Vec::new());
    let is = &have.spec;
    found.field("name", &is.name, &wanted.name);
    found.field("image", &is.image, &wanted.image);
    found.field("image id", &is.image_id, &wanted.image_id);
    found.field("command", &is.command, &wanted.command);
    found.map("environment variable", &is.env, &wanted.env);
    found.field("user", &is.user, &wanted.user);
    found.field("working directory", &is.working_dir, &wanted.working_dir);
    found.field("hostname", &is.hostname, &wanted.hostname);
    found.map("mount", &by_target(&is.mounts), &by_target(&wanted.mounts));
    let (has, wants) = (in_memory(&is.tmpfs), in_memory(&wanted.tmpfs));
    found.map("in-memory file system", &has, &wants);
    found.field("memory limit", &is.memory, &wanted.memory);
    found.field("processor limit", &is.nano_cpus, &wanted.nano_cpus);
    found.field("process limit", &is.pids, &wanted.pids);
    found.field("size of /dev/shm", &is.shm_size, &wanted.shm_size);
    found.field("network", &is.network, &wanted.network);
    let runtime = |r: &Option<String>| r.clone().unwrap_or_else(|| "the default".to_owned());
    found.field("runtime", &runtime(&is.runtime), &runtime(&wanted.runtime));
    found.field("stop timeout", &is.stop_timeout, &wanted.stop_timeout);
    found.map("label", &is.labels, &wanted.labels);
    let hash = spec_hash(wanted);
    found.field("label skep.spec", &have.spec_label.as_deref().unwrap_or("nothing"), &hash.as_str());
    found.0.extend(have.weaknesses.iter().cloned());
    found.0
}

fn by_target(mounts: &[Mount]) -> BTreeMap<String, String> {
    let words = |m: &Mount| {
        let mode = if m.read_only { "read-only" } else { "writable" };
        format!("{}, {mode}", m.source.display())
    };
    let all = mounts.iter();
    all.map(|m| (m.target.clone(), words(m))).collect()
}

fn in_memory(tmpfs: &[Tmpfs]) -> BTreeMap<String, String> {
    let words = |t: &Tmpfs| {
        let exec = if t.exec { "exec" } else { "noexec" };
        let (uid, gid) = t.user;
        format!("{} bytes, mode {:o}, {exec}, owner {uid}:{gid}", t.size, t.mode)
    };
    let all = tmpfs.iter();
    all.map(|t| (t.target.clone(), words(t))).collect()
}

struct Found(Vec<String>);

impl Found {
    fn field<T: PartialEq + Debug>(&mut self, what: &str, is: &T, wanted: &T) {
        if is != wanted {
            self.0.push(format!("{what} is {is:?}, wanted {wanted:?}"));
        }
    }

    fn map<T: PartialEq + Debug>(
        &mut self,
        what: &str,
        is: &BTreeMap<String, T>,
        wanted: &BTreeMap<String, T>,
    ) {
        for (key, value) in wanted {
            match is.get(key) {
                None => self.0.push(format!("{what} {key} is missing")),
                Some(have) => self.field(&format!("{what} {key}"), have, value),
            }
        }
        for key in is.keys().filter(|k| !wanted.contains_key(*k)) {
            self.0.push(format!("{what} {key} is not wanted"));
        }
    }
}

/// What the wanted mounts lack in `/proc/self/mountinfo` of the container's init, which sees a mount that was
/// lost where the engine does not; a sentence a fault.
#[must_use]
pub fn mounts_missing(wanted: &ContainerSpec, mountinfo: &str) -> Vec<String> {
    // Of several mounts on one path the last one shows.
    let seen: BTreeMap<String, Seen> = mountinfo.lines().filter_map(Seen::parse).collect();
    let mut faults = Vec::new();
    match seen.get("/") {
        Some(root) if root.read_only => {}
        _ => faults.push("the root file system is not read-only".to_owned()),
    }
    for mount in &wanted.mounts {
        let target = &mount.target;
        match seen.get(target) {
            None => faults.push(format!("{target} is not mounted")),
            Some(s) if s.deleted => {
                faults.push(format!("what {target} shows was deleted on the host"));
            }
            Some(s) if mount.read_only && !s.read_only => {
                faults.push(format!("{target} is writable, wanted read-only"));
            }
            Some(s) if !mount.read_only && s.read_only => {
                faults.push(format!("{target} is read-only, wanted writable"));
            }
            Some(_) => {}
        }
    }
    for tmpfs in &wanted.tmpfs {
        let target = &tmpfs.target;
        match seen.get(target) {
            None => faults.push(format!("{target} is not mounted")),
            Some(s) if s.kind != "tmpfs" => {
                faults.push(format!("{target} is {}, wanted tmpfs", s.kind));
            }
            Some(_) => {}
        }
    }
    faults
}

/// A line of proc_pid_mountinfo(5).
struct Seen {
    read_only: bool,
    deleted: bool,
    kind: String,
}

impl Seen {
    fn parse(line: &str) -> Option<(String, Self)> {
        let (mount, file_system) = line.split_once(" - ")?;
        let mut fields = mount.split(' ').skip(3);
        let (root, target, options) = (fields.next()?, fields.next()?, fields.next()?);
        let mut kind = file_system.split(' ');
        let (kind, super_options) = (kind.next()?, kind.nth(1).unwrap_or(""));
        let ro = |options: &str| options.split(',').any(|o| o == "ro");
        let seen = Self {
            read_only: ro(options) || ro(super_options),
            deleted: root.ends_with("//deleted"),
            kind: kind.to_owned(),
        };
        Some((unescape(target), seen))
    }
}

/// The kernel writes blanks, tabs, line ends and backslashes as three octal digits.
fn unescape(s: &str) -> String {
    s.replace("\\040", " ").replace("\\011", "\t").replace("\\012", "\n").replace("\\134", "\\")
}

#[cfg(test)]
mod tests;
#[cfg(test)]
pub(crate) use tests::example;
