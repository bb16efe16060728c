//! The forms in which a secret's value shows up in output.
//!
//! Pure. Each form is a byte string that is replaced where it stands: as it is, as JSON or a URL
//! writes it, as hex, and as base64 at any place within something larger that was encoded.

use std::collections::BTreeSet;

use base64::{Engine, engine::general_purpose as b64};

/// Values shorter than this many bytes are not masked: they would blot out ordinary output.
pub const MIN_MASKED: usize = 4;

/// Above this many bytes only the value itself, its JSON form and its base64 are looked for.
const MANY_FORMS: usize = 4096;

/// Lines of a value of several lines are looked for by themselves from this length on.
const MIN_LINE: usize = 16;

/// Adds every form of `value`.
pub(super) fn add_forms(value: &str, forms: &mut BTreeSet<Vec<u8>>) {
    let mut add = |form: &[u8]| {
        if form.len() >= MIN_MASKED {
            forms.insert(form.to_vec());
        }
    };
    add(value.as_bytes());
    add(json(value).as_bytes());
    base64_forms(value.as_bytes(), &mut add);
    if value.len() > MANY_FORMS {
        return;
    }
    add(json_ascii(value).as_bytes());
    add(json(value).replace('/', "\\/").as_bytes());
    for upper in [true, false] {
        add(percent(value, upper, false).as_bytes());
        add(percent(value, upper, true).as_bytes());
    }
    add(hex::encode(value).as_bytes());
    add(hex::encode_upper(value).as_bytes());
    if value.contains('\n') {
        add(value.replace("\r\n", "\n").as_bytes());
        // A terminal writes line ends as CR LF.
        add(value.replace("\r\n", "\n").replace('\n', "\r\n").as_bytes());
        for line in value.lines().map(str::trim) {
            // The frame of a key file is no secret.
            if line.len() >= MIN_LINE && !line.starts_with("-----") {
                add(line.as_bytes());
            }
        }
    }
}

/// The inside of a JSON string.
fn json(value: &str) -> String {
    let quoted = serde_json::Value::from(value).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}

/// The same from writers that escape all but ASCII.
fn json_ascii(value: &str) -> String {
    let mut out = String::new();
    let mut units = [0; 2];
    for c in json(value).chars() {
        if c.is_ascii() {
            out.push(c);
        } else {
            for unit in c.encode_utf16(&mut units) {
                out.push_str(&format!("\\u{unit:04x}"));
            }
        }
    }
    out
}

fn percent(value: &str, upper: bool, form: bool) -> String {
    let mut out = String::new();
    for b in value.bytes() {
        match b {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                out.push(char::from(b));
            }
            b' ' if form => out.push('+'),
            _ if upper => out.push_str(&format!("%{b:02X}")),
            _ => out.push_str(&format!("%{b:02x}")),
        }
    }
    out
}

/// Base64 of the value when it begins 0, 1 or 2 bytes into a group of three.
///
/// Only the characters that the value alone decides are looked for, so that it is found inside
/// anything; at the end of the encoded text the last character and the padding belong to it too.
fn base64_forms(value: &[u8], add: &mut impl FnMut(&[u8])) {
    for url_safe in [false, true] {
        let encode = |bytes: &[u8]| {
            if url_safe { b64::URL_SAFE_NO_PAD.encode(bytes) } else { b64::STANDARD_NO_PAD.encode(bytes) }
        };
        for lead in 0..3 {
            let mut shifted = vec![0; lead];
            shifted.extend_from_slice(value);
            let text = encode(&shifted);
            let from = (lead * 8).div_ceil(6);
            let decided = shifted.len() * 8 / 6;
            add(&text.as_bytes()[from..decided]);
            let to_end = &text[from..];
            add(to_end.as_bytes());
            let padding = "=".repeat((3 - shifted.len() % 3) % 3);
            let padded = format!("{to_end}{padding}");
            add(padded.as_bytes());
            if lead == 0 && !url_safe {
                // `base64` and PEM writers break lines.
                for width in [76, 64] {
                    if text.len() > width {
                        add(wrapped(&text[..decided], width).as_bytes());
                        add(wrapped(&padded, width).as_bytes());
                    }
                }
            }
        }
    }
}

fn wrapped(text: &str, width: usize) -> String {
    let mut out = String::new();
    for (i, c) in text.chars().enumerate() {
        if i > 0 && i % width == 0 {
            out.push('\n');
        }
        out.push(c);
    }
    out
}
