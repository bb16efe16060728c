//! What the hive keeps in mind for models to look up: errors of background tasks (systems.md A21). What agents remember
//! themselves is in files of their own.

use jiff::Timestamp;
use rusqlite::{Connection, Transaction, params};

use super::{error::DbError, parse_time, time};
use crate::ids::AgentId;

/// In whose name the hive keeps facts.
pub const ORCHESTRATOR: &str = "orchestrator";
/// The category of errors.
pub const ERROR: &str = "error";
/// Facts that are kept, the newest.
const KEPT: u32 = 1_000;

/// Something that the hive keeps in mind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fact {
    /// Grows with every fact.
    pub id: i64,
    /// In whose name it is kept.
    pub agent: String,
    /// The agent that it concerns.
    pub about: String,
    /// What kind of fact it is.
    pub category: String,
    /// In a sentence or two.
    pub fact: String,
    /// What it came of, like `task:7`.
    pub source: String,
    /// Since when it is known.
    pub created_at: Timestamp,
}

/// Keeps an error in mind; the oldest facts go.
///
/// # Errors
/// The database fails.
pub fn store_error(
    tx: &Transaction<'_>,
    about: &AgentId,
    fact: &str,
    source: &str,
    now: Timestamp,
) -> Result<(), DbError> {
    tx.prepare_cached(
        "INSERT INTO fact (agent, about, category, fact, source, created_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
    )?
    .execute(params![ORCHESTRATOR, about.as_str(), ERROR, fact, source, time(now)])?;
    let sql = "DELETE FROM fact WHERE id <= (SELECT id FROM fact ORDER BY id DESC LIMIT 1 OFFSET ?1)";
    tx.prepare_cached(sql)?.execute([KEPT])?;
    Ok(())
}

/// The newest facts first, those before `before`, at most `limit`: of a category and about an agent, where they are
/// given.
///
/// # Errors
/// The database fails.
pub fn list(
    conn: &Connection,
    category: Option<&str>,
    about: Option<&AgentId>,
    before: i64,
    limit: usize,
) -> Result<Vec<Fact>, DbError> {
    let mut query = conn.prepare_cached(
        "SELECT id, agent, about, category, fact, source, created_at FROM fact WHERE id < ?1 \
         AND (?2 IS NULL OR category = ?2) AND (?3 IS NULL OR about = ?3) ORDER BY id DESC LIMIT ?4",
    )?;
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let mut rows = query.query(params![before, category, about.map(AgentId::as_str), limit])?;
    let mut facts = Vec::new();
    while let Some(r) = rows.next()? {
        facts.push(Fact {
            id: r.get(0)?,
            agent: r.get(1)?,
            about: r.get(2)?,
            category: r.get(3)?,
            fact: r.get(4)?,
            source: r.get(5)?,
            created_at: parse_time("fact.created_at", &r.get::<_, String>(6)?)?,
        });
    }
    Ok(facts)
}
