//! What an agent sees of the registry: its own skills whole, of others what it could be given.
//!
//! A version that waits for approval, or was refused, must not reach other agents as text either.

use std::sync::Arc;

use semver::Version;

use super::list::find;
use crate::{
    app::{Result, hive::Hive, types::AppError},
    ids::{AgentId, SkillId},
    registry::index::{About, Owner, SkillEntry, Trust},
};

fn accepted(trust: Trust) -> bool {
    matches!(trust, Trust::Trusted | Trust::Approved)
}

/// A skill as this agent sees it, the operator as none; none when it sees nothing of it.
pub(super) fn seen_by(entry: &Arc<SkillEntry>, caller: Option<&AgentId>) -> Option<Arc<SkillEntry>> {
    let own = caller.is_none_or(|agent| matches!(&entry.owner, Owner::Agent(author) if author == agent));
    if own || entry.versions.values().all(|v| accepted(v.trust)) {
        return Some(entry.clone());
    }
    let mut seen = SkillEntry::clone(entry);
    seen.versions.retain(|_, v| accepted(v.trust));
    // It is described by its newest version, which may be one of those that are not shown.
    if entry.latest().is_some_and(|v| !accepted(v.trust)) {
        seen.about = About { name: entry.id.to_string(), ..About::default() };
    }
    (!seen.versions.is_empty()).then(|| Arc::new(seen))
}

/// Whether words may be found in the text of its newest version.
pub(super) fn text_is_open(entry: &SkillEntry, caller: Option<&AgentId>) -> bool {
    let own = caller.is_none_or(|agent| matches!(&entry.owner, Owner::Agent(author) if author == agent));
    own || entry.latest().is_some_and(|v| accepted(v.trust))
}

impl Hive {
    /// Whether a caller may read this version.
    ///
    /// # Errors
    /// There is none, as far as this agent is concerned.
    pub fn may_read(&self, caller: Option<&AgentId>, id: &SkillId, version: &Version) -> Result<()> {
        let world = self.world();
        let seen = seen_by(find(&world, id)?, caller);
        if seen.is_some_and(|entry| entry.versions.contains_key(version)) || caller.is_none() {
            return Ok(());
        }
        Err(AppError::NotFound(format!("there is no version {version} of the skill {id} that you may read")))
    }

    /// The two versions of a comparison, where the caller names one or none: up to the newest that it may read, from
    /// the newest before that which is trusted or approved, else from the one before. None: nothing is older.
    ///
    /// # Errors
    /// There is no such skill, or no version of it, as far as the caller is concerned.
    pub fn diff_sides(
        &self,
        caller: Option<&AgentId>,
        id: &SkillId,
        from: Option<Version>,
        to: Option<Version>,
    ) -> Result<(Option<Version>, Version)> {
        let world = self.world();
        let seen = seen_by(find(&world, id)?, caller);
        let to = to.or_else(|| Some(seen.as_ref()?.latest()?.version.clone()));
        let to = to.ok_or_else(|| {
            AppError::NotFound(format!("there is no version of the skill {id} that you may read"))
        })?;
        let older = || seen.iter().flat_map(|entry| entry.versions.values().rev()).filter(|v| v.version < to);
        let before = || older().find(|v| accepted(v.trust)).or_else(|| older().next());
        let from = from.or_else(|| before().map(|v| v.version.clone()));
        Ok((from, to))
    }
}
