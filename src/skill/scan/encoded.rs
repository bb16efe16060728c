//! Literals that encode something: base64, hex, escapes, character codes. They are decoded, so that the
//! other rules can look inside.

use std::sync::LazyLock;

use base64::{
    Engine, alphabet,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};
use regex::bytes::Regex;

use super::{pattern::regex, text::Text};

/// Bytes decoded of one text.
const MAX_DECODED: usize = 1 << 20;

/// A literal, decoded.
pub(super) struct Literal {
    pub(super) line: usize,
    pub(super) at: std::ops::Range<usize>,
    pub(super) encoding: &'static str,
    pub(super) bytes: Vec<u8>,
}

type Decode = fn(&[u8]) -> Option<Vec<u8>>;

static ENCODINGS: LazyLock<[(&str, Regex, Decode); 6]> = LazyLock::new(|| {
    [
        // Also over lines, as `base64` breaks them.
        (
            "base64",
            regex(r"[A-Za-z0-9+/_-]{20,}(?:\\?\r?\n[ \t]{0,16}[A-Za-z0-9+/_-]{4,})*={0,2}"),
            base64 as Decode,
        ),
        ("hex", regex(r"(?:[0-9a-fA-F]{2}){12,}"), hexadecimal),
        ("\\x escapes", regex(r"(?:\\x[0-9a-fA-F]{2}){6,}"), escapes),
        ("\\u escapes", regex(r"(?:\\u00[0-9a-fA-F]{2}){6,}"), unicode_escapes),
        ("percent escapes", regex(r"(?:%[0-9a-fA-F]{2}){8,}"), percent),
        (
            "character codes",
            regex(r"(?:\b(?:0x[0-9a-fA-F]{2}|[0-9]{1,3})\s?,\s?){10,}(?:0x[0-9a-fA-F]{2}|[0-9]{1,3})"),
            codes,
        ),
    ]
});

const LENIENT: GeneralPurposeConfig = GeneralPurposeConfig::new()
    .with_decode_allow_trailing_bits(true)
    .with_decode_padding_mode(DecodePaddingMode::Indifferent);
const STANDARD: GeneralPurpose = GeneralPurpose::new(&alphabet::STANDARD, LENIENT);
const URL_SAFE: GeneralPurpose = GeneralPurpose::new(&alphabet::URL_SAFE, LENIENT);

/// Every literal of a text that decodes to text or to a known kind of file.
pub(super) fn literals(text: &Text<'_>) -> Vec<Literal> {
    let mut left = MAX_DECODED;
    let mut found = Vec::new();
    for (encoding, regex, decode) in ENCODINGS.iter() {
        for hit in regex.find_iter(&text.bytes) {
            if hit.len() > left {
                break;
            }
            left -= hit.len();
            if let Some(bytes) = decode(hit.as_bytes()).filter(|b| telling(b)) {
                found.push(Literal { line: text.line(hit.start()), at: hit.range(), encoding, bytes });
            }
        }
    }
    found
}

/// Text that can be read, or a file that is known by its first bytes.
fn telling(bytes: &[u8]) -> bool {
    let text = std::str::from_utf8(bytes).is_ok_and(|text| {
        text.len() >= 6
            && !text.contains(|c: char| c.is_control() && !c.is_ascii_whitespace() && c != '\u{1b}')
    });
    text || super::files::known(bytes).is_some()
}

fn base64(literal: &[u8]) -> Option<Vec<u8>> {
    let text: Vec<u8> =
        literal.iter().copied().filter(|b| !b.is_ascii_whitespace() && !matches!(b, b'=' | b'\\')).collect();
    let engine = if text.contains(&b'-') || text.contains(&b'_') { &URL_SAFE } else { &STANDARD };
    engine.decode(&text).or_else(|_| engine.decode(&text[..text.len() - 1])).ok()
}

fn hexadecimal(literal: &[u8]) -> Option<Vec<u8>> {
    hex::decode(literal).ok()
}

fn escapes(literal: &[u8]) -> Option<Vec<u8>> {
    let digits: Vec<u8> = literal.chunks_exact(4).flat_map(|c| [c[2], c[3]]).collect();
    hex::decode(digits).ok()
}

fn unicode_escapes(literal: &[u8]) -> Option<Vec<u8>> {
    let digits: Vec<u8> = literal.chunks_exact(6).flat_map(|c| [c[4], c[5]]).collect();
    hex::decode(digits).ok()
}

fn percent(literal: &[u8]) -> Option<Vec<u8>> {
    let digits: Vec<u8> = literal.iter().copied().filter(|b| *b != b'%').collect();
    hex::decode(digits).ok()
}

fn codes(literal: &[u8]) -> Option<Vec<u8>> {
    let code = |number: &str| match number.trim().strip_prefix("0x") {
        Some(digits) => u8::from_str_radix(digits, 16).ok(),
        None => number.trim().parse().ok(),
    };
    std::str::from_utf8(literal).ok()?.split(',').map(code).collect()
}
