//! Names of tools that every MCP client takes: `[A-Za-z0-9_./-]{1,64}`. What is called otherwise gets a name of its
//! own that stays the same, and is found again by it.

use sha2::{Digest, Sha256};

const LONGEST: usize = 64;
/// Hexadecimal digits that tell changed names apart.
const MARK: usize = 8;

/// The name under which a tool is listed.
pub fn shown(name: &str) -> String {
    let fine = |c: char| c.is_ascii_alphanumeric() || "_./-".contains(c);
    if (1..=LONGEST).contains(&name.len()) && name.chars().all(fine) {
        return name.to_owned();
    }
    let readable = name.chars().map(|c| if fine(c) { c } else { '_' });
    let readable: String = readable.take(LONGEST - MARK - 1).collect();
    let mark = hex::encode(Sha256::digest(name.as_bytes()));
    format!("{readable}-{}", &mark[..MARK])
}

/// Whether a name may be one that [`shown`] made; only then it is worth looking for whose it is.
pub fn may_be_changed(name: &str) -> bool {
    let hex = |b: u8| matches!(b, b'0'..=b'9' | b'a'..=b'f');
    name.rsplit_once('-').is_some_and(|(_, mark)| mark.len() == MARK && mark.bytes().all(hex))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_lawful_name_stays_and_another_becomes_one() {
        for name in ["post-twitter", "basic-tools/read-file.ts", "a", &"x".repeat(64)] {
            assert_eq!(shown(name), *name);
        }
        assert_eq!(shown("grüß gott"), "gr____gott-aa1ff0c8");
        assert_ne!(shown("a b"), shown("a_b"));
    }

    proptest! {
        #[test]
        fn every_name_becomes_lawful_and_is_known_again(name in "\\PC{0,200}") {
            let shown = shown(&name);
            prop_assert!((1..=64).contains(&shown.len()));
            prop_assert!(shown.bytes().all(|b| b.is_ascii_alphanumeric() || b"_./-".contains(&b)));
            prop_assert!(shown == name || may_be_changed(&shown));
        }
    }
}
