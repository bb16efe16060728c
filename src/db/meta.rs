//! Single values about the hive itself: its random id, notes of the program to itself.
//!
//! Nothing that users set is kept here.

use rusqlite::{Connection, OptionalExtension, Transaction};

use super::error::{DbError, DbFault};

/// The value under `key`.
///
/// # Errors
/// The database fails.
pub fn get(conn: &Connection, key: &str) -> Result<Option<String>, DbError> {
    Ok(conn
        .prepare_cached("SELECT value FROM meta WHERE key = ?1")?
        .query_row([key], |r| r.get(0))
        .optional()?)
}

/// Keys that begin so, and their values.
///
/// # Errors
/// The database fails.
pub fn under(conn: &Connection, prefix: &str) -> Result<Vec<(String, String)>, DbError> {
    let mut query = conn
        .prepare_cached("SELECT key, value FROM meta WHERE substr(key, 1, length(?1)) = ?1 ORDER BY key")?;
    let rows = query.query_map([prefix], |r| Ok((r.get(0)?, r.get(1)?)))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Sets the value under `key`.
///
/// # Errors
/// The database fails.
pub fn set(tx: &Transaction<'_>, key: &str, value: &str) -> Result<(), DbError> {
    tx.prepare_cached(
        "INSERT INTO meta (key, value) VALUES (?1, ?2) ON CONFLICT (key) DO UPDATE SET value = ?2",
    )?
    .execute([key, value])?;
    Ok(())
}

/// Every key that begins so, and its value.
///
/// # Errors
/// The database fails.
pub fn beginning(conn: &Connection, prefix: &str) -> Result<Vec<(String, String)>, DbError> {
    let mut query = conn
        .prepare_cached("SELECT key, value FROM meta WHERE substr(key, 1, length(?1)) = ?1 ORDER BY key")?;
    let rows = query.query_map([prefix], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Removes the value under `key`; none is fine.
///
/// # Errors
/// The database fails.
pub fn remove(tx: &Transaction<'_>, key: &str) -> Result<(), DbError> {
    tx.prepare_cached("DELETE FROM meta WHERE key = ?1")?.execute([key])?;
    Ok(())
}

/// The hive's id: 128 random bits in hex, made once. It tells apart hives of the same name.
///
/// # Errors
/// The database fails, or the system gives no randomness.
pub fn hive_id(tx: &Transaction<'_>) -> Result<String, DbError> {
    if let Some(id) = get(tx, "hive_id")? {
        return Ok(id);
    }
    let mut random = [0; 16];
    getrandom::fill(&mut random)
        .map_err(|e| DbFault::Other(format!("no randomness for the hive's id: {e}")))?;
    let id = hex::encode(random);
    set(tx, "hive_id", &id)?;
    Ok(id)
}
