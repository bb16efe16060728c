//! What a skill is: two shapes on disk (`manifest.json`, `SKILL.md`), one model, one digest.
//!
//! Everything here is pure: it works on bytes and listings that somebody else read.

pub mod check;
pub mod diff;
pub mod digest;
pub mod document;
mod draft;
mod fields;
pub mod load;
mod manifest;
pub mod model;
mod repair;
pub mod scan;
mod skill_md;
pub mod source;
pub mod strict;
pub mod unavailable;
pub mod vars;
mod yaml;

#[cfg(test)]
mod tests;
