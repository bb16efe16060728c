//! Where the values of skills' variables come from (systems.md C3): `variables.json`, `vars.json` in the folders that
//! skills come from, and the part of the supervisor's environment that `skep.toml` allows.
//!
//! Read from the operator's files alone, never from a stored version or from what an agent wrote.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt, fs, io,
    path::Path,
};

use semver::Version;
use serde_json::Value;

use super::{hive::Hive, world::World};
use crate::{
    config::{self, model::Config},
    db,
    error::Fault,
    ids::SkillId,
    paths::HivePaths,
    registry::sources,
    secrets::SecretValue,
};

/// The file of a skill's own.
pub(super) const OWN: &str = "vars.json";
/// The largest file of values.
pub(super) const MAX_FILE: u64 = 1 << 20;

/// Everything that variables may take their values from, but for the agents' secrets.
#[derive(Clone, Default, PartialEq)]
pub struct Variables {
    shared: Option<Value>,
    /// By the id and version that a source folder states.
    own: BTreeMap<(SkillId, Option<Version>), Value>,
    environment: BTreeMap<String, String>,
}

impl fmt::Debug for Variables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Some values are secret.
        f.debug_struct("Variables").finish_non_exhaustive()
    }
}

impl Variables {
    /// Reads them, with what is wrong with the files.
    pub(super) fn read(paths: &HivePaths, config: &Config) -> (Self, Vec<Fault>) {
        let mut faults = Vec::new();
        let mut read = |at: &Path| {
            parse(at).unwrap_or_else(|why| {
                let shown = at.strip_prefix(&paths.root).unwrap_or(at).display().to_string();
                let help = "until it is mended, variables take their values elsewhere";
                faults.push(Fault::new(shown, why).help(help));
                None
            })
        };
        let mut variables = Self { shared: read(&paths.variables()), ..Self::default() };
        for base in config.registry.sources.iter().map(|source| paths.resolve(source)) {
            for candidate in sources::scan(&base).candidates {
                let Ok(id) = candidate.id.parse::<SkillId>() else { continue };
                let version = candidate.version.as_deref().and_then(|v| Version::parse(v).ok());
                if let Some(values) = read(&base.join(&candidate.folder).join(OWN)) {
                    variables.own.insert((id, version), values);
                }
            }
        }
        let names = config.registry.environment.iter();
        variables.environment =
            names.filter_map(|name| Some((name.to_string(), config::env::allowed(name)?))).collect();
        (variables, faults)
    }

    /// `vars.json` of the folder that a version comes from: the one that names the version, else the skill's.
    #[must_use]
    pub fn own(&self, id: &SkillId, version: &Version) -> Option<&Value> {
        let exact = self.own.get(&(id.clone(), Some(version.clone())));
        exact.or_else(|| self.own.get(&(id.clone(), None)))
    }

    /// `variables.json`.
    #[must_use]
    pub fn shared(&self) -> Option<&Value> {
        self.shared.as_ref()
    }

    /// A variable of the supervisor's environment, when `skep.toml` allows it.
    #[must_use]
    pub fn environment(&self, name: &str) -> Option<&str> {
        self.environment.get(name).map(String::as_str)
    }

    /// Every value under one of these names.
    pub(super) fn under(&self, names: &BTreeSet<String>) -> Vec<SecretValue> {
        let sections = self.shared.iter().filter_map(Value::as_object).flat_map(|all| all.values());
        let maps = sections.chain(self.own.values()).filter_map(Value::as_object);
        let named = maps.flatten().filter(|(name, _)| names.contains(*name));
        let texts = named.filter_map(|(_, value)| crate::skill::vars::as_text(value));
        let environment = self.environment.iter().filter(|(name, _)| names.contains(*name));
        let all = texts.chain(environment.map(|(_, value)| value.clone()));
        all.filter_map(|text| SecretValue::new(text).ok()).collect()
    }

    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl Hive {
    /// Reads the values anew; those of secret variables are masked from then on.
    pub(super) async fn read_variables(&self, world: &mut World) {
        let (variables, faults) = Variables::read(&self.paths, &world.config);
        world.source_faults.extend(faults);
        if !variables.is_empty() {
            match self.db.read(db::variables::secret_names).await {
                Ok(names) => world.mask_also(variables.under(&names)),
                Err(e) => world.refused.push(Fault::new(".skep/skep.db", e.to_string())),
            }
        }
        world.variables = variables.into();
    }
}

/// A JSON object; none when the file is not there.
fn parse(at: &Path) -> Result<Option<Value>, String> {
    let meta = match fs::metadata(at) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        other => other.map_err(|e| format!("cannot be read: {e}"))?,
    };
    if !meta.is_file() || meta.len() > MAX_FILE {
        return Err(format!("is no file of at most {MAX_FILE} bytes"));
    }
    let bytes = fs::read(at).map_err(|e| format!("cannot be read: {e}"))?;
    // The parser's own words may hold a value.
    let place = |e: serde_json::Error| format!("is no JSON (line {}, column {})", e.line(), e.column());
    let value: Value = serde_json::from_slice(&bytes).map_err(place)?;
    if value.is_object() { Ok(Some(value)) } else { Err("is no JSON object".to_owned()) }
}
