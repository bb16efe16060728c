//! When jobs are due: what a job is, when its trigger fires, and what is done about each fire time.
//!
//! `job`, `preflight`, `rules`, `request`, `trigger` and `due` are pure. The driver that sleeps until the next fire time is in `app::runs`.

pub mod due;
pub mod job;
pub mod preflight;
pub mod request;
pub mod rules;
pub mod trigger;
