//! Opening names in a hostile folder: beneath it, without links, looked at before they are read.
//!
//! The rules of `openat2` and of file types in one place. Reads no content.

use std::{
    fs::{File, Metadata},
    os::{
        fd::{AsRawFd, OwnedFd},
        unix::fs::{FileTypeExt, MetadataExt},
    },
};

use rustix::{
    fs::{Mode, OFlags, ResolveFlags, openat2},
    io::Errno,
    path::Arg,
};

use super::safe_copy::Origin;

/// Why a file that is neither folder nor link is not taken.
pub(super) fn refusal(meta: &Metadata, origin: Origin) -> Option<&'static str> {
    let kind = meta.file_type();
    if kind.is_fifo() {
        return Some("is a FIFO; only files and folders are taken");
    }
    if kind.is_socket() {
        return Some("is a socket; only files and folders are taken");
    }
    if kind.is_char_device() || kind.is_block_device() {
        return Some("is a device; only files and folders are taken");
    }
    if !kind.is_file() {
        return Some("is neither file nor folder");
    }
    if meta.mode() & 0o6000 != 0 {
        return Some("is setuid or setgid; take that bit away (chmod ug-s)");
    }
    if meta.nlink() > 1 && origin == Origin::Agent {
        return Some("is a hard link to a file that stands elsewhere too; put a copy there");
    }
    None
}

/// How names below a folder are resolved: never out of it, never through a link.
pub(super) fn strict(origin: Origin) -> ResolveFlags {
    let strict = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    match origin {
        Origin::Agent | Origin::Store => strict | ResolveFlags::NO_XDEV,
        Origin::Operator => strict,
    }
}

/// Opens `path` below `root`, again when a signal or a rename elsewhere came between.
pub(crate) fn beneath(
    root: &OwnedFd,
    path: impl Arg + Copy,
    flags: OFlags,
    resolve: ResolveFlags,
) -> Result<OwnedFd, Errno> {
    let mut tries = 0;
    loop {
        match openat2(root, path, flags, Mode::empty(), resolve) {
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) if tries < 8 => tries += 1,
            other => return other,
        }
    }
}

/// What a descriptor stands for.
pub(crate) fn look(file: &File) -> Result<Metadata, Errno> {
    file.metadata().map_err(|e| Errno::from_io_error(&e).unwrap_or(Errno::IO))
}

/// Opens for reading what `looked_at` stands for and nothing else.
pub(crate) fn reopen(looked_at: &File, flags: OFlags) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY | flags;
    let path = format!("/proc/self/fd/{}", looked_at.as_raw_fd());
    rustix::fs::open(path, flags, Mode::empty())
}
