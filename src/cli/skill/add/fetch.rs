//! Brings a source into a folder that can be looked through: its own, or one that is gone afterwards.

use std::{
    fs::File,
    io::{self, Read},
    path::{Component, Path, PathBuf},
    time::Duration,
};

use tempfile::TempDir;

use super::{
    super::super::{failure::Failure, hive::shown},
    Args,
    source::{self, Place},
};
use crate::{
    config::model::SkillLimits,
    error::Fault,
    registry::{
        archive,
        git::{self, Bounds},
        sources::{self, Scan},
        staging::Staged,
        store::Store,
    },
};

/// What an archive of many skills may hold; each skill has its own limits besides.
const ARCHIVE: SkillLimits = SkillLimits { files: 200_000, total: 1 << 30, file: 1 << 28, manifest: 1 << 28 };
/// What fetching a repository may take.
const GIT: Bounds = Bounds { time: Duration::from_secs(600), bytes: 2 << 30 };

/// A source at hand.
#[derive(Debug)]
pub(super) struct Fetched {
    /// Below it are the skills.
    pub(super) base: PathBuf,
    /// For people: path, or URL with the commit.
    pub(super) shown: String,
    /// Whether the name of `base` says something: that of a temporary folder does not.
    pub(super) named: bool,
    /// What it holds.
    pub(super) scan: Scan,
    /// What an archive held besides files, relative to `base`.
    pub(super) left_out: Vec<Fault>,
    _files: Option<(TempDir, Option<Staged>)>,
}

/// Fetches one source; `told` hears how it goes.
pub(super) async fn fetch(text: &str, args: &Args, told: &mut dyn FnMut(&str)) -> Result<Fetched, Failure> {
    let sub = args.path.as_deref();
    match source::read(text, args.reference.as_deref())? {
        Place::Folder(path) => folder(&path, sub),
        Place::Archive(path) => {
            let file = File::open(&path)
                .map_err(|e| Failure::new(format!("cannot open {}: {e}", path.display())))?;
            unpack(file, &shown(&path), sub)
        }
        Place::Stdin => unpack(io::stdin().lock(), "standard input", sub),
        Place::Git { url, reference, path } => {
            let temp = tempfile::tempdir()?;
            let into = temp.path().join("repository");
            std::fs::create_dir(&into)?;
            told(&format!("fetching {url}"));
            let commit = tokio::select! {
                commit = git::fetch(&url, reference.as_deref(), &into, GIT, told) => commit?,
                // Dropped, the fetch ends git and its folder goes.
                _ = tokio::signal::ctrl_c() => return Err(Failure { code: 130, ..Failure::new("interrupted") }),
            };
            let base = below(&into, path.as_deref().or(sub), &url.to_string())?;
            Ok(found(
                base,
                format!("{url}#{commit}"),
                sub.is_some() || path.is_some(),
                (Some(temp), None),
                Vec::new(),
            ))
        }
    }
}

fn folder(path: &Path, sub: Option<&Path>) -> Result<Fetched, Failure> {
    let base = below(path, sub, &path.display().to_string())?;
    let shown = shown(&base);
    Ok(found(base, shown, true, (None, None), Vec::new()))
}

fn unpack(reader: impl Read, shown: &str, sub: Option<&Path>) -> Result<Fetched, Failure> {
    let temp = tempfile::tempdir()?;
    let many = archive::unpack_many(reader, &Store::open(temp.path())?, &ARCHIVE).map_err(|e| {
        let failure = Failure::from(e);
        let message = failure.message.replacen("the archive", shown, 1);
        Failure { message, ..failure }
    })?;
    let base = below(many.staged.path(), sub, shown)?;
    let inside = |mut fault: Fault| {
        let inner =
            Path::new(&fault.file).strip_prefix(sub.unwrap_or(Path::new(""))).ok()?.display().to_string();
        fault.file = inner;
        Some(fault)
    };
    let left_out = many.left_out.into_iter().filter_map(inside).collect();
    Ok(found(base, shown.to_owned(), sub.is_some(), (Some(temp), Some(many.staged)), left_out))
}

fn found(
    base: PathBuf,
    shown: String,
    named: bool,
    (temp, staged): (Option<TempDir>, Option<Staged>),
    left_out: Vec<Fault>,
) -> Fetched {
    let mut scan = sources::scan(&base);
    // People know it by another name.
    for fault in &mut scan.faults {
        fault.file = fault.file.replacen(&base.display().to_string(), &shown, 1);
    }
    Fetched { base, shown, named, scan, left_out, _files: temp.map(|temp| (temp, staged)) }
}

/// The folder that `--path` names, which must be in the source itself.
fn below(base: &Path, sub: Option<&Path>, shown: &str) -> Result<PathBuf, Failure> {
    let real = |path: &Path| path.canonicalize().ok().filter(|p| p.is_dir());
    let missing = || Failure::usage(format!("there is no folder {shown}"));
    let Some(sub) = sub else { return real(base).ok_or_else(missing) };
    let inner = sub.components().all(|c| matches!(c, Component::Normal(_) | Component::CurDir));
    let base = real(base).ok_or_else(missing)?;
    real(&base.join(sub))
        .filter(|at| inner && at.starts_with(&base))
        .ok_or_else(|| Failure::usage(format!("there is no folder {} in {shown}", sub.display())))
}
