//! One version with what it declares and holds: detail, single files, archives, differences.
//!
//! Everything is read from the store and compared with the digest it is published under.

use std::io::{self, Write};

use bytes::Bytes;
use semver::Version;
use tokio::sync::mpsc;

use super::{judge::no_version, list::find};
use crate::{
    app::{
        Result,
        hive::Hive,
        types::{AppError, SkillFileView, SkillVersionDetail},
    },
    db,
    ids::{Digest, SkillId},
    registry::{
        archive::{Format, pack},
        index::VersionEntry,
        store::{Store, StoreError},
    },
    skill::{
        diff::{self, Diff, Side},
        digest::digest,
        model::Skill,
        source::Source,
    },
};

/// Bytes of an archive that are sent in one piece.
const PIECE: usize = 64 << 10;

/// An archive on its way: pieces as they are packed; an error ends it before its end.
#[derive(Debug)]
pub struct Archive {
    /// Of what it holds.
    pub digest: Digest,
    /// The pieces.
    pub pieces: mpsc::Receiver<io::Result<Bytes>>,
}

impl Hive {
    /// One version with its files.
    ///
    /// # Errors
    /// There is none; its content is missing or altered; the database fails.
    pub async fn skill_version(&self, id: &SkillId, version: &Version) -> Result<SkillVersionDetail> {
        let (entry, skill, source) = self.declared(id, version).await?;
        let (name, at) = (id.clone(), version.clone());
        let row = self.db.read(move |conn| db::skills::origin(conn, &name, &at)).await?;
        let (from, registered_at) = row.ok_or_else(|| gone(id, version))?;
        let files = source.files.iter().map(|(path, info)| SkillFileView {
            path: path.clone(),
            size: info.size,
            executable: info.executable,
            digest: Digest(info.digest).to_string(),
        });
        Ok(SkillVersionDetail {
            id: id.to_string(),
            name: skill.name.clone(),
            description: skill.description.clone(),
            owner: find(&self.world(), id)?.owner.clone().into(),
            version: version.to_string(),
            digest: entry.digest.to_string(),
            yanked: entry.yanked,
            deprecated: entry.deprecated.clone(),
            trust: super::trust_name(entry.trust),
            source: from,
            registered_at: registered_at.to_string(),
            manifest: serde_json::to_value(&skill).unwrap_or_default(),
            files: files.collect(),
        })
    }

    /// The bytes of one file of a version.
    ///
    /// # Errors
    /// There is none; its content is missing.
    pub async fn skill_file(&self, id: &SkillId, version: &Version, path: &str) -> Result<Vec<u8>> {
        let entry = self.version_entry(id, version)?;
        let (store, name) = (self.store.clone(), path.to_owned());
        let read = blocking(move || store.read(&entry.digest, &name)).await??;
        read.ok_or_else(|| AppError::NotFound(format!("{id}@{version} has no file {path:?}")))
    }

    /// A version as an archive: the same bytes each time.
    ///
    /// # Errors
    /// There is none; its content is missing or altered.
    pub async fn skill_archive(&self, id: &SkillId, version: &Version, format: Format) -> Result<Archive> {
        let entry = self.version_entry(id, version)?;
        let (store, digest) = (self.store.clone(), entry.digest);
        let source = blocking(move || whole(&store, &digest)).await??;
        let at = self.store.path(&digest);
        Ok(stream(digest, move |out| pack(&at, &source, format, out)))
    }

    /// What differs between two versions; without an older one everything is new.
    ///
    /// # Errors
    /// There is none; the content is missing or altered; the database fails.
    pub async fn skill_diff(&self, id: &SkillId, from: Option<&Version>, to: &Version) -> Result<Diff> {
        let old = match from {
            Some(from) => Some(self.declared(id, from).await?),
            None => None,
        };
        let (entry, skill, source) = self.declared(id, to).await?;
        let store = self.store.clone();
        blocking(move || {
            let read = |side: Side, path: &str| {
                let digest = match (side, &old) {
                    (Side::From, Some((old, _, _))) => old.digest,
                    _ => entry.digest,
                };
                store.read(&digest, path).map(Option::unwrap_or_default)
            };
            let before = old.as_ref().map(|(_, skill, source)| diff::Version { source, skill });
            diff::diff(before, diff::Version { source: &source, skill: &skill }, read)
        })
        .await?
        .map_err(|e: StoreError| e.into())
    }

    fn version_entry(&self, id: &SkillId, version: &Version) -> Result<VersionEntry> {
        let world = self.world();
        let entry = find(&world, id)?;
        entry.versions.get(version).cloned().ok_or_else(|| no_version(entry, version))
    }

    /// A version's entry, what it declares and its files.
    pub(in crate::app) async fn declared(
        &self,
        id: &SkillId,
        version: &Version,
    ) -> Result<(VersionEntry, Skill, Source)> {
        let entry = self.version_entry(id, version)?;
        let (name, at) = (id.clone(), version.clone());
        let skill = self.db.read(move |conn| db::skills::manifest(conn, &name, &at)).await?;
        let skill = skill.ok_or_else(|| gone(id, version))?;
        let (store, digest) = (self.store.clone(), entry.digest);
        let source = blocking(move || whole(&store, &digest)).await??;
        Ok((entry, skill, source))
    }
}

/// Sends what `pack` writes, piece by piece, from a thread of its own.
pub(in crate::app) fn stream(
    digest: Digest,
    pack: impl FnOnce(Pieces) -> io::Result<Pieces> + Send + 'static,
) -> Archive {
    let (sender, pieces) = mpsc::channel(4);
    tokio::task::spawn_blocking(move || {
        let out = Pieces { sender, piece: Vec::with_capacity(PIECE) };
        match pack(out).and_then(|mut out| out.flush()) {
            Ok(()) => {}
            // Nobody listens any more.
            Err(e) if e.kind() == io::ErrorKind::BrokenPipe => {}
            Err(e) => tracing::error!(%digest, "an archive could not be packed: {e}"),
        }
    });
    Archive { digest, pieces }
}

/// An entry's files, when they are what they were.
fn whole(store: &Store, expected: &Digest) -> std::result::Result<Source, StoreError> {
    let source = store.source(expected)?;
    let found = digest(&source);
    if found == *expected {
        return Ok(source);
    }
    Err(StoreError::Altered {
        expected: *expected,
        found: format!("its bytes give {found}"),
        at: store.path(expected),
    })
}

pub(in crate::app) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|e| AppError::Internal(format!("reading the store failed: {e}")))
}

fn gone(id: &SkillId, version: &Version) -> AppError {
    AppError::NotFound(format!("{id}@{version} is no longer in the registry"))
}

/// Sends what is written, a piece at a time; waits for a slow reader.
pub(in crate::app) struct Pieces {
    sender: mpsc::Sender<io::Result<Bytes>>,
    piece: Vec<u8>,
}

impl Write for Pieces {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.piece.extend_from_slice(bytes);
        if self.piece.len() >= PIECE {
            self.flush()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.piece.is_empty() {
            return Ok(());
        }
        let piece = std::mem::replace(&mut self.piece, Vec::with_capacity(PIECE));
        let sent = self.sender.blocking_send(Ok(piece.into()));
        sent.map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe))
    }
}
