//! Which version of each skill an agent gets: exact, ranges and dependencies solved together.
//!
//! Pure: index, references and lock in; locked versions or an explanation out. `solve` is the
//! entrance, `explain` puts answers and refusals into words, `lock` is `skep.lock`.

mod candidates;
mod conflict;
mod version_set;
mod warn;

pub mod explain;
pub mod lock;
pub mod node;
pub mod own;
pub mod solve;

pub use explain::{Conflict, explain};
pub use lock::{Lock, Locked, LockedAgent};
pub use node::check_node;
pub use solve::{Request, Resolution, Resolved, Update, solve};

#[cfg(test)]
mod tests;
