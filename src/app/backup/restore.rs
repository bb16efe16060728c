//! A hive made of a backup: laid beside its place, verified whole, and only then moved there in one step.
//!
//! A folder that is not free is left alone; with `force`, what is in it is moved aside, never removed.

use std::{
    fs::{self, DirBuilder, File},
    io,
    os::unix::{
        ffi::OsStringExt,
        fs::{DirBuilderExt, MetadataExt, PermissionsExt, lchown},
    },
    path::{Path, PathBuf},
};

use jiff::Timestamp;
use rustix::fs::{CWD, RenameFlags, renameat_with, syncfs};
use serde::Serialize;

use super::{
    BackupError, Progress, amount,
    archive::{HIVE, Head, Kind, Manifest, Note},
    pack::named,
    unpack::Unpack,
};
use crate::{
    db::{
        self,
        lock::{self, HiveLock, Holder},
    },
    paths::HivePaths,
    registry::{staging::remove_tree, store::Store},
};

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
