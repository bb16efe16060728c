//! Which hive a command is about, and what every command is given.

use std::path::{Path, PathBuf};

use super::{client::Client, failure::Failure, ui::Ui};
use crate::{
    config::{self, ConfigError, Env, Loaded},
    db::lock::{self, Holder},
    paths::HivePaths,
};

/// What every command is given.
#[derive(Debug, Clone)]
pub struct Context {
    /// Where it writes.
    pub ui: Ui,
    /// The environment, read once.
    pub env: Env,
    /// `--dir` or `SKEP_DIR`.
    pub dir: Option<PathBuf>,
    /// `--host` or `SKEP_HOST`.
    pub host: Option<String>,
}

impl Context {
    /// The hive: `--dir`, `SKEP_DIR`, or the nearest folder with a `skep.toml` from here upwards.
    ///
    /// # Errors
    /// There is none.
    pub fn hive(&self) -> Result<HivePaths, Failure> {
        if let Some(dir) = &self.dir {
            let root = dir
                .canonicalize()
                .map_err(|e| Failure::usage(format!("cannot use the folder {}: {e}", dir.display())))?;
            if !root.join(config::load::FILE).exists() {
                return Err(Failure::usage(format!("no skep.toml in {}", root.display()))
                    .help("make a hive there with `skep init`, or name another folder with --dir"));
            }
            return Ok(HivePaths::new(root));
        }
        let here = std::env::current_dir()?;
        match here.ancestors().find(|dir| dir.join(config::load::FILE).exists()) {
            Some(root) => Ok(HivePaths::new(root.to_owned())),
            None => Err(Failure::usage(format!("no skep.toml in {} or a folder above it", here.display()))
                .help("make a hive with `skep init`, or name its folder with --dir or SKEP_DIR")),
        }
    }

    /// The hive's configuration; every mistake is in the failure.
    ///
    /// # Errors
    /// It is missing or wrong.
    pub fn config(&self, hive: &HivePaths) -> Result<Loaded, Failure> {
        config::load(&hive.root).map_err(|e| self.config_failure(e))
    }

    fn config_failure(&self, error: ConfigError) -> Failure {
        match error {
            ConfigError::Invalid { faults, text } => {
                self.ui.err(config::render(&faults, &text, self.ui.color_err()).trim_end());
                Failure::usage(format!("skep.toml has {}", mistakes(faults.len())))
            }
            other => Failure { code: super::failure::USAGE, ..Failure::from(other) },
        }
    }

    /// For what is done to the hive's own folder and process.
    ///
    /// # Errors
    /// Another supervisor was named.
    pub fn only_here(&self) -> Result<(), Failure> {
        match &self.host {
            Some(host) => Err(Failure::usage(format!("this works on a hive of this machine, not on {host}"))
                .help("leave --host out and unset SKEP_HOST")),
            None => Ok(()),
        }
    }

    /// A client of the supervisor: over TCP with `--host`, else over the hive's socket. Dials nothing.
    ///
    /// # Errors
    /// There is no hive, or the address cannot be used.
    pub fn client(&self) -> Result<Client, Failure> {
        let client = match &self.host {
            Some(host) => {
                let token = self.env.token.clone().or_else(|| {
                    let file = self.hive().ok()?.token();
                    Some(std::fs::read_to_string(file).ok()?.trim().to_owned())
                });
                Client::tcp(host, token)?
            }
            None => Client::unix(&self.hive()?)?,
        };
        Ok(client.telling(self.ui))
    }
}

/// `a mistake`, `3 mistakes`.
#[must_use]
pub fn mistakes(count: usize) -> String {
    if count == 1 { "a mistake".to_owned() } else { format!("{count} mistakes") }
}

/// The hive's name as far as it can be told; its folder's when the configuration is wrong.
#[must_use]
pub fn name(hive: &HivePaths) -> String {
    config::load(&hive.root).map_or_else(
        |_| hive.root.file_name().map_or_else(|| "hive".into(), |n| n.to_string_lossy().into_owned()),
        |loaded| loaded.config.name.to_string(),
    )
}

/// The lock that one supervisor a hive holds.
#[must_use]
pub fn lock_file(hive: &HivePaths) -> PathBuf {
    hive.state().join("supervisor.lock")
}

/// The supervisor of the hive, if one runs.
///
/// # Errors
/// The lock's file cannot be opened.
pub fn supervisor(hive: &HivePaths) -> Result<Option<Holder>, Failure> {
    lock::holder(&lock_file(hive)).map_err(|e| {
        Failure::new(format!("cannot tell whether a supervisor runs ({}): {e}", shown(&lock_file(hive))))
            .help("run skep as the user that started the supervisor")
    })
}

/// A path for people: relative to the current folder when it is below it.
#[must_use]
pub fn shown(path: &Path) -> String {
    let here = std::env::current_dir().unwrap_or_default();
    let path = path.strip_prefix(&here).unwrap_or(path);
    path.strip_prefix(".").ok().filter(|p| !p.as_os_str().is_empty()).unwrap_or(path).display().to_string()
}
