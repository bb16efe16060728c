//! The difference between two versions of a skill: of its files, and of what it asks for.
//!
//! Compares listings; asks for the bytes only of files whose text is shown, one pair at a time. What it
//! answers is bounded and safe to print on a terminal.

pub mod capability;
mod text;
pub mod visible;

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use self::{
    capability::{CapabilityKind, capabilities},
    visible::one_line,
};
use super::{
    digest::excluded,
    model::Skill,
    source::{FileInfo, Source},
};
use crate::ids::Digest;

/// Files above this many bytes are compared, not shown.
pub const MAX_FILE: u64 = 256 << 10;
/// Bytes of all shown text together; what comes after is compared, not shown.
pub const MAX_TEXT: usize = 1 << 20;

/// One side of a comparison.
#[derive(Debug, Clone, Copy)]
pub struct Version<'a> {
    /// Its files.
    pub source: &'a Source,
    /// What it declares.
    pub skill: &'a Skill,
}

/// Which side's bytes are asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The older version.
    From,
    /// The newer one.
    To,
}

/// What happened to a thing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// Only the newer version has it.
    Added,
    /// Only the older version has it.
    Removed,
    /// Both have it, differently.
    Changed,
}

/// A file of one version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FileState {
    /// Bytes.
    pub size: u64,
    /// Whether its owner may execute it.
    pub executable: bool,
    /// `sha256:…` of its content.
    pub digest: String,
}

impl From<&FileInfo> for FileState {
    fn from(info: &FileInfo) -> Self {
        Self { size: info.size, executable: info.executable, digest: Digest(info.digest).to_string() }
    }
}

/// A file that differs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FileChange {
    /// Its path, safe to print.
    pub path: String,
    /// What happened to it.
    pub change: Change,
    /// As it was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<FileState>,
    /// As it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<FileState>,
    /// Unified difference of the text, with control and invisible characters spelt out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Why there is no text, or only a part: binary, too large, cut.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// Something that a version asks for and the other does not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CapabilityChange {
    /// What sort of thing.
    pub kind: CapabilityKind,
    /// `added` or `removed`.
    pub change: Change,
    /// Which, safe to print.
    pub value: String,
}

/// The difference between two versions.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Diff {
    /// Files that differ, by path.
    pub files: Vec<FileChange>,
    /// What is asked for now and was not, and the other way round: first what was added.
    pub capabilities: Vec<CapabilityChange>,
    /// Whether some text is left out or cut.
    pub truncated: bool,
}

/// Compares two versions; without an older one, everything is new.
///
/// `read` gives the bytes of a file of one side.
///
/// # Errors
/// Those of `read`.
pub fn diff<E>(
    from: Option<Version<'_>>,
    to: Version<'_>,
    read: impl FnMut(Side, &str) -> Result<Vec<u8>, E>,
) -> Result<Diff, E> {
    let capabilities = capability_changes(from.map(|v| v.skill), to.skill);
    let (files, truncated) = file_changes(from.map(|v| v.source), to.source, read)?;
    Ok(Diff { files, capabilities, truncated })
}

/// What `to` asks for and `from` did not, then the other way round.
#[must_use]
pub fn capability_changes(from: Option<&Skill>, to: &Skill) -> Vec<CapabilityChange> {
    let (old, new) = (from.map(capabilities).unwrap_or_default(), capabilities(to));
    let told = |change| {
        move |c: &capability::Capability| CapabilityChange { kind: c.kind, change, value: c.value.clone() }
    };
    let added = new.difference(&old).map(told(Change::Added));
    added.chain(old.difference(&new).map(told(Change::Removed))).collect()
}

fn file_changes<E>(
    from: Option<&Source>,
    to: &Source,
    mut read: impl FnMut(Side, &str) -> Result<Vec<u8>, E>,
) -> Result<(Vec<FileChange>, bool), E> {
    let old = |path: &str| from.and_then(|s| s.files.get(path));
    let paths: BTreeSet<&String> =
        from.into_iter().flat_map(|s| s.files.keys()).chain(to.files.keys()).collect();
    let mut left = MAX_TEXT;
    let mut truncated = false;
    let mut changes = Vec::new();
    for path in paths.into_iter().filter(|path| !excluded(path)) {
        let (a, b) = (old(path), to.files.get(path));
        if a.map(state) == b.map(state) {
            continue;
        }
        let mut change = described(path, a, b);
        let same_bytes = a.map(|a| a.digest) == b.map(|b| b.digest);
        if a.into_iter().chain(b).any(|info| info.size > MAX_FILE) {
            change.note = Some(format!("not shown: larger than {} KiB", MAX_FILE >> 10));
            truncated = true;
        } else if left == 0 {
            change.note = Some("not shown: the differences before it fill what is shown".into());
            truncated = true;
        } else if !same_bytes {
            let a = a.map(|_| read(Side::From, path)).transpose()?.unwrap_or_default();
            let b = b.map(|_| read(Side::To, path)).transpose()?.unwrap_or_default();
            truncated |= text::show(&mut change, &a, &b, &mut left);
        }
        changes.push(change);
    }
    Ok((changes, truncated))
}

fn state(info: &FileInfo) -> ([u8; 32], bool) {
    (info.digest, info.executable)
}

fn described(path: &str, a: Option<&FileInfo>, b: Option<&FileInfo>) -> FileChange {
    let change = match (a, b) {
        (None, _) => Change::Added,
        (_, None) => Change::Removed,
        _ => Change::Changed,
    };
    FileChange {
        path: one_line(path),
        change,
        from: a.map(Into::into),
        to: b.map(Into::into),
        text: None,
        note: None,
    }
}
