//! The one thread that writes: takes closures in order, runs each in a transaction.
//!
//! Outlives its callers' patience, never their process. A closure that panics is rolled back and
//! takes nothing else with it.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
    sync::{Arc, mpsc},
    thread::JoinHandle,
};

use rusqlite::{Connection, Transaction, TransactionBehavior};
use tokio::sync::{oneshot, watch};

use super::{
    checkpoint::Checkpointer,
    error::{DbError, DbFault},
};

type Work = Box<dyn FnOnce(&mut Connection) + Send>;

/// The writer's thread and the way to it.
#[derive(Debug)]
pub(super) struct Writer {
    queue: Option<mpsc::Sender<Work>>,
    thread: Option<JoinHandle<()>>,
    commits: Arc<watch::Sender<u64>>,
}

impl Writer {
    pub(super) fn start(mut conn: Connection, path: &Path) -> Result<Self, DbError> {
        let log = Checkpointer::start(path, &mut conn)?;
        let (queue, work) = mpsc::channel();
        let thread = std::thread::Builder::new()
            .name("skep-db".into())
            .spawn(move || run(conn, log, &work))
            .map_err(|e| DbError::from(DbFault::Other(format!("no thread for its writer: {e}"))))?;
        Ok(Self { queue: Some(queue), thread: Some(thread), commits: Arc::new(watch::Sender::new(0)) })
    }

    pub(super) fn commits(&self) -> watch::Receiver<u64> {
        self.commits.subscribe()
    }

    /// The work is queued at once, in the order of the calls; the future only waits for its outcome.
    pub(super) fn write<T, E, F>(&self, work: F) -> impl Future<Output = Result<T, E>> + Send + use<T, E, F>
    where
        T: Send + 'static,
        E: From<DbError> + Send + 'static,
        F: FnOnce(&Transaction<'_>) -> Result<T, E> + Send + 'static,
    {
        let closed = || E::from(DbError::from(DbFault::Closed));
        let (answer, answered) = oneshot::channel();
        let commits = self.commits.clone();
        let work: Work = Box::new(move |conn| {
            let outcome = catch_unwind(AssertUnwindSafe(|| in_transaction(conn, work)))
                .unwrap_or_else(|_| Err(E::from(DbError::from(DbFault::Panicked))));
            if outcome.is_ok() {
                commits.send_modify(|n| *n += 1);
            }
            // Whoever asked may have stopped waiting; the work is done all the same.
            drop(answer.send(outcome));
        });
        // A queue that is gone drops the work, and with it the sender of the answer.
        drop(self.queue.as_ref().map(|queue| queue.send(work)));
        async move { answered.await.unwrap_or_else(|_| Err(closed())) }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        drop(self.queue.take());
        if let Some(thread) = self.thread.take()
            && thread.thread().id() != std::thread::current().id()
            && thread.join().is_err()
        {
            tracing::error!("the database writer panicked");
        }
    }
}

fn run(mut conn: Connection, log: Checkpointer, work: &mpsc::Receiver<Work>) {
    while let Ok(work) = work.recv() {
        work(&mut conn);
        // A commit that failed (disk full) can leave its transaction open.
        if !conn.is_autocommit()
            && let Err(error) = conn.execute_batch("ROLLBACK")
        {
            tracing::error!(%error, "a failed transaction could not be rolled back");
        }
    }
    log.stop(&mut conn);
    if let Err((_, error)) = conn.close() {
        tracing::warn!(%error, "the database did not close cleanly; its log is replayed at the next start");
    }
}

fn in_transaction<T, E: From<DbError>>(
    conn: &mut Connection,
    work: impl FnOnce(&Transaction<'_>) -> Result<T, E>,
) -> Result<T, E> {
    let tx = conn.transaction_with_behavior(TransactionBehavior::Immediate).map_err(DbError::from)?;
    let value = work(&tx)?;
    tx.commit().map_err(DbError::from)?;
    Ok(value)
}
