//! The use cases, one file per noun: every edge calls these, and only these.
//!
//! A `Hive` is everything that a supervisor holds. Nothing here knows HTTP or a terminal.

pub mod types;

mod hive_stub;
pub use hive_stub::{AttachInput, AttachOutput, Attached, Hive, LogRequest, LogStream, Result, SkillFilter};
