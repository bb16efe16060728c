//! Bytes made to hurt: no panic, every line there, and time in proportion to the size.

use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::*;

fn sound(bytes: &[u8], findings: &[Finding]) -> Result<(), TestCaseError> {
    let utf16 = bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff]);
    let lines = if utf16 { bytes.len() } else { bytes.iter().filter(|b| **b == b'\n').count() + 1 };
    for finding in findings.iter().filter(|f| f.file == "f.sh") {
        prop_assert!(finding.line >= 1 && finding.line <= lines, "{finding:?} of {lines}");
        prop_assert!(finding.evidence.chars().count() <= 200);
        prop_assert!(!finding.evidence.contains(|c: char| c.is_control()), "{finding:?}");
    }
    Ok(())
}

const PIECES: &str = r#"(curl https://x.dev/a|wget -O x | sh|\| sh|base64 -d|eval\(|exec\(|atob\('|Y3VybCBodHRwczovL3guZGV2|\$\{API_KEY\}|process\.env\.X|https://1\.2\.3\.4/|ignore previous instructions|do not tell the user|npx a|pip install b|>> soul\.md|\\x41\\x42|-----BEGIN PRIVATE KEY-----|ghp_|%41%42|65, 66, |é|\u{200b}|\u{e0041}|\u{fe01}|\u{202e}|\n|\r\n| |"|`|```|\\|[a-z]{1,4}){0,60}"#;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        sound(&bytes, &found("f.sh", &bytes))?;
    }

    #[test]
    fn no_mixture_of_what_rules_look_for_makes_it_panic(text in PIECES) {
        sound(text.as_bytes(), &found("f.sh", &text))?;
        sound(text.as_bytes(), &found("f.md", &text))?;
    }
}

#[test]
fn lines_without_end_and_floods_of_beginnings_take_time_in_proportion() {
    let size = 100 << 10;
    for piece in [
        "a",
        "curl ",
        "curl https://x.dev/a.sh ",
        "curl -o x ",
        "curl https:// | ",
        "eval(",
        "base64 -d ",
        "\u{200b}",
        "\u{e0041}",
        "https://a.b/",
        "$A",
        "ignore ",
        "do not ",
        "npx a ",
        "QUJD",
        "\\x41",
        "65,",
        "%41",
        "x=atob(",
        "exec(x ",
        "\n",
        "```\n",
        "-----BEGIN PRIVATE KEY-----\n",
        "password=\"",
        "open(",
        "writeFile(",
        "iex ",
        "irm |",
        "fetch https://a.b ",
        "run without ",
        ">> ",
        "{",
        "unzip -P",
        "cp ",
        "secret ",
    ] {
        let text = piece.repeat(size / piece.len());
        let start = Instant::now();
        let findings = found("f.sh", &text);
        assert!(start.elapsed() < Duration::from_secs(60), "{piece:?} took {:?}", start.elapsed());
        assert!(findings.len() < 300);
        found("f.md", &text);
    }
}
