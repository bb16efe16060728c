//! Waits until a running supervisor has registered what was put into the hive's folder.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use super::{
    super::super::{
        failure::Failure,
        hive::{self, Context},
    },
    report::{Line, Outcome},
};
use crate::{
    app::types::{HiveView, SkillView},
    paths::HivePaths,
};

/// Between two looks.
const PAUSE: Duration = Duration::from_millis(200);
/// Given up when for so long nothing more was registered.
const PATIENCE: Duration = Duration::from_secs(20);
/// So many are asked for one by one.
const FEW: usize = 16;

/// How it went.
#[derive(Debug)]
pub(super) enum Uptake {
    /// No supervisor runs.
    None,
    /// It has them all.
    Done,
    /// It does not have these yet; and what it says of them.
    Missing(Vec<String>, Vec<String>),
}

impl Uptake {
    /// What is to be told about it.
    pub(super) fn note(&self) -> Option<String> {
        match self {
            Self::None => Some("no supervisor runs: the next `skep up` registers them".into()),
            Self::Done => None,
            Self::Missing(ids, said) if said.is_empty() => Some(format!(
                "the supervisor has not registered {} yet; `skep ps` tells what is wrong",
                ids.join(", ")
            )),
            Self::Missing(ids, said) => {
                Some(format!("the supervisor has not registered {}: {}", ids.join(", "), said.join("; ")))
            }
        }
    }
}

/// Waits, and fills in what the registry knows of each line.
pub(super) async fn wait(context: &Context, hive: &HivePaths, lines: &mut [Line]) -> Result<Uptake, Failure> {
    let taken = |line: &Line| line.outcome != Outcome::Failed;
    if !lines.iter().any(taken) || hive::supervisor(hive)?.is_none() {
        return Ok(Uptake::None);
    }
    let bar = context.ui.spinner();
    let (mut since, mut before) = (Instant::now(), usize::MAX);
    loop {
        look(context, lines).await?;
        let missing = lines.iter().filter(|l| taken(l) && l.registered != Some(true)).count();
        if missing == 0 {
            return Ok(Uptake::Done);
        }
        if missing < before {
            (since, before) = (Instant::now(), missing);
        }
        if since.elapsed() > PATIENCE {
            return missed(context, lines).await;
        }
        bar.set_message(format!("the supervisor registers them: {missing} to go"));
        tokio::time::sleep(PAUSE).await;
    }
}

async fn look(context: &Context, lines: &mut [Line]) -> Result<(), Failure> {
    let client = context.client()?;
    let open: Vec<&mut Line> = lines
        .iter_mut()
        .filter(|l| l.outcome != Outcome::Failed && l.registered != Some(true) && l.id.is_some())
        .collect();
    let mut known: BTreeMap<String, SkillView> = BTreeMap::new();
    if open.len() > FEW {
        let all: Vec<SkillView> = client.list("/v1/skills", &[("include_disabled", "true")]).await?;
        known.extend(all.into_iter().map(|skill| (skill.id.clone(), skill)));
    } else {
        for line in &open {
            let id = line.name();
            match client.get::<SkillView>(&format!("/v1/skills/{id}"), &[]).await {
                Ok(skill) => {
                    known.insert(id.to_owned(), skill);
                }
                Err(e) if e.status == Some(404) => {}
                Err(e) => return Err(e),
            }
        }
    }
    for line in open {
        let version = known
            .get(line.name())
            .and_then(|skill| skill.versions.iter().find(|v| Some(&v.digest) == line.digest.as_ref()));
        line.registered = Some(version.is_some());
        if let Some(version) = version {
            line.version = Some(version.version.clone());
        }
    }
    Ok(())
}

/// What the supervisor says of those that it does not take.
async fn missed(context: &Context, lines: &[Line]) -> Result<Uptake, Failure> {
    let view: HiveView = context.client()?.get("/v1/hive", &[]).await?;
    let open = || lines.iter().filter(|l| l.registered == Some(false));
    let of = |said: &&String| open().any(|l| l.folder.as_ref().is_some_and(|folder| said.contains(folder)));
    let said = view.config_faults.iter().chain(&view.warnings).filter(of).cloned().collect();
    Ok(Uptake::Missing(open().map(|l| l.name().to_owned()).collect(), said))
}
