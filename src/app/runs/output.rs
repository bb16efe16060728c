//! The kept output of runs: opened for the init, read for the result, masked for good, shown live.

use std::{
    fs::{self, File},
    io,
    os::{
        fd::OwnedFd,
        unix::fs::{DirBuilderExt, OpenOptionsExt},
    },
    path::{Path, PathBuf},
};

use crate::{
    runs::{
        refusal::Refusal,
        result::{MAX_RESULT, Outcome, Said},
    },
    secrets::mask::{MaskStream, Masker},
    wire::spool::{self, Bounds, Record, Stream, Writer},
};

/// Bytes that are read in one go.
const CHUNK: usize = 256 * 1024;
/// Bytes of the end of each stream that may become an error or a summary.
const TAIL: usize = 8 * 1024;

fn segments(folder: &Path) -> [PathBuf; 3] {
    [0, 1, 2].map(|n| folder.join(n.to_string()))
}

/// A new, empty spool, for the init to write.
///
/// # Errors
/// Of the file system.
pub(super) fn create(folder: &Path) -> io::Result<Vec<OwnedFd>> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let mut options = File::options();
    options.read(true).write(true).create(true).truncate(true).mode(0o600);
    segments(folder).iter().map(|path| options.open(path).map(OwnedFd::from)).collect()
}

/// The spool of a run; none when nothing is kept.
pub(super) fn open(folder: &Path) -> Option<[File; 3]> {
    let files: Vec<File> = segments(folder).iter().map(File::open).collect::<Result<_, _>>().ok()?;
    files.try_into().ok()
}

/// What a run said, masked, as far as it matters for its result.
#[derive(Debug, Default)]
pub(super) struct Collected {
    stdout: Vec<u8>,
    stdout_tail: Vec<u8>,
    stderr_tail: Vec<u8>,
    cut: bool,
    refusal: Refusal,
    /// Bytes on disk.
    pub(super) bytes: u64,
}

impl Collected {
    /// For a result: the beginning of standard output.
    pub(super) fn texts(&self) -> (String, String, String) {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (text(&self.stdout), text(&self.stdout_tail), text(&self.stderr_tail))
    }

    /// As the rules of a run's end want it.
    pub(super) fn said<'a>(&self, stdout: &'a str, stderr: &'a str, summary: Option<&'a str>) -> Said<'a> {
        let cut = self.cut.then(|| self.refusal.cut(MAX_RESULT));
        Said { stdout, cut, stderr, summary }
    }
}

/// Masks what came to light when output was decoded and its words were put together.
pub(in crate::app) fn masked(outcome: Outcome, masker: &Masker) -> Outcome {
    let text = |text: String| masker.mask_str(&text).into_owned();
    Outcome {
        result: outcome.result.map(|json| masker.mask_json(&json)),
        error: outcome.error.map(text),
        warning: outcome.warning.map(text),
        summary: outcome.summary.map(text),
        ..outcome
    }
}

/// Reads all of a finished run's output, and leaves it masked on the disk: what holds a secret is written anew.
///
/// # Errors
/// Of the file system.
pub(super) fn archive(folder: &Path, masker: &Masker) -> io::Result<Collected> {
    let Some(files) = open(folder) else { return Ok(Collected::default()) };
    let mut masking = Masking::new(masker);
    let mut collected = Collected::default();
    let mut at = 0;
    loop {
        let read = spool::read(&files, at, CHUNK)?;
        if read.gap > 0 {
            collected.cut = true;
            collected.refusal.gap();
        }
        for record in &read.records {
            collected.take(record.stream, &masking.push(record));
        }
        if read.next == at {
            break;
        }
        at = read.next;
    }
    for (stream, rest) in masking.finish() {
        collected.take(stream, &rest);
    }
    if masking.found {
        rewrite(folder, &files, masker)?;
    }
    for path in segments(folder) {
        collected.bytes += fs::metadata(&path)?.len();
    }
    Ok(collected)
}

impl Collected {
    fn take(&mut self, stream: Stream, bytes: &[u8]) {
        match stream {
            Stream::Stdout => {
                let room = MAX_RESULT.saturating_sub(self.stdout.len());
                self.cut |= bytes.len() > room;
                self.refusal.feed(bytes);
                self.stdout.extend_from_slice(&bytes[..bytes.len().min(room)]);
                keep_end(&mut self.stdout_tail, bytes);
            }
            Stream::Stderr => keep_end(&mut self.stderr_tail, bytes),
        }
    }
}

fn keep_end(tail: &mut Vec<u8>, bytes: &[u8]) {
    tail.extend_from_slice(bytes);
    if tail.len() > 2 * TAIL {
        tail.drain(..tail.len() - TAIL);
    }
}

/// Masks both streams and notes whether that changed anything.
struct Masking {
    streams: [MaskStream; 2],
    found: bool,
    passed: [u64; 2],
}

impl Masking {
    fn new(masker: &Masker) -> Self {
        Self { streams: [masker.stream(), masker.stream()], found: false, passed: [0; 2] }
    }

    fn push(&mut self, record: &Record) -> Vec<u8> {
        let n = usize::from(record.stream == Stream::Stderr);
        let held = self.streams[n].held();
        let out = self.streams[n].push(&record.data);
        // Masked bytes are others than came in: their number tells, since no value is as long as its mask.
        self.found |= out.len() + self.streams[n].held() != held + record.data.len();
        self.passed[n] += out.len() as u64;
        out
    }

    fn finish(&mut self) -> [(Stream, Vec<u8>); 2] {
        let [out, err] = &mut self.streams;
        let ends = [(Stream::Stdout, out), (Stream::Stderr, err)];
        ends.map(|(stream, mask)| {
            let held = mask.held();
            let rest = mask.flush();
            self.found |= rest.len() != held;
            (stream, rest)
        })
    }
}

/// Writes the spool anew, masked, beside the old one, and puts it in its place.
fn rewrite(folder: &Path, old: &[File; 3], masker: &Masker) -> io::Result<()> {
    let fresh = folder.with_extension("masked");
    let fds = create(&fresh)?;
    let fds: [OwnedFd; 3] = fds.try_into().map_err(|_| io::Error::other("three segments"))?;
    let mut writer = Writer::new(fds, Bounds { head: u64::MAX, tail: 0 })?;
    let mut streams = [masker.stream(), masker.stream()];
    let (mut at, mut last) = (0, 0);
    loop {
        let read = spool::read(old, at, CHUNK)?;
        if read.gap > 0 {
            writer.append(Stream::Stdout, last, gap_text(read.gap).as_bytes())?;
        }
        for record in &read.records {
            let masked = streams[usize::from(record.stream == Stream::Stderr)].push(&record.data);
            last = record.time_ms;
            for piece in masked.chunks(spool::MAX_RECORD) {
                writer.append(record.stream, record.time_ms, piece)?;
            }
        }
        if read.next == at {
            break;
        }
        at = read.next;
    }
    let [out, err] = streams;
    for (stream, rest) in [(Stream::Stdout, out.finish()), (Stream::Stderr, err.finish())] {
        for piece in rest.chunks(spool::MAX_RECORD) {
            writer.append(stream, last, piece)?;
        }
    }
    drop(writer);
    for (from, to) in segments(&fresh).iter().zip(segments(folder)) {
        fs::rename(from, to)?;
    }
    fs::remove_dir(&fresh)
}

/// Stands where output was not kept.
pub(in crate::app) fn gap_text(bytes: u64) -> String {
    format!("\n[… {bytes} bytes not kept …]\n")
}

/// Removes a run's output.
///
/// # Errors
/// Of the file system; that there is none is no error.
pub(super) fn remove(folder: &Path) -> io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::secrets::SecretValue;

    fn spool(folder: &Path, bounds: Bounds, pieces: &[(Stream, &[u8])]) {
        let fds: [OwnedFd; 3] = create(folder).unwrap().try_into().unwrap();
        let mut writer = Writer::new(fds, bounds).unwrap();
        for (stream, bytes) in pieces {
            writer.append(*stream, 7, bytes).unwrap();
        }
    }

    fn bytes_on_disk(folder: &Path) -> Vec<u8> {
        segments(folder).iter().flat_map(|path| fs::read(path).unwrap()).collect()
    }

    const WIDE: Bounds = Bounds { head: 1 << 20, tail: 1 << 20 };

    #[test]
    fn a_secret_that_was_printed_in_two_pieces_is_gone_from_the_disk() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("1");
        let secret = SecretValue::new("hunter2hunter2").unwrap();
        let masker = Masker::new([&secret]);
        let pieces: [(Stream, &[u8]); 3] =
            [(Stream::Stdout, b"key=hunter2"), (Stream::Stderr, b"!"), (Stream::Stdout, b"hunter2 end")];
        spool(&folder, WIDE, &pieces);
        let collected = archive(&folder, &masker).unwrap();
        assert_eq!(collected.texts().0, "key=*** end");
        assert_eq!(collected.texts().2, "!");
        let raw = bytes_on_disk(&folder);
        assert!(!raw.windows(7).any(|w| w == b"hunter2"));
        assert!(!folder.with_extension("masked").exists());
        let again = archive(&folder, &masker).unwrap();
        assert_eq!(again.texts().0, "key=*** end", "archiving twice changes nothing");
    }

    #[test]
    fn a_secret_at_the_very_end_or_as_long_as_its_mask_is_found_too() {
        let dir = tempfile::tempdir().unwrap();
        for (n, value) in ["abcd", "ab*d", "zzzz9999"].into_iter().enumerate() {
            let folder = dir.path().join(n.to_string());
            let secret = SecretValue::new(value).unwrap();
            spool(&folder, WIDE, &[(Stream::Stdout, value.as_bytes())]);
            let collected = archive(&folder, &Masker::new([&secret])).unwrap();
            assert_eq!(collected.texts().0, "***");
            assert!(!bytes_on_disk(&folder).windows(value.len()).any(|w| w == value.as_bytes()));
        }
    }

    #[test]
    fn a_flood_is_kept_at_both_ends_with_a_marker_between_them() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("1");
        let secret = SecretValue::new("hunter2hunter2").unwrap();
        let line = vec![b'x'; 1000];
        let mut pieces: Vec<(Stream, &[u8])> = vec![(Stream::Stdout, b"first hunter2hunter2\n")];
        pieces.extend((0..100).map(|_| (Stream::Stdout, line.as_slice())));
        pieces.push((Stream::Stdout, b"last\n"));
        spool(&folder, Bounds { head: 8_000, tail: 8_000 }, &pieces);
        let collected = archive(&folder, &Masker::new([&secret])).unwrap();
        assert!(collected.cut && collected.bytes < 20_000);
        assert!(collected.texts().1.ends_with("last\n"));
        let text = String::from_utf8_lossy(&bytes_on_disk(&folder)).into_owned();
        assert!(text.contains("first ***") && text.contains("bytes not kept") && text.contains("last"));
    }

    #[test]
    fn nothing_kept_is_nothing_said() {
        let dir = tempfile::tempdir().unwrap();
        let collected = archive(&dir.path().join("none"), &Masker::new([])).unwrap();
        assert_eq!((collected.bytes, collected.texts().0), (0, String::new()));
    }
}
