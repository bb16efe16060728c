//! Clients of MCP servers: connect over a pair of streams or over streamable HTTP, list what they offer, call it,
//! hear what they say and ask meanwhile.
//!
//! A server is a stranger: everything that it sends is bounded in size, number and time. Starts no process, keeps no
//! secret, decides nothing about who may call what.

mod calls;
mod client;
mod fault;
mod gate;
mod http;
mod line;
mod requests;
mod updates;

pub use client::{Connection, Watch};
pub use fault::McpFault;
pub use http::{Remote, Rules};
pub use line::{Again, Asks, Ears, Instead, Line, MAX_STATE, Question, Said, Slot, Speaker};
pub use requests::{Answer, Offers, RemoteTool};
pub use rmcp::model::{GetPromptResult, Prompt, ReadResourceResult, Resource, ResourceTemplate};
pub use updates::Followed;

/// How much its library logs: it warns of every refusal, with nobody's name.
pub const QUIET: &str = "rmcp=error";

#[cfg(test)]
mod tests;
