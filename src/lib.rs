//! skep: a container orchestrator for AI agents.
//!
//! The module list is the map; `README.md` (Architecture) tells the invariants.

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
pub mod ids;
#[cfg(feature = "host")]
pub mod images;
#[cfg(feature = "host")]
pub mod init;
#[cfg(feature = "host")]
pub mod paths;
#[cfg(feature = "host")]
pub mod registry;
#[cfg(feature = "host")]
pub mod resolver;
#[cfg(feature = "host")]
pub mod sandbox;
#[cfg(feature = "host")]
pub mod secrets;
#[cfg(feature = "host")]
pub mod skill;
#[cfg(feature = "host")]
pub mod supervisor;
#[cfg(feature = "host")]
pub mod watcher;
pub mod wire;
