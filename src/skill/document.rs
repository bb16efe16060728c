//! A skill as one markdown document (systems.md B1, B3): the value, what is asked of it, and its SKILL.md.
//!
//! Pure. Where documents are kept, who may change them and what counts their versions is `app::documents`.

mod args;
mod edit;
mod emit;
mod text;

use jiff::Timestamp;

pub use args::{Call, Create, Mistake, Tool, Update, parse, patch};
pub use edit::{Edit, Operation};
pub use text::Text;

use crate::ids::SkillId;

/// Most characters of a title.
pub const MAX_TITLE: usize = 200;
/// Most characters of a description: what the SKILL.md format allows.
pub const MAX_DESCRIPTION: usize = 1024;
/// Most tags, and most characters of one.
pub const MAX_TAGS: (usize, usize) = (50, 64);

/// Who wrote a document (B1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// The operator, or whoever made skep.
    User,
    /// An agent.
    Agent,
}

impl Source {
    /// `user` or `agent`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Agent => "agent",
        }
    }
}

/// A document with all that is known of it (B1).
#[derive(Debug, Clone, PartialEq)]
pub struct Document {
    /// Its unique slug: the skill's id.
    pub slug: SkillId,
    /// What it says.
    pub text: Text,
    /// Who wrote it.
    pub source: Source,
    /// 1 when it was made, and one more for each change since.
    pub version: u64,
    /// A disabled one is not listed.
    pub enabled: bool,
    /// When it was made.
    pub created_on: Timestamp,
    /// When it was changed last.
    pub modified_on: Timestamp,
}

#[cfg(test)]
#[path = "document/tests.rs"]
mod tests;
