//! The file of a backup: a tar in zstd. First `backup.json` (whose it is), then the hive's files below `hive/`, last
//! `manifest.json`, which lists each of them with its SHA-256: an archive without it was cut short.
//!
//! Knows nothing of what is in a hive.

use std::io::{self, Read, Write};

use serde::{Deserialize, Serialize};
use tar::{EntryType, Header};

use crate::ids::Digest;

/// The format that this program writes, and the newest that it reads.
pub const FORMAT: u32 = 1;
/// The first entry.
pub const HEAD: &str = "backup.json";
/// The last entry.
pub const MANIFEST: &str = "manifest.json";
/// The folder that the hive's files are in.
pub const HIVE: &str = "hive";

/// Whose backup it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    /// [`FORMAT`] of the program that wrote it.
    pub format: u32,
    /// Version of that program.
    pub skep: String,
    /// The hive's name.
    pub hive: String,
    /// When its database was copied, RFC 3339.
    pub created_at: String,
    /// Schema of the database; none: the hive had none yet.
    pub schema: Option<i64>,
    /// Whether secrets are in it.
    pub with_secrets: bool,
}

/// What an entry is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Kind {
    /// A folder.
    Folder,
    /// A file: its bytes and their SHA-256.
    File {
        /// Bytes.
        size: u64,
        /// SHA-256 of them.
        sha256: Digest,
    },
    /// A symbolic link, to wherever it says.
    Link {
        /// Where it leads, with `%XX` for bytes that are no text.
        target: String,
    },
    /// A further name of a file above.
    HardLink {
        /// That file's path.
        target: String,
    },
}

/// One entry of the hive.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Relative to the hive, with `%XX` for bytes that are no text.
    pub path: String,
    /// Permissions, without setuid and setgid.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// What it is.
    #[serde(flatten)]
    pub kind: Kind,
}

/// Something that is not in a backup, or not as it was.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    /// What it is about.
    pub path: String,
    /// Why.
    pub reason: String,
}

/// What a backup holds; its last entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// The head once more.
    pub head: Head,
    /// Names of the secrets that were set.
    pub secrets: Vec<String>,
    /// What was left out.
    pub left_out: Vec<Note>,
    /// Every entry, in their order.
    pub entries: Vec<Entry>,
}

/// A path or link as text: `%` and bytes that are no text as `%XX`. No two paths give one text.
#[must_use]
pub fn text(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        out.push_str(&chunk.valid().replace('%', "%25"));
        for byte in chunk.invalid() {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

/// The owner and the permissions of an entry.
#[derive(Debug, Clone, Copy)]
pub struct Stat {
    /// Permissions.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Seconds since 1970.
    pub mtime: u64,
}

impl Stat {
    /// Of what the file system says.
    #[must_use]
    pub fn of(meta: &std::fs::Metadata) -> Self {
        use std::os::unix::fs::MetadataExt;
        Self {
            mode: meta.mode() & 0o1777,
            uid: meta.uid(),
            gid: meta.gid(),
            mtime: u64::try_from(meta.mtime()).unwrap_or(0),
        }
    }
}

/// Writes an archive.
pub struct Writer<W: Write> {
    tar: tar::Builder<zstd::Encoder<'static, W>>,
    head: Head,
    entries: Vec<Entry>,
}

impl<W: Write> Writer<W> {
    /// Begins one.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn new(to: W, head: Head) -> io::Result<Self> {
        let mut tar = tar::Builder::new(zstd::Encoder::new(to, 3)?);
        document(&mut tar, HEAD, &head)?;
        Ok(Self { tar, head, entries: Vec::new() })
    }

    /// Adds a folder.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn folder(&mut self, path: &[u8], stat: Stat) -> io::Result<()> {
        self.add(path, stat, Kind::Folder, None, io::empty())
    }

    /// Adds a file: `size` bytes of `content`, whose SHA-256 is known.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn file(
        &mut self,
        path: &[u8],
        stat: Stat,
        size: u64,
        sha256: Digest,
        content: impl Read,
    ) -> io::Result<()> {
        self.add(path, stat, Kind::File { size, sha256 }, None, content)
    }

    /// Adds a symbolic link.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn link(&mut self, path: &[u8], stat: Stat, target: &[u8]) -> io::Result<()> {
        self.add(path, stat, Kind::Link { target: text(target) }, Some(target), io::empty())
    }

    /// Adds a further name of a file that is in it already.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn hard_link(&mut self, path: &[u8], stat: Stat, first: &[u8]) -> io::Result<()> {
        let target = [HIVE.as_bytes(), b"/", first].concat();
        self.add(path, stat, Kind::HardLink { target: text(first) }, Some(&target), io::empty())
    }

    /// Ends it with its manifest; answers what it wrote into.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn finish(mut self, secrets: Vec<String>, left_out: Vec<Note>) -> io::Result<(W, Manifest)> {
        let manifest = Manifest { head: self.head, secrets, left_out, entries: self.entries };
        document(&mut self.tar, MANIFEST, &manifest)?;
        Ok((self.tar.into_inner()?.finish()?, manifest))
    }

    fn add(
        &mut self,
        path: &[u8],
        stat: Stat,
        kind: Kind,
        target: Option<&[u8]>,
        content: impl Read,
    ) -> io::Result<()> {
        let mut header = Header::new_gnu();
        header.set_mode(stat.mode);
        header.set_uid(stat.uid.into());
        header.set_gid(stat.gid.into());
        header.set_mtime(stat.mtime);
        header.set_size(if let Kind::File { size, .. } = kind { size } else { 0 });
        header.set_entry_type(match kind {
            Kind::Folder => EntryType::Directory,
            Kind::File { .. } => EntryType::Regular,
            Kind::Link { .. } => EntryType::Symlink,
            Kind::HardLink { .. } => EntryType::Link,
        });
        if let Some(target) = target
            && header.set_link_name_literal(target).is_err()
        {
            self.long(EntryType::GNULongLink, target)?;
        }
        let full = [HIVE.as_bytes(), b"/", path].concat();
        match header.as_old_mut().name.get_mut(..full.len()) {
            Some(name) => name.copy_from_slice(&full),
            None => self.long(EntryType::GNULongName, &full)?,
        }
        header.set_cksum();
        self.tar.append(&header, content)?;
        self.entries.push(Entry { path: text(path), mode: stat.mode, uid: stat.uid, gid: stat.gid, kind });
        Ok(())
    }

    /// A name that is too long for a header, written before it.
    fn long(&mut self, kind: EntryType, name: &[u8]) -> io::Result<()> {
        let mut header = Header::new_gnu();
        let label = b"././@LongLink";
        header.as_old_mut().name[..label.len()].copy_from_slice(label);
        header.set_size(name.len() as u64 + 1);
        header.set_entry_type(kind);
        header.set_cksum();
        self.tar.append(&header, name.chain(&[0_u8][..]))
    }
}

fn document<W: Write>(tar: &mut tar::Builder<W>, name: &str, value: &impl Serialize) -> io::Result<()> {
    let bytes = serde_json::to_vec(value)?;
    let mut header = Header::new_gnu();
    header.set_mode(0o600);
    header.set_size(bytes.len() as u64);
    tar.append_data(&mut header, name, &bytes[..])
}

/// Reads an archive from its beginning.
pub fn reader<R: Read>(from: R) -> io::Result<tar::Archive<impl Read>> {
    Ok(tar::Archive::new(zstd::Decoder::new(from)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_of_any_bytes_and_length_comes_back_as_it_was() {
        let head = Head {
            format: FORMAT,
            skep: "0".into(),
            hive: "h".into(),
            created_at: String::new(),
            schema: None,
            with_secrets: false,
        };
        let stat = Stat { mode: 0o644, uid: 1, gid: 2, mtime: 3 };
        let mut out = Writer::new(Vec::new(), head).unwrap();
        let long = vec![b'x'; 3000];
        let names: [&[u8]; 4] = [b"a%b", b"\xff\n", &long, b"./odd/../name"];
        for name in names {
            out.link(name, stat, name).unwrap();
        }
        let (bytes, manifest) = out.finish(Vec::new(), Vec::new()).unwrap();
        assert_eq!(manifest.entries[0].path, "a%25b");
        assert_eq!(manifest.entries[1].path, "%FF\n");
        let mut archive = reader(&bytes[..]).unwrap();
        let mut read = Vec::new();
        for entry in archive.entries().unwrap() {
            let entry = entry.unwrap();
            read.push((entry.path_bytes().to_vec(), entry.link_name_bytes().map(|n| n.to_vec())));
        }
        let full = |name: &[u8]| [b"hive/", name].concat();
        let expected: Vec<_> = names.iter().map(|name| (full(name), Some(name.to_vec()))).collect();
        assert_eq!(read[1..5], expected[..]);
    }
}
