//! Makes an agent's workspace on the host.
//!
//! The folder may lie where an agent can put links in our way at any moment, so the way there is walked
//! folder by folder from open descriptors, without following a link. What is there already stays as it is.
//! Its home and the links by which agent programs find the skills are made by the init, as the agent.

use std::{
    io,
    os::fd::{AsFd, OwnedFd},
    path::Path,
};

use rustix::{
    fs::{CWD, Mode, OFlags, mkdirat, openat},
    io::Errno,
};

/// A user and group by number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Owner {
    /// User.
    pub uid: u32,
    /// Group.
    pub gid: u32,
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
#[path = "workspace_tests.rs"]
mod tests;
