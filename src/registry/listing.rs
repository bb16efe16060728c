//! What a skill's folder holds, as a value: paths, sizes, executable bits, content hashes.
//!
//! Pure. The digest of a skill is taken from this alone (contract.md 2).

use std::collections::BTreeMap;

use sha2::{Digest as _, Sha256};

use crate::ids::Digest;

/// One regular file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileInfo {
    /// Bytes.
    pub size: u64,
    /// Whether it may be run.
    pub executable: bool,
    /// SHA-256 of its content.
    pub sha256: [u8; 32],
}

/// Every file of a skill by its path, sorted bytewise. Folders exist only as parts of paths.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Listing {
    /// By relative path with `/` between names.
    pub files: BTreeMap<String, FileInfo>,
}

impl Listing {
    /// Bytes of all files together.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.files.values().map(|f| f.size).sum()
    }
}

/// SHA-256 over, for each file in order of its path's bytes: path, NUL, `x` or `-`, NUL, the 32
/// bytes of its content's SHA-256 (contract.md 2). No path holds a NUL, so no two listings run together.
#[must_use]
pub fn content_digest(listing: &Listing) -> Digest {
    let mut hash = Sha256::new();
    for (path, file) in &listing.files {
        hash.update(path.as_bytes());
        hash.update([0, if file.executable { b'x' } else { b'-' }, 0]);
        hash.update(file.sha256);
    }
    Digest(hash.finalize().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listing(files: &[(&str, bool, u8)]) -> Listing {
        Listing {
            files: files
                .iter()
                .map(|&(path, executable, fill)| {
                    let file = FileInfo {
                        size: 1,
                        executable,
                        sha256: [fill; 32],
                    };
                    (path.to_owned(), file)
                })
                .collect(),
        }
    }

    #[test]
    fn the_digest_depends_on_path_bit_and_content_but_not_on_order() {
        let base = content_digest(&listing(&[("a", false, 1), ("b", true, 2)]));
        assert_eq!(
            base,
            content_digest(&listing(&[("b", true, 2), ("a", false, 1)]))
        );
        for other in [
            listing(&[("a", true, 1), ("b", true, 2)]),
            listing(&[("a", false, 1), ("c", true, 2)]),
            listing(&[("a", false, 2), ("b", true, 2)]),
            listing(&[("a", false, 1)]),
            listing(&[]),
        ] {
            assert_ne!(base, content_digest(&other));
        }
    }
}
