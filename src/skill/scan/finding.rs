//! What the scanner says: findings, bounded in number and safe to print.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::text::Text;
use crate::skill::diff::visible::one_line;

/// Characters of evidence.
const MAX_EVIDENCE: usize = 200;
/// Findings of one rule in one file.
const MAX_PER_FILE: usize = 10;
/// Findings of one rule.
const MAX_PER_RULE: usize = 50;

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Good to know before approving.
    Info,
    /// Has honest uses; look at it.
    Warning,
    /// Has hardly any honest use.
    Danger,
}

/// A rule; its name in JSON never changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Rule {
    /// Characters that nobody sees, or that show text in another order.
    HiddenUnicode,
    /// Control characters that a terminal obeys.
    TerminalEscape,
    /// Code fetched and run in one go.
    PipeToShell,
    /// A shell handed to somebody outside.
    ReverseShell,
    /// Encoded text that is decoded and run.
    DecodeAndExecute,
    /// An archive that scanners cannot open.
    ArchivePassword,
    /// A key, token or password in the text.
    SecretLiteral,
    /// A program that nobody can read.
    Binary,
    /// An archive within the skill.
    NestedArchive,
    /// An environment variable that is not declared.
    UndeclaredEnvironment,
    /// A host that is not declared.
    UndeclaredHost,
    /// A place where stolen data is left, or a bare address.
    DropSite,
    /// Key files, wallets and password stores.
    CredentialAccess,
    /// Writing what agents read: souls, memory, other skills.
    MemoryWrite,
    /// Something that stays: schedules, start-up files, keys for logging in.
    Persistence,
    /// Orders to the model against its user.
    ModelInstruction,
    /// Orders fetched at run time, which no version pins.
    RemoteInstruction,
    /// A package run or installed without a version.
    UnpinnedRunner,
    /// More asked for than the last approved version did.
    CapabilityGrowth,
    /// A declared secret that no file mentions.
    UnusedSecret,
    /// A name that is nearly another skill's.
    LookAlikeName,
    /// A part that was not looked at.
    Unscanned,
}

impl Rule {
    /// Every rule.
    pub const ALL: [Self; 22] = [
        Self::HiddenUnicode,
        Self::TerminalEscape,
        Self::PipeToShell,
        Self::ReverseShell,
        Self::DecodeAndExecute,
        Self::ArchivePassword,
        Self::SecretLiteral,
        Self::Binary,
        Self::NestedArchive,
        Self::UndeclaredEnvironment,
        Self::UndeclaredHost,
        Self::DropSite,
        Self::CredentialAccess,
        Self::MemoryWrite,
        Self::Persistence,
        Self::ModelInstruction,
        Self::RemoteInstruction,
        Self::UnpinnedRunner,
        Self::CapabilityGrowth,
        Self::UnusedSecret,
        Self::LookAlikeName,
        Self::Unscanned,
    ];
}

/// One hit of a rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = ScanFinding)]
pub struct Finding {
    /// Which rule.
    pub rule: Rule,
    /// How bad it is.
    pub severity: Severity,
    /// The file, safe to print.
    pub file: String,
    /// 1-based line.
    pub line: usize,
    /// What stands there, decoded, on one line, safe to print; secrets are masked.
    pub evidence: String,
    /// What it means and what to look at.
    pub message: String,
}

/// Collects findings, a bounded number of each rule.
#[derive(Default)]
pub(super) struct Findings {
    file: String,
    all: Vec<Finding>,
    in_file: BTreeMap<Rule, usize>,
    of_rule: BTreeMap<Rule, usize>,
    /// Where the first one was that is not listed.
    left_out: BTreeMap<Rule, (Severity, String, usize)>,
}

impl Findings {
    /// Goes on to another file.
    pub(super) fn open(&mut self, path: &str) {
        self.file = one_line(path);
        self.in_file.clear();
    }

    /// Notes a hit; false when no more of this rule will be listed for this file.
    pub(super) fn push(
        &mut self,
        rule: Rule,
        severity: Severity,
        line: usize,
        evidence: &str,
        message: impl Into<String>,
    ) -> bool {
        let (here, whole) = (self.in_file.entry(rule).or_default(), self.of_rule.entry(rule).or_default());
        if *here >= MAX_PER_FILE || *whole >= MAX_PER_RULE {
            let first = self.left_out.entry(rule).or_insert_with(|| (severity, self.file.clone(), line));
            first.0 = first.0.max(severity);
            return false;
        }
        (*here, *whole) = (*here + 1, *whole + 1);
        let (file, message) = (self.file.clone(), message.into());
        self.all.push(Finding { rule, severity, file, line, evidence: short(evidence), message });
        true
    }

    /// Notes a hit in a text, with the line around it as evidence.
    pub(super) fn at(
        &mut self,
        text: &Text<'_>,
        place: std::ops::Range<usize>,
        (rule, severity): (Rule, Severity),
        message: &str,
    ) -> bool {
        let (line, evidence) = (text.line(place.start), text.around(&place));
        match text.hidden_in() {
            None => self.push(rule, severity, line, &evidence, message),
            Some(how) => self.push(
                rule,
                severity.max(Severity::Warning),
                line,
                &evidence,
                format!("{message} (hidden in {how})"),
            ),
        }
    }

    pub(super) fn unscanned(&mut self, read: usize, size: usize) {
        self.push(
            Rule::Unscanned,
            Severity::Warning,
            1,
            &format!("{read} of {size} bytes"),
            "Only the beginning was looked at: read the rest yourself, or ask for smaller files",
        );
    }

    pub(super) fn finish(mut self) -> Vec<Finding> {
        for (rule, (severity, file, line)) in self.left_out {
            let message = "There are more hits of this rule, beginning here, which are not listed";
            self.all.push(Finding {
                rule,
                severity,
                file,
                line,
                evidence: String::new(),
                message: message.into(),
            });
        }
        self.all.sort_by(|a, b| {
            let order = |f: &Finding| (std::cmp::Reverse(f.severity), f.rule);
            order(a).cmp(&order(b)).then_with(|| (&a.file, a.line).cmp(&(&b.file, b.line)))
        });
        self.all.dedup();
        self.all
    }
}

/// Escaped, and cut to [`MAX_EVIDENCE`] characters.
fn short(text: &str) -> String {
    // Escapes only lengthen: what is beyond need not be looked at.
    let head: String = text.chars().take(MAX_EVIDENCE + 1).collect();
    let shown = one_line(&head);
    if shown.chars().count() <= MAX_EVIDENCE {
        return shown;
    }
    shown.chars().take(MAX_EVIDENCE - 1).chain(['…']).collect()
}
