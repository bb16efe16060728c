//! The use cases, one file per noun: every edge calls these, and only these.
//!
//! A `Hive` is everything that a supervisor holds. Nothing here knows HTTP or a terminal.

pub mod agent_skills;
mod agents;
pub mod backup;
mod clock;
pub mod doctor;
pub mod documents;
pub mod events;
mod exec;
pub mod faces;
pub mod figures;
pub mod health;
pub mod hive;
pub mod job_types;
pub mod jobs;
mod logs;
pub mod mail;
pub mod model_watch;
pub mod runs;
mod secrets;
pub mod skills;
mod sync;
pub mod tasks;
mod terminal;
pub mod tools;
pub mod types;
mod uptake;
pub mod variables;
pub mod world;

/// Result of use cases.
pub type Result<T> = std::result::Result<T, types::AppError>;

pub use exec::{AttachInput, AttachOutput, Attached};
pub use hive::Hive;
pub use logs::{LogRequest, LogStream};
pub use runs::RunOutputRequest;
