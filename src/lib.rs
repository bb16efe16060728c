//! skep: a container orchestrator for AI agents. Every agent in a hardened container of its own, with
//! versioned skills, granted secrets and a prompt; kept as `skep.toml` says.
//!
//! The house from below; a module uses only what stands on its floor or lower (`tests/architecture.rs`
//! reads the source and fails on a breach):
//!
//! 1. `ids`, `error`, `fault`, `paths`, `tls`, [`wire`]: names, faults, places, and what both programs say to each other.
//! 2. Pure: `mail`, `skill`, `resolver`, `registry::index`, `sandbox::{spec, prompt}`, `supervisor::{state, plan}`,
//!    `secrets::grants`, `config::model`, `scheduler::{job, preflight, rules, request, trigger, due}`,
//!    `runs::{state, result, refusal}`, `notify::{allow, message, sign, throttle}`, `tools`. No runtime, no files, no clock: `now`
//!    is a parameter.
//! 3. Adapters: `config`, `db`, `engine`, `images`, `init`, `mcp`, `notify`, `outbound`, `registry`, `sandbox`,
//!    `secrets`, `watcher`.
//! 4. `app`, the use cases, and `supervisor`, the driver.
//! 5. `api`, the HTTP edge.
//! 6. `daemon`, which builds everything; then `cli`, which starts it, and otherwise talks HTTP.
//!
//! Invariants:
//! - Every signal only wakes the driver, which reads everything and plans again. Nothing is planned on a partial
//!   listing. One step per agent at a time.
//! - A container is adopted after a comparison with its specification and with the mounts that its init sees.
//! - Published bytes never change; what an agent can write is copied before it is looked at.
//! - What an agent-tier run starts is held to that run at the agent's door, by the runner above whoever connects.
//! - Secrets have no `Debug` and no `Serialize`; they travel from the store to the init, and to the targets of notices
//!   that name them, and nowhere else.
//! - bollard stays in `engine/docker*`, rusqlite in `db`, axum in `api`, rmcp in `mcp` and `api`, the crate notify in
//!   `watcher`; the environment is read in `config::env` alone; only `bin/` ends the process. No lock is held across an `.await`.

#[cfg(feature = "host")]
pub mod api;
#[cfg(feature = "host")]
pub mod app;
#[cfg(feature = "host")]
pub mod cli;
#[cfg(feature = "host")]
pub mod config;
#[cfg(feature = "host")]
pub mod daemon;
#[cfg(feature = "host")]
pub mod db;
#[cfg(feature = "host")]
pub mod engine;
#[cfg(feature = "host")]
pub mod error;
#[cfg(feature = "host")]
pub mod fault;
#[cfg(feature = "host")]
pub mod ids;
#[cfg(feature = "host")]
pub mod images;
#[cfg(feature = "host")]
pub mod init;
#[cfg(feature = "host")]
pub mod mail;
#[cfg(feature = "host")]
pub mod mcp;
#[cfg(feature = "host")]
pub mod notify;
#[cfg(feature = "host")]
mod outbound;
#[cfg(feature = "host")]
pub mod paths;
#[cfg(feature = "host")]
pub mod registry;
#[cfg(feature = "host")]
pub mod resolver;
#[cfg(feature = "host")]
pub mod runs;
#[cfg(feature = "host")]
pub mod sandbox;
#[cfg(feature = "host")]
pub mod scheduler;
#[cfg(feature = "host")]
pub mod secrets;
#[cfg(feature = "host")]
pub mod skill;
#[cfg(feature = "host")]
pub mod supervisor;
#[cfg(feature = "host")]
pub mod tls;
#[cfg(feature = "host")]
pub mod tools;
#[cfg(feature = "host")]
pub mod watcher;
pub mod wire;
