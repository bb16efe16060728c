//! Values of variables (systems.md C3) in the operator's files, without those that a skill says are secret.
//!
//! A name that one skill declares secret is secret in every file: a value may be shared by several.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, Metadata},
    io,
    path::Path,
};

use serde_json::{Map, Value};

use super::archive::Note;
use crate::{
    app::variables::{MAX_FILE, OWN},
    config::model::Config,
    paths::HivePaths,
    registry::{
        safe_copy::{Origin, Policy, fingerprint},
        sources,
    },
    secrets::SecretValue,
    skill::{
        load,
        model::{Skill, Var},
        source::Limits,
    },
};

/// What becomes of the files of values.
#[derive(Default)]
pub(super) struct Values {
    /// By path in the hive: what is written in their place.
    pub files: BTreeMap<String, (Metadata, Vec<u8>)>,
    /// Those that are not taken.
    pub left_out: Vec<Note>,
    /// The secret values that they hold.
    pub secrets: Vec<SecretValue>,
}

/// Reads every file of values. `published` are the skills of the registry.
pub(super) fn read(paths: &HivePaths, config: &Config, published: &[Skill]) -> Values {
    let mut names = BTreeSet::new();
    take_names(&mut names, published.iter().flat_map(|skill| &skill.vars));
    let mut unreadable = BTreeSet::new();
    let mut files = vec![(paths.variables(), true)];
    let policy = Policy { origin: Origin::Operator, limits: config.registry.limits };
    for base in config.registry.sources.iter().map(|source| paths.resolve(source)) {
        for candidate in sources::scan(&base).candidates {
            let at = base.join(&candidate.folder).join(OWN);
            if fs::symlink_metadata(&at).is_err() {
                continue;
            }
            let source = fingerprint(&base, &candidate.folder, &policy).ok();
            match source.and_then(|source| load::read(&source, Limits::default()).skill) {
                Some(skill) => take_names(&mut names, skill.vars.iter()),
                None => drop(unreadable.insert(at.clone())),
            }
            files.push((at, false));
        }
    }
    let mut values = Values::default();
    for (at, sections) in files {
        let Some(path) = super::contents::inside(&paths.root, &at) else { continue };
        let outcome = if unreadable.contains(&at) {
            Err("its skill cannot be read, so that nobody knows which values are secret".to_owned())
        } else {
            values.take(&at, &path, sections, &names).map_err(|e| e.to_string())
        };
        if let Err(reason) = outcome {
            values.left_out.push(Note { path, reason });
        }
    }
    values
}

fn take_names<'a>(names: &mut BTreeSet<String>, vars: impl Iterator<Item = &'a Var>) {
    names.extend(vars.filter(|var| var.secret).map(|var| var.name.clone()));
}

impl Values {
    fn take(&mut self, at: &Path, path: &str, sections: bool, names: &BTreeSet<String>) -> io::Result<()> {
        let Some((meta, mut content)) = parse(at)? else { return Ok(()) };
        let mut secret = Vec::new();
        if sections {
            for section in content.values_mut().filter_map(Value::as_object_mut) {
                secret.extend(without(section, names));
            }
        } else {
            secret.extend(without(&mut content, names));
        }
        let texts = secret.iter().filter_map(Value::as_str);
        self.secrets.extend(texts.filter_map(|text| SecretValue::new(text).ok()));
        self.files.insert(path.to_owned(), (meta, serde_json::to_vec_pretty(&content)?));
        Ok(())
    }
}

/// A file of values; none when it is not there.
fn parse(at: &Path) -> io::Result<Option<(Metadata, Map<String, Value>)>> {
    let meta = match fs::metadata(at) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        other => other?,
    };
    if !meta.is_file() || meta.len() > MAX_FILE {
        return Err(io::Error::other("it is no file of at most 1 MiB"));
    }
    let content = serde_json::from_slice(&fs::read(at)?).map_err(|e| {
        io::Error::other(format!("it is no JSON object, so that its secrets cannot be told: {e}"))
    })?;
    Ok(Some((meta, content)))
}

/// Takes these names out, and answers what they held.
fn without(values: &mut Map<String, Value>, names: &BTreeSet<String>) -> Vec<Value> {
    names.iter().filter_map(|name| values.shift_remove(name)).collect()
}
