//! The registry as a value: skills, their versions, who owns them, what may be resolved.
//!
//! Pure. Loaded from the database, handed to the resolver, listed by the API.

use std::collections::BTreeMap;

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
}

/// Every skill that the hive knows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Index {
    /// By id.
    pub skills: BTreeMap<SkillId, SkillEntry>,
}

impl SkillEntry {
    /// The newest version: stable before pre-release, yanked and rejected only when nothing else is there.
    #[must_use]
    pub fn latest(&self) -> Option<&VersionEntry> {
        self.versions.values().max_by_key(|v| {
            let offered = !v.yanked && v.trust != Trust::Rejected;
            (offered, v.version.pre.is_empty(), &v.version)
        })
    }
}

impl Index {
    /// The entry of one exact version.
    #[must_use]
    pub fn version(&self, id: &SkillId, version: &Version) -> Option<&VersionEntry> {
        self.skills.get(id)?.versions.get(version)
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
