//! Keeps the agents as `skep.toml` wants them.
//!
//! Level-triggered: every signal only wakes the driver, which reads what is desired and what is
//! there, plans, and acts. Start, crash, restart and engine outage are one code path.

pub mod actions;
pub mod agent;
pub mod binaries;
pub mod disk;
pub mod doors;
pub mod driver;
pub mod layout;
pub mod plan;
pub mod prepare;
pub mod soul;
pub mod state;
pub mod usable;
pub mod wall;
