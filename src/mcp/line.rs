//! The line from a server to the MCP client whose call it works on, for what it says beside its answer.
//!
//! The client's end is a bounded queue that lives as long as the call. A server never waits for a client: what does not
//! fit into the queue is not heard. Secrets are masked before anything is queued, as in answers.
#![expect(deprecated, reason = "clients and servers up to 2025-11-25 log, sample and have roots")]

use std::sync::Arc;

use rmcp::{
    ErrorData,
    model::{
        ClientResult, ElicitRequestParams, ErrorCode, LoggingLevel, LoggingMessageNotificationParam,
        ProgressNotificationParam, ServerRequest,
    },
};
use serde::{Serialize, de::DeserializeOwned};
use tokio::sync::{mpsc, oneshot};

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
    /// What it may be asked before it gets its answer.
    pub asks: Asks,
}

/// What a client announced that a server may ask of it.
#[derive(Debug, Clone, Copy, Default)]
pub struct Asks {
    /// Its model's words.
    pub sampling: bool,
    /// Its user's answers to a form.
    pub elicitation: bool,
    /// The folders that it works in.
    pub roots: bool,
}

/// What a server said.
#[derive(Debug)]
pub enum Said {
    /// How far it is. The token is the server's.
    Progress(ProgressNotificationParam),
    /// A log message.
    Log(LoggingMessageNotificationParam),
    /// A question, which somebody waits for the answer to.
    Question(Question),
}

/// A question of a server.
#[derive(Debug)]
pub struct Question {
    /// What it asks.
    pub request: ServerRequest,
    /// Where the answer goes; closed when nobody waits for it any more.
    pub answer: oneshot::Sender<Result<ClientResult, ErrorData>>,
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
    /// What its questions begin with.
    name: String,
}

impl Speaker {
    /// A server of this name that speaks into this line, without secrets.
    #[must_use]
    pub fn new(line: Line, masker: Masker, name: String) -> Self {
        Self { line, masker, name }
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

    /// Asks the client.
    ///
    /// # Errors
    /// The client did not announce that it can be asked this.
    pub(super) fn ask(
        &self,
        request: ServerRequest,
    ) -> Result<oneshot::Receiver<Result<ClientResult, ErrorData>>, ErrorData> {
        let request = self.fit(request)?;
        let request =
            self.masked(&request).ok_or_else(|| ErrorData::invalid_params("it is malformed", None))?;
        let (answer, answered) = oneshot::channel();
        let full = |_| ErrorData::internal_error("the client takes no more messages", None);
        self.line.to.try_send(Said::Question(Question { request, answer })).map_err(full)?;
        Ok(answered)
    }

    /// A question as a client may be asked it.
    fn fit(&self, mut request: ServerRequest) -> Result<ServerRequest, ErrorData> {
        let asks = self.line.ears.asks;
        match &mut request {
            ServerRequest::CreateMessageRequest(asked) if asks.sampling => {
                let params = &mut asked.params;
                if params.tools.is_some() || params.tool_choice.is_some() {
                    return Err(ErrorData::invalid_params("sampling with tools was not announced", None));
                }
                // A server gets no context of others.
                params.include_context = None;
            }
            ServerRequest::ElicitRequest(asked) if asks.elicitation => match &mut asked.params {
                // Whoever is asked shall know that it is not the hive that asks.
                ElicitRequestParams::FormElicitationParams { message, .. } => {
                    *message = format!("[{}] {message}", self.name);
                }
                _ => return Err(ErrorData::invalid_params("only forms were announced, and no URLs", None)),
            },
            ServerRequest::ListRootsRequest(_) if asks.roots => {}
            _ => {
                let why = "whoever called is no MCP client that announced that it can be asked this";
                return Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, why, None));
            }
        }
        Ok(request)
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
