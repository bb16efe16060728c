//! Walks a folder that others write while it is read, and may have made to deceive.
//!
//! Every name is opened beneath the folder, without following a link and without leaving the file system, looked at
//! and only then read, through the same descriptor. FIFOs, sockets and devices are never opened.

use std::{
    fs::{File, Metadata},
    io,
    os::{fd::OwnedFd, unix::fs::FileTypeExt},
    path::Path,
};

use rustix::{
    fs::{CWD, Dir, Mode, OFlags, ResolveFlags, readlinkat},
    io::Errno,
};

use crate::registry::beneath::{beneath, look, reopen};

/// What stands under a name.
pub(super) enum Found {
    /// A folder; what is in it comes next.
    Folder(Metadata),
    /// A file, to be opened with [`open`].
    File(File, Metadata),
    /// A symbolic link and where it leads.
    Link(Metadata, Vec<u8>),
    /// It cannot be taken, and why.
    Refused(String),
}

/// What a walk does next.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// It goes on, into a folder.
    On,
    /// It passes over what is in the folder.
    Over,
}

/// Opens a file that was looked at.
///
/// # Errors
/// Of the file system.
pub(super) fn open(looked_at: &File) -> io::Result<File> {
    Ok(reopen(looked_at, OFlags::empty())?.into())
}

/// Visits everything below `top`, which is followed where it is a link itself, by paths relative to it. The top's own
/// path is empty. In the order of names; at most `most` names.
///
/// # Errors
/// The top cannot be opened, or what `visit` answers.
pub(super) fn walk(
    top: &Path,
    most: usize,
    visit: &mut dyn FnMut(&[u8], Found) -> io::Result<Next>,
) -> io::Result<()> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = rustix::fs::openat(CWD, top, flags, Mode::empty())?;
    let mut left = most;
    // A stack of our own: folders may be nested deeper than a thread's.
    let mut waiting = vec![Vec::new()];
    while let Some(path) = waiting.pop() {
        let found = look_at(&root, &path).unwrap_or_else(|e| Found::Refused(why(e)));
        let is_folder = matches!(found, Found::Folder(_));
        match visit(&path, found)? {
            Next::On if is_folder => {}
            _ => continue,
        }
        let mut names = match names(&root, &path, &mut left) {
            Ok(names) => names,
            Err(e) => {
                visit(&path, Found::Refused(why(e)))?;
                continue;
            }
        };
        if left == 0 {
            let more = format!("it holds more than {most} files and folders; the rest is left out");
            visit(&path, Found::Refused(more))?;
        }
        names.sort_unstable_by(|a, b| b.cmp(a));
        waiting.extend(names.into_iter().map(|name| join(&path, &name)));
    }
    Ok(())
}

/// A name below a folder; the top's path is empty.
pub(super) fn join(path: &[u8], name: &[u8]) -> Vec<u8> {
    if path.is_empty() { name.to_vec() } else { [path, b"/", name].concat() }
}

fn resolve() -> ResolveFlags {
    ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS | ResolveFlags::NO_XDEV
}

fn look_at(root: &OwnedFd, path: &[u8]) -> Result<Found, Errno> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let path = if path.is_empty() { b"." } else { path };
    let file = File::from(beneath(root, path, flags, resolve())?);
    let meta = look(&file)?;
    let kind = meta.file_type();
    Ok(if kind.is_dir() {
        Found::Folder(meta)
    } else if kind.is_symlink() {
        let target = readlinkat(&file, "", Vec::new())?;
        Found::Link(meta, target.into_bytes())
    } else if kind.is_file() {
        Found::File(file, meta)
    } else if kind.is_fifo() {
        Found::Refused("it is a FIFO".to_owned())
    } else if kind.is_socket() {
        Found::Refused("it is a socket".to_owned())
    } else {
        Found::Refused("it is a device".to_owned())
    })
}

fn names(root: &OwnedFd, path: &[u8], left: &mut usize) -> Result<Vec<Vec<u8>>, Errno> {
    let path = if path.is_empty() { b"." } else { path };
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let folder = File::from(beneath(root, path, flags, resolve())?);
    let mut dir = Dir::new(reopen(&folder, OFlags::DIRECTORY)?)?;
    let mut names = Vec::new();
    while let Some(entry) = dir.read() {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if matches!(name, b"." | b"..") {
            continue;
        }
        if *left == 0 {
            break;
        }
        *left -= 1;
        names.push(name.to_vec());
    }
    Ok(names)
}

fn why(error: Errno) -> String {
    match error {
        Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::AGAIN => {
            "it was moved or replaced while it was copied".to_owned()
        }
        Errno::XDEV => "another file system is mounted there".to_owned(),
        Errno::NAMETOOLONG => "its path is too long".to_owned(),
        e => format!("it cannot be read: {}", io::Error::from(e)),
    }
}
