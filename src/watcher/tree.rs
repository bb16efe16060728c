//! Looks at the names in a folder that an agent can write, without following one and without reading a file.
//!
//! Every folder is opened from the one above it by a single name, never through a link. What is found is only a hint:
//! nothing is decided on it.

use std::{
    collections::hash_map::DefaultHasher,
    ffi::OsStr,
    hash::{Hash, Hasher},
    io,
    os::{
        fd::{AsFd, OwnedFd},
        unix::ffi::OsStrExt,
    },
    path::Path,
};

use rustix::{
    fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, Stat, openat, statat},
    io::Errno,
};

use crate::registry::names::escape;
/// Where an agent reads what is wrong with its skill; ours, so its changes say nothing.
pub use crate::registry::notice::NAME as NOTICE;
/// Of git, only the folder itself is looked at: it tells when git is at work.
const GIT: &str = ".git";
/// Folders within folders.
const MAX_DEPTH: usize = 32;
/// Names that are no text and are told.
const MAX_ODD: usize = 10;
/// Names that one look goes through.
const MAX_NAMES: usize = 20_000;

/// The name of a folder that may be a skill's: hidden ones are not.
#[must_use]
pub fn candidate(name: &OsStr) -> Option<&str> {
    name.to_str().filter(|name| !name.starts_with('.') && !name.is_empty() && !name.contains('/'))
}

/// Opens a folder only to look at it; a link is refused.
///
/// # Errors
/// It is not there, or no folder.
pub fn open_folder(above: impl AsFd, name: &OsStr) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    Ok(openat(above, name, flags, Mode::empty())?)
}

/// Opens a skill's folder below an agent's.
fn open_skill(custom: &Path, folder: &str) -> io::Result<OwnedFd> {
    let name = OsStr::new(folder);
    if candidate(name).is_none() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "no name of a skill's folder"));
    }
    open_folder(open_folder(CWD, custom.as_os_str())?, name)
}

/// What stands in an agent's folder.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Listed {
    /// Names that may be skills'.
    pub names: Vec<String>,
    /// There are more than were asked for.
    pub crowded: bool,
    /// Names that no skill can have, for they are not UTF-8; fit for printing, and only the first few.
    pub odd: Vec<String>,
}

/// Whether a name could be a skill's but for its bytes.
#[must_use]
pub fn is_odd(name: &OsStr) -> bool {
    name.to_str().is_none() && !name.as_bytes().starts_with(b".")
}

/// The names in an agent's folder, at most `max`.
///
/// # Errors
/// The folder cannot be read.
pub fn candidates(custom: &Path, max: usize) -> io::Result<Listed> {
    let mut found = Listed::default();
    let root = open_folder(CWD, custom.as_os_str())?;
    let mut dir = Dir::read_from(&root)?;
    while let Some(entry) = dir.read() {
        let entry = entry?;
        let name = OsStr::from_bytes(entry.file_name().to_bytes());
        if is_odd(name) && found.odd.len() < MAX_ODD {
            found.odd.push(escape(name.as_bytes()));
        }
        let Some(name) = candidate(name) else { continue };
        if found.names.len() >= max {
            found.crowded = true;
            break;
        }
        found.names.push(name.to_owned());
    }
    found.odd.sort_unstable();
    Ok(found)
}

/// Whether a plain file stands where a skill's folder could.
#[must_use]
pub fn is_file(custom: &Path, name: &str) -> bool {
    let stat = open_folder(CWD, custom.as_os_str())
        .and_then(|root| Ok(statat(root, name, AtFlags::SYMLINK_NOFOLLOW)?));
    stat.is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile)
}

/// The names in a skill's folder itself, at most `max`.
///
/// # Errors
/// It is not there, or no folder but a link.
pub fn names(custom: &Path, folder: &str, max: usize) -> io::Result<Vec<String>> {
    let mut dir = Dir::read_from(open_skill(custom, folder)?)?;
    let mut found = Vec::new();
    while let Some(entry) = dir.read() {
        found.extend(entry?.file_name().to_str().ok().map(str::to_owned));
        if found.len() >= max {
            break;
        }
    }
    Ok(found)
}

/// Whether git is in the middle of something in a skill's folder.
#[must_use]
pub fn git_at_work(custom: &Path, folder: &str) -> bool {
    let inner = open_skill(custom, folder).and_then(|folder| open_folder(folder, OsStr::new(GIT)));
    let look = |git: &OwnedFd, name: &str| statat(git, name, AtFlags::SYMLINK_NOFOLLOW).is_ok();
    // A clone makes its index when everything is checked out.
    inner.is_ok_and(|git| look(&git, "index.lock") || !look(&git, "index") && look(&git, "HEAD"))
}

/// Shows `visit` every folder of a skill, itself first, until it answers false.
///
/// # Errors
/// The skill's folder cannot be opened, or what `visit` fails with.
pub fn folders(
    custom: &Path,
    folder: &str,
    visit: &mut dyn FnMut(&OwnedFd) -> io::Result<bool>,
) -> io::Result<()> {
    let top = open_skill(custom, folder)?;
    let mut names = 0;
    walk(&top, 0, &mut names, &mut |step| match step {
        Step::Folder(folder) => visit(folder),
        Step::Name(..) => Ok(true),
    })
    .map(|_| ())
}

/// What is known of a skill's folder without reading its files: equal as long as nothing changed. None: not there.
#[must_use]
pub fn signature(custom: &Path, folder: &str) -> Option<u64> {
    let root = open_folder(CWD, custom.as_os_str()).ok()?;
    let mut hash = DefaultHasher::new();
    let Ok(top) = open_folder(&root, OsStr::new(folder)) else {
        // A file or a link in its place.
        let stat = statat(&root, folder, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        facts(&stat).hash(&mut hash);
        return Some(hash.finish());
    };
    let mut sum = 0u64;
    let mut names = 0;
    walk(&top, 0, &mut names, &mut |step| {
        if let Step::Name(depth, name, stat) = step {
            let mut one = DefaultHasher::new();
            (depth, name, facts(stat)).hash(&mut one);
            // The order of names in a folder is nobody's promise.
            sum = sum.wrapping_add(one.finish());
        }
        Ok(true)
    })
    .ok()?;
    (sum, names).hash(&mut hash);
    Some(hash.finish())
}

fn facts(stat: &Stat) -> [i128; 7] {
    [
        i128::from(stat.st_ino),
        i128::from(stat.st_mode),
        i128::from(stat.st_size),
        i128::from(stat.st_mtime),
        i128::from(stat.st_mtime_nsec),
        i128::from(stat.st_ctime),
        i128::from(stat.st_ctime_nsec),
    ]
}

enum Step<'a> {
    Folder(&'a OwnedFd),
    Name(usize, &'a [u8], &'a Stat),
}

/// False when it was told to stop.
fn walk(
    folder: &OwnedFd,
    depth: usize,
    names: &mut usize,
    visit: &mut dyn FnMut(Step<'_>) -> io::Result<bool>,
) -> io::Result<bool> {
    if !visit(Step::Folder(folder))? {
        return Ok(false);
    }
    let mut inner = Vec::new();
    let mut dir = Dir::read_from(folder)?;
    while let Some(Ok(entry)) = dir.read() {
        let name = entry.file_name().to_bytes();
        if matches!(name, b"." | b"..") || depth == 0 && name == NOTICE.as_bytes() {
            continue;
        }
        *names += 1;
        if *names > MAX_NAMES {
            return Ok(false);
        }
        let stat = match statat(folder, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => stat,
            Err(Errno::NOENT) => continue,
            Err(e) => return Err(e.into()),
        };
        if !visit(Step::Name(depth, name, &stat))? {
            return Ok(false);
        }
        if FileType::from_raw_mode(stat.st_mode) == FileType::Directory && depth < MAX_DEPTH {
            inner.push(name.to_vec());
        }
    }
    for name in inner {
        // Gone or closed to us since: its parent tells, when it matters.
        let Ok(below) = open_folder(folder, OsStr::from_bytes(&name)) else { continue };
        let more = if depth == 0 && name == GIT.as_bytes() {
            visit(Step::Folder(&below))?
        } else {
            walk(&below, depth + 1, names, visit)?
        };
        if !more {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether a file system tells of changes that others than this kernel make.
#[must_use]
pub fn tells(folder: impl AsFd) -> bool {
    const SILENT: [i64; 6] = [0x6969, 0x517b, 0xff53_4d42, 0xfe53_4d42, 0x6573_5546, 0x0102_1997];
    // NFS, SMB, CIFS, SMB2, FUSE, 9P.
    rustix::fs::fstatfs(folder).is_ok_and(|fs| !SILENT.contains(&(fs.f_type & 0xffff_ffff)))
}
