//! Deleting a document: refused while agents or other skills use it, telling each (systems.md D3).

use std::sync::Arc;

use super::{Deleted, folder::Home, snapshot::Snapshot};
use crate::{
    app::{Result, hive::Hive, types::AppError},
    db,
    ids::{AgentId, SkillId},
    kill_point,
    registry::index::Owner,
};

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
        self.must_be_unused(&found.entry)?;
        if found.entry.owner == Owner::Operator {
            self.remove_folders(&found).await?;
        }
        kill_point!("document.unfiled");
        match self.delete_skill(caller, slug).await {
            Ok(()) => Ok(Deleted { deleted: true }),
            // Somebody else was faster.
            Err(AppError::NotFound(_)) => Ok(Deleted { deleted: false }),
            Err(e) => Err(e),
        }
    }

    /// A folder that stays would bring the document back.
    async fn remove_folders(self: &Arc<Self>, found: &Snapshot) -> Result<()> {
        self.take_in(found).await?;
        let id = found.entry.id.clone();
        let origins = self.db.read(move |conn| db::skills::sources(conn, &id)).await?;
        for home in origins.iter().filter_map(|origin| Home::of(self, origin)) {
            home.remove()?;
        }
        Ok(())
    }
}
