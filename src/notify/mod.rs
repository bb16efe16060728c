//! Notices to people and programs outside: webhooks, Telegram, ntfy.
//!
//! What is to be told is written to the outbox in the transaction of what it tells of; [`outbox`] delivers it, at
//! least once, and in order for each target. Nothing here decides what deserves a notice, and nothing reaches an
//! address of this machine or its network unless `[notify] allow` lists it.

pub mod allow;
mod guard;
pub mod message;
pub mod outbox;
pub mod probe;
mod send;
mod sign;
pub mod target;
pub mod throttle;

#[cfg(test)]
mod tests;

pub use message::{Notice, NoticeKind};
pub use outbox::Pace;
pub use target::Targets;
