//! What is found by words: id, name, description, tags and content of each skill's latest version.
//!
//! The text is a copy that whoever changes a skill brings up to date; losing it loses nothing. What people type is
//! quoted word by word: none of it is syntax.

use rusqlite::{Connection, Transaction, params};
use semver::Version;

use crate::{db::error::DbError, ids::SkillId, skill::model::Skill};

/// Bytes of content that are searched of one skill.
pub const MAX_CONTENT: usize = 256 << 10;
/// Words of a query that count.
const MAX_WORDS: usize = 16;

/// A skill that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hit {
    /// Which.
    pub id: SkillId,
    row: i64,
}

/// Searches a skill from now on by what this version of it says.
///
/// # Errors
/// The database fails.
pub fn put(tx: &Transaction<'_>, skill: &Skill, version: &Version, content: &str) -> Result<(), DbError> {
    tx.prepare_cached(
        "INSERT INTO skill_text (skill_id, version, name, description, tags, content)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6)
         ON CONFLICT (skill_id) DO UPDATE SET version = ?2, name = ?3, description = ?4, tags = ?5, content = ?6",
    )?
    .execute(params![
        skill.id.as_str(),
        version.to_string(),
        skill.name,
        skill.description,
        skill.tags.join(" "),
        content,
    ])?;
    Ok(())
}

/// The version by which each skill is searched.
///
/// # Errors
/// The database fails.
pub fn versions(conn: &Connection) -> Result<Vec<(String, String)>, DbError> {
    let mut query = conn.prepare_cached("SELECT skill_id, version FROM skill_text ORDER BY skill_id")?;
    let rows = query.query_map([], |r| Ok((r.get(0)?, r.get(1)?)))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// At most `limit` skills that have every word, the best first. The last word may be the beginning of one.
///
/// # Errors
/// The database fails.
pub fn find(conn: &Connection, words: &str, limit: usize) -> Result<Vec<Hit>, DbError> {
    let Some(query) = quoted(words) else { return Ok(Vec::new()) };
    let mut found = conn.prepare_cached(&format!(
        "SELECT t.skill_id, t.rowid FROM
             (SELECT rowid, rank FROM skill_search WHERE skill_search MATCH ?1 ORDER BY rank LIMIT {limit}) AS s
         JOIN skill_text AS t ON t.rowid = s.rowid ORDER BY s.rank, t.skill_id"
    ))?;
    let mut rows = found.query([query])?;
    let mut hits = Vec::new();
    while let Some(row) = rows.next()? {
        let id: String = row.get(0)?;
        let id = id.parse().map_err(|_| DbError::bad_value("skill_text", "skill_id", &id))?;
        hits.push(Hit { id, row: row.get(1)? });
    }
    Ok(hits)
}

/// The place in a found skill where the words stand, with `[` and `]` around them.
///
/// # Errors
/// The database fails.
pub fn snippet(conn: &Connection, words: &str, hit: &Hit) -> Result<String, DbError> {
    let Some(query) = quoted(words) else { return Ok(String::new()) };
    let text: String = conn
        .prepare_cached(
            "SELECT snippet(skill_search, -1, '[', ']', '…', 16) FROM skill_search
             WHERE skill_search MATCH ?1 AND rowid = ?2",
        )?
        .query_row(params![query, hit.row], |r| r.get(0))?;
    Ok(text.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// Each word as a string of FTS5, the last one as a beginning; none when there is nothing to search for.
pub(in crate::db) fn quoted(words: &str) -> Option<String> {
    // NUL would end the query.
    let words = words.split(|c: char| c.is_whitespace() || c == '\0');
    let words = words.filter(|word| word.chars().any(char::is_alphanumeric)).take(MAX_WORDS);
    let words: Vec<String> = words.map(|word| format!("\"{}\"", word.replace('"', "\"\""))).collect();
    (!words.is_empty()).then(|| words.join(" ") + "*")
}
