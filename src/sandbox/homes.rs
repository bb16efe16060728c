//! Prepares an agent's workspace on the host: its home, with the links by which agent programs
//! find the skills (skills.md, "Where agents read skills").
//!
//! The workspace belongs to the agent, which may put links in our way at any moment. So nothing is
//! done with the supervisor's power: the work is done as the agent's user, folder by folder from
//! open descriptors, without following a link. What is there already stays.

use std::{
    io,
    os::fd::{AsFd, OwnedFd},
    path::Path,
    thread,
};

use nix::unistd::{Gid, Uid, setfsgid, setfsuid};
use rustix::{
    fs::{CWD, Mode, OFlags, mkdirat, openat, readlinkat, symlinkat},
    io::Errno,
};

/// The home folder inside the workspace.
pub const HOME: &str = "home";

/// Links below the home and where they lead, for Claude Code; for Codex, Gemini CLI, OpenCode,
/// Cursor and Goose; for Goose. A workspace in memory gets them from the init.
pub const HOME_LINKS: &[(&str, &str)] =
    &[(".claude/skills", "/skills"), (".agents/skills", "/skills"), (".config/agents/skills", "/skills")];

/// A user and group by number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Owner {
    /// User.
    pub uid: u32,
    /// Group.
    pub gid: u32,
}

/// What became of one link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Made now.
    Made,
    /// It was there.
    Kept,
    /// Something else is in its place, which is the agent's right.
    Occupied,
    /// It could not be made (a full disk, a folder that the agent's user may not write).
    Failed(String),
}

/// Makes the folder of a workspace where it is missing, and gives it to `owner` when it was made.
///
/// `path` lies below `base`, a folder of the supervisor; no part of it may be a link.
///
/// # Errors
/// The file system's; `InvalidInput` for a path that leaves `base`; a link on the way.
pub fn make_workspace(base: &Path, path: &Path, owner: Option<Owner>) -> io::Result<()> {
    let mut at = open_folder(CWD, base, OFlags::empty()).map_err(|e| told(base, e))?;
    let mut made = false;
    for part in path.components() {
        let std::path::Component::Normal(name) = part else {
            if part == std::path::Component::CurDir {
                continue;
            }
            let text = format!("the workspace {} leaves the hive: name a folder inside it", path.display());
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        };
        (at, made) = enter(&at, Path::new(name)).map_err(|e| told(path, e))?;
    }
    if let (true, Some(owner)) = (made, owner) {
        // Only what is still ours: a folder that was put into its place is not.
        let stat = rustix::fs::fstat(&at)?;
        if stat.st_uid == rustix::process::geteuid().as_raw() {
            let (uid, gid) = (rustix::fs::Uid::from_raw(owner.uid), rustix::fs::Gid::from_raw(owner.gid));
            rustix::fs::fchown(&at, Some(uid), Some(gid)).map_err(|e| told(path, e))?;
        }
    }
    Ok(())
}

/// Makes the home and its links in `workspace`, as the user `owner` (none: as ourselves).
///
/// Returns what became of each of [`HOME_LINKS`], in their order.
///
/// # Errors
/// When the workspace cannot be opened as a folder, or the user cannot be switched to.
pub fn prepare(workspace: &Path, owner: Option<Owner>) -> io::Result<Vec<Outcome>> {
    let folder = open_folder(CWD, workspace, OFlags::NOFOLLOW).map_err(|e| told(workspace, e))?;
    let own = rustix::process::geteuid().as_raw();
    let Some(owner) = owner.filter(|o| o.uid != own) else {
        return Ok(make_links(&folder));
    };
    // The file system's user is one of the thread, so it ends with this one.
    thread::scope(|scope| {
        let work = scope.spawn(|| {
            become_user(owner)?;
            Ok(make_links(&folder))
        });
        work.join().unwrap_or_else(|_| Err(io::Error::other("preparing the home panicked")))
    })
}

/// From here on this thread may do in the file system what the agent may, and nothing more.
fn become_user(owner: Owner) -> io::Result<()> {
    let (uid, gid) = (Uid::from_raw(owner.uid), Gid::from_raw(owner.gid));
    setfsgid(gid);
    setfsuid(uid);
    // These calls report no failure; a second one tells who we are.
    if setfsgid(gid) != gid || setfsuid(uid) != uid {
        return Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            format!("cannot act as user {uid}: run the supervisor as root, or agents as its own user"),
        ));
    }
    Ok(())
}

fn make_links(workspace: &OwnedFd) -> Vec<Outcome> {
    let one = |(link, target): &(&str, &str)| match make_link(workspace, link, target) {
        Ok(outcome) => outcome,
        // A link or a file where a folder should be.
        Err(Errno::LOOP | Errno::NOTDIR) => Outcome::Occupied,
        Err(e) => Outcome::Failed(io::Error::from(e).to_string()),
    };
    HOME_LINKS.iter().map(one).collect()
}

fn make_link(workspace: &OwnedFd, link: &str, target: &str) -> Result<Outcome, Errno> {
    let (mut at, _) = enter(workspace, Path::new(HOME))?;
    let (folders, name) = link.rsplit_once('/').unwrap_or(("", link));
    for folder in folders.split('/').filter(|f| !f.is_empty()) {
        (at, _) = enter(&at, Path::new(folder))?;
    }
    match symlinkat(target, &at, name) {
        Ok(()) => Ok(Outcome::Made),
        Err(Errno::EXIST) => match readlinkat(&at, name, Vec::new()) {
            Ok(there) if there.as_bytes() == target.as_bytes() => Ok(Outcome::Kept),
            Ok(_) | Err(Errno::INVAL) => Ok(Outcome::Occupied),
            Err(e) => Err(e),
        },
        Err(e) => Err(e),
    }
}

/// Opens the folder `name`, made where it is missing; true when it was made.
fn enter(at: &OwnedFd, name: &Path) -> Result<(OwnedFd, bool), Errno> {
    match open_folder(at, name, OFlags::NOFOLLOW) {
        Err(Errno::NOENT) => {
            let made = match mkdirat(at, name, Mode::from_raw_mode(0o755)) {
                Ok(()) => true,
                Err(Errno::EXIST) => false,
                Err(e) => return Err(e),
            };
            Ok((open_folder(at, name, OFlags::NOFOLLOW)?, made))
        }
        opened => Ok((opened?, false)),
    }
}

fn open_folder(at: impl AsFd, path: &Path, more: OFlags) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NONBLOCK | more;
    openat(at, path, flags, Mode::empty())
}

fn told(path: &Path, e: Errno) -> io::Error {
    let e = io::Error::from(e);
    let text = format!("cannot prepare the workspace {}: {e}", path.display());
    io::Error::new(e.kind(), text)
}

#[cfg(test)]
#[path = "homes_tests.rs"]
mod tests;
