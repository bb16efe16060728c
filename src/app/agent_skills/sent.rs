//! What agents send over their sockets and what is refused of it: announced like what they write and is refused.

use serde_json::json;

use super::told::MAX_REASONS;
use crate::{
    app::{hive::Hive, types::AppError},
    db,
    ids::{AgentId, SkillId},
};

impl Hive {
    /// Announces `skill:rejected` when what an agent sent is invalid; the agent has the same reasons as its answer.
    /// Each announcement counts as a version of the agent's, so that none floods the events.
    pub async fn announce_refused(&self, agent: &AgentId, id: Option<&SkillId>, refused: &AppError) {
        let AppError::Invalid { errors, .. } = refused else { return };
        if self.custom.take(agent).is_err() {
            return;
        }
        let masker = self.world().masker.clone();
        let reasons: Vec<String> = errors
            .iter()
            .take(MAX_REASONS)
            .map(|(place, why)| masker.mask_str(&format!("{place}: {why}")).into_owned())
            .collect();
        let data = json!({ "skill": { "id": id, "digest": null }, "createdBy": agent, "reasons": reasons });
        let now = self.now();
        let written: Result<(), db::DbError> =
            self.db.write(move |tx| db::events::append(tx, now, "skill:rejected", &data).map(drop)).await;
        if let Err(e) = written {
            tracing::error!(agent = %agent, error = %e, "cannot record that a skill was refused");
        }
    }
}
