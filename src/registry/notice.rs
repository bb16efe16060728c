//! Lays a notice for an agent into a folder that it can write, and takes it away again.
//!
//! Opened beneath the agent's folder without following any link, made under a name that is not there yet, and
//! renamed: whatever the agent puts in the way is replaced or left, never written through. Reads nothing.

use std::{
    ffi::OsStr,
    fs::File,
    io::{self, Write},
    os::fd::OwnedFd,
    path::Path,
};

use rustix::{
    fs::{AtFlags, CWD, Dir, Gid, Mode, OFlags, Uid, fchmod, fchown, openat, openat2, renameat, unlinkat},
    io::Errno,
};

use super::{beneath::strict, safe_copy::Origin};

/// The notice's name.
pub const NAME: &str = ".skep-errors.md";
/// Bytes of a notice.
const MAX: usize = 64 << 10;

/// Lays `text` as `.skep-errors.md` into the folder `inner` (`.` for itself) below `custom`, belonging to `owner`.
///
/// # Errors
/// Of the file system: no such folder, a link in the way, a disk that is full. Nothing half written stays.
pub fn lay(custom: &Path, inner: &str, text: &str, owner: Option<(u32, u32)>) -> io::Result<()> {
    let (root, folder) = open(custom, inner)?;
    let mut random = [0; 8];
    getrandom::fill(&mut random).map_err(io::Error::other)?;
    // Beside the skills: what is in their folders belongs to them.
    let temp = format!(".skep-{}.tmp", hex::encode(random));
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut file = File::from(openat(&root, temp.as_str(), flags, Mode::from_raw_mode(0o600))?);
    let written =
        fill(&mut file, text, owner).and_then(|()| Ok(renameat(&root, temp.as_str(), &folder, NAME)?));
    if written.is_err() {
        // The agent may have taken it.
        unlinkat(&root, temp.as_str(), AtFlags::empty()).unwrap_or_default();
    }
    written
}

fn fill(file: &mut File, text: &str, owner: Option<(u32, u32)>) -> io::Result<()> {
    let end = text.floor_char_boundary(MAX);
    file.write_all(&text.as_bytes()[..end])?;
    fchmod(&*file, Mode::from_raw_mode(0o644))?;
    if let Some((uid, gid)) = owner {
        fchown(&*file, Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)))?;
    }
    Ok(())
}

/// Takes the notice away; none is fine.
///
/// # Errors
/// Of the file system.
pub fn take_away(custom: &Path, inner: &str) -> io::Result<()> {
    let (_, folder) = match open(custom, inner) {
        Ok(opened) => opened,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(e) => return Err(e),
    };
    match unlinkat(folder, NAME, AtFlags::empty()) {
        // A folder of that name is the agent's own.
        Ok(()) | Err(Errno::NOENT | Errno::ISDIR | Errno::PERM) => Ok(()),
        Err(e) => Err(e.into()),
    }
}

/// Removes what a supervisor that was killed left half written.
///
/// # Errors
/// Of the file system.
pub fn sweep(custom: &Path) -> io::Result<()> {
    let (root, _) = open(custom, ".")?;
    let mut dir = Dir::read_from(&root)?;
    while let Some(entry) = dir.read() {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name.starts_with(b".skep-") && name.ends_with(b".tmp") {
            unlinkat(&root, entry.file_name(), AtFlags::empty()).or_else(|e| match e {
                Errno::NOENT | Errno::ISDIR | Errno::PERM => Ok(()),
                e => Err(e),
            })?;
        }
    }
    Ok(())
}

/// Whether a notice is there.
#[must_use]
pub fn is_there(custom: &Path, inner: &str) -> bool {
    open(custom, inner)
        .is_ok_and(|(_, folder)| rustix::fs::statat(folder, NAME, AtFlags::SYMLINK_NOFOLLOW).is_ok())
}

fn open(custom: &Path, inner: &str) -> io::Result<(OwnedFd, OwnedFd)> {
    let folder = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let root = openat(CWD, custom, folder, Mode::empty())?;
    let inner = openat2(&root, OsStr::new(inner), folder, Mode::empty(), strict(Origin::Agent))?;
    Ok((root, inner))
}

#[cfg(test)]
mod tests {
    use std::{
        fs,
        os::unix::fs::{PermissionsExt, symlink},
    };

    use super::*;

    #[test]
    fn a_notice_is_laid_replaced_and_taken_away() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("x")).unwrap();
        lay(dir.path(), "x", "one", None).unwrap();
        lay(dir.path(), "x", "two", None).unwrap();
        let at = dir.path().join("x").join(NAME);
        assert_eq!(fs::read_to_string(&at).unwrap(), "two");
        assert_eq!(fs::metadata(&at).unwrap().permissions().mode() & 0o777, 0o644);
        assert!(is_there(dir.path(), "x"));
        take_away(dir.path(), "x").unwrap();
        take_away(dir.path(), "x").unwrap();
        take_away(dir.path(), "never-there").unwrap();
        assert!(!at.exists() && !is_there(dir.path(), "x"));
        fs::write(dir.path().join(".skep-0123.tmp"), "half").unwrap();
        sweep(dir.path()).unwrap();
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "nothing of ours stays");
    }

    #[test]
    fn links_that_the_agent_planted_are_replaced_or_refused_and_never_written_through() {
        let dir = tempfile::tempdir().unwrap();
        let outside = tempfile::tempdir().unwrap();
        let secret = outside.path().join("secret");
        fs::write(&secret, "keep").unwrap();
        let custom = dir.path();
        fs::create_dir(custom.join("x")).unwrap();
        symlink(&secret, custom.join("x").join(NAME)).unwrap();
        lay(custom, "x", "told", None).unwrap();
        assert!(fs::symlink_metadata(custom.join("x").join(NAME)).unwrap().is_file());
        fs::remove_file(custom.join("x").join(NAME)).unwrap();
        symlink(&secret, custom.join("x").join(NAME)).unwrap();
        take_away(custom, "x").unwrap();

        symlink(outside.path(), custom.join("link")).unwrap();
        assert!(lay(custom, "link", "told", None).is_err());
        assert!(take_away(custom, "link").is_err());
        assert!(lay(custom, "../x", "told", None).is_err());

        // A folder, or a hard link, in the notice's place.
        fs::create_dir_all(custom.join("y").join(NAME).join("full")).unwrap();
        assert!(lay(custom, "y", "told", None).is_err());
        take_away(custom, "y").unwrap();
        fs::create_dir(custom.join("z")).unwrap();
        fs::hard_link(&secret, custom.join("z").join(NAME)).unwrap();
        lay(custom, "z", "told", None).unwrap();

        assert_eq!(fs::read_to_string(&secret).unwrap(), "keep");
        assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 1);
        let left = fs::read_dir(custom).unwrap().flatten();
        assert!(left.into_iter().all(|e| !e.file_name().to_string_lossy().starts_with(".skep-")));
    }
}
