//! The operator's documents as files: `<source folder>/<name>/SKILL.md`, so that they outlive `.skep`.
//!
//! Written beside their place and moved there as a whole, after they were published. What was changed by hand is
//! taken in first and never written over.

use std::{
    fs, io,
    io::Write,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use semver::Version;
use tempfile::NamedTempFile;

use super::snapshot::Snapshot;
use crate::{
    app::{Result, hive::Hive, types::AppError, world::UpdateScope},
    ids::SkillId,
    registry::index::{Owner, SkillEntry},
    skill::source::SKILL_MD,
};

/// The folder of a document.
#[derive(Clone)]
pub(super) struct Home {
    /// The source folder that it is in.
    root: PathBuf,
    folder: PathBuf,
    /// As the registry tells it.
    origin: String,
}

/// A file that is written and waits to be moved to its place.
pub(super) struct Prepared {
    file: NamedTempFile,
    home: Home,
}

/// How the names of files begin that wait beside the skills.
const BESIDE: &str = ".skep-document-";
/// One that waits for longer belongs to a supervisor that was killed.
const ABANDONED: Duration = Duration::from_secs(3600);

/// Removes what killed supervisors left; what cannot be removed does no harm.
fn remove_leftovers(root: &Path) {
    for entry in fs::read_dir(root).into_iter().flatten().flatten() {
        let old = || {
            entry
                .metadata()
                .and_then(|meta| meta.modified())
                .is_ok_and(|at| at.elapsed().is_ok_and(|age| age > ABANDONED))
        };
        if entry.file_name().to_string_lossy().starts_with(BESIDE) && old() {
            fs::remove_file(entry.path()).unwrap_or_default();
        }
    }
}

fn unwritable(what: &Path, e: &io::Error) -> AppError {
    AppError::Unavailable(format!("cannot write {}: {e}", what.display()))
}

impl Home {
    /// The folder that a version came from, if it came from one of the hive's.
    pub(super) fn of(hive: &Hive, origin: &str) -> Option<Self> {
        hive.world().config.registry.sources.iter().find_map(|source| {
            let inner = origin.strip_prefix(&format!("{}/", source.display()))?;
            let root = hive.paths.resolve(source);
            let folder = root.join(inner);
            folder.is_dir().then(|| Self { root, folder, origin: origin.to_owned() })
        })
    }

    /// Where the next version goes: its own folder, else one in the first source; none when the hive has no sources.
    ///
    /// # Errors
    /// Its folder is named after a version and holds more than the document.
    pub(super) fn find(
        hive: &Hive,
        slug: &SkillId,
        origin: Option<&str>,
        version: &Version,
    ) -> Result<Option<Self>> {
        if let Some(home) = origin.and_then(|origin| Self::of(hive, origin)) {
            let name = home.folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if !name.contains('@') {
                return Ok(Some(home));
            }
            if home.holds_more().map_err(|e| unwritable(&home.folder, &e))? {
                return Err(AppError::Conflict(format!(
                    "{} holds more than {SKILL_MD}: make the next version of {slug} in a folder of its own",
                    home.origin
                )));
            }
            let next = format!("{slug}@{version}");
            let above = home.origin.strip_suffix(&name).unwrap_or_default().to_owned();
            return Ok(Some(Self {
                folder: home.folder.with_file_name(&next),
                origin: format!("{above}{next}"),
                root: home.root,
            }));
        }
        let world = hive.world();
        let Some(source) = world.config.registry.sources.first() else { return Ok(None) };
        let root = hive.paths.resolve(source);
        let (folder, origin) = (root.join(slug.as_str()), format!("{}/{slug}", source.display()));
        if folder.symlink_metadata().is_ok() {
            return Err(AppError::Conflict(format!(
                "{origin} is there already and is not what the registry has (see `skep validate`): mend or remove it"
            )));
        }
        Ok(Some(Self { root, folder, origin }))
    }

    fn file(&self) -> PathBuf {
        self.folder.join(SKILL_MD)
    }

    /// Whether there is anything but the SKILL.md.
    fn holds_more(&self) -> io::Result<bool> {
        for entry in fs::read_dir(&self.folder)? {
            if entry?.file_name() != SKILL_MD {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Writes the file, not yet in its place: what cannot be written is told before anything is published.
    ///
    /// # Errors
    /// Of the file system.
    pub(super) fn prepare(self, bytes: &[u8]) -> Result<Prepared> {
        let write = || {
            fs::create_dir_all(&self.root)?;
            remove_leftovers(&self.root);
            // Beside the skills, where no source has a skill.
            let mut file = tempfile::Builder::new().prefix(BESIDE).tempfile_in(&self.root)?;
            file.write_all(bytes)?;
            file.as_file().set_permissions(fs::Permissions::from_mode(0o644))?;
            file.as_file().sync_all()?;
            Ok(file)
        };
        match write() {
            Ok(file) => Ok(Prepared { file, home: self }),
            Err(e) => Err(unwritable(&self.root, &e)),
        }
    }

    /// Removes the document's folder.
    ///
    /// # Errors
    /// It holds more than the document, or of the file system.
    pub(super) fn remove(&self) -> Result<()> {
        let more = || self.holds_more().map_err(|e| unwritable(&self.folder, &e));
        if more()? {
            return Err(AppError::Conflict(format!(
                "{} holds more than {SKILL_MD}, so it is not deleted as a document: remove the folder by hand first",
                self.origin
            )));
        }
        let gone = |e: io::Error| if e.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(e) };
        fs::remove_file(self.file())
            .or_else(gone)
            .and_then(|()| fs::remove_dir(&self.folder))
            .map_err(|e| unwritable(&self.folder, &e))
    }

    /// What the SKILL.md says now; none when it is gone.
    ///
    /// # Errors
    /// Of the file system.
    pub(super) fn read(&self) -> Result<Option<Vec<u8>>> {
        match fs::read(self.file()) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(AppError::Unavailable(format!("cannot read {}: {e}", self.file().display()))),
        }
    }
}

impl Prepared {
    /// As the registry tells it.
    pub(super) fn origin(&self) -> &str {
        &self.home.origin
    }

    /// Moves the file to its place; answers where that is.
    ///
    /// # Errors
    /// Of the file system; the document is published all the same.
    pub(super) fn commit(self, slug: &SkillId) -> Result<Home> {
        let Self { file, home } = self;
        let target = home.file();
        fs::create_dir_all(&home.folder)
            .and_then(|()| file.persist(&target).map_err(|e| e.error))
            .and_then(|_| fs::File::open(&home.folder)?.sync_all())
            .map_err(|e| {
                AppError::Unavailable(format!(
                    "{slug} is in the registry, but {} could not be written: {e}",
                    target.display()
                ))
            })?;
        Ok(home)
    }
}

impl Hive {
    /// Takes in what the operator changed by hand since this version. Answers whether there was something.
    ///
    /// # Errors
    /// What was changed cannot be taken in.
    pub(super) async fn take_in(self: &Arc<Self>, base: &Snapshot) -> Result<bool> {
        if base.entry.owner != Owner::Operator {
            return Ok(false);
        }
        let Some(home) = Home::of(self, &base.origin) else { return Ok(false) };
        let Some(there) = home.read()?.filter(|there| *there != base.file) else { return Ok(false) };
        // What the registry has, as an older version too, is not lost when it is written over.
        let known = |entry: &SkillEntry| {
            let holds = |digest| self.store.read(digest, SKILL_MD).ok().flatten().as_ref() == Some(&there);
            entry.versions.values().any(|version| holds(&version.digest))
        };
        if known(&base.entry) {
            return Ok(false);
        }
        // Another edit may have come meanwhile, and again while this looks.
        if known(&self.snapshot(None, &base.entry.id).await?.entry) {
            return Ok(true);
        }
        self.refresh(&UpdateScope::default()).await;
        if known(&self.snapshot(None, &base.entry.id).await?.entry) || home.read()?.as_ref() != Some(&there) {
            return Ok(true);
        }
        Err(AppError::Conflict(format!(
            "{}/{SKILL_MD} was changed by hand and could not be taken in (see `skep validate`): mend it first",
            home.origin
        )))
    }
}
