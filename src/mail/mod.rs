//! Mail between agents and the operator (systems.md D14): who writes to whom, how much of it, what a thread may do by
//! itself, and what an agent is told of a message.
//!
//! Pure: no files, no clock. Nothing here decides when a message is delivered.

pub mod draft;
pub mod letter;
pub mod thread;

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::ids::{AgentId, InvalidName};

/// Name of the job of an agent that answers its mail.
pub const JOB: &str = "answer-mail";

/// Who writes and is written to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Party {
    /// The operator.
    Operator,
    /// The hive itself: it tells of mail that did not arrive, and is never written to.
    Hive,
    /// An agent.
    Agent(AgentId),
}

impl Party {
    /// Who asks: an agent, or as none the operator.
    #[must_use]
    pub fn of(caller: Option<&AgentId>) -> Self {
        caller.map_or(Self::Operator, |agent| Self::Agent(agent.clone()))
    }

    /// As it is written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::Operator => "operator",
            Self::Hive => "skep",
            Self::Agent(agent) => agent.as_str(),
        }
    }

    /// The agent, when it is one.
    #[must_use]
    pub fn agent(&self) -> Option<&AgentId> {
        match self {
            Self::Agent(agent) => Some(agent),
            Self::Operator | Self::Hive => None,
        }
    }
}

impl fmt::Display for Party {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Party {
    type Err = InvalidName;

    fn from_str(text: &str) -> Result<Self, InvalidName> {
        match text {
            "operator" => Ok(Self::Operator),
            "skep" => Ok(Self::Hive),
            name => name.parse().map(Self::Agent),
        }
    }
}

impl TryFrom<String> for Party {
    type Error = InvalidName;

    fn try_from(text: String) -> Result<Self, InvalidName> {
        text.parse()
    }
}

impl From<Party> for String {
    fn from(party: Party) -> Self {
        party.as_str().to_owned()
    }
}

/// What became of a message for one of those it was written to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// It waits for its turn, or a run is answering it.
    Queued,
    /// It is in the inbox; nobody is woken for it any more.
    Delivered,
    /// It was answered.
    Answered,
    /// The thread went on by itself for long enough: the operator decides.
    Held,
    /// It did not arrive, or could not be answered; `reason` says why.
    Dead,
}

impl Status {
    /// Every status; of several recipients the first that one of them has stands for the message.
    pub const ALL: [Self; 5] = [Self::Held, Self::Dead, Self::Queued, Self::Delivered, Self::Answered];

    /// As it is written.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Delivered => "delivered",
            Self::Answered => "answered",
            Self::Held => "held",
            Self::Dead => "dead",
        }
    }

    /// Reads what [`Self::as_str`] wrote.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == text)
    }

    /// One for several recipients: that which needs somebody's eye most.
    #[must_use]
    pub fn overall(several: &[Self]) -> Self {
        Self::ALL.into_iter().find(|status| several.contains(status)).unwrap_or(Self::Delivered)
    }
}

/// A file that came with a message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attachment {
    /// Its name, without a folder.
    pub name: String,
    /// Bytes.
    pub size: u64,
    /// SHA-256 of its content, in hex: where the hive keeps it.
    pub digest: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parties_read_back_as_they_are_written() {
        for text in ["operator", "skep", "writer"] {
            assert_eq!(text.parse::<Party>().unwrap().to_string(), text);
        }
        assert!("Not a name".parse::<Party>().is_err());
        assert_eq!(Party::of(None), Party::Operator);
    }

    #[test]
    fn of_several_recipients_the_one_that_needs_an_eye_stands_for_the_message() {
        use Status::{Answered, Dead, Delivered, Held, Queued};
        for (several, one) in [
            (vec![Answered, Answered], Answered),
            (vec![Answered, Delivered], Delivered),
            (vec![Delivered, Queued], Queued),
            (vec![Queued, Dead], Dead),
            (vec![Dead, Held], Held),
            (vec![], Delivered),
        ] {
            assert_eq!(Status::overall(&several), one);
        }
        for status in Status::ALL {
            assert_eq!(Status::parse(status.as_str()), Some(status));
        }
    }
}
