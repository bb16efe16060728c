//! Names and references that people write: agents, hives, skills, secrets, `id@^1.2`.
//!
//! Each is parsed once, at the edge, into a type that cannot hold a wrong value. Nothing here
//! looks anything up.

use std::{fmt, str::FromStr};

use semver::{Version, VersionReq};
use serde::{Deserialize, Serialize};

/// Why a name or reference was refused; the text names the value and the rule.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidName(pub String);

/// Whether a character is not seen, or changes how text around it is shown: control characters, marks of direction,
/// blanks without width, and other formats without a sign of their own. A name with one could pass for another.
#[must_use]
pub fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{2800}' | '\u{3164}'
            | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

/// `^[a-z0-9][a-z0-9-]*$`, at most `max` characters.
fn is_slug(s: &str, max: usize) -> bool {
    let mut bytes = s.bytes();
    s.len() <= max
        && bytes.next().is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
        && bytes.all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
}

macro_rules! name_type {
    ($(#[$doc:meta])* $name:ident, $what:literal, $rule:literal, $check:expr) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(String);

        impl $name {
            /// The name as written.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = InvalidName;
            fn from_str(s: &str) -> Result<Self, InvalidName> {
                let check: fn(&str) -> bool = $check;
                if check(s) {
                    Ok(Self(s.to_owned()))
                } else {
                    Err(InvalidName(format!("{:?} is not a valid {}: {}", s, $what, $rule)))
                }
            }
        }

        impl TryFrom<String> for $name {
            type Error = InvalidName;
            fn try_from(s: String) -> Result<Self, InvalidName> {
                s.parse()
            }
        }

        impl From<$name> for String {
            fn from(n: $name) -> String {
                n.0
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        impl std::borrow::Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

name_type!(
    /// An agent's name: it becomes a container name and a folder.
    AgentId, "agent name",
    "use lowercase letters, digits and hyphens, starting with a letter or digit, at most 40 characters",
    |s| is_slug(s, 40)
);
name_type!(
    /// A hive's name: it becomes part of container names.
    HiveName, "hive name",
    "use lowercase letters, digits and hyphens, starting with a letter or digit, at most 40 characters",
    |s| is_slug(s, 40)
);
name_type!(
    /// A skill's id (systems.md D2): `^[a-z0-9][a-z0-9-]*$`, at most 64, `custom` is reserved.
    SkillId, "skill id",
    "use lowercase letters, digits and hyphens, starting with a letter or digit, at most 64 characters; `custom` is reserved",
    |s| is_slug(s, 64) && s != "custom"
);
name_type!(
    /// The name of a secret, which is the name of an environment variable.
    SecretName, "secret name",
    "use letters, digits and underscores, not starting with a digit, at most 128 characters",
    |s| s.len() <= 128
        && s.bytes().next().is_some_and(|b| b.is_ascii_alphabetic() || b == b'_')
        && s.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
);

/// SHA-256 of a skill's content (contract.md 2), written `sha256:<64 hex digits>`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Digest(pub [u8; 32]);

impl Digest {
    /// The first twelve hex digits, for people.
    #[must_use]
    pub fn short(&self) -> String {
        hex::encode(&self.0[..6])
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sha256:{}", hex::encode(self.0))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Digest {
    type Err = InvalidName;
    fn from_str(s: &str) -> Result<Self, InvalidName> {
        let mut bytes = [0; 32];
        s.strip_prefix("sha256:")
            .filter(|h| hex::decode_to_slice(h, &mut bytes).is_ok())
            .map(|_| Digest(bytes))
            .ok_or_else(|| InvalidName(format!("{s:?} is not a digest: write `sha256:` and 64 hex digits")))
    }
}

impl TryFrom<String> for Digest {
    type Error = InvalidName;
    fn try_from(s: String) -> Result<Self, InvalidName> {
        s.parse()
    }
}

impl From<Digest> for String {
    fn from(d: Digest) -> String {
        d.to_string()
    }
}

/// Which versions a reference accepts.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Requirement {
    /// `id`: the newest stable, not yanked, enabled version, with a warning.
    Bare,
    /// `id@latest`: the same, asked for on purpose.
    Latest,
    /// `id@1.2.3`: that version and no other.
    Exact(Version),
    /// `id@^1.2`, `id@~1.2`, `id@>=1,<3`: Cargo's rules.
    Range(VersionReq),
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bare => Ok(()),
            Self::Latest => f.write_str("@latest"),
            Self::Exact(v) => write!(f, "@{v}"),
            Self::Range(r) => write!(f, "@{r}"),
        }
    }
}

/// A reference to a skill: `id`, `id@1.2.3`, `id@^1.2`, `id@latest` (contract.md 2).
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SkillRef {
    /// Which skill.
    pub id: SkillId,
    /// Which of its versions.
    pub requirement: Requirement,
}

impl fmt::Display for SkillRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.id, self.requirement)
    }
}

impl FromStr for SkillRef {
    type Err = InvalidName;
    fn from_str(s: &str) -> Result<Self, InvalidName> {
        let (id, wanted) = match s.split_once('@') {
            None => (s, None),
            Some((id, wanted)) => (id, Some(wanted.trim())),
        };
        let requirement = match wanted {
            None => Requirement::Bare,
            Some("latest") => Requirement::Latest,
            Some(w) => match Version::parse(w) {
                Ok(v) => Requirement::Exact(v),
                Err(_) => Requirement::Range(VersionReq::parse(w).map_err(|e| {
                    InvalidName(format!(
                        "{s:?} is not a skill reference: {e}; write id, id@1.2.3, id@^1.2, id@~1.2, id@>=1,<3 or id@latest"
                    ))
                })?),
            },
        };
        Ok(Self { id: id.trim().parse()?, requirement })
    }
}

impl TryFrom<String> for SkillRef {
    type Error = InvalidName;
    fn try_from(s: String) -> Result<Self, InvalidName> {
        s.parse()
    }
}

impl From<SkillRef> for String {
    fn from(r: SkillRef) -> String {
        r.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reference_prints_as_it_was_written() {
        for s in ["a", "a@latest", "a@1.2.3", "a@^1.2", "a@~1.2", "a@>=1, <3", "a@1.0.0-rc.1"] {
            assert_eq!(s.parse::<SkillRef>().unwrap().to_string(), s);
        }
    }

    #[test]
    fn three_numbers_are_exact_and_fewer_are_a_range() {
        assert!(matches!("a@1.2.3".parse::<SkillRef>().unwrap().requirement, Requirement::Exact(_)));
        assert!(matches!("a@1.2".parse::<SkillRef>().unwrap().requirement, Requirement::Range(_)));
        for bad in ["", "@1", "A", "a@", "a@what", "../x", "custom", "a@1.2.3.4", "-a"] {
            assert!(bad.parse::<SkillRef>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_digest_survives_the_round_trip_and_rubbish_does_not() {
        let d = Digest([7; 32]);
        assert_eq!(d.to_string().parse::<Digest>().unwrap(), d);
        assert!("sha256:00".parse::<Digest>().is_err());
        assert!("0".repeat(64).parse::<Digest>().is_err());
    }

    #[test]
    fn names_refuse_what_could_leave_a_folder_or_a_variable() {
        for bad in ["..", "a/b", "a b", "ä", "A", "", &"a".repeat(65)] {
            assert!(bad.parse::<SkillId>().is_err(), "{bad}");
        }
        for bad in ["1A", "A-B", "A=B", "", "É"] {
            assert!(bad.parse::<SecretName>().is_err(), "{bad}");
        }
    }
}
