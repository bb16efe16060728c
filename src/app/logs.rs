//! The kept output of an agent's `main`, masked: this container's and the one before it.

use std::{fs::File, time::Duration};

use bytes::Bytes;
use jiff::Timestamp;
use tokio::sync::mpsc;

use super::{hive::Hive, types::AppError};
use crate::{
    ids::AgentId,
    paths::AgentDir,
    secrets::mask::{MaskStream, Masker},
    supervisor::layout::main_segments,
    wire::spool::{self, Record, Stream},
};

/// How often a follower looks when the link says nothing.
const POLL: Duration = Duration::from_millis(200);
const CHUNK: usize = 256 * 1024;

/// What of the logs is wanted.
#[derive(Debug, Clone, Copy, Default)]
pub struct LogRequest {
    /// Go on with what comes.
    pub follow: bool,
    /// Only the last lines.
    pub tail: Option<usize>,
    /// Each line begins with its time, RFC 3339.
    pub timestamps: bool,
    /// Only one stream.
    pub stream: Option<LogStream>,
}

/// A stream of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogStream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

impl Hive {
    /// The logs of an agent's `main`; the channel ends when all is sent and nobody follows.
    ///
    /// # Errors
    /// There is no such agent.
    pub async fn logs(&self, id: &AgentId, request: LogRequest) -> Result<mpsc::Receiver<Bytes>, AppError> {
        let agent = self.find_agent(id)?;
        let (sender, receiver) = mpsc::channel(8);
        let dir = agent.dir.clone();
        let masker = self.world().masker.clone();
        let stopping = self.stopping.clone();
        tokio::spawn(async move {
            let mut printer = Printer::new(request, masker);
            let first = tokio::task::block_in_place(|| printer.history(&dir));
            if !first.is_empty() && sender.send(first).await.is_err() {
                return;
            }
            while request.follow && !stopping.is_cancelled() {
                tokio::select! {
                    () = tokio::time::sleep(POLL) => {}
                    () = sender.closed() => return,
                    () = stopping.cancelled() => return,
                }
                let more = tokio::task::block_in_place(|| printer.more(&dir));
                if !more.is_empty() && sender.send(more).await.is_err() {
                    return;
                }
            }
        });
        Ok(receiver)
    }
}

pub(super) struct Printer {
    request: LogRequest,
    masks: [MaskStream; 2],
    masker: Masker,
    /// The spool that is being followed: its first file's identity, and the offset in it.
    position: Option<(u64, u64)>,
    at_line_start: bool,
}

impl Printer {
    pub(super) fn new(request: LogRequest, masker: Masker) -> Self {
        let masks = [masker.stream(), masker.stream()];
        Self { request, masks, masker, position: None, at_line_start: true }
    }

    fn history(&mut self, dir: &AgentDir) -> Bytes {
        let mut text = Vec::new();
        if let Some((files, _)) = open(dir, true) {
            self.drain(&files, 0, &mut text);
            self.end_of_spool(&mut text);
        }
        if let Some((files, inode)) = open(dir, false) {
            let next = self.drain(&files, 0, &mut text);
            self.position = Some((inode, next));
        }
        if !self.request.follow {
            self.end_of_spool(&mut text);
        }
        if let Some(lines) = self.request.tail {
            text = last_lines(text, lines);
        }
        text.into()
    }

    fn more(&mut self, dir: &AgentDir) -> Bytes {
        let mut text = Vec::new();
        let Some((files, inode)) = open(dir, false) else { return Bytes::new() };
        let from = match self.position {
            Some((known, at)) if known == inode => at,
            // A new container: what the last one said at its end first.
            Some((_, at)) => {
                if let Some((previous, _)) = open(dir, true) {
                    self.drain(&previous, at, &mut text);
                    self.end_of_spool(&mut text);
                }
                0
            }
            None => 0,
        };
        let next = self.drain(&files, from, &mut text);
        self.position = Some((inode, next));
        text.into()
    }

    pub(super) fn end_of_spool(&mut self, text: &mut Vec<u8>) {
        for mask in 0..2 {
            let rest = std::mem::replace(&mut self.masks[mask], self.masker.stream()).finish();
            self.print(&rest, None, text);
        }
    }

    pub(super) fn drain(&mut self, files: &[File; 3], mut at: u64, text: &mut Vec<u8>) -> u64 {
        while let Ok(read) = spool::read(files, at, CHUNK) {
            if read.gap > 0 {
                text.extend_from_slice(super::runs::gap_text(read.gap).as_bytes());
                self.at_line_start = true;
            }
            for record in &read.records {
                self.record(record, text);
            }
            if read.next == at {
                break;
            }
            at = read.next;
        }
        at
    }

    fn record(&mut self, record: &Record, text: &mut Vec<u8>) {
        let (index, stream) = match record.stream {
            Stream::Stdout => (0, LogStream::Stdout),
            Stream::Stderr => (1, LogStream::Stderr),
        };
        if self.request.stream.is_some_and(|wanted| wanted != stream) {
            return;
        }
        let piece = self.masks[index].push(&record.data);
        self.print(&piece, Some(record.time_ms), text);
    }

    fn print(&mut self, piece: &[u8], time_ms: Option<u64>, text: &mut Vec<u8>) {
        if !self.request.timestamps {
            text.extend_from_slice(piece);
            return;
        }
        let time = time_ms
            .and_then(|ms| Timestamp::from_millisecond(i64::try_from(ms).ok()?).ok())
            .unwrap_or_else(Timestamp::now);
        for line in piece.split_inclusive(|b| *b == b'\n') {
            if self.at_line_start {
                text.extend_from_slice(format!("{time:.3} ").as_bytes());
            }
            text.extend_from_slice(line);
            self.at_line_start = line.ends_with(b"\n");
        }
    }
}

fn open(dir: &AgentDir, previous: bool) -> Option<([File; 3], u64)> {
    use std::os::unix::fs::MetadataExt;
    let files: Vec<File> =
        main_segments(dir, previous).iter().map(File::open).collect::<Result<_, _>>().ok()?;
    let inode = files[0].metadata().ok()?.ino();
    Some((files.try_into().ok()?, inode))
}

fn last_lines(text: Vec<u8>, lines: usize) -> Vec<u8> {
    if lines == 0 {
        return Vec::new();
    }
    let body = text.strip_suffix(b"\n").unwrap_or(&text);
    let mut ends = body.iter().enumerate().rev().filter(|(_, b)| **b == b'\n').map(|(i, _)| i);
    match ends.nth(lines - 1) {
        Some(end) => text[end + 1..].to_vec(),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_are_counted_with_and_without_a_final_line_end() {
        let last = |text: &str, n| String::from_utf8(last_lines(text.as_bytes().to_vec(), n)).unwrap();
        assert_eq!(last("a\nb\nc\n", 2), "b\nc\n");
        assert_eq!(last("a\nb\nc", 2), "b\nc");
        assert_eq!(last("a\n", 5), "a\n");
        assert_eq!(last("a\n", 0), "");
        assert_eq!(last("", 3), "");
    }
}
