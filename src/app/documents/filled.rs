//! Variables in the documents that an agent reads (systems.md C4).
//!
//! Filled are `content` and `description`, whenever an agent reads or lists (`GET /v1/documents…`, `read_skill`,
//! `list_skills`) a document that its skills give it: with the values that its prompt has, secret ones as `***`.
//! Never filled: what the operator reads, what an agent wrote itself (it edits what it read), titles, and any bytes
//! (`/skills`, files and archives over HTTP: digests are over them).

use super::DocumentView;
use crate::{
    app::{hive::Hive, world::World},
    ids::AgentId,
    registry::index::{Owner, SkillEntry, VersionEntry},
    secrets::grants::Grants,
    skill::{model::Skill, vars::substitute},
    supervisor::usable,
};

/// An agent that reads.
pub(super) struct Reader<'a> {
    pub world: &'a World,
    pub agent: &'a AgentId,
    pub grants: &'a Grants,
}

impl Reader<'_> {
    /// The secrets that the caller may have.
    pub(super) fn grants(hive: &Hive, caller: Option<&AgentId>) -> Grants {
        let found = caller.and_then(|agent| hive.find_agent(agent).ok());
        let prepared = found.and_then(|agent| agent.preparation());
        prepared.map(|prepared| prepared.grants.clone()).unwrap_or_default()
    }

    /// Whether its skills gave it this one, which somebody else wrote.
    fn was_given(&self, entry: &SkillEntry) -> bool {
        let resolved = self.world.resolutions.get(self.agent).and_then(|r| r.as_ref().ok());
        let own = entry.owner == Owner::Agent(self.agent.clone());
        !own && resolved.is_some_and(|resolved| resolved.skills.contains_key(&entry.id))
    }
}

/// A document as its reader (none: the operator) sees it.
pub(super) fn filled(
    reader: Option<&Reader<'_>>,
    mut view: DocumentView,
    entry: &SkillEntry,
    version: &VersionEntry,
    skill: &Skill,
) -> DocumentView {
    let Some(reader) = reader.filter(|reader| reader.was_given(entry)) else { return view };
    let values = usable::values(skill, &version.version, version.trust, reader.grants, reader.world).values;
    view.description = substitute(&view.description, &values, true);
    view.content = view.content.map(|text| substitute(&text, &values, true));
    view
}
