//! The text of `secrets/env.json`: one flat object of names and strings.
//!
//! Pure. Reports every mistake with its place, and never quotes a value or an unknown name
//! (people swap the two), since faults end up in logs.

use std::collections::BTreeMap;

use serde::de::IgnoredAny;
use zeroize::Zeroizing;

use super::value::SecretValue;
use crate::{error::Fault, ids::SecretName};

/// Names and values in the order of the file.
pub(super) type Entries = Vec<(SecretName, SecretValue)>;

/// Reads the text of a secrets file; empty text is an empty object.
pub(super) fn parse(file: &str, bytes: &[u8]) -> Result<Entries, Vec<Fault>> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let text = std::str::from_utf8(bytes).map_err(|e| {
        let before = String::from_utf8_lossy(&bytes[..e.valid_up_to()]).into_owned();
        let (line, column) = place(&before, before.len());
        vec![Fault::new(file, "not UTF-8 text").at(line, column).help("save the file as UTF-8")]
    })?;
    if text.trim().is_empty() {
        return Ok(Vec::new());
    }
    if let Err(e) = serde_json::from_str::<IgnoredAny>(text) {
        return Err(vec![syntax_fault(file, text, &e)]);
    }
    let Some(members) = members(text) else {
        return Err(vec![Fault::new(file, "the file does not hold a JSON object").help(SHAPE)]);
    };
    let mut faults = Vec::new();
    let mut entries = Entries::new();
    let mut seen = BTreeMap::new();
    for member in members {
        match entry(file, text, &member) {
            Err(fault) => faults.push(fault),
            Ok((name, value)) => {
                if let Some(first) = seen.insert(name.clone(), member.key.0) {
                    let (first, _) = place(text, first);
                    let (line, column) = place(text, member.key.0);
                    faults.push(
                        Fault::new(file, format!("{name} is given twice, first on line {first}"))
                            .at(line, column)
                            .help("keep one of the two"),
                    );
                }
                entries.push((name, value));
            }
        }
        if faults.len() >= MAX_FAULTS {
            break;
        }
    }
    if faults.is_empty() { Ok(entries) } else { Err(faults) }
}

/// Where counting mistakes stops being of use.
const MAX_FAULTS: usize = 100;

const SHAPE: &str = r#"write {"NAME": "value"}"#;

/// The text that [`parse`] reads back.
pub(super) fn render(entries: &[(SecretName, SecretValue)]) -> Zeroizing<String> {
    let mut out = Zeroizing::new(String::with_capacity(
        16 + entries.iter().map(|(n, v)| n.as_str().len() + 2 * v.expose().len() + 12).sum::<usize>(),
    ));
    out.push('{');
    for (i, (name, value)) in entries.iter().enumerate() {
        out.push_str(if i == 0 { "\n  \"" } else { ",\n  \"" });
        out.push_str(name.as_str());
        out.push_str("\": ");
        let quoted = Zeroizing::new(serde_json::Value::from(value.expose()).to_string());
        out.push_str(&quoted);
    }
    out.push_str(if entries.is_empty() { "}\n" } else { "\n}\n" });
    out
}

/// Byte ranges of a member's name and value.
struct Member {
    key: (usize, usize),
    value: (usize, usize),
}

fn entry(file: &str, text: &str, member: &Member) -> Result<(SecretName, SecretValue), Fault> {
    let key: String =
        serde_json::from_str(&text[member.key.0..member.key.1]).map_err(|e| syntax_fault(file, text, &e))?;
    let fault = |offset, message: String| {
        let (line, column) = place(text, offset);
        Fault::new(file, message).at(line, column)
    };
    let name: SecretName = key.parse().map_err(|_| {
        fault(member.key.0, "this is not a valid name for a secret".into()).help(format!(
            "use letters, digits and underscores, not starting with a digit, at most 128 characters; {SHAPE}"
        ))
    })?;
    let raw = &text[member.value.0..member.value.1];
    let kind = match raw.as_bytes().first() {
        Some(b'"') => None,
        Some(b'{') => Some("an object"),
        Some(b'[') => Some("a list"),
        Some(b't' | b'f') => Some("true or false"),
        Some(b'n') => Some("null"),
        _ => Some("a number"),
    };
    if let Some(kind) = kind {
        let message = format!("the value of {name} is {kind}, not a string");
        return Err(fault(member.value.0, message).help("put it between double quotes"));
    }
    let value: String = serde_json::from_str(raw).map_err(|_| {
        let message = format!("the value of {name} has an escape that is not text");
        fault(member.value.0, message).help("write surrogates (\\ud800 to \\udfff) in pairs")
    })?;
    let value = SecretValue::new(value).map_err(|e| fault(member.value.0, format!("{name}: {e}")))?;
    Ok((name, value))
}

/// The members of the object that `text` is; `text` must be valid JSON. None: not an object.
fn members(text: &str) -> Option<Vec<Member>> {
    let b = text.as_bytes();
    let mut at = skip_space(b, 0);
    if b.get(at) != Some(&b'{') {
        return None;
    }
    at = skip_space(b, at + 1);
    let mut found = Vec::new();
    while b.get(at) == Some(&b'"') {
        let key = (at, end_of_value(b, at));
        let value = skip_space(b, skip_space(b, key.1) + 1); // past the colon
        let end = end_of_value(b, value);
        found.push(Member { key, value: (value, end) });
        at = skip_space(b, skip_space(b, end) + 1); // past the comma or the brace
    }
    Some(found)
}

fn skip_space(b: &[u8], mut at: usize) -> usize {
    while b.get(at).is_some_and(u8::is_ascii_whitespace) {
        at += 1;
    }
    at
}

/// Where the value that begins at `at` ends.
fn end_of_value(b: &[u8], mut at: usize) -> usize {
    let mut depth = 0usize;
    while let Some(&c) = b.get(at) {
        match c {
            b'"' => {
                at += 1;
                while b.get(at).is_some_and(|c| *c != b'"') {
                    at += if b[at] == b'\\' { 2 } else { 1 };
                }
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            // A number or a word: it goes on until something that cannot be in one.
            _ if depth == 0 => {
                while b.get(at).is_some_and(|c| c.is_ascii_alphanumeric() || b"+-.".contains(c)) {
                    at += 1;
                }
                return at;
            }
            _ => {}
        }
        at += 1;
        if depth == 0 {
            return at;
        }
    }
    b.len()
}

/// Line and column of a byte offset, both 1-based, the column in characters.
fn place(text: &str, offset: usize) -> (usize, usize) {
    let before = &text[..offset];
    let line_start = before.rfind('\n').map_or(0, |i| i + 1);
    (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
}

fn syntax_fault(file: &str, text: &str, e: &serde_json::Error) -> Fault {
    let what = e.to_string();
    let what = what.split(" at line ").next().unwrap_or_default();
    // The parser counts columns in bytes and points at the last byte that it read.
    let line = text.lines().nth(e.line().saturating_sub(1)).unwrap_or("");
    let mut end = e.column().saturating_sub(1).min(line.len());
    while !line.is_char_boundary(end) {
        end -= 1;
    }
    Fault::new(file, format!("not valid JSON: {what}"))
        .at(e.line().max(1), line[..end].chars().count() + 1)
        .help(SHAPE)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn faults(text: &str) -> Vec<String> {
        parse("secrets/env.json", text.as_bytes())
            .unwrap_err()
            .iter()
            .map(|f| format!("{}:{} {}", f.line.unwrap_or(0), f.column.unwrap_or(0), f.message))
            .collect()
    }

    #[test]
    fn the_order_of_the_file_is_kept_also_with_a_bom_and_windows_line_ends() {
        let read =
            parse("f", b"\xef\xbb\xbf{\r\n \"B\" : \"1\",\r\n\"A\":\"two\\n\\u00e9\\\"\"\r\n}\r\n").unwrap();
        let read: Vec<_> = read.iter().map(|(n, v)| (n.as_str(), v.expose())).collect();
        assert_eq!(read, [("B", "1"), ("A", "two\n\u{e9}\"")]);
        assert!(parse("f", b" \n").unwrap().is_empty());
        assert!(parse("f", b"{}").unwrap().is_empty());
    }

    #[test]
    fn every_mistake_is_reported_with_its_place() {
        let text = "{\n  \"OK\": \"x\",\n  \"A\": 12,\n  \"\u{e9}\u{e9} b\": \"v\", \"B\": [\"}\", {\"x\": \"]\"}],\n  \"OK\": \"y\", \"C\": null, \"D\": true, \"E\": {}, \"F\": \"a\\u0000b\", \"G\": \"\\ud800\"\n}";
        assert_eq!(
            faults(text),
            [
                "3:8 the value of A is a number, not a string",
                "4:3 this is not a valid name for a secret",
                "4:21 the value of B is a list, not a string",
                "5:3 OK is given twice, first on line 2",
                "5:19 the value of C is null, not a string",
                "5:30 the value of D is true or false, not a string",
                "5:41 the value of E is an object, not a string",
                "5:50 F: the value contains a NUL byte, which no environment variable can hold",
                "5:67 the value of G has an escape that is not text",
            ]
        );
    }

    #[test]
    fn broken_json_is_placed_and_never_quoted() {
        let told = faults("{\n  \"A\": \"\u{e9}sesame\" \"B\": \"x\"\n}");
        assert_eq!(told, ["2:18 not valid JSON: expected `,` or `}`"]);
        assert!(!told[0].contains("sesame"));
        assert_eq!(faults("[1]"), ["0:0 the file does not hold a JSON object"]);
        assert_eq!(faults("{\"A\":\"x\"").len(), 1);
        assert_eq!(parse("f", b"{\n\"A\":\"\xff\"}").unwrap_err()[0].line, Some(2));
    }

    #[test]
    fn a_million_brackets_are_an_answer_not_a_crash() {
        assert_eq!(faults(&"[".repeat(1 << 20)).len(), 1);
        let deep = format!("{{\"A\":{}{}}}", "[".repeat(100_000), "]".repeat(100_000));
        assert_eq!(faults(&deep), ["1:6 the value of A is a list, not a string"]);
    }

    #[test]
    fn a_file_full_of_entries_or_mistakes_is_read_in_time() {
        let line = |i: usize| format!("\"N_{i}\": \"v\"");
        let many: Vec<_> = (0..60_000).map(line).collect();
        let text = format!("{{{}}}", many.join(",\n"));
        assert_eq!(parse("f", text.as_bytes()).unwrap().len(), 60_000);
        let wrong = text.replace("\"v\"", "1");
        assert_eq!(faults(&wrong).len(), MAX_FAULTS);
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(values in prop::collection::vec("[^\\x00]{0,40}", 0..8)) {
            let entries: Entries = values
                .iter()
                .enumerate()
                .map(|(i, v)| (format!("N_{i}").parse().unwrap(), SecretValue::new(v.clone()).unwrap()))
                .collect();
            prop_assert_eq!(parse("f", render(&entries).as_bytes()).unwrap(), entries);
        }

        #[test]
        fn no_text_crashes_the_reader(text in "[\\[\\]{}\",:\\\\ \nAa1\u{e9}tn.-]{0,60}") {
            if let Err(faults) = parse("f", text.as_bytes()) {
                prop_assert!(!faults.is_empty());
            }
        }
    }
}
