//! Finds the skills in a source folder of the operator: `<id>/`, `<id>@<version>/`, `<group>/<id>/`,
//! `<group>/<id>@<version>/`.
//!
//! A folder that holds `manifest.json` or `SKILL.md` is a skill and is not looked into further. Only
//! names are read here, no link is followed, and nothing is judged: that is done on a copy.

use std::{
    fs, io,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use super::names::{check_name, escape};
use crate::error::Fault;

/// Folders above a skill, counted from the source folder.
const MAX_GROUPS: usize = 4;
/// Folders and files that one scan looks at.
const MAX_ENTRIES: usize = 200_000;

/// A folder that says it is a skill.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// Relative to the source folder; `.` when that is itself a skill.
    pub folder: PathBuf,
    /// Names of the folders above it, joined with `/`; empty without any.
    pub group: String,
    /// The id that the folder's name states.
    pub id: String,
    /// The version that the folder's name states after `@`.
    pub version: Option<String>,
}

/// What a source folder holds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Scan {
    /// In order of their paths.
    pub candidates: Vec<Candidate>,
    /// Folders that could not be looked into, links that were not followed.
    pub faults: Vec<Fault>,
    /// Whether the source folder itself is not there.
    pub missing: bool,
}

/// Lists the skills below `source`.
#[must_use]
pub fn scan(source: &Path) -> Scan {
    let mut scan = Scan::default();
    match fs::metadata(source) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => scan.missing = true,
        Err(e) => scan.faults.push(Fault::new(shown(source), format!("cannot be looked into: {e}"))),
        Ok(_) => look(source, Path::new(""), &mut scan, &mut 0),
    }
    scan.candidates.sort_by(|a, b| a.folder.cmp(&b.folder));
    scan
}

fn shown(path: &Path) -> String {
    escape(path.as_os_str().as_bytes())
}

fn look(source: &Path, inner: &Path, scan: &mut Scan, seen: &mut usize) {
    let folder = source.join(inner);
    let mut folders = Vec::new();
    let mut is_skill = false;
    let listed = fs::read_dir(&folder).and_then(|entries| {
        for entry in entries {
            let entry = entry?;
            *seen += 1;
            if *seen > MAX_ENTRIES {
                return Err(io::Error::other(format!(
                    "more than {MAX_ENTRIES} files and folders; name a smaller source"
                )));
            }
            let (name, kind) = (entry.file_name(), entry.file_type()?);
            is_skill |= !kind.is_dir() && (name == "manifest.json" || name == "SKILL.md");
            if !kind.is_file() && !name.as_bytes().starts_with(b".") && name != "node_modules" {
                folders.push((name, kind));
            }
        }
        Ok(())
    });
    if let Err(e) = listed {
        scan.faults.push(Fault::new(shown(&folder), format!("cannot be looked into: {e}")));
        return;
    }
    if is_skill {
        scan.candidates.extend(candidate(source, inner));
        return;
    }
    for (name, kind) in folders {
        let inner = inner.join(&name);
        if let Err(rule) = check_name(name.as_bytes()) {
            scan.faults.push(Fault::new(shown(&source.join(&inner)), rule));
        } else if kind.is_symlink() && source.join(&inner).is_dir() {
            scan.faults.push(
                Fault::new(shown(&source.join(&inner)), "is a link, and links are not followed")
                    .help("put the folder there, or name its place in registry.sources"),
            );
        } else if kind.is_dir() && inner.components().count() <= MAX_GROUPS {
            look(source, &inner, scan, seen);
        }
    }
}

fn candidate(source: &Path, inner: &Path) -> Option<Candidate> {
    let named = if inner.as_os_str().is_empty() { source.canonicalize().ok()? } else { inner.to_owned() };
    let name = named.file_name()?.to_string_lossy().into_owned();
    let (id, version) = match name.split_once('@') {
        Some((id, version)) => (id.to_owned(), Some(version.to_owned())),
        None => (name, None),
    };
    let group = inner.parent().unwrap_or(Path::new("")).to_string_lossy().into_owned();
    let folder = if inner.as_os_str().is_empty() { PathBuf::from(".") } else { inner.to_owned() };
    Some(Candidate { folder, group, id, version })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(files: &[&str]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for file in files {
            let at = dir.path().join(file);
            fs::create_dir_all(at.parent().unwrap()).unwrap();
            fs::write(at, "x").unwrap();
        }
        dir
    }

    #[test]
    fn every_layout_is_found_and_no_skill_is_looked_into() {
        let dir = tree(&[
            "plain/SKILL.md",
            "plain/nested/SKILL.md",
            "versioned@1.2.0/manifest.json",
            "group/one/SKILL.md",
            "group/two@2.0.0-rc.1/manifest.json",
            "group/notes/readme.txt",
            ".git/hooks/SKILL.md",
            "node_modules/x/SKILL.md",
        ]);
        let scan = scan(dir.path());
        let found: Vec<_> = scan
            .candidates
            .iter()
            .map(|c| (c.folder.to_str().unwrap(), c.group.as_str(), c.id.as_str(), c.version.as_deref()))
            .collect();
        assert_eq!(
            found,
            [
                ("group/one", "group", "one", None),
                ("group/two@2.0.0-rc.1", "group", "two", Some("2.0.0-rc.1")),
                ("plain", "", "plain", None),
                ("versioned@1.2.0", "", "versioned", Some("1.2.0")),
            ]
        );
        assert_eq!(scan.faults, []);
    }

    #[test]
    fn a_link_to_a_folder_is_named_and_not_followed() {
        let dir = tree(&["real/SKILL.md"]);
        std::os::unix::fs::symlink(dir.path().join("real"), dir.path().join("link")).unwrap();
        std::os::unix::fs::symlink(dir.path(), dir.path().join("loop")).unwrap();
        let scan = scan(dir.path());
        assert_eq!(scan.candidates.len(), 1);
        assert_eq!(scan.faults.len(), 2);
    }

    #[test]
    fn a_source_that_is_itself_a_skill_is_one_and_a_missing_one_is_told() {
        let dir = tree(&["mine/SKILL.md"]);
        let found = scan(&dir.path().join("mine"));
        assert_eq!(found.candidates[0].folder, Path::new("."));
        assert_eq!(found.candidates[0].id, "mine");
        assert!(scan(&dir.path().join("nothing")).missing);
    }
}
