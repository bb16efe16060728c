//! What is handed out of a version: its files, with the SKILL.md that agents see where it has none of its own, and
//! the zip of them.
//!
//! Content never changes, so what is computed of it is kept by its digest. Bytes are compared with it each time.

use std::{
    collections::HashMap,
    io::{self, Read, Seek, Write},
    sync::{Arc, Mutex, PoisonError},
};

use sha2::{Digest as _, Sha256};
use tempfile::SpooledTempFile;

use super::fingerprint::{counts, fingerprint, is_text};
use crate::{
    app::{
        Result,
        hive::Hive,
        skills::{Archive, blocking, stream},
    },
    ids::{Digest, SkillId},
    registry::{
        archive::pack_zip,
        index::VersionEntry,
        store::{Store, StoreError},
    },
    sandbox::generated::skill_md,
    skill::{
        digest::excluded,
        source::{FileInfo, SKILL_MD, Source},
    },
};

/// Versions of which is kept what was computed; above it all is dropped, and computed again as it is asked for.
const MOST: usize = 65_536;
/// A zip up to so many bytes stays in memory, beyond in a file without a name.
const IN_MEMORY: usize = 1 << 20;

/// What a client downloads of a version, and how it knows the version again.
#[derive(Debug, Clone, Copy)]
pub(super) struct Artifact {
    /// The skill is its SKILL.md alone, and that is handed out; else the zip is.
    pub(super) alone: bool,
    /// SHA-256 of what is handed out.
    pub(super) digest: Digest,
    /// What ClawHub's clients compute of an installed folder: newer ones of all files, older ones of text.
    pub(super) fingerprints: [[u8; 32]; 2],
}

/// What was computed, by the digest of the content.
#[derive(Default)]
pub struct ArtifactCache {
    known: Mutex<HashMap<Digest, Artifact>>,
}

impl ArtifactCache {
    fn get(&self, digest: &Digest) -> Option<Artifact> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).get(digest).copied()
    }

    fn put(&self, digest: Digest, artifact: Artifact) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MOST {
            known.clear();
        }
        known.insert(digest, artifact);
    }
}

/// The files of a version as they are handed out.
#[derive(Debug)]
pub(super) struct Files {
    store: Store,
    digest: Digest,
    source: Source,
    /// The SKILL.md that stands nowhere.
    made: Option<String>,
}

impl Files {
    /// Path, size and SHA-256 of each, by path.
    pub(super) fn list(&self) -> Vec<(&str, FileInfo)> {
        let stored = self.source.files.iter().map(|(path, info)| (path.as_str(), info.clone()));
        let made = self.made.iter().map(|text| (SKILL_MD, FileInfo::of(text.as_bytes(), false)));
        let mut all: Vec<_> = stored.chain(made).filter(|(path, _)| !excluded(path)).collect();
        all.sort_unstable_by_key(|(path, _)| *path);
        all
    }

    /// One of them; none when there is no such file.
    pub(super) fn read(&self, path: &str) -> std::result::Result<Option<Vec<u8>>, StoreError> {
        match &self.made {
            Some(text) if path == SKILL_MD => Ok(Some(text.clone().into_bytes())),
            _ if excluded(path) || !self.source.files.contains_key(path) => Ok(None),
            _ => self.store.read(&self.digest, path),
        }
    }

    fn zip<W: Write + Seek>(&self, out: W) -> io::Result<W> {
        let made: Vec<(&str, &[u8])> = self.made.iter().map(|text| (SKILL_MD, text.as_bytes())).collect();
        pack_zip(&self.store.path(&self.digest), &self.source, &made, out)
    }

    fn artifact(&self) -> io::Result<Artifact> {
        let list = self.list();
        let head = |path: &str| self.read(path).ok().flatten();
        let all: Vec<(&str, [u8; 32])> =
            list.iter().filter(|(path, _)| counts(path)).map(|(path, info)| (*path, info.digest)).collect();
        let is_text = |path: &str| {
            is_text(path, |most| head(path).map(|bytes| bytes[..bytes.len().min(most)].to_vec()))
        };
        let text = all.iter().filter(|(path, _)| is_text(path)).copied().collect();
        let fingerprints = [fingerprint(all), fingerprint(text)];
        let (alone, digest) = match list.as_slice() {
            [(SKILL_MD, info)] => (true, info.digest),
            _ => (false, self.zip_digest()?),
        };
        Ok(Artifact { alone, digest: Digest(digest), fingerprints })
    }

    fn zip_digest(&self) -> io::Result<[u8; 32]> {
        let mut spool = self.zip(SpooledTempFile::new(IN_MEMORY))?;
        spool.rewind()?;
        let (mut hash, mut piece) = (Sha256::new(), vec![0; 64 << 10]);
        loop {
            match spool.read(&mut piece)? {
                0 => return Ok(hash.finalize().into()),
                read => hash.update(&piece[..read]),
            }
        }
    }
}

impl Hive {
    /// The files of a version.
    pub(super) async fn files(&self, id: &SkillId, version: &VersionEntry) -> Result<Arc<Files>> {
        let (entry, skill, source) = self.declared(id, &version.version).await?;
        let made = if source.files.contains_key(SKILL_MD) { None } else { skill_md(&skill) };
        Ok(Arc::new(Files { store: self.store.clone(), digest: entry.digest, source, made }))
    }

    /// What a client downloads of a version.
    pub(super) async fn artifact(&self, id: &SkillId, version: &VersionEntry) -> Result<Artifact> {
        if let Some(known) = self.registry.artifacts.get(&version.digest) {
            return Ok(known);
        }
        let files = self.files(id, version).await?;
        let artifact = blocking(move || files.artifact()).await?.map_err(|e| unpacked(id, version, &e))?;
        self.registry.artifacts.put(version.digest, artifact);
        Ok(artifact)
    }

    /// A version as a zip: the same bytes each time.
    pub(super) async fn zip(&self, id: &SkillId, version: &VersionEntry) -> Result<Archive> {
        let files = self.files(id, version).await?;
        let spool = blocking(move || {
            let mut spool = files.zip(SpooledTempFile::new(IN_MEMORY))?;
            spool.rewind().map(|()| spool)
        });
        let mut spool = spool.await?.map_err(|e| unpacked(id, version, &e))?;
        Ok(stream(version.digest, move |mut out| io::copy(&mut spool, &mut out).map(|_| out)))
    }
}

fn unpacked(id: &SkillId, version: &VersionEntry, error: &io::Error) -> crate::app::types::AppError {
    crate::app::types::AppError::Internal(format!("{id}@{} cannot be packed: {error}", version.version))
}
