//! From a folder that an agent wrote to a version of the registry, or to the reasons why not.
//!
//! Everything is judged on a copy. Nothing here waits for anything but the disk and the database.

use std::{
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use super::{limit, memo::Memo};
use crate::{
    app::{
        Result,
        hive::Hive,
        skills::{Only, Outcome, PublishOptions, Published},
        types::{AppError, fault_pair},
    },
    error::Fault,
    ids::{AgentId, Digest},
    kill_point,
    registry::{
        index::Owner,
        safe_copy::{self, CopyError, Origin, Policy},
        staging::Staged,
    },
    skill::{
        self,
        source::{MANIFEST, SKILL_MD},
    },
    supervisor::agent::Agent,
    watcher::tree,
};

/// Pause after a failure of our own side.
const OURS: Duration = Duration::from_secs(5);

/// Names of a folder that are looked at for its manifest.
const NAMES: usize = 4_000;

/// What came of looking at a folder.
#[derive(Debug)]
pub enum Taken {
    /// It is as it was when it was registered, or is no skill.
    Nothing,
    /// There is no such folder any more.
    Gone,
    /// It is a version now, or was one already.
    Registered(Digest, Published),
    /// It is not taken as it is.
    Refused(Option<Digest>, Vec<String>),
    /// The agent registered too much; when it may go on.
    Limited(Instant, String),
    /// The disk or the database failed; when to try again.
    Failed(Instant, String),
}

/// Looks at a folder once and registers what is new.
pub async fn take(hive: &Arc<Hive>, agent: &Arc<Agent>, folder: &str, memo: Option<Memo>) -> Taken {
    let looked = {
        let (hive, custom, folder) = (hive.clone(), agent.dir.custom(), folder.to_owned());
        tokio::task::spawn_blocking(move || look(&hive, &custom, &folder, memo.as_ref())).await
    };
    let staged = match looked {
        Ok(Ok(staged)) => staged,
        Ok(Err(taken)) => return *taken,
        Err(e) => return Taken::Failed(Instant::now() + OURS, format!("copying it failed: {e}")),
    };
    kill_point!("custom.staged");
    let digest = staged.digest();
    let how = PublishOptions { source: format!("/skills/custom/{folder}"), ..PublishOptions::default() };
    match hive.publish_own(&agent.id, staged, how).await {
        Ok(published) => {
            kill_point!("custom.published");
            Taken::Registered(digest, published)
        }
        Err(AppError::TooMany { detail, retry_after }) => {
            Taken::Limited(Instant::now() + retry_after, detail)
        }
        Err(AppError::Invalid { errors, .. }) => {
            let reasons = errors.into_iter().map(|(place, why)| format!("{place}: {why}"));
            Taken::Refused(Some(digest), reasons.collect())
        }
        Err(AppError::Unavailable(why) | AppError::Internal(why)) => {
            Taken::Failed(Instant::now() + OURS, why)
        }
        Err(refused) => Taken::Refused(Some(digest), vec![refused.to_string()]),
    }
}

/// A copy of what is new.
fn look(
    hive: &Hive,
    custom: &Path,
    folder: &str,
    memo: Option<&Memo>,
) -> std::result::Result<Staged, Box<Taken>> {
    if tree::is_file(custom, folder) {
        return Err(Box::new(Taken::Nothing));
    }
    let policy = Policy { origin: Origin::Agent, limits: hive.world().config.registry.limits };
    let inner = Path::new(folder);
    if memo.is_none()
        && let Ok(names) = tree::names(custom, folder, NAMES)
        // With so many its manifest may be among those that were not read: the limit refuses it.
        && names.len() < NAMES
        && !names.iter().any(|name| name == MANIFEST || name == SKILL_MD)
    {
        return Err(Box::new(nothing_declared(&names)));
    }
    if memo.is_some_and(|memo| memo.refused.is_empty()) {
        // Mostly it is as it was: reading is cheaper than copying.
        let read = safe_copy::fingerprint(custom, inner, &policy).map_err(refused)?;
        if memo.is_some_and(|memo| memo.registered(skill::digest::digest(&read))) {
            return Err(Box::new(Taken::Nothing));
        }
    }
    let staged = hive.store.stage(custom, inner, &policy).map_err(refused)?;
    Ok(staged)
}

/// A folder without a manifest is no skill (yet); one whose manifest is merely misspelt is told.
fn nothing_declared(names: &[String]) -> Taken {
    let near = |name: &&String| [MANIFEST, SKILL_MD].iter().any(|right| name.eq_ignore_ascii_case(right));
    match names.iter().find(near) {
        Some(name) => {
            let why = format!("There is neither {MANIFEST} nor {SKILL_MD} (rename {name}: case matters)");
            Taken::Refused(None, vec![why])
        }
        None => Taken::Nothing,
    }
}

fn refused(error: CopyError) -> Box<Taken> {
    Box::new(match error {
        CopyError::Missing(_) => Taken::Gone,
        CopyError::Rejected { faults, more, .. } => {
            let text = |fault: &Fault| {
                let (place, why) = fault_pair(fault);
                if place == "." { why } else { format!("{place}: {why}") }
            };
            let mut reasons: Vec<String> = faults.iter().map(text).collect();
            reasons.extend((more > 0).then(|| format!("and {more} more")));
            Taken::Refused(None, reasons)
        }
        CopyError::NoOpenat2 | CopyError::Io { .. } => {
            Taken::Failed(Instant::now() + OURS, error.to_string())
        }
    })
}

impl Hive {
    /// Publishes what an agent wrote, whichever way it came: within its limits.
    ///
    /// # Errors
    /// It is over them (429, 409); or as for [`Hive::publish`].
    pub async fn publish_own(
        self: &Arc<Self>,
        agent: &AgentId,
        staged: Staged,
        how: PublishOptions,
    ) -> Result<Published> {
        let owner = Owner::Agent(agent.clone());
        let owned = self.world().index.skills.values().filter(|entry| entry.owner == owner).count();
        let full = owned >= limit::SKILLS;
        let how = PublishOptions { only: if full { Some(Only::NewVersion) } else { how.only }, ..how };
        self.may_publish(agent)?;
        let published = self.publish(&owner, staged, how).await;
        if published.as_ref().map_or(true, |p| p.outcome == Outcome::Same) {
            self.custom.give_back(agent);
        }
        published.map_err(|refused| match refused {
            AppError::NotFound(_) if full => AppError::Conflict(format!(
                "agent {agent} owns {owned} skills and no more are possible; ask the operator to delete some \
                 (skep skill rm)"
            )),
            other => other,
        })
    }

    /// Counts one version of an agent's.
    fn may_publish(&self, agent: &AgentId) -> Result<()> {
        self.custom.take(agent).map_err(|until| {
            let (burst, rate) = (limit::BURST, limit::A_MINUTE);
            let retry_after = until.saturating_duration_since(Instant::now());
            let at = self.now().checked_add(retry_after).unwrap_or_else(|_| self.now());
            let detail = format!(
                "agent {agent} registered many versions in a short time; {rate} a minute are possible, after {burst} \
                 at once. What is in /skills/custom is not lost: it goes on by itself at {at:.0}"
            );
            AppError::TooMany { detail, retry_after }
        })
    }
}
