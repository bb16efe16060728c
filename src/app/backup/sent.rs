//! A backup for whoever asks a running hive for it: written in the hive's state without secrets, and gone once it was
//! read.

use std::{
    fs::{self, File},
    sync::{Arc, Mutex, TryLockError},
};

use super::{BackupError, BackupRequest, create};
use crate::app::{Result, hive::Hive, types::AppError};

/// How the names of folders begin that backups are written in.
const SCRATCH: &str = "backup-";
/// They read much and need as much disk again: one at a time.
static ONE: Mutex<()> = Mutex::new(());

impl Hive {
    /// Backs the hive up as it runs. Answers the file, which no folder has any more, and its bytes.
    ///
    /// # Errors
    /// Another one is being made, the hive stops, something is damaged, or the disk fails.
    pub async fn backup(self: &Arc<Self>) -> Result<(File, u64)> {
        let hive = self.clone();
        let written = tokio::task::spawn_blocking(move || hive.write_backup());
        written.await.map_err(|e| AppError::Internal(format!("the backup failed: {e}")))?
    }

    fn write_backup(&self) -> Result<(File, u64)> {
        let _one = match ONE.try_lock() {
            Err(TryLockError::WouldBlock) => {
                return Err(AppError::Conflict("a backup is being made: ask again when it is done".into()));
            }
            // It holds nothing that a panic could have left half done.
            Err(TryLockError::Poisoned(guard)) => guard.into_inner(),
            Ok(guard) => guard,
        };
        let failed = |e: std::io::Error| AppError::Unavailable(format!("the backup failed: {e}"));
        let state = self.paths.state();
        // Nobody else makes one now: what is there was left by a supervisor that was killed.
        for entry in fs::read_dir(&state).map_err(failed)?.flatten() {
            if entry.file_name().to_string_lossy().starts_with(SCRATCH) {
                fs::remove_dir_all(entry.path()).map_err(failed)?;
            }
        }
        let folder = tempfile::Builder::new().prefix(SCRATCH).tempdir_in(&state).map_err(failed)?;
        let file = folder.path().join("hive.tar.zst");
        let request = BackupRequest {
            paths: self.paths.clone(),
            config: (*self.world().config).clone(),
            file: file.clone(),
            with_secrets: false,
            replace: false,
        };
        let stopping = self.stopping.clone();
        let go_on = move |_: &str, _| match stopping.is_cancelled() {
            true => Err(std::io::Error::other("the supervisor stops")),
            false => Ok(()),
        };
        let report = create(&request, Box::new(go_on))?;
        Ok((File::open(&file).map_err(failed)?, report.size))
    }
}

impl From<BackupError> for AppError {
    fn from(error: BackupError) -> Self {
        match error {
            BackupError::Refused { message, help } => Self::Conflict(format!("{message}; {help}")),
            BackupError::Db(e) => e.into(),
            BackupError::Store(e) => e.into(),
            BackupError::Io(e) => Self::Unavailable(format!("the backup failed: {e}")),
        }
    }
}
