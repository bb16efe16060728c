//! One connection to a server.
#![expect(deprecated, reason = "servers up to 2025-11-25 log, sample and ask for roots")]

use std::{
    collections::HashSet,
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
    },
    time::{Duration, Instant},
};

use rmcp::{
    ClientHandler, ErrorData, RoleClient,
    model::{
        CallToolRequest, CallToolRequestParams, CancelledNotificationParam, ClientCapabilities, ClientConfig,
        ClientRequest, ClientResult, CreateMessageRequest, CreateMessageRequestParams, CreateMessageResult,
        ElicitRequest, ElicitRequestParams, ElicitResult, ElicitationCapability, Extensions,
        FormElicitationCapability, GetMeta, Implementation, ListRootsRequest, ListRootsResult,
        ListToolsRequest, LoggingLevel, PaginatedRequestParams, ProtocolVersion, ServerNotification,
        ServerResult, SetLevelRequest, SetLevelRequestParams, SubscriptionFilter, Tool,
    },
    service::{
        ClientCacheConfig, ClientLifecycleMode, NotificationContext, Peer, PeerRequestOptions,
        RequestContext, RunningService, serve_client_with_lifecycle_and_ct,
    },
    transport::{IntoTransport, async_rw::AsyncRwTransport},
};
use serde_json::{Map, Value};
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
    line::{Speaker, grade},
};

/// Tools of one server, and what their descriptions may have together.
const MAX_TOOLS: usize = 10_000;
const MAX_DESCRIBED: usize = 8 << 20;
/// Pages of a listing.
const MAX_PAGES: usize = 1_000;
/// Time to take leave, and to send word of a cancelled request.
const LEAVE: Duration = Duration::from_secs(2);
/// A connection that has no stream to end is looked at this often.
const LOOK: Duration = Duration::from_secs(5);

/// A tool as its server tells of it.
#[derive(Debug, Clone, PartialEq)]
pub struct RemoteTool {
    /// Its name.
    pub name: String,
    /// What it does; empty when it does not say.
    pub description: String,
    /// JSON Schema of its arguments.
    pub input_schema: Value,
    /// JSON Schema of its structured results.
    pub output_schema: Option<Value>,
    /// Hints, as they came.
    pub annotations: Option<Value>,
}

/// The answer to a call.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Answer {
    /// `structuredContent`.
    pub structured: Option<Value>,
    /// Content blocks, as they came.
    pub content: Vec<Value>,
    /// `isError`.
    pub is_error: bool,
}

/// What a connection tells of by itself.
#[derive(Clone)]
pub struct Watch {
    /// The server's tools are others now.
    pub changed: Arc<Notify>,
    /// The connection is over.
    pub over: CancellationToken,
}

/// A connection that shook hands. Dropping it ends it.
pub struct Connection {
    service: RunningService<RoleClient, Host>,
    gate: Arc<Gate>,
    watch: Watch,
    calls: Arc<Calls>,
    /// How detailed the server was asked to log.
    detail: AtomicU8,
}

/// This side of a connection. A server is started before it is known who will call and what their clients can do, so it
/// is offered what any of them may; a question that the caller of the moment cannot answer gets an error.
pub(super) struct Host {
    changed: Arc<Notify>,
    calls: Arc<Calls>,
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
        let watch = Watch { changed: Arc::default(), over: gate.over.clone() };
        let calls = Arc::<Calls>::default();
        let host = Host { changed: watch.changed.clone(), calls: calls.clone() };
        let shut = gate.shut.clone();
        let transport = Tap { inner: transport.into_transport(), calls: calls.clone(), gate: gate.clone() };
        let serve = serve_client_with_lifecycle_and_ct(host, transport, mode, shut.child_token());
        let shaken = tokio::select! {
            shaken = timeout(within, serve) => shaken,
            () = shut.cancelled() => return Err(gate.why().unwrap_or(McpFault::Closed)),
        };
        let why = |fault: McpFault| gate.fault(fault);
        let service = shaken.map_err(|_| McpFault::Handshake(within))?.map_err(|e| why(e.into()))?;
        let peer = service.peer();
        peer.set_response_cache_config(ClientCacheConfig::disabled()).await;
        follow(peer.clone(), watch.clone());
        Ok(Self { service, gate, watch, calls, detail: AtomicU8::new(grade(LoggingLevel::Info)) })
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

    /// Every tool of the server, all pages together within the time.
    ///
    /// # Errors
    /// It does not answer, or tells of more than is taken.
    pub async fn tools(&self, within: Duration) -> Result<Vec<RemoteTool>, McpFault> {
        let deadline = Instant::now() + within;
        let never = CancellationToken::new();
        let (mut tools, mut size) = (Vec::new(), 0);
        let (mut cursor, mut seen) = (None, HashSet::new());
        for _ in 0..MAX_PAGES {
            let params = Some(PaginatedRequestParams::default().with_cursor(cursor.take()));
            let request = ListToolsRequest { params, ..Default::default() };
            let left = deadline.saturating_duration_since(Instant::now());
            let answer = self.ask(ClientRequest::ListToolsRequest(request), left, within, &never).await?;
            let ServerResult::ListToolsResult(page) = answer else {
                return Err(McpFault::Odd("its list of tools is not as MCP wants it".to_owned()));
            };
            for tool in page.tools {
                let tool = described(tool);
                size += tool.name.len() + tool.description.len() + tool.input_schema.to_string().len();
                size += tool.output_schema.as_ref().map_or(0, |schema| schema.to_string().len());
                tools.push(tool);
            }
            if tools.len() > MAX_TOOLS || size > MAX_DESCRIBED {
                return Err(McpFault::Odd(format!(
                    "it has more than {MAX_TOOLS} tools, or more than {} MiB of descriptions",
                    MAX_DESCRIBED >> 20
                )));
            }
            match page.next_cursor {
                None => return Ok(tools),
                Some(next) if !seen.insert(next.clone()) => {
                    return Err(McpFault::Odd("its list of tools goes in a circle".to_owned()));
                }
                Some(next) => cursor = Some(next),
            }
        }
        Err(McpFault::Odd(format!("its list of tools has more than {MAX_PAGES} pages")))
    }

    /// Calls a tool. When the time is up or `ended` is cancelled, the server is told. What it says beside its answer goes
    /// to the speaker.
    ///
    /// # Errors
    /// See [`McpFault`]; a tool that failed is no error.
    pub async fn call(
        &self,
        name: &str,
        args: Map<String, Value>,
        within: Duration,
        ended: &CancellationToken,
        speaker: Option<Speaker>,
    ) -> Result<Answer, McpFault> {
        let params = CallToolRequestParams::new(name.to_owned()).with_arguments(args);
        let mut request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
        if let Some(level) = speaker.as_ref().and_then(|speaker| speaker.ears().logs) {
            self.want_logs(&mut request, level).await;
        }
        let flight = self.calls.begin(speaker);
        flight.mark(&mut request);
        match self.ask(request, within, within, ended).await? {
            ServerResult::CallToolResult(result) => Ok(Answer {
                structured: result.structured_content,
                content: result.content.iter().filter_map(|block| serde_json::to_value(block).ok()).collect(),
                is_error: result.is_error.unwrap_or(false),
            }),
            ServerResult::InputRequiredResult(_) => {
                Err(McpFault::Odd("it asks the caller for input, and nobody is there to give it".to_owned()))
            }
            _ => Err(McpFault::Odd("its answer is none of a tool".to_owned())),
        }
    }

    async fn ask(
        &self,
        request: ClientRequest,
        left: Duration,
        limit: Duration,
        ended: &CancellationToken,
    ) -> Result<ServerResult, McpFault> {
        let _asked = self.gate.ask();
        let mut oversized = self.gate.oversized.subscribe();
        let peer = self.service.peer();
        let mut sent = None;
        let answered = async {
            // The time is kept here, so that it also holds while a server does not read the request.
            let request = peer.send_request_with_option(request, PeerRequestOptions::default()).await?;
            sent = Some(request.id.clone());
            request.await_response().await
        };
        let fault = tokio::select! {
            answer = answered => {
                return answer.map_err(|e| self.gate.fault(e.into()));
            }
            () = tokio::time::sleep(left) => McpFault::Silent(limit),
            () = ended.cancelled() => McpFault::Cancelled,
            () = self.gate.shut.cancelled() => self.gate.why().unwrap_or(McpFault::Closed),
            _ = oversized.changed() => McpFault::TooLarge,
        };
        if let (Some(id), McpFault::Silent(_) | McpFault::Cancelled) = (sent, &fault) {
            let reason = if fault == McpFault::Cancelled { "the caller is gone" } else { "its time is up" };
            let told = CancelledNotificationParam::new(Some(id), Some(reason.to_owned()));
            // Whoever does not read is not waited for.
            drop(timeout(LEAVE, peer.notify_cancelled(told)).await);
        }
        Err(fault)
    }

    fn is_newest(&self) -> bool {
        self.service.peer().peer_info().is_some_and(|info| is_newest(&info.protocol_version))
    }

    /// Asks for log messages with a request, or where servers keep one level for all, for as detailed ones as anybody
    /// ever wanted; whoever wants fewer is told fewer.
    async fn want_logs(&self, request: &mut ClientRequest, level: LoggingLevel) {
        if self.is_newest() {
            request.get_meta_mut().set_log_level(level);
            return;
        }
        let peer = self.service.peer();
        let logs = peer.peer_info().is_some_and(|info| info.capabilities.logging.is_some());
        if logs && self.detail.fetch_min(grade(level), Ordering::Relaxed) > grade(level) {
            let request = SetLevelRequest::new(SetLevelRequestParams::new(level));
            let never = CancellationToken::new();
            // A server that does not do it logs what it likes.
            drop(self.ask(ClientRequest::SetLevelRequest(request), LEAVE, LEAVE, &never).await);
        }
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

fn is_newest(version: &ProtocolVersion) -> bool {
    !version.has_initialize()
}

/// Servers of the newest protocol tell of changes only to those who subscribe; all tell of their end by it.
fn follow(peer: Peer<RoleClient>, watch: Watch) {
    tokio::spawn(async move {
        if peer.peer_info().is_some_and(|info| is_newest(&info.protocol_version)) {
            let listen = async {
                let filter = SubscriptionFilter::builder().tools_list_changed().build();
                let Ok(mut told) = peer.listen(filter).await else { return };
                while let Ok(Some(notification)) = told.next().await {
                    if matches!(notification, ServerNotification::ToolListChangedNotification(_)) {
                        watch.changed.notify_one();
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

fn described(tool: Tool) -> RemoteTool {
    RemoteTool {
        name: tool.name.into_owned(),
        description: tool.description.map(std::borrow::Cow::into_owned).or(tool.title).unwrap_or_default(),
        input_schema: Value::Object((*tool.input_schema).clone()),
        output_schema: tool.output_schema.map(|schema| Value::Object((*schema).clone())),
        annotations: tool.annotations.and_then(|hints| serde_json::to_value(hints).ok()),
    }
}
