//! Skills as archives: unpacked into staging as carefully as a hostile folder is copied, and packed.
//!
//! An archive is kept aside first and walked twice: what its entries say of themselves is judged
//! before a byte is laid, and what was judged is laid then. No library writes to the disk here, and
//! no size that a header states is believed: every reader is capped.

mod listing;
mod pack;
mod tarball;
mod zipped;
mod zipping;

use std::{
    fmt,
    io::{self, Read, Seek, SeekFrom},
};

use self::listing::{Entry, Judged, What};
pub use self::{pack::pack, zipping::pack_zip};
use super::{
    intake::{Stopped, pour},
    rejection::CopyError,
    staging::{Laying, Staged},
    store::Store,
};
use crate::{
    config::model::SkillLimits,
    error::Fault,
    skill::source::{MANIFEST, SKILL_MD, Source},
};

/// Up to so many bytes an archive is kept in memory while it is read, beyond in a file without a name.
const IN_MEMORY: usize = 1 << 20;
/// What a tar spends on an entry besides its content: two headers, their padding, an extended name.
const ENTRY_OVERHEAD: u64 = 4 << 10;
/// How an archive as a whole is named in faults.
const WHOLE: &str = "archive";

/// How an archive is packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    /// tar
    Tar,
    /// tar in gzip
    TarGz,
    /// tar in Zstandard
    TarZst,
    /// zip
    Zip,
}

impl Format {
    /// Tells a format by an archive's first bytes (512 are enough), never by a name.
    #[must_use]
    pub fn detect(head: &[u8]) -> Option<Self> {
        match head {
            [0x1f, 0x8b, ..] => Some(Self::TarGz),
            // A frame, or one that is to be skipped.
            [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Some(Self::TarZst),
            [b'P', b'K', 3, 4, ..] | [b'P', b'K', 5, 6, ..] => Some(Self::Zip),
            _ if tarball::begins(head) => Some(Self::Tar),
            _ => None,
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tar => "tar",
            Self::TarGz => "tar in gzip",
            Self::TarZst => "tar in zstd",
            Self::Zip => "zip",
        })
    }
}

/// What an archive of many skills held.
#[derive(Debug)]
pub struct Many {
    /// Its files.
    pub staged: Staged,
    /// Entries that are no files (links, devices): no skill may need them.
    pub left_out: Vec<Fault>,
}

/// Unpacks one skill into staging. It stands at the archive's top or in one folder there.
///
/// # Errors
/// Every rule that the archive breaks, naming entry and rule; or the failure of our own side.
pub fn unpack(
    reader: impl Read,
    format: Format,
    store: &Store,
    limits: &SkillLimits,
) -> Result<Staged, CopyError> {
    let mut kept = keep(reader, store, limits)?;
    Ok(take(&mut kept, format, store, limits, false)?.staged)
}

/// Unpacks an archive that may hold many skills, in whatever format it is; `limits` are for all of it.
///
/// # Errors
/// As for [`unpack`].
pub fn unpack_many(reader: impl Read, store: &Store, limits: &SkillLimits) -> Result<Many, CopyError> {
    let mut kept = keep(reader, store, limits)?;
    let mut head = Vec::new();
    let read = (&mut kept).take(512).read_to_end(&mut head);
    read.map_err(|e| CopyError::io("cannot read the archive back", e))?;
    let Some(format) = Format::detect(&head) else {
        return Err(refused("is no archive that can be read: tar, tar.gz, tar.zst and zip are"));
    };
    take(&mut kept, format, store, limits, true)
}

fn refused(message: impl Into<String>) -> CopyError {
    rejected(vec![Fault::new(WHOLE, message)], 0)
}

fn rejected(faults: Vec<Fault>, more: usize) -> CopyError {
    CopyError::Rejected { folder: "the archive".into(), faults, more, changing: false }
}

/// Why walking an archive ended early.
enum Broken {
    /// The archive is at fault.
    Theirs(String),
    /// Anything else.
    Other(CopyError),
}

impl From<io::Error> for Broken {
    fn from(e: io::Error) -> Self {
        Self::Theirs(e.to_string())
    }
}

/// What is done with each entry, in their order.
type Visit<'a> = dyn FnMut(Entry, &mut dyn Read) -> Result<(), Broken> + 'a;

/// Most entries that are looked at: files, as many folders, and some to spare.
fn most_entries(limits: &SkillLimits) -> usize {
    usize::try_from(limits.files.saturating_mul(2).saturating_add(64)).unwrap_or(usize::MAX)
}

/// Most bytes of an archive, packed or not.
fn most_bytes(limits: &SkillLimits) -> u64 {
    limits
        .files
        .saturating_mul(2)
        .saturating_add(256)
        .saturating_mul(ENTRY_OVERHEAD)
        .saturating_add(limits.total)
}

fn too_large(limits: &SkillLimits) -> String {
    format!("unpacks to more than {} bytes (registry.limits.total)", limits.total)
}

/// Keeps the whole archive aside: a zip is read from its end, and every kind is read twice.
fn keep(
    reader: impl Read,
    store: &Store,
    limits: &SkillLimits,
) -> Result<tempfile::SpooledTempFile, CopyError> {
    let most = most_bytes(limits);
    let mut kept = tempfile::spooled_tempfile_in(IN_MEMORY, store.staging());
    let copied = io::copy(&mut reader.take(most.saturating_add(1)), &mut kept)
        .map_err(|e| CopyError::io("cannot take the archive in", e))?;
    if copied > most {
        let total = limits.total;
        return Err(refused(format!(
            "has more bytes packed than a skill may have unpacked, {total} \
            (registry.limits.total)"
        )));
    }
    kept.rewind().map_err(|e| CopyError::io("cannot read the archive back", e))?;
    Ok(kept)
}

fn walk(
    kept: &mut tempfile::SpooledTempFile,
    format: Format,
    limits: &SkillLimits,
    visit: &mut Visit<'_>,
) -> Result<(), CopyError> {
    kept.seek(SeekFrom::Start(0)).map_err(|e| CopyError::io("cannot read the archive back", e))?;
    let most = most_bytes(limits);
    let walked = match format {
        Format::Tar => tarball::walk(Capped::new(io::BufReader::new(kept), most), visit),
        Format::TarGz => {
            let unpacked = flate2::read::MultiGzDecoder::new(io::BufReader::new(kept));
            tarball::walk(Capped::new(unpacked, most), visit)
        }
        Format::TarZst => match zstd::stream::read::Decoder::new(kept) {
            Ok(unpacked) => tarball::walk(Capped::new(unpacked, most), visit),
            Err(e) => Err(e.into()),
        },
        Format::Zip => zipped::walk(kept, most_entries(limits), visit),
    };
    walked.map_err(|e| match e {
        Broken::Theirs(why) if why == TOO_LARGE => refused(too_large(limits)),
        Broken::Theirs(why) => refused(format!("cannot be read as {format}: {why}")),
        Broken::Other(e) => e,
    })
}

fn take(
    kept: &mut tempfile::SpooledTempFile,
    format: Format,
    store: &Store,
    limits: &SkillLimits,
    many: bool,
) -> Result<Many, CopyError> {
    let mut entries = Vec::new();
    let most = most_entries(limits);
    let walked = walk(kept, format, limits, &mut |entry, _| {
        if entries.len() >= most {
            let files = limits.files;
            return Err(Broken::Other(refused(format!(
                "holds more than {files} files (registry.limits.files)"
            ))));
        }
        entries.push(entry);
        Ok(())
    });
    let judged = listing::judge(&entries, limits, many);
    if let Err(e) = walked {
        // Where reading ended at a cap, the file that is too large says better what is wrong.
        let capped = matches!(&e, CopyError::Rejected { faults, .. }
            if faults.iter().any(|fault| fault.message.contains("registry.limits.")));
        return Err(match judged {
            Err(refusal) if capped && refusal.too_large => rejected(refusal.faults, refusal.more),
            _ => e,
        });
    }
    let judged = judged.map_err(|refusal| rejected(refusal.faults, refusal.more))?;
    drop(entries);
    let staged = lay(kept, format, store, limits, &judged)?;
    Ok(Many { staged, left_out: judged.left_out })
}

/// The second walk: lays what was judged.
fn lay(
    kept: &mut tempfile::SpooledTempFile,
    format: Format,
    store: &Store,
    limits: &SkillLimits,
    judged: &Judged,
) -> Result<Staged, CopyError> {
    let failed = |e| CopyError::io("cannot lay a copy of the archive", e);
    let mut laying = Laying::create(store.staging()).map_err(failed)?;
    let mut source = Source::default();
    let (mut index, mut left) = (0, limits.total);
    walk(kept, format, limits, &mut |entry, content| {
        let path = judged.files.get(&index);
        index += 1;
        let (Some(path), What::File { size, executable }) = (path, entry.what) else { return Ok(()) };
        let to = laying.file(path).map_err(|e| Broken::Other(failed(e)))?;
        let poured = pour(content, Some(to), matches!(path.as_str(), MANIFEST | SKILL_MD), size.min(left));
        let (mut file, kept) = poured.map_err(|e| match e {
            Stopped::Ours(e) => Broken::Other(failed(e)),
            Stopped::Theirs(e) => Broken::Theirs(format!("{path}: {e}")),
        })?;
        if file.size != size {
            return Err(Broken::Theirs(format!("{path} does not have the {size} bytes that are stated")));
        }
        left = left.saturating_sub(size);
        file.executable = executable;
        match path.as_str() {
            MANIFEST => source.manifest = kept,
            SKILL_MD => source.skill_md = kept,
            _ => {}
        }
        source.files.insert(path.clone(), file);
        Ok(())
    })?;
    laying.seal(source).map_err(failed)
}

/// Says that a [`Capped`] reader met its cap.
const TOO_LARGE: &str = "too large";

/// A reader that fails beyond so many bytes.
struct Capped<R> {
    inner: R,
    left: u64,
}

impl<R> Capped<R> {
    fn new(inner: R, left: u64) -> Self {
        Self { inner, left }
    }
}

impl<R: Read> Read for Capped<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.left = self.left.checked_sub(read as u64).ok_or_else(|| io::Error::other(TOO_LARGE))?;
        Ok(read)
    }
}

#[cfg(test)]
mod tests;
