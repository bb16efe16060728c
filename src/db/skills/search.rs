//! What is found by words: id, name, description, tags and content of each skill's latest version.
//!
//! The text is a copy that whoever changes a skill brings up to date; losing it loses nothing. What people type is
//! quoted word by word: none of it is syntax. Chinese, Japanese and Korean characters are words of their own, so that
//! what stands inside a sentence is found without spaces around it.

use std::{borrow::Cow, collections::BTreeMap};

use rusqlite::{Connection, Transaction, params};
use semver::Version;

use crate::{db::error::DbError, ids::SkillId, skill::model::Skill};

/// Bytes of content that are searched of one skill.
pub const MAX_CONTENT: usize = 256 << 10;
/// Words of a query that count.
const MAX_WORDS: usize = 16;
/// Stands between characters that are words of their own: no width, and to FTS5 no part of a word.
const APART: char = '\u{200b}';

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
        apart(&skill.name),
        apart(&skill.description),
        apart(&skill.tags.join(" ")),
        apart(content),
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

/// At most `limit` skills that have every word, the best first, of equals the elder. The last word may be the beginning
/// of one.
///
/// # Errors
/// The database fails.
pub fn find(conn: &Connection, words: &str, limit: usize) -> Result<Vec<Hit>, DbError> {
    let Some(query) = quoted(words) else { return Ok(Vec::new()) };
    // Of the thousands that a common word finds, only the best are looked up.
    let mut found = conn.prepare_cached(
        "SELECT t.skill_id, s.rowid FROM
             (SELECT rowid, rank AS place FROM skill_search WHERE skill_search MATCH ?1
              ORDER BY rank, rowid LIMIT ?2) AS s
         CROSS JOIN skill_text AS t ON t.rowid = s.rowid ORDER BY s.place, s.rowid",
    )?;
    let mut rows = found.query(params![query, i64::try_from(limit).unwrap_or(i64::MAX)])?;
    let mut hits = Vec::new();
    while let Some(row) = rows.next()? {
        let id: String = row.get(0)?;
        let id = id.parse().map_err(|_| DbError::bad_value("skill_text", "skill_id", &id))?;
        hits.push(Hit { id, row: row.get(1)? });
    }
    Ok(hits)
}

/// The place in each found skill where the words stand, with `[` and `]` around them; empty where they no longer do.
///
/// # Errors
/// The database fails.
pub fn snippets(conn: &Connection, words: &str, hits: &[Hit]) -> Result<Vec<String>, DbError> {
    let Some(query) = quoted(words) else { return Ok(vec![String::new(); hits.len()]) };
    let rows = serde_json::Value::from(hits.iter().map(|hit| hit.row).collect::<Vec<_>>()).to_string();
    // One pass over the matches: asked for row by row, a beginning of words would be collected anew each time.
    let mut query_rows = conn.prepare_cached(
        "SELECT rowid, snippet(skill_search, -1, '[', ']', '…', 16) FROM skill_search
         WHERE skill_search MATCH ?1 AND +rowid IN (SELECT value FROM json_each(?2))",
    )?;
    let mut rows = query_rows.query([query, rows])?;
    let mut texts = BTreeMap::new();
    while let Some(row) = rows.next()? {
        let text = row.get::<_, String>(1)?.replace(APART, "");
        texts.insert(row.get::<_, i64>(0)?, text.split_whitespace().collect::<Vec<_>>().join(" "));
    }
    Ok(hits.iter().map(|hit| texts.get(&hit.row).cloned().unwrap_or_default()).collect())
}

/// The text with every Chinese, Japanese and Korean character set apart from letters beside it.
pub(in crate::db) fn apart(text: &str) -> Cow<'_, str> {
    if !text.contains(stands_alone) {
        return text.into();
    }
    let mut out = String::with_capacity(text.len() * 2);
    let mut before: Option<char> = None;
    for c in text.chars() {
        let letters = c.is_alphanumeric() && before.is_some_and(char::is_alphanumeric);
        if letters && (stands_alone(c) || before.is_some_and(stands_alone)) {
            out.push(APART);
        }
        out.push(c);
        before = Some(c);
    }
    out.into()
}

/// Whether a character is of a script that is written without spaces between words, or whose words take endings
/// (Unicode: kana, Han, Hangul syllables).
fn stands_alone(c: char) -> bool {
    matches!(c, '\u{3005}'..='\u{3007}' | '\u{3040}'..='\u{312f}' | '\u{31a0}'..='\u{31ff}' | '\u{3400}'..='\u{4dbf}'
        | '\u{4e00}'..='\u{9fff}' | '\u{ac00}'..='\u{d7a3}' | '\u{f900}'..='\u{faff}' | '\u{ff66}'..='\u{ff9f}'
        | '\u{20000}'..='\u{3fffd}')
}

/// Each word as a string of FTS5, the last one as a beginning; none when there is nothing to search for.
pub(in crate::db) fn quoted(words: &str) -> Option<String> {
    // NUL would end the query.
    let words = words.split(|c: char| c.is_whitespace() || c == '\0');
    let words = words.filter(|word| word.chars().any(char::is_alphanumeric)).take(MAX_WORDS);
    let words: Vec<String> = words.map(|word| format!("\"{}\"", apart(word).replace('"', "\"\""))).collect();
    (!words.is_empty()).then(|| words.join(" ") + "*")
}
