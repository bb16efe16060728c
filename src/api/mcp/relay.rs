//! Beside the answer to a request: what a skill's server says meanwhile goes to the client that asked, in its order and
//! before the answer; what it asks, that client answers, and nobody else.
#![expect(deprecated, reason = "clients up to 2025-11-25 are sent log messages")]

use std::{
    pin::pin,
    sync::{
        PoisonError,
        atomic::{AtomicU8, Ordering},
    },
    time::Duration,
};

use axum::http::request::Parts;
use futures_util::{StreamExt, stream::FuturesUnordered};
use rmcp::{
    ErrorData, RoleServer,
    model::{CancelledNotificationParam, InputResponses, LoggingLevel, ProgressToken},
    service::{Peer, PeerRequestOptions, RequestContext, ServiceError},
};
use tokio::{sync::mpsc, time::timeout};

use super::server::Gone;
use crate::mcp::{Again, Asks, Ears, Instead, Line, MAX_STATE, Question, Said, Slot};

/// A client that does not take a message within this time is told no more of them.
const PATIENCE: Duration = Duration::from_secs(5);

type Context = RequestContext<RoleServer>;

/// Which log messages a session wants: the least grave, as the client set it.
pub(super) struct Level(AtomicU8);

const LEVELS: [LoggingLevel; 8] = [
    LoggingLevel::Debug,
    LoggingLevel::Info,
    LoggingLevel::Notice,
    LoggingLevel::Warning,
    LoggingLevel::Error,
    LoggingLevel::Critical,
    LoggingLevel::Alert,
    LoggingLevel::Emergency,
];

impl Default for Level {
    fn default() -> Self {
        Self(AtomicU8::new(LoggingLevel::Info as u8))
    }
}

impl Level {
    pub(super) fn set(&self, level: LoggingLevel) {
        self.0.store(level as u8, Ordering::Relaxed);
    }

    fn get(&self) -> LoggingLevel {
        LEVELS[usize::from(self.0.load(Ordering::Relaxed)) % LEVELS.len()]
    }
}

/// The client's end of a line.
pub(super) struct Heard {
    said: mpsc::Receiver<Said>,
    token: Option<ProgressToken>,
    slot: Slot,
}

/// A line to the client that sent a request.
///
/// # Errors
/// It brings back more than any server may have given it.
pub(super) fn open(
    ctx: &Context,
    level: &Level,
    responses: Option<InputResponses>,
    state: Option<String>,
) -> Result<(Line, Heard), ErrorData> {
    if state.as_ref().is_some_and(|state| state.len() > MAX_STATE) {
        let why = format!("requestState has more than {} KiB", MAX_STATE >> 10);
        return Err(ErrorData::invalid_params(why, None));
    }
    let token = ctx.meta.get_progress_token();
    // Since 2026-07-28 each request says which log messages it wants, before that a session does.
    let newest = ctx.protocol_version().is_some_and(|version| !version.has_initialize());
    let logs = if newest { ctx.meta.log_level() } else { Some(level.get()) };
    let again = (responses.is_some() || state.is_some()).then_some(Again { responses, state });
    let (progress, asks) = (token.is_some(), announced(ctx));
    let (line, said) = Line::new(Ears { progress, logs, asks, instead: newest, again });
    let slot = line.slot();
    Ok((line, Heard { said, token, slot }))
}

/// What a client announced that it can be asked.
fn announced(ctx: &Context) -> Asks {
    let able = ctx.client_capabilities().unwrap_or_default();
    Asks {
        sampling: able.sampling.is_some(),
        elicitation: able.elicitation.is_some_and(|elicits| elicits.form.is_some() || elicits.url.is_none()),
        roots: able.roots.is_some(),
    }
}

/// Sees the work on a request to its end, and passes on what is heard meanwhile; with what the client gets instead of an
/// answer, if it gets something else. A call that is dropped is ended, with its process.
///
/// # Errors
/// The client cancelled the request, or has gone.
pub(super) async fn attend<T>(
    ctx: &Context,
    mut heard: Option<Heard>,
    work: impl Future<Output = T>,
) -> Result<(T, Option<Instead>), ErrorData> {
    let slot = heard.as_ref().map(|heard| heard.slot.clone());
    let gone = ctx.extensions.get::<Parts>().and_then(|parts| parts.extensions.get::<Gone>());
    let gone = gone.ok_or_else(|| ErrorData::invalid_request("nobody vouches for this request", None))?;
    let mut work = pin!(work);
    let mut questions = FuturesUnordered::new();
    loop {
        let said = async {
            match &mut heard {
                Some(heard) => heard.said.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = ctx.ct.cancelled() => return Err(ErrorData::internal_error("the call was cancelled", None)),
            () = gone.0.cancelled() => return Err(ErrorData::internal_error("the caller has gone", None)),
            said = said => match said {
                // Within this task, in which the client is asked on the stream of its request.
                Some(Said::Question(question)) => questions.push(put(&ctx.peer, question)),
                Some(said) => pass(ctx, &mut heard, said).await,
                None => heard = None,
            },
            Some(()) = questions.next() => {}
            done = &mut work => {
                while let Some(Ok(said)) = heard.as_mut().map(|heard| heard.said.try_recv()) {
                    pass(ctx, &mut heard, said).await;
                }
                // Nobody waits for their answers: the client is told so.
                drop(timeout(PATIENCE, questions.collect::<()>()).await);
                let instead = slot.and_then(|slot| slot.lock().unwrap_or_else(PoisonError::into_inner).take());
                return Ok((done, instead));
            }
        }
    }
}

async fn pass(ctx: &Context, heard: &mut Option<Heard>, said: Said) {
    let Some(token) = heard.as_ref().map(|heard| heard.token.clone()) else { return };
    if !matches!(timeout(PATIENCE, tell(&ctx.peer, token, said)).await, Ok(true)) {
        *heard = None;
    }
}

/// False: the client cannot be told.
async fn tell(peer: &Peer<RoleServer>, token: Option<ProgressToken>, said: Said) -> bool {
    match (said, token) {
        (Said::Progress(mut params), Some(token)) => {
            params.progress_token = token;
            peer.notify_progress(params).await.is_ok()
        }
        (Said::Progress(_), None) => true,
        (Said::Log(params), _) => peer.notify_logging_message(params).await.is_ok(),
        (Said::Question(_), _) => true,
    }
}

/// Asks a client, until nobody waits for the answer any more.
async fn put(peer: &Peer<RoleServer>, question: Question) {
    let Question { request, mut answer } = question;
    let asked = match peer.send_request_with_option(request, PeerRequestOptions::default()).await {
        Ok(asked) => asked,
        Err(error) => return drop(answer.send(Err(refused(error)))),
    };
    let id = asked.id.clone();
    tokio::select! {
        said = asked.await_response() => drop(answer.send(said.map_err(refused))),
        () = answer.closed() => {
            let why = Some("nobody waits for the answer any more".to_owned());
            let told = CancelledNotificationParam::new(Some(id), why);
            drop(timeout(PATIENCE, peer.notify_cancelled(told)).await);
        }
    }
}

/// Why a client did not answer, as the server is told.
fn refused(error: ServiceError) -> ErrorData {
    match error {
        ServiceError::McpError(said) => said,
        other => ErrorData::internal_error(format!("the client could not be asked: {other}"), None),
    }
}
