//! What came of each skill, for people and as JSON.

use std::{
    io,
    path::{Path, PathBuf},
};

use serde::Serialize;
use serde_json::{Value, json};

use super::{
    super::{super::failure::Failure, super::hive::shown, super::ui::Ui, check::below},
    uptake::Uptake,
};
use crate::error::Fault;

/// What came of one skill.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Outcome {
    /// The hive had no skill of that id.
    New,
    /// A version or a content that the hive did not have.
    Updated,
    /// It is there already, with the same content.
    Same,
    /// Not taken in.
    Failed,
}

/// One skill of a source.
#[derive(Debug, Serialize)]
pub(super) struct Line {
    /// Where it was found.
    pub(super) source: String,
    /// Its id, once it is known.
    pub(super) id: Option<String>,
    /// The version that it states, or that the registry gave it.
    pub(super) version: Option<String>,
    /// `sha256:…`
    pub(super) digest: Option<String>,
    /// What came of it.
    pub(super) outcome: Outcome,
    /// Where it stands now.
    pub(super) folder: Option<String>,
    /// Whether the running supervisor has it; none when none runs.
    pub(super) registered: Option<bool>,
    /// What is odd about it.
    pub(super) warnings: Vec<String>,
    /// Why it was not taken in.
    pub(super) errors: Vec<String>,
    #[serde(skip)]
    pub(super) help: Vec<String>,
    /// `folder` in full.
    #[serde(skip)]
    pub(super) at: Option<PathBuf>,
    #[serde(skip)]
    stated: String,
}

impl Line {
    pub(super) fn new(source: String, stated: &str) -> Self {
        Self {
            source,
            id: None,
            version: None,
            digest: None,
            outcome: Outcome::Failed,
            folder: None,
            registered: None,
            warnings: Vec::new(),
            errors: Vec::new(),
            help: Vec::new(),
            at: None,
            stated: stated.to_owned(),
        }
    }

    /// A source that gave no skill at all.
    pub(super) fn failed(source: &str, failure: Failure) -> Self {
        let mut line = Self::new(source.to_owned(), source);
        line.errors.push(failure.message);
        line.errors.extend(failure.details);
        line.help = failure.help;
        line
    }

    /// For people.
    pub(super) fn name(&self) -> &str {
        self.id.as_deref().unwrap_or(&self.stated)
    }

    pub(super) fn warn(&mut self, faults: Vec<Fault>) {
        self.warnings.extend(faults.into_iter().map(|f| below(Path::new(&self.source), f).to_string()));
    }

    pub(super) fn fail(&mut self, faults: Vec<Fault>) {
        self.errors.extend(faults.into_iter().map(|f| below(Path::new(&self.source), f).to_string()));
    }

    pub(super) fn refuse(&mut self, message: &str, help: &str) {
        self.errors.push(format!("{}: {message}", self.source));
        self.help.push(help.to_owned());
    }

    pub(super) fn came(&mut self, outcome: Outcome, at: PathBuf) {
        self.outcome = outcome;
        self.folder = Some(shown(&at));
        self.at = Some(at);
    }

    /// It stands in the hive's folder, and the supervisor does not want it.
    pub(super) fn not_registered(&mut self, refused: Failure) {
        let folder = self.folder.as_deref().unwrap_or_default();
        self.errors.push(format!("{folder} is there, but is not registered: {}", refused.message));
        self.errors.extend(refused.details);
        (self.outcome, self.registered) = (Outcome::Failed, Some(false));
    }
}

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Report {
    pub(super) lines: Vec<Line>,
    /// What is odd about the sources.
    pub(super) notes: Vec<String>,
    /// Whether they are registered; none: nothing was written.
    pub(super) supervisor: Option<Uptake>,
}

impl Report {
    pub(super) fn count(&self, outcome: Outcome) -> usize {
        self.lines.iter().filter(|line| line.outcome == outcome).count()
    }

    pub(super) fn json(&self, dry_run: bool) -> Value {
        json!({
            "skills": self.lines,
            "new": self.count(Outcome::New),
            "updated": self.count(Outcome::Updated),
            "same": self.count(Outcome::Same),
            "failed": self.count(Outcome::Failed),
            "warnings": self.notes,
            "dry_run": dry_run,
        })
    }

    pub(super) fn table(&self, ui: &Ui) -> io::Result<()> {
        let dash = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".into());
        let rows = self.lines.iter().filter(|line| line.id.is_some()).map(|line| {
            let outcome = match line.outcome {
                Outcome::New => "new",
                Outcome::Updated => "updated",
                Outcome::Same => "same",
                Outcome::Failed => "failed",
            };
            // Enough to tell two apart.
            let digest: String = dash(&line.digest).chars().take("sha256:".len() + 12).collect();
            vec![
                line.name().into(),
                dash(&line.version).into(),
                outcome.into(),
                digest.into(),
                dash(&line.folder).into(),
            ]
        });
        ui.table(&["SKILL", "VERSION", "RESULT", "DIGEST", "FOLDER"], rows.collect())
    }

    /// All of it in a line.
    pub(super) fn sum(&self, dry_run: bool) -> String {
        let parts: Vec<String> = [
            (Outcome::New, "new"),
            (Outcome::Updated, "updated"),
            (Outcome::Same, "the same as before"),
            (Outcome::Failed, "not taken in"),
        ]
        .into_iter()
        .map(|(outcome, word)| (self.count(outcome), word))
        .filter(|(count, _)| *count > 0)
        .map(|(count, word)| format!("{count} {word}"))
        .collect();
        let skills = match self.lines.len() {
            1 => "1 skill".to_owned(),
            n => format!("{n} skills"),
        };
        let odd = |line: &&Line| line.outcome != Outcome::Failed && !line.warnings.is_empty();
        let warned = self.lines.iter().filter(odd).count();
        let warned = if warned > 0 { format!("; {warned} with warnings") } else { String::new() };
        let dry = if dry_run { " (nothing was written)" } else { "" };
        format!("{skills}: {}{warned}{dry}", parts.join(", "))
    }
}
