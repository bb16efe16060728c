//! Each rule's true and false cases, what real skills give, and hostile bytes.

mod cases;
mod corpus;
mod hostile;
mod places;

use super::{Context, Finding, Rule, Severity, scan};
use crate::{
    ids::SkillId,
    skill::{
        load::read,
        model::Skill,
        source::{Limits, Source},
    },
};

const MD: &str = "---\nname: a-skill\ndescription: d\nrequires:\n  env: [DECLARED_KEY]\nvars:\n  ENDPOINT: https://declared.dev/x\n---\nUses DECLARED_KEY.\n";

fn skill(md: &str) -> Skill {
    let source = Source::from_memory(&[("SKILL.md", md.as_bytes(), false)]);
    let report = read(&source, Limits::default());
    report.skill.unwrap_or_else(|| panic!("{:?}", report.errors))
}

/// What is found in one file beside an ordinary SKILL.md.
fn found(path: &str, content: impl AsRef<[u8]>) -> Vec<Finding> {
    let skill = skill(MD);
    let context = Context { skill: &skill, previous: None, known: &[] };
    scan(&[("SKILL.md", MD.as_bytes(), false), (path, content.as_ref(), false)], context)
}

/// What is found in a SKILL.md against an approved one, among known ids.
fn found_in(md: &str, previous: Option<&str>, known: &[&str]) -> Vec<Finding> {
    let (new, old) = (skill(md), previous.map(skill));
    let known: Vec<SkillId> = known.iter().map(|id| id.parse().unwrap()).collect();
    let context = Context { skill: &new, previous: old.as_ref(), known: &known };
    scan(&[("SKILL.md", md.as_bytes(), false)], context)
}

fn rules(findings: &[Finding]) -> Vec<Rule> {
    findings.iter().map(|f| f.rule).collect()
}

fn worst(findings: &[Finding], rule: Rule) -> Option<Severity> {
    findings.iter().filter(|f| f.rule == rule).map(|f| f.severity).max()
}
