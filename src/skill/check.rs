//! Checks of a skill against its listing (systems.md D2, contract.md 2): every fault is reported, with
//! the messages that the reference documents print.
//!
//! Looks at the listing only; links and special files were refused by whoever made it.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    digest::excluded,
    fields::shown,
    skill_md::folder_parts,
    source::{Limits, MANIFEST, SKILL_MD, Source},
};
use crate::{error::Fault, ids::SkillId};

/// Extensions that are run by an interpreter which every agent image has.
pub const SCRIPT_EXTENSIONS: [&str; 7] = ["ts", "js", "mjs", "cjs", "py", "sh", "bash"];

/// What is wrong with an id, in the printed words; None when nothing is.
pub(super) fn id_fault(file: &str, id: &str) -> Option<Fault> {
    if id.parse::<SkillId>().is_ok() {
        return None;
    }
    let length = id.chars().count();
    let slug = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    let message = if id == "custom" {
        "Invalid id: \"custom\" is reserved".to_owned()
    } else if id.bytes().all(slug) && length > 64 {
        format!("Invalid id: {length} characters, at most 64")
    } else {
        "Invalid id format (lowercase, numbers, hyphens only)".to_owned()
    };
    let short: String = id.chars().take(80).collect();
    Some(Fault::new(file, message).help(format!("it is {:?}", shown(&short))))
}

/// A manifest's folder is `id` or `id@version`.
pub(super) fn folder_fault(folder: &str, id: &str, version: Option<&str>) -> Option<Fault> {
    let (folder_id, folder_version) = folder_parts(folder);
    if folder_id != id {
        return Some(
            Fault::new(
                MANIFEST,
                format!("The folder is named {:?}, the id is {:?}", shown(folder), shown(id)),
            )
            .help("name the folder `id` or `id@version`"),
        );
    }
    match (folder_version, version) {
        (Some(f), Some(v)) if f != v => Some(
            Fault::new(
                MANIFEST,
                format!("The folder is named {:?}, the version is {:?}", shown(folder), shown(v)),
            )
            .help("name the folder `id` or `id@version`"),
        ),
        _ => None,
    }
}

/// Why a listed path cannot be used, if it cannot.
fn path_fault(path: &str) -> Option<&'static str> {
    if path.is_empty() {
        Some("is empty")
    } else if path.contains('\0') {
        Some("holds a NUL")
    } else if path.contains('\\') {
        Some("holds a backslash; write `/`")
    } else if path.starts_with('/') || path.as_bytes().get(1) == Some(&b':') {
        Some("is absolute")
    } else if path.split('/').any(|part| part == "..") {
        Some("leaves the folder")
    } else if path.split('/').any(|part| part.is_empty() || part == ".") {
        Some("has an empty part")
    } else {
        None
    }
}

/// Checks the listed files of one kind (`Context file` or `Script`) and gives them without a leading
/// `./` and without repetitions.
pub(super) fn listed(
    kind: &str,
    paths: &[String],
    source: &Source,
    errors: &mut Vec<Fault>,
    warnings: &mut Vec<Fault>,
) -> Vec<String> {
    let mut seen = BTreeSet::new();
    let mut out = Vec::new();
    for written in paths {
        let path = written.strip_prefix("./").unwrap_or(written);
        if let Some(reason) = path_fault(path) {
            errors.push(Fault::new(MANIFEST, format!("{kind} path {:?} {reason}", shown(written))));
        } else if excluded(path) || !source.files.contains_key(path) {
            errors.push(Fault::new(MANIFEST, format!("{kind} not found: {}", shown(written))));
        } else if !seen.insert(path) {
            warnings.push(Fault::new(MANIFEST, format!("{kind} is listed twice: {}", shown(written))));
            continue;
        }
        out.push(path.to_owned());
    }
    out
}

/// Whether the container can run a file: it is executable, begins with `#!`, or has a known extension.
#[must_use]
pub fn runnable(source: &Source, path: &str) -> bool {
    let known = path
        .rsplit('/')
        .next()
        .and_then(|name| name.rsplit_once('.'))
        .is_some_and(|(stem, ext)| !stem.is_empty() && SCRIPT_EXTENSIONS.contains(&ext));
    known || source.files.get(path).is_some_and(|info| info.executable || info.head.starts_with(b"#!"))
}

/// Scripts that nothing can run.
pub(super) fn scripts(paths: &[String], source: &Source, errors: &mut Vec<Fault>) {
    for path in paths {
        if source.files.contains_key(path) && !runnable(source, path) {
            errors.push(Fault::new(MANIFEST, format!("Script is not executable: {}", shown(path))).help(
                "make it executable, begin it with `#!`, or name it .ts .js .mjs .cjs .py .sh or .bash",
            ));
        }
    }
}

/// Count and sizes (contract.md 2).
pub(super) fn limits(source: &Source, limits: Limits, errors: &mut Vec<Fault>) {
    let files = || source.files.iter().filter(|(path, _)| !excluded(path));
    let count = files().count();
    if count > limits.files {
        errors.push(Fault::new(".", format!("Too many files: {count}, at most {}", limits.files)));
    }
    let total: u64 = files().fold(0, |sum, (_, info)| sum.saturating_add(info.size));
    if total > limits.bytes {
        errors.push(Fault::new(".", format!("Too large: {total} bytes, at most {}", limits.bytes)));
    }
    for (path, info) in files() {
        let declares = matches!(path.as_str(), MANIFEST | SKILL_MD);
        let most = if declares { limits.manifest.min(limits.file) } else { limits.file };
        if info.size > most {
            let path = shown(path);
            errors.push(Fault::new(
                path.clone(),
                format!("File too large: {path}, {} bytes, at most {most}", info.size),
            ));
        }
    }
}

/// Names that do not survive every file system, and names that hide something.
pub(super) fn names(source: &Source, warnings: &mut Vec<Fault>) {
    let mut folded: BTreeMap<String, &str> = BTreeMap::new();
    for path in source.files.keys() {
        let printable = shown(path);
        if let Some(other) = folded.insert(path.to_lowercase(), path) {
            warnings.push(Fault::new(
                printable.clone(),
                format!("Differs from {} only in case; elsewhere they are one file", shown(other)),
            ));
        }
        if path.split('/').any(reserved_on_windows) {
            warnings.push(Fault::new(printable.clone(), "The name is reserved on Windows"));
        }
        if printable != *path {
            warnings.push(Fault::new(printable, "The name holds control or invisible characters"));
        }
    }
}

fn reserved_on_windows(part: &str) -> bool {
    let stem = part.split('.').next().unwrap_or_default().trim_end().to_ascii_uppercase();
    matches!(stem.as_str(), "CON" | "PRN" | "AUX" | "NUL")
        || (stem.len() == 4
            && (stem.starts_with("COM") || stem.starts_with("LPT"))
            && stem.ends_with(|c: char| ('1'..='9').contains(&c)))
}
