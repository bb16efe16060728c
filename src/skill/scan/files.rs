//! Files that nobody can read: programs and archives, known by their first bytes whatever their name is.
//!
//! Links and special files never get here: whoever copied the skill refused them.

use super::{
    encoded::Literal,
    finding::{
        Findings, Rule,
        Severity::{self, Danger, Info, Warning},
    },
    text::Text,
};

const PROGRAM: &str = "Machine code that nobody can read: ask for its source, or remove it";
const ARCHIVE: &str = "An archive inside the skill: what is in it was not looked at; unpack it and look";

/// What the first bytes say: rule, severity, name of the format.
type Known = (Rule, Severity, &'static str);

/// The format of a program or archive.
pub(super) fn known(bytes: &[u8]) -> Option<Known> {
    let program = |name| Some((Rule::Binary, Danger, name));
    let archive = |name| Some((Rule::NestedArchive, Warning, name));
    match bytes {
        [0x7f, b'E', b'L', b'F', ..] => program("ELF program"),
        [b'M', b'Z', ..] if is_pe(bytes) => program("Windows program"),
        [0xfe, 0xed, 0xfa, 0xce | 0xcf, ..] | [0xce | 0xcf, 0xfa, 0xed, 0xfe, ..] => {
            program("Mach-O program")
        }
        [0xca, 0xfe, 0xba, 0xbe, ..] => program("Mach-O or Java program"),
        [0, b'a', b's', b'm', 1, 0, 0, 0, ..] => program("WebAssembly program"),
        [b'd', b'e', b'x', b'\n', ..] => program("Android program"),
        // Magic numbers 3,000 to 3,999, then flags of which most bytes are zero (PEP 552).
        [_, 0x0b..=0x0f, b'\r', b'\n', _, 0, ..] => program("Python bytecode"),
        [b'!', b'<', b'a', b'r', b'c', b'h', b'>', b'\n', ..] => program("library or Debian package"),
        [0x1b, b'L', b'u', b'a', ..] => program("Lua bytecode"),
        [b'P', b'K', 3, 4, ..] => Some(zip(bytes)),
        [0x1f, 0x8b, 8, ..] => archive("gzip archive"),
        [b'B', b'Z', b'h', b'1'..=b'9', b'1', b'A', b'Y', ..] => archive("bzip2 archive"),
        [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => archive("xz archive"),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => archive("zstd archive"),
        [b'7', b'z', 0xbc, 0xaf, 0x27, 0x1c, ..] => archive("7z archive"),
        [b'R', b'a', b'r', b'!', 0x1a, 7, ..] => archive("RAR archive"),
        _ if bytes.get(257..262) == Some(b"ustar") => archive("tar archive"),
        _ => None,
    }
}

/// The header says where the PE signature stands.
fn is_pe(bytes: &[u8]) -> bool {
    let at = bytes.get(0x3c..0x40).and_then(|b| b.try_into().ok()).map_or(0, u32::from_le_bytes) as usize;
    bytes.get(at..at.saturating_add(4)) == Some(b"PE\0\0")
}

/// Office documents and fonts of the web are ZIP archives too; bit 0 of the flags means encryption (APPNOTE 4.4.4).
fn zip(bytes: &[u8]) -> Known {
    let name = bytes.get(30..).unwrap_or_default();
    if bytes.get(6).is_some_and(|flags| flags & 1 == 1) {
        (Rule::ArchivePassword, Danger, "ZIP archive with a password")
    } else if [&b"[Content_Types].xml"[..], b"_rels/", b"mimetype", b"word/", b"xl/", b"ppt/", b"docProps/"]
        .iter()
        .any(|part| name.starts_with(part))
    {
        (Rule::NestedArchive, Info, "office document")
    } else {
        (Rule::NestedArchive, Warning, "ZIP archive")
    }
}

/// Pictures, fonts and the like, which have nothing that the rules could read.
fn harmless(bytes: &[u8]) -> bool {
    const MAGIC: [&[u8]; 13] = [
        b"\x89PNG\r\n\x1a\n",
        b"\xff\xd8\xff",
        b"GIF87a",
        b"GIF89a",
        b"wOFF",
        b"wOF2",
        b"\0\x01\0\0\0",
        b"OTTO\0",
        b"ID3",
        b"OggS",
        b"fLaC",
        b"\0\0\x01\0",
        b"RIFF",
    ];
    MAGIC.iter().any(|magic| bytes.starts_with(magic)) || bytes.get(4..8) == Some(b"ftyp")
}

fn message(rule: Rule) -> &'static str {
    match rule {
        Rule::Binary => PROGRAM,
        Rule::ArchivePassword => "An archive with a password: nothing can look into it before it is unpacked",
        _ => ARCHIVE,
    }
}

/// Notes what a file is; whether it is nothing that can be read as text.
pub(super) fn check(bytes: &[u8], findings: &mut Findings) -> bool {
    let Some((rule, severity, name)) = known(bytes) else {
        return harmless(bytes) && bytes.contains(&0);
    };
    findings.push(rule, severity, 1, name, message(rule));
    true
}

/// Notes a program or archive that a literal encodes.
pub(super) fn inside(text: &Text<'_>, literal: &Literal, findings: &mut Findings) -> bool {
    // Short texts begin like anything.
    let Some((rule, severity, name)) = known(&literal.bytes).filter(|_| literal.bytes.len() >= 24) else {
        return false;
    };
    let evidence = format!(
        "{name}, {} bytes, as {}: {}",
        literal.bytes.len(),
        literal.encoding,
        text.around(&literal.at)
    );
    findings.push(rule, severity.max(Warning), literal.line, &evidence, message(rule));
    true
}
