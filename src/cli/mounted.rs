//! `skep resolve --check`: whether the files that an agent is given are those of `skep.lock`.
//!
//! Every digest is computed anew from what lies in the view; nothing is repaired.

use std::{fs, path::Path};

use serde::Serialize;

use super::{
    failure::{FAILED, Failure, Outcome},
    hive::Context,
};
use crate::{
    config::model::SkillLimits,
    ids::{AgentId, Digest, SkillId},
    paths::HivePaths,
    registry::safe_copy::{CopyError, Origin, Policy, fingerprint},
    resolver::{Lock, Locked},
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
    version: semver::Version,
    digest: Digest,
    /// `ok`, `changed`, `not mounted` or `not current`.
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
    if let Some(agent) = only.filter(|a| !lock.agents.contains_key(*a)) {
        return Err(Failure::new(format!("skep.lock has no agent {agent}"))
            .help("it is locked when the supervisor starts it: `skep up -d`"));
    }
    let mut checked = Vec::new();
    for (agent, skills) in lock.agents.iter().filter(|(a, _)| only.is_none_or(|only| only == *a)) {
        let view = hive.agent(agent).view();
        for (id, locked) in skills {
            let (result, reason) = check(&view, id, locked);
            let (version, digest) = (locked.version.clone(), locked.digest);
            checked.push(Checked { agent: agent.clone(), id: id.clone(), version, digest, result, reason });
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
                c.reason.as_deref().unwrap_or_default().into(),
            ]
        });
        context.ui.table(&["AGENT", "SKILL", "MOUNTED", "NOTE"], rows.collect())?;
    }
    Ok(if good { 0 } else { FAILED })
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
    fn what_is_missing_or_leads_elsewhere_is_told() {
        let (_dir, view, id, locked) = laid();
        let other = Locked { version: "2.0.0".parse().unwrap(), ..locked.clone() };
        assert_eq!(check(&view, &id, &other).0, "not mounted");
        fs::remove_file(view.join("a")).unwrap();
        assert_eq!(check(&view, &id, &locked).0, "not current");
    }
}
