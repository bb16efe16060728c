//! One connection to a server.
#![expect(deprecated, reason = "servers up to 2025-11-25 log, sample and ask for roots")]

use std::{
    sync::{Arc, Mutex, OnceLock, PoisonError, atomic::AtomicU8},
    time::Duration,
};

use rmcp::{
    ClientHandler, ErrorData, RoleClient,
    model::{
        CancelledNotificationParam, ClientCapabilities, ClientConfig, ClientRequest, ClientResult,
        CreateMessageRequest, CreateMessageRequestParams, CreateMessageResult, ElicitRequest,
        ElicitRequestParams, ElicitResult, ElicitationCapability, Extensions, FormElicitationCapability,
        Implementation, ListRootsRequest, ListRootsResult, LoggingLevel, ProtocolVersion,
        ResourceUpdatedNotificationParam, ServerNotification, ServerResult, SubscriptionFilter,
    },
    service::{
        ClientCacheConfig, ClientInitializeError, ClientLifecycleMode, NotificationContext, Peer,
        PeerRequestOptions, RequestContext, RunningService, serve_client_with_lifecycle_and_ct,
    },
    transport::{IntoTransport, async_rw::AsyncRwTransport},
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::Notify,
    time::timeout,
};
use tokio_util::sync::CancellationToken;

use super::{
    calls::{Calls, Tap},
    fault::{MAX_MESSAGE, McpFault},
    gate::{self, Gate},
    line::grade,
    updates::Updates,
};

/// Time to take leave, and to send word of a cancelled request.
pub(super) const LEAVE: Duration = Duration::from_secs(2);
/// A connection that has no stream to end is looked at this often.
const LOOK: Duration = Duration::from_secs(5);

/// What a connection tells of by itself.
#[derive(Clone)]
pub struct Watch {
    /// The server's tools are others now.
    pub changed: Arc<Notify>,
    /// Its prompts or resources are others now.
    pub offers: Arc<Notify>,
    /// The connection is over.
    pub over: CancellationToken,
}

/// A connection that shook hands. Dropping it ends it.
pub struct Connection {
    pub(super) service: RunningService<RoleClient, Host>,
    gate: Arc<Gate>,
    watch: Watch,
    pub(super) calls: Arc<Calls>,
    /// How detailed the server was asked to log.
    pub(super) detail: AtomicU8,
    pub(super) updates: Arc<Updates>,
}

/// This side of a connection. A server is started before it is known who will call and what their clients can do, so it
/// is offered what any of them may; a question that the caller of the moment cannot answer gets an error.
#[derive(Clone)]
pub(super) struct Host {
    changed: Arc<Notify>,
    offers: Arc<Notify>,
    calls: Arc<Calls>,
    updates: Arc<Updates>,
}

impl ClientHandler for Host {
    fn get_info(&self) -> ClientConfig {
        let skep = Implementation::new("skep", env!("CARGO_PKG_VERSION"));
        let mut offered = ClientCapabilities::builder().enable_sampling().enable_roots().build();
        // Forms alone: a URL of a server would be opened on the word of the hive.
        let form = FormElicitationCapability::default();
        offered.elicitation = Some(ElicitationCapability::new().with_form(form));
        ClientConfig::new(offered, skep).with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
    }

    async fn create_message(
        &self,
        params: CreateMessageRequestParams,
        context: RequestContext<RoleClient>,
    ) -> Result<CreateMessageResult, ErrorData> {
        match self.calls.relay(CreateMessageRequest::new(params).into(), context).await? {
            ClientResult::CreateMessageResult(result) => Ok(*result),
            _ => Err(odd()),
        }
    }

    async fn create_elicitation(
        &self,
        params: ElicitRequestParams,
        context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        match self.calls.relay(ElicitRequest::new(params).into(), context).await? {
            ClientResult::ElicitResult(result) => Ok(result),
            _ => Err(odd()),
        }
    }

    async fn list_roots(&self, context: RequestContext<RoleClient>) -> Result<ListRootsResult, ErrorData> {
        let request = ListRootsRequest { method: Default::default(), extensions: Extensions::default() };
        match self.calls.relay(request.into(), context).await? {
            ClientResult::ListRootsResult(result) => Ok(result),
            _ => Err(odd()),
        }
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.changed.notify_one();
    }

    async fn on_prompt_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.offers.notify_one();
    }

    async fn on_resource_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.offers.notify_one();
    }

    async fn on_resource_updated(
        &self,
        params: ResourceUpdatedNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        self.updates.tell(&params.uri);
    }
}

fn odd() -> ErrorData {
    ErrorData::internal_error("the client's answer is none to this question", None)
}

impl Connection {
    /// Shakes hands over a server's standard output and input.
    ///
    /// # Errors
    /// It does not answer within the time, or not as MCP wants it.
    pub async fn over_streams<R, W>(reader: R, writer: W, within: Duration) -> Result<Self, McpFault>
    where
        R: AsyncRead + Send + Unpin + 'static,
        W: AsyncWrite + Send + Unpin + 'static,
    {
        let gate = Gate::new(true);
        let (reader, writer) =
            (gate::Read::new(reader, gate.clone()), gate::Write::new(writer, gate.clone()));
        let transport = AsyncRwTransport::new_client(reader, writer).with_max_line_length(MAX_MESSAGE);
        // Servers that ignore what they do not know would cost any other handshake its patience.
        Self::shake(transport, gate, ClientLifecycleMode::Initialize, within).await
    }

    pub(super) async fn shake<T, E, A>(
        transport: T,
        gate: Arc<Gate>,
        mode: ClientLifecycleMode,
        within: Duration,
    ) -> Result<Self, McpFault>
    where
        T: IntoTransport<RoleClient, E, A>,
        E: std::error::Error + Send + Sync + 'static,
    {
        let watch = Watch { changed: Arc::default(), offers: Arc::default(), over: gate.over.clone() };
        let (calls, updates) = (Arc::<Calls>::default(), Arc::<Updates>::default());
        let host = Host {
            changed: watch.changed.clone(),
            offers: watch.offers.clone(),
            calls: calls.clone(),
            updates: updates.clone(),
        };
        let shut = gate.shut.clone();
        let back = Arc::new(Mutex::new(None));
        let serve = |transport, mode| {
            let tap = Tap::new(transport, &back, &calls, &gate);
            serve_client_with_lifecycle_and_ct(host.clone(), tap, mode, shut.child_token())
        };
        let transport = transport.into_transport();
        let handshake = async {
            let refused = match serve(transport, mode.clone()).await {
                Err(ClientInitializeError::JsonRpcError(refused)) => refused,
                shaken => return shaken,
            };
            let refused = ClientInitializeError::JsonRpcError(refused);
            let transport = back.lock().unwrap_or_else(PoisonError::into_inner).take();
            match transport {
                // Servers of the newest protocol alone know no `initialize`.
                Some(transport) if mode == ClientLifecycleMode::Initialize => {
                    let preferred_versions = vec![ProtocolVersion::V_2026_07_28];
                    let again = serve(transport, ClientLifecycleMode::Discover { preferred_versions });
                    again.await.map_err(|_| refused)
                }
                _ => Err(refused),
            }
        };
        let shaken = tokio::select! {
            shaken = timeout(within, handshake) => shaken,
            () = shut.cancelled() => return Err(gate.why().unwrap_or(McpFault::Closed)),
        };
        let why = |fault: McpFault| gate.fault(fault);
        let service = shaken.map_err(|_| McpFault::Handshake(within))?.map_err(|e| why(e.into()))?;
        let peer = service.peer();
        peer.set_response_cache_config(ClientCacheConfig::disabled()).await;
        follow(peer.clone(), watch.clone());
        let detail = AtomicU8::new(grade(LoggingLevel::Info));
        Ok(Self { service, gate, watch, calls, detail, updates })
    }

    /// What it tells of by itself.
    #[must_use]
    pub fn watch(&self) -> Watch {
        self.watch.clone()
    }

    /// Whether it is of no more use.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.watch.over.is_cancelled() || self.service.peer().is_transport_closed()
    }

    /// Why it was cut off from here, if it was.
    #[must_use]
    pub fn cut_off(&self) -> Option<McpFault> {
        self.gate.why()
    }

    pub(super) async fn ask(
        &self,
        request: ClientRequest,
        left: Duration,
        limit: Duration,
        ended: &CancellationToken,
    ) -> Result<ServerResult, McpFault> {
        self.ask_with(request, left, limit, ended, PeerRequestOptions::default()).await
    }

    pub(super) async fn ask_with(
        &self,
        request: ClientRequest,
        left: Duration,
        limit: Duration,
        ended: &CancellationToken,
        options: PeerRequestOptions,
    ) -> Result<ServerResult, McpFault> {
        let _asked = self.gate.ask();
        let mut oversized = self.gate.too_large();
        let peer = self.service.peer();
        let sent = OnceLock::new();
        let answered = async {
            // The time is kept here, so that it also holds while a server does not read the request.
            let request = peer.send_request_with_option(request, options).await?;
            sent.get_or_init(|| request.id.clone());
            request.await_response().await
        };
        let fault = tokio::select! {
            answer = answered => {
                return answer.map_err(|e| self.gate.fault(e.into()));
            }
            () = tokio::time::sleep(left) => McpFault::Silent(limit),
            () = ended.cancelled() => McpFault::Cancelled,
            () = self.gate.shut.cancelled() => self.gate.why().unwrap_or(McpFault::Closed),
            () = oversized.answers(|| sent.get().map(ToString::to_string)) => McpFault::TooLarge,
        };
        if let (Some(id), McpFault::Silent(_) | McpFault::Cancelled) = (sent.into_inner(), &fault) {
            let reason = if fault == McpFault::Cancelled { "the caller is gone" } else { "its time is up" };
            let told = CancelledNotificationParam::new(Some(id), Some(reason.to_owned()));
            // Whoever does not read is not waited for.
            drop(timeout(LEAVE, peer.notify_cancelled(told)).await);
        }
        Err(fault)
    }

    /// Ends it.
    pub fn shut(&self) {
        self.gate.shut();
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.gate.shut();
    }
}

/// Servers of the newest protocol tell of changes only to those who subscribe; all tell of their end by it.
fn follow(peer: Peer<RoleClient>, watch: Watch) {
    tokio::spawn(async move {
        if peer.peer_info().is_some_and(|info| !info.protocol_version.has_initialize()) {
            let listen = async {
                let filter = SubscriptionFilter::builder().tools_list_changed();
                let filter = filter.prompts_list_changed().resources_list_changed().build();
                let Ok(mut told) = peer.listen(filter).await else { return };
                while let Ok(Some(notification)) = told.next().await {
                    match notification {
                        ServerNotification::ToolListChangedNotification(_) => watch.changed.notify_one(),
                        ServerNotification::PromptListChangedNotification(_)
                        | ServerNotification::ResourceListChangedNotification(_) => watch.offers.notify_one(),
                        _ => {}
                    }
                }
            };
            tokio::select! {
                () = listen => {}
                () = watch.over.cancelled() => {}
            }
        }
        while timeout(LOOK, watch.over.cancelled()).await.is_err() {
            if peer.is_transport_closed() {
                watch.over.cancel();
            }
        }
    });
}
