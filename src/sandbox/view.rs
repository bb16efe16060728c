//! The `/skills` tree of one agent on the host (mechanisms.md, "The view").
//!
//! `.v/<id>@<version>/` holds each version, hard-linked from the immutable store; `<id>` is a link
//! to one of them, swapped atomically. It never replaces or removes the view itself or `custom`,
//! which are mounted into the running container, and never alters the store.
//!
//! One caller at a time per view: the owner of the agent.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    os::unix::fs::{MetadataExt, PermissionsExt, symlink},
    path::{Path, PathBuf},
};

use semver::Version;

use crate::ids::SkillId;

/// Folder of the versions inside the view.
const VERSIONS: &str = ".v";
/// Where the agent's own folder is mounted over.
const CUSTOM: &str = "custom";
/// What is being made or removed has a name that begins so.
const TEMP: &str = ".tmp-";

/// A version that shall be in the view.
#[derive(Debug, Clone, Copy)]
pub struct ViewSkill<'a> {
    /// The skill.
    pub id: &'a SkillId,
    /// Its version.
    pub version: &'a Version,
    /// The version's folder in the store.
    pub source: &'a Path,
    /// A SKILL.md for agent programs, where the skill has only a manifest; ignored where it has one.
    pub generated_skill_md: Option<&'a str>,
}

impl ViewSkill<'_> {
    fn folder(&self) -> String {
        folder_name(self.id, self.version)
    }
}

/// `<id>@<version>`: the folder below `/skills/.v` that runs are started from.
#[must_use]
pub fn folder_name(id: &SkillId, version: &Version) -> String {
    format!("{id}@{version}")
}

/// Lays every version beside those that are there, without making any of them the current one.
///
/// Makes the view, `.v` and `custom` where they are missing. A version that is laid already and
/// holds the same files stays untouched; a damaged one is replaced whole.
///
/// # Errors
/// The file system's, naming the path; a skill folder of the store that holds anything but
/// regular files and folders. What was laid until then stays and does no harm.
pub fn lay(view: &Path, skills: &[ViewSkill<'_>]) -> io::Result<()> {
    let versions = view.join(VERSIONS);
    for folder in [view, &versions, &view.join(CUSTOM)] {
        make_folder(folder)?;
    }
    sweep(&versions)?;
    for skill in skills {
        let target = versions.join(skill.folder());
        let wanted = list(skill.source)?;
        if !same(skill, &wanted, &target)? {
            lay_one(&versions, skill, &wanted, &target)?;
        }
    }
    Ok(())
}

/// Makes these versions the current ones and takes away the links of all other skills.
///
/// # Errors
/// The file system's, naming the path; something in the view that is not a link of ours. Links
/// that were swapped until then stay swapped: calling it again goes on from there.
pub fn flip(view: &Path, skills: &[ViewSkill<'_>]) -> io::Result<()> {
    let versions = view.join(VERSIONS);
    let mut current = BTreeSet::new();
    for skill in skills {
        let link = view.join(skill.id.as_str());
        let target = Path::new(VERSIONS).join(skill.folder());
        if fs::read_link(&link).ok().as_deref() != Some(&target) {
            let laid = view.join(&target);
            fs::metadata(&laid).map_err(|e| told("link to what is not laid,", &laid, &e))?;
            let temp = versions.join(format!("{TEMP}{}", skill.id));
            remove_if_there(&temp)?;
            symlink(&target, &temp).map_err(|e| told("make the link", &temp, &e))?;
            fs::rename(&temp, &link).map_err(|e| told("swap the link", &link, &e))?;
        }
        current.insert(skill.id.as_str());
    }
    for (name, path) in entries(view)? {
        if !current.contains(name.as_str()) && is_link(&path)? {
            fs::remove_file(&path).map_err(|e| told("remove the link", &path, &e))?;
        }
    }
    Ok(())
}

/// Removes the versions that are neither current nor among `in_use` (those that runs started from).
///
/// # Errors
/// The file system's, naming the path.
pub fn collect(view: &Path, in_use: &[(SkillId, Version)]) -> io::Result<()> {
    let versions = view.join(VERSIONS);
    if !versions.exists() {
        return Ok(());
    }
    sweep(&versions)?;
    let mut keep: BTreeSet<String> = in_use.iter().map(|(i, v)| folder_name(i, v)).collect();
    for (_, path) in entries(view)? {
        if let Ok(target) = fs::read_link(&path)
            && let Some(name) = target.file_name()
        {
            keep.insert(name.to_string_lossy().into_owned());
        }
    }
    for (name, path) in entries(&versions)? {
        if !keep.contains(&name) {
            // Half removed, it must not look like a whole version.
            let temp = versions.join(format!("{TEMP}{name}"));
            fs::rename(&path, &temp).map_err(|e| told("put aside", &path, &e))?;
            remove_if_there(&temp)?;
        }
    }
    Ok(())
}

/// Files (with what is known of them) and folders of a tree, by relative path, parents first.
type Listing = BTreeMap<PathBuf, Option<fs::Metadata>>;

fn list(root: &Path) -> io::Result<Listing> {
    let mut found = Listing::new();
    for entry in walkdir::WalkDir::new(root).min_depth(1) {
        let entry = entry.map_err(|e| told("read", root, &e.into()))?;
        let path = entry.path();
        let meta = entry.metadata().map_err(|e| told("read", path, &e.into()))?;
        let kind = meta.file_type();
        if !kind.is_dir() && !kind.is_file() {
            let e = io::Error::other("only regular files and folders belong into the store");
            return Err(told("lay", path, &e));
        }
        let relative = path.strip_prefix(root).map_err(io::Error::other)?;
        found.insert(relative.to_owned(), kind.is_file().then_some(meta));
    }
    Ok(found)
}

/// Whether `target` is there and holds what `skill` should look like.
fn same(skill: &ViewSkill<'_>, wanted: &Listing, target: &Path) -> io::Result<bool> {
    if !target.exists() {
        return Ok(false);
    }
    let mut laid = list(target)?;
    if let Some(text) = generated(skill, wanted) {
        let is_there = laid.remove(Path::new(SKILL_MD)).flatten().is_some();
        if !is_there || fs::read_to_string(target.join(SKILL_MD)).ok().as_deref() != Some(text) {
            return Ok(false);
        }
    }
    let alike = |a: &Option<fs::Metadata>, b: &Option<fs::Metadata>| match (a, b) {
        (None, None) => true,
        (Some(a), Some(b)) => (a.dev(), a.ino()) == (b.dev(), b.ino()) || copy_of(a) == copy_of(b),
        _ => false,
    };
    Ok(laid.len() == wanted.len() && laid.iter().zip(wanted).all(|((a, x), (b, y))| a == b && alike(x, y)))
}

/// What a copy has in common with its source.
fn copy_of(meta: &fs::Metadata) -> (u64, u32, i64, i64) {
    (meta.len(), meta.mode(), meta.mtime(), meta.mtime_nsec())
}

const SKILL_MD: &str = "SKILL.md";

fn generated<'s>(skill: &ViewSkill<'s>, wanted: &Listing) -> Option<&'s str> {
    skill.generated_skill_md.filter(|_| !wanted.contains_key(Path::new(SKILL_MD)))
}

/// Builds the version under a temporary name and renames it when it is whole.
fn lay_one(versions: &Path, skill: &ViewSkill<'_>, wanted: &Listing, target: &Path) -> io::Result<()> {
    let temp = versions.join(format!("{TEMP}{}", skill.folder()));
    remove_if_there(&temp)?;
    make_folder(&temp)?;
    let mut copied = false;
    for (relative, file) in wanted {
        let to = temp.join(relative);
        match file {
            None => make_folder(&to)?,
            Some(meta) => copied |= link_or_copy(&skill.source.join(relative), &to, meta)?,
        }
    }
    if let Some(text) = generated(skill, wanted) {
        let to = temp.join(SKILL_MD);
        fs::write(&to, text).map_err(|e| told("write", &to, &e))?;
        set_mode(&to, 0o444)?;
        copied = true;
    }
    if copied {
        // Links need no sync: their content is the store's, which is durable already.
        let folder = fs::File::open(&temp).map_err(|e| told("open", &temp, &e))?;
        rustix::fs::syncfs(&folder).map_err(|e| told("sync", &temp, &e.into()))?;
    }
    if target.exists() {
        // Damaged: swap it for the whole one in a single step, so that the name always resolves.
        rustix::fs::renameat_with(
            rustix::fs::CWD,
            &temp,
            rustix::fs::CWD,
            target,
            rustix::fs::RenameFlags::EXCHANGE,
        )
        .map_err(|e| told("replace", target, &e.into()))?;
        return remove_if_there(&temp);
    }
    fs::rename(&temp, target).map_err(|e| told("rename into place", target, &e))
}

/// True when it was copied.
fn link_or_copy(from: &Path, to: &Path, meta: &fs::Metadata) -> io::Result<bool> {
    let Err(refused) = fs::hard_link(from, to) else {
        return Ok(false);
    };
    // Another file system, too many links, or a file system (or its protection) without them.
    let code = refused.raw_os_error();
    let may_copy = [libc::EXDEV, libc::EMLINK, libc::EPERM, libc::EOPNOTSUPP, libc::ENOSYS];
    if !code.is_some_and(|c| may_copy.contains(&c)) {
        return Err(told("link", from, &refused));
    }
    fs::copy(from, to).map_err(|e| told("copy", from, &e))?;
    set_mode(to, meta.mode() & 0o7777)?;
    meta.modified()
        .and_then(|time| fs::File::open(to)?.set_modified(time))
        .map_err(|e| told("set the time of", to, &e))?;
    Ok(true)
}

/// Removes what a crash left half made or half removed.
fn sweep(versions: &Path) -> io::Result<()> {
    for (name, path) in entries(versions)? {
        if name.starts_with(TEMP) {
            remove_if_there(&path)?;
        }
    }
    Ok(())
}

fn entries(folder: &Path) -> io::Result<Vec<(String, PathBuf)>> {
    let read = fs::read_dir(folder).map_err(|e| told("read", folder, &e))?;
    let mut found = Vec::new();
    for entry in read {
        let entry = entry.map_err(|e| told("read", folder, &e))?;
        found.push((entry.file_name().to_string_lossy().into_owned(), entry.path()));
    }
    Ok(found)
}

fn make_folder(path: &Path) -> io::Result<()> {
    match fs::create_dir(path) {
        // Whatever the umask: the agent's user reads it.
        Ok(()) => set_mode(path, 0o755),
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
        Err(e) => Err(told("make the folder", path, &e)),
    }
}

fn set_mode(path: &Path, mode: u32) -> io::Result<()> {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).map_err(|e| told("set the mode of", path, &e))
}

fn remove_if_there(path: &Path) -> io::Result<()> {
    let removed = match fs::symlink_metadata(path) {
        Ok(meta) if meta.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(e) => Err(e),
    };
    removed.map_err(|e| told("remove", path, &e))
}

fn is_link(path: &Path) -> io::Result<bool> {
    let meta = fs::symlink_metadata(path).map_err(|e| told("read", path, &e))?;
    Ok(meta.is_symlink())
}

fn told(action: &str, path: &Path, e: &io::Error) -> io::Error {
    io::Error::new(e.kind(), format!("the skills view: cannot {action} {}: {e}", path.display()))
}

#[cfg(test)]
#[path = "view_tests.rs"]
mod tests;
