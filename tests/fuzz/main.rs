//! Fuzz targets for everything that reads what strangers write: manifest, SKILL.md, reference, archive, and
//! what is done with a skill afterwards (scanner, difference, edits of a document).
//!
//! They run on stable Rust as ordinary tests: real files are mutated, a fixed number of times from a fixed
//! beginning. By hand longer and each time anew: `SKEP_FUZZ_SECONDS=180 cargo test --test fuzz -- --nocapture`.
//! Without the coverage feedback of a fuzzing engine, the dictionaries do its work of getting deep.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod documents;
mod mutate;
mod seeds;
mod targets;
