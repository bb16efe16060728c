//! Keeps what searches look through in line with the registry: each skill's latest version.
//!
//! The text comes from what a version declares and from its context files in the store.

use std::sync::Arc;

use crate::{
    app::hive::Hive,
    db::{self, Db, DbError, skills::search},
    ids::{Digest, SkillId},
    registry::{index::Index, store::Store},
    skill::model::Skill,
};

/// Skills that are brought in line in one transaction.
const CHUNK: usize = 100;
/// More than so many are brought in line beside whatever asked for it.
const AT_ONCE: usize = 300;

/// The text of a version: its body and its context files, as far as `read` has them.
pub(super) fn content(skill: &Skill, mut read: impl FnMut(&str) -> Option<Vec<u8>>) -> String {
    let mut text = skill.body.clone().unwrap_or_default();
    for path in &skill.context {
        if text.len() >= search::MAX_CONTENT {
            break;
        }
        if let Some(bytes) = read(path) {
            text.push('\n');
            text.push_str(&String::from_utf8_lossy(&bytes));
        }
    }
    text.truncate(text.floor_char_boundary(search::MAX_CONTENT));
    text
}

/// A version whose text is missing or another's.
struct Stale {
    id: SkillId,
    version: semver::Version,
    digest: Digest,
}

impl Hive {
    /// Brings the text in line with the registry as it is; much of it goes on in the background.
    pub(in crate::app) async fn align_text(&self) {
        let index = self.world().index.clone();
        if !self.registry.texts_differ_from(&index) {
            return;
        }
        let stale = match self.stale_texts(&index).await {
            Ok(stale) => stale,
            Err(e) => return tracing::error!(error = %e, "cannot look at what is searched"),
        };
        let many = stale.len() > AT_ONCE;
        let work = align(self.db.clone(), self.store.clone(), stale);
        if many {
            tokio::spawn(work);
        } else {
            work.await;
        }
    }

    async fn stale_texts(&self, index: &Arc<Index>) -> Result<Vec<Stale>, DbError> {
        let index = index.clone();
        self.db
            .read(move |conn| {
                let known: std::collections::BTreeMap<String, String> =
                    search::versions(conn)?.into_iter().collect();
                let latest = index.skills.values().filter_map(|entry| Some((entry, entry.latest()?)));
                let stale =
                    latest.filter(|(entry, v)| known.get(entry.id.as_str()) != Some(&v.version.to_string()));
                let stale = stale.map(|(entry, v)| Stale {
                    id: entry.id.clone(),
                    version: v.version.clone(),
                    digest: v.digest,
                });
                Ok(stale.collect())
            })
            .await
    }
}

async fn align(db: Db, store: Store, stale: Vec<Stale>) {
    let mut stale = stale.into_iter().peekable();
    while stale.peek().is_some() {
        let chunk: Vec<Stale> = stale.by_ref().take(CHUNK).collect();
        if let Err(e) = align_chunk(&db, &store, chunk).await {
            return tracing::error!(error = %e, "cannot bring in line what is searched");
        }
    }
}

async fn align_chunk(db: &Db, store: &Store, chunk: Vec<Stale>) -> Result<(), DbError> {
    let store = store.clone();
    let texts = db
        .read(move |conn| {
            let mut texts = Vec::new();
            for stale in chunk {
                if let Some(skill) = db::skills::manifest(conn, &stale.id, &stale.version)? {
                    let text = content(&skill, |path| store.read(&stale.digest, path).ok().flatten());
                    texts.push((skill, stale.version, text));
                }
            }
            Ok::<_, DbError>(texts)
        })
        .await?;
    db.write(move |tx| {
        for (skill, version, text) in &texts {
            // It may have been deleted meanwhile.
            if db::skills::entry(tx, &skill.id)?.is_some() {
                search::put(tx, skill, version, text)?;
            }
        }
        Ok(())
    })
    .await
}
