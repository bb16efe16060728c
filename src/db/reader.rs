//! Connections that only read, lent out one closure at a time.
//!
//! They are opened when first needed and kept. None can write, whatever its closure tries.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use rusqlite::{Connection, OpenFlags};
use tokio::sync::Semaphore;

use super::error::{DbError, DbFault};

/// Reads at the same time; more wait.
const READERS: usize = 4;

/// The pool.
#[derive(Debug)]
pub(super) struct Readers {
    path: PathBuf,
    idle: Arc<Mutex<Vec<Connection>>>,
    free: Arc<Semaphore>,
}

impl Readers {
    pub(super) fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), idle: Arc::default(), free: Arc::new(Semaphore::new(READERS)) }
    }

    pub(super) async fn read<T, E, F>(&self, work: F) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<DbError> + Send + 'static,
        F: FnOnce(&Connection) -> Result<T, E> + Send + 'static,
    {
        let Ok(permit) = self.free.clone().acquire_owned().await else {
            return Err(DbError::from(DbFault::Closed).into());
        };
        let (idle, path) = (self.idle.clone(), self.path.clone());
        let answered = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            let kept = idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
            let mut conn = match kept {
                Some(conn) => conn,
                None => open(&path).map_err(|e| e.at(&path))?,
            };
            let outcome = snapshot(&mut conn, work);
            idle.lock().unwrap_or_else(PoisonError::into_inner).push(conn);
            outcome
        });
        answered.await.unwrap_or_else(|_| Err(DbError::from(DbFault::Panicked).into()))
    }
}

fn open(path: &Path) -> Result<Connection, DbError> {
    let conn = Connection::open_with_flags(
        path,
        OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX,
    )?;
    conn.busy_timeout(std::time::Duration::from_secs(10))?;
    conn.pragma_update(None, "query_only", true)?;
    conn.set_prepared_statement_cache_capacity(super::STATEMENTS);
    Ok(conn)
}

/// One transaction, so that several queries see one state. Nothing to commit: it ends by rolling back.
fn snapshot<T, E: From<DbError>>(
    conn: &mut Connection,
    work: impl FnOnce(&Connection) -> Result<T, E>,
) -> Result<T, E> {
    let tx = conn.transaction().map_err(DbError::from)?;
    work(&tx)
}
