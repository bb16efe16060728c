//! Words for what was resolved and for what could not be.
//!
//! Conflicts are values first and text second, so that each edge can show them its own way.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use semver::Version;

use super::{
    candidates::Withheld,
    solve::{Asker, Resolution, Resolved},
};
use crate::{
    ids::{AgentId, Digest, Requirement, SkillId, SkillRef},
    registry::index::Owner,
};

/// Why a request cannot be resolved. `Display` tells all of it, over several lines.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Conflict {
    /// No choice of versions satisfies everyone.
    #[error("{}", Unsolvable { agent, asks, verdicts })]
    Unsolvable {
        /// For whom.
        agent: Option<AgentId>,
        /// Who asked for what, from the agent downwards; only what takes part.
        asks: Vec<Ask>,
        /// What cannot be.
        verdicts: Vec<Verdict>,
    },
    /// The registry holds other content than `skep.lock` under the same version.
    #[error("{}", Changed { agent, changed })]
    ChangedContent {
        /// Whose lock.
        agent: Option<AgentId>,
        /// Every version that differs.
        changed: Vec<ChangedContent>,
    },
}

/// A locked version whose content is another now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangedContent {
    /// Which skill.
    pub id: SkillId,
    /// Which version.
    pub version: Version,
    /// The digest in `skep.lock`.
    pub locked: Digest,
    /// The digest in the registry.
    pub found: Digest,
}

/// What one asker (or several versions of one skill alike) asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ask {
    /// Who; more than one when several versions of a skill ask alike.
    pub by: Vec<Asker>,
    /// For what.
    pub wants: Vec<SkillRef>,
}

/// One thing that cannot be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The registry has no such skill.
    Unknown {
        /// The id asked for.
        id: SkillId,
        /// The most similar id that it has.
        nearest: Option<SkillId>,
    },
    /// No version that may be chosen fits one reference.
    NoneFits {
        /// The reference.
        wanted: SkillRef,
        /// Versions that may be chosen.
        available: Vec<Version>,
        /// Versions that would fit, and why they may not be chosen.
        withheld: Vec<(Version, Reason)>,
    },
    /// Each reference alone can be met, all together cannot.
    Clash {
        /// Which skill.
        id: SkillId,
        /// What is asked of it.
        requirements: Vec<Requirement>,
        /// Versions that may be chosen.
        available: Vec<Version>,
    },
    /// Versions that need another version of their own skill.
    NeedsItself {
        /// The versions.
        versions: Vec<Version>,
        /// What they need.
        wanted: SkillRef,
    },
}

/// Why a version may not be chosen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reason {
    /// The operator refused it.
    Rejected,
    /// It waits for approval; its author alone may use it.
    Pending(Owner),
    /// Its skill is disabled.
    Disabled,
    /// It was yanked.
    Yanked,
}

impl From<Withheld> for Reason {
    fn from(why: Withheld) -> Self {
        match why {
            Withheld::Rejected => Self::Rejected,
            Withheld::Pending(owner) => Self::Pending(owner),
            Withheld::Disabled => Self::Disabled,
            Withheld::Yanked => Self::Yanked,
        }
    }
}

struct Unsolvable<'a> {
    agent: &'a Option<AgentId>,
    asks: &'a [Ask],
    verdicts: &'a [Verdict],
}

/// So many lines at each end of a long list of demands.
const ENDS: usize = 8;

impl fmt::Display for Unsolvable<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let asker = Asker::from(self.agent.as_ref());
        write!(f, "the skills of {asker} cannot be resolved:")?;
        let lines = self.asks.len();
        for (i, ask) in self.asks.iter().enumerate() {
            if lines > 2 * ENDS + 1 && i == ENDS {
                write!(f, "\n  ... {} more demands ...", lines - 2 * ENDS)?;
            }
            if lines <= 2 * ENDS + 1 || i < ENDS || i >= lines - ENDS {
                write!(f, "\n  {ask}")?;
            }
        }
        for verdict in self.verdicts {
            write!(f, "\n  {verdict}")?;
        }
        if self.verdicts.is_empty() {
            f.write_str("\n  no choice of versions meets all of this at once")?;
        }
        Ok(())
    }
}

impl fmt::Display for Ask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let wants: Vec<String> = self.wants.iter().map(ToString::to_string).collect();
        let wants = listed(&wants);
        match self.by.as_slice() {
            [Asker::Skill(id, first), .., Asker::Skill(_, last)] if self.by.len() > 3 => {
                write!(f, "{} versions of {id}, {first} to {last}, need {wants}", self.by.len())
            }
            [one @ Asker::Skill(..)] => write!(f, "{one} needs {wants}"),
            [one] => write!(f, "{one} asks for {wants}"),
            several => {
                let several: Vec<String> = several.iter().map(ToString::to_string).collect();
                write!(f, "{} need {wants}", listed(&several))
            }
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown { id, nearest } => {
                write!(f, "there is no skill {id}")?;
                match nearest {
                    Some(nearest) => write!(f, "; did you mean {nearest}?"),
                    None => Ok(()),
                }
            }
            Self::NoneFits { wanted, available, withheld } => none_fits(f, wanted, available, withheld),
            Self::Clash { id, requirements, available } => {
                let wants: Vec<String> = requirements.iter().map(requirement).collect();
                let both = if wants.len() == 2 { "both " } else { "" };
                let wants = listed(&wants);
                write!(f, "no version of {id} satisfies {both}{wants} ({})", there(available))
            }
            Self::NeedsItself { versions, wanted } => {
                write!(f, "{} cannot have {wanted} beside it", some(&wanted.id, versions))
            }
        }
    }
}

fn none_fits(
    f: &mut fmt::Formatter<'_>,
    wanted: &SkillRef,
    available: &[Version],
    withheld: &[(Version, Reason)],
) -> fmt::Result {
    let id = &wanted.id;
    match &wanted.requirement {
        Requirement::Exact(version) if withheld.is_empty() => {
            write!(f, "{id} has no version {version}")?;
        }
        Requirement::Exact(version) => write!(f, "{id}@{version} is not available")?,
        Requirement::Bare | Requirement::Latest => write!(f, "no release of {id} is available")?,
        Requirement::Range(range) if withheld.is_empty() => {
            write!(f, "no version of {id} satisfies {range}")?;
        }
        Requirement::Range(range) => write!(f, "no available version of {id} satisfies {range}")?,
    }
    if !available.is_empty() || withheld.is_empty() {
        write!(f, " ({})", there(available))?;
    }
    if let Some(first) = available.iter().find(|v| !v.pre.is_empty())
        && available.iter().all(|v| !v.pre.is_empty())
    {
        write!(f, "; pre-releases are asked for by name: {id}@{first}")?;
    }
    let disabled = withheld.iter().any(|(_, why)| *why == Reason::Disabled);
    if disabled {
        write!(f, "; {id} is disabled (`skep skill enable {id}`)")?;
    }
    for (version, why) in withheld.iter().rev().filter(|(_, w)| *w != Reason::Disabled).take(4) {
        match why {
            Reason::Rejected => write!(f, "; {version} was rejected")?,
            Reason::Yanked => write!(f, "; {version} was yanked and is not in skep.lock")?,
            Reason::Pending(author) => write!(
                f,
                "; {version} by {} waits for approval (`skep skill approve {id}@{version}`)",
                author_of(author)
            )?,
            Reason::Disabled => {}
        }
    }
    Ok(())
}

fn author_of(owner: &Owner) -> String {
    match owner {
        Owner::Agent(agent) => format!("agent {agent}"),
        Owner::Operator => "the operator".into(),
        Owner::BuiltIn => "skep itself".into(),
    }
}

fn requirement(requirement: &Requirement) -> String {
    match requirement {
        Requirement::Bare => "any release".into(),
        Requirement::Latest => "latest".into(),
        Requirement::Exact(version) => version.to_string(),
        Requirement::Range(range) => range.to_string(),
    }
}

/// `a`, `a and b`, `a, b and c`.
fn listed(items: &[String]) -> String {
    match items {
        [] => String::new(),
        [one] => one.clone(),
        [most @ .., last] => format!("{} and {last}", most.join(", ")),
    }
}

fn there(available: &[Version]) -> String {
    let versions: Vec<String> = available.iter().map(ToString::to_string).collect();
    match versions.as_slice() {
        [] => "there is none".into(),
        [one] => format!("there is {one}"),
        few if few.len() <= 8 => format!("there are {}", few.join(", ")),
        [first, .., a, b, c] => {
            format!("there are {} from {first} to {a}, {b}, {c}", versions.len())
        }
        _ => String::new(),
    }
}

fn some(id: &SkillId, versions: &[Version]) -> String {
    let versions: Vec<String> = versions.iter().map(|v| format!("{id}@{v}")).collect();
    listed(&versions)
}

struct Changed<'a> {
    agent: &'a Option<AgentId>,
    changed: &'a [ChangedContent],
}

impl fmt::Display for Changed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let asker = Asker::from(self.agent.as_ref());
        write!(f, "the registry holds other content than skep.lock does for {asker}:")?;
        for ChangedContent { id, version, locked, found } in self.changed {
            write!(f, "\n  {id}@{version} is locked as {locked}, but the registry has {found}")?;
        }
        f.write_str(
            "\n  put the old content back, or publish the new as a new version; `skep update --skill ID` accepts it as it is",
        )
    }
}

/// A tree for people: which skill at which version, who asked for which versions of it, and the
/// newest where that is another. A skill met again is marked `(*)` and not unfolded twice.
#[must_use]
pub fn explain(resolution: &Resolution) -> String {
    let mut wants: BTreeMap<&Asker, Vec<(&SkillId, &Requirement)>> = BTreeMap::new();
    for (id, skill) in &resolution.skills {
        for asked in &skill.asked_by {
            wants.entry(&asked.by).or_default().push((id, &asked.requirement));
        }
    }
    let mut text = String::new();
    let mut unfolded: BTreeSet<&SkillId> = BTreeSet::new();
    let roots = wants.iter().filter(|(by, _)| !matches!(by, Asker::Skill(..)));
    for (root, children) in roots {
        text.push_str(&format!("{root}\n"));
        // Last first: a stack of our own, because chains may be thousands long.
        let mut todo = lines(children, "");
        while let Some((prefix, last, id, wanted)) = todo.pop() {
            let Some(skill) = resolution.skills.get(id) else {
                continue;
            };
            let branch = if last { "└── " } else { "├── " };
            let by = Asker::Skill(id.clone(), skill.version.clone());
            let children = wants.get(&by);
            let again = !unfolded.insert(id) && children.is_some();
            text.push_str(&prefix);
            text.push_str(branch);
            text.push_str(&line(id, skill, wanted));
            text.push_str(if again { " (*)\n" } else { "\n" });
            if let Some(children) = children.filter(|_| !again) {
                let deeper = if last { "    " } else { "│   " };
                todo.extend(lines(children, &format!("{prefix}{deeper}")));
            }
        }
    }
    text
}

type Line<'a> = (String, bool, &'a SkillId, &'a Requirement);

fn lines<'a>(children: &[(&'a SkillId, &'a Requirement)], prefix: &str) -> Vec<Line<'a>> {
    let line = |(i, (id, wanted)): (usize, &(&'a SkillId, &'a Requirement))| {
        (prefix.to_owned(), i == 0, *id, *wanted)
    };
    children.iter().rev().enumerate().map(line).collect()
}

fn line(id: &SkillId, skill: &Resolved, wanted: &Requirement) -> String {
    let wanted = requirement(wanted);
    let newest =
        if skill.newest == skill.version { String::new() } else { format!(", newest {}", skill.newest) };
    format!("{id} {} (asked for: {wanted}{newest})", skill.version)
}
