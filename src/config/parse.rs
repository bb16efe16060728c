//! `skep.toml` as text → [`Config`], or every mistake in it at once with its place.
//!
//! Pure: touches no file. What needs the file system is checked by `load`.

use std::{collections::BTreeMap, ops::RangeInclusive, path::PathBuf, time::Duration};

use toml::de::DeTable;

use super::{
    agent::{self, Partial},
    check,
    jobs::{self, Owner},
    keys::{self, Key},
    model::{Agent, AgentSkills, Api, Config, Registry, SkillLimits},
    notify, preflight,
    reader::{Field, Lines, Places, Reader, Table},
    runs, tools, values, watched,
};
use crate::{
    error::Fault,
    ids::{AgentId, HiveName},
    mail::Party,
};

/// How often what agents write can be looked at.
const POLL: RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_secs(3_600);

/// What a hive is called and where it lives when its file does not say.
pub(super) struct Unsaid {
    pub(super) name: HiveName,
    /// An IANA time zone.
    pub(super) zone: String,
}

/// A valid file, and where its keys stand.
pub(super) struct Parsed {
    pub(super) config: Config,
    pub(super) warnings: Vec<Fault>,
    pub(super) places: Places,
}

/// Checks the text of a `skep.toml`. `file` is only named in faults. A hive without a name is
/// called `hive`, and one without a time zone is in UTC; `load` gives it its folder's name and the system's zone.
///
/// # Errors
/// Every fault in the order of the text, each with line and column.
pub fn parse(text: &str, file: &str) -> Result<(Config, Vec<Fault>), Vec<Fault>> {
    let name = "hive".parse().expect("a literal that fits the rule");
    let unsaid = Unsaid { name, zone: "UTC".to_owned() };
    parse_with(text, file, unsaid).map(|parsed| (parsed.config, parsed.warnings))
}

/// As [`parse`], with what holds when the file does not say it.
pub(super) fn parse_with(text: &str, file: &str, unsaid: Unsaid) -> Result<Parsed, Vec<Fault>> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let (root, broken) = DeTable::parse_recoverable(text);
    let mut r = Reader::default();
    let config = hive(&mut r, root.get_ref(), unsaid, broken.is_empty());
    syntax(&mut r, text, &broken);
    let clean = r.is_clean();
    let (faults, warnings, places) = r.finish(text, file);
    if clean { Ok(Parsed { config, warnings, places }) } else { Err(faults) }
}

/// Adds what the parser could not read, once a line, and drops what follows only from it.
fn syntax(r: &mut Reader, text: &str, broken: &[toml::de::Error]) {
    let at = |e: &toml::de::Error| e.span().map_or(0, |s| s.start);
    let mut sorted: Vec<_> = broken.iter().collect();
    sorted.sort_by_key(|e| at(e));
    let lines = Lines::of(text);
    r.forget_lines(&lines, &sorted.iter().map(|e| lines.number(at(e))).collect());
    let mut last = None;
    for e in sorted {
        let span = e.span().unwrap_or(0..0);
        let line = lines.number(span.start);
        if last.replace(line) == Some(line) {
            continue;
        }
        let word = text.get(span.clone()).unwrap_or_default();
        let bare =
            !word.is_empty() && word.bytes().all(|b| b.is_ascii_alphabetic() || b == b'-' || b == b'_');
        if bare && e.message().contains("invalid float") || e.message().contains("must be quoted") {
            r.fault(&span, format!("{word} is not a TOML value"), format!("put it in quotes: \"{word}\""));
        } else {
            r.fault(&span, e.message().trim_end_matches(", expected nothing"), "");
        }
    }
}

/// Reads all sections. With `whole` unset (parts of the text could not be read) nothing is said
/// about one thing missing that another names.
fn hive(r: &mut Reader, root: &DeTable<'_>, unsaid: Unsaid, whole: bool) -> Config {
    let root = r.root(root, keys::ROOT);
    let hive = section(r, &root, "hive", keys::HIVE);
    let hive = hive.as_ref();
    let name = read(r, hive, "name", Reader::parsed).unwrap_or(unsaid.name);
    let timezone =
        read(r, hive, "timezone", |r, f| r.filled(f).and_then(|s| r.accept(f, values::timezone(s))));
    let mut config = Config {
        name,
        zone: timezone.clone().unwrap_or(unsaid.zone),
        timezone,
        default_agent: read(r, hive, "default_agent", Reader::parsed),
        ca_bundle: read(r, hive, "ca_bundle", operators_path),
        api: api(r, &root),
        registry: registry(r, &root),
        secrets_file: PathBuf::from("secrets/env.json"),
        runs: runs::read(r, &root),
        notify: notify::read(r, &root),
        preflight: preflight::read(r, &root),
        model: watched::read(r, &root),
        tools: tools::read(r, &root),
        agents: BTreeMap::new(),
    };
    let secrets = section(r, &root, "secrets", keys::SECRETS);
    if let Some(file) = read(r, secrets.as_ref(), "file", agent::path) {
        config.secrets_file = file;
    }
    let names = agents(r, &root, &mut config);
    if whole {
        check::default_agent(r, &config, &names);
    }
    check::agents(r, &config);
    check::targets(r, &config);
    config
}

fn section<'a, 'i>(r: &mut Reader, root: &Table<'a, 'i>, name: &str, known: &[Key]) -> Option<Table<'a, 'i>> {
    r.read(root, name, |r, f| r.table(f, known))
}

fn read<'a, 'i, T>(
    r: &mut Reader,
    table: Option<&Table<'a, 'i>>,
    key: &str,
    how: impl FnOnce(&mut Reader, &Field<'a, 'i>) -> Option<T>,
) -> Option<T> {
    r.read(table?, key, how)
}

/// Requests a second of one agent.
const REQUESTS: std::ops::RangeInclusive<i64> = 1..=1_000_000;

fn api(r: &mut Reader, root: &Table<'_, '_>) -> Api {
    let table = section(r, root, "api", keys::API);
    let listen = read(r, table.as_ref(), "listen", |r, f| {
        let written = r.filled(f)?;
        let listen = r.accept(f, values::listen(written))?;
        if let Some(address) = listen.filter(|a| !a.ip().is_loopback()) {
            let message =
                format!("the API listens on {address}, which other machines may reach in clear text");
            r.warn(
                &f.span(),
                message,
                "only the bearer token protects it: use 127.0.0.1, or a proxy with TLS before it",
            );
        }
        Some(listen)
    });
    let hosts = read(r, table.as_ref(), "allowed_hosts", |r, f| {
        r.array(f, |r, f| {
            let written = r.filled(f)?;
            r.accept(f, values::host(written))
        })
    });
    let requests = read(r, table.as_ref(), "agent_requests_per_second", |r, f| jobs::count(r, f, &REQUESTS));
    Api {
        agent_requests_per_second: requests.unwrap_or(50),
        listen_written: listen.is_some(),
        listen: listen.unwrap_or_else(|| Some(([127, 0, 0, 1], 7117).into())),
        allowed_hosts: hosts.unwrap_or_else(|| vec!["localhost".to_owned()]),
    }
}

fn registry(r: &mut Reader, root: &Table<'_, '_>) -> Registry {
    let table = section(r, root, "registry", keys::REGISTRY);
    let table = table.as_ref();
    let sources = read(r, table, "sources", |r, f| {
        let mut seen = std::collections::BTreeSet::new();
        r.array(f, |r, f| {
            let path = operators_path(r, f)?;
            if !seen.insert(path.clone()) {
                r.fault(
                    &f.span(),
                    format!("source {:?} is listed twice", path.display().to_string()),
                    "remove one of them",
                );
            }
            Some(path)
        })
    });
    let policies = [("manual", AgentSkills::Manual), ("auto", AgentSkills::Auto)];
    let environment = read(r, table, "environment", |r, f| r.array(f, |r, f| r.parsed(f)));
    let limits = read(r, table, "limits", |r, f| r.table(f, keys::LIMITS));
    let limits = limits.as_ref();
    let ours = SkillLimits::default();
    let bytes = |r: &mut Reader, f: &Field<'_, '_>| agent::size(r, f, 1, "nothing would fit");
    Registry {
        sources: sources.unwrap_or_else(|| vec![PathBuf::from("skills")]),
        agent_skills: read(r, table, "agent_skills", |r, f| r.choice(f, &policies))
            .unwrap_or(AgentSkills::Manual),
        poll: read(r, table, "poll", |r, f| jobs::duration(r, f, &POLL)),
        environment: environment.unwrap_or_default(),
        limits: SkillLimits {
            files: read(r, limits, "files", files).unwrap_or(ours.files),
            total: read(r, limits, "total", bytes).unwrap_or(ours.total),
            file: read(r, limits, "file", bytes).unwrap_or(ours.file),
            manifest: read(r, limits, "manifest", bytes).unwrap_or(ours.manifest),
        },
    }
}

fn files(r: &mut Reader, f: &Field<'_, '_>) -> Option<u64> {
    let n = r.integer(f)?;
    let count = u64::try_from(n).ok().filter(|n| *n > 0);
    let refused = || {
        (
            format!("{} must be at least 1: a skill has its manifest", f.path),
            "write a number such as 2000".to_owned(),
        )
    };
    r.accept(f, count.ok_or_else(refused))
}

fn operators_path(r: &mut Reader, f: &Field<'_, '_>) -> Option<PathBuf> {
    let written = r.filled(f)?;
    r.accept(f, values::operators_path(written))
}

/// `[defaults]` and `[agents.*]`; answers with the names written, right or not.
fn agents(r: &mut Reader, root: &Table<'_, '_>, config: &mut Config) -> Vec<String> {
    let defaults = r.read(root, "defaults", |r, f| {
        let table = r.table(f, keys::AGENT)?;
        for key in ["skills", "jobs"] {
            if let Some(f) = table.field(key) {
                let message = format!("{} is not possible: {key} are each agent's own", f.path);
                r.fault(&f.key, message, format!("move it to [agents.<id>] as {key}"));
            }
        }
        Some(Partial::read(r, &table))
    });
    let defaults = defaults.unwrap_or_default();
    let Some(table) = r.read(root, "agents", Reader::open) else {
        return Vec::new();
    };
    let mut names = Vec::new();
    for (name, field) in table.fields() {
        names.push(name.to_owned());
        let id = match (name.parse::<AgentId>(), name.parse::<Party>()) {
            (Ok(_), Ok(Party::Operator | Party::Hive)) => {
                Err(format!("mail to {name:?} is for no agent: choose another name"))
            }
            (id, _) => id.map_err(|e| e.to_string()),
        };
        let id = id.map_err(|why| r.fault(&field.key, why, "")).ok();
        let Some(table) = r.table(&field, keys::AGENT) else {
            continue;
        };
        let written = Partial::read(r, &table);
        let has_command =
            [field.path.as_str(), "defaults"].iter().any(|t| r.places.contains_key(&format!("{t}.command")));
        let owner = Owner { agent: name, zone: &config.zone, has_command };
        let jobs = r.read(&table, "jobs", |r, f| jobs::read(r, f, &owner)).unwrap_or_default();
        config.agents.extend(id.map(|id| (id.clone(), Agent { jobs, ..written.over(&defaults, id) })));
    }
    names
}
