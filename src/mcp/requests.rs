//! What a server is asked over its connection: what it offers, and calls of it.
#![expect(deprecated, reason = "servers up to 2025-11-25 are told how much they shall log")]

use std::{
    collections::HashSet,
    sync::atomic::Ordering,
    time::{Duration, Instant},
};

use rmcp::{
    ErrorData,
    model::{
        CallToolRequest, CallToolRequestParams, ClientRequest, ErrorCode, GetMeta, GetPromptRequest,
        GetPromptRequestParams, GetPromptResult, ListPromptsRequest, ListResourceTemplatesRequest,
        ListResourcesRequest, ListToolsRequest, LoggingLevel, PaginatedRequestParams, Prompt,
        ReadResourceRequest, ReadResourceRequestParams, ReadResourceResult, RequestMetaObject, Resource,
        ResourceTemplate, ServerCapabilities, ServerResult, SetLevelRequest, SetLevelRequestParams, Tool,
    },
    service::PeerRequestOptions,
};
use serde::Serialize;
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

use super::{
    client::{Connection, LEAVE},
    fault::McpFault,
    line::{Again, Speaker, grade},
};

/// Tools of one server (and as many prompts and resources), and what their descriptions may have together.
const MAX_ITEMS: usize = 10_000;
const MAX_DESCRIBED: usize = 8 << 20;
/// Pages of a listing.
const MAX_PAGES: usize = 1_000;
/// A server that does not know what it is asked says so with this code.
const NO_SUCH_METHOD: i32 = -32601;
/// The code of a server that needs what the client did not announce.
const LACKS: i32 = -32021;

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

/// What a server offers beside its tools.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Offers {
    /// Its prompts.
    pub prompts: Vec<Prompt>,
    /// Its resources.
    pub resources: Vec<Resource>,
    /// Patterns of the URIs of more.
    pub templates: Vec<ResourceTemplate>,
}

impl Connection {
    /// Every tool of the server, all pages together within the time.
    ///
    /// # Errors
    /// It does not answer, or tells of more than is taken.
    pub async fn tools(&self, within: Duration) -> Result<Vec<RemoteTool>, McpFault> {
        let ask = |params| {
            ClientRequest::ListToolsRequest(ListToolsRequest { params: Some(params), ..Default::default() })
        };
        let page = |answer| match answer {
            ServerResult::ListToolsResult(page) => Some((page.tools, page.next_cursor)),
            _ => None,
        };
        let tools = self.list("tools", within, ask, page).await?;
        Ok(tools.into_iter().map(described).collect())
    }

    /// Every prompt and resource of the server, each kind within the time.
    ///
    /// # Errors
    /// It does not answer, or tells of more than is taken.
    pub async fn offers(&self, within: Duration) -> Result<Offers, McpFault> {
        let able = self.service.peer().peer_info();
        let able = able.map_or_else(ServerCapabilities::default, |info| info.capabilities.clone());
        let mut offers = Offers::default();
        if able.prompts.is_some() {
            let ask = |params| {
                let request = ListPromptsRequest { params: Some(params), ..Default::default() };
                ClientRequest::ListPromptsRequest(request)
            };
            let page = |answer| match answer {
                ServerResult::ListPromptsResult(page) => Some((page.prompts, page.next_cursor)),
                _ => None,
            };
            offers.prompts = known(self.list("prompts", within, ask, page).await)?;
        }
        if able.resources.is_some() {
            let ask = |params| {
                let request = ListResourcesRequest { params: Some(params), ..Default::default() };
                ClientRequest::ListResourcesRequest(request)
            };
            let page = |answer| match answer {
                ServerResult::ListResourcesResult(page) => Some((page.resources, page.next_cursor)),
                _ => None,
            };
            offers.resources = known(self.list("resources", within, ask, page).await)?;
            let ask = |params| {
                let request = ListResourceTemplatesRequest { params: Some(params), ..Default::default() };
                ClientRequest::ListResourceTemplatesRequest(request)
            };
            let page = |answer| match answer {
                ServerResult::ListResourceTemplatesResult(page) => {
                    Some((page.resource_templates, page.next_cursor))
                }
                _ => None,
            };
            offers.templates = known(self.list("resource templates", within, ask, page).await)?;
        }
        Ok(offers)
    }

    /// All pages of a list.
    async fn list<T: Serialize>(
        &self,
        what: &str,
        within: Duration,
        ask: impl Fn(PaginatedRequestParams) -> ClientRequest,
        page: impl Fn(ServerResult) -> Option<(Vec<T>, Option<String>)>,
    ) -> Result<Vec<T>, McpFault> {
        let deadline = Instant::now() + within;
        let never = CancellationToken::new();
        let (mut all, mut size) = (Vec::new(), 0);
        let (mut cursor, mut seen) = (None, HashSet::new());
        for _ in 0..MAX_PAGES {
            let request = ask(PaginatedRequestParams::default().with_cursor(cursor.take()));
            let left = deadline.saturating_duration_since(Instant::now());
            let Some((items, next)) = page(self.ask(request, left, within, &never).await?) else {
                return Err(McpFault::Odd(format!("its list of {what} is not as MCP wants it")));
            };
            size += items.iter().map(length).sum::<usize>();
            all.extend(items);
            if all.len() > MAX_ITEMS || size > MAX_DESCRIBED {
                return Err(McpFault::Odd(format!(
                    "it has more than {MAX_ITEMS} {what}, or more than {} MiB of descriptions",
                    MAX_DESCRIBED >> 20
                )));
            }
            match next {
                None => return Ok(all),
                Some(next) if !seen.insert(next.clone()) => {
                    return Err(McpFault::Odd(format!("its list of {what} goes in a circle")));
                }
                Some(next) => cursor = Some(next),
            }
        }
        Err(McpFault::Odd(format!("its list of {what} has more than {MAX_PAGES} pages")))
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
        let mut params = CallToolRequestParams::new(name.to_owned()).with_arguments(args);
        let again = self.again(speaker.as_ref());
        (params.input_responses, params.request_state) = (again.responses, again.state);
        let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
        match self.ask_for(request, within, ended, speaker).await? {
            ServerResult::CallToolResult(result) => Ok(Answer {
                structured: result.structured_content,
                content: result.content.iter().filter_map(|block| serde_json::to_value(block).ok()).collect(),
                is_error: result.is_error.unwrap_or(false),
            }),
            other => Err(no_answer(&other, "a tool")),
        }
    }

    /// Gets a prompt, as [`Self::call`] calls a tool.
    ///
    /// # Errors
    /// See [`McpFault`].
    pub async fn prompt(
        &self,
        name: &str,
        args: Option<Map<String, Value>>,
        within: Duration,
        ended: &CancellationToken,
        speaker: Option<Speaker>,
    ) -> Result<GetPromptResult, McpFault> {
        let mut params = GetPromptRequestParams::new(name);
        params.arguments = args;
        let again = self.again(speaker.as_ref());
        (params.input_responses, params.request_state) = (again.responses, again.state);
        let request = ClientRequest::GetPromptRequest(GetPromptRequest::new(params));
        match self.ask_for(request, within, ended, speaker).await? {
            ServerResult::GetPromptResult(result) => Ok(result),
            other => Err(no_answer(&other, "a prompt")),
        }
    }

    /// Reads a resource, as [`Self::call`] calls a tool.
    ///
    /// # Errors
    /// See [`McpFault`].
    pub async fn read(
        &self,
        uri: &str,
        within: Duration,
        ended: &CancellationToken,
        speaker: Option<Speaker>,
    ) -> Result<ReadResourceResult, McpFault> {
        let mut params = ReadResourceRequestParams::new(uri);
        let again = self.again(speaker.as_ref());
        (params.input_responses, params.request_state) = (again.responses, again.state);
        let request = ReadResourceRequest::new(params);
        match self.ask_for(ClientRequest::ReadResourceRequest(request), within, ended, speaker).await? {
            ServerResult::ReadResourceResult(result) => Ok(result),
            other => Err(no_answer(&other, "a resource")),
        }
    }

    /// What a caller brings that was asked for it; servers before 2026-07-28 never ask so.
    fn again(&self, speaker: Option<&Speaker>) -> Again {
        let again = speaker.filter(|_| self.is_newest()).and_then(|speaker| speaker.ears().again.clone());
        again.unwrap_or_default()
    }

    /// Asks on somebody's behalf. A server's questions and its own refusal are left for the caller's client.
    async fn ask_for(
        &self,
        mut request: ClientRequest,
        within: Duration,
        ended: &CancellationToken,
        speaker: Option<Speaker>,
    ) -> Result<ServerResult, McpFault> {
        let mut options = PeerRequestOptions::default();
        if let Some(level) = speaker.as_ref().and_then(|speaker| speaker.ears().logs) {
            self.want_logs(&mut request, level).await;
        }
        if self.is_newest() {
            // Of this caller alone, whatever was announced when the server was started.
            let mut meta = RequestMetaObject::new();
            meta.set_client_capabilities(speaker.as_ref().map(Speaker::announced).unwrap_or_default());
            options = options.with_meta(meta);
        }
        // A tool's failure is told to the model, with what it says; a client has to know of what it lacks, and of what is
        // wrong with what it brought back.
        let is_call = matches!(request, ClientRequest::CallToolRequest(_));
        let again = speaker.as_ref().is_some_and(|speaker| speaker.ears().again.is_some());
        let flight = self.calls.begin(speaker);
        flight.mark(&mut request);
        let answered = self.ask_with(request, within, within, ended, options).await;
        let Some(speaker) = flight.speaker() else { return answered };
        match answered {
            Ok(ServerResult::InputRequiredResult(asked)) => {
                speaker.ask_instead(asked).map_err(McpFault::Odd)?;
                Err(McpFault::Odd("it asks the caller for input".to_owned()))
            }
            Err(McpFault::Refused { code, message, data }) => {
                if !is_call || again || code == LACKS {
                    let told = ErrorData::new(ErrorCode(code), message.clone(), data.clone());
                    speaker.refuse(&told);
                }
                Err(McpFault::Refused { code, message, data })
            }
            answered => answered,
        }
    }

    pub(super) fn is_newest(&self) -> bool {
        self.service.peer().peer_info().is_some_and(|info| !info.protocol_version.has_initialize())
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
}

fn no_answer(answer: &ServerResult, of: &str) -> McpFault {
    McpFault::Odd(match answer {
        ServerResult::InputRequiredResult(_) => {
            "it asks the caller for input, and nobody is there to give it".to_owned()
        }
        _ => format!("its answer is none of {of}"),
    })
}

/// Nothing of what a server does not know.
fn known<T>(listed: Result<Vec<T>, McpFault>) -> Result<Vec<T>, McpFault> {
    match listed {
        Err(McpFault::Refused { code: NO_SUCH_METHOD, .. }) => Ok(Vec::new()),
        listed => listed,
    }
}

fn length<T: Serialize>(item: &T) -> usize {
    serde_json::to_string(item).map_or(0, |text| text.len())
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
