//! Clients of MCP servers: connect over a pair of streams or over streamable HTTP, list tools, call them, hear what
//! servers say meanwhile.
//!
//! A server is a stranger: everything that it sends is bounded in size, number and time. Starts no process, keeps no
//! secret, decides nothing about who may call what.

mod calls;
mod client;
mod fault;
mod gate;
mod http;
mod line;

pub use client::{Answer, Connection, RemoteTool, Watch};
pub use fault::McpFault;
pub use http::{Remote, Rules};
pub use line::{Asks, Ears, Line, Question, Said, Speaker};

#[cfg(test)]
mod tests;
