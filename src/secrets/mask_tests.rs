use base64::{Engine, engine::general_purpose as b64};
use proptest::prelude::*;

use super::*;

fn masker(values: &[&str]) -> Masker {
    let values: Vec<_> = values.iter().map(|v| SecretValue::new(*v).unwrap()).collect();
    Masker::new(&values)
}

fn in_pieces(masker: &Masker, text: &[u8], size: usize) -> Vec<u8> {
    let mut stream = masker.stream();
    let mut out = Vec::new();
    for piece in text.chunks(size) {
        out.extend(stream.push(piece));
    }
    out.extend(stream.finish());
    out
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|w| w == part)
}

#[test]
fn a_value_is_masked_however_the_stream_is_cut() {
    let m = masker(&["hunter22", "s3cr3t"]);
    let text = b"hunter22 hunter2 xs3cr3ts3cr3t hunterhunter22";
    for size in 1..=text.len() {
        assert_eq!(in_pieces(&m, text, size), b"*** hunter2 x****** hunter***", "{size}");
    }
}

#[test]
fn of_overlapping_values_the_longest_is_masked() {
    let m = masker(&["token", "token-long", "long-tail"]);
    for size in 1..30 {
        let out = in_pieces(&m, b"token-long-tail token-lon token", size);
        assert_eq!(out, b"***-tail ***-lon ***", "{size}");
    }
}

#[test]
fn output_goes_on_at_once_unless_it_may_begin_a_value() {
    let m = masker(&["hunter22"]);
    let mut s = m.stream();
    assert_eq!(s.push(b"ready\n"), b"ready\n");
    assert_eq!(s.push(b"the hun"), b"the ");
    assert_eq!(s.held(), 3);
    assert_eq!(s.push(b"gry"), b"hungry");
    assert_eq!(s.push(b"hunter"), b"");
    assert_eq!(s.flush(), b"hunter");
    assert_eq!(s.push(b"hunter22"), b"***");
    assert_eq!(s.finish(), b"");
}

#[test]
fn common_encodings_of_a_value_are_masked() {
    let value = "p\u{e4}ss/wo?rd \"1\"";
    let m = masker(&[value]);
    for form in [
        serde_json::to_string(value).unwrap(),
        r#"{"k":"p\u00e4ss/wo?rd \"1\""}"#.to_owned(),
        r#"{"k":"päss\/wo?rd \"1\""}"#.to_owned(),
        "p%C3%A4ss%2Fwo%3Frd%20%221%22".to_owned(),
        "p%c3%a4ss%2fwo%3frd+%221%22".to_owned(),
        hex::encode(value),
        hex::encode_upper(value),
        b64::STANDARD.encode(value),
        b64::STANDARD_NO_PAD.encode(value),
        b64::URL_SAFE.encode(value),
        b64::URL_SAFE_NO_PAD.encode(value),
    ] {
        let text = format!("<{form}>");
        let masked = m.mask_str(&text);
        let left: String = masked.replace(MASK, "");
        assert!(left.len() <= 10, "{form} became {masked}");
    }
    assert_eq!(m.mask_str(&format!("<{}>", b64::STANDARD.encode(value))), "<***>");
}

#[test]
fn base64_of_something_that_contains_the_value_is_masked_at_every_alignment() {
    let value = "correct-horse-battery";
    let m = masker(&[value]);
    for before in 0..7 {
        for after in 0..4 {
            let plain = format!("{}{value}{}", "u".repeat(before), "z".repeat(after));
            for text in [b64::STANDARD.encode(&plain), b64::URL_SAFE_NO_PAD.encode(&plain)] {
                let masked = m.mask_str(&text);
                assert!(masked.contains(MASK), "{plain}: {text}");
                // At most one character on either side still holds some bits of the value.
                let kept = masked.len() - MASK.len();
                assert!(kept * 3 / 4 <= before + after + 3, "{text} became {masked}");
            }
        }
    }
    let long = "k".repeat(100);
    let mut lines = b64::STANDARD.encode(&long);
    lines.insert(76, '\n');
    assert_eq!(masker(&[&long]).mask_str(&lines), "***");
    let mut with_line_end = b64::STANDARD.encode(format!("{long}\n"));
    with_line_end.insert(76, '\n');
    let masked = masker(&[&long]).mask_str(&with_line_end).into_owned();
    assert!(masked.starts_with(MASK) && masked.len() <= 8, "{masked}");
}

#[test]
fn the_lines_of_a_key_are_masked_one_by_one_too() {
    let key = "-----BEGIN KEY-----\nMIIEvQIBADANBgkqhkiG9w0B\nAQEFAASCBKcwggSjAgEAAoIB\n-----END KEY-----\n";
    let m = masker(&[key]);
    assert_eq!(m.mask_str(key), "***");
    assert_eq!(m.mask_str(&key.replace('\n', "\r\n")), "***");
    assert_eq!(m.mask_str("  MIIEvQIBADANBgkqhkiG9w0B\n-----BEGIN KEY-----"), "  ***\n-----BEGIN KEY-----");
}

#[test]
fn names_texts_and_numbers_of_json_are_masked_and_it_stays_json() {
    let masker = masker(&["hunter22", "1234567890", "a\"b}]c\nd"]);
    let value = serde_json::json!({
        "hunter22": [1234567890, 5, null, true, "x hunter22 y"],
        "quoted": "a\"b}]c\nd",
    });
    let masked = serde_json::json!({"***": ["***", 5, null, true, "x *** y"], "quoted": "***"});
    assert_eq!(masker.mask_json(&value), masked);
}

#[test]
fn short_values_are_not_masked_and_are_named() {
    let names: Vec<SecretName> = ["A", "B", "C"].iter().map(|s| s.parse().unwrap()).collect();
    let values = ["abc", "abcd", ""].map(|v| SecretValue::new(v).unwrap());
    let told = unmaskable(names.iter().zip(&values));
    assert_eq!(told, [&names[0]]);
    assert_eq!(Masker::new(&values).mask_str("abc abcd"), "abc ***");
}

#[test]
fn bytes_that_are_no_text_pass_unchanged() {
    let m = masker(&["hunter22"]);
    let text = b"\xff\xfe\x00hunter22\xc3";
    assert_eq!(in_pieces(&m, text, 1), b"\xff\xfe\x00***\xc3");
    assert!(matches!(m.mask(b"\xff\xfe"), Cow::Borrowed(_)));
    assert_eq!(masker(&[]).mask(text), Cow::Borrowed(text));
    assert_eq!(in_pieces(&masker(&[]), text, 2), text);
}

#[test]
fn the_longest_value_and_a_repetitive_stream_end_in_time() {
    let long = "a".repeat(super::super::MAX_VALUE);
    let m = masker(&[&long, "b-short-one"]);
    let almost = format!("{}c", "a".repeat(super::super::MAX_VALUE - 1));
    assert_eq!(in_pieces(&m, almost.as_bytes(), 8192), almost.as_bytes());
    assert_eq!(in_pieces(&m, long.as_bytes(), 1000), MASK.as_bytes());
}

#[test]
fn the_masker_prints_no_value() {
    let m = masker(&["hunter22"]);
    let mut s = m.stream();
    assert_eq!(s.push(b"hunter2"), b"");
    assert!(!format!("{m:?}").contains("hunter"));
    assert!(!format!("{s:?}").contains("hunter"));
}

#[test]
fn a_pause_shows_two_letters_at_most_and_the_value_is_masked_all_the_same() {
    let m = masker(&["hunter22", "hush-hush"]);
    for (pieces, expected) in [
        (vec!["x hunt", "er22 y"], "x hu*** y"),
        (vec!["h", "u", "n", "ter", "22"], "hu***"),
        (vec!["hunt", "ing"], "hunting"),
        (vec!["h", "ello"], "hello"),
        (vec!["hus", "h", ""], "hush"),
        (vec!["hu", "hunter22"], "hu***"),
        (vec!["hhunte", "r22"], "hhu***"),
    ] {
        let (mut stream, mut out) = (m.stream(), Vec::new());
        for piece in &pieces {
            out.extend(stream.push(piece.as_bytes()));
            out.extend(stream.pause());
            out.extend(stream.pause());
        }
        out.extend(stream.finish());
        assert_eq!(String::from_utf8(out).unwrap(), expected, "{pieces:?}");
    }
}

proptest! {
    #[test]
    fn pauses_change_nothing_where_there_is_no_value(
        pieces in prop::collection::vec("[hunter2 ]{0,7}", 0..20),
    ) {
        let m = masker(&["hunter22"]);
        let text = pieces.concat();
        prop_assume!(!text.contains("hunter22"));
        let (mut stream, mut out) = (m.stream(), Vec::new());
        for piece in &pieces {
            out.extend(stream.push(piece.as_bytes()));
            out.extend(stream.pause());
        }
        out.extend(stream.finish());
        prop_assert_eq!(String::from_utf8(out).unwrap(), text);
    }

    #[test]
    fn no_value_survives_any_cutting(
        values in prop::collection::vec("[abc]{4,9}", 1..5),
        parts in prop::collection::vec(("[abc\\n]{0,6}", any::<prop::sample::Index>()), 0..8),
        cuts in prop::collection::vec(1usize..7, 1..60),
    ) {
        let refs: Vec<&str> = values.iter().map(String::as_str).collect();
        let m = masker(&refs);
        let mut text = Vec::new();
        for (noise, which) in &parts {
            text.extend_from_slice(noise.as_bytes());
            text.extend_from_slice(which.get(&values).as_bytes());
        }
        let mut stream = m.stream();
        let mut out = Vec::new();
        let mut rest = text.as_slice();
        let mut cuts = cuts.iter().cycle();
        while !rest.is_empty() {
            let (piece, after) = rest.split_at((*cuts.next().unwrap()).min(rest.len()));
            out.extend(stream.push(piece));
            rest = after;
        }
        out.extend(stream.finish());
        for v in &values {
            prop_assert!(!contains(&out, v.as_bytes()));
        }
        let whole = m.mask(&text);
        prop_assert_eq!(whole.as_ref(), out.as_slice());
    }

    #[test]
    fn without_a_secret_the_output_is_the_input(
        text in prop::collection::vec(any::<u8>(), 0..400),
        size in 1usize..50,
    ) {
        // 30 bytes of this value do not come up by chance, in any form.
        let m = masker(&["zQ9~zQ9~zQ9~zQ9~zQ9~zQ9~zQ9~zQ"]);
        prop_assert_eq!(in_pieces(&m, &text, size), text);
    }
}
