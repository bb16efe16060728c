//! Files that come with mail: taken out of the sender's workspace, kept by the hash of their content, laid into the
//! recipient's. Both workspaces may be made to deceive: names are opened beneath them without following a link, and
//! only plain files with no second name are taken. Blocks.

use std::{
    fs::{self, File},
    io::{self, Read, Write},
    os::{fd::OwnedFd, unix::fs::MetadataExt},
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use rustix::{
    fs::{AtFlags, CWD, Gid, Mode, OFlags, ResolveFlags, Uid, mkdirat, openat, renameat, unlinkat},
    io::Errno,
};
use sha2::{Digest as _, Sha256};

use crate::{
    app::hive::Hive,
    config::model::Workspace,
    ids::AgentId,
    mail::{
        Attachment,
        draft::{MAX_FILE, MAX_FILES_SIZE, file_name, in_workspace},
        letter,
    },
    registry::beneath::{beneath, look, reopen},
};

/// A kept file that no message has is removed when it is so old: one that was just taken may not have one yet.
const STRAY: Duration = Duration::from_secs(24 * 3600);

/// Where an agent's workspace is on the host; none: in memory, or there is no such agent.
pub(super) fn workspace(hive: &Hive, agent: &AgentId) -> Option<PathBuf> {
    match &hive.world().config.agents.get(agent)?.workspace {
        Workspace::Named => Some(hive.paths.agent(agent).workspace()),
        Workspace::Path(path) => Some(hive.paths.resolve(path)),
        Workspace::Tmpfs => None,
    }
}

fn strict() -> ResolveFlags {
    ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS | ResolveFlags::NO_XDEV
}

/// Takes files out of a workspace into the folder `kept`.
///
/// # Errors
/// Which of them cannot be taken, and why.
pub(super) fn take(
    workspace: &Path,
    paths: &[String],
    kept: &Path,
) -> Result<Vec<Attachment>, Vec<(String, String)>> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let failed = |why: String| vec![("/attachments".to_owned(), why)];
    let root = openat(CWD, workspace, flags, Mode::empty())
        .map_err(|e| failed(format!("the workspace cannot be read: {e}")))?;
    let (mut taken, mut faults, mut total) = (Vec::<Attachment>::new(), Vec::new(), 0);
    for (n, path) in paths.iter().enumerate() {
        match take_one(&root, path, kept) {
            Ok(file) if taken.iter().any(|other| other.name == file.name) => {
                let why = format!("two files are named {:?}: give one another name", file.name);
                faults.push((format!("/attachments/{n}"), why));
            }
            Ok(file) => {
                total += file.size;
                taken.push(file);
            }
            Err(why) => faults.push((format!("/attachments/{n}"), format!("{path:?} {why}"))),
        }
    }
    if total > MAX_FILES_SIZE {
        let most = MAX_FILES_SIZE >> 20;
        faults.push(("/attachments".into(), format!("the files have {total} bytes; at most {most} MiB")));
    }
    if faults.is_empty() { Ok(taken) } else { Err(faults) }
}

fn take_one(root: &OwnedFd, path: &str, kept: &Path) -> Result<Attachment, String> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let looked_at = beneath(root, in_workspace(path)?, flags, strict()).map_err(why)?;
    let looked_at = File::from(looked_at);
    let meta = look(&looked_at).map_err(why)?;
    if !meta.is_file() {
        return Err("is not a regular file; links, folders, pipes and devices are not sent".into());
    }
    if meta.nlink() != 1 {
        return Err("has a second name elsewhere (a hard link): attach a copy".into());
    }
    if meta.len() > MAX_FILE {
        return Err(format!("has {} bytes; at most {} MiB", meta.len(), MAX_FILE >> 20));
    }
    let opened: File = reopen(&looked_at, OFlags::empty()).map_err(why)?.into();
    let mut bytes = Vec::new();
    opened.take(MAX_FILE + 1).read_to_end(&mut bytes).map_err(|e| format!("cannot be read: {e}"))?;
    if bytes.len() as u64 > MAX_FILE {
        return Err(format!("grew beyond {} MiB while it was read", MAX_FILE >> 20));
    }
    let digest = hex::encode(Sha256::digest(&bytes));
    keep(kept, &digest, &bytes).map_err(|e| format!("cannot be kept: {e}"))?;
    let name = file_name(path)?.to_owned();
    Ok(Attachment { name, size: bytes.len() as u64, digest })
}

fn why(e: Errno) -> String {
    match e {
        Errno::NOENT | Errno::NOTDIR => "does not exist in the workspace".into(),
        Errno::LOOP => "is, or goes through, a symbolic link; attach the file itself".into(),
        Errno::XDEV => "leads out of the workspace".into(),
        Errno::NAMETOOLONG => "is too long a path".into(),
        Errno::ACCESS => "may not be read".into(),
        e => format!("cannot be read: {}", io::Error::from(e)),
    }
}

/// Written anew also when it is there, so that it is young.
fn keep(kept: &Path, digest: &str, bytes: &[u8]) -> io::Result<()> {
    fs::create_dir_all(kept)?;
    let mut file = tempfile::NamedTempFile::new_in(kept)?;
    file.write_all(bytes)?;
    file.as_file().sync_data()?;
    file.persist(kept.join(digest))?;
    Ok(())
}

/// Lays the files of a message into a workspace, for `owner` (user and group).
///
/// # Errors
/// `NotFound`: the workspace is not there yet; others: something is in the way.
pub(super) fn lay(
    workspace: &Path,
    id: i64,
    files: &[Attachment],
    kept: &Path,
    owner: (u32, u32),
) -> io::Result<()> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut folder = openat(CWD, workspace, flags, Mode::empty())?;
    for part in letter::folder(id).split('/') {
        match mkdirat(&folder, part, Mode::from_raw_mode(0o755)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(e) => return Err(blocked(e)),
        }
        folder = beneath(&folder, part, flags | OFlags::NOFOLLOW, strict()).map_err(blocked)?;
        give(&folder, owner)?;
    }
    for (n, file) in files.iter().enumerate() {
        let part = format!(".part-{n}");
        let gone = unlinkat(&folder, &part, AtFlags::empty());
        if let Err(e) = gone
            && e != Errno::NOENT
        {
            return Err(blocked(e));
        }
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let to = openat(&folder, &part, flags, Mode::from_raw_mode(0o644)).map_err(blocked)?;
        give(&to, owner)?;
        io::copy(&mut File::open(kept.join(&file.digest))?, &mut File::from(to))?;
        renameat(&folder, &part, &folder, &file.name).map_err(blocked)?;
    }
    Ok(())
}

/// Not to be taken for a workspace that is not there.
fn blocked(e: Errno) -> io::Error {
    io::Error::other(io::Error::from(e))
}

/// Gives away what is still ours: what was put into its place is not.
fn give(what: &OwnedFd, (uid, gid): (u32, u32)) -> io::Result<()> {
    let own = rustix::process::geteuid().as_raw();
    if uid != own && rustix::fs::fstat(what)?.st_uid == own {
        rustix::fs::fchown(what, Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)))?;
    }
    Ok(())
}

/// Removes kept files that no message has.
pub(super) fn sweep(kept: &Path, used: &std::collections::BTreeSet<String>) -> io::Result<()> {
    let entries = match fs::read_dir(kept) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        let young = |at: SystemTime| at.elapsed().is_ok_and(|age| age < STRAY);
        let named = entry.file_name().to_string_lossy().into_owned();
        if !used.contains(&named) && !young(entry.metadata()?.modified()?) {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn own() -> (u32, u32) {
        (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw())
    }

    #[test]
    fn a_file_goes_from_one_workspace_to_another() {
        let (from, kept, to) =
            (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::create_dir(from.path().join("out")).unwrap();
        fs::write(from.path().join("out/a.txt"), "content").unwrap();
        let files = take(from.path(), &["/workspace/out/a.txt".to_owned()], kept.path()).unwrap();
        assert_eq!((files[0].name.as_str(), files[0].size), ("a.txt", 7));
        for _ in 0..2 {
            lay(to.path(), 5, &files, kept.path(), own()).unwrap();
        }
        assert_eq!(fs::read_to_string(to.path().join(".skep/mail/5/a.txt")).unwrap(), "content");
        sweep(kept.path(), &std::collections::BTreeSet::new()).unwrap();
        assert!(kept.path().join(&files[0].digest).exists(), "it may belong to a message that comes");
        let gone = lay(&to.path().join("none"), 5, &files, kept.path(), own()).unwrap_err();
        assert_eq!(gone.kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn nothing_but_plain_files_of_the_workspace_is_taken() {
        let (outer, kept) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let inner = outer.path().join("workspace");
        fs::create_dir_all(inner.join("folder")).unwrap();
        fs::write(outer.path().join("secret"), "s").unwrap();
        fs::write(inner.join("big"), vec![0; 10 << 20]).unwrap();
        File::options().append(true).open(inner.join("big")).unwrap().write_all(b"x").unwrap();
        symlink("../secret", inner.join("link")).unwrap();
        symlink("..", inner.join("up")).unwrap();
        fs::hard_link(outer.path().join("secret"), inner.join("hard")).unwrap();
        assert!(std::process::Command::new("mkfifo").arg(inner.join("fifo")).status().unwrap().success());
        for path in ["link", "up/secret", "hard", "fifo", "folder", "big", "none", "../secret", "/etc/passwd"]
        {
            let refused = take(&inner, &[path.to_owned()], kept.path()).unwrap_err();
            assert_eq!(refused[0].0, "/attachments/0", "{path}");
        }
        assert_eq!(fs::read_dir(kept.path()).unwrap().count(), 0);
    }

    #[test]
    fn files_are_not_laid_through_a_link() {
        let (kept, to, other) =
            (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        keep(kept.path(), "d", b"content").unwrap();
        let files = [Attachment { name: "a".into(), size: 7, digest: "d".into() }];
        symlink(other.path(), to.path().join(".skep")).unwrap();
        assert_ne!(
            lay(to.path(), 1, &files, kept.path(), own()).unwrap_err().kind(),
            io::ErrorKind::NotFound
        );
        fs::remove_file(to.path().join(".skep")).unwrap();
        fs::create_dir_all(to.path().join(".skep/mail/1")).unwrap();
        fs::write(other.path().join("kept"), "theirs").unwrap();
        symlink(other.path().join("kept"), to.path().join(".skep/mail/1/a")).unwrap();
        lay(to.path(), 1, &files, kept.path(), own()).unwrap();
        assert_eq!(fs::read_to_string(other.path().join("kept")).unwrap(), "theirs");
        assert_eq!(fs::read_to_string(to.path().join(".skep/mail/1/a")).unwrap(), "content");
    }
}
