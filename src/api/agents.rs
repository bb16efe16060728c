//! `/v1/agents…`: what an agent is and does, its prompt, soul and logs; commands run to their end.

use std::{convert::Infallible, sync::Arc};

use axum::{
    Json,
    body::Body as HttpBody,
    extract::State,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use futures_util::stream;
use serde::Deserialize;
use tokio::sync::mpsc;
use utoipa::{IntoParams, ToSchema};

use super::{
    extract::{Body, Name, Params, Text, yes_or_no},
    page::{Order, Page, PageParams},
    problem::{Problem, Problems},
    work,
};
use crate::{
    app::{
        Hive, LogRequest, LogStream,
        types::{AgentView, ExecRequest, ExecResult},
    },
    ids::AgentId,
};

const TAG: &str = "agents";
type Answer<T> = Result<T, Problem>;

/// Lists the agents, by name.
#[utoipa::path(get, path = "/v1/agents", tag = TAG, params(PageParams),
    responses((status = 200, body = Page<AgentView>), Problems))]
pub async fn list(
    State(hive): State<Arc<Hive>>,
    Params(page): Params<PageParams>,
) -> Answer<Json<Page<AgentView>>> {
    let agents = work::read(hive.agents()).await?;
    page.cut(agents, Order::Key, |a| &a.id).map(Json)
}

/// Shows an agent.
#[utoipa::path(get, path = "/v1/agents/{agent}", tag = TAG, params(("agent" = String, Path)),
    responses((status = 200, body = AgentView), Problems))]
pub async fn show(State(hive): State<Arc<Hive>>, Name(agent): Name<AgentId>) -> Answer<Json<AgentView>> {
    Ok(Json(work::read(hive.agent(&agent)).await??))
}

type Accepted = (StatusCode, Json<AgentView>);

/// Wants an agent to run.
#[utoipa::path(post, path = "/v1/agents/{agent}/start", tag = TAG,
    params(("agent" = String, Path), ("Idempotency-Key" = Option<String>, Header)),
    responses((status = 202, description = "It will be done; the agent as it is now", body = AgentView), Problems))]
pub async fn start(State(hive): State<Arc<Hive>>, Name(agent): Name<AgentId>) -> Answer<Accepted> {
    let view = async move {
        hive.start_agent(&agent).await?;
        hive.agent(&agent).await
    };
    Ok((StatusCode::ACCEPTED, Json(work::write(view).await?)))
}

/// Wants an agent to stand still; its workspace stays.
#[utoipa::path(post, path = "/v1/agents/{agent}/stop", tag = TAG,
    params(("agent" = String, Path), ("Idempotency-Key" = Option<String>, Header)),
    responses((status = 202, description = "It will be done; the agent as it is now", body = AgentView), Problems))]
pub async fn stop(State(hive): State<Arc<Hive>>, Name(agent): Name<AgentId>) -> Answer<Accepted> {
    let view = async move {
        hive.stop_agent(&agent).await?;
        hive.agent(&agent).await
    };
    Ok((StatusCode::ACCEPTED, Json(work::write(view).await?)))
}

/// Wants a new container for an agent.
#[utoipa::path(post, path = "/v1/agents/{agent}/restart", tag = TAG,
    params(("agent" = String, Path), ("Idempotency-Key" = Option<String>, Header)),
    responses((status = 202, description = "It will be done; the agent as it is now", body = AgentView), Problems))]
pub async fn restart(State(hive): State<Arc<Hive>>, Name(agent): Name<AgentId>) -> Answer<Accepted> {
    let view = async move {
        hive.restart_agent(&agent).await?;
        hive.agent(&agent).await
    };
    Ok((StatusCode::ACCEPTED, Json(work::write(view).await?)))
}

/// The built prompt, with secrets masked.
#[utoipa::path(get, path = "/v1/agents/{agent}/prompt", tag = TAG, params(("agent" = String, Path)),
    responses((status = 200, body = String, content_type = "text/markdown"), Problems))]
pub async fn prompt(State(hive): State<Arc<Hive>>, Name(agent): Name<AgentId>) -> Answer<Response> {
    Ok(markdown(work::read(hive.prompt(&agent)).await??))
}

/// The agent's soul.
#[utoipa::path(get, path = "/v1/agents/{agent}/soul", tag = TAG, params(("agent" = String, Path)),
    responses((status = 200, body = String, content_type = "text/markdown"), Problems))]
pub async fn soul(State(hive): State<Arc<Hive>>, Name(agent): Name<AgentId>) -> Answer<Response> {
    Ok(markdown(work::read(hive.soul(&agent)).await??))
}

/// Replaces the agent's soul.
#[utoipa::path(put, path = "/v1/agents/{agent}/soul", tag = TAG,
    params(("agent" = String, Path), ("Idempotency-Key" = Option<String>, Header)),
    request_body(content((String = "text/markdown", example = "# Writer\n\nYou write the weekly report.\n"),
        (String = "text/plain", example = "You write the weekly report."))),
    responses((status = 204, description = "Replaced"), Problems))]
pub async fn set_soul(
    State(hive): State<Arc<Hive>>,
    Name(agent): Name<AgentId>,
    Text(text): Text,
) -> Answer<StatusCode> {
    work::write(async move { hive.set_soul(&agent, &text).await }).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Runs a command to its end in the agent's container. When the caller goes, the command is ended.
/// The body may have 2 MiB. An `Idempotency-Key` is accepted and not remembered: a repeated call runs again.
#[utoipa::path(post, path = "/v1/agents/{agent}/exec", tag = TAG,
    params(("agent" = String, Path), ("Idempotency-Key" = Option<String>, Header)),
    request_body = ExecRequest, responses((status = 200, body = ExecResult), Problems))]
pub async fn exec(
    State(hive): State<Arc<Hive>>,
    Name(agent): Name<AgentId>,
    Body(request): Body<ExecRequest>,
) -> Answer<Json<ExecResult>> {
    Ok(Json(hive.exec(&agent, request).await?))
}

/// Which of an agent's output.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct LogParams {
    /// Go on with what comes.
    #[serde(default, deserialize_with = "yes_or_no")]
    #[param(default = false)]
    follow: bool,
    /// Only so many of the last lines.
    tail: Option<usize>,
    /// Begin each line with its time, RFC 3339.
    #[serde(default, deserialize_with = "yes_or_no")]
    #[param(default = false)]
    timestamps: bool,
    /// Only this one.
    #[param(inline)]
    stream: Option<StreamName>,
}

#[derive(Debug, Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum StreamName {
    Stdout,
    Stderr,
}

impl From<StreamName> for LogStream {
    fn from(name: StreamName) -> Self {
        match name {
            StreamName::Stdout => Self::Stdout,
            StreamName::Stderr => Self::Stderr,
        }
    }
}

/// The output of the agent's `main` and its container, secrets masked.
#[utoipa::path(get, path = "/v1/agents/{agent}/logs", tag = TAG, params(("agent" = String, Path), LogParams),
    responses((status = 200, body = String, content_type = "text/plain"), Problems))]
pub async fn logs(
    State(hive): State<Arc<Hive>>,
    Name(agent): Name<AgentId>,
    Params(params): Params<LogParams>,
) -> Answer<Response> {
    let request = LogRequest {
        follow: params.follow,
        tail: params.tail,
        timestamps: params.timestamps,
        stream: params.stream.map(Into::into),
    };
    let lines = work::read(hive.logs(&agent, request)).await??;
    Ok(streamed(lines))
}

/// Pulled as the client takes it: a slow reader holds the writer back.
pub(super) fn streamed(lines: mpsc::Receiver<Bytes>) -> Response {
    let body = stream::unfold(lines, async |mut lines| {
        let piece = lines.recv().await?;
        Some((Ok::<_, Infallible>(piece), lines))
    });
    ([(header::CONTENT_TYPE, "text/plain; charset=utf-8")], HttpBody::from_stream(body)).into_response()
}

fn markdown(text: String) -> Response {
    ([(header::CONTENT_TYPE, "text/markdown; charset=utf-8")], text).into_response()
}
