//! Walks a tar: headers raw, so that names and extensions are bounded here and not believed.

use std::io::{self, Read};

use tar::{EntryType, Header, PaxExtensions};

use super::{
    Broken, Visit,
    listing::{Entry, What},
};

/// Bytes of an extended header or a long name: a path may have 1,024, and other keys stand beside it.
const MAX_EXTENSION: u64 = 16 << 10;

/// Whether these are the first bytes of a tar.
pub(super) fn begins(head: &[u8]) -> bool {
    let Some(block) = head.first_chunk::<512>() else { return false };
    let header = Header::from_byte_slice(block);
    let sum: u32 =
        (0..).zip(block).map(|(at, b)| if (148..156).contains(&at) { 32 } else { u32::from(*b) }).sum();
    block[0] != 0 && header.cksum().is_ok_and(|stated| stated == sum)
}

/// Shows every entry to `visit`, and reads what follows to the end, so that checksums are checked.
pub(super) fn walk(mut reader: impl Read, visit: &mut Visit<'_>) -> Result<(), Broken> {
    let mut archive = tar::Archive::new(&mut reader);
    let mut extension = Extension::default();
    for entry in archive.entries()?.raw(true) {
        let mut entry = entry?;
        match entry.header().entry_type() {
            EntryType::XGlobalHeader => Extension::default().pax(&mut entry, true)?,
            EntryType::XHeader => extension.pax(&mut entry, false)?,
            EntryType::GNULongName => {
                let mut name = extended(&mut entry)?;
                while name.last() == Some(&0) {
                    name.pop();
                }
                extension.name = Some(name);
            }
            // Only links have one, and those are refused.
            EntryType::GNULongLink => {}
            _ => {
                let found = std::mem::take(&mut extension).entry(entry.header())?;
                visit(found, &mut entry)?;
            }
        }
    }
    io::copy(&mut reader, &mut io::sink())?;
    Ok(())
}

fn extended(entry: &mut tar::Entry<'_, impl Read>) -> Result<Vec<u8>, Broken> {
    let mut bytes = Vec::new();
    entry.take(MAX_EXTENSION + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_EXTENSION {
        return Err(Broken::Theirs(format!("an extended header has more than {MAX_EXTENSION} bytes")));
    }
    Ok(bytes)
}

/// What extended headers say of the entry that follows.
#[derive(Default)]
struct Extension {
    name: Option<Vec<u8>>,
    size: Option<u64>,
    sparse: bool,
}

impl Extension {
    fn pax(&mut self, entry: &mut tar::Entry<'_, impl Read>, global: bool) -> Result<(), Broken> {
        let bytes = extended(entry)?;
        for pair in PaxExtensions::new(&bytes) {
            let pair = pair?;
            let key = pair.key_bytes();
            let counts = matches!(key, b"path" | b"size") || key.starts_with(b"GNU.sparse");
            if counts && global {
                return Err(Broken::Theirs("a global header names a path or a size".into()));
            }
            match key {
                b"path" => self.name = Some(pair.value_bytes().to_vec()),
                b"size" => {
                    let size = pair.value().ok().and_then(|v| v.parse().ok());
                    self.size = Some(size.ok_or_else(|| Broken::Theirs("a size is no number".into()))?);
                }
                key => self.sparse |= key.starts_with(b"GNU.sparse"),
            }
        }
        Ok(())
    }

    fn entry(self, header: &Header) -> Result<Entry, Broken> {
        let size = header.entry_size()?;
        if self.size.is_some_and(|extended| extended != size) {
            return Err(Broken::Theirs("an entry has two sizes".into()));
        }
        let name = self.name.unwrap_or_else(|| header.path_bytes().into_owned());
        let mode = header.mode().unwrap_or(0);
        let what = match header.entry_type() {
            EntryType::Directory => What::Folder,
            // How tars older than POSIX write a folder.
            EntryType::Regular if name.ends_with(b"/") => What::Folder,
            _ if self.sparse => What::Refused("is a sparse file; pack it without holes"),
            EntryType::GNUSparse => What::Refused("is a sparse file; pack it without holes"),
            EntryType::Regular if mode & 0o6000 != 0 => What::Refused("is setuid or setgid"),
            EntryType::Regular => What::File { size, executable: mode & 0o100 != 0 },
            EntryType::Symlink => What::Refused("is a link; put the file itself there"),
            EntryType::Link => What::Refused("is a hard link; put the file itself there"),
            EntryType::Char | EntryType::Block => What::Refused("is a device"),
            EntryType::Fifo => What::Refused("is a FIFO"),
            _ => What::Refused("is neither a file nor a folder"),
        };
        Ok(Entry { name, what })
    }
}
