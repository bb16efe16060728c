//! The secrets file on disk (contract.md 1, `secrets/env.json`).
//!
//! Loads it with its warnings, changes one entry at a time by an atomic replacement, and tells
//! when somebody else changed it. It is the only code that reads or writes the file.

use std::{
    collections::BTreeSet,
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, Read, Write},
    os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
};

use rustix::fs::FlockOperation;
use zeroize::Zeroizing;

use super::{env_json, value::SecretValue};
use crate::{error::Fault, ids::SecretName};

/// The largest secrets file in bytes.
pub const MAX_FILE: u64 = 1 << 20;

/// Why the secrets could not be read or changed.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The file system refused.
    #[error("cannot {action} the secrets file {path}")]
    Io {
        /// `read`, `lock`, `write`.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file is not as it should be; nothing of it is used.
    #[error("{}", list(.0))]
    Faults(Vec<Fault>),
}

fn list(faults: &[Fault]) -> String {
    let lines: Vec<String> = faults.iter().map(Fault::to_string).collect();
    lines.join("\n")
}

/// What identifies one state of the file; two equal ones mean that it did not change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fingerprint(Option<FileState>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FileState {
    file: (u64, u64),
    size: u64,
    mode: u32,
    modified: (i64, i64),
    changed: (i64, i64),
}

/// The secrets as read at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Secrets {
    entries: Vec<(SecretName, SecretValue)>,
}

impl Secrets {
    /// The value of a name; a placeholder (an empty value) counts as not set.
    #[must_use]
    pub fn get(&self, name: &SecretName) -> Option<&SecretValue> {
        self.iter().find(|(n, _)| *n == name).map(|(_, v)| v)
    }

    /// Names that have a value.
    #[must_use]
    pub fn names(&self) -> BTreeSet<SecretName> {
        self.iter().map(|(n, _)| n.clone()).collect()
    }

    /// Names and values in the order of the file, without placeholders.
    pub fn iter(&self) -> impl Iterator<Item = (&SecretName, &SecretValue)> {
        self.entries.iter().filter(|(_, v)| !v.is_empty()).map(|(n, v)| (n, v))
    }
}

/// What [`SecretStore::load`] found.
#[derive(Debug, Clone)]
pub struct Loaded {
    /// The secrets; none when there is no file.
    pub secrets: Secrets,
    /// What the operator should put right, each with its remedy.
    pub warnings: Vec<Fault>,
    /// The state that was read.
    pub fingerprint: Fingerprint,
}

/// The secrets file of one hive.
#[derive(Debug, Clone)]
pub struct SecretStore {
    path: PathBuf,
    shown: String,
}

impl SecretStore {
    /// The file `file` (relative or absolute) of the hive in folder `hive`; nothing is opened yet.
    #[must_use]
    pub fn new(hive: &Path, file: &Path) -> Self {
        Self { path: hive.join(file), shown: file.display().to_string() }
    }

    /// Where the file is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The state of the file now, for noticing changes without reading it.
    ///
    /// # Errors
    /// When its state cannot be asked for; a missing file has a fingerprint too.
    pub fn fingerprint(&self) -> Result<Fingerprint, StoreError> {
        match fs::metadata(&self.path) {
            Ok(meta) => Ok(fingerprint_of(&meta)),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(Fingerprint(None)),
            Err(e) => Err(self.io("read", e)),
        }
    }

    /// Reads the whole file.
    ///
    /// # Errors
    /// When it cannot be read, is over [`MAX_FILE`], or has mistakes: all of them together.
    pub fn load(&self) -> Result<Loaded, StoreError> {
        let opened = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_NONBLOCK) // a FIFO in its place must not hang us
            .open(&self.path);
        let file = match opened {
            Ok(file) => file,
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                return Ok(Loaded {
                    secrets: Secrets::default(),
                    warnings: Vec::new(),
                    fingerprint: Fingerprint(None),
                });
            }
            Err(e) => return Err(self.io("read", e)),
        };
        let meta = file.metadata().map_err(|e| self.io("read", e))?;
        if !meta.is_file() {
            return Err(self.fault("not a regular file", "put a JSON file there"));
        }
        let mut bytes =
            Zeroizing::new(Vec::with_capacity(usize::try_from(meta.len().min(MAX_FILE)).unwrap_or(0) + 1));
        file.take(MAX_FILE + 1).read_to_end(&mut bytes).map_err(|e| self.io("read", e))?;
        if bytes.len() as u64 > MAX_FILE {
            return Err(self.fault("larger than 1 MiB", "keep large material in files of its own"));
        }
        let entries = env_json::parse(&self.shown, &bytes).map_err(StoreError::Faults)?;
        Ok(Loaded {
            secrets: Secrets { entries },
            warnings: self.mode_warning(&meta).into_iter().collect(),
            fingerprint: fingerprint_of(&meta),
        })
    }

    /// Sets one secret, keeping the others and their order; true when the name was there before.
    ///
    /// # Errors
    /// When the file has mistakes (they would be lost) or cannot be written.
    pub fn set(&self, name: &SecretName, value: SecretValue) -> Result<bool, StoreError> {
        self.change(|entries| match entries.iter_mut().find(|(n, _)| n == name) {
            Some((_, old)) => {
                *old = value;
                true
            }
            None => {
                entries.push((name.clone(), value));
                false
            }
        })
    }

    /// Removes one secret; false when there was none of that name.
    ///
    /// # Errors
    /// As [`SecretStore::set`].
    pub fn remove(&self, name: &SecretName) -> Result<bool, StoreError> {
        if !self.path.exists() {
            return Ok(false);
        }
        self.change(|entries| {
            let before = entries.len();
            entries.retain(|(n, _)| n != name);
            entries.len() < before
        })
    }

    /// Read, change, replace, under a lock of the folder: two changes at once both last.
    fn change(
        &self,
        edit: impl FnOnce(&mut Vec<(SecretName, SecretValue)>) -> bool,
    ) -> Result<bool, StoreError> {
        let folder = self.make_folder().map_err(|e| self.io("write", e))?;
        rustix::fs::flock(&folder, FlockOperation::LockExclusive).map_err(|e| self.io("lock", e.into()))?;
        let mut entries = self.load()?.secrets.entries;
        let was_there = edit(&mut entries);
        let text = env_json::render(&entries);
        if text.len() as u64 > MAX_FILE {
            return Err(self.fault("would be larger than 1 MiB", "keep large material in files of its own"));
        }
        self.replace(&folder, text.as_bytes()).map_err(|e| self.io("write", e))?;
        Ok(was_there)
    }

    /// The folder of the file, made with mode 0700 where it is not there.
    fn make_folder(&self) -> io::Result<File> {
        let folder = self.path.parent().unwrap_or(Path::new("."));
        if !folder.exists() {
            DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
            if let Some(above) = folder.parent() {
                give_like(&File::open(folder)?, &fs::metadata(above)?)?;
            }
        }
        File::open(folder)
    }

    fn replace(&self, folder: &File, text: &[u8]) -> io::Result<()> {
        // A link (to a mounted vault, say) stays; what it points to is replaced.
        let target = match fs::canonicalize(&self.path) {
            Ok(real) => real,
            Err(e) if e.kind() == io::ErrorKind::NotFound => self.path.clone(),
            Err(e) => return Err(e),
        };
        let parent = target.parent().unwrap_or(Path::new("."));
        let like = fs::metadata(&target).or_else(|_| folder.metadata())?;
        let name = target.file_name().unwrap_or_default().to_string_lossy();
        let prefix = format!(".{name}.new-");
        sweep(parent, &prefix)?;
        let mut temp = tempfile::Builder::new()
            .prefix(&prefix)
            .permissions(fs::Permissions::from_mode(0o600))
            .tempfile_in(parent)?;
        give_like(temp.as_file(), &like)?;
        temp.write_all(text)?;
        temp.as_file().sync_all()?;
        temp.persist(&target).map_err(|e| e.error)?;
        File::open(parent)?.sync_all()
    }

    fn mode_warning(&self, meta: &fs::Metadata) -> Option<Fault> {
        let mode = meta.mode() & 0o7777;
        (mode & 0o077 != 0).then(|| {
            Fault::new(
                &self.shown,
                format!("other users of this machine may use this file (mode {mode:04o})"),
            )
            .help(format!("chmod 600 {}", self.path.display()))
        })
    }

    fn io(&self, action: &'static str, source: io::Error) -> StoreError {
        StoreError::Io { action, path: self.path.clone(), source }
    }

    fn fault(&self, message: &str, help: &str) -> StoreError {
        StoreError::Faults(vec![Fault::new(&self.shown, message).help(help)])
    }
}

/// Gives what root just made to the owner of `like`: who uses sudo once keeps access to their own hive.
fn give_like(made: &File, like: &fs::Metadata) -> io::Result<()> {
    let now = made.metadata()?;
    let differs = (now.uid(), now.gid()) != (like.uid(), like.gid());
    if differs && rustix::process::geteuid().is_root() {
        std::os::unix::fs::fchown(made, Some(like.uid()), Some(like.gid()))?;
    }
    Ok(())
}

/// Removes what a crash between writing and renaming left behind; the caller holds the lock.
fn sweep(folder: &Path, prefix: &str) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with(prefix) {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

fn fingerprint_of(meta: &fs::Metadata) -> Fingerprint {
    Fingerprint(Some(FileState {
        file: (meta.dev(), meta.ino()),
        size: meta.size(),
        mode: meta.mode(),
        modified: (meta.mtime(), meta.mtime_nsec()),
        changed: (meta.ctime(), meta.ctime_nsec()),
    }))
}

#[cfg(test)]
#[path = "store_tests.rs"]
mod tests;
