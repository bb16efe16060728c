//! The line from a server to the MCP client whose call it works on, for what it says beside its answer.
//!
//! The client's end is a bounded queue that lives as long as the call. A server never waits for a client: what does not
//! fit into the queue is not heard. Secrets are masked before anything is queued, as in answers.
#![expect(deprecated, reason = "clients and servers up to 2025-11-25 log, sample and have roots")]

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use rmcp::{
    ErrorData,
    model::{
        ClientCapabilities, ClientResult, ElicitRequestParams, ElicitationCapability, ErrorCode,
        FormElicitationCapability, InputRequest, InputRequiredResult, InputResponses, LoggingLevel,
        LoggingMessageNotificationParam, ProgressNotificationParam, RootsCapabilities, SamplingCapability,
        ServerRequest,
    },
};
use serde::{Serialize, de::DeserializeOwned};
use tokio::sync::{mpsc, oneshot};

use crate::secrets::mask::Masker;

/// What a client has not been told yet.
const QUEUE: usize = 256;
/// Bytes of what a client keeps for a server until it calls again.
pub const MAX_STATE: usize = 64 << 10;
/// Questions that a client is asked instead of an answer.
const MAX_QUESTIONS: usize = 32;

/// What a client can take beside the answer to its call.
#[derive(Debug, Clone, Default)]
pub struct Ears {
    /// It wants to know of progress.
    pub progress: bool,
    /// The least grave log messages that it wants; none: it wants none.
    pub logs: Option<LoggingLevel>,
    /// What it may be asked before it gets its answer.
    pub asks: Asks,
    /// It is asked instead of being answered, and calls again with its answers (2026-07-28).
    pub instead: bool,
    /// It calls again, with this.
    pub again: Option<Again>,
}

/// What a client was asked for instead of being answered: for the server, as the client sent it.
#[derive(Debug, Clone, Default)]
pub struct Again {
    /// Its answers.
    pub responses: Option<InputResponses>,
    /// What the server gave it to bring back.
    pub state: Option<String>,
}

/// What a client gets instead of an answer.
#[derive(Debug)]
pub enum Instead {
    /// Questions, after which it is to call again.
    Asked(InputRequiredResult),
    /// The server's own refusal.
    Refused(ErrorData),
}

/// Where that is left for the client.
pub type Slot = Arc<Mutex<Option<Instead>>>;

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
    slot: Slot,
}

impl Line {
    /// A line to a client, and what it hears there.
    #[must_use]
    pub fn new(ears: Ears) -> (Self, mpsc::Receiver<Said>) {
        let (to, heard) = mpsc::channel(QUEUE);
        (Self { ears: Arc::new(ears), to, slot: Slot::default() }, heard)
    }
}

impl Line {
    /// Where it is found what the client gets instead of an answer.
    #[must_use]
    pub fn slot(&self) -> Slot {
        self.slot.clone()
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
        if self.line.ears.instead {
            let why =
                "the client that called speaks 2026-07-28, and is asked by an input_required result alone";
            return Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, why, None));
        }
        let request = self.fit(request)?;
        let request =
            self.masked(&request).ok_or_else(|| ErrorData::invalid_params("it is malformed", None))?;
        let (answer, answered) = oneshot::channel();
        let full = |_| ErrorData::internal_error("the client takes no more messages", None);
        self.line.to.try_send(Said::Question(Question { request, answer })).map_err(full)?;
        Ok(answered)
    }

    /// What the client announced, for a server that asks instead of answering.
    pub(super) fn announced(&self) -> ClientCapabilities {
        let (ears, mut announced) = (self.ears(), ClientCapabilities::default());
        if ears.instead {
            announced.sampling = ears.asks.sampling.then(SamplingCapability::default);
            announced.roots = ears.asks.roots.then(RootsCapabilities::default);
            let form = FormElicitationCapability::default;
            announced.elicitation =
                ears.asks.elicitation.then(|| ElicitationCapability::new().with_form(form()));
        }
        announced
    }

    /// The client gets the server's own refusal.
    pub(super) fn refuse(&self, refusal: &ErrorData) {
        self.leave(self.masked(refusal).map(Instead::Refused));
    }

    /// The client gets these questions instead of an answer.
    ///
    /// # Errors
    /// They are not as it may be asked them.
    pub(super) fn ask_instead(&self, asked: InputRequiredResult) -> Result<(), String> {
        if !self.line.ears.instead {
            return Err("it asks the caller for input, and nobody is there to give it".to_owned());
        }
        let state = asked.request_state.as_deref().unwrap_or_default();
        // It must come back as it is, so it cannot be masked.
        if self.masker.mask_str(state) != state {
            return Err("its requestState has a secret in it".to_owned());
        }
        if state.len() > MAX_STATE {
            return Err(format!("its requestState has more than {} KiB", MAX_STATE >> 10));
        }
        let mut requests = BTreeMap::new();
        for (key, request) in asked.input_requests.unwrap_or_default() {
            let request = match request {
                InputRequest::CreateMessage(request) => request.into(),
                InputRequest::Elicitation(request) => request.into(),
                InputRequest::ListRoots(request) => request.into(),
                _ => return Err("it asks for what is not known here".to_owned()),
            };
            let request = match self.fit(request).map_err(|e| format!("it asks for {key}: {}", e.message))? {
                ServerRequest::CreateMessageRequest(request) => InputRequest::CreateMessage(request),
                ServerRequest::ElicitRequest(request) => InputRequest::Elicitation(request),
                ServerRequest::ListRootsRequest(request) => InputRequest::ListRoots(request),
                _ => return Err("it asks for what is not known here".to_owned()),
            };
            requests.insert(key, request);
        }
        if requests.len() > MAX_QUESTIONS {
            return Err(format!("it asks more than {MAX_QUESTIONS} questions at once"));
        }
        let requests = Some(requests).filter(|requests| !requests.is_empty());
        let requests = self.masked(&requests).ok_or("its questions are malformed")?;
        self.leave(Some(Instead::Asked(InputRequiredResult::new(requests, asked.request_state))));
        Ok(())
    }

    fn leave(&self, instead: Option<Instead>) {
        *self.line.slot.lock().unwrap_or_else(PoisonError::into_inner) = instead;
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
