//! The calls in flight on a connection, and which of them something that a server says belongs to.
#![expect(deprecated, reason = "servers up to 2025-11-25 log")]

use std::{
    borrow::Cow,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
};

use futures_util::future::{Either, ready};
use rmcp::{
    ErrorData, RoleClient,
    model::{
        ClientRequest, ClientResult, ErrorCode, GetExtensions, GetMeta, JsonRpcMessage, JsonRpcRequest,
        LoggingMessageNotificationParam, ProgressNotificationParam, ProgressToken, RequestId,
        ServerNotification, ServerRequest,
    },
    service::{InboundStreamOrigin, RequestContext, RxJsonRpcMessage, TxJsonRpcMessage},
    transport::Transport,
};
use tokio_util::sync::CancellationToken;

use super::{gate::Gate, line::Speaker};

/// Questions of one call at a time.
const QUESTIONS: u32 = 8;

/// A request that a server works on for somebody.
pub(super) struct Flight {
    /// None: whoever called can hear nothing beside the answer.
    speaker: Option<Speaker>,
    /// Once it was sent.
    sent: Mutex<Option<(RequestId, Option<ProgressToken>)>>,
    /// Questions without an answer.
    open: AtomicU32,
    over: CancellationToken,
}

/// See the module.
#[derive(Default)]
pub(super) struct Calls(Mutex<Vec<Arc<Flight>>>);

impl Calls {
    /// A call begins, and is in flight until the guard is dropped.
    pub(super) fn begin(self: &Arc<Self>, speaker: Option<Speaker>) -> InFlight {
        let (sent, open, over) = Default::default();
        let flight = Arc::new(Flight { speaker, sent, open, over });
        lock(&self.0).push(flight.clone());
        InFlight { calls: self.clone(), flight }
    }

    /// Before a request is written: what comes of it later is known by its id and its token.
    fn sent(JsonRpcRequest { id, request, .. }: &JsonRpcRequest<ClientRequest>) {
        if let Some(flight) = request.extensions().get::<Arc<Flight>>() {
            *lock(&flight.sent) = Some((id.clone(), request.get_meta().get_progress_token()));
        }
    }

    fn progress(&self, params: &ProgressNotificationParam) {
        let calls = lock(&self.0);
        let its = |flight: &&Arc<Flight>| {
            lock(&flight.sent)
                .as_ref()
                .is_some_and(|(_, token)| token.as_ref() == Some(&params.progress_token))
        };
        if let Some(speaker) = calls.iter().find(its).and_then(|flight| flight.speaker.as_ref()) {
            speaker.progress(params);
        }
    }

    /// A log message names no call. With one call in flight it is that call's; with several, who called the one shall
    /// not read what is logged of the other, and nobody hears it.
    fn log(&self, params: &LoggingMessageNotificationParam) {
        if let [only] = lock(&self.0).as_slice()
            && let Some(speaker) = &only.speaker
        {
            speaker.log(params);
        }
    }

    /// Has the client answer a question whose call it belongs to.
    ///
    /// # Errors
    /// It cannot be told whose call that is, its client cannot be asked, or the call is over.
    pub(super) async fn relay(
        &self,
        request: ServerRequest,
        context: RequestContext<RoleClient>,
    ) -> Result<ClientResult, ErrorData> {
        let flight = self.asking(context.extensions.get())?;
        if flight.open.fetch_add(1, Ordering::Relaxed) >= QUESTIONS {
            flight.open.fetch_sub(1, Ordering::Relaxed);
            return Err(ErrorData::internal_error("it asks too much at once", None));
        }
        let answered = async {
            let asked = flight.speaker.as_ref().ok_or_else(|| refusal(NOBODY))?.ask(request)?;
            tokio::select! {
                answer = asked => answer.map_err(|_| refusal("the client that called is gone"))?,
                () = flight.over.cancelled() => Err(refusal("the call is over that this belongs to")),
                () = context.ct.cancelled() => Err(refusal("the question was withdrawn")),
            }
        };
        let answered = answered.await;
        flight.open.fetch_sub(1, Ordering::Relaxed);
        answered
    }

    /// The call that a question belongs to. Over HTTP it comes on the stream of its call. Over pipes nothing in it says
    /// which call it is of, so it is that of the only call in flight, whoever made it; with several it is refused, since
    /// one caller (the agent) would read in its answer what another (the operator) was asked for. No connection is
    /// shared by agents.
    fn asking(&self, origin: Option<&InboundStreamOrigin>) -> Result<Arc<Flight>, ErrorData> {
        let calls = lock(&self.0);
        if let Some(InboundStreamOrigin::OutboundRequest(id)) = origin {
            let its = |flight: &&Arc<Flight>| lock(&flight.sent).as_ref().is_some_and(|(sent, _)| sent == id);
            return calls.iter().find(its).cloned().ok_or_else(|| refusal(NOBODY));
        }
        match calls.as_slice() {
            [only] => Ok(only.clone()),
            [] => Err(refusal("no call is in flight, so there is nobody to ask")),
            _ => Err(refusal(
                "several calls are in flight, and nothing says whose question this is: ask when one is alone",
            )),
        }
    }
}

const NOBODY: &str = "whoever called is no MCP client that can be asked";

fn refusal(why: &'static str) -> ErrorData {
    ErrorData::new(ErrorCode::METHOD_NOT_FOUND, why, None)
}

/// A call in flight, until it is dropped.
pub(super) struct InFlight {
    calls: Arc<Calls>,
    flight: Arc<Flight>,
}

impl InFlight {
    pub(super) fn speaker(&self) -> Option<&Speaker> {
        self.flight.speaker.as_ref()
    }

    /// Marks the request that it is made by.
    pub(super) fn mark(&self, request: &mut ClientRequest) {
        request.extensions_mut().insert(self.flight.clone());
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.flight.over.cancel();
        lock(&self.calls.0).retain(|flight| !Arc::ptr_eq(flight, &self.flight));
    }
}

/// A transport on which progress and log messages are heard in the order in which they came, and before the answer that
/// follows them: behind it, every message is a task of its own.
pub(super) struct Tap<T> {
    /// None: it was given back.
    inner: Option<T>,
    back: Arc<Mutex<Option<T>>>,
    calls: Arc<Calls>,
    gate: Arc<Gate>,
}

impl<T> Tap<T> {
    /// With a place where the transport is found again after a handshake that was refused.
    pub(super) fn new(inner: T, back: &Arc<Mutex<Option<T>>>, calls: &Arc<Calls>, gate: &Arc<Gate>) -> Self {
        Self { inner: Some(inner), back: back.clone(), calls: calls.clone(), gate: gate.clone() }
    }
}

impl<T> Drop for Tap<T> {
    fn drop(&mut self) {
        *lock(&self.back) = self.inner.take();
    }
}

impl<T: Transport<RoleClient> + 'static> Transport<RoleClient> for Tap<T> {
    type Error = T::Error;

    fn name() -> Cow<'static, str> {
        T::name()
    }

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        if let JsonRpcMessage::Request(request) = &item {
            Calls::sent(request);
        }
        match &mut self.inner {
            Some(inner) => Either::Left(inner.send(item)),
            None => Either::Right(ready(Ok(()))),
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            let message = self.inner.as_mut()?.receive().await?;
            self.gate.taken().ok()?;
            let JsonRpcMessage::Notification(notification) = &message else { return Some(message) };
            match &notification.notification {
                ServerNotification::ProgressNotification(told) => self.calls.progress(&told.params),
                ServerNotification::LoggingMessageNotification(told) => self.calls.log(&told.params),
                _ => return Some(message),
            }
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        match &mut self.inner {
            Some(inner) => inner.close().await,
            None => Ok(()),
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
