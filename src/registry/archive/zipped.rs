//! Walks a zip: by its central directory, which must agree with what stands before each entry.

use std::io::{self, BufReader, Read, Seek};

use zip::{CompressionMethod, ZipArchive, result::ZipError};

use super::{
    Broken, Visit,
    listing::{Entry, What},
};

/// How an entry of the central directory begins.
const CENTRAL: [u8; 4] = *b"PK\x01\x02";
/// At least so many may be there, also within other archives that a skill holds.
const FEW: usize = 65_536;

/// Shows every entry to `visit`.
pub(super) fn walk(mut file: impl Read + Seek, most: usize, visit: &mut Visit<'_>) -> Result<(), Broken> {
    // The directory is read into memory whole: see first that it is none to drown in.
    if count(&mut file)? > most.max(FEW) {
        return Err(Broken::Theirs("it has far too many entries".into()));
    }
    file.rewind()?;
    let mut zip = ZipArchive::new(BufReader::new(file))?;
    zip.validate_header_consistency()?;
    for index in 0..zip.len() {
        let entry = look(&zip, index)?;
        match entry.what {
            What::File { .. } => visit(entry, &mut zip.by_index(index)?)?,
            _ => visit(entry, &mut io::empty())?,
        }
    }
    Ok(())
}

impl From<ZipError> for Broken {
    fn from(e: ZipError) -> Self {
        Self::Theirs(e.to_string())
    }
}

fn look<R: Read + Seek>(zip: &ZipArchive<R>, index: usize) -> Result<Entry, Broken> {
    const KIND: u32 = 0o170_000;
    let entry = zip.by_index_data(index)?;
    let mode = entry.unix_mode().unwrap_or(0);
    let name = entry.name_raw().to_vec();
    let packed = matches!(entry.compression(), CompressionMethod::Stored | CompressionMethod::Deflated);
    let what = match mode & KIND {
        0o040_000 => What::Folder,
        _ if name.ends_with(b"/") => What::Folder,
        0o120_000 => What::Refused("is a link; put the file itself there"),
        0 | 0o100_000 if entry.encrypted() => What::Refused("is encrypted"),
        0 | 0o100_000 if !packed => What::Refused("is packed otherwise than with deflate"),
        0 | 0o100_000 if mode & 0o6000 != 0 => What::Refused("is setuid or setgid"),
        0 | 0o100_000 => What::File { size: entry.size(), executable: mode & 0o100 != 0 },
        _ => What::Refused("is neither a file nor a folder"),
    };
    Ok(Entry { name, what })
}

/// How often an entry of a central directory may begin here.
fn count(file: &mut (impl Read + Seek)) -> io::Result<usize> {
    file.rewind()?;
    let (mut found, mut window) = (0, [0u8; 4]);
    for byte in BufReader::with_capacity(64 << 10, file).bytes() {
        window.rotate_left(1);
        window[3] = byte?;
        found += usize::from(window == CENTRAL);
    }
    Ok(found)
}
