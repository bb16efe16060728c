//! Packs a skill as a tar: the same files give the same bytes, whoever packs them and when.
//!
//! Sorted by path, without times, owners and folders; modes 0644 and 0755. Nothing is checked here.

use std::{
    fs::File,
    io::{self, Write},
    path::Path,
};

use flate2::{Compression, GzBuilder};
use tar::{Builder, EntryType, Header};

use super::Format;
use crate::skill::{digest::excluded, source::Source};

/// How hard Zstandard tries.
const ZSTD_LEVEL: i32 = 3;

/// Writes what `source` lists, read from the folder `base`, at the top of an archive. Give it a folder
/// that nobody else writes (a staged copy, an entry of the store): a file that has changed is an error.
///
/// # Errors
/// A file cannot be read, or is not as long as listed; `out` fails; there is no packing into [`Format::Zip`].
pub fn pack<W: Write>(base: &Path, source: &Source, format: Format, out: W) -> io::Result<W> {
    match format {
        Format::Tar => tar(base, source, out),
        Format::TarGz => {
            let packer = GzBuilder::new().mtime(0).write(out, Compression::default());
            tar(base, source, packer)?.finish()
        }
        Format::TarZst => {
            let mut packer = zstd::stream::write::Encoder::new(out, ZSTD_LEVEL)?;
            packer.include_checksum(true)?;
            tar(base, source, packer)?.finish()
        }
        Format::Zip => Err(io::Error::new(io::ErrorKind::Unsupported, "this packs tars")),
    }
}

fn tar<W: Write>(base: &Path, source: &Source, out: W) -> io::Result<W> {
    let mut tar = Builder::new(out);
    for (path, info) in source.files.iter().filter(|(path, _)| !excluded(path)) {
        let file = File::open(base.join(path))?;
        if file.metadata()?.len() != info.size {
            return Err(io::Error::other(format!("{path} has changed while it was packed")));
        }
        let mut header = Header::new_gnu();
        header.set_entry_type(EntryType::Regular);
        header.set_mode(if info.executable { 0o755 } else { 0o644 });
        header.set_size(info.size);
        header.set_mtime(0);
        header.set_uid(0);
        header.set_gid(0);
        tar.append_data(&mut header, path, file)?;
    }
    tar.into_inner()
}
