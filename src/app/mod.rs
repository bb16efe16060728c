//! The use cases, one file per noun: every edge calls these, and only these.
//!
//! A `Hive` is everything that a supervisor holds. Nothing here knows HTTP or a terminal.

pub mod doctor;
pub mod types;
