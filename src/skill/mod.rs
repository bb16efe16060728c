//! What a skill is: two shapes on disk (`manifest.json`, `SKILL.md`), one model, one digest.
//!
//! Everything here is pure: it works on bytes and listings that somebody else read.

pub mod model;
