//! What is known of documents beside their skills: versions counted from 1, and when they were made and changed.
//!
//! Nothing here writes: a trigger of the schema counts, in the transaction that registers a version.

use std::collections::BTreeMap;

use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension, Row};
use semver::Version;

use super::{error::DbError, parse_time};
use crate::ids::SkillId;

/// The count of one skill.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counted {
    /// 1 for the first version, and one more for each since.
    pub version: u64,
    /// When the first version came.
    pub created_on: Timestamp,
    /// When the last one came.
    pub modified_on: Timestamp,
}

const COLUMNS: &str = "version, created_on, modified_on";

fn counted(row: &Row<'_>) -> Result<Counted, DbError> {
    let version: i64 = row.get("version")?;
    Ok(Counted {
        version: u64::try_from(version)
            .map_err(|_| DbError::bad_value("document", "version", &version.to_string()))?,
        created_on: parse_time("document.created_on", &row.get::<_, String>("created_on")?)?,
        modified_on: parse_time("document.modified_on", &row.get::<_, String>("modified_on")?)?,
    })
}

/// The count of one skill; none when there is no such skill.
///
/// # Errors
/// The database fails.
pub fn get(conn: &Connection, id: &SkillId) -> Result<Option<Counted>, DbError> {
    let mut query = conn.prepare_cached(&format!("SELECT {COLUMNS} FROM document WHERE skill_id = ?1"))?;
    let mut rows = query.query([id.as_str()])?;
    rows.next()?.map(counted).transpose()
}

/// The counts of all skills.
///
/// # Errors
/// The database fails.
pub fn all(conn: &Connection) -> Result<BTreeMap<SkillId, Counted>, DbError> {
    let mut query = conn.prepare_cached(&format!("SELECT skill_id, {COLUMNS} FROM document"))?;
    let mut rows = query.query([])?;
    let mut all = BTreeMap::new();
    while let Some(row) = rows.next()? {
        let id: String = row.get("skill_id")?;
        let id = id.parse().map_err(|_| DbError::bad_value("document", "skill_id", &id))?;
        all.insert(id, counted(row)?);
    }
    Ok(all)
}

/// Where a version came from, for people: of the operator's folders their place.
///
/// # Errors
/// The database fails.
pub fn origin(conn: &Connection, id: &SkillId, version: &Version) -> Result<Option<String>, DbError> {
    Ok(conn
        .prepare_cached("SELECT source FROM skill_version WHERE skill_id = ?1 AND version = ?2")?
        .query_row([id.as_str(), &version.to_string()], |row| row.get(0))
        .optional()?)
}

#[cfg(test)]
#[path = "documents_tests.rs"]
mod tests;
