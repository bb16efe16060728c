//! Takes files into an archive, each read once: bounded, hashed, and looked through for secrets before it is written.
//!
//! What cannot be taken as it should is told, never passed over in silence.

use std::{
    collections::{HashMap, HashSet},
    fs::{File, Metadata},
    io::{self, Read, Seek, Write},
    os::unix::{ffi::OsStrExt, fs::MetadataExt},
    path::{Path, PathBuf},
};

use sha2::{Digest as _, Sha256};
use tempfile::SpooledTempFile;

use super::{
    Progress,
    archive::{Note, Stat, Writer, text},
    walk::{self, Found, Next, join},
};
use crate::{ids::Digest, secrets::mask::Masker};

/// Bytes of one file that are held in memory before it is written.
const IN_MEMORY: usize = 4 << 20;
/// Files and folders of one tree.
const MAX_NAMES: usize = 1_000_000;
/// Where a link leads that stands for what is left out.
const LEFT_OUT: &[u8] = b"left-out-of-the-backup";
/// How often a file that changes is read again.
const TRIES: usize = 3;

/// Whose files they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Whose {
    /// The operator's or skep's: always taken. One that holds a secret's value is told.
    Ours,
    /// An agent's: one that holds a secret's value is left out.
    Agent,
    /// The skills that an agent writes: as its other files, but a link to nowhere stands for what is left out of a
    /// folder. One with a link is refused as one with a FIFO is: what is left of it must not become a version.
    Skills,
    /// Output that is written at its end all the time, masked before.
    Output,
}

/// A folder to be taken.
pub(super) struct Tree<'a> {
    /// Where it stands.
    pub top: &'a Path,
    /// Its path in the hive.
    pub path: &'a str,
    /// Whose files they are.
    pub whose: Whose,
    /// Bytes that are taken at most.
    pub most: u64,
    /// What of it is not taken, by the path in the hive.
    pub skip: &'a dyn Fn(&[u8]) -> bool,
}

/// An archive being filled.
pub(super) struct Pack<'a> {
    pub(super) writer: Writer<&'a File>,
    /// For files that do not fit in memory.
    scratch: PathBuf,
    masker: Masker,
    progress: Progress,
    /// Paths that are in it; of folders above a tree too.
    known: HashSet<Vec<u8>>,
    pub(super) left_out: Vec<Note>,
    pub(super) warnings: Vec<Note>,
}

/// One file as it was read.
struct Taken {
    content: SpooledTempFile,
    size: u64,
    sha256: Digest,
    holds_secret: bool,
    changed: bool,
    meta: Metadata,
}

impl<'a> Pack<'a> {
    pub(super) fn new(writer: Writer<&'a File>, scratch: &Path, masker: Masker, progress: Progress) -> Self {
        Self {
            writer,
            scratch: scratch.to_owned(),
            masker,
            progress,
            known: HashSet::new(),
            left_out: Vec::new(),
            warnings: Vec::new(),
        }
    }

    pub(super) fn leave_out(&mut self, path: &[u8], reason: impl Into<String>) {
        self.left_out.push(Note { path: text(path), reason: reason.into() });
    }

    fn warn(&mut self, path: &[u8], reason: &str) {
        self.warnings.push(Note { path: text(path), reason: reason.to_owned() });
    }

    /// Adds the folders above a path, as they are on the disk below `root`.
    pub(super) fn above(&mut self, root: &Path, path: &str) -> io::Result<()> {
        let folders = Path::new(path).ancestors().skip(1).filter(|folder| *folder != Path::new(""));
        let mut folders: Vec<&Path> = folders.collect();
        folders.reverse();
        for folder in folders {
            let bytes = folder.as_os_str().as_bytes();
            if self.known.insert(bytes.to_vec()) {
                self.writer.folder(bytes, Stat::of(&std::fs::metadata(root.join(folder))?))?;
            }
        }
        Ok(())
    }

    /// Adds one file of the operator's or of skep's, following it where it is a link. Answers whether it is there.
    pub(super) fn one(&mut self, at: &Path, path: &str) -> io::Result<bool> {
        let file = match File::open(at) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(false),
            other => other.map_err(|e| named(at, e))?,
        };
        if !file.metadata()?.is_file() {
            return Ok(false);
        }
        if self.known.insert(path.as_bytes().to_vec()) {
            let taken = self.take(&mut || File::open(at), u64::MAX).map_err(|e| named(at, e))?;
            self.put(path.as_bytes(), taken, Whose::Ours)?;
        }
        Ok(true)
    }

    /// Adds a file of these bytes, in place of one that holds more.
    pub(super) fn instead(&mut self, meta: &Metadata, path: &str, bytes: &[u8]) -> io::Result<()> {
        if !self.known.insert(path.as_bytes().to_vec()) {
            return Ok(());
        }
        let digest = Digest(Sha256::digest(bytes).into());
        self.writer.file(path.as_bytes(), Stat::of(meta), bytes.len() as u64, digest, bytes)
    }

    /// Adds a folder with all that is in it.
    pub(super) fn tree(&mut self, tree: &Tree<'_>) -> io::Result<()> {
        let mut left = tree.most;
        // First names of files with several.
        let mut first: HashMap<(u64, u64), Vec<u8>> = HashMap::new();
        walk::walk(tree.top, MAX_NAMES, &mut |inner, found| {
            let path = if inner.is_empty() { tree.path.into() } else { join(tree.path.as_bytes(), inner) };
            if (tree.skip)(&path) {
                return Ok(Next::Over);
            }
            if let Found::Refused(why) = found {
                self.leave_out(&path, why);
                self.stand_in(tree, &path)?;
                return Ok(Next::On);
            }
            if !path.is_empty() && !self.known.insert(path.clone()) {
                return Ok(if matches!(found, Found::Folder(_)) { Next::On } else { Next::Over });
            }
            match found {
                Found::Folder(_) if path.is_empty() => {}
                Found::Folder(meta) => self.writer.folder(&path, Stat::of(&meta))?,
                Found::Link(meta, target) => self.writer.link(&path, Stat::of(&meta), &target)?,
                Found::File(file, meta) => {
                    let id = (meta.dev(), meta.ino());
                    match first.get(&id) {
                        Some(target) => self.writer.hard_link(&path, Stat::of(&meta), target)?,
                        None if !self.file(&path, &file, &meta, tree.whose, &mut left)? => {
                            self.known.remove(&path);
                            self.stand_in(tree, &path)?;
                        }
                        None if meta.nlink() > 1 => {
                            first.insert(id, path);
                        }
                        None => {}
                    }
                }
                Found::Refused(_) => {}
            }
            Ok(Next::On)
        })
        .map_err(|e| named(tree.top, e))
    }

    /// Lays a link in place of what is left out of a skill's folder, or into it when the folder itself is there.
    fn stand_in(&mut self, tree: &Tree<'_>, path: &[u8]) -> io::Result<()> {
        let in_a_skill = path.strip_prefix(tree.path.as_bytes()).is_some_and(|inner| inner.len() > 1);
        if tree.whose != Whose::Skills || !in_a_skill {
            return Ok(());
        }
        let inside = join(path, LEFT_OUT);
        let at = if self.known.insert(path.to_vec()) { path } else { &inside };
        let stat = Stat::of(&std::fs::metadata(tree.top)?);
        self.known.insert(at.to_vec());
        self.writer.link(at, Stat { mode: 0o777, ..stat }, LEFT_OUT)
    }

    /// Adds a file that was looked at; answers whether it is in.
    fn file(
        &mut self,
        path: &[u8],
        file: &File,
        meta: &Metadata,
        whose: Whose,
        left: &mut u64,
    ) -> io::Result<bool> {
        if meta.len() > *left {
            let why = format!("it has {} bytes, and {left} more are taken of this folder", meta.len());
            self.leave_out(path, why);
            return Ok(false);
        }
        match self.take(&mut || walk::open(file), *left) {
            Ok(taken) if taken.size > *left => {
                self.leave_out(path, "it grew beyond what is taken of this folder while it was copied");
                Ok(false)
            }
            Ok(taken) => {
                *left -= taken.size;
                self.put(path, taken, whose)
            }
            Err(e) => {
                self.leave_out(path, format!("it cannot be read: {e}"));
                Ok(false)
            }
        }
    }

    fn put(&mut self, path: &[u8], mut taken: Taken, whose: Whose) -> io::Result<bool> {
        if taken.holds_secret && whose != Whose::Ours {
            self.leave_out(path, "it holds the value of a secret; --with-secrets keeps it");
            return Ok(false);
        }
        if taken.holds_secret {
            self.warn(path, "it holds the value of a secret: keep the backup as you keep secrets");
        }
        if taken.changed && whose != Whose::Output {
            self.warn(path, "it changed while it was copied; the copy may be torn");
        }
        (self.progress)(&text(path), taken.size)?;
        self.writer.file(path, Stat::of(&taken.meta), taken.size, taken.sha256, &mut taken.content)?;
        Ok(true)
    }

    /// Reads a file, at most one byte more than `most`; again when it changes meanwhile.
    fn take(&mut self, open: &mut dyn FnMut() -> io::Result<File>, most: u64) -> io::Result<Taken> {
        let mut tries = 1;
        loop {
            let taken = self.read(&open()?, most)?;
            if !taken.changed || tries == TRIES {
                return Ok(taken);
            }
            tries += 1;
        }
    }

    fn read(&self, file: &File, most: u64) -> io::Result<Taken> {
        let before = file.metadata()?;
        let mut content = tempfile::spooled_tempfile_in(IN_MEMORY, &self.scratch);
        let (mut hash, mut size, mut shown) = (Sha256::new(), 0, 0);
        let mut masked = self.masker.stream();
        let mut buffer = vec![0; 128 << 10];
        let mut from = file.take(most.saturating_add(1));
        loop {
            let bytes = match from.read(&mut buffer) {
                Ok(0) => break,
                Ok(n) => &buffer[..n],
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(e) => return Err(e),
            };
            hash.update(bytes);
            size += bytes.len() as u64;
            shown += masked.push(bytes).len() as u64;
            content.write_all(bytes)?;
        }
        shown += masked.finish().len() as u64;
        let meta = file.metadata()?;
        content.rewind()?;
        let state = |m: &Metadata| (m.len(), m.mtime(), m.mtime_nsec(), m.ctime(), m.ctime_nsec());
        Ok(Taken {
            content,
            size,
            sha256: Digest(hash.finalize().into()),
            // Every value is longer than its mask.
            holds_secret: shown != size,
            changed: state(&before) != state(&meta) || size != meta.len(),
            meta,
        })
    }
}

/// An error that names its file.
#[expect(clippy::needless_pass_by_value, reason = "`map_err` gives it")]
pub(super) fn named(path: &Path, e: io::Error) -> io::Error {
    io::Error::new(e.kind(), format!("{}: {e}", path.display()))
}
