//! Brings skill sources into the registry: built-in skills and the operator's folders.
//!
//! Everything is checked on a copy; a skill with a fault is told and left out, the others come in.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use jiff::Timestamp;
use semver::Version;
use serde_json::json;

use super::hive::Hive;
use crate::{
    config::model::{Config, SkillLimits},
    db::{
        self,
        skills::{NewVersion, RegisterError, Registered},
    },
    error::Fault,
    ids::Digest,
    registry::{
        builtin,
        index::{Index, Owner, Trust},
        safe_copy::{self, CopyError, Origin, Policy},
        sources,
        staging::Staged,
        store::Store,
    },
    skill::{
        self,
        model::{Shape, Skill},
        source::{Limits, Source},
    },
};

/// What a synchronisation found.
#[derive(Debug, Default)]
pub struct Synced {
    /// Why skills were left out, and what is odd about others.
    pub faults: Vec<Fault>,
}

struct Found {
    new: NewVersion,
    staged: Option<Staged>,
}

/// Reads every source and registers what is new.
pub async fn sync_sources(hive: &Hive, config: &Config) -> Synced {
    let mut synced = Synced::default();
    let known = hive.world().index.clone();
    let sources: Vec<(String, PathBuf)> =
        config.registry.sources.iter().map(|s| (s.display().to_string(), hive.paths.resolve(s))).collect();
    let (store, limits) = (hive.store.clone(), config.registry.limits);
    let read = tokio::task::spawn_blocking(move || {
        let mut faults = Vec::new();
        let mut found = read_builtin(&store, &mut faults);
        for (shown, source) in &sources {
            read_source(&store, shown, source, limits, &known, &mut found, &mut faults);
        }
        (found, faults)
    });
    match read.await {
        Ok((found, faults)) => {
            synced.faults.extend(faults);
            register(hive, found, &mut synced).await;
        }
        Err(e) => synced.faults.push(Fault::new("skills", format!("reading the sources failed: {e}"))),
    }
    synced
}

fn read_builtin(store: &Store, faults: &mut Vec<Fault>) -> Vec<Found> {
    let staged = match builtin::stage(store) {
        Ok(staged) => staged,
        Err(e) => {
            faults.push(Fault::new("built-in skills", e.to_string()));
            return Vec::new();
        }
    };
    staged
        .into_iter()
        .filter_map(|(folder, staged)| {
            let skill = judge(folder, skill::load::read(staged.source(), Limits::default()), faults)?;
            let digest = staged.digest();
            let new = NewVersion {
                skill,
                digest,
                owner: Owner::BuiltIn,
                trust: Trust::Trusted,
                source: "built-in".into(),
            };
            let staged = (!store.contains(&digest)).then_some(staged);
            Some(Found { new, staged })
        })
        .collect()
}

/// A fault of a file in a skill's folder, seen from the hive; `.` is the folder itself.
fn located(place: &str, fault: Fault) -> Fault {
    let file = if fault.file == "." { place.to_owned() } else { format!("{place}/{}", fault.file) };
    Fault { file, ..fault }
}

fn judge(place: &str, report: skill::load::Report, faults: &mut Vec<Fault>) -> Option<Skill> {
    faults.extend(report.errors.into_iter().map(|fault| located(place, fault)));
    report.skill
}

fn read_source(
    store: &Store,
    shown: &str,
    source: &Path,
    limits: SkillLimits,
    known: &Index,
    found: &mut Vec<Found>,
    faults: &mut Vec<Fault>,
) {
    let scan = sources::scan(source);
    faults.extend(scan.faults);
    let policy = Policy { origin: Origin::Operator, limits };
    let model_limits = model_limits(limits);
    for candidate in scan.candidates {
        let place = format!("{shown}/{}", candidate.folder.display());
        let (read, staged) = match take(store, source, &candidate.folder, &policy) {
            Ok(taken) => taken,
            Err(CopyError::Rejected { faults: rejected, .. }) => {
                faults.extend(rejected.into_iter().map(|fault| located(&place, fault)));
                continue;
            }
            Err(e) => {
                faults.push(Fault::new(place, e.to_string()));
                continue;
            }
        };
        let Some(mut skill) = judge(&place, skill::load::read(&read, model_limits), faults) else {
            continue;
        };
        let digest = skill::digest::digest(&read);
        give_version(&mut skill, digest, known, found);
        if let Some(other) = found.iter().find(|f| {
            f.new.skill.id == skill.id && f.new.skill.version == skill.version && f.new.digest != digest
        }) {
            let message = format!("{}@{} is also in {}", skill.id, skill.version, other.new.source);
            faults.push(Fault::new(place, message).help("give one of them another version or id"));
            continue;
        }
        let new = NewVersion { skill, digest, owner: Owner::Operator, trust: Trust::Trusted, source: place };
        found.push(Found { new, staged });
    }
}

/// The configured limits as the checks of a skill take them.
pub(super) fn model_limits(limits: SkillLimits) -> Limits {
    Limits {
        files: usize::try_from(limits.files).unwrap_or(usize::MAX),
        bytes: limits.total,
        file: limits.file,
        manifest: limits.manifest,
    }
}

/// Reads a folder; what the store does not have yet is copied, and only the copy counts.
fn take(
    store: &Store,
    source: &Path,
    folder: &Path,
    policy: &Policy,
) -> Result<(Source, Option<Staged>), CopyError> {
    let read = safe_copy::fingerprint(source, folder, policy)?;
    if store.contains(&skill::digest::digest(&read)) {
        return Ok((read, None));
    }
    let staged = store.stage(source, folder, policy)?;
    Ok((staged.source().clone(), Some(staged)))
}

/// A SKILL.md that states no version: `0.0.0` at first, then a patch more for each change (contract.md 2).
fn give_version(skill: &mut Skill, digest: Digest, known: &Index, found: &[Found]) {
    if skill.shape != Shape::SkillMd || skill.version != Version::new(0, 0, 0) {
        return;
    }
    let Some(entry) = known.skills.get(&skill.id) else { return };
    if let Some(same) = entry.versions.values().find(|v| v.digest == digest) {
        skill.version = same.version.clone();
        return;
    }
    let other = found.iter().filter(|f| f.new.skill.id == skill.id).map(|f| &f.new.skill.version);
    if let Some(newest) = entry.versions.keys().chain(other).max() {
        skill.version = Version::new(newest.major, newest.minor, newest.patch + 1);
    }
}

async fn register(hive: &Hive, found: Vec<Found>, synced: &mut Synced) {
    let (mut staged, mut news) = (Vec::new(), Vec::new());
    for one in found {
        staged.extend(one.staged);
        news.push(one.new);
    }
    let store = hive.store.clone();
    let put = tokio::task::spawn_blocking(move || store.put_all(staged)).await;
    if let Err(e) = put.map_err(|e| e.to_string()).and_then(|r| r.map_err(|e| e.to_string())) {
        synced.faults.push(Fault::new(".skep/store", e));
        return;
    }
    let _changing = hive.registry.changing.lock().await;
    let result = hive
        .db
        .write(move |tx| {
            let (mut faults, mut changed) = (Vec::new(), BTreeSet::new());
            for new in &news {
                match db::skills::register(tx, new, Timestamp::now()) {
                    Ok(Registered::Same) => {}
                    Ok(outcome) => {
                        announce(tx, new, outcome)?;
                        changed.insert(new.skill.id.clone());
                    }
                    Err(RegisterError::Db(e)) => return Err(e),
                    Err(refused) => faults.push(Fault::new(&new.source, refused.to_string())),
                }
            }
            let entries = changed.into_iter().map(|id| Ok((db::skills::entry(tx, &id)?, id)));
            let entries: Vec<_> = entries.collect::<Result<_, db::DbError>>()?;
            Ok((faults, entries))
        })
        .await;
    match result {
        Ok((faults, entries)) => {
            synced.faults.extend(faults);
            let entries: Vec<_> = entries.into_iter().map(|(entry, id)| (id, entry)).collect();
            if !entries.is_empty() && !hive.swap_index(entries).is_empty() {
                hive.wake.notify_one();
            }
        }
        Err(e) => synced.faults.push(Fault::new(".skep/skep.db", e.to_string())),
    }
}

/// Tells of a registered version, in its transaction.
pub(super) fn announce(tx: &db::Tx<'_>, new: &NewVersion, outcome: Registered) -> Result<(), db::DbError> {
    let name = if outcome == Registered::NewSkill { "skill:created" } else { "skill:updated" };
    let owner: String = new.owner.clone().into();
    let data = json!({
        "skill": { "id": new.skill.id, "version": new.skill.version, "digest": new.digest },
        "createdBy": owner,
    });
    db::events::append(tx, Timestamp::now(), name, &data).map(|_| ())
}
