//! Where everything of a hive is on the host. Knows names, touches nothing.

use std::path::{Path, PathBuf};

use crate::ids::AgentId;

/// A hive's folder and what skep keeps in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HivePaths {
    /// The folder that holds `skep.toml`, absolute.
    pub root: PathBuf,
}

impl HivePaths {
    /// For an absolute folder.
    #[must_use]
    pub fn new(root: PathBuf) -> Self {
        Self { root }
    }

    /// `skep.toml`.
    #[must_use]
    pub fn config(&self) -> PathBuf {
        self.root.join("skep.toml")
    }

    /// `skep.lock`.
    #[must_use]
    pub fn lock(&self) -> PathBuf {
        self.root.join("skep.lock")
    }

    /// `variables.json`: values of skills' variables (systems.md C3).
    #[must_use]
    pub fn variables(&self) -> PathBuf {
        self.root.join("variables.json")
    }

    /// `registry/skills.json`.
    #[must_use]
    pub fn registry_file(&self) -> PathBuf {
        self.root.join("registry/skills.json")
    }

    /// `.skep`: all state; deleting it loses nothing that was written by hand.
    #[must_use]
    pub fn state(&self) -> PathBuf {
        self.root.join(".skep")
    }

    /// The operator's socket.
    #[must_use]
    pub fn socket(&self) -> PathBuf {
        self.state().join("skep.sock")
    }

    /// The bearer token of the TCP API.
    #[must_use]
    pub fn token(&self) -> PathBuf {
        self.state().join("token")
    }

    /// The database.
    #[must_use]
    pub fn database(&self) -> PathBuf {
        self.state().join("skep.db")
    }

    /// The immutable store of skills.
    #[must_use]
    pub fn store(&self) -> PathBuf {
        self.state().join("store")
    }

    /// Files that were attached to mail, by the hash of their content.
    #[must_use]
    pub fn mail(&self) -> PathBuf {
        self.state().join("mail")
    }

    /// Programs that containers mount.
    #[must_use]
    pub fn bin(&self) -> PathBuf {
        self.state().join("bin")
    }

    /// The supervisor's own log.
    #[must_use]
    pub fn log(&self) -> PathBuf {
        self.state().join("logs/skep.log")
    }

    /// One agent's folder.
    #[must_use]
    pub fn agent(&self, id: &AgentId) -> AgentDir {
        AgentDir { root: self.state().join("agents").join(id.as_str()) }
    }

    /// The folder of all agents' folders.
    #[must_use]
    pub fn agents(&self) -> PathBuf {
        self.state().join("agents")
    }

    /// A path of `skep.toml`, which is relative to the hive unless it is absolute.
    #[must_use]
    pub fn resolve(&self, path: &Path) -> PathBuf {
        self.root.join(path)
    }
}

/// `.skep/agents/<id>/`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentDir {
    /// The folder itself.
    pub root: PathBuf,
}

impl AgentDir {
    /// Mounted at `/skep`: init, socket, prompt.
    #[must_use]
    pub fn skep(&self) -> PathBuf {
        self.root.join("skep")
    }

    /// Mounted at `/skills`.
    #[must_use]
    pub fn view(&self) -> PathBuf {
        self.root.join("view")
    }

    /// Mounted at `/skills/custom`; the agent's.
    #[must_use]
    pub fn custom(&self) -> PathBuf {
        self.root.join("custom")
    }

    /// Mounted at `/workspace` unless configured otherwise; the agent's.
    #[must_use]
    pub fn workspace(&self) -> PathBuf {
        self.root.join("workspace")
    }

    /// Mounted at `/soul.md`: a copy of the configured soul, written in place.
    #[must_use]
    pub fn soul(&self) -> PathBuf {
        self.root.join("soul.md")
    }

    /// Mounted at `/etc/passwd`.
    #[must_use]
    pub fn passwd(&self) -> PathBuf {
        self.root.join("etc/passwd")
    }

    /// Mounted at `/etc/group`.
    #[must_use]
    pub fn group(&self) -> PathBuf {
        self.root.join("etc/group")
    }

    /// Kept output of a run: three segments of a spool.
    #[must_use]
    pub fn run(&self, run: i64) -> PathBuf {
        self.runs().join(run.to_string())
    }

    /// Kept output of runs, a folder each.
    #[must_use]
    pub fn runs(&self) -> PathBuf {
        self.root.join("runs")
    }

    /// Kept output of `main`: three segments of the spool.
    #[must_use]
    pub fn main_spool(&self) -> PathBuf {
        self.root.join("spool/main")
    }
}
