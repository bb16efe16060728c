//! A tree as YAML that every reader understands alike: block style, texts in double quotes on one line.
//!
//! No `---` stands within a value, since the reference reader of the format would end the frontmatter there.

use crate::skill::yaml::{Kind, Node};

/// Writes `key: value` at this indentation.
pub(super) fn entry(out: &mut String, indent: usize, key: &str, node: &Node) {
    out.push_str(&" ".repeat(indent));
    let simple = key.starts_with(|c: char| c.is_ascii_alphabetic())
        && key.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
        || is_dashed(key);
    out.push_str(&if simple { key.to_owned() } else { quoted(key) });
    out.push(':');
    value(out, indent, node);
}

/// `allowed-tools` and the like.
fn is_dashed(key: &str) -> bool {
    key.split('-').all(|part| !part.is_empty() && part.bytes().all(|b| b.is_ascii_lowercase()))
}

/// What stands behind a colon or a dash, with the line's end.
fn value(out: &mut String, indent: usize, node: &Node) {
    match &node.kind {
        Kind::Seq(items) if items.is_empty() => out.push_str(" []\n"),
        Kind::Map(entries) if entries.is_empty() => out.push_str(" {}\n"),
        Kind::Scalar { text, plain } => {
            out.push(' ');
            if *plain && node.is_null() {
                out.push_str("null");
            } else if *plain && is_bare(text) {
                out.push_str(text);
            } else {
                out.push_str(&quoted(text));
            }
            out.push('\n');
        }
        Kind::Seq(items) => {
            out.push('\n');
            for item in items {
                out.push_str(&" ".repeat(indent + 2));
                out.push('-');
                value(out, indent + 2, item);
            }
        }
        Kind::Map(entries) => {
            out.push('\n');
            for (key, node) in entries {
                entry(out, indent + 2, key, node);
            }
        }
    }
}

/// Numbers, booleans and single words, which mean something without quotes.
fn is_bare(text: &str) -> bool {
    let mut bytes = text.bytes();
    let first = bytes.next();
    let start = match first {
        Some(b'-' | b'+' | b'.') => text.as_bytes().get(1).is_some_and(u8::is_ascii_digit),
        Some(b) => b.is_ascii_alphanumeric(),
        None => false,
    };
    start
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'+' | b'-'))
        && !text.contains("---")
}

/// In double quotes; what YAML does not print is escaped.
pub(super) fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    let mut dashes = 0;
    for c in text.chars() {
        dashes = if c == '-' { dashes + 1 } else { 0 };
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            '-' if dashes == 3 => {
                out.push_str("\\x2d");
                dashes = 0;
            }
            c if c.is_control() || hidden(c) => {
                let code = u32::from(c);
                let escape = if code > 0xffff { format!("\\U{code:08x}") } else { format!("\\u{code:04x}") };
                out.push_str(&escape);
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// Line ends of older YAML, byte order marks and what is no character.
fn hidden(c: char) -> bool {
    matches!(c, '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}')
        || u32::from(c) & 0xfffe == 0xfffe
}
