//! The digest of a skill's content, and which files lie outside of it.
//!
//! Works on the listing alone; the content hashes were computed by whoever read the files.

use sha2::{Digest as _, Sha256};

use super::source::Source;
use crate::ids::Digest;

/// Whether a path (relative, with `/`) is no part of the skill: not stored, not in its digest, archive,
/// diff or container.
///
/// `vars.json` at the top is the operator's data (systems.md C3); the others are traces of tools.
#[must_use]
pub fn excluded(path: &str) -> bool {
    matches!(path, "vars.json" | ".skep-errors.md" | ".git")
        || path.starts_with(".git/")
        || path == ".DS_Store"
        || path.ends_with("/.DS_Store")
}

/// SHA-256 of the skill's content (contract.md 2).
///
/// Hashed, in this order: the text `skep-skill-1` and NUL; then for each file, sorted by the bytes of
/// its path: the path's length in bytes (8 bytes, big-endian), the path, `x` or `-` (executable or
/// not), the 32 bytes of the content's SHA-256. Since lengths are written, no two listings share an
/// encoding.
#[must_use]
pub fn digest(source: &Source) -> Digest {
    let mut hash = Sha256::new();
    hash.update(b"skep-skill-1\0");
    for (path, info) in source.files.iter().filter(|(path, _)| !excluded(path)) {
        hash.update((path.len() as u64).to_be_bytes());
        hash.update(path.as_bytes());
        hash.update(if info.executable { b"x" } else { b"-" });
        hash.update(info.digest);
    }
    Digest(hash.finalize().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(files: &[(&str, &[u8], bool)]) -> Digest {
        digest(&Source::from_memory(files))
    }

    #[test]
    fn the_order_of_listing_does_not_matter_but_every_byte_path_and_mode_does() {
        let base = of(&[("a", b"1", false), ("b/c", b"2", true)]);
        assert_eq!(base, of(&[("b/c", b"2", true), ("a", b"1", false)]));
        for other in [
            of(&[("a", b"1", true), ("b/c", b"2", true)]),
            of(&[("a", b"1 ", false), ("b/c", b"2", true)]),
            of(&[("A", b"1", false), ("b/c", b"2", true)]),
            of(&[("a", b"1", false)]),
            of(&[("a", b"2", false), ("b/c", b"1", true)]),
        ] {
            assert_ne!(base, other);
        }
    }

    #[test]
    fn a_name_with_a_line_break_cannot_imitate_two_files() {
        assert_ne!(of(&[("a\n-b", b"", false)]), of(&[("a", b"", false), ("b", b"", false)]));
    }

    #[test]
    fn the_operators_variables_and_traces_of_tools_are_outside() {
        let base = of(&[("SKILL.md", b"x", false)]);
        for path in ["vars.json", ".git/HEAD", ".skep-errors.md", ".DS_Store", "a/.DS_Store"] {
            assert_eq!(base, of(&[("SKILL.md", b"x", false), (path, b"y", false)]), "{path}");
        }
        for path in ["context/vars.json", ".gitignore", "a/.git/x", ".env.example"] {
            assert!(!excluded(path), "{path}");
        }
    }

    #[test]
    fn the_digest_of_a_known_folder_stays_what_it_is() {
        // Published locks name digests: a change of the encoding would break every one of them.
        let mut hash = Sha256::new();
        hash.update(b"skep-skill-1\0");
        hash.update([0, 0, 0, 0, 0, 0, 0, 8]);
        hash.update(b"SKILL.md-");
        hash.update(Sha256::digest(b"hello"));
        let expected: [u8; 32] = hash.finalize().into();
        assert_eq!(of(&[("SKILL.md", b"hello", false)]).0, expected);
    }
}
