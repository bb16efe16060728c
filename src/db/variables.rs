//! Which variables of skills are secret (systems.md C3).
//!
//! Names only: no value of a variable is ever in the database.

use std::collections::BTreeSet;

use rusqlite::Connection;

use super::error::DbError;

/// Names that some trusted or approved version declares with `secret: true`.
///
/// # Errors
/// The database fails.
pub fn secret_names(conn: &Connection) -> Result<BTreeSet<String>, DbError> {
    let mut query = conn.prepare_cached(
        "SELECT DISTINCT json_extract(var.value, '$.name') FROM skill_version, json_each(manifest, '$.vars') AS var \
         WHERE trust IN ('trusted', 'approved') AND json_extract(var.value, '$.secret')",
    )?;
    let names = query.query_map([], |r| r.get(0))?;
    Ok(names.collect::<Result<_, _>>()?)
}
