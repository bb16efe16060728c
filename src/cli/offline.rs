//! The skills of a hive as they stand in its source folders and its registry, for commands that work without a
//! supervisor. Reads only. A folder that changed since it was registered counts as it is now.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
    sync::Arc,
};

use jiff::Timestamp;
use semver::Version;

use super::{failure::Failure, hive::Context};
use crate::{
    app::types::SecretView,
    config::{Config, model::Agent, model::SkillLimits},
    db,
    error::Fault,
    ids::{Digest, SecretName, SkillId},
    paths::HivePaths,
    registry::{
        builtin, file,
        index::{Index, Owner, SkillEntry, Trust, VersionEntry},
        safe_copy::{CopyError, Origin, Policy, fingerprint},
        sources,
    },
    resolver::{Conflict, Lock, LockedAgent, Request, Resolution, Update, solve},
    secrets::grants::{AgentAsks, Ask, who_uses},
    skill::{
        digest::digest,
        load::{self, Report},
        model::Skill,
        source::{Limits, Source},
    },
};

/// What the source folders and the program itself hold.
#[derive(Debug, Default)]
pub(super) struct Offline {
    /// For the resolver.
    pub index: Index,
    /// Every skill that was read.
    pub skills: BTreeMap<(SkillId, Version), Skill>,
    /// Why skills are refused.
    pub faults: Vec<Fault>,
    /// What is odd.
    pub warnings: Vec<Fault>,
    /// What was registered; none: the hive has no database, or none that can be read.
    registered: Option<Index>,
    /// What the registry's view file tells beyond the folders, where the database tells nothing.
    known: BTreeMap<SkillId, file::SkillLine>,
}

/// The limits of the configuration as the checker takes them.
pub(super) fn limits(limits: &SkillLimits) -> Limits {
    Limits {
        files: usize::try_from(limits.files).unwrap_or(usize::MAX),
        bytes: limits.total,
        file: limits.file,
        manifest: limits.manifest,
    }
}

/// Reads `skep.lock`; an empty one when there is none.
///
/// # Errors
/// Its mistakes.
pub(super) fn lock(hive: &HivePaths) -> Result<Lock, Vec<Fault>> {
    match fs::read_to_string(hive.lock()) {
        Ok(text) => Lock::parse(&text),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(Lock::default()),
        Err(e) => Err(vec![Fault::new(crate::resolver::lock::FILE, format!("cannot be read: {e}"))]),
    }
}

/// Reads everything; with `strict`, what the strict checks say are faults too.
pub(super) fn read(hive: &HivePaths, config: &Config, lock: &Lock, strict: bool) -> Offline {
    let mut all = Offline::default();
    match file::read(&hive.registry_file()) {
        Ok(found) => {
            all.known = found.into_iter().flat_map(|f| f.skills).map(|s| (s.id.clone(), s)).collect();
        }
        Err(e) => all.warnings.push(Fault::new("registry/skills.json", format!("is not used: {e}"))),
    }
    all.read_registered(&hive.database());
    for skill in builtin::skills() {
        let source = Source::from_memory(
            &skill.files.iter().map(|(path, run, bytes)| (*path, *bytes, *run)).collect::<Vec<_>>(),
        )
        .named(skill.folder);
        let report = load::read(&source, Limits::default());
        all.take(skill.folder, &source, report, &Owner::BuiltIn, false);
    }
    let policy = Policy { origin: Origin::Operator, limits: config.registry.limits };
    for folder in &config.registry.sources {
        all.source_folder(&hive.resolve(folder), folder, &policy, strict);
    }
    match all.registered.take() {
        Some(registered) => all.add_registered(hive, &registered),
        None => all.add_known(lock),
    }
    all
}

impl Offline {
    fn source_folder(&mut self, base: &Path, shown: &Path, policy: &Policy, strict: bool) {
        let scan = sources::scan(base);
        if scan.missing {
            let fault = Fault::new(shown.display().to_string(), "is not there");
            self.warnings.push(fault.help("make the folder, or take it out of registry.sources"));
        }
        self.faults.extend(scan.faults);
        for candidate in scan.candidates {
            let place = shown.join(&candidate.folder).display().to_string();
            match fingerprint(base, &candidate.folder, policy) {
                Ok(source) => {
                    let report = load::read(&source, limits(&policy.limits));
                    self.take(&place, &source, report, &Owner::Operator, strict);
                }
                Err(CopyError::Rejected { faults, more, .. }) => {
                    self.faults.extend(faults.into_iter().map(|f| below(&place, f)));
                    if more > 0 {
                        self.faults.push(Fault::new(place, format!("and {more} more")));
                    }
                }
                Err(e) => self.faults.push(Fault::new(place, Failure::from(e).message)),
            }
        }
    }

    fn take(&mut self, place: &str, source: &Source, report: Report, owner: &Owner, strict: bool) {
        let errors = if strict { report.strict() } else { report.errors.clone() };
        // What is an error already is no warning beside it.
        let warnings = report.warnings.iter().filter(|w| !errors.contains(w));
        self.warnings.extend(warnings.cloned().map(|f| below(place, f)));
        self.faults.extend(errors.into_iter().map(|f| below(place, f)));
        let Some(mut skill) = report.skill else { return };
        if skill.version == Version::new(0, 0, 0)
            && let Some(given) = self.given_version(&skill.id, digest(source))
        {
            // Without a version of its own it has the one that the registry gave it.
            skill.version = given;
        }
        let entry = VersionEntry {
            version: skill.version.clone(),
            digest: digest(source),
            dependencies: skill.dependencies.clone(),
            yanked: false,
            deprecated: None,
            trust: Trust::Trusted,
        };
        let known =
            self.index.skills.entry(skill.id.clone()).or_insert_with(|| empty(&skill.id, owner.clone()));
        match known.versions.get(&skill.version) {
            Some(other) if other.digest != entry.digest => self.faults.push(
                Fault::new(
                    place,
                    format!("{}@{} is there twice, with other content", skill.id, skill.version),
                )
                .help("give one of them another version"),
            ),
            Some(_) => {}
            None if known.owner != *owner => self.faults.push(
                Fault::new(place, format!("the id {} belongs to a built-in skill", skill.id))
                    .help("give it another id"),
            ),
            None => {
                Arc::make_mut(known).versions.insert(skill.version.clone(), entry);
                self.skills.insert((skill.id.clone(), skill.version.clone()), skill);
            }
        }
    }

    fn read_registered(&mut self, database: &Path) {
        match db::offline::registered(database, |_, _| false) {
            Ok(found) => self.registered = found.map(|(index, _)| index),
            Err(e) => {
                let fault = Fault::new(".skep/skep.db", format!("is not used: {e}"));
                let help = "skills that were published or that agents wrote may be called unknown";
                self.warnings.push(fault.help(help));
            }
        }
    }

    /// What was registered beyond the folders, and what the operator said of it.
    fn add_registered(&mut self, hive: &HivePaths, registered: &Index) {
        for (id, entry) in &registered.skills {
            let known = self.index.skills.entry(id.clone()).or_insert_with(|| empty(id, entry.owner.clone()));
            let known = Arc::make_mut(known);
            if known.owner != entry.owner {
                let owner = String::from(entry.owner.clone());
                self.faults.push(
                    Fault::new(id.to_string(), format!("the id {id} belongs to {owner}"))
                        .help("give the skill of the source folder another id"),
                );
                continue;
            }
            known.enabled = entry.enabled;
            for version in entry.versions.values() {
                match known.versions.get(&version.version) {
                    Some(in_folder) if in_folder.digest != version.digest => {}
                    _ => drop(known.versions.insert(version.version.clone(), version.clone())),
                }
            }
        }
        let read = &self.skills;
        let wanted = |id: &SkillId, version: &Version| !read.contains_key(&(id.clone(), version.clone()));
        // Read at another moment; what came meanwhile is no harm.
        if let Ok(Some((_, declared))) = db::offline::registered(&hive.database(), wanted) {
            self.skills.extend(declared.into_iter().map(|s| ((s.id.clone(), s.version.clone()), s)));
        }
    }

    /// The version that a skill without one of its own was given.
    fn given_version(&self, id: &SkillId, content: Digest) -> Option<Version> {
        let registered = self.registered.as_ref().and_then(|index| index.skills.get(id));
        let same = registered.and_then(|entry| entry.versions.values().find(|v| v.digest == content));
        let latest = || registered.and_then(|entry| entry.latest()).map(|v| v.version.clone());
        let view = || self.known.get(id).and_then(|known| known.latest_version.clone());
        same.map(|v| v.version.clone()).or_else(latest).or_else(view)
    }

    /// Versions that only the registry has: those of agents, and those whose folders are gone.
    fn add_known(&mut self, lock: &Lock) {
        for line in self.known.values() {
            let entry = self
                .index
                .skills
                .entry(line.id.clone())
                .or_insert_with(|| empty(&line.id, line.owner.clone()));
            let entry = Arc::make_mut(entry);
            for version in &line.versions {
                entry.versions.entry(version.clone()).or_insert_with(|| VersionEntry {
                    version: version.clone(),
                    digest: locked_digest(lock, &line.id, version).unwrap_or(Digest([0; 32])),
                    dependencies: Vec::new(),
                    yanked: false,
                    deprecated: None,
                    trust: Trust::Trusted,
                });
            }
        }
    }

    /// Resolves one agent's skills; locked versions stay.
    ///
    /// # Errors
    /// Why they cannot be resolved.
    pub(super) fn resolve(&self, agent: &Agent, lock: Option<&LockedAgent>) -> Result<Resolution, Conflict> {
        let request = Request { agent: Some(&agent.id), skills: &agent.skills, lock, update: Update::None };
        solve(&self.index, &request)
    }
}

fn locked_digest(lock: &Lock, id: &SkillId, version: &Version) -> Option<Digest> {
    let mut entries = lock.agents.values().filter_map(|skills| skills.get(id));
    entries.find(|locked| locked.version == *version).map(|locked| locked.digest)
}

fn empty(id: &SkillId, owner: Owner) -> Arc<SkillEntry> {
    SkillEntry::new(id.clone(), owner, Timestamp::UNIX_EPOCH).into()
}

/// A fault of a skill as one of the hive.
fn below(place: &str, mut fault: Fault) -> Fault {
    fault.file = if fault.file.is_empty() || fault.file == "." {
        place.to_owned()
    } else {
        format!("{place}/{}", fault.file)
    };
    fault
}

/// Names that are set or asked for, and who gets them.
///
/// # Errors
/// The configuration or `skep.lock` is wrong.
pub(super) fn secrets(
    context: &Context,
    hive: &HivePaths,
    set: &BTreeSet<SecretName>,
) -> Result<Vec<SecretView>, Failure> {
    let config = context.config(hive)?.config;
    let lock = lock(hive).unwrap_or_default();
    let offline = read(hive, &config, &lock, false);
    let mut asks = Vec::new();
    for agent in config.agents.values() {
        // An agent whose skills cannot be resolved gets no secret.
        let Ok(resolution) = offline.resolve(agent, lock.agents.get(&agent.id)) else { continue };
        let skills: Vec<Ask<'_>> = resolution
            .skills
            .iter()
            .filter_map(|(id, resolved)| offline.skills.get(&(id.clone(), resolved.version.clone())))
            .map(|skill| {
                let version = offline.index.version(&skill.id, &skill.version);
                let trust = version.map_or(Trust::Trusted, |version| version.trust);
                Ask { skill: &skill.id, declares: &skill.secrets, trust }
            })
            .collect();
        asks.push((agent, skills));
    }
    let agents: Vec<AgentAsks<'_>> = asks
        .iter()
        .map(|(agent, skills)| AgentAsks { agent: &agent.id, skills, allow: agent.secrets.as_deref() })
        .collect();
    let used = who_uses(&agents);
    let names: BTreeSet<&SecretName> = set.iter().chain(used.keys()).collect();
    Ok(names.into_iter().map(|name| view(name, set, used.get(name))).collect())
}

fn view(
    name: &SecretName,
    set: &BTreeSet<SecretName>,
    users: Option<&Vec<(crate::ids::AgentId, SkillId)>>,
) -> SecretView {
    let mut used_by: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (agent, skill) in users.into_iter().flatten() {
        used_by.entry(agent.to_string()).or_default().push(skill.to_string());
    }
    SecretView { name: name.to_string(), set: set.contains(name), used_by }
}
