//! A folder of our own in which a skill is laid down before it may be looked at or stored.
//!
//! Nothing here reads what others can write. A staged copy that is not stored is removed.

use std::{
    collections::BTreeSet,
    fs::{self, DirBuilder, File, OpenOptions, Permissions},
    io,
    os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
};

use crate::{
    ids::Digest,
    skill::{digest::digest, source::Source},
};

/// A copy being laid down.
#[derive(Debug)]
pub(super) struct Laying {
    dir: TempFolder,
    folders: BTreeSet<PathBuf>,
}

impl Laying {
    /// A new, empty folder inside `parent`, closed to everybody else.
    pub(super) fn create(parent: &Path) -> io::Result<Self> {
        let mut random = [0; 12];
        getrandom::fill(&mut random).map_err(io::Error::other)?;
        let path = parent.join(hex::encode(random));
        DirBuilder::new().mode(0o700).create(&path)?;
        Ok(Self { dir: TempFolder { path: Some(path) }, folders: BTreeSet::new() })
    }

    /// A new file at a path that was checked (`names::check_path`), its folders made as needed.
    pub(super) fn file(&mut self, path: &str) -> io::Result<File> {
        let at = self.dir.path().join(path);
        if let Some(parent) = Path::new(path).parent().filter(|p| p.as_os_str() != "")
            && !self.folders.contains(parent)
        {
            DirBuilder::new().recursive(true).mode(0o700).create(self.dir.path().join(parent))?;
            let above = parent.ancestors().filter(|a| a.as_os_str() != "");
            self.folders.extend(above.map(Path::to_path_buf));
        }
        OpenOptions::new().write(true).create_new(true).mode(0o600).open(at)
    }

    /// Sets the final modes: files 0444 or 0555, inner folders 0555, the top 0755 until it is stored
    /// (a folder that its owner may not write cannot be moved).
    pub(super) fn seal(self, source: Source) -> io::Result<Staged> {
        for (path, file) in &source.files {
            let mode = if file.executable { 0o555 } else { 0o444 };
            fs::set_permissions(self.dir.path().join(path), Permissions::from_mode(mode))?;
        }
        for folder in &self.folders {
            let at = self.dir.path().join(folder);
            fs::set_permissions(at, Permissions::from_mode(0o555))?;
        }
        fs::set_permissions(self.dir.path(), Permissions::from_mode(0o755))?;
        let digest = digest(&source);
        Ok(Staged { dir: self.dir, folders: self.folders, source, digest })
    }
}

/// A skill's files in a folder that nobody else can write; removed when dropped.
#[derive(Debug)]
pub struct Staged {
    dir: TempFolder,
    folders: BTreeSet<PathBuf>,
    source: Source,
    digest: Digest,
}

impl Staged {
    /// Where the copy stands.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// What it holds, ready for `skill::load::read`.
    #[must_use]
    pub fn source(&self) -> &Source {
        &self.source
    }

    /// Digest of what it holds.
    #[must_use]
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// The content of one file of the listing; none when it holds no such path.
    ///
    /// # Errors
    /// The copy cannot be read.
    pub fn read(&self, path: &str) -> io::Result<Option<Vec<u8>>> {
        if !self.source.files.contains_key(path) {
            return Ok(None);
        }
        fs::read(self.path().join(path)).map(Some)
    }

    /// Writes every file and folder through to the disk.
    pub(super) fn sync(&self) -> io::Result<()> {
        for path in self.source.files.keys() {
            File::open(self.path().join(path))?.sync_all()?;
        }
        for folder in &self.folders {
            File::open(self.path().join(folder))?.sync_all()?;
        }
        File::open(self.path())?.sync_all()
    }

    /// Files and folders that `sync` would touch.
    pub(super) fn weight(&self) -> usize {
        self.source.files.len() + self.folders.len() + 1
    }

    /// The folder now belongs to somebody else: dropping this removes nothing.
    pub(super) fn handed_over(mut self) {
        self.dir.path = None;
    }
}

/// Removes a folder when dropped.
#[derive(Debug)]
struct TempFolder {
    path: Option<PathBuf>,
}

impl TempFolder {
    fn path(&self) -> &Path {
        self.path.as_deref().unwrap_or(Path::new("/nonexistent"))
    }
}

impl Drop for TempFolder {
    fn drop(&mut self) {
        if let Some(path) = &self.path
            && let Err(error) = remove_tree(path)
        {
            tracing::warn!(path = %path.display(), %error, "a staging folder could not be removed; the next start sweeps it");
        }
    }
}

/// Removes a folder of ours with all it holds, though its folders are not writable.
pub(crate) fn remove_tree(path: &Path) -> io::Result<()> {
    match fs::remove_dir_all(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(e) if e.kind() == io::ErrorKind::PermissionDenied => {
            open_up(path)?;
            fs::remove_dir_all(path)
        }
        other => other,
    }
}

fn open_up(folder: &Path) -> io::Result<()> {
    fs::set_permissions(folder, Permissions::from_mode(0o700))?;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            open_up(&entry.path())?;
        }
    }
    Ok(())
}
