//! What the registry holds, read where no supervisor runs, and beside one that does.
//!
//! Opens the file to read only: it is neither made, nor migrated, nor written.

use std::path::Path;

use semver::Version;

use super::{
    backup,
    error::{DbError, DbFault},
    schema, skills,
};
use crate::{ids::SkillId, registry::index::Index, skill::model::Skill};

/// Every skill with every version, and what those of them declare that `wanted` names; none: there is no database
/// yet. Blocks.
///
/// # Errors
/// It cannot be read, is damaged, or has another schema than this program's.
pub fn registered(
    path: &Path,
    wanted: impl Fn(&SkillId, &Version) -> bool,
) -> Result<Option<(Index, Vec<Skill>)>, DbError> {
    if !path.exists() {
        return Ok(None);
    }
    let mut conn = backup::open(path)?;
    let mut read = || {
        let tx = conn.transaction()?;
        schema::check_origin(&tx)?;
        let schema: i64 = tx.pragma_query_value(None, "user_version", |r| r.get(0))?;
        let newest = backup::newest();
        if schema > newest {
            return Err(DbFault::Newer(schema, newest).into());
        }
        if schema < newest {
            let why = "was written by an older program; `skep up` brings it up to date";
            return Err(DbFault::Other(why.to_owned()).into());
        }
        let index = skills::load_index(&tx)?;
        let mut declared = Vec::new();
        for (id, entry) in &index.skills {
            for version in entry.versions.keys().filter(|version| wanted(id, version)) {
                declared.extend(skills::manifest(&tx, id, version)?);
            }
        }
        Ok((index, declared))
    };
    read().map(Some).map_err(|e: DbError| e.at(path))
}
