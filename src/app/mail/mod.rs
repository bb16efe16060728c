//! Mail between agents and the operator (systems.md D14): sent, delivered, answered, held, returned.
//!
//! Everything about a message is in the database; whatever wakes the postman, it looks at all that waits again. A
//! message to an agent that has a `command` is answered by a run of its job `answer-mail`, one after the other; to others it is
//! put into the inbox. No agent reads what was not written by it or to it.

mod answer;
mod deliver;
mod files;
mod read;
mod send;
pub mod types;

pub use self::deliver::run;
pub use crate::{db::mail::Folder, mail::Party};
