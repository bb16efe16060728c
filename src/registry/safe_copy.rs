//! Takes a skill out of a folder that may be hostile: reads it once, checked, into a copy.
//!
//! Every name is opened beneath the folder with `openat2`, looked at through an `O_PATH` descriptor
//! and only then opened for reading, through that same descriptor: nothing that is swapped in
//! meanwhile is ever followed, and no FIFO or device is ever opened. Never trusts a second look.

use std::{
    fs::File,
    io,
    os::{fd::OwnedFd, unix::ffi::OsStrExt},
    path::Path,
};

use rustix::{
    fs::{CWD, Dir, Mode, OFlags, ResolveFlags, openat2},
    io::Errno,
};

pub use super::rejection::CopyError;
use super::{
    beneath::{beneath, look, refusal, reopen, strict},
    intake::{Stopped, Taken, state, take},
    names::{check_name, check_path, escape},
    staging::{Laying, Staged},
};
use crate::{
    config::model::SkillLimits,
    error::Fault,
    skill::{
        digest::excluded,
        source::{MANIFEST, SKILL_MD, Source},
    },
};

/// Faults that one answer names; further ones are counted.
const MAX_FAULTS: usize = 50;

/// Who can write the folder while it is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// The operator: links to files inside the folder and hard links are fine.
    Operator,
    /// An agent: no links of either kind.
    Agent,
    /// The store itself: hard links are how views are laid, and what is never stored is a fault.
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
pub fn fingerprint(base: &Path, inner: &Path, policy: &Policy) -> Result<Source, CopyError> {
    Walk::run(base, inner, policy, None)
}

/// Copies the folder `inner` below `base` into a new folder inside `staging`.
///
/// # Errors
/// Every rule that it breaks, or the failure of our own side.
pub fn copy(base: &Path, inner: &Path, policy: &Policy, staging: &Path) -> Result<Staged, CopyError> {
    let failed = |e| CopyError::io(format!("cannot lay a copy in {}", staging.display()), e);
    let mut laying = Laying::create(staging).map_err(failed)?;
    let source = Walk::run(base, inner, policy, Some(&mut laying))?;
    laying.seal(source).map_err(failed)
}

/// One pass over one folder.
struct Walk<'a> {
    root: OwnedFd,
    policy: &'a Policy,
    copy: Option<&'a mut Laying>,
    source: Source,
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
    ) -> Result<Source, CopyError> {
        let shown = escape(base.join(inner).as_os_str().as_bytes());
        let shown = shown.strip_suffix("/.").unwrap_or(&shown).to_owned();
        let root = open_root(base, inner, policy.origin, &shown)?;
        let mut walk = Walk {
            root,
            policy,
            copy,
            source: Source { folder: folder_name(base, inner), ..Source::default() },
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
            return Ok(walk.source);
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
        let names = match self.names(path) {
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
            let checked = check_name(&name).and_then(|name| {
                let full = join(path, name);
                check_path(&full).map(|()| full)
            });
            match checked {
                Ok(full) => self.entry(&full, depth)?,
                Err(rule) => {
                    self.fault(
                        &[path.as_bytes(), b"/", &name].concat()[usize::from(path.is_empty())..],
                        rule,
                    );
                }
            }
        }
        Ok(())
    }

    /// The names in a folder, sorted; stops at the cap, whatever the folder holds.
    fn names(&mut self, path: &str) -> Result<Vec<Vec<u8>>, Errno> {
        let looked_at = self.open(path, OFlags::DIRECTORY)?;
        let mut dir = Dir::new(reopen(&looked_at, OFlags::DIRECTORY)?)?;
        let known = self.files + self.folders;
        let cap = self.policy.limits.files.saturating_mul(2).saturating_sub(known);
        let mut names = Vec::new();
        while let Some(entry) = dir.read() {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if matches!(name, b"." | b"..") || self.left_out(path, name) {
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

    /// Whether a name is no part of the skill, so that it is not even looked at.
    fn left_out(&self, path: &str, name: &[u8]) -> bool {
        self.policy.origin != Origin::Store
            && std::str::from_utf8(name).is_ok_and(|name| excluded(&join(path, name)))
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
        let found = self.open(path, OFlags::empty()).and_then(|file| look(&file).map(|m| (file, m)));
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
        let found = beneath(&self.root, path, OFlags::PATH | OFlags::CLOEXEC, resolve).and_then(|fd| {
            let file = File::from(fd);
            look(&file).map(|m| (file, m))
        });
        match found {
            Ok((_, meta)) if meta.is_dir() => {
                self.fault(path.as_bytes(), "is a link to a folder; put the folder itself there");
                Ok(())
            }
            Ok((file, meta)) => self.file(path, &file, &meta),
            Err(Errno::XDEV) => {
                self.fault(path.as_bytes(), "is a link that leads out of the skill's folder");
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

    fn file(&mut self, path: &str, looked_at: &File, meta: &std::fs::Metadata) -> Result<(), CopyError> {
        let origin = self.policy.origin;
        let out_of_place =
            (origin == Origin::Store && excluded(path)).then_some("does not belong into the store");
        if let Some(refusal) = out_of_place.or_else(|| refusal(meta, origin)) {
            self.fault(path.as_bytes(), refusal);
            return Ok(());
        }
        let limits = self.policy.limits;
        self.files += 1;
        if self.files > limits.files {
            self.too_many("");
            return Ok(());
        }
        let (max, key) = if matches!(path, MANIFEST | SKILL_MD) {
            (limits.manifest.min(limits.file), "registry.limits.manifest")
        } else {
            (limits.file, "registry.limits.file")
        };
        if meta.len() > max {
            let size = meta.len();
            self.fault(path.as_bytes(), format!("has {size} bytes; {max} are allowed ({key})"));
            return Ok(());
        }
        if !self.faults.is_empty() {
            // The copy is lost: only what is wrong besides still matters.
            self.count(meta.len());
            return Ok(());
        }
        self.read(path, looked_at, meta, max)
    }

    /// Reads a file that may be taken, as far as the limits go.
    fn read(
        &mut self,
        path: &str,
        looked_at: &File,
        before: &std::fs::Metadata,
        max: u64,
    ) -> Result<(), CopyError> {
        let left = self.policy.limits.total.saturating_sub(self.total);
        let from = match reopen(looked_at, OFlags::empty()) {
            Ok(fd) => File::from(fd),
            Err(e) => return self.open_failed(path, e),
        };
        let to = self.copy.as_mut().map(|copy| copy.file(path)).transpose();
        let taken = to.map_err(Stopped::Ours).and_then(|to| {
            let keep = matches!(path, MANIFEST | SKILL_MD);
            take(from, to, keep, max.min(left))
        });
        let Taken { file, after, content } = match taken {
            Ok(taken) => taken,
            Err(Stopped::Ours(e)) => {
                return Err(CopyError::io(format!("cannot lay a copy of {path}"), e));
            }
            Err(Stopped::Theirs(e)) => {
                self.fault(path.as_bytes(), format!("cannot be read: {e}"));
                return Ok(());
            }
        };
        let changed = file.size != before.len() || state(before) != state(&after);
        if changed && file.size <= left {
            self.changed(path, "changed");
        }
        self.count(file.size);
        match path {
            MANIFEST => self.source.manifest = content,
            SKILL_MD => self.source.skill_md = content,
            _ => {}
        }
        self.source.files.insert(path.to_owned(), file);
        Ok(())
    }

    fn count(&mut self, bytes: u64) {
        self.total = self.total.saturating_add(bytes);
        let max = self.policy.limits.total;
        if self.total > max && !self.full {
            self.full = true;
            self.fault(b".", format!("the skill has more than {max} bytes (registry.limits.total)"));
        }
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
                return Err(CopyError::io(format!("cannot open {}", escape(shown.as_bytes())), error.into()));
            }
            e => self.fault(shown.as_bytes(), format!("cannot be opened: {}", io::Error::from(e))),
        }
        Ok(())
    }
}

fn open_root(base: &Path, inner: &Path, origin: Origin, shown: &str) -> Result<OwnedFd, CopyError> {
    let folder = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let open_base = rustix::fs::openat(CWD, base, folder, Mode::empty());
    let opened = open_base.and_then(|base| {
        let inner = inner.as_os_str();
        openat2(base, inner, folder | OFlags::NOFOLLOW, Mode::empty(), strict(origin))
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

/// A name below a folder of the skill; the top's path is empty.
fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}/{name}") }
}

/// The skill folder's own name.
fn folder_name(base: &Path, inner: &Path) -> Option<String> {
    let folder = inner.file_name().or_else(|| base.file_name())?;
    folder.to_str().map(str::to_owned)
}

#[cfg(test)]
mod tests;
