//! Skills: listing, showing, publishing, judging, and what references resolve to.

mod batch;
pub(super) mod cache;
mod judge;
mod list;
mod publish;
mod resolve;
mod review;
mod rollback;
mod rules;
mod seen;
#[cfg(test)]
mod tests;
mod text;
mod upload;
mod version;

pub(super) use batch::Waiting;
pub use judge::Verdict;
pub(super) use list::find;
pub use list::{Found, SkillFilter};
pub use publish::{Only, Outcome, PublishOptions, Published};
pub use review::SkillReview;
pub use upload::Uploaded;
pub use version::Archive;
pub(super) use version::{blocking, stream};

use crate::registry::index::Trust;

/// Trust as the API writes it.
pub(super) fn trust_name(trust: Trust) -> String {
    match trust {
        Trust::Trusted => "trusted",
        Trust::Approved => "approved",
        Trust::Pending => "pending",
        Trust::Rejected => "rejected",
    }
    .to_owned()
}
