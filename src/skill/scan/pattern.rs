//! Tables of expressions: most rules are one. Matching takes time linear in the text.
//!
//! Expressions are over bytes and ASCII, `^` and `$` stand at lines, and none looks beyond a line unless
//! it names the line end: so one hit is one place to read.

use regex::bytes::{Regex, RegexBuilder};

use super::{
    finding::{Findings, Rule, Severity},
    text::Text,
};

/// A row of a rule's table.
pub(super) struct Pattern {
    pub(super) rule: Rule,
    /// In scripts and in data.
    pub(super) severity: Severity,
    /// In prose.
    pub(super) in_prose: Severity,
    pub(super) expression: &'static str,
    /// A hit is none when this is found near it in its line.
    pub(super) unless: Option<&'static str>,
    pub(super) message: &'static str,
}

/// A table made ready.
pub(super) struct Table(Vec<(Regex, Option<Regex>, &'static Pattern)>);

/// Compiles an expression; all are constants, and a test compiles each.
pub(super) fn regex(expression: &str) -> Regex {
    let built = RegexBuilder::new(expression).unicode(false).multi_line(true).size_limit(8 << 20).build();
    built.unwrap_or_else(|e| panic!("the expression {expression} is not valid: {e}"))
}

impl Table {
    pub(super) fn new(patterns: &'static [Pattern]) -> Self {
        let ready = |p: &'static Pattern| (regex(p.expression), p.unless.map(regex), p);
        Self(patterns.iter().map(ready).collect())
    }

    /// Notes every hit in a text.
    pub(super) fn check(&self, text: &Text<'_>, findings: &mut Findings) {
        for (regex, unless, pattern) in &self.0 {
            let severity = if text.is_prose() { pattern.in_prose } else { pattern.severity };
            let mut last = 0;
            for hit in regex.find_iter(&text.bytes) {
                let place = trimmed(&text.bytes, hit.range());
                let line = text.line_range(place.start);
                // One hit of an expression a line is enough.
                if line.end < last || unless.as_ref().is_some_and(|u| u.is_match(text.near(&place))) {
                    continue;
                }
                last = line.end + 1;
                if !findings.at(text, place, (pattern.rule, severity), pattern.message) {
                    break;
                }
            }
        }
    }
}

/// Without the line ends that an expression took along in front.
fn trimmed(bytes: &[u8], place: std::ops::Range<usize>) -> std::ops::Range<usize> {
    let lead = bytes[place.clone()].iter().take_while(|b| b.is_ascii_whitespace()).count();
    if lead == place.len() { place } else { place.start + lead..place.end }
}
