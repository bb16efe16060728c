//! The summary that an agent wrote of its run, in `/workspace/.skep/summary`. The folder is the agent's: it is opened
//! without following links, and only a plain file of this run counts.

use std::{fs::File, io::Read, os::unix::fs::MetadataExt};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat, openat2};

use crate::{app::hive::Hive, config::model::Workspace, db::runs::RunRow};

const NAME: &str = ".skep/summary";
const MAX_BYTES: u64 = 4 * 1024;

/// What the run wrote; none when it wrote nothing, or its workspace is in memory.
pub(super) fn read(hive: &Hive, run: &RunRow) -> Option<String> {
    let agent = hive.find_agent(&run.agent).ok()?;
    let folder = match &agent.preparation()?.config.workspace {
        Workspace::Named => agent.dir.workspace(),
        Workspace::Path(path) => hive.paths.resolve(path),
        Workspace::Tmpfs => return None,
    };
    let flags = OFlags::DIRECTORY | OFlags::PATH | OFlags::CLOEXEC;
    let folder = openat(CWD, folder, flags, Mode::empty()).ok()?;
    let inside = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
    let file = File::from(openat2(folder, NAME, flags, Mode::empty(), inside).ok()?);
    let meta = file.metadata().ok()?;
    let written_ms = meta.mtime() * 1_000 + meta.mtime_nsec() / 1_000_000;
    let of_this_run = run.started_at.is_some_and(|start| written_ms >= start.as_millisecond());
    if !meta.is_file() || meta.nlink() != 1 || !of_this_run {
        return None;
    }
    let mut bytes = Vec::new();
    file.take(MAX_BYTES).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}
