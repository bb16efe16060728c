//! `/mcp` and `/v1/runs/{id}/mcp`: what an agent has for MCP clients, or the tools of a run (streamable HTTP, every
//! protocol version that rmcp speaks at once).
//!
//! Who calls is what the door says of each request, never what a session says; a session belongs to whom began it.
//! Nothing here decides what a tool may do: calls go the way of all others.

pub(super) mod names;
mod offers;
mod relay;
mod results;
mod server;
mod sessions;
mod skills;

use std::sync::Arc;

use axum::{
    Extension, Json,
    body::{Body, to_bytes},
    extract::{Request, State},
    http::{HeaderMap, HeaderValue, Method, StatusCode, header},
    response::{IntoResponse, Response},
};
use futures_util::StreamExt;
use rmcp::transport::streamable_http_server::{
    StreamableHttpServerConfig, StreamableHttpService,
    session::{SessionManager, never::NeverSessionManager},
};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use utoipa::IntoParams;

pub(super) use self::sessions::Sessions;
use self::{
    server::{Gone, Server},
    sessions::Who,
};
use super::{
    MAX_BODY,
    access::{Access, Caller},
    extract::{BODY_TIMEOUT, Id, Params, is_json},
    problem::{Problem, Problems},
    work,
};
use crate::{app::Hive, ids::AgentId};

const TAG: &str = "mcp";
const SESSION: &str = "mcp-session-id";
const SUPERVISOR: &str = "skep-supervisor";
type Answer = Result<Response, Problem>;

/// Problems as everywhere, and the protocol's own errors (JSON-RPC).
struct Refusals;

impl utoipa::IntoResponses for Refusals {
    fn responses()
    -> std::collections::BTreeMap<String, utoipa::openapi::RefOr<utoipa::openapi::response::Response>> {
        let mut all = Problems::responses();
        if let Some(utoipa::openapi::RefOr::T(refused)) = all.get_mut("4XX") {
            let error = utoipa::openapi::ObjectBuilder::new().build();
            refused
                .content
                .insert("application/json".into(), utoipa::openapi::Content::new(Some(error)).into());
        }
        all
    }
}

/// Whose tools are served.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct McpParams {
    /// Whose; left out: the caller's, else those of the hive's default agent.
    #[param(value_type = Option<String>)]
    agent: Option<AgentId>,
}

/// One message of an MCP client (JSON-RPC), answered as JSON or as a stream of events. Up to 2025-11-25 a session begins
/// with `initialize`; it is its caller's alone, and ends after an hour in which nobody used it. A process of an agent-tier
/// run finds what is at `/v1/runs/{id}/mcp`.
#[utoipa::path(post, path = "/mcp", tag = TAG,
    params(McpParams, ("Mcp-Session-Id" = Option<String>, Header), ("MCP-Protocol-Version" = Option<String>, Header)),
    request_body(content = Object, description = "A JSON-RPC message",
        example = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})),
    responses((status = 200, content((Object = "application/json"), (String = "text/event-stream"))),
        (status = 202, description = "A notification was taken"), Refusals))]
pub async fn send(
    State(hive): State<Arc<Hive>>,
    Extension(sessions): Extension<Arc<Sessions>>,
    Extension(access): Extension<Access>,
    Caller(caller): Caller,
    Params(params): Params<McpParams>,
    request: Request,
) -> Answer {
    if let Access::Run { run, .. } = access {
        return held(hive, caller, run, request).await;
    }
    of_agent(hive, sessions, caller, params, request).await
}

/// The messages of the server in a session, as a stream of events.
#[utoipa::path(get, path = "/mcp", tag = TAG,
    params(McpParams, ("Mcp-Session-Id" = Option<String>, Header)),
    responses((status = 200, content((String = "text/event-stream"))), Refusals))]
pub async fn listen(
    State(hive): State<Arc<Hive>>,
    Extension(sessions): Extension<Arc<Sessions>>,
    Caller(caller): Caller,
    Params(params): Params<McpParams>,
    request: Request,
) -> Answer {
    of_agent(hive, sessions, caller, params, request).await
}

/// Ends a session.
#[utoipa::path(delete, path = "/mcp", tag = TAG,
    params(McpParams, ("Mcp-Session-Id" = Option<String>, Header)),
    responses((status = 202, description = "It is ended"), Refusals))]
pub async fn end(
    State(hive): State<Arc<Hive>>,
    Extension(sessions): Extension<Arc<Sessions>>,
    Caller(caller): Caller,
    Params(params): Params<McpParams>,
    request: Request,
) -> Answer {
    of_agent(hive, sessions, caller, params, request).await
}

/// One message of an MCP client that is held to a run: it sees and calls the tools that the run's job requires, and no
/// more often than its `max_steps`. Without sessions; always answered as JSON.
#[utoipa::path(post, path = "/v1/runs/{id}/mcp", tag = "runs",
    params(("id" = i64, Path), ("MCP-Protocol-Version" = Option<String>, Header)),
    request_body(content = Object, description = "A JSON-RPC message",
        example = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})),
    responses((status = 200, body = Object), (status = 202, description = "A notification was taken"), Refusals))]
pub async fn of_run(
    State(hive): State<Arc<Hive>>,
    Caller(caller): Caller,
    Id(id): Id,
    request: Request,
) -> Answer {
    held(hive, caller, id, request).await
}

async fn held(hive: Arc<Hive>, caller: Option<AgentId>, id: i64, request: Request) -> Answer {
    let agent = work::read(hive.run_for_tools(caller.as_ref(), id)).await??;
    let config = config(&hive).with_legacy_session_mode(false);
    serve(
        &hive,
        Arc::new(NeverSessionManager::default()),
        config,
        Who { caller, agent, run: Some(id) },
        request,
    )
    .await
}

async fn of_agent(
    hive: Arc<Hive>,
    sessions: Arc<Sessions>,
    caller: Option<AgentId>,
    params: McpParams,
    request: Request,
) -> Answer {
    let who = who(&hive, caller, params)?;
    let named = session(request.headers());
    if let Some(id) = &named
        && !sessions.may_use(id, &who).await
    {
        let why = "there is no such session: begin one with initialize";
        return Ok(signed(&hive, Problem::new(StatusCode::NOT_FOUND, why).into_response()));
    }
    let response = serve(&hive, sessions.manager(), config(&hive), who.clone(), request).await?;
    if let (None, Some(id)) = (named, session(response.headers())) {
        sessions.bind(id, who).await;
    }
    Ok(signed(&hive, response))
}

/// With the name of this supervisor, by which a bridge tells a session that ended from one that went with another.
fn signed(hive: &Hive, mut response: Response) -> Response {
    let name = HeaderValue::from(hive.started_at.as_microsecond());
    response.headers_mut().insert(SUPERVISOR, name);
    response
}

fn session(headers: &HeaderMap) -> Option<Arc<str>> {
    headers.get(SESSION)?.to_str().ok().map(Into::into)
}

/// Who calls, and whose tools these are.
fn who(hive: &Hive, caller: Option<AgentId>, params: McpParams) -> Result<Who, Problem> {
    if let (Some(caller), Some(agent)) = (&caller, &params.agent)
        && caller != agent
    {
        return Err(Problem::forbidden(format!("agent {caller} may not reach another agent's things")));
    }
    let agent =
        params.agent.or_else(|| caller.clone()).or_else(|| hive.default_agent()).ok_or_else(|| {
            Problem::invalid("?agent", "say whose: ?agent=NAME (the hive has no default_agent)")
        })?;
    hive.find_agent(&agent)?;
    Ok(Who { caller, agent, run: None })
}

/// The doors have looked at `Host`, `Origin` and the token; sockets have no host to name.
fn config(hive: &Hive) -> StreamableHttpServerConfig {
    StreamableHttpServerConfig::default()
        .with_json_response(true)
        .disable_allowed_hosts()
        .with_max_request_body_bytes(MAX_BODY)
        .with_cancellation_token(hive.stopping.clone())
}

async fn serve<M: SessionManager>(
    hive: &Arc<Hive>,
    manager: Arc<M>,
    config: StreamableHttpServerConfig,
    who: Who,
    request: Request,
) -> Answer {
    let mut request = match checked(request).await {
        Ok(request) => request,
        Err(refusal) => return Ok(refusal),
    };
    let gone = CancellationToken::new();
    // A call ends with the request that asked for it, also where a session goes on.
    let there = gone.clone().drop_guard();
    request.extensions_mut().insert(who.clone());
    request.extensions_mut().insert(Gone(gone));
    let (hive, of_run) = (hive.clone(), who.run.is_some());
    let service = StreamableHttpService::new(move || Ok(Server::new(hive.clone(), of_run)), manager, config);
    let response = service.handle(request).await.map(Body::new);
    let kind = response.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or("");
    if kind.starts_with("text/event-stream") {
        return Ok(response.map(|body| {
            Body::from_stream(body.into_data_stream().map(move |piece| {
                let _there = &there;
                piece
            }))
        }));
    }
    there.disarm();
    if response.status().is_success() || kind.starts_with("application/json") {
        return Ok(response);
    }
    Ok(in_our_words(response).await)
}

/// A request whose body is a message, or JSON-RPC's own refusal: the transport would tell of the media type.
async fn checked(request: Request) -> Result<Request, Response> {
    let (parts, body) = request.into_parts();
    if parts.method != Method::POST || !is_json(&parts.headers) {
        return Ok(Request::from_parts(parts, body));
    }
    let refusal = |status: StatusCode, code: i32, why: String| {
        let error = json!({ "jsonrpc": "2.0", "id": null, "error": { "code": code, "message": why } });
        (status, Json(error)).into_response()
    };
    let bytes = match tokio::time::timeout(BODY_TIMEOUT, to_bytes(body, MAX_BODY)).await {
        Ok(Ok(bytes)) => bytes,
        Ok(Err(_)) => {
            let why = format!("a message has at most {MAX_BODY} bytes");
            return Err(refusal(StatusCode::PAYLOAD_TOO_LARGE, -32600, why));
        }
        Err(_) => {
            return Err(refusal(
                StatusCode::REQUEST_TIMEOUT,
                -32600,
                "the message did not arrive".to_owned(),
            ));
        }
    };
    match serde_json::from_slice::<Value>(&bytes) {
        Ok(Value::Object(_)) => Ok(Request::from_parts(parts, Body::from(bytes))),
        Ok(_) => {
            let why = "send one message, a JSON object: there are no batches".to_owned();
            Err(refusal(StatusCode::BAD_REQUEST, -32600, why))
        }
        Err(e) => Err(refusal(StatusCode::BAD_REQUEST, -32700, format!("the body is not JSON: {e}"))),
    }
}

/// A refusal of the transport as a problem.
async fn in_our_words(response: Response) -> Response {
    let (parts, body) = response.into_parts();
    let text = to_bytes(body, MAX_BODY).await.unwrap_or_default();
    let mut problem = Problem::new(parts.status, String::from_utf8_lossy(&text)).into_response();
    if let Some(allow) = parts.headers.get(header::ALLOW) {
        problem.headers_mut().insert(header::ALLOW, allow.clone());
    }
    problem
}
