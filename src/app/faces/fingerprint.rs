//! The fingerprint by which ClawHub's clients ask which version stands in a folder of theirs.
//!
//! Pure. SHA-256 of `path:sha256` lines of the files, in the order in which JavaScript's `localeCompare` puts paths;
//! since version 0.21 of all files that are not hidden, before of text alone. Must be what those clients compute;
//! where it is not, they take a folder for one changed by hand.

use std::cmp::Ordering;

use sha2::{Digest as _, Sha256};

/// What those clients take for text, by the end of a name.
const TEXT: &str = " md mdx txt json json5 yaml yml toml js cjs mjs ts tsx jsx py sh ps1 psm1 psd1 r rb go rs swift kt \
                    java cs cpp c h hpp sql csv tsv ini cfg conf env properties dat xml html css scss sass svg ";
/// How much of a file without such an end is looked at.
const SAMPLE: usize = 4_096;
/// ASCII in the order of the Unicode collation, letters apart.
const ORDER: &str = " _-,;:!?.'\"()[]{}@*/\\&#%`^+<=>|~$0123456789";

/// Whether a file counts at all: what is hidden does not, nor what npm installs.
pub(super) fn counts(path: &str) -> bool {
    !path.split('/').any(|part| part.starts_with('.') || part == "node_modules")
}

/// Whether a file is taken for text; `head` gives its first bytes when its name does not tell.
pub(super) fn is_text(path: &str, head: impl FnOnce(usize) -> Option<Vec<u8>>) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    match name.rsplit_once('.') {
        Some((_, end)) => TEXT.contains(&format!(" {} ", end.to_lowercase())),
        None => head(SAMPLE).is_some_and(|head| !head.contains(&0) && std::str::from_utf8(&head).is_ok()),
    }
}

/// The fingerprint of these files: path and SHA-256 each.
pub(super) fn fingerprint(mut files: Vec<(&str, [u8; 32])>) -> [u8; 32] {
    files.sort_by(|a, b| collate(a.0, b.0));
    let lines: Vec<String> =
        files.iter().map(|(path, digest)| format!("{path}:{}", hex::encode(digest))).collect();
    Sha256::digest(lines.join("\n")).into()
}

/// Letters without regard to case first, then small before capital. What is not ASCII stands behind by code point,
/// which is right for no accent; such paths are rare.
fn collate(a: &str, b: &str) -> Ordering {
    let primary = |c: char| {
        let base = ORDER.len() as u32;
        let place = ORDER.find(c).map(|at| at as u32);
        place.unwrap_or_else(|| base + u32::from(c.to_ascii_lowercase()))
    };
    let case = |c: char| c.is_ascii_uppercase();
    let by_letters = a.chars().map(primary).cmp(b.chars().map(primary));
    by_letters.then_with(|| a.chars().map(case).cmp(b.chars().map(case)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_stand_in_the_order_of_javascript() {
        let wanted = [
            "a_b",
            "a-b/c",
            "a.md",
            "A.md",
            "a/b",
            "ab",
            "aB/c",
            "ab/D",
            "context/a.md",
            "manifest.json",
            "scripts/show.sh",
            "SKILL.md",
            "z.md",
        ];
        let mut paths = wanted;
        paths.reverse();
        paths.sort_by(|a, b| collate(a, b));
        assert_eq!(paths, wanted);
    }

    #[test]
    fn text_counts_and_nothing_hidden_does() {
        let head = |bytes: &'static [u8]| move |_| Some(bytes.to_vec());
        for (path, bytes, counted) in [
            ("SKILL.md", &b"\0"[..], true),
            ("a/B.JSON", b"", true),
            ("a/logo.png", b"text", false),
            ("Makefile", b"all:", true),
            ("tool", b"\x7fELF\0", false),
            ("latin", b"\xe9", false),
            (".env.example", b"A=", false),
            ("a/.git/x.md", b"", false),
            ("node_modules/a.js", b"", false),
        ] {
            assert_eq!(counts(path) && is_text(path, head(bytes)), counted, "{path}");
        }
    }

    #[test]
    fn the_fingerprint_is_that_of_the_lines() {
        let of = |files| hex::encode(fingerprint(files));
        let text = format!("a.md:{}\nSKILL.md:{}", "01".repeat(32), "02".repeat(32));
        assert_eq!(
            of(vec![("SKILL.md", [2; 32]), ("a.md", [1; 32])]),
            hex::encode(Sha256::digest(text)),
            "by path"
        );
        assert_eq!(of(Vec::new()), hex::encode(Sha256::digest("")));
    }
}
