//! Judges an archive by what its entries say of themselves: names, kinds, sizes.
//!
//! Pure; reads no content. Every fault is told, so that an archive is mended in one go.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    super::names::{check_path, escape},
    WHOLE,
};
use crate::{
    config::model::SkillLimits,
    error::Fault,
    skill::{
        digest::excluded,
        source::{MANIFEST, SKILL_MD},
    },
};

/// Faults that one answer names; further ones are counted.
const MAX_FAULTS: usize = 50;

/// One entry as the archive states it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    /// Its name, raw.
    pub(super) name: Vec<u8>,
    /// What it is.
    pub(super) what: What,
}

/// What an entry is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum What {
    /// A regular file.
    File {
        /// Bytes, as stated.
        size: u64,
        /// Whether its owner may execute it.
        executable: bool,
    },
    /// A folder.
    Folder,
    /// What no skill can hold, and why.
    Refused(&'static str),
}

/// What is to be laid.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Judged {
    /// Paths of the files, by the number of their entry.
    pub(super) files: BTreeMap<usize, String>,
    /// Entries that are left out of an archive of many skills.
    pub(super) left_out: Vec<Fault>,
}

/// Why nothing is laid.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Refusal {
    /// What is wrong, at most 50.
    pub(super) faults: Vec<Fault>,
    /// How many more there are.
    pub(super) more: usize,
    /// Whether a file is larger than one may be.
    pub(super) too_large: bool,
}

impl Refusal {
    fn add(&mut self, path: &[u8], message: impl Into<String>) {
        if self.faults.len() < MAX_FAULTS {
            let path = if path.is_empty() { WHOLE.as_bytes() } else { path };
            self.faults.push(Fault::new(escape(path), message));
        } else {
            self.more += 1;
        }
    }
}

/// Decides about every entry. With `many`, the archive may hold more than one skill, and what is no
/// file is left out rather than refused: a skill may not need it.
pub(super) fn judge(entries: &[Entry], limits: &SkillLimits, many: bool) -> Result<Judged, Refusal> {
    let mut refusal = Refusal::default();
    let mut files: BTreeMap<&str, usize> = BTreeMap::new();
    let mut folders = BTreeSet::new();
    let mut others = Vec::new();
    for (index, entry) in entries.iter().enumerate() {
        let path = match path(entry) {
            Ok(Some(path)) => path,
            Ok(None) => continue,
            Err(rule) => {
                refusal.add(&entry.name, rule);
                continue;
            }
        };
        match entry.what {
            What::Folder => {
                folders.insert(path);
            }
            What::Refused(rule) if many => others.push((path, rule)),
            What::Refused(rule) => refusal.add(path.as_bytes(), rule),
            What::File { .. } => {
                if files.insert(path, index).is_some() {
                    refusal.add(path.as_bytes(), "is there twice");
                }
            }
        }
    }
    files_and_folders(&files, &folders, &mut refusal);
    if files.is_empty() {
        // Nothing is left: what was left out is the reason.
        others.drain(..).for_each(|(path, rule)| refusal.add(path.as_bytes(), rule));
    }
    let below = |folder: &str| {
        let inside = format!("{folder}/");
        files.range(inside.as_str()..).next().is_some_and(|(path, _)| path.starts_with(&inside))
    };
    let double =
        |path: &str| apple_double(path).is_some_and(|of| files.contains_key(of.as_str()) || below(&of));
    let kept: BTreeMap<&str, usize> =
        files.iter().filter(|(p, _)| !double(p)).map(|(p, i)| (*p, *i)).collect();
    let top = top(&kept);
    if top.is_none() && !many {
        second_root(&kept, &mut refusal);
    }
    // What is left out may stand beside the top.
    let inner = |path: &str| {
        let below = top.and_then(|top| path.strip_prefix(top)?.strip_prefix('/'));
        below.unwrap_or(path).to_owned()
    };
    let judged = Judged {
        files: kept.into_iter().map(|(p, i)| (i, inner(p))).filter(|(_, p)| !excluded(p)).collect(),
        left_out: others.into_iter().map(|(p, rule)| Fault::new(inner(p), rule)).collect(),
    };
    sizes(&judged, entries, limits, &mut refusal);
    if refusal.faults.is_empty() { Ok(judged) } else { Err(refusal) }
}

/// The entry's path; none for the archive's top itself and for what tools leave behind.
fn path(entry: &Entry) -> Result<Option<&str>, &'static str> {
    let mut name = entry.name.as_slice();
    while let Some(rest) = name.strip_prefix(b"./") {
        name = rest;
    }
    if entry.what == What::Folder {
        while let Some(rest) = name.strip_suffix(b"/") {
            name = rest;
        }
        if (name.is_empty() && entry.name.first() != Some(&b'/') && !entry.name.is_empty()) || name == b"." {
            return Ok(None);
        }
    }
    if name.starts_with(b"/") {
        return Err("the name is absolute");
    }
    if name == b"__MACOSX" || name.starts_with(b"__MACOSX/") {
        return Ok(None);
    }
    let name = std::str::from_utf8(name).map_err(|_| "the name is not UTF-8")?;
    check_path(name).map(|()| Some(name))
}

/// No path may be a file and a folder at once.
fn files_and_folders(files: &BTreeMap<&str, usize>, folders: &BTreeSet<&str>, refusal: &mut Refusal) {
    let mut told = BTreeSet::new();
    for path in files.keys().chain(folders) {
        let above = path.match_indices('/').map(|(at, _)| &path[..at]);
        let own = folders.contains(path).then_some(*path);
        for folder in above.chain(own) {
            if files.contains_key(folder) && told.insert(folder) {
                refusal.add(folder.as_bytes(), "is a file and a folder at once");
            }
        }
    }
}

/// `a/b` for `a/._b`, where macOS puts what other systems do not keep with a file.
fn apple_double(path: &str) -> Option<String> {
    let (folder, name) = path.rsplit_once('/').map_or(("", path), |(f, n)| (f, n));
    let of = name.strip_prefix("._")?;
    Some(if folder.is_empty() { of.to_owned() } else { format!("{folder}/{of}") })
}

fn declares(path: &str) -> bool {
    matches!(path, MANIFEST | SKILL_MD)
}

/// The one folder in which everything stands, as `git archive` writes it.
fn top<'a>(files: &BTreeMap<&'a str, usize>) -> Option<&'a str> {
    let top = files.keys().next()?.split_once('/')?.0;
    files.keys().all(|path| path.split_once('/').is_some_and(|(first, _)| first == top)).then_some(top)
}

/// Names what stands beside the folder of a skill.
fn second_root(files: &BTreeMap<&str, usize>, refusal: &mut Refusal) {
    if files.keys().any(|path| declares(path)) {
        return;
    }
    let skill = files.keys().find_map(|path| path.split_once('/').filter(|(_, rest)| declares(rest)));
    let Some((skill, _)) = skill else { return };
    let beside = files.keys().find(|path| path.split_once('/').is_none_or(|(first, _)| first != skill));
    if let Some(beside) = beside {
        refusal.add(
            beside.as_bytes(),
            format!(
                "stands beside the folder {}: such an archive holds one skill, at its top or in one folder",
                escape(skill.as_bytes())
            ),
        );
    }
}

/// Count and sizes, as the entries state them.
fn sizes(judged: &Judged, entries: &[Entry], limits: &SkillLimits, refusal: &mut Refusal) {
    if judged.files.is_empty() && refusal.faults.is_empty() {
        refusal.add(b"", "holds no files");
    }
    let mut total = 0u64;
    for (index, path) in &judged.files {
        let Some(Entry { what: What::File { size, .. }, .. }) = entries.get(*index) else { continue };
        total = total.saturating_add(*size);
        let (max, key) = if declares(path) {
            (limits.manifest.min(limits.file), "registry.limits.manifest")
        } else {
            (limits.file, "registry.limits.file")
        };
        if *size > max {
            refusal.too_large = true;
            refusal.add(path.as_bytes(), format!("has {size} bytes; {max} are allowed ({key})"));
        }
    }
    if judged.files.len() as u64 > limits.files {
        refusal.add(b"", format!("the skill holds more than {} files (registry.limits.files)", limits.files));
    }
    if total > limits.total {
        refusal.add(b"", format!("the skill has more than {} bytes (registry.limits.total)", limits.total));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn part() -> impl Strategy<Value = &'static str> {
        prop::sample::select(vec![
            "a",
            "b",
            "A",
            "SKILL.md",
            "manifest.json",
            "._a",
            "..",
            ".",
            "",
            ".git",
            "vars.json",
            "__MACOSX",
            "é",
            "\\",
            "\n",
        ])
    }

    fn entry() -> impl Strategy<Value = Entry> {
        let name = prop::collection::vec(part(), 1..4).prop_map(|parts| parts.join("/").into_bytes());
        let what = prop_oneof![
            4 => (0..200u64, any::<bool>()).prop_map(|(size, executable)| What::File { size, executable }),
            1 => Just(What::Folder),
            1 => Just(What::Refused("is a link")),
        ];
        (name, what).prop_map(|(name, what)| Entry { name, what })
    }

    proptest! {
        #[test]
        fn what_is_laid_are_distinct_files_within_the_limits_and_none_lies_in_another(
            entries in prop::collection::vec(entry(), 0..12),
            many in any::<bool>(),
        ) {
            let limits = SkillLimits { files: 6, total: 500, file: 150, manifest: 100 };
            let Ok(judged) = judge(&entries, &limits, many) else { return Ok(()) };
            let paths: BTreeSet<&String> = judged.files.values().collect();
            prop_assert_eq!(paths.len(), judged.files.len());
            prop_assert!(!paths.is_empty() && paths.len() <= 6);
            for path in &paths {
                prop_assert!(check_path(path).is_ok() && !excluded(path), "{}", path);
                let inside = format!("{path}/");
                prop_assert!(!paths.iter().any(|other| other.starts_with(&inside)));
            }
            let size = |index: &usize| match entries[*index].what {
                What::File { size, .. } => size,
                _ => panic!("only files are laid"),
            };
            prop_assert!(judged.files.keys().map(size).sum::<u64>() <= 500);
            prop_assert!(judged.files.keys().all(|index| size(index) <= 150));
            prop_assert!(many || entries.iter().all(|e| !matches!(e.what, What::Refused(_)) || e.name.starts_with(b"__MACOSX")
                || e.name.starts_with(b"./__MACOSX")));
        }
    }
}
