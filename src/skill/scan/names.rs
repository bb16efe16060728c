//! Names that are nearly those of another skill.

use super::{
    Context,
    declared::Declared,
    finding::{Findings, Rule, Severity::Warning},
};
use crate::ids::SkillId;

/// Names shorter than this are near to everything.
const SHORTEST: usize = 5;
/// From this length on, two letters may differ.
const LONG: usize = 10;

pub(super) fn look_alike(context: &Context<'_>, declared: &Declared, findings: &mut Findings) {
    let id = context.skill.id.as_str();
    let name = context.skill.name.trim();
    for known in context.known.iter().map(SkillId::as_str).filter(|known| *known != id) {
        let message = if near(id, known) {
            format!("The id {id} is nearly {known}, which another skill has: see that it is meant")
        } else if name.eq_ignore_ascii_case(known) {
            format!("The name is the id of another skill, {known}")
        } else {
            continue;
        };
        let (file, line) = declared.place(id);
        findings.open(file);
        if !findings.push(Rule::LookAlikeName, Warning, line, id, message) {
            break;
        }
    }
}

/// One slip of the hand apart, or the same to the eye.
fn near(a: &str, b: &str) -> bool {
    let (short, long) = (a.len().min(b.len()), a.len().max(b.len()));
    if short < SHORTEST || long - short > 2 {
        return false;
    }
    if folded(a) == folded(b) {
        return true;
    }
    // `report-2` and `report-3` are a series, no deceit.
    let letters = |s: &str| s.replace(|c: char| c.is_ascii_digit(), "");
    let series = letters(a).trim_end_matches(['-', 'v']) == letters(b).trim_end_matches(['-', 'v']);
    let most = if short >= LONG { 2 } else { 1 };
    !series && strsim::osa_distance(a, b) <= most
}

/// Without what the eye passes over.
fn folded(id: &str) -> String {
    id.replace('-', "")
        .replace("rn", "m")
        .replace("vv", "w")
        .replace('0', "o")
        .replace(['1', 'i'], "l")
        .replace('5', "s")
}
