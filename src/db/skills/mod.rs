//! Skills and their versions: registering, judging, withdrawing.
//!
//! A version's row is written once; afterwards only what is said about it changes (trust, yank,
//! deprecation), never what it is.

pub mod search;

use std::{cmp::Ordering, collections::BTreeSet, sync::Arc};

use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension, Row, Transaction, params};
use semver::Version;

use super::{
    error::{DbError, DbFault},
    parse_time, time,
};
use crate::{
    ids::{AgentId, Digest, SkillId},
    registry::index::{About, Index, Owner, SkillEntry, Trust, VersionEntry},
    skill::model::Skill,
};

/// A version to register.
#[derive(Debug, Clone)]
pub struct NewVersion {
    /// What it declares; its id and version name it.
    pub skill: Skill,
    /// Digest of its content, which is in the store already.
    pub digest: Digest,
    /// Who registers it.
    pub owner: Owner,
    /// How far it is trusted.
    pub trust: Trust,
    /// Where it came from, for people.
    pub source: String,
}

/// What registering did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Registered {
    /// The first version of a new skill.
    NewSkill,
    /// A further version.
    NewVersion,
    /// It was there already, with the same content; nothing changed.
    Same,
}

/// Why a version was not registered.
#[derive(Debug, thiserror::Error)]
pub enum RegisterError {
    /// The version exists with other content (contract.md 2).
    #[error(
        "{skill} is published with other content: published {published}, given {given}; a published version never changes, so give it a new version"
    )]
    OtherContent {
        /// The skill and its version, `id@1.2.3`.
        skill: String,
        /// What stands in the registry.
        published: Digest,
        /// What was to be registered.
        given: Digest,
    },
    /// The id belongs to somebody else.
    #[error("the skill id {id} belongs to {}; choose another id", String::from(owner.clone()))]
    OtherOwner {
        /// The skill.
        id: SkillId,
        /// Whose it is.
        owner: Owner,
    },
    /// The database failed.
    #[error(transparent)]
    Db(#[from] DbError),
}

impl From<rusqlite::Error> for RegisterError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Db(error.into())
    }
}

/// Registers a version; the same content again changes nothing.
///
/// # Errors
/// Other content under the same version, another owner's id, or the database fails.
pub fn register(tx: &Transaction<'_>, new: &NewVersion, now: Timestamp) -> Result<Registered, RegisterError> {
    let (id, version) = (&new.skill.id, &new.skill.version);
    let owner: Option<String> = tx
        .prepare_cached("SELECT owner FROM skill WHERE id = ?1")?
        .query_row([id.as_str()], |r| r.get(0))
        .optional()?;
    if let Some(owner) = &owner {
        let owner = parse_owner(owner)?;
        if owner != new.owner {
            return Err(RegisterError::OtherOwner { id: id.clone(), owner });
        }
    }
    let (current, retired) = published(tx, id, version)?;
    match current.or(retired) {
        Some(published) if published != new.digest => {
            return Err(RegisterError::OtherContent {
                skill: format!("{id}@{version}"),
                published,
                given: new.digest,
            });
        }
        Some(_) if current.is_some() => return Ok(Registered::Same),
        _ => {}
    }
    let at = time(now);
    tx.prepare_cached(
        "INSERT INTO skill (id, owner, registered_at, updated_at) VALUES (?1, ?2, ?3, ?3)
         ON CONFLICT (id) DO UPDATE SET updated_at = ?3",
    )?
    .execute(params![id.as_str(), owner_text(&new.owner), at])?;
    let json =
        |e: serde_json::Error| DbError::from(DbFault::Other(format!("{id} cannot be written as JSON: {e}")));
    tx.prepare_cached(
        "INSERT INTO skill_version (skill_id, version, digest, dependencies, trust, name, tags, description, source,
             registered_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
    )?
    .execute(params![
        id.as_str(),
        version.to_string(),
        new.digest.to_string(),
        serde_json::to_string(&new.skill.dependencies).map_err(json)?,
        trust_text(new.trust),
        new.skill.name,
        serde_json::to_string(&new.skill.tags).map_err(json)?,
        new.skill.description,
        new.source,
        at,
    ])?;
    tx.prepare_cached("INSERT INTO skill_manifest (skill_id, version, manifest) VALUES (?1, ?2, ?3)")?
        .execute(params![
            id.as_str(),
            version.to_string(),
            serde_json::to_string(&new.skill).map_err(json)?,
        ])?;
    Ok(if owner.is_some() { Registered::NewVersion } else { Registered::NewSkill })
}

/// Digests under this id and version: of the registry, and of what was deleted from it.
fn published(
    conn: &Connection,
    id: &SkillId,
    version: &Version,
) -> Result<(Option<Digest>, Option<Digest>), DbError> {
    let find = |table: &str| -> Result<Option<Digest>, DbError> {
        conn.prepare_cached(&format!("SELECT digest FROM {table} WHERE skill_id = ?1 AND version = ?2"))?
            .query_row([id.as_str(), &version.to_string()], |r| r.get::<_, String>(0))
            .optional()?
            .map(|text| parse_digest(&text))
            .transpose()
    };
    Ok((find("skill_version")?, find("retired_version")?))
}

/// Every skill with every version.
///
/// # Errors
/// The database fails.
pub fn load_index(conn: &Connection) -> Result<Index, DbError> {
    let mut query = conn.prepare_cached(&format!("SELECT {VERSION} FROM skill_version ORDER BY skill_id"))?;
    let mut versions = query.query([])?;
    let mut version = versions.next()?;
    let mut query =
        conn.prepare_cached("SELECT id, owner, enabled, registered_at, updated_at FROM skill ORDER BY id")?;
    let mut rows = query.query([])?;
    let mut skills = Vec::new();
    // Both in the same order: one pass over each.
    while let Some(row) = rows.next()? {
        let mut entry = skill_of(row)?;
        while let Some(row) = version {
            match text(row, 8)?.cmp(entry.id.as_str()) {
                Ordering::Less => {}
                Ordering::Equal => add_version(&mut entry, row)?,
                Ordering::Greater => break,
            }
            version = versions.next()?;
        }
        skills.push((entry.id.clone(), Arc::new(entry)));
    }
    Ok(Index { skills: skills.into_iter().collect() })
}

/// One skill with every version.
///
/// # Errors
/// The database fails.
pub fn entry(conn: &Connection, id: &SkillId) -> Result<Option<SkillEntry>, DbError> {
    let mut query =
        conn.prepare_cached("SELECT id, owner, enabled, registered_at, updated_at FROM skill WHERE id = ?1")?;
    let mut rows = query.query([id.as_str()])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    let mut entry = skill_of(row)?;
    let mut query =
        conn.prepare_cached(&format!("SELECT {VERSION} FROM skill_version WHERE skill_id = ?1"))?;
    let mut rows = query.query([id.as_str()])?;
    while let Some(row) = rows.next()? {
        add_version(&mut entry, row)?;
    }
    Ok(Some(entry))
}

const VERSION: &str =
    "version, digest, dependencies, trust, yanked, deprecated, name, tags, skill_id, description";

fn skill_of(row: &Row<'_>) -> Result<SkillEntry, DbError> {
    let at = parse_time("skill.registered_at", text(row, 3)?)?;
    Ok(SkillEntry {
        enabled: row.get(2)?,
        updated_at: parse_time("skill.updated_at", text(row, 4)?)?,
        ..SkillEntry::new(parse_id(text(row, 0)?)?, parse_owner(text(row, 1)?)?, at)
    })
}

/// A version in the columns of [`VERSION`]; the skill is about what its latest one says.
fn add_version(entry: &mut SkillEntry, row: &Row<'_>) -> Result<(), DbError> {
    let dependencies = text(row, 2)?;
    let version = VersionEntry {
        version: parse_version(text(row, 0)?)?,
        digest: parse_digest(text(row, 1)?)?,
        dependencies: serde_json::from_str(dependencies)
            .map_err(|_| DbError::bad_value("skill_version", "dependencies", dependencies))?,
        trust: parse_trust(text(row, 3)?)?,
        yanked: row.get(4)?,
        deprecated: row.get(5)?,
    };
    if entry.latest().is_none_or(|latest| latest.rank() < version.rank()) {
        let tags = text(row, 7)?;
        entry.about = About {
            name: text(row, 6)?.to_owned(),
            tags: serde_json::from_str(tags)
                .map_err(|_| DbError::bad_value("skill_version", "tags", tags))?,
            description: text(row, 9)?.to_owned(),
        };
    }
    entry.versions.insert(version.version.clone(), version);
    Ok(())
}

fn text<'a>(row: &'a Row<'_>, column: usize) -> Result<&'a str, DbError> {
    row.get_ref(column)?.as_str().map_err(|e| rusqlite::Error::from(e).into())
}

/// Versions of this id that were deleted, with what they held: none of them is ever reused for something else.
///
/// # Errors
/// The database fails.
pub fn retired(conn: &Connection, id: &SkillId) -> Result<Vec<(Version, Digest)>, DbError> {
    let mut query = conn.prepare_cached("SELECT version, digest FROM retired_version WHERE skill_id = ?1")?;
    let mut rows = query.query([id.as_str()])?;
    let mut retired = Vec::new();
    while let Some(row) = rows.next()? {
        retired.push((parse_version(&row.get::<_, String>(0)?)?, parse_digest(&row.get::<_, String>(1)?)?));
    }
    Ok(retired)
}

/// What a version declared when it was registered.
///
/// # Errors
/// The database fails.
pub fn manifest(conn: &Connection, id: &SkillId, version: &Version) -> Result<Option<Skill>, DbError> {
    let text: Option<String> = conn
        .prepare_cached("SELECT manifest FROM skill_manifest WHERE skill_id = ?1 AND version = ?2")?
        .query_row([id.as_str(), &version.to_string()], |r| r.get(0))
        .optional()?;
    text.map(|text| {
        serde_json::from_str(&text)
            .map_err(|e| DbFault::BadValue(format!("skill_manifest.manifest of {id}@{version}: {e}")).into())
    })
    .transpose()
}

/// The digests of every version: what the store must keep.
///
/// # Errors
/// The database fails.
pub fn digests(conn: &Connection) -> Result<BTreeSet<Digest>, DbError> {
    let mut query = conn.prepare_cached("SELECT DISTINCT digest FROM skill_version")?;
    let mut rows = query.query([])?;
    let mut digests = BTreeSet::new();
    while let Some(row) = rows.next()? {
        digests.insert(parse_digest(&row.get::<_, String>(0)?)?);
    }
    Ok(digests)
}

/// Where a version came from, and when.
///
/// # Errors
/// The database fails.
pub fn origin(
    conn: &Connection,
    id: &SkillId,
    version: &Version,
) -> Result<Option<(String, Timestamp)>, DbError> {
    let sql = "SELECT source, registered_at FROM skill_version WHERE skill_id = ?1 AND version = ?2";
    let row: Option<(String, String)> = conn
        .prepare_cached(sql)?
        .query_row([id.as_str(), &version.to_string()], |r| Ok((r.get(0)?, r.get(1)?)))
        .optional()?;
    row.map(|(source, at)| Ok((source, parse_time("skill_version.registered_at", &at)?))).transpose()
}

/// Where the versions of a skill came from.
///
/// # Errors
/// The database fails.
pub fn sources(conn: &Connection, id: &SkillId) -> Result<BTreeSet<String>, DbError> {
    let mut query = conn.prepare_cached("SELECT DISTINCT source FROM skill_version WHERE skill_id = ?1")?;
    let rows = query.query_map([id.as_str()], |r| r.get(0))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Judges a version. Answers whether there is such a version.
///
/// # Errors
/// The database fails.
pub fn set_trust(
    tx: &Transaction<'_>,
    id: &SkillId,
    version: &Version,
    trust: Trust,
    now: Timestamp,
) -> Result<bool, DbError> {
    let sql = "UPDATE skill_version SET trust = ?3 WHERE skill_id = ?1 AND version = ?2";
    let found =
        tx.prepare_cached(sql)?.execute(params![id.as_str(), version.to_string(), trust_text(trust)])? > 0;
    touch(tx, id, found, now)
}

/// Hides a version from new resolutions, or no longer. Answers whether there is such a version.
///
/// # Errors
/// The database fails.
pub fn set_yanked(
    tx: &Transaction<'_>,
    id: &SkillId,
    version: &Version,
    yanked: bool,
    now: Timestamp,
) -> Result<bool, DbError> {
    let sql = "UPDATE skill_version SET yanked = ?3 WHERE skill_id = ?1 AND version = ?2";
    let found = tx.prepare_cached(sql)?.execute(params![id.as_str(), version.to_string(), yanked])? > 0;
    touch(tx, id, found, now)
}

/// Sets or takes away the message that warns whoever resolves a version. Answers whether there is one.
///
/// # Errors
/// The database fails.
pub fn deprecate(
    tx: &Transaction<'_>,
    id: &SkillId,
    version: &Version,
    message: Option<&str>,
    now: Timestamp,
) -> Result<bool, DbError> {
    let sql = "UPDATE skill_version SET deprecated = ?3 WHERE skill_id = ?1 AND version = ?2";
    let found = tx.prepare_cached(sql)?.execute(params![id.as_str(), version.to_string(), message])? > 0;
    touch(tx, id, found, now)
}

/// Enables or disables a whole skill. Answers whether there is such a skill.
///
/// # Errors
/// The database fails.
pub fn set_enabled(
    tx: &Transaction<'_>,
    id: &SkillId,
    enabled: bool,
    now: Timestamp,
) -> Result<bool, DbError> {
    let sql = "UPDATE skill SET enabled = ?2 WHERE id = ?1";
    let found = tx.prepare_cached(sql)?.execute(params![id.as_str(), enabled])? > 0;
    touch(tx, id, found, now)
}

/// Deletes a skill; that its versions were published is remembered. Whether it is in use is the
/// caller's to ask. Answers whether it was there.
///
/// # Errors
/// The database fails.
pub fn remove(tx: &Transaction<'_>, id: &SkillId) -> Result<bool, DbError> {
    tx.prepare_cached(
        "INSERT OR IGNORE INTO retired_version (skill_id, version, digest)
         SELECT skill_id, version, digest FROM skill_version WHERE skill_id = ?1",
    )?
    .execute([id.as_str()])?;
    Ok(tx.prepare_cached("DELETE FROM skill WHERE id = ?1")?.execute([id.as_str()])? > 0)
}

fn touch(tx: &Transaction<'_>, id: &SkillId, found: bool, now: Timestamp) -> Result<bool, DbError> {
    if found {
        tx.prepare_cached("UPDATE skill SET updated_at = ?2 WHERE id = ?1")?
            .execute([id.as_str(), &time(now)])?;
    }
    Ok(found)
}

fn parse_id(text: &str) -> Result<SkillId, DbError> {
    text.parse().map_err(|_| DbError::bad_value("skill", "id", text))
}

fn parse_version(text: &str) -> Result<Version, DbError> {
    text.parse().map_err(|_| DbError::bad_value("skill_version", "version", text))
}

fn parse_digest(text: &str) -> Result<Digest, DbError> {
    text.parse().map_err(|_| DbError::bad_value("skill_version", "digest", text))
}

/// Agents are written apart from the two words, so that an agent called `operator` is none.
fn owner_text(owner: &Owner) -> String {
    match owner {
        Owner::BuiltIn => "built-in".into(),
        Owner::Operator => "operator".into(),
        Owner::Agent(agent) => format!("agent:{agent}"),
    }
}

fn parse_owner(text: &str) -> Result<Owner, DbError> {
    match text {
        "built-in" => Ok(Owner::BuiltIn),
        "operator" => Ok(Owner::Operator),
        other => other
            .strip_prefix("agent:")
            .and_then(|agent| agent.parse::<AgentId>().ok())
            .map(Owner::Agent)
            .ok_or_else(|| DbError::bad_value("skill", "owner", other)),
    }
}

fn trust_text(trust: Trust) -> &'static str {
    match trust {
        Trust::Trusted => "trusted",
        Trust::Approved => "approved",
        Trust::Pending => "pending",
        Trust::Rejected => "rejected",
    }
}

fn parse_trust(text: &str) -> Result<Trust, DbError> {
    match text {
        "trusted" => Ok(Trust::Trusted),
        "approved" => Ok(Trust::Approved),
        "pending" => Ok(Trust::Pending),
        "rejected" => Ok(Trust::Rejected),
        other => Err(DbError::bad_value("skill_version", "trust", other)),
    }
}

#[cfg(test)]
mod tests;
