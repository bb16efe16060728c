//! What the operator looks at before a version is approved: what the scanner finds, and what changed since the last
//! version that may be used. Advice only: grants and trust decide what a version gets.

use semver::Version;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{list::find, trust_name, version::blocking};
use crate::{
    app::{Result, hive::Hive},
    ids::SkillId,
    registry::{
        index::{SkillEntry, Trust},
        store::StoreError,
    },
    skill::{
        diff::Diff,
        scan::{Context, Finding, Scanner},
    },
};

/// A version as whoever approves it should see it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SkillReview {
    /// The skill.
    pub id: String,
    /// The version.
    pub version: String,
    /// `trusted`, `approved`, `pending`, `rejected`.
    pub trust: String,
    /// The newest older version that is trusted or approved; null: there is none, and all is new.
    pub compared_with: Option<String>,
    /// What the scanner found, the worst first.
    pub findings: Vec<Finding>,
    /// What changed since `compared_with`.
    pub diff: Diff,
}

/// The newest version before this one that may be used.
fn accepted_before<'a>(entry: &'a SkillEntry, version: &Version) -> Option<&'a Version> {
    let older = entry.versions.range(..version).rev();
    older.filter(|(_, v)| matches!(v.trust, Trust::Trusted | Trust::Approved)).map(|(v, _)| v).next()
}

impl Hive {
    /// Scans a version, and compares it with the last one that may be used.
    ///
    /// # Errors
    /// There is no such version; its content is missing or altered; the database fails.
    pub async fn skill_review(&self, id: &SkillId, version: &Version) -> Result<SkillReview> {
        let world = self.world();
        let before = accepted_before(find(&world, id)?, version).cloned();
        let diff = self.skill_diff(id, before.as_ref(), version).await?;
        let previous = match &before {
            Some(before) => Some(self.declared(id, before).await?.1),
            None => None,
        };
        let (entry, skill, source) = self.declared(id, version).await?;
        let known: Vec<SkillId> = world.index.skills.keys().cloned().collect();
        let store = self.store.clone();
        let findings = blocking(move || {
            let mut scanner =
                Scanner::new(Context { skill: &skill, previous: previous.as_ref(), known: &known });
            for (path, info) in &source.files {
                let bytes = store.read(&entry.digest, path)?.unwrap_or_default();
                scanner.file(path, &bytes, info.executable);
            }
            Ok::<_, StoreError>(scanner.finish())
        })
        .await??;
        Ok(SkillReview {
            id: id.to_string(),
            version: version.to_string(),
            trust: trust_name(entry.trust),
            compared_with: before.map(|v| v.to_string()),
            findings,
            diff,
        })
    }
}
