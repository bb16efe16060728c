//! Reads one opened file, or one entry of an archive: bounded, hashed and copied in a single pass.
//!
//! Tells apart whose fault a failure is, and what must stay the same meanwhile. Opens nothing.

use std::{
    fs::{File, Metadata},
    io::{self, Read, Write},
    os::unix::fs::MetadataExt,
};

use sha2::{Digest as _, Sha256};

use crate::skill::source::{FileInfo, HEAD};

/// One file as it was read.
pub(super) struct Taken {
    /// What is known of it now.
    pub(super) file: FileInfo,
    /// What the file system says after the last byte.
    pub(super) after: Metadata,
    /// Its bytes, when they were to be kept.
    pub(super) content: Option<Vec<u8>>,
}

/// Why reading stopped.
pub(super) enum Stopped {
    /// The copy cannot be written.
    Ours(io::Error),
    /// The file cannot be read.
    Theirs(io::Error),
}

/// What must stay the same while a file is read.
pub(super) fn state(m: &Metadata) -> (u64, i64, i64, i64, i64) {
    (m.len(), m.mtime(), m.mtime_nsec(), m.ctime(), m.ctime_nsec())
}

/// Reads at most one byte more than `max`, into `to` if there is one.
pub(super) fn take(mut from: File, to: Option<File>, keep: bool, max: u64) -> Result<Taken, Stopped> {
    let (mut file, content) = pour(&mut from, to, keep, max)?;
    let after = from.metadata().map_err(Stopped::Theirs)?;
    file.executable = after.mode() & 0o100 != 0;
    Ok(Taken { file, after, content })
}

/// [`take`] from anything that can be read; what it gives is not executable.
pub(super) fn pour(
    from: &mut (impl Read + ?Sized),
    mut to: Option<File>,
    keep: bool,
    max: u64,
) -> Result<(FileInfo, Option<Vec<u8>>), Stopped> {
    let (mut hash, mut size, mut head) = (Sha256::new(), 0, Vec::new());
    let mut content = keep.then(Vec::new);
    let mut buffer = [0; 16 << 10];
    let mut limited = from.take(max.saturating_add(1));
    loop {
        let bytes = match limited.read(&mut buffer) {
            Ok(0) => break,
            Ok(n) => &buffer[..n],
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            Err(e) => return Err(Stopped::Theirs(e)),
        };
        hash.update(bytes);
        size += bytes.len() as u64;
        head.extend_from_slice(&bytes[..bytes.len().min(HEAD - head.len())]);
        if let Some(content) = &mut content {
            content.extend_from_slice(bytes);
        }
        if let Some(to) = &mut to {
            to.write_all(bytes).map_err(Stopped::Ours)?;
        }
    }
    Ok((FileInfo { size, executable: false, digest: hash.finalize().into(), head }, content))
}
