//! Deleting a document: refused while agents or other skills use it, telling each (systems.md D3).

use std::sync::Arc;

use serde_json::json;

use super::{Deleted, folder::Home, snapshot::Snapshot};
use crate::{
    app::{
        Result,
        hive::Hive,
        types::AppError,
        world::{UpdateScope, World},
    },
    db,
    ids::{AgentId, SkillId},
    registry::index::Owner,
};

/// Who uses a skill: a pointer and a sentence for each. That its author has it by itself is no use.
fn users(world: &World, id: &SkillId, owner: &Owner) -> Vec<(String, String)> {
    let mut users = Vec::new();
    for (agent, config) in &world.config.agents {
        let named = config.skills.iter().any(|r| r.id == *id);
        let author = *owner == Owner::Agent(agent.clone());
        let resolved = matches!(world.resolutions.get(agent), Some(Ok(r)) if r.skills.contains_key(id));
        if named || (resolved && !author) {
            users.push((format!("/agents/{agent}"), format!("agent {agent} has {id} among its skills")));
        }
    }
    for other in world.index.skills.values().filter(|other| other.id != *id) {
        if let Some(version) = other.latest()
            && version.dependencies.iter().any(|d| d.id == *id)
        {
            let detail = format!("skill {}@{} depends on {id}", other.id, version.version);
            users.push((format!("/skills/{}", other.id), detail));
        }
    }
    users
}

impl Hive {
    /// Deletes a document. `seen`: only when it still has that version. One that is not there is deleted already.
    ///
    /// # Errors
    /// It belongs to somebody else, it is in use, it has another version, or it cannot be removed.
    pub async fn delete_document(
        self: &Arc<Self>,
        caller: Option<&AgentId>,
        slug: &SkillId,
        seen: Option<u64>,
    ) -> Result<Deleted> {
        let Some(found) = Snapshot::read(self, caller, slug).await? else {
            return Ok(Deleted { deleted: false });
        };
        found.changeable(caller)?;
        found.matches(seen)?;
        let users = users(&self.world(), slug, &found.entry.owner);
        if !users.is_empty() {
            let all: Vec<&str> = users.iter().map(|(_, detail)| detail.as_str()).collect();
            let detail = format!("the document {slug} is in use: {}", all.join("; "));
            return Err(AppError::InUse { detail, errors: users });
        }
        if found.entry.owner == Owner::Operator {
            self.remove_folders(&found).await?;
        }
        let (id, now) = (slug.clone(), self.now());
        let by = caller.map_or_else(|| "operator".to_owned(), ToString::to_string);
        let deleted = self
            .db
            .write(move |tx| {
                let deleted = db::skills::remove(tx, &id)?;
                if deleted {
                    let data = json!({ "skill": { "id": id }, "deletedBy": by });
                    db::events::append(tx, now, "skill:deleted", &data)?;
                }
                Ok::<_, AppError>(deleted)
            })
            .await?;
        self.refresh(&UpdateScope::default()).await;
        Ok(Deleted { deleted })
    }

    /// A folder that stays would bring the document back.
    async fn remove_folders(&self, found: &Snapshot) -> Result<()> {
        self.take_in(found).await?;
        let id = found.entry.id.clone();
        let origins = self.db.read(move |conn| db::documents::origins(conn, &id)).await?;
        for home in origins.iter().filter_map(|origin| Home::of(self, origin)) {
            home.remove()?;
        }
        Ok(())
    }
}
