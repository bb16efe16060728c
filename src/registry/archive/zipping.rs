//! Packs a skill as a zip, for the faces that other registries' clients speak to: the same files give the same bytes.
//!
//! Stored, not deflated: so the bytes, whose digests others keep, do not follow the version of a packer. Sorted by
//! path, at the first time that a zip can tell; modes 0644 and 0755. Nothing is checked here.

use std::{
    fs::File,
    io::{self, Seek, Write},
    path::Path,
};

use zip::{CompressionMethod, DateTime, ZipWriter, write::SimpleFileOptions};

use crate::skill::{digest::excluded, source::Source};

/// Writes what `source` lists, read from the folder `base`, and the files of `made`, which stand nowhere; none of them
/// may be listed too. Give it a folder that nobody else writes: a file that has changed is an error.
///
/// # Errors
/// A file cannot be read, or is not as long as listed; `out` fails.
pub fn pack_zip<W: Write + Seek>(
    base: &Path,
    source: &Source,
    made: &[(&str, &[u8])],
    out: W,
) -> io::Result<W> {
    let mut files: Vec<(&str, bool, Option<&[u8]>)> =
        source.files.iter().map(|(path, info)| (path.as_str(), info.executable, None)).collect();
    files.extend(made.iter().map(|(path, bytes)| (*path, false, Some(*bytes))));
    files.retain(|(path, _, _)| !excluded(path));
    files.sort_unstable_by_key(|(path, _, _)| *path);
    let mut zip = ZipWriter::new(out);
    for (path, executable, bytes) in files {
        let options = SimpleFileOptions::default()
            .compression_method(CompressionMethod::Stored)
            .last_modified_time(DateTime::default())
            .unix_permissions(if executable { 0o755 } else { 0o644 });
        zip.start_file(path, options)?;
        match bytes {
            Some(bytes) => zip.write_all(bytes)?,
            None => {
                let copied = io::copy(&mut File::open(base.join(path))?, &mut zip)?;
                if source.files.get(path).is_none_or(|info| info.size != copied) {
                    return Err(io::Error::other(format!("{path} has changed while it was packed")));
                }
            }
        }
    }
    Ok(zip.finish()?)
}
