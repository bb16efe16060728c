//! Lays an archive down in an empty folder of our own.
//!
//! Trusts nothing in it: no path leads out of the folder or through a link, and every entry and byte is compared with
//! the manifest. Permissions and owners come later, when all is there.

use std::{
    collections::HashSet,
    ffi::OsStr,
    fs::{self, DirBuilder, File},
    io::{self, Read, Write},
    os::unix::{
        ffi::OsStrExt,
        fs::{DirBuilderExt, OpenOptionsExt, symlink},
    },
    path::Path,
    time::{Duration, SystemTime},
};

use serde::de::DeserializeOwned;
use sha2::{Digest as _, Sha256};
use tar::EntryType;

use super::{
    BackupError, Progress,
    archive::{self, Entry, FORMAT, HEAD, HIVE, Head, Kind, MANIFEST, Manifest, text},
    pack::named,
};
use crate::{db, ids::Digest};

/// The largest manifest: a million entries.
const MAX_DOCUMENT: u64 = 512 << 20;

/// Lays an archive down.
pub(super) struct Unpack<'a> {
    file: &'a Path,
    root: &'a Path,
    progress: Progress,
    /// Folders and files that are there: nothing is laid through anything else.
    folders: HashSet<Vec<u8>>,
    files: HashSet<Vec<u8>>,
    entries: Vec<Entry>,
    last: String,
}

impl<'a> Unpack<'a> {
    pub(super) fn new(file: &'a Path, root: &'a Path, progress: Progress) -> Self {
        let folders = HashSet::from([Vec::new()]);
        let last = HEAD.to_owned();
        Self { file, root, progress, folders, files: HashSet::new(), entries: Vec::new(), last }
    }

    fn damaged(&self, what: impl std::fmt::Display) -> BackupError {
        BackupError::refused(
            format!("the backup {} is damaged or cut short: {what}", self.file.display()),
            "nothing was changed; use another copy of it",
        )
    }

    fn stranger(&self) -> BackupError {
        let message = format!("{} is no backup of skep, or damaged from its beginning", self.file.display());
        BackupError::refused(message, "name a file that `skep backup` made")
    }

    /// Lays everything down and compares it with the manifest.
    ///
    /// # Errors
    /// It is not whole, a newer program's, or cannot be written.
    pub(super) fn run(mut self, from: File) -> Result<Manifest, BackupError> {
        let mut archive = archive::reader(from)?;
        let entries = archive.entries()?;
        let mut head: Option<Head> = None;
        let mut manifest: Option<Manifest> = None;
        for entry in entries {
            let mut entry = entry.map_err(|e| match &head {
                Some(_) => self.damaged(format!("behind {}: {e}", self.last)),
                None => self.stranger(),
            })?;
            let full = entry.path_bytes().into_owned();
            self.last = text(&full);
            if manifest.is_some() {
                return Err(self.damaged(format!("{} stands behind the manifest", self.last)));
            }
            let inner = full.strip_prefix(HIVE.as_bytes()).and_then(|rest| rest.strip_prefix(b"/"));
            match (inner, &head) {
                (None, None) if full == HEAD.as_bytes() => head = Some(self.head(&mut entry)?),
                (None, Some(_)) if full == MANIFEST.as_bytes() => manifest = Some(self.document(&mut entry)?),
                (Some(path), Some(_)) => self.entry(path, &mut entry)?,
                (_, None) => return Err(self.stranger()),
                _ => return Err(self.damaged(format!("{} is no part of a backup", self.last))),
            }
        }
        if head.is_none() {
            return Err(self.stranger());
        }
        let manifest = manifest
            .ok_or_else(|| self.damaged(format!("it ends behind {}, without its manifest", self.last)))?;
        self.compare(&manifest, head.as_ref())?;
        Ok(manifest)
    }

    fn head(&self, entry: &mut impl Read) -> Result<Head, BackupError> {
        let value: serde_json::Value = self.document(entry)?;
        let newer = |what: String| BackupError::refused(what, "restore it with the newer skep that wrote it");
        let format = value["format"].as_u64().unwrap_or(0);
        if format > u64::from(FORMAT) {
            return Err(newer(format!("the backup has format {format}, and this skep knows up to {FORMAT}")));
        }
        let head: Head = serde_json::from_value(value).map_err(|e| self.damaged(format!("{HEAD}: {e}")))?;
        let newest = db::backup::newest();
        match head.schema.filter(|schema| *schema > newest) {
            Some(schema) => Err(newer(format!(
                "the backup's database has schema {schema}, and this skep knows up to {newest}"
            ))),
            None => Ok(head),
        }
    }

    fn document<T: DeserializeOwned>(&self, entry: &mut impl Read) -> Result<T, BackupError> {
        let mut bytes = Vec::new();
        entry
            .take(MAX_DOCUMENT)
            .read_to_end(&mut bytes)
            .map_err(|e| self.damaged(format!("{}: {e}", self.last)))?;
        serde_json::from_slice(&bytes).map_err(|e| self.damaged(format!("{}: {e}", self.last)))
    }

    /// Lays one entry down.
    fn entry<R: Read>(&mut self, path: &[u8], entry: &mut tar::Entry<'_, R>) -> Result<(), BackupError> {
        let shown = text(path);
        if !is_plain(path) || self.folders.contains(path) || self.files.contains(path) {
            return Err(self.damaged(format!("{shown} is no path of a hive, or is there twice")));
        }
        let above = path.iter().rposition(|b| *b == b'/').map_or(&[][..], |slash| &path[..slash]);
        if !self.folders.contains(above) {
            return Err(self.damaged(format!("{shown} is in a folder that is not in the backup")));
        }
        let at = self.root.join(Path::new(OsStr::from_bytes(path)));
        let header = entry.header();
        let number = |value: io::Result<u64>| value.ok().and_then(|n| u32::try_from(n).ok());
        let (Ok(mode), Some(uid), Some(gid), Ok(mtime)) =
            (header.mode(), number(header.uid()), number(header.gid()), header.mtime())
        else {
            return Err(self.damaged(format!("{shown} has a header that cannot be read")));
        };
        let target = entry.link_name_bytes().map(std::borrow::Cow::into_owned).unwrap_or_default();
        let kind = match entry.header().entry_type() {
            EntryType::Directory => {
                DirBuilder::new().mode(0o700).create(&at).map_err(|e| named(&at, e))?;
                self.folders.insert(path.to_vec());
                Kind::Folder
            }
            EntryType::Regular => {
                self.files.insert(path.to_vec());
                self.file(&at, &shown, mtime, entry)?
            }
            EntryType::Symlink => {
                symlink(OsStr::from_bytes(&target), &at).map_err(|e| named(&at, e))?;
                Kind::Link { target: text(&target) }
            }
            EntryType::Link => self.hard_link(&at, &shown, &target)?,
            _ => return Err(self.damaged(format!("{shown} is neither file, folder nor link"))),
        };
        let size = if let Kind::File { size, .. } = kind { size } else { 0 };
        (self.progress)(&shown, size)?;
        self.entries.push(Entry { path: shown, mode: mode & 0o1777, uid, gid, kind });
        Ok(())
    }

    fn file(&self, at: &Path, shown: &str, mtime: u64, entry: &mut impl Read) -> Result<Kind, BackupError> {
        let mut to =
            File::options().write(true).create_new(true).mode(0o600).open(at).map_err(|e| named(at, e))?;
        let (mut hash, mut size) = (Sha256::new(), 0);
        let mut buffer = vec![0; 128 << 10];
        loop {
            let bytes = match entry.read(&mut buffer) {
                Ok(0) => break,
                Ok(n) => &buffer[..n],
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(e) => return Err(self.damaged(format!("{shown}: {e}"))),
            };
            hash.update(bytes);
            size += bytes.len() as u64;
            to.write_all(bytes).map_err(|e| named(at, e))?;
        }
        let modified = SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(mtime));
        if let Some(modified) = modified {
            // A time that the file system cannot hold is not worth a failure.
            to.set_modified(modified).unwrap_or_default();
        }
        Ok(Kind::File { size, sha256: Digest(hash.finalize().into()) })
    }

    fn hard_link(&self, at: &Path, shown: &str, target: &[u8]) -> Result<Kind, BackupError> {
        let inner = target.strip_prefix(HIVE.as_bytes()).and_then(|rest| rest.strip_prefix(b"/"));
        match inner.filter(|inner| self.files.contains(*inner)) {
            Some(inner) => {
                let first = self.root.join(Path::new(OsStr::from_bytes(inner)));
                fs::hard_link(first, at).map_err(|e| named(at, e))?;
                Ok(Kind::HardLink { target: text(inner) })
            }
            None => Err(self.damaged(format!("{shown} is a name of a file that is not in the backup"))),
        }
    }

    /// Whether what was read is what was written.
    fn compare(&self, manifest: &Manifest, head: Option<&Head>) -> Result<(), BackupError> {
        if head != Some(&manifest.head) {
            return Err(self.damaged(format!("{HEAD} and {MANIFEST} do not agree")));
        }
        let mut read = self.entries.iter();
        for listed in &manifest.entries {
            match read.next() {
                Some(entry) if entry == listed => {}
                Some(entry) if entry.path == listed.path => {
                    return Err(self.damaged(format!("{} is not as it was backed up", entry.path)));
                }
                _ => return Err(self.damaged(format!("{} is missing", listed.path))),
            }
        }
        match read.next() {
            Some(more) => Err(self.damaged(format!("{} is not in its manifest", more.path))),
            None => Ok(()),
        }
    }
}

/// Whether a path stays where it is laid.
fn is_plain(path: &[u8]) -> bool {
    !path.contains(&0) && path.split(|b| *b == b'/').all(|part| !matches!(part, b"" | b"." | b".."))
}
