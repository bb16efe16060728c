//! The schema and its history: each step brings a file from one version to the next.
//!
//! A step that was released never changes. A file of an older version is copied before it is
//! migrated, all steps in one transaction; one of a newer version is refused untouched.

use std::path::{Path, PathBuf};

use rusqlite::{Connection, TransactionBehavior};

use super::error::{DbError, DbFault};

/// `PRAGMA application_id` of a skep database: "skep".
const APPLICATION_ID: i64 = 0x736b_6570;

/// Step n makes schema n + 1.
pub(super) const STEPS: &[&str] = &[
    include_str!("migrations/001.sql"),
    include_str!("migrations/002.sql"),
    include_str!("migrations/003.sql"),
    include_str!("migrations/004.sql"),
    include_str!("migrations/005.sql"),
    include_str!("migrations/006.sql"),
    include_str!("migrations/007.sql"),
    include_str!("migrations/008.sql"),
    include_str!("migrations/009.sql"),
    include_str!("migrations/010.sql"),
];

/// Refuses a database that something else made.
pub(super) fn check_origin(conn: &Connection) -> Result<(), DbError> {
    let id: i64 = conn.pragma_query_value(None, "application_id", |r| r.get(0))?;
    let tables: i64 = conn.query_row("SELECT count(*) FROM sqlite_schema", [], |r| r.get(0))?;
    if id == APPLICATION_ID || (id == 0 && tables == 0) {
        return Ok(());
    }
    Err(DbFault::NotOurs.into())
}

/// Brings the schema to that of `steps`.
pub(super) fn migrate(conn: &mut Connection, path: &Path, steps: &[&str]) -> Result<(), DbError> {
    let known = steps.len();
    let found: i64 = conn.pragma_query_value(None, "user_version", |r| r.get(0))?;
    let done = usize::try_from(found)
        .ok()
        .filter(|done| *done <= known)
        .ok_or(DbFault::Newer(found, i64::try_from(known).unwrap_or(i64::MAX)))?;
    if done == known {
        return Ok(());
    }
    if done > 0 {
        back_up(conn, path, done)?;
        tracing::info!(from = done, to = known, "migrating the database");
    }
    let tx = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
    for step in &steps[done..] {
        tx.execute_batch(step)?;
    }
    tx.pragma_update(None, "application_id", APPLICATION_ID)?;
    tx.pragma_update(None, "user_version", i64::try_from(known).unwrap_or(i64::MAX))?;
    tx.commit()?;
    Ok(())
}

/// Where the copy of a file goes before it is migrated from schema `version`.
fn backup_path(path: &Path, version: usize) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".v{version}.bak"));
    name.into()
}

fn back_up(conn: &Connection, path: &Path, version: usize) -> Result<(), DbError> {
    let to = backup_path(path, version);
    let failed =
        |e: std::io::Error| DbFault::Other(format!("no copy {} before migrating: {e}", to.display()));
    let mut half = to.as_os_str().to_owned();
    half.push(".part");
    let half = PathBuf::from(half);
    match std::fs::remove_file(&half) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(failed(e).into()),
        _ => {}
    }
    conn.execute("VACUUM INTO ?1", [half.to_string_lossy()])?;
    std::fs::File::open(&half).and_then(|f| f.sync_all()).map_err(failed)?;
    std::fs::rename(&half, &to).map_err(failed)?;
    Ok(())
}
