//! One supervisor a hive: an advisory lock on a file that tells who holds it.
//!
//! The kernel frees the lock when its holder dies, however it dies; the file itself stays, since
//! removing it would let two hold "the" lock.

use std::{
    fs::{File, OpenOptions},
    io::{self, Read, Seek, Write},
    os::unix::fs::OpenOptionsExt,
    path::Path,
    time::Duration,
};

use jiff::Timestamp;
use rustix::{
    fs::{FlockOperation, flock},
    io::Errno,
};
use serde::{Deserialize, Serialize};

/// Who holds the hive.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// Its process.
    pub pid: u32,
    /// Since when.
    pub started_at: Timestamp,
    /// Where it answers.
    pub socket: String,
}

/// Why the lock was not taken.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// A supervisor has it.
    #[error("{}", held(holder.as_ref(), path))]
    Held {
        /// Who, when its file could be read.
        holder: Option<Holder>,
        /// The lock's file.
        path: String,
    },
    /// The file cannot be opened or written.
    #[error("cannot lock the hive with {path}")]
    Io {
        /// The lock's file.
        path: String,
        /// Why.
        source: io::Error,
    },
}

fn held(holder: Option<&Holder>, path: &str) -> String {
    match holder {
        Some(h) => format!(
            "a supervisor runs this hive already: process {} since {} (it answers on {}); stop it with `skep down`",
            h.pid, h.started_at, h.socket
        ),
        None => format!("a supervisor runs this hive already (it holds {path}); stop it with `skep down`"),
    }
}

/// The lock, held until dropped or until the process ends.
#[derive(Debug)]
pub struct HiveLock {
    file: File,
}

impl HiveLock {
    /// Takes the lock at `path` (`.skep/supervisor.lock`) without waiting, and writes who took it.
    ///
    /// # Errors
    /// Somebody holds it, or the file cannot be written.
    pub fn acquire(path: &Path, holder: &Holder) -> Result<Self, LockError> {
        let failed = |source| LockError::Io { path: path.display().to_string(), source };
        let mut file = open(path).map_err(failed)?;
        match take(&file) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => {
                let holder = read_holder(&mut file);
                return Err(LockError::Held { holder, path: path.display().to_string() });
            }
            Err(e) => return Err(failed(e.into())),
        }
        let text = serde_json::to_vec(holder).map_err(|e| failed(io::Error::other(e)))?;
        file.set_len(0).and_then(|()| file.rewind()).and_then(|()| file.write_all(&text)).map_err(failed)?;
        Ok(Self { file })
    }
}

/// Takes the lock, again when [`holder`] was only looking.
fn take(file: &File) -> Result<(), Errno> {
    for _ in 0..5 {
        match flock(file, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) => std::thread::sleep(Duration::from_millis(10)),
            other => return other,
        }
    }
    Err(Errno::WOULDBLOCK)
}

/// Who holds the lock at `path`; none when nobody does.
///
/// # Errors
/// The file cannot be opened.
pub fn holder(path: &Path) -> io::Result<Option<Holder>> {
    let mut file = match File::open(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        other => other?,
    };
    match flock(&file, FlockOperation::NonBlockingLockShared) {
        Err(Errno::WOULDBLOCK) => Ok(read_holder(&mut file)),
        Ok(()) => Ok(None),
        Err(e) => Err(e.into()),
    }
}

impl Drop for HiveLock {
    fn drop(&mut self) {
        // Closing frees the lock too; this only keeps the file from naming the dead.
        if let Err(error) = self.file.set_len(0) {
            tracing::debug!(%error, "the hive's lock file keeps its last holder");
        }
    }
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)
}

fn read_holder(file: &mut File) -> Option<Holder> {
    let mut text = Vec::new();
    file.take(4096).read_to_end(&mut text).ok()?;
    serde_json::from_slice(&text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holder_of(pid: u32) -> Holder {
        let started_at = "2026-01-02T03:04:05Z".parse().unwrap();
        Holder { pid, started_at, socket: "/hive/.skep/skep.sock".into() }
    }

    #[test]
    fn a_second_supervisor_is_refused_and_told_who_is_first() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("supervisor.lock");
        assert_eq!(holder(&path).unwrap(), None);
        let first = HiveLock::acquire(&path, &holder_of(41)).unwrap();
        let refused = HiveLock::acquire(&path, &holder_of(42)).unwrap_err().to_string();
        assert!(refused.contains("process 41 since 2026-01-02T03:04:05Z"), "{refused}");
        assert_eq!(holder(&path).unwrap(), Some(holder_of(41)));
        drop(first);
        assert_eq!(holder(&path).unwrap(), None);
        HiveLock::acquire(&path, &holder_of(42)).unwrap();
    }

    #[test]
    fn a_file_left_by_a_dead_supervisor_does_not_hold_the_hive() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("supervisor.lock");
        std::fs::write(&path, serde_json::to_vec(&holder_of(7)).unwrap()).unwrap();
        assert_eq!(holder(&path).unwrap(), None);
        let _lock = HiveLock::acquire(&path, &holder_of(8)).unwrap();
        assert_eq!(holder(&path).unwrap(), Some(holder_of(8)));
    }
}
