//! `skep resolve --check`: whether the files that an agent is given are those of `skep.lock`; and of what it has
//! besides, the skills that it wrote, whether they are what was registered.
//!
//! Every digest is computed anew from what lies in the view; nothing is repaired.

use std::{collections::BTreeSet, fs, path::Path};

use semver::Version;
use serde::Serialize;

use super::{
    failure::{FAILED, Failure, Outcome},
    hive::Context,
};
use crate::{
    config::model::SkillLimits,
    db,
    ids::{AgentId, Digest, SkillId},
    paths::HivePaths,
    registry::index::Index,
    registry::safe_copy::{CopyError, Origin, Policy, fingerprint},
    resolver::{Lock, Locked, LockedAgent},
    sandbox::{generated, view::folder_name},
    skill::{
        digest::digest,
        load,
        source::{Limits, SKILL_MD, Source},
    },
};

#[derive(Debug, Serialize)]
struct Checked {
    agent: AgentId,
    id: SkillId,
    version: Version,
    /// Of what it should hold, where that is known.
    digest: Option<Digest>,
    /// Whether it is the agent's own, which `skep.lock` does not name.
    own: bool,
    /// `ok`, `changed`, `not mounted`, `not current` or `unknown`.
    result: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

pub(super) fn run(
    context: &Context,
    hive: &HivePaths,
    lock: &Lock,
    only: Option<&AgentId>,
    json: bool,
) -> Outcome {
    if let Some(agent) = only.filter(|a| !agents(hive, lock).contains(*a)) {
        return Err(Failure::new(format!("skep.lock has no agent {agent}"))
            .help("it is locked when the supervisor starts it: `skep up -d`"));
    }
    let registered = db::offline::registered(&hive.database(), |_, _| false);
    let (index, why) = match registered {
        Ok(found) => (found.map(|(index, _)| index).unwrap_or_default(), None),
        Err(e) => (Index::default(), Some(e.to_string())),
    };
    let mut checked = Vec::new();
    let none = LockedAgent::new();
    for agent in agents(hive, lock).iter().filter(|a| only.is_none_or(|only| only == *a)) {
        let view = hive.agent(agent).view();
        let skills = lock.agents.get(agent).unwrap_or(&none);
        for (id, locked) in skills {
            let (result, reason) = check(&view, id, locked);
            let (version, digest) = (locked.version.clone(), Some(locked.digest));
            let (agent, id) = (agent.clone(), id.clone());
            checked.push(Checked { agent, id, version, digest, own: false, result, reason });
        }
        for (id, version) in besides(&view, skills) {
            let digest = index.version(&id, &version).map(|registered| registered.digest);
            let unknown = || Some(why.clone().unwrap_or_else(|| "it is not in the registry".to_owned()));
            let (result, reason) = match digest {
                Some(digest) => check(&view, &id, &Locked { version: version.clone(), digest }),
                None => ("unknown", unknown()),
            };
            checked.push(Checked { agent: agent.clone(), id, version, digest, own: true, result, reason });
        }
    }
    let good = checked.iter().all(|c| c.result == "ok");
    if json {
        context.ui.json(&checked)?;
    } else {
        let rows = checked.iter().map(|c| {
            vec![
                c.agent.as_str().into(),
                format!("{}@{}", c.id, c.version).into(),
                c.result.into(),
                match (&c.reason, c.own) {
                    (Some(reason), _) => reason.as_str().into(),
                    (None, true) => "its own".into(),
                    (None, false) => "".into(),
                },
            ]
        });
        context.ui.table(&["AGENT", "SKILL", "MOUNTED", "NOTE"], rows.collect())?;
    }
    Ok(if good { 0 } else { FAILED })
}

/// Those of the lock, and those that have a folder.
fn agents(hive: &HivePaths, lock: &Lock) -> BTreeSet<AgentId> {
    let folders = fs::read_dir(hive.agents()).into_iter().flatten();
    let named = folders.filter_map(|folder| folder.ok()?.file_name().to_str()?.parse().ok());
    named.chain(lock.agents.keys().cloned()).collect()
}

/// What is mounted as current and is not in the lock.
fn besides(view: &Path, locked: &LockedAgent) -> Vec<(SkillId, Version)> {
    let names = fs::read_dir(view)
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut found: Vec<(SkillId, Version)> = names
        .filter_map(|name| {
            let id: SkillId = name.parse().ok().filter(|id| !locked.contains_key(id))?;
            let target = fs::read_link(view.join(&name)).ok()?;
            let version = target.file_name()?.to_str()?.strip_prefix(&format!("{id}@"))?.parse().ok()?;
            Some((id, version))
        })
        .collect();
    found.sort();
    found
}

fn check(view: &Path, id: &SkillId, locked: &Locked) -> (&'static str, Option<String>) {
    let folder = folder_name(id, &locked.version);
    let inner = Path::new(".v").join(&folder);
    let policy = Policy { origin: Origin::Store, limits: unlimited() };
    let source = match fingerprint(view, &inner, &policy) {
        Ok(source) => source,
        Err(CopyError::Missing(_)) => return ("not mounted", None),
        Err(_) if !view.join(&inner).exists() => return ("not mounted", None),
        Err(e) => return ("changed", Some(Failure::from(e).message)),
    };
    let found = content(source, locked.digest);
    if found != locked.digest {
        return ("changed", Some(format!("its digest is {found}")));
    }
    match fs::read_link(view.join(id.as_str())) {
        Ok(target) if target == inner => ("ok", None),
        Ok(target) => ("not current", Some(format!("{id} leads to {}", target.display()))),
        Err(e) => ("not current", Some(format!("{id}: {e}"))),
    }
}

/// The digest without the SKILL.md that skep writes for agent programs beside a manifest.
fn content(mut source: Source, wanted: Digest) -> Digest {
    let whole = digest(&source);
    if whole == wanted || source.manifest.is_none() {
        return whole;
    }
    let Some(text) = source.skill_md.take() else { return whole };
    source.files.remove(SKILL_MD);
    let limits = Limits { files: usize::MAX, bytes: u64::MAX, file: u64::MAX, manifest: u64::MAX };
    let generated = load::read(&source, limits).skill.and_then(|skill| generated::skill_md(&skill));
    // Any other SKILL.md was put there by somebody else.
    if generated.is_some_and(|g| g.as_bytes() == text) { digest(&source) } else { whole }
}

/// What is in the store was measured when it came in.
fn unlimited() -> SkillLimits {
    SkillLimits { files: u64::MAX / 4, total: u64::MAX, file: u64::MAX - 1, manifest: u64::MAX - 1 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sandbox::view::{self, ViewSkill};

    const MANIFEST: &str = r#"{"id":"a","name":"A","version":"1.0.0","description":"d"}"#;

    fn laid() -> (tempfile::TempDir, std::path::PathBuf, SkillId, Locked) {
        let dir = tempfile::tempdir().unwrap();
        let (store, view) = (dir.path().join("store"), dir.path().join("view"));
        fs::create_dir(&store).unwrap();
        fs::write(store.join("manifest.json"), MANIFEST).unwrap();
        let source = Source::from_memory(&[("manifest.json", MANIFEST.as_bytes(), false)]);
        let skill = load::read(&source, Limits::default()).skill.unwrap();
        let text = generated::skill_md(&skill).unwrap();
        let (id, locked) = (skill.id, Locked { version: skill.version, digest: digest(&source) });
        let entry =
            ViewSkill { id: &id, version: &locked.version, source: &store, generated_skill_md: Some(&text) };
        view::lay(&view, &[entry]).unwrap();
        view::flip(&view, &[entry]).unwrap();
        (dir, view, id, locked)
    }

    #[test]
    fn a_generated_skill_md_is_no_change_but_any_other_is() {
        let (_dir, view, id, locked) = laid();
        assert_eq!(check(&view, &id, &locked), ("ok", None));
        let file = view.join(".v/a@1.0.0/SKILL.md");
        fs::remove_file(&file).unwrap();
        fs::write(&file, "---\nname: a\ndescription: evil\n---\n").unwrap();
        assert_eq!(check(&view, &id, &locked).0, "changed");
    }

    #[test]
    fn what_is_mounted_besides_the_lock_is_found() {
        let (_dir, view, id, locked) = laid();
        assert_eq!(besides(&view, &LockedAgent::new()), [(id.clone(), locked.version.clone())]);
        assert_eq!(besides(&view, &[(id, locked)].into()), []);
    }

    #[test]
    fn what_is_missing_or_leads_elsewhere_is_told() {
        let (_dir, view, id, locked) = laid();
        let other = Locked { version: "2.0.0".parse().unwrap(), ..locked.clone() };
        assert_eq!(check(&view, &id, &other).0, "not mounted");
        fs::remove_file(view.join("a")).unwrap();
        assert_eq!(check(&view, &id, &locked).0, "not current");
    }
}
