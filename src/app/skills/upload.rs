//! Skills that come in over the API: an archive as it arrives, or a folder of a source.

use std::{
    io::{self, Read},
    path::Path,
};

use bytes::{Buf, Bytes};
use sha2::{Digest as _, Sha256};
use tokio::sync::mpsc;

use crate::{
    app::{
        Result,
        hive::Hive,
        types::{AppError, fault_pair},
    },
    registry::{
        archive::{Format, unpack},
        safe_copy::{CopyError, Origin, Policy},
        staging::Staged,
    },
};

/// An upload that was unpacked.
#[derive(Debug)]
pub struct Uploaded {
    /// The copy.
    pub staged: Staged,
    /// SHA-256 of the bytes that came: what tells one request from another.
    pub sha256: [u8; 32],
}

impl Hive {
    /// Unpacks an archive as it arrives.
    ///
    /// # Errors
    /// Everything that is wrong with it; the disk fails; it did not arrive whole.
    pub async fn unpack_upload(
        &self,
        format: Format,
        pieces: mpsc::Receiver<io::Result<Bytes>>,
    ) -> Result<Uploaded> {
        let (store, limits) = (self.store.clone(), self.world().config.registry.limits);
        let work = move || {
            let mut arriving = Arriving { pieces, piece: Bytes::new(), hash: Sha256::new(), failed: None };
            let unpacked = unpack(&mut arriving, format, &store, &limits);
            if let Some(why) = arriving.failed {
                return Err(AppError::Conflict(format!(
                    "the archive did not arrive whole: {why}; send it again"
                )));
            }
            Ok(Uploaded { staged: unpacked?, sha256: arriving.hash.finalize().into() })
        };
        let done = tokio::task::spawn_blocking(work).await;
        done.map_err(|e| AppError::Internal(format!("unpacking failed: {e}")))?
    }

    /// Copies a folder of one of the hive's sources.
    ///
    /// # Errors
    /// It lies outside of them; everything that is wrong with it; the disk fails.
    pub async fn stage_folder(&self, path: &str) -> Result<Staged> {
        let world = self.world();
        let registry = &world.config.registry;
        let wanted = self.paths.root.join(path);
        let plain = Path::new(path).components().all(|c| {
            matches!(
                c,
                std::path::Component::Normal(_)
                    | std::path::Component::RootDir
                    | std::path::Component::CurDir
            )
        });
        let inside = registry.sources.iter().find_map(|source| {
            let base = self.paths.resolve(source);
            let inner = wanted.strip_prefix(&base).ok()?.to_owned();
            Some((base, inner))
        });
        let Some((base, inner)) = inside.filter(|_| plain) else {
            let sources: Vec<String> = registry.sources.iter().map(|s| s.display().to_string()).collect();
            let detail = format!(
                "{path:?} lies in none of the hive's source folders ({}); put it there, or send an archive",
                sources.join(", ")
            );
            return Err(AppError::Invalid { errors: vec![("/path".into(), detail.clone())], detail });
        };
        let policy = Policy { origin: Origin::Operator, limits: registry.limits };
        let store = self.store.clone();
        let inner = if inner.as_os_str().is_empty() { Path::new(".").to_owned() } else { inner };
        let done = tokio::task::spawn_blocking(move || store.stage(&base, &inner, &policy)).await;
        Ok(done.map_err(|e| AppError::Internal(format!("copying failed: {e}")))??)
    }
}

impl From<CopyError> for AppError {
    fn from(error: CopyError) -> Self {
        match &error {
            CopyError::Rejected { faults, more, .. } => {
                let mut errors: Vec<_> = faults.iter().map(fault_pair).collect();
                if *more > 0 {
                    errors.push((".".into(), format!("and {more} more")));
                }
                Self::Invalid { detail: error.to_string(), errors }
            }
            CopyError::Missing(_) => Self::NotFound(error.to_string()),
            CopyError::NoOpenat2 => Self::Unavailable(error.to_string()),
            CopyError::Io { source, .. } => Self::Unavailable(format!("{error}: {source}")),
        }
    }
}

/// A body as a reader, hashed as it is read.
struct Arriving {
    pieces: mpsc::Receiver<io::Result<Bytes>>,
    piece: Bytes,
    hash: Sha256,
    failed: Option<String>,
}

impl Read for Arriving {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while self.piece.is_empty() {
            match self.pieces.blocking_recv() {
                None => return Ok(0),
                Some(Ok(piece)) => {
                    self.hash.update(&piece);
                    self.piece = piece;
                }
                Some(Err(e)) => {
                    self.failed = Some(e.to_string());
                    return Err(e);
                }
            }
        }
        let many = into.len().min(self.piece.len());
        self.piece.copy_to_slice(&mut into[..many]);
        Ok(many)
    }
}
