//! `[defaults]` and `[agents.<id>]`: what was written, then one over the other over our own.
//!
//! Pure. Checks single values; what agents mean for each other is `check`'s.

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use toml::de::DeValue;

use super::{
    model::{Agent, Network, Restart, Workspace},
    reader::{Field, Reader, Table},
    units::{format_size, parse_duration, parse_size},
    values,
};
use crate::{
    ids::{AgentId, SecretName, SkillRef},
    scheduler::rules,
    tools::normalise::Defaults,
};

const MIB: u64 = 1 << 20;

/// Keys of an agent as far as they were written and right.
#[derive(Debug, Default, Clone)]
pub(super) struct Partial {
    description: Option<String>,
    soul: Option<PathBuf>,
    allow_soul_edit: Option<bool>,
    skills: Option<Vec<SkillRef>>,
    secrets: Option<Vec<SecretName>>,
    tools: Option<Defaults>,
    command: Option<Vec<String>>,
    main: Option<Vec<String>>,
    main_restart: Option<Restart>,
    env: Option<BTreeMap<String, String>>,
    workspace: Option<Workspace>,
    image: Option<String>,
    memory: Option<u64>,
    cpus: Option<f64>,
    pids: Option<u32>,
    disk: Option<u64>,
    network: Option<Network>,
    stop_grace: Option<Duration>,
    runtime: Option<String>,
    autostart: Option<bool>,
}

impl Partial {
    /// Reads all keys that an agent may have.
    pub(super) fn read(r: &mut Reader, t: &Table<'_, '_>) -> Self {
        let restarts =
            [("always", Restart::Always), ("on-failure", Restart::OnFailure), ("never", Restart::Never)];
        Self {
            description: r.read(t, "description", |r, f| {
                let written = r.string(f)?;
                r.accept(f, rules::description(written))
            }),
            soul: r.read(t, "soul", path),
            allow_soul_edit: r.read(t, "allow_soul_edit", Reader::boolean),
            skills: r.read(t, "skills", skills),
            secrets: r.read(t, "secrets", secrets),
            tools: r.read(t, "tools", super::tools::of_agent),
            command: r.read(t, "command", arguments),
            main: r.read(t, "main", arguments),
            main_restart: r.read(t, "main_restart", |r, f| r.choice(f, &restarts)),
            env: r.read(t, "env", environment),
            workspace: r.read(t, "workspace", workspace),
            image: r.read(t, "image", |r, f| r.filled(f).and_then(|s| r.accept(f, values::image(s)))),
            memory: r
                .read(t, "memory", |r, f| size(r, f, 16 * MIB, "less does not hold the init and a process")),
            cpus: r.read(t, "cpus", cpus),
            pids: r.read(t, "pids", pids),
            disk: r.read(t, "disk", |r, f| size(r, f, MIB, "the agent would be paused at once")),
            network: r.read(t, "network", network),
            stop_grace: r.read(t, "stop_grace", stop_grace),
            runtime: r.read(t, "runtime", |r, f| r.filled(f).and_then(|s| r.accept(f, values::runtime(s)))),
            autostart: r.read(t, "autostart", Reader::boolean),
        }
    }

    /// The agent: what it says itself, else what `[defaults]` say, else ours. `env` is merged.
    pub(super) fn over(self, defaults: &Self, id: AgentId) -> Agent {
        let d = defaults.clone();
        let mut env = d.env.unwrap_or_default();
        env.extend(self.env.unwrap_or_default());
        Agent {
            id,
            description: self.description.or(d.description).unwrap_or_default(),
            soul: self.soul.or(d.soul),
            allow_soul_edit: self.allow_soul_edit.or(d.allow_soul_edit).unwrap_or(false),
            skills: self.skills.unwrap_or_default(),
            secrets: self.secrets.or(d.secrets),
            tools: self.tools.or(d.tools).unwrap_or_default(),
            command: self.command.or(d.command),
            main: self.main.or(d.main),
            main_restart: self.main_restart.or(d.main_restart).unwrap_or(Restart::Always),
            env,
            workspace: self.workspace.or(d.workspace).unwrap_or(Workspace::Named),
            image: self.image.or(d.image).unwrap_or_else(|| "skep-agent:latest".to_owned()),
            memory: self.memory.or(d.memory).unwrap_or(512 * MIB),
            cpus: self.cpus.or(d.cpus).unwrap_or(1.0),
            pids: self.pids.or(d.pids).unwrap_or(256),
            disk: self.disk.or(d.disk).unwrap_or(2048 * MIB),
            network: self.network.or(d.network).unwrap_or(Network::None),
            stop_grace: self.stop_grace.or(d.stop_grace).unwrap_or(Duration::from_secs(10)),
            runtime: self.runtime.or(d.runtime),
            autostart: self.autostart.or(d.autostart).unwrap_or(true),
            jobs: Vec::new(),
        }
    }
}

/// A path inside the hive.
pub(super) fn path(r: &mut Reader, f: &Field<'_, '_>) -> Option<PathBuf> {
    let written = r.filled(f)?;
    r.accept(f, values::inside_hive(written))
}

fn skills(r: &mut Reader, f: &Field<'_, '_>) -> Option<Vec<SkillRef>> {
    let mut seen: BTreeMap<String, String> = BTreeMap::new();
    r.array(f, |r, f| {
        let skill: SkillRef = r.parsed(f)?;
        if let Some(first) = seen.insert(skill.id.to_string(), skill.to_string()) {
            let message = format!(
                "skill \"{}\" is listed twice: as {first:?} and as {:?}",
                skill.id,
                skill.to_string()
            );
            r.fault(&f.span(), message, "keep one of them: an agent has one version of a skill");
        }
        Some(skill)
    })
}

fn secrets(r: &mut Reader, f: &Field<'_, '_>) -> Option<Vec<SecretName>> {
    let mut seen = std::collections::BTreeSet::new();
    r.array(f, |r, f| {
        let name: SecretName = r.parsed(f)?;
        if !seen.insert(name.clone()) {
            r.fault(&f.span(), format!("secret \"{name}\" is listed twice"), "remove one of them");
        }
        Some(name)
    })
}

/// A program and its arguments.
fn arguments(r: &mut Reader, f: &Field<'_, '_>) -> Option<Vec<String>> {
    if let DeValue::String(line) = f.value.get_ref() {
        let help = if line.contains(['"', '\'', '|', '&', ';', '<', '>', '$', '\\', '*', '\n']) {
            format!("for a shell line write [\"sh\", \"-c\", {:?}]", line.as_ref())
        } else {
            format!("write {:?}", line.split_whitespace().collect::<Vec<_>>())
        };
        return r.wrong_type(f, "an array of the program and its arguments", &help);
    }
    let list = r.array(f, |r, f| r.string(f).map(str::to_owned))?;
    let program = match f.value.get_ref() {
        DeValue::Array(all) => all.first().map(toml::Spanned::get_ref),
        _ => None,
    };
    let nameless = |p: &DeValue<'_>| matches!(p, DeValue::String(s) if s.trim().is_empty());
    if program.is_none_or(nameless) {
        r.fault(
            &f.span(),
            format!("{} names no program", f.path),
            "write [\"program\", \"argument\"], or remove the key",
        );
        return None;
    }
    Some(list)
}

fn environment(r: &mut Reader, f: &Field<'_, '_>) -> Option<BTreeMap<String, String>> {
    let table = r.open(f)?;
    let mut env = BTreeMap::new();
    for (name, field) in table.fields() {
        match values::variable(name) {
            Ok(name) => env.extend(r.string(&field).map(|value| (name, value.to_owned()))),
            Err((message, help)) => r.fault(&field.key, message, help),
        }
    }
    Some(env)
}

fn workspace(r: &mut Reader, f: &Field<'_, '_>) -> Option<Workspace> {
    let written = r.filled(f)?;
    match written {
        "named" => return Some(Workspace::Named),
        "tmpfs" => return Some(Workspace::Tmpfs),
        _ => {}
    }
    let path = r.accept(f, values::inside_hive(written))?;
    if written.starts_with("./") {
        return Some(Workspace::Path(path));
    }
    let help = super::keys::nearest(written, ["named", "tmpfs"]).map_or_else(
        || {
            format!(
                "for a folder of the hive write \"./{}\"; otherwise \"named\" or \"tmpfs\"",
                path.display()
            )
        },
        |near| format!("did you mean \"{near}\"?"),
    );
    r.fault(&f.span(), format!("{} cannot be {written:?}", f.path), help);
    None
}

/// Bytes, as a number or with a unit.
pub(super) fn size(r: &mut Reader, f: &Field<'_, '_>, least: u64, reason: &str) -> Option<u64> {
    let bytes = match f.value.get_ref() {
        DeValue::String(_) => {
            let written = r.string(f)?;
            let read =
                parse_size(written).map_err(|help| (format!("{} is not a size: {written:?}", f.path), help));
            r.accept(f, read)?
        }
        DeValue::Integer(_) => u64::try_from(r.integer(f)?).unwrap_or_default(),
        _ => {
            return r.wrong_type(f, "a size", "write a number and a unit, such as \"512MiB\" or \"2GB\"");
        }
    };
    if bytes < least {
        let message = format!("{} must be at least {}: {reason}", f.path, format_size(least));
        r.fault(&f.span(), message, format!("write \"{}\" or more", format_size(least)));
        return None;
    }
    if i64::try_from(bytes).is_err() {
        r.fault(&f.span(), format!("{} is larger than an engine can count", f.path), "write a smaller size");
        return None;
    }
    Some(bytes)
}

fn cpus(r: &mut Reader, f: &Field<'_, '_>) -> Option<f64> {
    let cpus = match f.value.get_ref() {
        DeValue::Float(n) => n.as_str().parse().unwrap_or(f64::NAN),
        DeValue::Integer(_) => f64::from(i32::try_from(r.integer(f)?).unwrap_or(i32::MAX)),
        _ => {
            return r.wrong_type(f, "a number", "write a number without quotes, such as 1.0 or 0.5");
        }
    };
    if (0.01..=1024.0).contains(&cpus) {
        return Some(cpus);
    }
    let message = format!("{} must be from 0.01 to 1024: an engine cannot give out less or more", f.path);
    r.fault(&f.span(), message, "write a number such as 1.0 or 0.5");
    None
}

fn pids(r: &mut Reader, f: &Field<'_, '_>) -> Option<u32> {
    /// The kernel's PID_MAX_LIMIT.
    const MOST: u32 = 4_194_304;
    match u32::try_from(r.integer(f)?) {
        Ok(n) if (8..=MOST).contains(&n) => Some(n),
        _ => {
            let message =
                format!("{} must be from 8 to {MOST}: the init and its runners need some themselves", f.path);
            r.fault(&f.span(), message, "write a number such as 256");
            None
        }
    }
}

fn network(r: &mut Reader, f: &Field<'_, '_>) -> Option<Network> {
    if let DeValue::Table(_) = f.value.get_ref() {
        let message = format!("{}: an allow-list is not yet enforced, so it is refused", f.path);
        r.fault(&f.span(), message, "use \"none\", or \"internet\" to allow every host");
        return None;
    }
    r.choice(f, &[("none", Network::None), ("internet", Network::Internet)])
}

fn stop_grace(r: &mut Reader, f: &Field<'_, '_>) -> Option<Duration> {
    let written = r.timed(f)?;
    let read =
        parse_duration(written).map_err(|help| (format!("{} is not a duration: {written:?}", f.path), help));
    let grace = r.accept(f, read)?;
    if grace > Duration::from_secs(3600) {
        r.fault(
            &f.span(),
            format!("{} must be at most 1h: a stop waits this long", f.path),
            "write a shorter time",
        );
        return None;
    }
    Some(grace)
}
