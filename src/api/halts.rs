//! `/v1/halt` and `/v1/resume`: the switch that stops new starts (systems.md A29).

use std::sync::Arc;

use axum::{Json, extract::State};

use super::{
    extract::MaybeBody,
    problem::{Problem, Problems},
    work,
};
use crate::{
    app::{
        Hive,
        job_types::{HaltRequest, HaltView},
    },
    ids::AgentId,
};

const TAG: &str = "halts";
type Answer<T> = Result<T, Problem>;

/// Shows what is halted.
#[utoipa::path(get, path = "/v1/halt", tag = TAG, responses((status = 200, body = HaltView), Problems))]
pub async fn show(State(hive): State<Arc<Hive>>) -> Json<HaltView> {
    Json(hive.halted())
}

/// Stops new starts of an agent, or of all; what runs goes on. It holds across restarts.
#[utoipa::path(post, path = "/v1/halt", tag = TAG, request_body = Option<HaltRequest>,
    params(("Idempotency-Key" = Option<String>, Header)),
    responses((status = 200, description = "What is halted now", body = HaltView), Problems))]
pub async fn halt(
    State(hive): State<Arc<Hive>>,
    MaybeBody(request): MaybeBody<HaltRequest>,
) -> Answer<Json<HaltView>> {
    let agent = agent(request)?;
    Ok(Json(work::write(async move { hive.halt(agent).await }).await?))
}

/// Lifts the halt of an agent, or all halts.
#[utoipa::path(post, path = "/v1/resume", tag = TAG, request_body = Option<HaltRequest>,
    params(("Idempotency-Key" = Option<String>, Header)),
    responses((status = 200, description = "What is still halted", body = HaltView), Problems))]
pub async fn resume(
    State(hive): State<Arc<Hive>>,
    MaybeBody(request): MaybeBody<HaltRequest>,
) -> Answer<Json<HaltView>> {
    let agent = agent(request)?;
    Ok(Json(work::write(async move { hive.resume(agent).await }).await?))
}

fn agent(request: HaltRequest) -> Answer<Option<AgentId>> {
    let agent = request.agent.map(|name| name.parse::<AgentId>());
    agent.transpose().map_err(|e| Problem::invalid("/agent", e.0))
}
