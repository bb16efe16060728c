//! Listing, searching and showing skills: from the world, without a look into the database but for words.

use std::sync::Arc;

use bytes::Bytes;

use super::{
    seen::{seen_by, text_is_open},
    trust_name,
};
use crate::{
    app::{
        Result,
        hive::Hive,
        types::{AppError, SkillVersionView, SkillView},
        world::World,
    },
    db::skills::search::{self, Hit},
    ids::{AgentId, SkillId},
    registry::index::{Owner, SkillEntry, VersionEntry},
};

/// Skills that a search finds at most; with further conditions, before they are looked at.
const FOUND: (usize, usize) = (1_000, 10_000);

/// Which skills a listing has.
#[derive(Debug, Clone, Default)]
pub struct SkillFilter {
    /// Of this owner.
    pub owner: Option<String>,
    /// With this tag.
    pub tag: Option<String>,
    /// With these words in id, name, description, tags or content.
    pub q: Option<String>,
    /// Disabled ones too.
    pub include_disabled: bool,
    /// Who asks; the operator as none.
    pub caller: Option<AgentId>,
    /// So many are enough when words are searched; none: all.
    pub enough: Option<usize>,
}

impl SkillFilter {
    fn admits(&self, entry: &SkillEntry) -> bool {
        (self.include_disabled || entry.enabled)
            && self.owner.as_ref().is_none_or(|owner| String::from(entry.owner.clone()) == *owner)
            && self.tag.as_ref().is_none_or(|tag| entry.about.tags.contains(tag))
    }
}

/// A skill of a listing.
#[derive(Debug, Clone)]
pub struct Found {
    entry: Arc<SkillEntry>,
    hit: Option<Hit>,
}

impl Found {
    /// Its id.
    #[must_use]
    pub fn id(&self) -> &str {
        self.entry.id.as_str()
    }

    /// The skill.
    pub(in crate::app) fn entry(&self) -> &Arc<SkillEntry> {
        &self.entry
    }
}

impl Hive {
    /// Skills by id; with words by rank.
    ///
    /// # Errors
    /// The database fails.
    pub async fn skills(&self, filter: SkillFilter) -> Result<Vec<Found>> {
        let world = self.world();
        let Some(q) = filter.q.clone() else {
            let all = world.index.skills.values().filter_map(|e| seen_by(e, filter.caller.as_ref()));
            return Ok(all.filter(|e| filter.admits(e)).map(|entry| Found { entry, hit: None }).collect());
        };
        let most = if filter.owner.is_some() || filter.tag.is_some() { FOUND.1 } else { FOUND.0 };
        if let Some(enough) = filter.enough {
            // Some of the best may be none that the caller sees.
            let limit = most.min(enough.saturating_mul(2));
            let (found, all) = self.hits(&world, &filter, q.clone(), limit).await?;
            if found.len() >= enough || all {
                return Ok(found);
            }
        }
        Ok(self.hits(&world, &filter, q, most).await?.0)
    }

    /// Of the best `limit` with these words those that the filter admits; and whether there are no more.
    async fn hits(
        &self,
        world: &World,
        filter: &SkillFilter,
        q: String,
        limit: usize,
    ) -> Result<(Vec<Found>, bool)> {
        let hits = self.db.read(move |conn| search::find(conn, &q, limit)).await?;
        let all = hits.len() < limit;
        let found = hits.into_iter().filter_map(|hit| {
            let caller = filter.caller.as_ref();
            let entry = world.index.skills.get(&hit.id).filter(|entry| text_is_open(entry, caller))?;
            let entry = seen_by(entry, caller).filter(|entry| filter.admits(entry))?;
            Some(Found { entry, hit: Some(hit) })
        });
        Ok((found.collect(), all))
    }

    /// Skills that were found, as they are shown; found by words with the place where these stand.
    ///
    /// # Errors
    /// The database fails.
    pub async fn skill_views(&self, found: &[Found], q: Option<String>) -> Result<Vec<SkillView>> {
        let world = self.world();
        let mut views: Vec<SkillView> = found.iter().map(|f| skill_view(&world, &f.entry)).collect();
        if let Some(q) = q {
            let hits: Vec<Hit> = found.iter().filter_map(|f| f.hit.clone()).collect();
            let snippets = self.db.read(move |conn| search::snippets(conn, &q, &hits)).await?;
            let mut snippets = snippets.into_iter();
            for (view, found) in views.iter_mut().zip(found) {
                view.snippet = found.hit.as_ref().and_then(|_| snippets.next());
            }
        }
        Ok(views)
    }

    /// One skill.
    ///
    /// # Errors
    /// There is none of that id, naming the nearest.
    pub fn skill(&self, id: &SkillId) -> Result<SkillView> {
        let world = self.world();
        Ok(skill_view(&world, find(&world, id)?))
    }

    /// One skill as JSON, as [`Self::skill`].
    ///
    /// # Errors
    /// There is none of that id, naming the nearest.
    pub fn skill_json(&self, caller: Option<&AgentId>, id: &SkillId) -> Result<Bytes> {
        let world = self.world();
        let entry = find(&world, id)?;
        let make = || serde_json::to_vec(&skill_view(&world, entry)).unwrap_or_default();
        match seen_by(entry, caller) {
            Some(seen) if Arc::ptr_eq(&seen, entry) => {}
            Some(seen) => {
                return Ok(serde_json::to_vec(&skill_view(&world, &seen)).unwrap_or_default().into());
            }
            None => return Err(AppError::NotFound(format!("there is no skill {id} that you may read"))),
        }
        Ok(self.registry.views.get(entry, &world.used, make))
    }
}

/// A skill of the registry.
pub(in crate::app) fn find<'a>(world: &'a World, id: &SkillId) -> Result<&'a Arc<SkillEntry>> {
    world.index.skills.get(id).ok_or_else(|| {
        let hint = world.index.nearest(id.as_str()).map(|n| format!("; did you mean {n}?"));
        AppError::NotFound(format!("there is no skill {id} in the registry{}", hint.unwrap_or_default()))
    })
}

/// A version as lists show it.
pub(super) fn version_view(version: &VersionEntry) -> SkillVersionView {
    SkillVersionView {
        version: version.version.to_string(),
        digest: version.digest.to_string(),
        yanked: version.yanked,
        deprecated: version.deprecated.clone(),
        trust: trust_name(version.trust),
    }
}

fn skill_view(world: &World, entry: &SkillEntry) -> SkillView {
    let latest = entry.latest();
    let about = &entry.about;
    SkillView {
        id: entry.id.to_string(),
        title: about.name.clone(),
        name: about.name.clone(),
        description: about.description.clone(),
        tags: about.tags.clone(),
        source: match &entry.owner {
            Owner::BuiltIn => "built-in",
            Owner::Operator => "user",
            Owner::Agent(_) => "agent",
        }
        .to_owned(),
        owner: entry.owner.clone().into(),
        versions: entry.versions.values().rev().map(version_view).collect(),
        latest_version: latest.map(|v| v.version.to_string()),
        used_by: world.used.get(&entry.id).into_iter().flatten().map(ToString::to_string).collect(),
        enabled: entry.enabled,
        trust: latest.map(|v| trust_name(v.trust)).unwrap_or_default(),
        registered_at: entry.registered_at.to_string(),
        updated_at: entry.updated_at.to_string(),
        snippet: None,
    }
}
