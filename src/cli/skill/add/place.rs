//! Judges one skill of a source and puts it into the hive's folder of skills.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, DirBuilder, File, Permissions},
    io,
    os::unix::fs::{DirBuilderExt, PermissionsExt},
    path::{Path, PathBuf},
};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use semver::Version;
use tempfile::TempDir;

use super::{
    super::super::{failure::Failure, hive::shown, offline},
    Args,
    fetch::Fetched,
    report::{Line, Outcome},
};
use crate::{
    config::{Config, model::SkillLimits},
    error::Fault,
    ids::{Digest, SkillId},
    paths::HivePaths,
    registry::{
        builtin, file,
        index::Owner,
        safe_copy::{CopyError, Origin, Policy, fingerprint},
        sources::{self, Candidate},
        staging::Staged,
        store::Store,
    },
    skill::{
        digest::digest,
        load,
        model::{Shape, Skill},
        source::{MANIFEST, Source},
    },
};

/// A folder of the hive that states an id.
#[derive(Debug)]
struct Standing {
    base: PathBuf,
    inner: PathBuf,
    /// What it holds, once it was read; none when it is no skill.
    read: Option<Option<(Digest, Option<Version>)>>,
}

/// A skill as it was read, and as it is laid down.
struct Found {
    /// Digest of what was read.
    read: Digest,
    /// Digest of what is laid down.
    digest: Digest,
    /// The manifest that is laid down in place of the one that was read: it states another id.
    manifest: Option<Vec<u8>>,
}

/// Takes skills into one hive.
#[derive(Debug)]
pub(super) struct Importer<'a> {
    args: &'a Args,
    limits: SkillLimits,
    /// The first source folder.
    target: PathBuf,
    standing: BTreeMap<String, Vec<Standing>>,
    owners: BTreeMap<SkillId, Owner>,
    store: Store,
    written: bool,
    _temp: TempDir,
}

impl<'a> Importer<'a> {
    pub(super) fn new(hive: &HivePaths, config: &Config, args: &'a Args) -> Result<Self, Failure> {
        let first = config.registry.sources.first().ok_or_else(|| {
            Failure::usage("the hive has no folder of skills").help("name one in `sources` of [registry]")
        })?;
        let mut standing: BTreeMap<String, Vec<Standing>> = BTreeMap::new();
        for source in &config.registry.sources {
            let base = hive.resolve(source);
            for candidate in sources::scan(&base).candidates {
                let here = Standing { base: base.clone(), inner: candidate.folder, read: None };
                standing.entry(candidate.id).or_default().push(here);
            }
        }
        // Whose the ids are, as far as it can be known without a supervisor.
        let known = file::read(&hive.registry_file()).ok().flatten();
        let mut owners: BTreeMap<SkillId, Owner> =
            known.into_iter().flat_map(|f| f.skills).map(|s| (s.id, s.owner)).collect();
        for skill in builtin::skills() {
            let id = skill.folder.split('@').next().and_then(|id| id.parse().ok());
            owners.extend(id.map(|id| (id, Owner::BuiltIn)));
        }
        let temp = tempfile::tempdir()?;
        let store = Store::open(temp.path())?;
        let (limits, target) = (config.registry.limits, hive.resolve(first));
        Ok(Self { args, limits, target, standing, owners, store, written: false, _temp: temp })
    }

    /// `--as` names one skill.
    pub(super) fn only_one(&self, found: usize) -> Result<(), Failure> {
        if self.args.id.is_some() && (found > 1 || self.args.sources.len() > 1) {
            return Err(Failure::usage(format!("--as gives one id, and there are {found} skills"))
                .help("name the folder of one with --path"));
        }
        Ok(())
    }

    /// Takes one skill in.
    ///
    /// # Errors
    /// The hive's folder cannot be written. What is wrong with the skill is in the line.
    pub(super) fn take(&mut self, from: &Fetched, candidate: &Candidate) -> Result<Line, Failure> {
        let inner = candidate.folder.display().to_string();
        let place = if inner == "." { from.shown.clone() } else { format!("{}/{inner}", from.shown) };
        // A source that was unpacked stands in a folder of ours, whose name says nothing.
        let stated = if from.named || inner != "." { &candidate.id } else { &from.shown };
        let mut line = Line::new(place, stated);
        let policy = Policy { origin: Origin::Operator, limits: self.limits };
        let mut source = match fingerprint(&from.base, &candidate.folder, &policy) {
            Ok(source) => source,
            Err(CopyError::Rejected { faults, more, .. }) => {
                line.fail(faults);
                if more > 0 {
                    line.errors.push(format!("and {more} more"));
                }
                return Ok(line);
            }
            Err(e) => return Err(e.into()),
        };
        let links = left_out(from, candidate);
        if !links.is_empty() {
            line.fail(links);
            return Ok(line);
        }
        if !from.named && inner == "." {
            source.folder = None;
        }
        let read = digest(&source);
        let mut renamed = None;
        if let Some(id) = &self.args.id {
            source.folder = Some(id.to_string());
            renamed = source.manifest.as_deref().and_then(|text| with_id(text, id));
            if let Some(text) = &renamed {
                let run = source.files.get(MANIFEST).is_some_and(|file| file.executable);
                source.add(MANIFEST, text, run);
            }
        }
        let Some(skill) = self.judge(&source, &mut line) else { return Ok(line) };
        let found = Found { read, digest: digest(&source), manifest: renamed };
        self.decide(from, candidate, &skill, &found, line)
    }

    fn judge(&self, source: &Source, line: &mut Line) -> Option<Skill> {
        let report = load::read(source, offline::limits(&self.limits));
        let errors = if self.args.strict { report.strict() } else { report.errors.clone() };
        let warnings = report.warnings.into_iter().filter(|w| !errors.contains(w)).collect();
        line.warn(warnings);
        if !errors.is_empty() {
            line.fail(errors);
            return None;
        }
        let skill = report.skill?;
        line.id = Some(skill.id.to_string());
        match self.owners.get(&skill.id) {
            None | Some(Owner::Operator) => Some(skill),
            Some(Owner::BuiltIn) => {
                line.refuse(
                    &format!("the id {} belongs to a built-in skill", skill.id),
                    "give it another id with --as",
                );
                None
            }
            Some(Owner::Agent(agent)) => {
                let message = format!("the id {} belongs to agent {agent}", skill.id);
                line.refuse(&message, "give it another id with --as");
                None
            }
        }
    }

    /// Compares with what stands in the hive, and writes what is new.
    fn decide(
        &mut self,
        from: &Fetched,
        candidate: &Candidate,
        skill: &Skill,
        found: &Found,
        mut line: Line,
    ) -> Result<Line, Failure> {
        let (version, digest) = (stated(skill), found.digest);
        line.version = version.as_ref().map(ToString::to_string);
        line.digest = Some(digest.to_string());
        let id = skill.id.to_string();
        let name = version.as_ref().map_or_else(|| id.clone(), |v| format!("{id}@{v}"));
        let limits = self.limits;
        let standing = self.standing.entry(id.clone()).or_default();
        for here in standing.iter_mut().filter(|here| here.read.is_none()) {
            here.read = Some(look(here, limits));
        }
        let read = |here: &Standing| here.read.clone().flatten();
        if let Some(same) = standing.iter().find(|here| read(here).is_some_and(|(d, _)| d == digest)) {
            line.came(Outcome::Same, same.at());
            return Ok(line);
        }
        let at = self.target.join(&name);
        let other = standing
            .iter()
            .find(|here| read(here).is_some_and(|(_, v)| v == version) || here.at() == at)
            .map(Standing::at)
            .or_else(|| at.symlink_metadata().is_ok().then(|| at.clone()));
        let outcome = if standing.is_empty() { Outcome::New } else { Outcome::Updated };
        if let Some(other) = &other
            && !self.args.force
        {
            let what = version.map_or_else(String::new, |v| format!(" as version {v}"));
            line.refuse(
                &format!("{} is there{what} with other content", shown(other)),
                "add --force to replace it; versions that were registered stay in the registry",
            );
            return Ok(line);
        }
        let to = other.clone().unwrap_or(at);
        if !self.args.dry_run {
            let policy = Policy { origin: Origin::Operator, limits };
            let staged = self.store.stage(&from.base, &candidate.folder, &policy)?;
            if staged.digest() != found.read {
                line.refuse("it changed while it was read", "try again when nothing writes to it");
                return Ok(line);
            }
            self.write(&staged, found.manifest.as_deref(), &to, other.is_some())
                .map_err(|e| Failure::new(format!("cannot write {}: {e}", shown(&to))))?;
        }
        self.remember(id, &to, digest, stated(skill));
        line.came(outcome, to);
        Ok(line)
    }

    /// What comes later from the same command is compared with what came before.
    fn remember(&mut self, id: String, at: &Path, digest: Digest, version: Option<Version>) {
        let all = self.standing.entry(id).or_default();
        all.retain(|here| here.at() != at);
        let inner = at.file_name().map_or_else(|| PathBuf::from("."), PathBuf::from);
        let base = at.parent().unwrap_or(at).to_owned();
        all.push(Standing { base, inner, read: Some(Some((digest, version))) });
    }

    /// Lays a folder aside and renames it into its place, whole.
    fn write(
        &mut self,
        staged: &Staged,
        manifest: Option<&[u8]>,
        to: &Path,
        replace: bool,
    ) -> io::Result<()> {
        let parent = to.parent().unwrap_or(&self.target);
        fs::create_dir_all(parent)?;
        // Hidden: nobody takes it for a skill.
        let aside = tempfile::Builder::new().prefix(".skep-add-").tempdir_in(parent)?;
        let laid = aside.path().join("skill");
        lay(staged, &laid)?;
        if let Some(text) = manifest {
            fs::write(laid.join(MANIFEST), text)?;
        }
        let flags = if replace { RenameFlags::EXCHANGE } else { RenameFlags::NOREPLACE };
        renameat_with(CWD, &laid, CWD, to, flags)?;
        self.written = true;
        Ok(())
    }

    /// Makes sure that what was told as taken in survives a power loss.
    pub(super) fn finish(&self) -> Result<(), Failure> {
        if self.written {
            let failed = |e: io::Error| Failure::new(format!("cannot flush {}: {e}", shown(&self.target)));
            let folder = File::open(&self.target).map_err(failed)?;
            rustix::fs::syncfs(folder).map_err(|e| failed(e.into()))?;
        }
        Ok(())
    }
}

impl Standing {
    fn at(&self) -> PathBuf {
        if self.inner == Path::new(".") { self.base.clone() } else { self.base.join(&self.inner) }
    }
}

/// A manifest with another id; none where that cannot be: its mistakes are told elsewhere.
fn with_id(text: &[u8], id: &SkillId) -> Option<Vec<u8>> {
    let mut all: serde_json::Map<String, serde_json::Value> = serde_json::from_slice(text).ok()?;
    let stated = all.get_mut("id")?;
    *stated = id.as_str().into();
    let mut text = serde_json::to_vec_pretty(&all).ok()?;
    text.push(b'\n');
    Some(text)
}

/// The version that a skill states itself.
fn stated(skill: &Skill) -> Option<Version> {
    let silent = skill.shape == Shape::SkillMd && skill.version == Version::new(0, 0, 0);
    (!silent).then(|| skill.version.clone())
}

fn look(here: &Standing, limits: SkillLimits) -> Option<(Digest, Option<Version>)> {
    let policy = Policy { origin: Origin::Operator, limits };
    let source = fingerprint(&here.base, &here.inner, &policy).ok()?;
    let skill = load::read(&source, offline::limits(&limits)).skill?;
    Some((digest(&source), stated(&skill)))
}

/// Links and devices that an archive held in the skill's folder.
fn left_out(from: &Fetched, candidate: &Candidate) -> Vec<Fault> {
    let folder = if candidate.folder == Path::new(".") { Path::new("") } else { &candidate.folder };
    from.left_out
        .iter()
        .filter_map(|fault| {
            let inner = Path::new(&fault.file).strip_prefix(folder).ok()?;
            Some(Fault { file: inner.display().to_string(), ..fault.clone() })
        })
        .collect()
}

/// Files as the operator keeps them: his own to write.
fn lay(staged: &Staged, to: &Path) -> io::Result<()> {
    let mut made = BTreeSet::new();
    let mut folder = |path: &Path| match made.insert(path.to_owned()) {
        true => DirBuilder::new().recursive(true).mode(0o755).create(path),
        false => Ok(()),
    };
    folder(to)?;
    for (path, info) in &staged.source().files {
        let at = to.join(path);
        folder(at.parent().unwrap_or(to))?;
        fs::copy(staged.path().join(path), &at)?;
        fs::set_permissions(&at, Permissions::from_mode(if info.executable { 0o755 } else { 0o644 }))?;
    }
    Ok(())
}
