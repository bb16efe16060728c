//! What skills say of variables (systems.md C3) and of jobs (A19), found without reading every manifest.
//!
//! Names only: no value of a variable is ever in the database.

use std::collections::BTreeSet;

use rusqlite::Connection;

use super::error::DbError;
use crate::ids::SkillId;

/// Names that some trusted or approved version declares with `secret: true`.
///
/// # Errors
/// The database fails.
pub fn secret_names(conn: &Connection) -> Result<BTreeSet<String>, DbError> {
    let mut query = conn.prepare_cached(
        "SELECT DISTINCT json_extract(var.value, '$.name') FROM skill_version \
         JOIN skill_manifest USING (skill_id, version), json_each(manifest, '$.vars') AS var WHERE trust IN ('trusted', 'approved') AND manifest LIKE '%\"secret\":true%' AND json_extract(var.value, '$.secret')",
    )?;
    let names = query.query_map([], |r| r.get(0))?;
    Ok(names.collect::<Result<_, _>>()?)
}

/// Whether some version of the skill says when it runs (`trigger_config`).
///
/// # Errors
/// The database fails.
pub fn has_trigger(conn: &Connection, id: &SkillId) -> Result<bool, DbError> {
    let mut query = conn.prepare_cached(
        "SELECT 1 FROM skill_manifest WHERE skill_id = ?1 AND manifest LIKE '%\"trigger_config\"%'",
    )?;
    Ok(query.exists([id.as_str()])?)
}
