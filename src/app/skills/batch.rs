//! Versions that wait are stored with one flush and registered in one transaction.
//!
//! The entry is on the disk before its row: a row never names what is not there.

use std::{collections::BTreeSet, sync::Arc};

use jiff::Timestamp;
use tokio::sync::oneshot;

use super::{
    publish::{Judged, Outcome, Published},
    rules::decide,
    trust_name,
};
use crate::{
    app::{Result, hive::Hive, jobs::once, sync::announce, types::AppError, uptake::Change, world::World},
    db::{
        self,
        skills::{NewVersion, RegisterError, Registered},
    },
    kill_point,
    registry::{index::SkillEntry, staging::Staged, store::StoreError},
    skill::model::Skill,
};

type Answer = oneshot::Sender<Result<Published>>;
type Done = (Vec<Result<Published>>, Vec<Change>);

/// A version that was judged and waits to be stored, and who waits for it.
pub struct Waiting {
    judged: Judged,
    staged: Staged,
    answer: Answer,
}

impl Waiting {
    pub(super) fn new(judged: Judged, staged: Staged, answer: Answer) -> Self {
        Self { judged, staged, answer }
    }
}

/// Publishes what waits, and shows it before it answers. Call it with `changing` held.
pub(super) async fn publish_batch(hive: &Arc<Hive>, batch: Vec<Waiting>) {
    let world = hive.world();
    let (mut copies, mut needless) = (Vec::new(), Vec::new());
    let (mut all, mut answers) = (Vec::new(), Vec::new());
    for Waiting { judged, staged, answer } in batch {
        match foresee(&world, &judged) {
            Ok(same) if same && hive.store.contains(&judged.digest) => needless.push(staged),
            Ok(_) => copies.push(staged),
            Err(refused) => {
                needless.push(staged);
                drop(answer.send(Err(refused)));
                continue;
            }
        }
        all.push(judged);
        answers.push(answer);
    }
    if let Err(e) = put(hive, copies, needless).await {
        let failed = |answer: Answer| drop(answer.send(Err(AppError::Unavailable(e.to_string()))));
        answers.into_iter().for_each(failed);
        return;
    }
    kill_point!("publish.stored");
    let (outcomes, changes) = register_all(hive, all).await;
    kill_point!("publish.registered");
    hive.take_up(changes).await;
    for (answer, outcome) in answers.into_iter().zip(outcomes) {
        // Whoever asked may have stopped waiting.
        drop(answer.send(outcome));
    }
}

async fn put(hive: &Hive, copies: Vec<Staged>, needless: Vec<Staged>) -> Result<()> {
    let store = hive.store.clone();
    let stored = tokio::task::spawn_blocking(move || {
        drop(needless);
        if copies.is_empty() { Ok(()) } else { store.put_all(copies) }
    });
    Ok(stored.await.map_err(|e| AppError::Internal(format!("storing failed: {e}")))??)
}

/// Whether it is there already, as far as the world knows; or why it is refused, before it costs anything.
fn foresee(world: &World, judged: &Judged) -> Result<bool> {
    // A repeat is answered as it was the first time, whatever happened since.
    if judged.how.key.is_some() {
        return Ok(false);
    }
    let entry = world.index.skills.get(&judged.skill.id).map(AsRef::as_ref);
    decide(judged, entry, &[]).map(|decided| decided.same)
}

/// In one transaction, or each in its own when that fails: one must not fail the others.
async fn register_all(hive: &Hive, all: Vec<Judged>) -> Done {
    match register_in_one(hive, all.clone()).await {
        Ok(done) => return done,
        Err(e) if all.len() == 1 => return (vec![Err(e)], Vec::new()),
        Err(e) => tracing::warn!("several versions could not be registered together: {e}"),
    }
    let (mut outcomes, mut changes) = (Vec::new(), Vec::new());
    for one in all {
        match register_in_one(hive, vec![one]).await {
            Ok((outcome, changed)) => {
                outcomes.extend(outcome);
                changes.extend(changed);
            }
            Err(e) => outcomes.push(Err(e)),
        }
    }
    (outcomes, changes)
}

async fn register_in_one(hive: &Hive, all: Vec<Judged>) -> Result<Done> {
    let now = hive.now();
    hive.db
        .write(move |tx| {
            let (mut outcomes, mut changed) = (Vec::new(), BTreeSet::new());
            for judged in all {
                let (id, key) = (judged.skill.id.clone(), judged.how.key.clone());
                let outcome = match once(tx, key.as_ref(), now, || register(tx, judged, now)) {
                    Err(e @ (AppError::Unavailable(_) | AppError::Internal(_))) => return Err(e),
                    outcome => outcome,
                };
                if outcome.as_ref().is_ok_and(|published| published.outcome != Outcome::Same) {
                    changed.insert(id);
                }
                outcomes.push(outcome);
            }
            let entries = changed.into_iter().map(|id| Ok((db::skills::entry(tx, &id)?, id)));
            let entries: Vec<_> = entries.collect::<std::result::Result<_, db::DbError>>()?;
            Ok((outcomes, entries.into_iter().map(|(entry, id)| (id, entry)).collect()))
        })
        .await
}

/// In the transaction: what is true is only known here.
fn register(tx: &db::Tx<'_>, judged: Judged, now: Timestamp) -> Result<Published> {
    let entry = db::skills::entry(tx, &judged.skill.id)?;
    let retired = db::skills::retired(tx, &judged.skill.id)?;
    let decided = decide(&judged, entry.as_ref(), &retired)?;
    let Judged { skill, digest, publisher, how, trust, warnings, text } = judged;
    let new = NewVersion {
        skill: Skill { version: decided.version, ..skill },
        digest,
        owner: publisher,
        trust,
        source: how.source,
    };
    let outcome = db::skills::register(tx, &new, now)?;
    if outcome != Registered::Same {
        announce(tx, &new, outcome)?;
        let entry = db::skills::entry(tx, &new.skill.id)?;
        if entry.as_ref().and_then(SkillEntry::latest).is_some_and(|v| v.version == new.skill.version) {
            db::skills::search::put(tx, &new.skill, &new.skill.version, &text)?;
        }
    }
    let known = entry.and_then(|e| e.versions.get(&new.skill.version).map(|v| v.trust));
    Ok(Published {
        id: new.skill.id.to_string(),
        version: new.skill.version.to_string(),
        digest: digest.to_string(),
        outcome: outcome.into(),
        trust: trust_name(known.unwrap_or(trust)),
        warnings,
    })
}

impl From<RegisterError> for AppError {
    fn from(error: RegisterError) -> Self {
        match error {
            RegisterError::Db(e) => e.into(),
            refused => Self::Conflict(refused.to_string()),
        }
    }
}

impl From<StoreError> for AppError {
    fn from(error: StoreError) -> Self {
        match &error {
            StoreError::Io { source, .. } => Self::Unavailable(format!("{error}: {source}")),
            StoreError::Missing(_) | StoreError::Altered { .. } => Self::Unavailable(error.to_string()),
        }
    }
}

impl From<Registered> for Outcome {
    fn from(registered: Registered) -> Self {
        match registered {
            Registered::NewSkill => Self::Created,
            Registered::NewVersion => Self::Updated,
            Registered::Same => Self::Same,
        }
    }
}
