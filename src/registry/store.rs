//! The immutable store of skills: `<root>/sha256/<hex>/`, each entry named by its own digest.
//!
//! By digest rather than by id and version, so that equal content stands there once, publishing twice
//! changes nothing, and an entry can be checked by itself. Filled by rename only; nothing inside an
//! entry is ever written again. It belongs to the supervisor: files 0444 or 0555, folders 0555.

use std::{
    collections::BTreeSet,
    fs::{self, DirBuilder, File, Permissions},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, PermissionsExt},
    path::{Path, PathBuf},
};

use rustix::{
    fs::{CWD, RenameFlags, renameat_with, syncfs},
    io::Errno,
};

use super::{
    names::{check_path, escape},
    safe_copy::{self, CopyError, Origin, Policy},
    staging::{Laying, Staged, remove_tree},
};
use crate::{
    config::model::SkillLimits,
    error::Fault,
    ids::Digest,
    skill::{digest, source::Source},
};

/// Above so many files and folders one flush of the file system is cheaper than one for each.
const SYNC_EACH_UP_TO: usize = 64;

/// Why the store did not answer.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The entry is not there.
    #[error("the store has no {0}: register the skill again from its source")]
    Missing(Digest),
    /// The bytes are not those that were stored.
    #[error("the store's entry {expected} was altered: {found}; remove {} and register the skill again", at.display())]
    Altered {
        /// Its name.
        expected: Digest,
        /// What its bytes give, or why they give nothing.
        found: String,
        /// Where it stands.
        at: PathBuf,
    },
    /// The file system refused.
    #[error("{what}")]
    Io {
        /// What failed, on which thing.
        what: String,
        /// Why.
        source: io::Error,
    },
}

impl StoreError {
    fn io(what: String) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { what, source }
    }
}

/// What a sweep removed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Swept {
    /// Entries that nobody refers to.
    pub entries: usize,
    /// Copies that a crash left behind.
    pub staged: usize,
}

/// The store of one hive.
#[derive(Debug, Clone)]
pub struct Store {
    entries: PathBuf,
    staging: PathBuf,
}

impl Store {
    /// Opens the store in the folder `root` (`.skep/store`), making it when it is not there.
    ///
    /// # Errors
    /// Its folders cannot be made.
    pub fn open(root: &Path) -> Result<Self, StoreError> {
        let store = Self { entries: root.join("sha256"), staging: root.join("staging") };
        for (folder, mode) in [(&store.entries, 0o755), (&store.staging, 0o700)] {
            DirBuilder::new()
                .recursive(true)
                .mode(mode)
                .create(folder)
                .map_err(StoreError::io(format!("cannot make the store's folder {}", folder.display())))?;
        }
        Ok(store)
    }

    /// Copies a skill's folder into staging ([`safe_copy::copy`]); checks run on the copy.
    ///
    /// # Errors
    /// Every rule that the folder breaks, or the failure of our own side.
    pub fn stage(&self, base: &Path, inner: &Path, policy: &Policy) -> Result<Staged, CopyError> {
        safe_copy::copy(base, inner, policy, &self.staging)
    }

    /// Where copies are laid before they are stored.
    pub(super) fn staging(&self) -> &Path {
        &self.staging
    }

    /// Lays files into staging that came otherwise than in a folder: path, executable bit, bytes.
    ///
    /// # Errors
    /// As for [`Self::stage`]; a path given twice is a fault.
    pub fn stage_files<'a>(
        &self,
        label: &str,
        files: impl IntoIterator<Item = (&'a str, bool, &'a [u8])>,
        limits: &SkillLimits,
    ) -> Result<Staged, CopyError> {
        let failed = |e| CopyError::io(format!("cannot lay a copy in {}", self.staging.display()), e);
        let mut laying = Laying::create(&self.staging).map_err(failed)?;
        let mut source = Source::default().named(label);
        let mut total = 0;
        for (path, executable, bytes) in files {
            total += bytes.len() as u64;
            check_given(path, bytes.len() as u64, total, &source, limits).map_err(|rule| {
                CopyError::Rejected {
                    folder: escape(label.as_bytes()),
                    faults: vec![Fault::new(escape(path.as_bytes()), rule)],
                    more: 0,
                    changing: false,
                }
            })?;
            laying.file(path).and_then(|mut f| f.write_all(bytes)).map_err(failed)?;
            source.add(path, bytes, executable);
        }
        laying.seal(source).map_err(failed)
    }

    /// Makes a staged copy an entry. Afterwards it survives a power loss; before, nothing of it shows.
    /// An entry that is there already stays, unless its bytes were altered: then it is replaced.
    ///
    /// # Errors
    /// The file system refuses (disk full, read-only).
    pub fn put(&self, staged: Staged) -> Result<Digest, StoreError> {
        let digest = staged.digest();
        self.put_all(vec![staged])?;
        Ok(digest)
    }

    /// [`Self::put`] for many, flushed together.
    ///
    /// # Errors
    /// As for [`Self::put`]; those before the failing one may be stored.
    pub fn put_all(&self, staged: Vec<Staged>) -> Result<(), StoreError> {
        self.flush(&staged)?;
        for copy in staged {
            self.move_in(copy)?;
        }
        File::open(&self.entries)
            .and_then(|d| d.sync_all())
            .map_err(StoreError::io(format!("cannot flush {}", self.entries.display())))
    }

    fn flush(&self, staged: &[Staged]) -> Result<(), StoreError> {
        let weight: usize = staged.iter().map(Staged::weight).sum();
        let flushed = if weight > SYNC_EACH_UP_TO {
            File::open(&self.staging).and_then(|d| syncfs(d).map_err(io::Error::from))
        } else {
            staged.iter().try_for_each(Staged::sync)
        };
        flushed.map_err(StoreError::io(format!("cannot flush {}", self.staging.display())))
    }

    fn move_in(&self, staged: Staged) -> Result<(), StoreError> {
        let digest = staged.digest();
        let at = self.path(&digest);
        let failed = || StoreError::io(format!("cannot move {digest} into the store at {}", at.display()));
        match renameat_with(CWD, staged.path(), CWD, &at, RenameFlags::NOREPLACE) {
            Ok(()) => staged.handed_over(),
            Err(Errno::EXIST) => {
                if self.verify(&digest).is_ok() {
                    return Ok(());
                }
                // The altered entry takes the copy's place and goes with it.
                tracing::warn!(%digest, "a store entry was altered; it is replaced");
                fs::set_permissions(&at, Permissions::from_mode(0o755)).map_err(failed())?;
                renameat_with(CWD, staged.path(), CWD, &at, RenameFlags::EXCHANGE)
                    .map_err(|e| failed()(e.into()))?;
            }
            Err(e) => return Err(failed()(e.into())),
        }
        fs::set_permissions(&at, Permissions::from_mode(0o555)).map_err(failed())
    }

    /// Where an entry stands, whether it is there or not.
    #[must_use]
    pub fn path(&self, digest: &Digest) -> PathBuf {
        self.entries.join(hex::encode(digest.0))
    }

    /// Whether the entry is there. Its bytes are not looked at.
    #[must_use]
    pub fn contains(&self, digest: &Digest) -> bool {
        self.path(digest).is_dir()
    }

    /// The content of one file of an entry; none when the entry has no such file.
    ///
    /// # Errors
    /// The entry is missing or cannot be read.
    pub fn read(&self, digest: &Digest, path: &str) -> Result<Option<Vec<u8>>, StoreError> {
        let at = self.path(digest);
        if !at.is_dir() {
            return Err(StoreError::Missing(*digest));
        }
        let at = at.join(path);
        if check_path(path).is_err() || !at.is_file() {
            return Ok(None);
        }
        fs::read(&at).map(Some).map_err(StoreError::io(format!("cannot read {}", at.display())))
    }

    /// What an entry holds, read from its bytes now.
    ///
    /// # Errors
    /// The entry is missing, or holds what no entry can hold.
    pub fn source(&self, digest: &Digest) -> Result<Source, StoreError> {
        let at = self.path(digest);
        let all =
            SkillLimits { files: u64::MAX / 4, total: u64::MAX, file: u64::MAX - 1, manifest: u64::MAX - 1 };
        let policy = Policy { origin: Origin::Store, limits: all };
        safe_copy::fingerprint(&at, Path::new("."), &policy).map_err(|e| match e {
            CopyError::Missing(_) => StoreError::Missing(*digest),
            CopyError::Io { what, source } => StoreError::Io { what, source },
            e => StoreError::Altered { expected: *digest, found: e.to_string(), at },
        })
    }

    /// Computes an entry's digest from its bytes and compares it with its name.
    ///
    /// # Errors
    /// The entry is missing or altered.
    pub fn verify(&self, digest: &Digest) -> Result<(), StoreError> {
        let found = digest::digest(&self.source(digest)?);
        if found == *digest {
            return Ok(());
        }
        Err(StoreError::Altered {
            expected: *digest,
            found: format!("its bytes give {found}"),
            at: self.path(digest),
        })
    }

    /// Removes every entry outside `keep` and every copy left in staging. Call it at start only, with
    /// the hive's lock held and before anything is registered: it would take copies being made.
    ///
    /// # Errors
    /// A folder cannot be listed or removed.
    pub fn sweep(&self, keep: &BTreeSet<Digest>) -> Result<Swept, StoreError> {
        let keep: BTreeSet<String> = keep.iter().map(|d| hex::encode(d.0)).collect();
        let mut swept = Swept::default();
        for name in names(&self.entries)? {
            if name.to_str().is_some_and(|n| keep.contains(n)) {
                continue;
            }
            // Out of sight first, so that a crash leaves no half entry under its digest.
            let (at, out) = (self.entries.join(&name), self.staging.join(&name));
            let failed = || StoreError::io(format!("cannot remove {}", at.display()));
            fs::set_permissions(&at, Permissions::from_mode(0o755)).map_err(failed())?;
            remove_tree(&out).map_err(failed())?;
            fs::rename(&at, &out).map_err(failed())?;
            remove_tree(&out).map_err(failed())?;
            swept.entries += 1;
        }
        for name in names(&self.staging)? {
            let at = self.staging.join(name);
            remove_tree(&at).map_err(StoreError::io(format!("cannot remove {}", at.display())))?;
            swept.staged += 1;
        }
        Ok(swept)
    }
}

fn names(folder: &Path) -> Result<Vec<std::ffi::OsString>, StoreError> {
    fs::read_dir(folder)
        .and_then(|all| all.map(|e| e.map(|e| e.file_name())).collect())
        .map_err(StoreError::io(format!("cannot list {}", folder.display())))
}

fn check_given(
    path: &str,
    size: u64,
    total: u64,
    so_far: &Source,
    limits: &SkillLimits,
) -> Result<(), String> {
    check_path(path)?;
    let max = if matches!(path, "manifest.json" | "SKILL.md") { limits.manifest } else { limits.file };
    if size > max {
        return Err(format!("has {size} bytes; {max} are allowed"));
    }
    if total > limits.total || so_far.files.len() as u64 >= limits.files {
        return Err("is more than a skill may hold".into());
    }
    let inside = format!("{path}/");
    let below = so_far.files.range(inside.clone()..).next().is_some_and(|(o, _)| o.starts_with(&inside));
    let above = path.match_indices('/').any(|(i, _)| so_far.files.contains_key(&path[..i]));
    if so_far.files.contains_key(path) || above || below {
        return Err("is there twice, or as file and folder at once".into());
    }
    Ok(())
}

#[cfg(test)]
mod tests;
