//! A skill's folder as the pure core sees it: a listing with sizes, modes and hashes, and the bytes
//! of the two files that declare it.
//!
//! Whoever fills it has already made sure that every path is relative, valid UTF-8 and a regular file.

use std::collections::BTreeMap;

use sha2::{Digest as _, Sha256};

/// The file of the first shape.
pub const MANIFEST: &str = "manifest.json";
/// The file of the second shape.
pub const SKILL_MD: &str = "SKILL.md";
/// How many bytes of each file `FileInfo::head` keeps.
pub const HEAD: usize = 64;

/// What is known of one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileInfo {
    /// Bytes.
    pub size: u64,
    /// Whether its owner may execute it.
    pub executable: bool,
    /// SHA-256 of its content.
    pub digest: [u8; 32],
    /// Its first bytes, at most [`HEAD`]: enough to see a `#!`.
    pub head: Vec<u8>,
}

impl FileInfo {
    /// Describes content that is at hand.
    #[must_use]
    pub fn of(bytes: &[u8], executable: bool) -> Self {
        Self {
            size: bytes.len() as u64,
            executable,
            digest: Sha256::digest(bytes).into(),
            head: bytes[..bytes.len().min(HEAD)].to_vec(),
        }
    }
}

/// A skill's folder.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Source {
    /// The folder's own name (`id` or `id@version`), where it means something.
    pub folder: Option<String>,
    /// Every file, by its path relative to the folder, with `/`.
    pub files: BTreeMap<String, FileInfo>,
    /// Content of `manifest.json`, when there is one; at most one byte more than the limit.
    pub manifest: Option<Vec<u8>>,
    /// Content of `SKILL.md`, when there is one; at most one byte more than the limit.
    pub skill_md: Option<Vec<u8>>,
}

impl Source {
    /// A folder made of `(path, content, executable)`.
    #[must_use]
    pub fn from_memory(files: &[(&str, &[u8], bool)]) -> Self {
        let mut source = Self::default();
        for (path, bytes, executable) in files {
            source.add(path, bytes, *executable);
        }
        source
    }

    /// Adds a file; keeps the bytes of the two files that declare the skill.
    pub fn add(&mut self, path: &str, bytes: &[u8], executable: bool) {
        match path {
            MANIFEST => self.manifest = Some(bytes.to_vec()),
            SKILL_MD => self.skill_md = Some(bytes.to_vec()),
            _ => {}
        }
        self.files.insert(path.to_owned(), FileInfo::of(bytes, executable));
    }

    /// The same, in a folder of that name.
    #[must_use]
    pub fn named(mut self, folder: &str) -> Self {
        self.folder = Some(folder.to_owned());
        self
    }
}

/// How large a skill may be (contract.md 2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Files.
    pub files: usize,
    /// Bytes of all files together.
    pub bytes: u64,
    /// Bytes of one file.
    pub file: u64,
    /// Bytes of `manifest.json` or `SKILL.md`.
    pub manifest: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { files: 2_000, bytes: 64 << 20, file: 16 << 20, manifest: 1 << 20 }
    }
}
