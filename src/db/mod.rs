//! The one SQLite file of a hive, `.skep/skep.db`; all SQL lives here.
//!
//! One thread writes: it takes closures and runs each in a transaction of its own, so that what
//! `write` answers is on the disk. Readers have connections of their own that cannot write. Nothing
//! written by hand is kept here: the file can be moved away.

pub mod agents;
pub mod backup;
mod checkpoint;
pub mod documents;
pub mod error;
pub mod events;
pub mod facts;
pub mod figures;
pub mod idempotency;
pub mod jobs;
pub mod lock;
pub mod lock_history;
pub mod mail;
pub mod meta;
pub mod offline;
pub mod outbox;
pub mod queue;
mod reader;
pub mod runs;
mod schema;
pub mod skills;
pub mod tasks;
pub mod variables;
mod writer;

use std::{
    fs::OpenOptions,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    sync::Arc,
};

pub use error::{DbError, DbFault};
use rusqlite::{Connection, OpenFlags, Transaction};
use tokio::sync::watch;

/// Files up to this size are checked at every start (about 0.1 s for so many bytes).
const CHECKED_UP_TO: u64 = 128 << 20;

/// Statements that a connection keeps ready: more than there are. With fewer, one look at the queue would throw out
/// what the next one needs.
const STATEMENTS: usize = 256;

/// A transaction on the writer's thread, as `Db::write` hands it out.
pub type Tx<'a> = Transaction<'a>;

/// A connection that only reads, as `Db::read` hands it out; a [`Tx`] can stand in for it.
pub type Conn = Connection;

/// The hive's database. Clones share it; it closes with the last one.
#[derive(Debug, Clone)]
pub struct Db {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    writer: writer::Writer,
    readers: reader::Readers,
    path: PathBuf,
}

impl Db {
    /// Opens the file, making or migrating it as needed. Blocks.
    ///
    /// # Errors
    /// The file is damaged, written by a newer program, not ours, read-only, or the disk is full.
    pub fn open(path: &Path) -> Result<Self, DbError> {
        let conn = connect(path).map_err(|e| e.at(path))?;
        let writer = writer::Writer::start(conn, path).map_err(|e| e.at(path))?;
        let readers = reader::Readers::new(path);
        Ok(Self { inner: Arc::new(Inner { writer, readers, path: path.to_owned() }) })
    }

    /// Runs `work` in a transaction on the writer's thread. When this answers `Ok`, it is on the disk;
    /// when `work` fails, nothing of it is. It is queued by the call itself, in the order of calls; a caller
    /// that stops waiting does not stop it.
    ///
    /// # Errors
    /// What `work` answers, or why the transaction failed.
    pub fn write<T, E, F>(&self, work: F) -> impl Future<Output = Result<T, E>> + Send + use<T, E, F>
    where
        T: Send + 'static,
        E: From<DbError> + Send + 'static,
        F: FnOnce(&Transaction<'_>) -> Result<T, E> + Send + 'static,
    {
        self.inner.writer.write(work)
    }

    /// Runs `work` on a connection that cannot write, on one consistent state, beside other readers.
    ///
    /// # Errors
    /// What `work` answers, or why there is no connection.
    pub async fn read<T, E, F>(&self, work: F) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<DbError> + Send + 'static,
        F: FnOnce(&Connection) -> Result<T, E> + Send + 'static,
    {
        self.inner.readers.read(work).await
    }

    /// Changes whenever a write was committed: wait on it, then read again.
    #[must_use]
    pub fn commits(&self) -> watch::Receiver<u64> {
        self.inner.writer.commits()
    }

    /// Where the file stands.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.inner.path
    }
}

/// The writer's connection, with the schema of this program.
fn connect(path: &Path) -> Result<Connection, DbError> {
    // Made by ourselves for its mode: SQLite gives the same mode to the files beside it.
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
        Err(e) if e.kind() != std::io::ErrorKind::AlreadyExists => {
            return Err(DbError::cannot_make(&e));
        }
        _ => {}
    }
    let mut conn = Connection::open_with_flags(
        path,
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX,
    )?;
    if conn.is_readonly("main")? {
        return Err(DbError::from(DbFault::ReadOnly));
    }
    conn.busy_timeout(std::time::Duration::from_secs(10))?;
    conn.set_prepared_statement_cache_capacity(STATEMENTS);
    schema::check_origin(&conn)?;
    let mode: String = conn.pragma_update_and_check(None, "journal_mode", "wal", |r| r.get(0))?;
    if mode != "wal" {
        return Err(DbError::from(DbFault::Other(format!(
            "its file system has no write-ahead log (journal mode is {mode}): put the hive on a local disk"
        ))));
    }
    conn.pragma_update(None, "synchronous", "full")?;
    conn.pragma_update(None, "foreign_keys", true)?;
    conn.pragma_update(None, "journal_size_limit", 16 << 20)?;
    if std::fs::metadata(path).is_ok_and(|m| m.len() <= CHECKED_UP_TO) {
        let verdict: String = conn.query_row("PRAGMA quick_check(1)", [], |r| r.get(0))?;
        if verdict != "ok" {
            return Err(DbError::from(DbFault::Damaged(verdict)));
        }
    }
    schema::migrate(&mut conn, path, schema::STEPS)?;
    Ok(conn)
}

/// A time as it is stored: RFC 3339, UTC, milliseconds always written so that text sorts by time.
fn time(at: jiff::Timestamp) -> String {
    format!("{at:.3}")
}

fn parse_time(column: &str, text: &str) -> Result<jiff::Timestamp, DbError> {
    text.parse().map_err(|_| DbFault::BadValue(format!("{column} = {text:?}")).into())
}

#[cfg(test)]
mod tests;
