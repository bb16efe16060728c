//! The calls in flight on a connection, and which of them something that a server says belongs to.
#![expect(deprecated, reason = "servers up to 2025-11-25 log")]

use std::{
    borrow::Cow,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use rmcp::{
    RoleClient,
    model::{
        ClientRequest, GetExtensions, GetMeta, JsonRpcMessage, LoggingMessageNotificationParam,
        ProgressNotificationParam, ProgressToken, ServerNotification,
    },
    service::{RxJsonRpcMessage, TxJsonRpcMessage},
    transport::Transport,
};

use super::{gate::Gate, line::Speaker};

/// A request that a server works on for somebody.
pub(super) struct Flight {
    /// None: whoever called can hear nothing beside the answer.
    speaker: Option<Speaker>,
    /// Once it was sent.
    token: Mutex<Option<ProgressToken>>,
}

/// See the module.
#[derive(Default)]
pub(super) struct Calls(Mutex<Vec<Arc<Flight>>>);

impl Calls {
    /// A call begins, and is in flight until the guard is dropped.
    pub(super) fn begin(self: &Arc<Self>, speaker: Option<Speaker>) -> InFlight {
        let flight = Arc::new(Flight { speaker, token: Mutex::default() });
        lock(&self.0).push(flight.clone());
        InFlight { calls: self.clone(), flight }
    }

    /// Before a request is written: what comes of it later is known by its token.
    fn sent(request: &ClientRequest) {
        if let Some(flight) = request.extensions().get::<Arc<Flight>>() {
            *lock(&flight.token) = request.get_meta().get_progress_token();
        }
    }

    fn progress(&self, params: &ProgressNotificationParam) {
        let calls = lock(&self.0);
        let its = |flight: &&Arc<Flight>| lock(&flight.token).as_ref() == Some(&params.progress_token);
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
}

/// A call in flight, until it is dropped.
pub(super) struct InFlight {
    calls: Arc<Calls>,
    flight: Arc<Flight>,
}

impl InFlight {
    /// Marks the request that it is made by.
    pub(super) fn mark(&self, request: &mut ClientRequest) {
        request.extensions_mut().insert(self.flight.clone());
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        lock(&self.calls.0).retain(|flight| !Arc::ptr_eq(flight, &self.flight));
    }
}

/// A transport on which progress and log messages are heard in the order in which they came, and before the answer that
/// follows them: behind it, every message is a task of its own.
pub(super) struct Tap<T> {
    pub(super) inner: T,
    pub(super) calls: Arc<Calls>,
    pub(super) gate: Arc<Gate>,
}

impl<T: Transport<RoleClient>> Transport<RoleClient> for Tap<T> {
    type Error = T::Error;

    fn name() -> Cow<'static, str> {
        T::name()
    }

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        if let JsonRpcMessage::Request(request) = &item {
            Calls::sent(&request.request);
        }
        self.inner.send(item)
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            let message = self.inner.receive().await?;
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
        self.inner.close().await
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
