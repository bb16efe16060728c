//! A copy of a database that is in use, and whether a copy is whole.
//!
//! Reads the original only. A copy stands by itself: no log beside it, no journal.

use std::{collections::BTreeSet, path::Path};

use rusqlite::{Connection, OpenFlags};

use super::{
    error::{DbError, DbFault},
    schema, skills,
};
use crate::{ids::Digest, skill::model::Skill};

/// What a whole copy holds.
#[derive(Debug, Clone)]
pub struct Content {
    /// Its schema; at most the newest that this program knows.
    pub schema: i64,
    /// The store entries that it names.
    pub digests: BTreeSet<Digest>,
    /// Every version of every skill.
    pub skills: Vec<Skill>,
}

/// Writes one consistent state of the database to a new file; writers go on meanwhile. Blocks.
///
/// # Errors
/// The database cannot be read, the copy not be written.
pub fn copy(from: &Path, to: &Path) -> Result<(), DbError> {
    let conn = open(from)?;
    schema::check_origin(&conn).map_err(|e| e.at(from))?;
    conn.execute("VACUUM INTO ?1", [to.to_string_lossy()]).map_err(|e| DbError::from(e).at(from))?;
    Ok(())
}

/// Checks every page of a file that nothing writes, and answers what it holds. Blocks.
///
/// # Errors
/// It is damaged, a newer program's, or no database of ours.
pub fn check(path: &Path) -> Result<Content, DbError> {
    let conn = open(path)?;
    read(&conn).map_err(|e| e.at(path))
}

/// The newest schema that this program knows.
#[must_use]
pub fn newest() -> i64 {
    i64::try_from(schema::STEPS.len()).unwrap_or(i64::MAX)
}

pub(super) fn open(path: &Path) -> Result<Connection, DbError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let conn = Connection::open_with_flags(path, flags).map_err(|e| DbError::from(e).at(path))?;
    conn.busy_timeout(std::time::Duration::from_secs(10))?;
    Ok(conn)
}

fn read(conn: &Connection) -> Result<Content, DbError> {
    schema::check_origin(conn)?;
    let schema = conn.pragma_query_value(None, "user_version", |r| r.get(0))?;
    if schema > newest() {
        return Err(DbFault::Newer(schema, newest()).into());
    }
    let verdict: String = conn.query_row("PRAGMA integrity_check(1)", [], |r| r.get(0))?;
    if verdict != "ok" {
        return Err(DbFault::Damaged(verdict).into());
    }
    // What was declared stood beside each version until schema 4.
    let table = if schema < 4 { "skill_version" } else { "skill_manifest" };
    let mut query = conn.prepare(&format!("SELECT manifest FROM {table}"))?;
    let texts = query.query_map([], |r| r.get::<_, String>(0))?;
    let mut declared = Vec::new();
    for text in texts {
        let skill = serde_json::from_str(&text?);
        declared.push(skill.map_err(|e| DbFault::BadValue(format!("{table}.manifest: {e}")))?);
    }
    Ok(Content { schema, digests: skills::digests(conn)?, skills: declared })
}
