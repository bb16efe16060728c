//! `skep.lock`: the versions and digests that every agent keeps until it is updated.
//!
//! Text in, text out; reads and writes no file. One table a skill, sorted, so that changes to
//! different skills merge.

use std::{collections::BTreeMap, fmt, fmt::Write as _, ops::Range};

use semver::Version;
use serde::{Deserialize, Serialize};
use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use crate::{
    error::Fault,
    ids::{AgentId, Digest, SkillId},
};

/// The name of the file in a hive.
pub const FILE: &str = "skep.lock";
/// The format that this program reads and writes.
pub const FORMAT: i64 = 1;

const HEADER: &str = "# Written by skep. Commit it, do not edit it; `skep update` renews it.\n";

/// One locked version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Locked {
    /// The version.
    pub version: Version,
    /// Digest of its content.
    pub digest: Digest,
}

/// The locked skills of one agent.
pub type LockedAgent = BTreeMap<SkillId, Locked>;

/// A whole `skep.lock`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Lock {
    /// By agent; an agent without skills has an empty entry.
    pub agents: BTreeMap<AgentId, LockedAgent>,
}

/// One difference between two locks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Change {
    /// Whose.
    pub agent: AgentId,
    /// Which skill.
    pub id: SkillId,
    /// None: it was not there.
    pub from: Option<Version>,
    /// None: it is no longer there. Equal to `from` when only the content changed.
    pub to: Option<Version>,
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { agent, id, from, to } = self;
        match (from, to) {
            (None, Some(to)) => write!(f, "{agent}: {id} {to} added"),
            (Some(from), None) => write!(f, "{agent}: {id} {from} removed"),
            (Some(from), Some(to)) if from == to => {
                write!(f, "{agent}: {id} {to} has other content")
            }
            (Some(from), Some(to)) => write!(f, "{agent}: {id} {from} -> {to}"),
            (None, None) => write!(f, "{agent}: {id} unchanged"),
        }
    }
}

/// What differs, sorted by agent and skill.
#[must_use]
pub fn diff(old: &Lock, new: &Lock) -> Vec<Change> {
    let none = LockedAgent::new();
    let agents: std::collections::BTreeSet<_> = old.agents.keys().chain(new.agents.keys()).collect();
    let mut changes = Vec::new();
    for agent in agents {
        let before = old.agents.get(agent).unwrap_or(&none);
        let after = new.agents.get(agent).unwrap_or(&none);
        let ids: std::collections::BTreeSet<_> = before.keys().chain(after.keys()).collect();
        for id in ids {
            let (from, to) = (before.get(id), after.get(id));
            if from != to {
                changes.push(Change {
                    agent: agent.clone(),
                    id: id.clone(),
                    from: from.map(|l| l.version.clone()),
                    to: to.map(|l| l.version.clone()),
                });
            }
        }
    }
    changes
}

impl fmt::Display for Lock {
    /// The file's text: the same lock gives the same bytes.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = format!("{HEADER}version = {FORMAT}\n");
        for (agent, skills) in &self.agents {
            if skills.is_empty() {
                write!(text, "\n[agents.{agent}]\n")?;
            }
            for (id, locked) in skills {
                write!(
                    text,
                    "\n[agents.{agent}.skills.{id}]\nversion = \"{}\"\ndigest = \"{}\"\n",
                    locked.version, locked.digest
                )?;
            }
        }
        f.write_str(&text)
    }
}

impl Lock {
    /// Reads the text of a `skep.lock`.
    ///
    /// # Errors
    /// Every fault with its place; a file of a newer format is refused whole.
    pub fn parse(text: &str) -> Result<Self, Vec<Fault>> {
        let mut reader = Reader { text, faults: Vec::new() };
        if let Some(at) = conflict_marker(text) {
            reader.fault(at..at, "has unresolved merge conflicts", REWRITE);
            return Err(reader.faults);
        }
        let lock = match DeTable::parse(text) {
            Ok(table) => reader.lock(&table),
            Err(e) => {
                reader.fault(e.span().unwrap_or(0..0), e.message(), REWRITE);
                Self::default()
            }
        };
        if reader.faults.is_empty() {
            return Ok(lock);
        }
        reader.faults.sort_by_key(|f| (f.line, f.column));
        Err(reader.faults)
    }
}

const REWRITE: &str =
    "take one side from version control, or delete skep.lock and run `skep update` to make a new one";

fn conflict_marker(text: &str) -> Option<usize> {
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        if ["<<<<<<< ", ">>>>>>> "].iter().any(|m| line.starts_with(m)) {
            return Some(at);
        }
        at += line.len();
    }
    None
}

struct Reader<'a> {
    text: &'a str,
    faults: Vec<Fault>,
}

type Node<'a> = Spanned<DeValue<'a>>;

impl Reader<'_> {
    fn fault(&mut self, span: Range<usize>, message: impl Into<String>, help: &str) {
        let before = self.text.get(..span.start).unwrap_or(self.text);
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or("").chars().count() + 1;
        self.faults.push(Fault::new(FILE, message).at(line, column).help(help));
    }

    fn lock(&mut self, root: &Spanned<DeTable<'_>>) -> Lock {
        let mut lock = Lock::default();
        if !self.is_our_format(root) {
            return lock;
        }
        self.refuse_others(root.get_ref(), &["version", "agents"]);
        let Some(agents) = root.get_ref().get("agents") else {
            return lock;
        };
        for (name, value) in self.table(agents).into_iter().flatten() {
            let skills = self.agent(value);
            match name.get_ref().parse::<AgentId>() {
                Ok(agent) => drop(lock.agents.insert(agent, skills)),
                Err(e) => self.fault(name.span(), e.to_string(), REWRITE),
            }
        }
        lock
    }

    fn is_our_format(&mut self, root: &Spanned<DeTable<'_>>) -> bool {
        let Some(value) = root.get_ref().get("version") else {
            self.fault(0..0, "has no `version`", REWRITE);
            return false;
        };
        let number = match value.get_ref() {
            DeValue::Integer(i) => i64::from_str_radix(i.as_str(), i.radix()).ok(),
            _ => None,
        };
        match number {
            Some(FORMAT) => true,
            Some(newer) if newer > FORMAT => {
                let message = format!("has format {newer}; this skep reads {FORMAT}");
                self.fault(value.span(), message, "use the skep that wrote it, or a newer one");
                false
            }
            _ => {
                let message = format!("`version` must be {FORMAT}");
                self.fault(value.span(), message, REWRITE);
                false
            }
        }
    }

    fn agent(&mut self, value: &Node<'_>) -> LockedAgent {
        let mut locked = LockedAgent::new();
        let Some(table) = self.table(value) else {
            return locked;
        };
        self.refuse_others(table, &["skills"]);
        let Some(skills) = table.get("skills") else {
            return locked;
        };
        for (name, value) in self.table(skills).into_iter().flatten() {
            let entry = self.skill(name.get_ref(), value);
            match (name.get_ref().parse::<SkillId>(), entry) {
                (Ok(id), Some(entry)) => drop(locked.insert(id, entry)),
                (Ok(_), None) => {}
                (Err(e), _) => self.fault(name.span(), e.to_string(), REWRITE),
            }
        }
        locked
    }

    fn skill(&mut self, id: &str, value: &Node<'_>) -> Option<Locked> {
        let table = self.table(value)?;
        self.refuse_others(table, &["version", "digest"]);
        let version = self.text_of(id, table, value.span(), "version", Version::parse);
        let digest = self.text_of(id, table, value.span(), "digest", str::parse::<Digest>);
        Some(Locked { version: version?, digest: digest? })
    }

    fn text_of<T, E: fmt::Display>(
        &mut self,
        id: &str,
        table: &DeTable<'_>,
        place: Range<usize>,
        key: &str,
        parse: impl Fn(&str) -> Result<T, E>,
    ) -> Option<T> {
        let Some(value) = table.get(key) else {
            self.fault(place, format!("skill {id} has no `{key}`"), REWRITE);
            return None;
        };
        let DeValue::String(text) = value.get_ref() else {
            self.fault(value.span(), format!("`{key}` of skill {id} is no string"), REWRITE);
            return None;
        };
        match parse(text) {
            Ok(parsed) => Some(parsed),
            Err(e) => {
                self.fault(value.span(), format!("`{key}` of skill {id}: {e}"), REWRITE);
                None
            }
        }
    }

    fn table<'v, 'd>(&mut self, value: &'v Node<'d>) -> Option<&'v DeTable<'d>> {
        if let DeValue::Table(table) = value.get_ref() {
            Some(table)
        } else {
            self.fault(value.span(), "a table was expected here", REWRITE);
            None
        }
    }

    fn refuse_others(&mut self, table: &DeTable<'_>, known: &[&str]) {
        for key in table.keys().filter(|k| !known.contains(&k.get_ref().as_ref())) {
            self.fault(key.span(), format!("unknown key `{}`", key.get_ref()), REWRITE);
        }
    }
}

#[cfg(test)]
#[path = "lock_tests.rs"]
mod tests;
