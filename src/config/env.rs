//! The only place that reads environment variables of the process.
//!
//! What is neither in [`VARIABLES`] nor allowed by `registry.environment` is not read, so that these lists are the
//! documentation.

use std::{collections::BTreeMap, path::PathBuf};

use crate::ids::SecretName;

/// A variable that skep reads.
#[derive(Debug, Clone, Copy)]
pub struct Variable {
    /// Its name.
    pub name: &'static str,
    /// What it does.
    pub doc: &'static str,
}

/// All of them, for help and documentation.
pub const VARIABLES: &[Variable] = &[
    Variable { name: "SKEP_DIR", doc: "folder of the hive, instead of the current one or one above it" },
    Variable { name: "SKEP_HOST", doc: "address of the supervisor's API, instead of the hive's own socket" },
    Variable { name: "SKEP_TOKEN", doc: "bearer token for SKEP_HOST, instead of the hive's own .skep/token" },
    Variable { name: "SKEP_LOG", doc: "what is logged, such as info or skep=debug" },
    Variable {
        name: "SKILL_NOTIFY_INTERVAL_MINUTES",
        doc: "least minutes between two notices of one job where skep.toml says none",
    },
    Variable { name: "DOCKER_HOST", doc: "address of the Docker engine, instead of /var/run/docker.sock" },
    Variable { name: "NO_COLOR", doc: "no colour when set to anything" },
    Variable { name: "http_proxy", doc: "proxy that image builds use" },
    Variable { name: "https_proxy", doc: "likewise" },
    Variable { name: "no_proxy", doc: "hosts reached without it" },
    Variable { name: "HTTP_PROXY", doc: "proxy that image builds use" },
    Variable { name: "HTTPS_PROXY", doc: "likewise" },
    Variable { name: "NO_PROXY", doc: "hosts reached without it" },
    Variable { name: "PIP_INDEX_URL", doc: "package index that image builds use" },
    Variable { name: "NPM_CONFIG_REGISTRY", doc: "likewise, for npm" },
    #[cfg(feature = "failpoints")]
    Variable { name: "SKEP_KILL_AT", doc: "tests: where the supervisor kills itself, such as run.leased:3" },
    Variable { name: "TERM", doc: "type of the terminal, handed to `skep shell`" },
];

/// Variables that image builds get as arguments.
pub const FOR_BUILDS: [&str; 8] = [
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "PIP_INDEX_URL",
    "NPM_CONFIG_REGISTRY",
];

/// The value of a documented variable; none when unset, empty or not UTF-8.
///
/// # Panics
/// In debug builds when `name` is not in [`VARIABLES`].
#[must_use]
pub fn var(name: &str) -> Option<String> {
    debug_assert!(VARIABLES.iter().any(|v| v.name == name), "{name} is not documented");
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// The value of a variable that `registry.environment` allows: for the variables of skills.
#[must_use]
pub fn allowed(name: &SecretName) -> Option<String> {
    std::env::var(name.as_str()).ok().filter(|value| !value.is_empty())
}

/// The environment as read once, at the start.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Env {
    /// `SKEP_DIR`.
    pub dir: Option<PathBuf>,
    /// `SKEP_HOST`.
    pub host: Option<String>,
    /// `SKEP_TOKEN`.
    pub token: Option<String>,
    /// `SKEP_LOG`.
    pub log: Option<String>,
    /// `SKILL_NOTIFY_INTERVAL_MINUTES` (systems.md A14), as written.
    pub notify_interval: Option<String>,
    /// `DOCKER_HOST`.
    pub docker_host: Option<String>,
    /// `NO_COLOR` is set to anything but the empty string (no-color.org).
    pub no_color: bool,
    /// `TERM`.
    pub term: Option<String>,
    /// `SKEP_KILL_AT`.
    #[cfg(feature = "failpoints")]
    pub kill_at: Option<String>,
    /// Those of [`FOR_BUILDS`] that are set.
    pub builds: BTreeMap<String, String>,
}

impl Env {
    /// Reads the environment of this process.
    #[must_use]
    pub fn read() -> Self {
        Self::from(var)
    }

    /// Reads through `lookup`, which tests replace.
    pub fn from(lookup: impl Fn(&str) -> Option<String>) -> Self {
        Self {
            dir: lookup("SKEP_DIR").map(PathBuf::from),
            host: lookup("SKEP_HOST"),
            token: lookup("SKEP_TOKEN"),
            log: lookup("SKEP_LOG"),
            notify_interval: lookup("SKILL_NOTIFY_INTERVAL_MINUTES"),
            docker_host: lookup("DOCKER_HOST"),
            no_color: lookup("NO_COLOR").is_some(),
            term: lookup("TERM"),
            #[cfg(feature = "failpoints")]
            kill_at: lookup("SKEP_KILL_AT"),
            builds: FOR_BUILDS.iter().filter_map(|n| Some(((*n).to_owned(), lookup(n)?))).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_documented_variable_is_read_and_no_other() {
        let asked = std::cell::RefCell::new(Vec::new());
        let env = Env::from(|name| {
            asked.borrow_mut().push(name.to_owned());
            Some(format!("<{name}>"))
        });
        let mut asked = asked.into_inner();
        let mut documented: Vec<_> = VARIABLES.iter().map(|v| v.name.to_owned()).collect();
        asked.sort();
        documented.sort();
        assert_eq!(asked, documented);
        assert_eq!(env.dir, Some(PathBuf::from("<SKEP_DIR>")));
        assert!(env.no_color);
        assert_eq!(Env::from(|_| None), Env::default());
    }
}
