//! The program as people run it: commands, output, exit codes.
#![allow(clippy::unwrap_used, missing_docs)]

mod attach;
mod backup;
mod jobs;
mod offline;
mod scheduled;
mod server;
mod shell;
mod skill_jobs;
mod skills;
mod supervised;
mod support;
mod up;
