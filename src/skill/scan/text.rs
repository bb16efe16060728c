//! A file as the rules read it: UTF-8 without hidden characters, with lines, and whether it is a script.
//!
//! Line ends are never removed, so a line of this text is the same line of the file.

use std::{borrow::Cow, ops::Range};

use crate::skill::{check::SCRIPT_EXTENSIONS, diff::visible::invisible};

/// Extensions of programs, besides those that every agent image can run.
const MORE_SCRIPTS: [&str; 20] = [
    "bat", "cmd", "fish", "go", "jsx", "ksh", "lua", "mts", "php", "pl", "pm", "ps1", "psm1", "r", "rb",
    "rs", "tsx", "vbs", "zsh", "cts",
];
const PROSE: [&str; 9] = ["md", "markdown", "mdx", "txt", "rst", "adoc", "html", "htm", ""];
/// Bytes on either side of a hit that can change what it means.
const NEAR: usize = 400;
/// Bytes of evidence around a hit, before it is escaped and cut.
const AROUND: usize = 190;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Shell,
    Script,
    Prose,
    Data,
}

/// A text in which rules look.
pub(super) struct Text<'a> {
    pub(super) bytes: Cow<'a, [u8]>,
    kind: Kind,
    starts: Vec<usize>,
    /// Whether the bytes are no text throughout.
    broken: bool,
    /// Line of the file and encoding, when this was decoded from a literal.
    within: Option<(usize, &'static str)>,
}

/// A hidden character: its line, its neighbours, and itself.
pub(super) struct Hidden {
    pub(super) line: usize,
    pub(super) at: usize,
    pub(super) before: Option<char>,
    pub(super) after: Option<char>,
    pub(super) c: char,
}

impl<'a> Text<'a> {
    /// Reads a file; what was hidden is taken out and given by itself.
    pub(super) fn read(path: &str, bytes: &'a [u8], executable: bool) -> (Self, Vec<Hidden>) {
        let kind = kind(path, bytes, executable);
        let broken = std::str::from_utf8(bytes).is_err();
        let utf8 = utf16(bytes).map_or_else(|| String::from_utf8_lossy(bytes), Cow::Owned);
        let utf8 = match utf8 {
            Cow::Borrowed(text) => Cow::Borrowed(text.strip_prefix('\u{feff}').unwrap_or(text)),
            owned @ Cow::Owned(_) => owned,
        };
        let hidden = hidden(&utf8);
        let clean = if hidden.is_empty() { utf8 } else { Cow::Owned(without_hidden(&utf8)) };
        let bytes = match clean {
            Cow::Borrowed(text) => Cow::Borrowed(text.as_bytes()),
            Cow::Owned(text) => Cow::Owned(text.into_bytes()),
        };
        let starts = line_starts(&bytes);
        (Self { bytes, kind, starts, broken, within: None }, hidden)
    }

    /// What was decoded from a literal in this text.
    pub(super) fn within(&self, line: usize, encoding: &'static str, bytes: Vec<u8>) -> Text<'static> {
        let within = self.within.or(Some((line, encoding)));
        Text { starts: line_starts(&bytes), bytes: Cow::Owned(bytes), kind: self.kind, broken: false, within }
    }

    pub(super) fn is_script(&self) -> bool {
        matches!(self.kind, Kind::Script | Kind::Shell)
    }

    /// Whether the bytes are no text throughout: data holds any character by chance.
    pub(super) fn is_broken(&self) -> bool {
        self.broken
    }

    pub(super) fn is_shell(&self) -> bool {
        self.kind == Kind::Shell
    }

    pub(super) fn is_prose(&self) -> bool {
        self.kind == Kind::Prose
    }

    /// How this text was encoded in the file, if it was.
    pub(super) fn hidden_in(&self) -> Option<&'static str> {
        self.within.map(|(_, how)| how)
    }

    /// The file's 1-based line of an offset.
    pub(super) fn line(&self, at: usize) -> usize {
        self.within.map_or_else(|| self.starts.partition_point(|start| *start <= at), |(line, _)| line)
    }

    /// The whole line in which an offset stands.
    pub(super) fn whole_line(&self, at: usize) -> &[u8] {
        let range = self.line_range(at);
        &self.bytes[range]
    }

    /// The bytes of the line in which an offset stands.
    pub(super) fn line_range(&self, at: usize) -> Range<usize> {
        let index = self.starts.partition_point(|start| *start <= at);
        let start = self.starts[index - 1];
        start..self.starts.get(index).map_or(self.bytes.len(), |next| next - 1)
    }

    /// The hit and its line, of which so much that a line without end costs no more than others.
    pub(super) fn near(&self, place: &Range<usize>) -> &[u8] {
        let line = self.line_range(place.start);
        let start = line.start.max(place.start.saturating_sub(NEAR));
        &self.bytes[start..line.end.min(place.end + NEAR).max(place.end)]
    }

    /// What stands before an offset in its line, as far as [`Self::near`] goes.
    pub(super) fn before(&self, at: usize) -> &[u8] {
        &self.bytes[self.line_range(at).start.max(at.saturating_sub(NEAR))..at]
    }

    /// The line of a hit, or the part of a long line.
    pub(super) fn around(&self, place: &Range<usize>) -> String {
        let line = self.line_range(place.start);
        let start = if place.start - line.start > AROUND / 2 { place.start } else { line.start };
        let end = line.end.max(place.end).min(start + 2 * AROUND);
        String::from_utf8_lossy(&self.bytes[start..end.max(start)]).trim().to_owned()
    }
}

fn kind(path: &str, bytes: &[u8], executable: bool) -> Kind {
    let name = path.rsplit('/').next().unwrap_or(path);
    let extension = name.rsplit_once('.').map_or("", |(_, ext)| ext).to_ascii_lowercase();
    let ext = extension.as_str();
    if ["sh", "bash", "zsh", "ksh"].contains(&ext) {
        Kind::Shell
    } else if bytes.starts_with(b"#!") || SCRIPT_EXTENSIONS.contains(&ext) || MORE_SCRIPTS.contains(&ext) {
        Kind::Script
    } else if PROSE.contains(&ext) {
        if executable && ext.is_empty() { Kind::Script } else { Kind::Prose }
    } else if executable {
        Kind::Script
    } else {
        Kind::Data
    }
}

/// Text that begins with a byte order mark of UTF-16.
fn utf16(bytes: &[u8]) -> Option<String> {
    let unit: fn([u8; 2]) -> u16 = match bytes {
        [0xff, 0xfe, ..] => u16::from_le_bytes,
        [0xfe, 0xff, ..] => u16::from_be_bytes,
        _ => return None,
    };
    let units: Vec<u16> = bytes[2..].chunks_exact(2).map(|pair| unit([pair[0], pair[1]])).collect();
    Some(String::from_utf16_lossy(&units))
}

/// Line separators are shown as line ends by some editors; they count as text here.
fn is_hidden(c: char) -> bool {
    invisible(c) || matches!(c, '\u{1b}' | '\u{8}' | '\u{fe0e}' | '\u{fe0f}' | '\u{9b}')
}

fn hidden(text: &str) -> Vec<Hidden> {
    let mut found = Vec::new();
    if text.is_ascii() && !text.contains(['\u{1b}', '\u{8}']) {
        return found;
    }
    let mut line = 1;
    let mut before = None;
    let mut chars = text.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        if is_hidden(c) {
            let after = chars.peek().map(|(_, c)| *c);
            found.push(Hidden { line, at, before, after, c });
        }
        line += usize::from(c == '\n');
        before = Some(c);
    }
    found
}

fn without_hidden(text: &str) -> String {
    text.chars().filter(|c| !is_hidden(*c)).collect()
}

fn line_starts(bytes: &[u8]) -> Vec<usize> {
    let ends = bytes.iter().enumerate().filter(|(_, b)| **b == b'\n');
    std::iter::once(0).chain(ends.map(|(at, _)| at + 1)).collect()
}
