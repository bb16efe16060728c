//! Who may publish which version: owners, immutability, order (contract.md 2 and 5).
//!
//! Looks at what is there and decides; changes nothing.

use semver::Version;

use super::publish::{Judged, Only};
use crate::{
    app::{Result, types::AppError},
    db::skills::RegisterError,
    ids::{Digest, SkillId},
    registry::index::{Owner, SkillEntry},
    skill::model::Shape,
};

/// What a version becomes.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Decided {
    /// Its version.
    pub(super) version: Version,
    /// The same content is there already.
    pub(super) same: bool,
}

/// Which version this is, and whether it is there already. `retired`: what was deleted, never to be reused.
pub(super) fn decide(
    judged: &Judged,
    entry: Option<&SkillEntry>,
    retired: &[(Version, Digest)],
) -> Result<Decided> {
    let Judged { skill, digest, publisher, how, .. } = judged;
    let (id, digest) = (&skill.id, *digest);
    match (entry, how.only) {
        (Some(entry), _) if entry.owner != *publisher => return Err(not_owned(id, &entry.owner, publisher)),
        (Some(_), Some(Only::NewSkill)) => {
            return Err(AppError::Conflict(format!(
                "there is a skill {id} already: publish a new version of it, or choose another id"
            )));
        }
        (None, Some(Only::NewVersion)) => {
            return Err(AppError::NotFound(format!(
                "there is no skill {id} in the registry: register it first (POST /v1/skills)"
            )));
        }
        _ => {}
    }
    let there = entry.into_iter().flat_map(|e| e.versions.values().map(|v| (&v.version, v.digest)));
    let all: Vec<(&Version, Digest)> = there.chain(retired.iter().map(|(v, d)| (v, *d))).collect();
    let version = if skill.shape == Shape::SkillMd && skill.version == Version::new(0, 0, 0) {
        how.version.clone().unwrap_or_else(|| version_for(digest, entry, &all))
    } else {
        skill.version.clone()
    };
    let known = entry.and_then(|e| e.versions.get(&version));
    if let Some((_, published)) = all.iter().find(|(v, d)| **v == version && *d != digest) {
        let refused = RegisterError::OtherContent {
            skill: format!("{id}@{version}"),
            published: *published,
            given: digest,
        };
        return Err(refused.into());
    }
    if how.version.is_some() && known.is_some() {
        return Err(AppError::Conflict(format!("{id}@{version} was published meanwhile")));
    }
    let newest = entry.and_then(|e| e.versions.keys().next_back());
    if let (None, Some(newest), false) = (known, newest.filter(|n| **n > version), how.allow_older) {
        return Err(AppError::Conflict(format!(
            "{id}@{version} is not newer than {newest}: give it a higher version, or allow an older one \
             (`--allow-older`, ?allow_older=true)"
        )));
    }
    Ok(Decided { same: known.is_some(), version })
}

/// For a SKILL.md that states no version: that of the same content, else `0.0.0` and a patch more for each change
/// (contract.md 2). `all`: also those that were deleted.
fn version_for(digest: Digest, entry: Option<&SkillEntry>, all: &[(&Version, Digest)]) -> Version {
    if let Some(same) = entry.and_then(|e| e.versions.values().find(|v| v.digest == digest)) {
        return same.version.clone();
    }
    let newest = all.iter().map(|(v, _)| *v).max();
    newest.map_or(Version::new(0, 0, 0), |v| Version::new(v.major, v.minor, v.patch + 1))
}

fn not_owned(id: &SkillId, owner: &Owner, publisher: &Owner) -> AppError {
    let owner = String::from(owner.clone());
    match publisher {
        Owner::Agent(agent) => AppError::Forbidden(format!(
            "the skill id {id} belongs to {owner}: agent {agent} may publish versions only of its own skills; choose \
             another id"
        )),
        Owner::Operator | Owner::BuiltIn => {
            AppError::Conflict(format!("the skill id {id} belongs to {owner}; choose another id"))
        }
    }
}
