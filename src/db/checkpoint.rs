//! Moves what was committed from the write-ahead log into the database file, on a thread of its own.
//!
//! SQLite would do so within the commit that fills the log, and that one caller would wait for thousands of scattered
//! pages to be on the disk. Here only a log far past the usual size makes a commit wait. Never changes what is read.

use std::{
    path::Path,
    sync::mpsc::{Receiver, SyncSender, sync_channel},
    thread::JoinHandle,
};

use rusqlite::{Connection, OpenFlags};

/// Pages in the log (4 KiB each) from which on they are moved: few, for a commit waits for what the disk has in hand.
const FULL: i32 = 250;
/// Pages from which on a commit moves them itself: the thread does not keep up.
const OVERFULL: i32 = 16_000;

/// The thread; it ends when this is dropped after the connection that it was attached to.
#[derive(Debug)]
pub(super) struct Checkpointer {
    wake: Option<SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Checkpointer {
    /// Takes over the checkpoints of `conn`, which writes the file at `path`.
    pub(super) fn start(path: &Path, conn: &mut Connection) -> Result<Self, super::DbError> {
        let (wake, woken) = sync_channel(1);
        let path = path.to_owned();
        let thread = std::thread::Builder::new()
            .name("skep-db-log".into())
            .spawn(move || run(&path, &woken))
            .map_err(|e| super::DbFault::Other(format!("no thread for its log: {e}")))?;
        let call = wake.clone();
        conn.wal_hook(Some(move |log: &mut rusqlite::hooks::Wal, pages| {
            // The commit is done: nothing here may make it look failed.
            if pages >= OVERFULL {
                told(log.checkpoint());
            } else if pages >= FULL {
                // A full channel: it is awake already.
                call.try_send(()).unwrap_or_default();
            }
            Ok(())
        }))?;
        Ok(Self { wake: Some(wake), thread: Some(thread) })
    }

    /// Gives the checkpoints back to `conn` and ends the thread.
    pub(super) fn stop(mut self, conn: &mut Connection) {
        if let Err(error) = conn.wal_hook(None::<fn(&mut rusqlite::hooks::Wal, i32) -> rusqlite::Result<()>>)
        {
            tracing::debug!(%error, "the log of the database keeps its thread");
            return;
        }
        drop(self.wake.take());
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread of the database's log panicked");
        }
    }
}

fn run(path: &Path, woken: &Receiver<()>) {
    let mut conn = None;
    while woken.recv().is_ok() {
        told(checkpoint(path, &mut conn));
    }
}

/// A full disk, say: commits tell of it, and the log waits for the next call.
fn told(outcome: rusqlite::Result<()>) {
    if let Err(error) = outcome {
        tracing::debug!(%error, "the log of the database could not be moved into it");
    }
}

fn checkpoint(path: &Path, conn: &mut Option<Connection>) -> rusqlite::Result<()> {
    let conn = match conn {
        Some(conn) => conn,
        none => none.insert(Connection::open_with_flags(
            path,
            OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX,
        )?),
    };
    conn.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()))
}
