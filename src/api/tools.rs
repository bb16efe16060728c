//! `/v1/tools`, `/v1/agents/{agent}/tools…`: what an agent can call, and calls of it.

use std::sync::Arc;

use axum::{
    Json,
    extract::{Path, State, rejection::PathRejection},
    http::StatusCode,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::{IntoParams, ToSchema};

use super::{
    access::Caller,
    extract::{MaybeBody, Name, Params},
    mcp::names,
    page::{Order, Page, PageParams},
    problem::{Problem, Problems},
    work,
};
use crate::{
    app::{
        Hive,
        tools::types::{ToolReply, ToolView},
        types::AppError,
    },
    ids::AgentId,
};

const TAG: &str = "tools";
type Answer<T> = Result<T, Problem>;

/// Whose tools are listed.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct ToolFilter {
    /// Whose; left out: of the caller, else of the hive's default agent.
    #[param(value_type = Option<String>)]
    agent: Option<AgentId>,
}

/// A part of the tools of an agent.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct ToolPage {
    /// In order.
    pub items: Vec<ToolView>,
    /// The cursor of the next page; null at the end.
    pub next: Option<String>,
    /// What is not in the list, and why: MCP servers that failed, skills that miss something, names that cannot be
    /// called; and tools that MCP clients know by another name.
    pub warnings: Vec<String>,
}

/// Lists the tools of an agent: scripts of its skills, tools of their MCP servers, and the hive's own; by server and
/// name.
#[utoipa::path(get, path = "/v1/tools", tag = TAG, params(ToolFilter, PageParams),
    responses((status = 200, body = ToolPage), Problems))]
pub async fn list(
    State(hive): State<Arc<Hive>>,
    Caller(caller): Caller,
    Params(filter): Params<ToolFilter>,
    Params(page): Params<PageParams>,
) -> Answer<Json<ToolPage>> {
    if let (Some(caller), Some(agent)) = (&caller, &filter.agent)
        && caller != agent
    {
        return Err(Problem::forbidden(format!("agent {caller} may not reach another agent's things")));
    }
    let agent = filter.agent.or(caller).or_else(|| hive.default_agent());
    let agent = agent.ok_or_else(|| {
        Problem::new(
            StatusCode::UNPROCESSABLE_ENTITY,
            "say whose: ?agent=NAME (the hive has no default_agent)",
        )
    })?;
    listed(hive, agent, &page).await
}

/// Lists the tools of an agent.
#[utoipa::path(get, path = "/v1/agents/{agent}/tools", tag = TAG, params(("agent" = String, Path), PageParams),
    responses((status = 200, body = ToolPage), Problems))]
pub async fn of_agent(
    State(hive): State<Arc<Hive>>,
    Name(agent): Name<AgentId>,
    Params(page): Params<PageParams>,
) -> Answer<Json<ToolPage>> {
    listed(hive, agent, &page).await
}

async fn listed(hive: Arc<Hive>, agent: AgentId, page: &PageParams) -> Answer<Json<ToolPage>> {
    let read = async move {
        let tools = hive.tool_views(&agent).await?;
        // Only now: listing them has started their servers.
        Ok::<_, AppError>((tools, hive.lacking_tools(&agent)))
    };
    let (tools, mut warnings) = work::read(read).await??;
    warnings.extend(tools.iter().filter_map(|tool| renamed(&tool.name)));
    let Page { items, next } = page.cut(tools, Order::AsGiven, |tool| &tool.name)?;
    Ok(Json(ToolPage { items, next, warnings }))
}

/// What MCP clients call a tool whose name they would not take.
fn renamed(name: &str) -> Option<String> {
    let shown = names::shown(name);
    (shown != name)
        .then(|| format!("MCP clients know the tool {name:?} as {shown}: they do not take every name"))
}

/// Calls a tool of an agent now, with the arguments in the body. A `/` in the name is written `%2F`. When the caller
/// goes, the call is ended. An `Idempotency-Key` is accepted and not remembered: a repeated call runs again.
#[utoipa::path(post, path = "/v1/agents/{agent}/tools/{tool}", tag = TAG,
    params(("agent" = String, Path), ("tool" = String, Path), ("Idempotency-Key" = Option<String>, Header)),
    request_body(content = Option<Object>, description = "The arguments; left out: none",
        example = json!({"path": "notes.md"})),
    responses((status = 200, description = "It was called; whether it succeeded is in the body", body = ToolReply),
        Problems))]
pub async fn call(
    State(hive): State<Arc<Hive>>,
    Caller(caller): Caller,
    path: Result<Path<(AgentId, String)>, PathRejection>,
    MaybeBody(args): MaybeBody<Map<String, Value>>,
) -> Answer<Json<ToolReply>> {
    let Path((agent, tool)) = path.map_err(|e| Problem::new(e.status(), e.body_text()))?;
    Ok(Json(hive.call_tool(caller.as_ref(), &agent, &tool, args).await?))
}
