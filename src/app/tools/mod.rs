//! The tools of an agent: which there are, and calls of them.
//!
//! Everybody who calls a tool (a job, a model in a container, an MCP client, a person) comes through `call`. Processes
//! run in the agent's container; nothing of a skill runs here.

mod ask;
pub mod builtin;
pub mod call;
mod desk;
mod hints;
mod lacking;
mod list;
pub mod servers;
pub mod types;

pub use desk::{Desk, ServerKey, ServerTool, ServerTools};
pub use list::known;
pub use servers::Servers;
