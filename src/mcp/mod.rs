//! Clients of MCP servers: connect over a pair of streams or over streamable HTTP, list tools, call them.
//!
//! A server is a stranger: everything that it sends is bounded in size, number and time. Starts no process, keeps no
//! secret, decides nothing about who may call what.

mod client;
mod fault;
mod gate;
mod http;

pub use client::{Answer, Connection, RemoteTool, Watch};
pub use fault::McpFault;
pub use http::{Remote, Rules};

#[cfg(test)]
mod tests;
