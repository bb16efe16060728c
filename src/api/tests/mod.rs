//! The edge through real sockets: who may do what, what refusals look like, what streams.

mod annabelle;
mod attach;
mod backup;
mod behaviour;
mod client;
mod connections;
mod description;
mod documents;
mod doors;
mod events;
mod faces;
mod jobs;
mod mail;
mod mcp;
mod problems;
mod runs;
pub(crate) mod setup;
mod skills;
