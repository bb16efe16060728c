//! `/v1/runs/{id}/tools…`: the tools of an agent-tier run, on its agent's door and for the operator.

use std::sync::Arc;

use axum::{
    Json,
    extract::{Path, State, rejection::PathRejection},
};
use serde_json::{Map, Value};

use super::{
    access::Caller,
    extract::{Id, MaybeBody, Params},
    page::{Order, Page, PageParams},
    problem::{Problem, Problems},
    work,
};
use crate::app::{
    Hive,
    job_types::{RunTool, ToolCall},
};

const TAG: &str = "runs";
type Answer<T> = Result<T, Problem>;

/// Lists the tools that a running agent-tier run may call: those that its job requires.
#[utoipa::path(get, path = "/v1/runs/{id}/tools", tag = TAG, params(("id" = i64, Path), PageParams),
    responses((status = 200, body = Page<RunTool>), Problems))]
pub async fn list(
    State(hive): State<Arc<Hive>>,
    Caller(caller): Caller,
    Id(id): Id,
    Params(page): Params<PageParams>,
) -> Answer<Json<Page<RunTool>>> {
    let tools = work::read(hive.run_tools(caller.as_ref(), id)).await??;
    page.cut(tools, Order::AsGiven, |tool| &tool.name).map(Json)
}

/// Calls a tool of a running agent-tier run with the arguments in the body: one of its steps. 403 for a tool that its
/// job does not require, which is no step; 409 once its steps are used up. A `/` in the name is written `%2F`. When
/// the caller goes or the run ends, the call is ended.
/// An `Idempotency-Key` is accepted and not remembered: a repeated call runs again.
#[utoipa::path(post, path = "/v1/runs/{id}/tools/{tool}", tag = TAG,
    params(("id" = i64, Path), ("tool" = String, Path), ("Idempotency-Key" = Option<String>, Header)),
    request_body(content = Option<Object>, description = "The arguments; left out: none",
        example = json!({"path": "notes.md"})),
    responses((status = 200, description = "It ran; whether it succeeded is in the body", body = ToolCall), Problems))]
pub async fn call(
    State(hive): State<Arc<Hive>>,
    Caller(caller): Caller,
    Id(id): Id,
    path: Result<Path<(String, String)>, PathRejection>,
    MaybeBody(args): MaybeBody<Map<String, Value>>,
) -> Answer<Json<ToolCall>> {
    let Path((_, tool)) = path.map_err(|e| Problem::new(e.status(), e.body_text()))?;
    Ok(Json(hive.call_run_tool(caller.as_ref(), id, &tool, &args).await?))
}

/// Calls the tool of a running direct-tier run whose tool is no script; answers its result. The run's own process asks
/// for it, once (`/skep/bin/skep act`); when that process ends, the call ends.
#[utoipa::path(post, path = "/v1/runs/{id}/act", tag = TAG, params(("id" = i64, Path)),
    responses((status = 200, description = "What the tool answered", body = Object), Problems))]
pub async fn act(State(hive): State<Arc<Hive>>, Caller(caller): Caller, Id(id): Id) -> Answer<Json<Value>> {
    Ok(Json(hive.act(caller.as_ref(), id).await?))
}
