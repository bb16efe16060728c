//! Tells what came of a folder: to the agent beside its files, to the operator on the agent, to everybody as an event;
//! each once.

use std::{sync::Arc, time::Instant};

use semver::Version;
use serde_json::json;

use super::{
    memo::{self, Memo},
    room::{Folder, Next},
    take::Taken,
};
use crate::{
    app::hive::Hive,
    db,
    ids::SkillId,
    kill_point,
    registry::{index::Trust, names::escape, notice},
    supervisor::agent::Agent,
};

/// Reasons that an event names.
pub(super) const MAX_REASONS: usize = 50;
/// Where notices that concern no single folder are laid.
const TOP: &str = ".";
/// Stands for the folders whose names are no text among the agent's warnings; no folder's name.
const ODD: &str = "...";

/// A folder as it can be told anywhere: in a terminal, and in markdown.
fn place(folder: &str) -> String {
    let plain = escape(folder.as_bytes()).replace('`', "\\u{60}").replace('<', "\\u{3c}");
    format!("/skills/custom/{plain}")
}

/// A reason on one line; what is not plain text is spelt out.
fn reason(text: &str) -> String {
    let spelt = |c: char| if c.is_control() { c.escape_unicode().to_string() } else { c.to_string() };
    text.chars().map(spelt).collect()
}

/// Tells of folders whose names are not UTF-8: they are never looked at. None: that there are none any more.
pub async fn odd(agent: &Arc<Agent>, names: &[String]) {
    if names.is_empty() {
        if agent.state().custom.remove(ODD).is_some() {
            quiet(agent, TOP).await;
        }
        return;
    }
    let list: Vec<String> = names.iter().map(|name| format!("/skills/custom/{name}")).collect();
    let why = format!("the name is not UTF-8, so no skill can be there: {}; rename it", list.join(", "));
    let before = agent.state().custom.insert(ODD.to_owned(), why.clone());
    if before.as_ref() != Some(&why) {
        tracing::info!(agent = %agent.id, "refused: {why}");
        let list: String = list.iter().map(|name| format!("- `{}`\n", name.replace('`', "\\x60"))).collect();
        let text =
            format!("# Folders that cannot be skills\n\nTheir names are not UTF-8; rename them:\n\n{list}");
        lay(agent, TOP, &text).await;
    }
}

/// Keeps and tells what came of a folder. Answers what comes next, and what is kept of it.
pub async fn conclude(
    hive: &Arc<Hive>,
    agent: &Arc<Agent>,
    folder: &Folder,
    taken: Taken,
) -> (Next, Option<Memo>) {
    let before = folder.memo.clone();
    match taken {
        Taken::Nothing => {
            if !was_rejected(hive, before.as_ref()) {
                quiet(agent, &folder.name).await;
            }
            (Next::Rest, before)
        }
        Taken::Gone => {
            agent.state().custom.remove(&folder.name);
            keep(hive, agent, folder, None).await;
            (Next::Rest, None)
        }
        Taken::Registered(digest, published) => {
            let memo = Memo { digest: Some(digest), refused: Vec::new() };
            tracing::info!(agent = %agent.id, "registered {}@{} from /skills/custom/{}",
                published.id, published.version, folder.name);
            keep(hive, agent, folder, Some(&memo)).await;
            kill_point!("custom.noted");
            quiet(agent, &folder.name).await;
            quiet(agent, TOP).await;
            (Next::Registered, Some(memo))
        }
        Taken::Refused(..) if !folder.tell => (Next::Again, before),
        Taken::Refused(digest, reasons) => {
            let world = hive.world();
            let refused = reasons.iter().map(|r| reason(&world.masker.mask_str(r))).collect();
            let memo = Memo { digest, refused };
            refuse(hive, agent, folder, &memo).await;
            (Next::Rest, Some(memo))
        }
        Taken::Limited(until, why) => {
            warn(agent, TOP, why.clone());
            lay(agent, TOP, &format!("# Skills wait\n\n{why}\n")).await;
            (Next::Wait(until, true), before)
        }
        Taken::Failed(until, why) => {
            tracing::error!(agent = %agent.id, "cannot register {}: {why}", place(&folder.name));
            warn(agent, &folder.name, format!("{} waits: {why}", place(&folder.name)));
            (Next::Wait(until.max(Instant::now()), false), before)
        }
    }
}

/// Whether the operator rejected the version that has this content.
fn was_rejected(hive: &Hive, memo: Option<&Memo>) -> bool {
    let Some(digest) = memo.and_then(|memo| memo.digest) else { return false };
    let world = hive.world();
    let mut versions = world.index.skills.values().flat_map(|entry| entry.versions.values());
    versions.any(|v| v.digest == digest && v.trust == Trust::Rejected)
}

/// Tells the author, beside the files, that the operator rejected a version; where there are none, beside all its skills.
pub async fn rejected(agent: &Arc<Agent>, id: &SkillId, version: &Version, reason: Option<&str>) {
    let why = reason.map(|reason| format!("\n\nThe reason: {reason}")).unwrap_or_default();
    let text = format!(
        "# {id}@{version} was rejected\n\nThe operator rejected this version: nobody can use it.{why}\n\n\
         A changed skill is a new version, which waits for approval again.\n"
    );
    if !lay(agent, id.as_str(), &text).await {
        lay(agent, TOP, &text).await;
    }
}

async fn refuse(hive: &Arc<Hive>, agent: &Arc<Agent>, folder: &Folder, memo: &Memo) {
    let name = &folder.name;
    let first = memo.refused.first().cloned().unwrap_or_default();
    let more = match memo.refused.len() {
        0 | 1 => String::new(),
        n => format!(" (and {} more reasons)", n - 1),
    };
    let at = place(name);
    warn(agent, name, format!("{at} is not registered: {first}{more}"));
    // What was told before need not be told again; the content may be another.
    let known = folder.memo.as_ref().is_some_and(|before| before.refused == memo.refused);
    if known {
        keep(hive, agent, folder, Some(memo)).await;
    } else {
        tracing::info!(agent = %agent.id, "refused {at}: {}", memo.refused.join("; "));
        announce(hive, agent, name, memo).await;
    }
    let list: String = memo.refused.iter().map(|reason| format!("- {reason}\n")).collect();
    let text = format!(
        "# This skill is not registered\n\nskep looked at `{at}` and refused it:\n\n{list}\n\
         It is looked at again when a file in it changes; this file goes away when everything is right.\n"
    );
    if !lay(agent, name, &text).await {
        lay(agent, TOP, &text).await;
    }
}

/// The event and what is kept, together.
async fn announce(hive: &Arc<Hive>, agent: &Arc<Agent>, name: &str, memo: &Memo) {
    let reasons: Vec<&String> = memo.refused.iter().take(MAX_REASONS).collect();
    let data = json!({
        "skill": { "id": name, "digest": memo.digest },
        "createdBy": agent.id,
        "folder": place(name),
        "reasons": reasons,
    });
    let (id, name, memo, now) = (agent.id.clone(), name.to_owned(), memo.clone(), hive.now());
    let written: Result<(), db::DbError> = hive
        .db
        .write(move |tx| {
            db::events::append(tx, now, "skill:rejected", &data)?;
            memo::keep(tx, &id, &name, Some(&memo))
        })
        .await;
    if let Err(e) = written {
        tracing::error!(agent = %agent.id, error = %e, "cannot record that a skill was refused");
    }
}

async fn keep(hive: &Arc<Hive>, agent: &Arc<Agent>, folder: &Folder, memo: Option<&Memo>) {
    if folder.memo.as_ref() == memo {
        return;
    }
    let (id, name, memo) = (agent.id.clone(), folder.name.clone(), memo.cloned());
    let kept: Result<(), db::DbError> =
        hive.db.write(move |tx| memo::keep(tx, &id, &name, memo.as_ref())).await;
    if let Err(e) = kept {
        // At worst it is looked at once more.
        tracing::warn!(agent = %agent.id, error = %e, "cannot keep what was made of a skill");
    }
}

fn warn(agent: &Agent, folder: &str, text: String) {
    agent.state().custom.insert(folder.to_owned(), text);
}

/// Nothing is wrong with it any more.
async fn quiet(agent: &Arc<Agent>, folder: &str) {
    agent.state().custom.remove(folder);
    let (custom, folder, id) = (agent.dir.custom(), folder.to_owned(), agent.id.clone());
    let gone = tokio::task::spawn_blocking(move || {
        if notice::is_there(&custom, &folder) { notice::take_away(&custom, &folder) } else { Ok(()) }
    });
    if let Ok(Err(e)) = gone.await {
        tracing::debug!(agent = %id, "cannot take a notice away: {e}");
    }
}

/// False when it could not be laid: a link stands where the folder should, or the disk is full.
async fn lay(agent: &Arc<Agent>, folder: &str, text: &str) -> bool {
    let owner = rustix::process::geteuid().is_root().then_some(agent.user);
    let (custom, folder, text, id) =
        (agent.dir.custom(), folder.to_owned(), text.to_owned(), agent.id.clone());
    let laid = tokio::task::spawn_blocking(move || notice::lay(&custom, &folder, &text, owner));
    match laid.await {
        Ok(Ok(())) => true,
        Ok(Err(e)) => {
            tracing::debug!(agent = %id, "cannot lay a notice: {e}");
            false
        }
        Err(_) => false,
    }
}
