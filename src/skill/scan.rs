//! The first scanner: rules that look into a skill's files for what malicious skills do (hidden text,
//! remote code, stolen keys, orders to the model), each hit with its rule, place and decoded evidence.
//!
//! Needs no model, runs nothing, and decides nothing: it advises whoever approves, while grants and
//! egress enforce. A skill without findings is not a safe skill.

mod declared;
mod encoded;
mod environment;
mod files;
mod finding;
mod hosts;
mod names;
mod pattern;
mod prompts;
mod runners;
mod secrets;
mod shell;
mod text;
mod traces;
mod unicode;

#[cfg(test)]
mod tests;

pub use finding::{Finding, Rule, Severity};

use self::{declared::Declared, finding::Findings, text::Text};
use super::{digest::excluded, model::Skill};
use crate::ids::SkillId;

/// Bytes of one file that are read by the rules.
const MAX_FILE: usize = 2 << 20;
/// Bytes of all files together that are read by the rules.
const MAX_TOTAL: usize = 16 << 20;
/// Encodings within encodings that are followed.
const MAX_DEPTH: usize = 3;

/// What is known besides the files.
#[derive(Debug, Clone, Copy)]
pub struct Context<'a> {
    /// What the version declares.
    pub skill: &'a Skill,
    /// The last approved version, if there is one.
    pub previous: Option<&'a Skill>,
    /// Ids of the registry's skills; the skill's own is passed over.
    pub known: &'a [SkillId],
}

/// Scans files given as path, bytes and executable bit.
#[must_use]
pub fn scan(files: &[(&str, &[u8], bool)], context: Context<'_>) -> Vec<Finding> {
    let mut scanner = Scanner::new(context);
    for (path, bytes, executable) in files {
        scanner.file(path, bytes, *executable);
    }
    scanner.finish()
}

/// Scans file by file, so that only one need be in memory.
pub struct Scanner<'a> {
    context: Context<'a>,
    declared: Declared,
    findings: Findings,
    left: usize,
}

impl<'a> Scanner<'a> {
    /// Begins with what is declared.
    #[must_use]
    pub fn new(context: Context<'a>) -> Self {
        let declared = Declared::of(context.skill);
        Self { context, declared, findings: Findings::default(), left: MAX_TOTAL }
    }

    /// Looks at one file; those outside of the skill's content are passed over.
    pub fn file(&mut self, path: &str, bytes: &[u8], executable: bool) {
        if excluded(path) {
            return;
        }
        self.findings.open(path);
        if files::check(bytes, &mut self.findings) {
            return;
        }
        let part = &bytes[..bytes.len().min(MAX_FILE).min(self.left)];
        self.left -= part.len();
        if part.len() < bytes.len() {
            self.findings.unscanned(part.len(), bytes.len());
        }
        let (text, hidden) = Text::read(path, part, executable);
        self.declared.seen(path, &text);
        unicode::check(&text, &hidden, &mut self.findings);
        for decoded in unicode::decoded(&hidden) {
            self.nested(&text.within(decoded.line, "invisible characters", decoded.bytes), 1);
        }
        self.everywhere(&text);
        secrets::check(&text, &mut self.findings);
        runners::check(&text, &mut self.findings);
        if text.is_script() {
            environment::check(&text, &self.declared, &mut self.findings);
            hosts::undeclared(&text, &self.declared, &mut self.findings);
        }
        self.unpack(&text, 0);
    }

    /// Everything found, the worst first, then by file and line.
    #[must_use]
    pub fn finish(mut self) -> Vec<Finding> {
        let (context, declared, findings) = (&self.context, &self.declared, &mut self.findings);
        names::look_alike(context, declared, findings);
        declared::growth(context, declared, findings);
        declared::unused(declared, findings);
        runners::servers(context.skill, declared, findings);
        self.findings.finish()
    }

    /// Rules that hold in every text, decoded ones too.
    fn everywhere(&mut self, text: &Text<'_>) {
        shell::check(text, &mut self.findings);
        traces::check(text, &mut self.findings);
        hosts::drop_sites(text, &mut self.findings);
        prompts::check(text, &mut self.findings);
    }

    fn unpack(&mut self, text: &Text<'_>, depth: usize) {
        for literal in encoded::literals(text) {
            if !files::inside(text, &literal, &mut self.findings) && depth < MAX_DEPTH {
                self.nested(&text.within(literal.line, literal.encoding, literal.bytes), depth + 1);
            }
        }
    }

    fn nested(&mut self, text: &Text<'_>, depth: usize) {
        self.everywhere(text);
        self.unpack(text, depth);
    }
}
