//! Kept output: records of a process's output in up to three files.
//!
//! The init writes, the supervisor reads; the files live on the host and outlast both. The first
//! `head` bytes are kept for good; what follows goes round in two tail segments, so that the end
//! is there too and the middle is an explicit gap. Offsets are logical: they count record bytes
//! since the start and never go back.

use std::{
    fs::File,
    io,
    os::{fd::OwnedFd, unix::fs::FileExt},
};

use serde::{Deserialize, Serialize};

/// Bytes of a segment's header: magic and the logical offset of its first record.
const SEGMENT_HEADER: u64 = 16;
const MAGIC: [u8; 8] = *b"SKSPOOL1";
/// Bytes before a record's data: length, stream, padding, time.
const RECORD_HEADER: usize = 16;
/// Data of one record at most.
pub const MAX_RECORD: usize = 64 * 1024;

/// How much is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bounds {
    /// Bytes kept from the start.
    pub head: u64,
    /// Bytes kept from the end, at least half of it at any time.
    pub tail: u64,
}

/// Which stream a record came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// A piece of output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Where it came from.
    pub stream: Stream,
    /// Milliseconds since 1970 when the init read it.
    pub time_ms: u64,
    /// The bytes.
    pub data: Vec<u8>,
}

/// Appends records; the only writer of its files.
#[derive(Debug)]
pub struct Writer {
    segments: [File; 3],
    bounds: Bounds,
    /// Index of the segment being written: 0 is the head, 1 and 2 take turns.
    current: usize,
    /// Bytes in the current segment, header included.
    position: u64,
    end: u64,
}

impl Writer {
    /// Takes over three empty files.
    ///
    /// # Errors
    /// When the head's header cannot be written.
    pub fn new(segments: [OwnedFd; 3], bounds: Bounds) -> io::Result<Self> {
        let mut writer = Self { segments: segments.map(File::from), bounds, current: 0, position: 0, end: 0 };
        writer.open_segment(0)?;
        Ok(writer)
    }

    /// The logical offset behind the last record.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.end
    }

    fn open_segment(&mut self, index: usize) -> io::Result<()> {
        let file = &self.segments[index];
        // A reader that sees no header sees no segment; a torn one is never taken for valid.
        file.set_len(0)?;
        let mut header = [0; SEGMENT_HEADER as usize];
        header[..8].copy_from_slice(&MAGIC);
        header[8..].copy_from_slice(&self.end.to_le_bytes());
        file.write_all_at(&header, 0)?;
        self.current = index;
        self.position = SEGMENT_HEADER;
        Ok(())
    }

    fn capacity(&self) -> u64 {
        if self.current == 0 { self.bounds.head } else { self.bounds.tail / 2 }
    }

    /// Appends a record of at most `MAX_RECORD` bytes.
    ///
    /// # Errors
    /// Of the file system (a full disk): the record is dropped, the offset still advances, so that
    /// readers see a gap rather than a hang.
    pub fn append(&mut self, stream: Stream, time_ms: u64, data: &[u8]) -> io::Result<()> {
        debug_assert!(data.len() <= MAX_RECORD);
        let size = (RECORD_HEADER + data.len()) as u64;
        if self.position - SEGMENT_HEADER + size > self.capacity() {
            let next = if self.current == 1 { 2 } else { 1 };
            if let Err(e) = self.open_segment(next) {
                self.end += size;
                return Err(e);
            }
        }
        let mut record = Vec::with_capacity(size as usize);
        record.extend_from_slice(&(data.len() as u32).to_le_bytes());
        record.extend_from_slice(&[stream as u8, 0, 0, 0]);
        record.extend_from_slice(&time_ms.to_le_bytes());
        record.extend_from_slice(data);
        let written = self.segments[self.current].write_all_at(&record, self.position);
        self.end += size;
        if written.is_ok() {
            self.position += size;
        } else {
            // What follows must not sit behind a torn record.
            let next = if self.current == 1 { 2 } else { 1 };
            self.open_segment(next)?;
        }
        written
    }
}

/// What a read found.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Read {
    /// Records in order.
    pub records: Vec<Record>,
    /// Where to read on.
    pub next: u64,
    /// Bytes of records that are no longer there, before the first record returned.
    pub gap: u64,
}

/// Reads records from the logical offset `from`, about `limit` bytes of them.
///
/// Safe beside the writer: a segment that is reused during the read is noticed and read again.
///
/// # Errors
/// Of the file system.
pub fn read(segments: &[File; 3], from: u64, limit: usize) -> io::Result<Read> {
    let mut bases: Vec<(u64, &File)> = Vec::new();
    for file in segments {
        if let Some(base) = base(file)? {
            bases.push((base, file));
        }
    }
    bases.sort_by_key(|(base, _)| *base);
    let mut out = Read { next: from, ..Read::default() };
    for (index, (start, file)) in bases.iter().enumerate() {
        let limit_here = bases.get(index + 1).map(|(b, _)| *b);
        if limit_here.is_some_and(|b| b <= out.next) {
            continue;
        }
        if *start > out.next {
            if !out.records.is_empty() {
                // The gap is reported by the next read, which begins here.
                return Ok(out);
            }
            out.gap += *start - out.next;
            out.next = *start;
        }
        let mut records = Vec::new();
        let mut next = out.next;
        read_segment(file, *start, &mut next, limit, &mut records)?;
        if base(file)? != Some(*start) {
            // Reused while we read: what was taken may be torn. The next call sees the new segment.
            return Ok(out);
        }
        out.records.append(&mut records);
        out.next = next;
        if out.records.iter().map(|r| r.data.len()).sum::<usize>() >= limit {
            break;
        }
    }
    Ok(out)
}

fn base(file: &File) -> io::Result<Option<u64>> {
    let mut header = [0; SEGMENT_HEADER as usize];
    match file.read_exact_at(&mut header, 0) {
        Ok(()) if header[..8] == MAGIC => {
            let mut offset = [0; 8];
            offset.copy_from_slice(&header[8..]);
            Ok(Some(u64::from_le_bytes(offset)))
        }
        Ok(()) => Ok(None),
        Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
        Err(e) => Err(e),
    }
}

fn read_segment(
    file: &File,
    start: u64,
    next: &mut u64,
    limit: usize,
    into: &mut Vec<Record>,
) -> io::Result<()> {
    let mut taken = 0;
    while taken < limit {
        let position = SEGMENT_HEADER + (*next - start);
        let mut header = [0; RECORD_HEADER];
        if !read_whole(file, &mut header, position)? {
            return Ok(());
        }
        let length = u32::from_le_bytes([header[0], header[1], header[2], header[3]]) as usize;
        if length > MAX_RECORD {
            return Ok(());
        }
        let mut data = vec![0; length];
        if !read_whole(file, &mut data, position + RECORD_HEADER as u64)? {
            return Ok(());
        }
        let mut time = [0; 8];
        time.copy_from_slice(&header[8..]);
        let stream = if header[4] == Stream::Stderr as u8 { Stream::Stderr } else { Stream::Stdout };
        into.push(Record { stream, time_ms: u64::from_le_bytes(time), data });
        *next += (RECORD_HEADER + length) as u64;
        taken += length;
    }
    Ok(())
}

fn read_whole(file: &File, buffer: &mut [u8], position: u64) -> io::Result<bool> {
    match file.read_exact_at(buffer, position) {
        Ok(()) => Ok(true),
        Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(e) => Err(e),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn spool(bounds: Bounds) -> (Writer, [File; 3]) {
        let files = [0; 3].map(|_| tempfile::tempfile().unwrap());
        let writer =
            Writer::new([&files[0], &files[1], &files[2]].map(|f| f.try_clone().unwrap().into()), bounds);
        (writer.unwrap(), files)
    }

    fn all(files: &[File; 3]) -> (Vec<Record>, u64) {
        let (mut records, mut gap, mut at) = (Vec::new(), 0, 0);
        loop {
            let read = read(files, at, 1000).unwrap();
            if read.records.is_empty() && read.next == at {
                return (records, gap);
            }
            gap += read.gap;
            at = read.next;
            records.extend(read.records);
        }
    }

    #[test]
    fn what_fits_comes_back_byte_for_byte_with_its_stream() {
        let (mut writer, files) = spool(Bounds { head: 1000, tail: 1000 });
        writer.append(Stream::Stdout, 5, b"out").unwrap();
        writer.append(Stream::Stderr, 6, b"err\xff\0").unwrap();
        let (records, gap) = all(&files);
        assert_eq!(gap, 0);
        assert_eq!(records[0], Record { stream: Stream::Stdout, time_ms: 5, data: b"out".to_vec() });
        assert_eq!(records[1], Record { stream: Stream::Stderr, time_ms: 6, data: b"err\xff\0".to_vec() });
    }

    #[test]
    fn a_flood_keeps_its_head_and_its_tail_and_says_how_much_is_missing() {
        let (mut writer, files) = spool(Bounds { head: 400, tail: 800 });
        for i in 0..1000u32 {
            writer.append(Stream::Stdout, 0, format!("{i:04}").as_bytes()).unwrap();
        }
        let (records, gap) = all(&files);
        assert_eq!(records[0].data, b"0000");
        assert_eq!(records.last().unwrap().data, b"0999");
        assert_eq!(gap, writer.end() - records.len() as u64 * 20);
        assert!(gap > 0 && records.len() > 40);
        let on_disk: u64 = files.iter().map(|f| f.metadata().unwrap().len()).sum();
        assert!(on_disk <= 400 + 800 + 3 * SEGMENT_HEADER);
    }

    #[test]
    fn without_a_tail_what_is_over_the_head_is_a_gap_and_not_an_endless_file() {
        let (mut writer, files) = spool(Bounds { head: 64, tail: 0 });
        for _ in 0..100 {
            writer.append(Stream::Stdout, 0, &[b'x'; 48]).unwrap();
        }
        assert!(files.iter().all(|f| f.metadata().unwrap().len() <= 96));
        assert_eq!(writer.end(), 6400);
    }

    proptest! {
        #[test]
        fn a_follower_loses_nothing_that_was_kept(sizes in prop::collection::vec(0usize..200, 1..60)) {
            let (mut writer, files) = spool(Bounds { head: 1 << 20, tail: 0 });
            let (mut at, mut seen, mut sent) = (0, Vec::new(), Vec::new());
            for (i, size) in sizes.iter().enumerate() {
                let data = vec![i as u8; *size];
                writer.append(Stream::Stdout, 0, &data).unwrap();
                sent.extend(data);
                let got = read(&files, at, 50).unwrap();
                at = got.next;
                seen.extend(got.records.into_iter().flat_map(|r| r.data));
            }
            while at < writer.end() {
                let got = read(&files, at, 50).unwrap();
                at = got.next;
                seen.extend(got.records.into_iter().flat_map(|r| r.data));
            }
            prop_assert_eq!(seen, sent);
        }
    }
}
