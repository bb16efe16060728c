//! Takes a skill out of a folder that may be hostile: reads it once, checked, into a copy.
//!
//! Every name is opened beneath the folder with `openat2`, looked at through an `O_PATH` descriptor
//! and only then opened for reading, through that same descriptor: nothing that is swapped in
//! meanwhile is ever followed, and no FIFO or device is ever opened. Never trusts a second look.

use std::{
    fs::File,
    io::{self, Read, Write},
    os::{
        fd::OwnedFd,
        unix::{ffi::OsStrExt, fs::MetadataExt},
    },
    path::Path,
};

use rustix::{
    fs::{CWD, Dir, Mode, OFlags, ResolveFlags, openat2},
    io::Errno,
};
use sha2::{Digest as _, Sha256};

pub use super::rejection::CopyError;
use super::{
    beneath::{beneath, look, refusal, reopen, strict},
    listing::{FileInfo, Listing},
    names::{check_name, check_path, escape, is_left_out},
    staging::{Laying, Staged},
};
use crate::{config::model::SkillLimits, error::Fault};

/// Faults that one answer names; further ones are counted.
const MAX_FAULTS: usize = 50;

/// Who can write the folder while it is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// The operator: links to files inside the folder and hard links are fine.
    Operator,
    /// An agent: no links of either kind.
    Agent,
    /// The store itself: hard links are how views are laid, and nothing is left out.
    Store,
}

/// How a folder is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    /// Who can write it.
    pub origin: Origin,
    /// How much it may hold.
    pub limits: SkillLimits,
}

/// Reads the folder `inner` below `base` without keeping its bytes. `base` is opened as it is named
/// and must be ours; `inner` is never followed out of it (`.` for `base` itself).
///
/// # Errors
/// As for [`copy`].
pub fn fingerprint(base: &Path, inner: &Path, policy: &Policy) -> Result<Listing, CopyError> {
    Walk::run(base, inner, policy, None)
}

/// Copies the folder `inner` below `base` into a new folder inside `staging`.
///
/// # Errors
/// Every rule that it breaks, or the failure of our own side.
pub fn copy(
    base: &Path,
    inner: &Path,
    policy: &Policy,
    staging: &Path,
) -> Result<Staged, CopyError> {
    let failed = |e| CopyError::io(format!("cannot lay a copy in {}", staging.display()), e);
    let mut laying = Laying::create(staging).map_err(failed)?;
    let listing = Walk::run(base, inner, policy, Some(&mut laying))?;
    laying.seal(listing).map_err(failed)
}

/// One pass over one folder.
struct Walk<'a> {
    root: OwnedFd,
    policy: &'a Policy,
    copy: Option<&'a mut Laying>,
    listing: Listing,
    files: u64,
    folders: u64,
    total: u64,
    faults: Vec<Fault>,
    more: usize,
    changing: bool,
    /// A cap was met: looking further would only cost.
    full: bool,
}

impl<'a> Walk<'a> {
    fn run(
        base: &Path,
        inner: &Path,
        policy: &'a Policy,
        copy: Option<&'a mut Laying>,
    ) -> Result<Listing, CopyError> {
        let shown = escape(base.join(inner).as_os_str().as_bytes());
        let shown = shown.strip_suffix("/.").unwrap_or(&shown).to_owned();
        let root = open_root(base, inner, policy.origin, &shown)?;
        let mut walk = Walk {
            root,
            policy,
            copy,
            listing: Listing::default(),
            files: 0,
            folders: 0,
            total: 0,
            faults: Vec::new(),
            more: 0,
            changing: false,
            full: false,
        };
        walk.folder("", 0)?;
        if walk.faults.is_empty() {
            return Ok(walk.listing);
        }
        Err(CopyError::Rejected {
            folder: shown,
            faults: walk.faults,
            more: walk.more,
            changing: walk.changing,
        })
    }

    fn fault(&mut self, path: &[u8], message: impl Into<String>) {
        if self.faults.len() < MAX_FAULTS {
            self.faults.push(Fault::new(escape(path), message));
        } else {
            self.more += 1;
        }
    }

    /// A fault that the folder's author may cause by working in it just now.
    fn changed(&mut self, path: &str, message: &str) {
        self.changing = true;
        self.fault(
            path.as_bytes(),
            format!("{message} while it was read; try again when nothing writes to it"),
        );
    }

    /// One folder, and through it all that is below. `path` is empty for the top.
    fn folder(&mut self, path: &str, depth: usize) -> Result<(), CopyError> {
        let names = match self.names(path, depth == 0) {
            Ok(names) => names,
            Err(e) => {
                self.open_failed(path, e)?;
                return Ok(());
            }
        };
        for name in names {
            if self.full {
                break;
            }
            let full = [
                path.as_bytes(),
                if path.is_empty() { b"" } else { b"/" },
                &name,
            ]
            .concat();
            let checked = check_name(&name).and_then(|name| {
                let full = if path.is_empty() {
                    name.to_owned()
                } else {
                    format!("{path}/{name}")
                };
                check_path(&full).map(|()| full)
            });
            match checked {
                Ok(full) => self.entry(&full, depth)?,
                Err(rule) => self.fault(&full, rule),
            }
        }
        Ok(())
    }

    /// The names in a folder, sorted; stops at the cap, whatever the folder holds.
    fn names(&mut self, path: &str, on_top: bool) -> Result<Vec<Vec<u8>>, Errno> {
        let looked_at = self.open(path, OFlags::DIRECTORY)?;
        let mut dir = Dir::new(reopen(&looked_at, OFlags::DIRECTORY)?)?;
        let known = self.files + self.folders;
        let cap = self
            .policy
            .limits
            .files
            .saturating_mul(2)
            .saturating_sub(known);
        let mut names = Vec::new();
        while let Some(entry) = dir.read() {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if matches!(name, b"." | b"..") || self.left_out(name, on_top) {
                continue;
            }
            if names.len() as u64 >= cap {
                self.too_many(path);
                break;
            }
            names.push(name.to_vec());
        }
        names.sort_unstable();
        Ok(names)
    }

    fn left_out(&self, name: &[u8], on_top: bool) -> bool {
        self.policy.origin != Origin::Store && is_left_out(name, on_top)
    }

    fn too_many(&mut self, path: &str) {
        let files = self.policy.limits.files;
        let path = if path.is_empty() { "." } else { path };
        self.full = true;
        self.fault(
            path.as_bytes(),
            format!("the skill holds more than {files} files or folders (registry.limits.files)"),
        );
    }

    /// Opens a name beneath the root only to look at it.
    fn open(&self, path: &str, flags: OFlags) -> Result<File, Errno> {
        let path = if path.is_empty() { "." } else { path };
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC | flags;
        beneath(&self.root, path, flags, strict(self.policy.origin)).map(File::from)
    }

    fn entry(&mut self, path: &str, depth: usize) -> Result<(), CopyError> {
        let found = self
            .open(path, OFlags::empty())
            .and_then(|file| look(&file).map(|m| (file, m)));
        let (file, meta) = match found {
            Ok(found) => found,
            Err(e) => return self.open_failed(path, e),
        };
        let kind = meta.file_type();
        if kind.is_dir() {
            self.folders += 1;
            if self.folders > self.policy.limits.files {
                self.too_many(path);
                return Ok(());
            }
            return self.folder(path, depth + 1);
        }
        if kind.is_symlink() {
            return self.link(path);
        }
        self.file(path, &file, &meta)
    }

    /// A symbolic link: the operator's may lead to a file of the same folder; it is copied as that file.
    fn link(&mut self, path: &str) -> Result<(), CopyError> {
        if self.policy.origin != Origin::Operator {
            self.fault(path.as_bytes(), "is a link; put the file itself there");
            return Ok(());
        }
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        let found =
            beneath(&self.root, path, OFlags::PATH | OFlags::CLOEXEC, resolve).and_then(|fd| {
                let file = File::from(fd);
                look(&file).map(|m| (file, m))
            });
        match found {
            Ok((_, meta)) if meta.is_dir() => {
                self.fault(
                    path.as_bytes(),
                    "is a link to a folder; put the folder itself there",
                );
                Ok(())
            }
            Ok((file, meta)) => self.file(path, &file, &meta),
            Err(Errno::XDEV) => {
                self.fault(
                    path.as_bytes(),
                    "is a link that leads out of the skill's folder",
                );
                Ok(())
            }
            Err(Errno::LOOP) => {
                self.fault(path.as_bytes(), "is a link that leads to itself");
                Ok(())
            }
            Err(Errno::NOENT) => {
                self.fault(path.as_bytes(), "is a link to nothing");
                Ok(())
            }
            Err(e) => self.open_failed(path, e),
        }
    }

    fn file(
        &mut self,
        path: &str,
        looked_at: &File,
        meta: &std::fs::Metadata,
    ) -> Result<(), CopyError> {
        if let Some(refusal) = refusal(meta, self.policy.origin) {
            self.fault(path.as_bytes(), refusal);
            return Ok(());
        }
        let limits = self.policy.limits;
        self.files += 1;
        if self.files > limits.files {
            self.too_many("");
            return Ok(());
        }
        let own = if matches!(path, "manifest.json" | "SKILL.md") {
            (limits.manifest.min(limits.file), "registry.limits.manifest")
        } else {
            (limits.file, "registry.limits.file")
        };
        if meta.len() > own.0 {
            let (max, key) = own;
            self.fault(
                path.as_bytes(),
                format!("has {} bytes; {max} are allowed ({key})", meta.len()),
            );
            return Ok(());
        }
        let left = limits.total.saturating_sub(self.total);
        if !self.faults.is_empty() {
            // The copy is lost: only what is wrong besides still matters.
            self.count(meta.len());
            return Ok(());
        }
        let read = match reopen(looked_at, OFlags::empty()) {
            Ok(fd) => self.take(path, File::from(fd), own.0.min(left)),
            Err(e) => return self.open_failed(path, e),
        };
        let (file, after) = match read {
            Ok(read) => read,
            Err(Stopped::Ours(e)) => {
                return Err(CopyError::io(format!("cannot lay a copy of {path}"), e));
            }
            Err(Stopped::Theirs(e)) => {
                self.fault(path.as_bytes(), format!("cannot be read: {e}"));
                return Ok(());
            }
        };
        if (file.size != meta.len() || state(meta) != state(&after)) && file.size <= left {
            self.changed(path, "changed");
        }
        self.count(file.size);
        self.listing.files.insert(path.to_owned(), file);
        Ok(())
    }

    fn count(&mut self, bytes: u64) {
        self.total = self.total.saturating_add(bytes);
        let max = self.policy.limits.total;
        if self.total > max && !self.full {
            self.full = true;
            self.fault(
                b".",
                format!("the skill has more than {max} bytes (registry.limits.total)"),
            );
        }
    }

    /// Reads at most one byte more than `max`, into the copy if one is made.
    fn take(
        &mut self,
        path: &str,
        mut from: File,
        max: u64,
    ) -> Result<(FileInfo, std::fs::Metadata), Stopped> {
        let mut to = match &mut self.copy {
            Some(copy) => Some(copy.file(path).map_err(Stopped::Ours)?),
            None => None,
        };
        let mut hash = Sha256::new();
        let mut size = 0;
        let mut buffer = [0; 16 << 10];
        let mut limited = (&mut from).take(max.saturating_add(1));
        loop {
            let n = match limited.read(&mut buffer) {
                Ok(0) => break,
                Ok(n) => n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(e) => return Err(Stopped::Theirs(e)),
            };
            hash.update(&buffer[..n]);
            size += n as u64;
            if let Some(to) = &mut to {
                to.write_all(&buffer[..n]).map_err(Stopped::Ours)?;
            }
        }
        let after = from.metadata().map_err(Stopped::Theirs)?;
        let executable = after.mode() & 0o111 != 0;
        let file = FileInfo {
            size,
            executable,
            sha256: hash.finalize().into(),
        };
        Ok((file, after))
    }

    /// What a name that would not open means: mostly the author's doing, rarely ours.
    fn open_failed(&mut self, path: &str, error: Errno) -> Result<(), CopyError> {
        let shown = if path.is_empty() { "." } else { path };
        match error {
            Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::AGAIN => {
                self.changed(shown, "was moved or replaced");
            }
            Errno::XDEV => self.fault(shown.as_bytes(), "leads out of the skill's folder"),
            Errno::MFILE | Errno::NFILE | Errno::NOMEM => {
                return Err(CopyError::io(
                    format!("cannot open {}", escape(shown.as_bytes())),
                    error.into(),
                ));
            }
            e => self.fault(
                shown.as_bytes(),
                format!("cannot be opened: {}", io::Error::from(e)),
            ),
        }
        Ok(())
    }
}

enum Stopped {
    Ours(io::Error),
    Theirs(io::Error),
}

/// What must stay the same while a file is read.
fn state(m: &std::fs::Metadata) -> (u64, i64, i64, i64, i64) {
    (
        m.len(),
        m.mtime(),
        m.mtime_nsec(),
        m.ctime(),
        m.ctime_nsec(),
    )
}

fn open_root(base: &Path, inner: &Path, origin: Origin, shown: &str) -> Result<OwnedFd, CopyError> {
    let folder = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let open_base = rustix::fs::openat(CWD, base, folder, Mode::empty());
    let opened = open_base.and_then(|base| {
        let inner = inner.as_os_str();
        openat2(
            base,
            inner,
            folder | OFlags::NOFOLLOW,
            Mode::empty(),
            strict(origin),
        )
    });
    opened.map_err(|e| match e {
        Errno::NOSYS => CopyError::NoOpenat2,
        Errno::NOENT => CopyError::Missing(shown.to_owned()),
        Errno::NOTDIR | Errno::LOOP | Errno::XDEV => CopyError::Rejected {
            folder: shown.to_owned(),
            faults: vec![Fault::new(
                ".",
                "is not a folder but a link or a file; put the folder itself there",
            )],
            more: 0,
            changing: false,
        },
        e => CopyError::io(format!("cannot open {shown}"), e.into()),
    })
}

#[cfg(test)]
mod tests;
