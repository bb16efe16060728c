//! A hive made of a backup: laid beside its place, verified whole, and only then moved there in one step.
//!
//! Trusts nothing in the archive: no path leads out of the new folder or through a link, and every byte is compared
//! with the manifest.

use std::{
    collections::HashSet,
    fs::{self, DirBuilder, File},
    io::{self, Read, Write},
    os::unix::{
        ffi::{OsStrExt, OsStringExt},
        fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt, lchown, symlink},
    },
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use jiff::Timestamp;
use rustix::fs::{CWD, RenameFlags, renameat_with, syncfs};
use serde::{Serialize, de::DeserializeOwned};
use sha2::{Digest as _, Sha256};
use tar::EntryType;

use super::{
    BackupError, Progress, amount,
    archive::{self, Entry, FORMAT, HEAD, HIVE, Head, Kind, MANIFEST, Manifest, Note, text},
    pack::named,
};
use crate::{
    db::{
        self,
        lock::{self, HiveLock, Holder},
    },
    ids::Digest,
    paths::HivePaths,
    registry::{staging::remove_tree, store::Store},
};

/// The largest manifest: a million entries.
const MAX_DOCUMENT: u64 = 512 << 20;

/// What is restored, and where.
pub struct RestoreRequest {
    /// The backup.
    pub file: PathBuf,
    /// The new hive's folder.
    pub dir: PathBuf,
    /// In place of what is in that folder.
    pub force: bool,
    /// Only look whether the backup is whole.
    pub check: bool,
}

/// A hive that was restored, or a backup that was found whole.
#[derive(Debug, Serialize)]
pub struct Restored {
    /// Where the hive is; none when the backup was only checked.
    pub dir: Option<PathBuf>,
    /// Whose backup it is.
    #[serde(flatten)]
    pub head: Head,
    /// Files in it.
    pub files: usize,
    /// Their bytes.
    pub bytes: u64,
    /// Names of secrets that were set and are not in it.
    pub missing_secrets: Vec<String>,
    /// What was not backed up, and why.
    pub left_out: Vec<Note>,
    /// Where that is now which was in the folder before.
    pub replaced: Option<PathBuf>,
}

/// Restores a backup, or checks it.
///
/// # Errors
/// The backup is not whole or a newer program's; the folder is not free, or its hive runs. Nothing was changed then.
pub fn restore(request: &RestoreRequest, progress: Progress) -> Result<Restored, BackupError> {
    let dir = std::path::absolute(&request.dir)?;
    let dir = dir.canonicalize().unwrap_or(dir);
    let file = File::open(&request.file).map_err(|e| named(&request.file, e))?;
    let beside = if request.check { request.file.parent() } else { dir.parent() };
    let beside = beside.filter(|folder| *folder != Path::new("")).unwrap_or(Path::new("."));
    if !request.check {
        must_be_free(&dir, request.force)?;
        fs::create_dir_all(beside).map_err(|e| named(beside, e))?;
    }
    let staged = Staged::new(beside)?;
    let unpacked = Unpack::new(&request.file, &staged.hive(), progress).run(file)?;
    finish(&staged.hive(), &unpacked)?;
    verify(&staged.hive(), &unpacked, &request.file)?;
    let replaced = if request.check { None } else { put_in_place(&staged, &dir)? };
    let (files, bytes) = amount(&unpacked);
    let Manifest { head, secrets, left_out, .. } = unpacked;
    Ok(Restored {
        dir: (!request.check).then_some(dir),
        missing_secrets: if head.with_secrets { Vec::new() } else { secrets },
        head,
        files,
        bytes,
        left_out,
        replaced,
    })
}

/// A folder of our own beside the place; removed when dropped.
struct Staged(PathBuf);

impl Staged {
    fn new(beside: &Path) -> io::Result<Self> {
        let folder = tempfile::Builder::new().prefix(".skep-restore-").tempdir_in(beside);
        let staged = Self(folder.map_err(|e| named(beside, e))?.keep());
        DirBuilder::new().mode(0o755).create(staged.hive())?;
        Ok(staged)
    }

    fn hive(&self) -> PathBuf {
        self.0.join(HIVE)
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        if let Err(error) = remove_tree(&self.0) {
            tracing::warn!(path = %self.0.display(), %error, "a staging folder could not be removed");
        }
    }
}

fn must_be_free(dir: &Path, force: bool) -> Result<(), BackupError> {
    if !dir.exists() {
        return Ok(());
    }
    let holder = lock::holder(&HivePaths::new(dir.to_owned()).state().join("supervisor.lock"));
    if let Some(holder) = holder.map_err(|e| named(dir, e))? {
        let message = format!("the hive in {} runs (process {})", dir.display(), holder.pid);
        return Err(BackupError::refused(message, "stop it with `skep down` first"));
    }
    if !force && !is_empty(dir)? {
        let message = format!("{} is not empty", dir.display());
        let help = "name a new folder, or add --force: what is there is then moved aside, not removed";
        return Err(BackupError::refused(message, help));
    }
    Ok(())
}

fn is_empty(dir: &Path) -> io::Result<bool> {
    Ok(fs::read_dir(dir).map_err(|e| named(dir, e))?.next().is_none())
}

/// Lays an archive down.
struct Unpack<'a> {
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
    fn new(file: &'a Path, root: &'a Path, progress: Progress) -> Self {
        let folders = HashSet::from([Vec::new()]);
        let last = "its beginning".to_owned();
        Self { file, root, progress, folders, files: HashSet::new(), entries: Vec::new(), last }
    }

    fn damaged(&self, what: impl std::fmt::Display) -> BackupError {
        BackupError::refused(
            format!("the backup {} is damaged or cut short: {what}", self.file.display()),
            "nothing was changed; use another copy of it",
        )
    }

    fn run(mut self, from: File) -> Result<Manifest, BackupError> {
        let mut archive = archive::reader(from)?;
        let entries = archive.entries()?;
        let mut head: Option<Head> = None;
        let mut manifest: Option<Manifest> = None;
        for entry in entries {
            let mut entry = entry.map_err(|e| self.damaged(format!("behind {}: {e}", self.last)))?;
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
                (_, None) => {
                    let message = format!("{} is no backup of skep", self.file.display());
                    return Err(BackupError::refused(message, "name a file that `skep backup` made"));
                }
                _ => return Err(self.damaged(format!("{} is no part of a backup", self.last))),
            }
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
        let at = self.root.join(Path::new(std::ffi::OsStr::from_bytes(path)));
        let header = entry.header();
        let number = |value: io::Result<u64>| value.ok().and_then(|n| u32::try_from(n).ok());
        let (Ok(mode), Some(uid), Some(gid), Ok(mtime)) =
            (header.mode(), number(header.uid()), number(header.gid()), header.mtime())
        else {
            return Err(self.damaged(format!("{shown} has a header that cannot be read")));
        };
        let target = entry.link_name_bytes().map(|target| target.into_owned()).unwrap_or_default();
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
                symlink(std::ffi::OsStr::from_bytes(&target), &at).map_err(|e| named(&at, e))?;
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
                let first = self.root.join(Path::new(std::ffi::OsStr::from_bytes(inner)));
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

/// Sets owners (where we may) and permissions, from below, and flushes everything.
fn finish(root: &Path, manifest: &Manifest) -> io::Result<()> {
    let is_root = rustix::process::geteuid().is_root();
    for entry in manifest.entries.iter().rev() {
        let at = root.join(bytes_of(&entry.path));
        if is_root {
            lchown(&at, Some(entry.uid), Some(entry.gid)).map_err(|e| named(&at, e))?;
        }
        if matches!(entry.kind, Kind::Folder | Kind::File { .. }) {
            fs::set_permissions(&at, fs::Permissions::from_mode(entry.mode)).map_err(|e| named(&at, e))?;
        }
    }
    Ok(syncfs(File::open(root)?)?)
}

/// A path as [`text`] wrote it, for the file system.
fn bytes_of(path: &str) -> PathBuf {
    let bytes = path.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let coded = path.get(at + 1..at + 3).and_then(|hex| u8::from_str_radix(hex, 16).ok());
        match coded.filter(|_| bytes[at] == b'%') {
            Some(byte) => {
                out.push(byte);
                at += 3;
            }
            None => {
                out.push(bytes[at]);
                at += 1;
            }
        }
    }
    std::ffi::OsString::from_vec(out).into()
}

/// The database whole, and every store entry what its name says.
fn verify(root: &Path, manifest: &Manifest, file: &Path) -> Result<(), BackupError> {
    if manifest.head.schema.is_none() {
        return Ok(());
    }
    let paths = HivePaths::new(root.to_owned());
    let content = db::backup::check(&paths.database())?;
    let store = Store::open(&paths.store())?;
    for digest in &content.digests {
        store.verify(digest).map_err(|e| {
            let message = format!("the backup {} holds a skill that is not whole: {e}", file.display());
            BackupError::refused(message, "nothing was changed; use another copy of it")
        })?;
    }
    Ok(())
}

/// Moves the new hive to its place; answers where that went which was there.
fn put_in_place(staged: &Staged, dir: &Path) -> Result<Option<PathBuf>, BackupError> {
    let (from, beside) = (staged.hive(), dir.parent().unwrap_or(Path::new("/")));
    let Ok(there) = fs::metadata(dir) else {
        fs::rename(&from, dir).map_err(|e| named(dir, e))?;
        File::open(beside)?.sync_all()?;
        return Ok(None);
    };
    fs::set_permissions(&from, fs::Permissions::from_mode(there.mode() & 0o1777))?;
    if rustix::process::geteuid().is_root() {
        lchown(&from, Some(there.uid()), Some(there.gid()))?;
    }
    // No supervisor may start in what is moved aside.
    let state = HivePaths::new(dir.to_owned()).state();
    let holder = Holder {
        pid: std::process::id(),
        started_at: Timestamp::now(),
        socket: "nowhere: it puts a backup in this hive's place".to_owned(),
    };
    let lock = state.is_dir().then(|| HiveLock::acquire(&state.join("supervisor.lock"), &holder)).transpose();
    let _lock = lock.map_err(|e| BackupError::refused(e.to_string(), "stop it with `skep down` first"))?;
    renameat_with(CWD, &from, CWD, dir, RenameFlags::EXCHANGE).map_err(|e| named(dir, e.into()))?;
    let replaced = if is_empty(&from)? {
        None
    } else {
        let aside = aside(dir);
        renameat_with(CWD, &from, CWD, &aside, RenameFlags::NOREPLACE)
            .map_err(|e| named(&aside, e.into()))?;
        Some(aside)
    };
    File::open(beside)?.sync_all()?;
    Ok(replaced)
}

/// A free name for what is moved aside.
fn aside(dir: &Path) -> PathBuf {
    let name = |n: u32| {
        let mut name = dir.as_os_str().to_owned();
        name.push(if n == 1 { ".before-restore".to_owned() } else { format!(".before-restore-{n}") });
        PathBuf::from(name)
    };
    (1..=u32::MAX).map(name).find(|path| fs::symlink_metadata(path).is_err()).unwrap_or_default()
}
