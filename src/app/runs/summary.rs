//! The summary that an agent wrote of its run, in `/workspace/.skep`: `summary`, or `summary-<run>` where runs may be
//! beside each other. The folder is the agent's: it is opened without following links, and only a plain file counts.

use std::{
    fs::File,
    io::{ErrorKind, Read},
    os::{fd::OwnedFd, unix::fs::MetadataExt},
    path::Path,
};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, ResolveFlags, openat, openat2, unlinkat};

use crate::{app::hive::Hive, config::model::Workspace, db::runs::RunRow};

const FOLDER: &str = ".skep";
const SHARED: &str = "summary";
const MAX_BYTES: u64 = 4 * 1024;

/// Takes away what an earlier run left, so that it is not taken for this one's.
pub(super) fn clear(hive: &Hive, run: &RunRow) {
    if let Some(folder) = folder(hive, run) {
        remove(&folder, SHARED, run.id);
    }
}

/// What the run wrote; none when it wrote nothing, its workspace is in memory, or another run may have written it.
pub(super) fn take(hive: &Hive, run: &RunRow) -> Option<String> {
    let folder = folder(hive, run)?;
    let own = format!("{SHARED}-{}", run.id);
    let text = read(&folder, &own);
    remove(&folder, &own, run.id);
    if hive.runs.is_alone(run.id) {
        return text.or_else(|| read(&folder, SHARED));
    }
    // Whoever is left must not find what may be this run's.
    remove(&folder, SHARED, run.id);
    text
}

/// The agent's folder on the host.
fn folder(hive: &Hive, run: &RunRow) -> Option<OwnedFd> {
    let agent = hive.find_agent(&run.agent).ok()?;
    let workspace = match &agent.preparation()?.config.workspace {
        Workspace::Named => agent.dir.workspace(),
        Workspace::Path(path) => hive.paths.resolve(path),
        Workspace::Tmpfs => return None,
    };
    inside(&workspace)
}

fn inside(workspace: &Path) -> Option<OwnedFd> {
    let flags = OFlags::DIRECTORY | OFlags::PATH | OFlags::CLOEXEC;
    let workspace = openat(CWD, workspace, flags, Mode::empty()).ok()?;
    openat2(workspace, FOLDER, flags, Mode::empty(), RESOLVE).ok()
}

const RESOLVE: ResolveFlags =
    ResolveFlags::BENEATH.union(ResolveFlags::NO_SYMLINKS).union(ResolveFlags::NO_MAGICLINKS);

fn read(folder: &OwnedFd, name: &str) -> Option<String> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
    let file = File::from(openat2(folder, name, flags, Mode::empty(), RESOLVE).ok()?);
    let meta = file.metadata().ok()?;
    if !meta.is_file() || meta.nlink() != 1 {
        return None;
    }
    let mut bytes = Vec::new();
    file.take(MAX_BYTES).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

fn remove(folder: &OwnedFd, name: &str, run: i64) {
    match unlinkat(folder, name, AtFlags::empty()) {
        Err(e) if e.kind() != ErrorKind::NotFound => {
            tracing::debug!(run, name, error = %e, "a summary cannot be removed");
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use super::*;

    #[test]
    fn a_plain_file_is_a_summary_and_nothing_that_leads_elsewhere() {
        let dir = tempfile::tempdir().unwrap();
        assert!(inside(dir.path()).is_none(), "no folder");
        fs::write(dir.path().join("secret"), "not yours").unwrap();
        fs::create_dir(dir.path().join(FOLDER)).unwrap();
        let at = |name: &str| dir.path().join(FOLDER).join(name);
        fs::write(at("summary"), "Done.").unwrap();
        symlink("../secret", at("link")).unwrap();
        fs::hard_link(dir.path().join("secret"), at("hard")).unwrap();
        fs::create_dir(at("folder")).unwrap();
        let fifo = std::process::Command::new("mkfifo").arg(at("fifo")).status().unwrap();
        assert!(fifo.success());
        let folder = inside(dir.path()).unwrap();
        assert_eq!(read(&folder, "summary").as_deref(), Some("Done."));
        for name in ["link", "hard", "folder", "fifo", "none"] {
            assert_eq!(read(&folder, name), None, "{name}");
        }
        for name in ["summary", "link", "folder", "none"] {
            remove(&folder, name, 1);
        }
        assert!(!at("summary").exists() && !at("link").is_symlink());
        assert_eq!(fs::read_to_string(dir.path().join("secret")).unwrap(), "not yours");
    }

    #[test]
    fn a_folder_that_is_a_link_is_not_entered() {
        let (dir, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::write(other.path().join("summary"), "not yours").unwrap();
        symlink(other.path(), dir.path().join(FOLDER)).unwrap();
        assert!(inside(dir.path()).is_none());
    }
}
