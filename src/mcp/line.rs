//! The line from a server to the MCP client whose call it works on, for what it says beside its answer.
//!
//! The client's end is a bounded queue that lives as long as the call. A server never waits for a client: what does not
//! fit into the queue is not heard. Secrets are masked before anything is queued, as in answers.
#![expect(deprecated, reason = "clients and servers up to 2025-11-25 log, sample and have roots")]

use std::sync::Arc;

use rmcp::model::{LoggingLevel, LoggingMessageNotificationParam, ProgressNotificationParam};
use serde::{Serialize, de::DeserializeOwned};
use tokio::sync::mpsc;

use crate::secrets::mask::Masker;

/// What a client has not been told yet.
const QUEUE: usize = 256;

/// What a client can take beside the answer to its call.
#[derive(Debug, Clone, Default)]
pub struct Ears {
    /// It wants to know of progress.
    pub progress: bool,
    /// The least grave log messages that it wants; none: it wants none.
    pub logs: Option<LoggingLevel>,
}

/// What a server said.
#[derive(Debug)]
pub enum Said {
    /// How far it is. The token is the server's.
    Progress(ProgressNotificationParam),
    /// A log message.
    Log(LoggingMessageNotificationParam),
}

/// The server's end of a line.
#[derive(Debug, Clone)]
pub struct Line {
    ears: Arc<Ears>,
    to: mpsc::Sender<Said>,
}

impl Line {
    /// A line to a client, and what it hears there.
    #[must_use]
    pub fn new(ears: Ears) -> (Self, mpsc::Receiver<Said>) {
        let (to, heard) = mpsc::channel(QUEUE);
        (Self { ears: Arc::new(ears), to }, heard)
    }
}

/// A server on the line.
#[derive(Debug, Clone)]
pub struct Speaker {
    line: Line,
    masker: Masker,
}

impl Speaker {
    /// A server that speaks into this line, without secrets.
    #[must_use]
    pub fn new(line: Line, masker: Masker) -> Self {
        Self { line, masker }
    }

    pub(super) fn ears(&self) -> &Ears {
        &self.line.ears
    }

    pub(super) fn progress(&self, params: &ProgressNotificationParam) {
        if self.line.ears.progress {
            self.say(self.masked(params).map(Said::Progress));
        }
    }

    pub(super) fn log(&self, params: &LoggingMessageNotificationParam) {
        if self.line.ears.logs.is_some_and(|least| grade(params.level) >= grade(least)) {
            self.say(self.masked(params).map(Said::Log));
        }
    }

    fn say(&self, said: Option<Said>) {
        if let Some(said) = said
            && self.line.to.try_send(said).is_err()
        {
            tracing::debug!("an MCP client does not hear what a server says beside its answer");
        }
    }

    fn masked<T: Serialize + DeserializeOwned>(&self, said: &T) -> Option<T> {
        serde_json::from_value(self.masker.mask_json(&serde_json::to_value(said).ok()?)).ok()
    }
}

/// How grave a message is.
pub(super) fn grade(level: LoggingLevel) -> u8 {
    level as u8
}
