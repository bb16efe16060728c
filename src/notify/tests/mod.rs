//! Notices as their receivers meet them: over real sockets, from a real outbox.

mod delivery;
mod guard;
mod outbox;
mod server;
mod setup;
