//! The registry as a value: skills, their versions, who owns them, what may be resolved.
//!
//! Pure. Loaded from the database, handed to the resolver, listed by the API.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use jiff::Timestamp;
use semver::Version;
use serde::{Deserialize, Serialize};

use crate::ids::{AgentId, Digest, SkillId, SkillRef};

/// Who a skill belongs to.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(into = "String", from = "String")]
pub enum Owner {
    /// Shipped inside the program.
    BuiltIn,
    /// Written by the operator.
    Operator,
    /// Written by an agent.
    Agent(AgentId),
}

impl From<Owner> for String {
    fn from(o: Owner) -> String {
        match o {
            Owner::BuiltIn => "built-in".into(),
            Owner::Operator => "operator".into(),
            Owner::Agent(a) => a.into(),
        }
    }
}

impl From<String> for Owner {
    fn from(s: String) -> Owner {
        match s.as_str() {
            "built-in" => Owner::BuiltIn,
            other => other.parse().map_or(Owner::Operator, |a: AgentId| {
                if a.as_str() == "operator" { Owner::Operator } else { Owner::Agent(a) }
            }),
        }
    }
}

/// How far a version is trusted (contract.md 2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Trust {
    /// Built-in or the operator's own.
    Trusted,
    /// An agent's, approved by the operator.
    Approved,
    /// An agent's, not looked at yet: its author alone resolves it, without secrets or packages.
    Pending,
    /// An agent's, refused by the operator: nobody resolves it.
    Rejected,
}

/// One immutable version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VersionEntry {
    /// Semantic version.
    pub version: Version,
    /// Digest of its content.
    pub digest: Digest,
    /// What it needs.
    pub dependencies: Vec<SkillRef>,
    /// Hidden from new resolutions; locks still work.
    pub yanked: bool,
    /// A message that warns whoever resolves it.
    pub deprecated: Option<String>,
    /// Whether others may resolve it.
    pub trust: Trust,
}

/// What a skill says of itself, for lists.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct About {
    /// Its name for people.
    pub name: String,
    /// What it enables.
    pub description: String,
    /// Tags.
    pub tags: Vec<String>,
}

/// One skill with all its versions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkillEntry {
    /// Its id.
    pub id: SkillId,
    /// Who may publish versions of it.
    pub owner: Owner,
    /// A disabled skill is not resolved anew.
    pub enabled: bool,
    /// Oldest first.
    pub versions: BTreeMap<Version, VersionEntry>,
    /// When it was first seen.
    pub registered_at: Timestamp,
    /// When a version came or changed last.
    pub updated_at: Timestamp,
    /// As its latest version says it.
    pub about: About,
}

/// Every skill that the hive knows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Index {
    /// By id. Shared, so that the next index costs little more than what differs.
    pub skills: BTreeMap<SkillId, Arc<SkillEntry>>,
}

impl VersionEntry {
    /// The higher, the rather it is the latest: stable before pre-release, yanked and rejected only when nothing else
    /// is there.
    #[must_use]
    pub fn rank(&self) -> (bool, bool, &Version) {
        let offered = !self.yanked && self.trust != Trust::Rejected;
        (offered, self.version.pre.is_empty(), &self.version)
    }
}

impl SkillEntry {
    /// A skill without versions.
    #[must_use]
    pub fn new(id: SkillId, owner: Owner, at: Timestamp) -> Self {
        Self {
            id,
            owner,
            enabled: true,
            versions: BTreeMap::new(),
            registered_at: at,
            updated_at: at,
            about: About::default(),
        }
    }

    /// The newest version: stable before pre-release, yanked and rejected only when nothing else is there.
    #[must_use]
    pub fn latest(&self) -> Option<&VersionEntry> {
        self.versions.values().max_by_key(|v| v.rank())
    }
}

impl Index {
    /// The entry of one exact version.
    #[must_use]
    pub fn version(&self, id: &SkillId, version: &Version) -> Option<&VersionEntry> {
        self.skills.get(id)?.versions.get(version)
    }

    /// Which skills differ between two indexes, of which one was made from the other.
    #[must_use]
    pub fn changed(&self, other: &Self) -> BTreeSet<SkillId> {
        let differs = |one: &Self, id: &SkillId, entry: &Arc<SkillEntry>| {
            one.skills.get(id).is_none_or(|there| !Arc::ptr_eq(there, entry) && there != entry)
        };
        let here = self.skills.iter().filter(|(id, entry)| differs(other, id, entry));
        let there = other.skills.iter().filter(|(id, _)| !self.skills.contains_key(*id));
        here.chain(there).map(|(id, _)| id.clone()).collect()
    }

    /// The id most like a text that is none of them, for "did you mean"; none when nothing is close.
    #[must_use]
    pub fn nearest(&self, id: &str) -> Option<&SkillId> {
        let close = |known: &SkillId| strsim::jaro_winkler(id, known.as_str());
        let best = self.skills.keys().max_by(|a, b| {
            let order = close(a).total_cmp(&close(b));
            order.then_with(|| b.cmp(a))
        });
        best.filter(|known| close(known) >= 0.8)
    }
}
