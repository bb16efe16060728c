//! The soul: the operator's file, and the copy that the container sees at `/soul.md`.
//!
//! The copy is written in place, because a container binds its inode. Where the agent may edit it, its
//! edits go back to the operator's file; when both changed, the operator's wins.

use std::{
    fs,
    io::{self, Read, Seek, Write},
    os::unix::fs::{OpenOptionsExt, PermissionsExt, fchown},
    path::Path,
    sync::Arc,
    time::Duration,
};

use crate::{
    app::{hive::Hive, world::write_atomically},
    paths::AgentDir,
    supervisor::agent::Agent,
};

/// The largest soul.
pub const MAX_SOUL: u64 = 1 << 20;

/// Edits of agents are taken over this often.
const PERIOD: Duration = Duration::from_secs(5);

/// Takes over what agents wrote into their souls, until aborted. The operator's file is watched like any other.
pub async fn watch(hive: Arc<Hive>) {
    loop {
        tokio::time::sleep(PERIOD).await;
        for agent in hive.all_agents() {
            take_over(&hive, &agent).await;
        }
    }
}

/// Takes over what an agent wrote into its soul, where it may.
pub async fn take_over(hive: &Hive, agent: &Agent) {
    let Some(preparation) = agent.preparation() else { return };
    let (Some(soul), Some(path), true) =
        (preparation.soul.clone(), &preparation.config.soul, preparation.config.allow_soul_edit)
    else {
        return;
    };
    let (dir, source) = (agent.dir.clone(), hive.paths.resolve(path));
    let owner = hive.privileged.then_some(agent.user);
    let synced = tokio::task::spawn_blocking(move || {
        // A newer file of the operator's is the next preparation's to lay.
        if fs::read_to_string(&source).is_ok_and(|now| now == soul) {
            sync(&dir, &source, &soul, owner, true)?;
        }
        io::Result::Ok(())
    });
    if let Ok(Err(e)) = synced.await {
        tracing::warn!(agent = %agent.id, error = %e, "cannot take over its soul");
    }
}

/// Brings both files together. `configured` is what the operator's file says now; `owner` may write the copy.
///
/// # Errors
/// Of the file system.
pub fn sync(
    dir: &AgentDir,
    source: &Path,
    configured: &str,
    owner: Option<(u32, u32)>,
    editable: bool,
) -> io::Result<()> {
    let laid_path = dir.root.join("soul.laid");
    let laid = fs::read_to_string(&laid_path).ok();
    let mut copy = fs::File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .custom_flags(libc::O_NOFOLLOW)
        .open(dir.soul())?;
    let there = read(&mut copy)?;
    copy.set_permissions(fs::Permissions::from_mode(0o644))?;
    let (uid, gid) =
        owner.unwrap_or((rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw()));
    if rustix::process::geteuid().is_root() {
        fchown(&copy, Some(uid), Some(gid))?;
    }
    let edited =
        there.as_deref().filter(|t| editable && laid.as_deref() == Some(configured) && *t != configured);
    if let Some(edited) = edited {
        write_atomically(source, edited.as_bytes())?;
        return fs::write(laid_path, edited);
    }
    if there.as_deref() != Some(configured) {
        copy.rewind()?;
        copy.set_len(0)?;
        copy.write_all(configured.as_bytes())?;
    }
    if laid.as_deref() != Some(configured) {
        fs::write(laid_path, configured)?;
    }
    Ok(())
}

/// What the agent sees; none when it is too large or no plain text, which is never taken over.
fn read(copy: &mut fs::File) -> io::Result<Option<String>> {
    let mut bytes = Vec::new();
    copy.take(MAX_SOUL + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_SOUL {
        return Ok(None);
    }
    // Control characters would act on the terminal of whoever prints the operator's file.
    let text = String::from_utf8(bytes).ok();
    Ok(text.filter(|t| !t.chars().any(|c| c.is_control() && !matches!(c, '\n' | '\r' | '\t'))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edits_of_the_agent_go_back_and_edits_of_the_operator_win() {
        let folder = tempfile::tempdir().unwrap();
        let dir = AgentDir { root: folder.path().to_owned() };
        let source = folder.path().join("source.md");
        let both = || (fs::read_to_string(&source).unwrap(), fs::read_to_string(dir.soul()).unwrap());
        fs::write(&source, "one").unwrap();
        sync(&dir, &source, "one", None, true).unwrap();
        assert_eq!(both(), ("one".into(), "one".into()));

        fs::write(dir.soul(), "two, by the agent").unwrap();
        sync(&dir, &source, "one", None, true).unwrap();
        assert_eq!(both().0, "two, by the agent");

        fs::write(&source, "three").unwrap();
        fs::write(dir.soul(), "four").unwrap();
        sync(&dir, &source, "three", None, true).unwrap();
        assert_eq!(both(), ("three".into(), "three".into()));

        fs::write(dir.soul(), "five").unwrap();
        sync(&dir, &source, "three", None, false).unwrap();
        assert_eq!(both(), ("three".into(), "three".into()));
    }
}
