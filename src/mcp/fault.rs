//! What goes wrong with a server, in words.

use std::time::Duration;

use rmcp::service::{ClientInitializeError, ServiceError};
use serde_json::Value;

/// Bytes of one message.
pub(super) const MAX_MESSAGE: usize = 8 << 20;
/// Characters that are repeated of what a server says.
const MAX_WORDS: usize = 500;

/// Why a server did not do what it was asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum McpFault {
    /// It did not shake hands in time.
    #[error("it did not answer the MCP handshake within {} s", .0.as_secs())]
    Handshake(Duration),
    /// It did not answer a request in time.
    #[error("it did not answer within {} s", .0.as_secs_f64())]
    Silent(Duration),
    /// Whoever asked is gone.
    #[error("the call was ended: its caller is gone")]
    Cancelled,
    /// The connection ended.
    #[error("it closed the connection")]
    Closed,
    /// It sent more than it may, and was cut off.
    #[error("it was cut off: {0}")]
    Flood(&'static str),
    /// A message was larger than is taken.
    #[error("it sent a message of more than {} MiB, which is not taken; ask it for less", MAX_MESSAGE >> 20)]
    TooLarge,
    /// It refused, with a code and words.
    #[error("it answered: {message} (code {code})")]
    Refused {
        /// JSON-RPC's number.
        code: i32,
        /// Its words.
        message: String,
        /// What it said beside them.
        data: Option<Value>,
    },
    /// It keeps to no protocol that is spoken here.
    #[error("{0}")]
    Odd(String),
    /// It cannot be reached.
    #[error("{0}")]
    Unreachable(String),
}

impl McpFault {
    /// Whether the connection is of no more use.
    #[must_use]
    pub fn is_final(&self) -> bool {
        matches!(self, Self::Handshake(_) | Self::Closed | Self::Flood(_) | Self::Unreachable(_))
    }
}

impl From<ServiceError> for McpFault {
    fn from(error: ServiceError) -> Self {
        match error {
            ServiceError::McpError(said) => {
                Self::Refused { code: said.code.0, message: excerpt(&said.message), data: said.data }
            }
            ServiceError::TransportClosed => Self::Closed,
            ServiceError::TransportSend(e) => Self::Unreachable(excerpt(&e.error.to_string())),
            ServiceError::Cancelled { .. } => Self::Cancelled,
            ServiceError::Timeout { timeout } => Self::Silent(timeout),
            other => Self::Odd(excerpt(&other.to_string())),
        }
    }
}

impl From<ClientInitializeError> for McpFault {
    fn from(error: ClientInitializeError) -> Self {
        match error {
            ClientInitializeError::ConnectionClosed(_) => Self::Closed,
            ClientInitializeError::JsonRpcError(said) => {
                Self::Refused { code: said.code.0, message: excerpt(&said.message), data: said.data }
            }
            ClientInitializeError::TransportError { error, .. } => {
                Self::Unreachable(excerpt(&error.error.to_string()))
            }
            ClientInitializeError::Cancelled => Self::Cancelled,
            other => Self::Odd(format!("it does not keep to MCP: {}", excerpt(&other.to_string()))),
        }
    }
}

/// The beginning of what a stranger says, on one line.
pub(super) fn excerpt(text: &str) -> String {
    let words = text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|w| !w.is_empty());
    let line: String = words.collect::<Vec<_>>().join(" ");
    line.chars().take(MAX_WORDS).collect()
}
