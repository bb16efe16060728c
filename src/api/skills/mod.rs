//! `/v1/skills…`, `/v1/resolve` and `/v1/update`.

pub(super) mod judge;
pub(super) mod publish;
pub(super) mod versions;

use std::sync::Arc;

use axum::{
    Json,
    extract::State,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::api::{
    access::Caller,
    extract::{Body, MaybeBody, Name, Params, yes_or_no},
    page::{Order, Page, PageParams},
    problem::{FieldFault, Problem, Problems},
    work,
};
use crate::{
    app::{
        Hive,
        skills::{Found, SkillFilter},
        types::{ChangeView, ResolveView, SkillView, UpdateRequest},
    },
    ids::{AgentId, SkillId, SkillRef},
};

type Answer<T> = Result<T, Problem>;

/// Which skills.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct SkillParams {
    /// `built-in`, `operator` or an agent.
    owner: Option<String>,
    /// With this tag.
    tag: Option<String>,
    /// With these words; the best match comes first.
    q: Option<String>,
    /// Also the disabled ones.
    #[serde(default, deserialize_with = "yes_or_no")]
    #[param(default = false)]
    include_disabled: bool,
}

/// Lists the skills: by id, or with `q` by rank.
#[utoipa::path(get, path = "/v1/skills", tag = "skills", params(SkillParams, PageParams),
    responses((status = 200, body = Page<SkillView>), Problems))]
pub async fn list(
    State(hive): State<Arc<Hive>>,
    Caller(caller): Caller,
    Params(params): Params<SkillParams>,
    Params(page): Params<PageParams>,
) -> Answer<Json<Page<SkillView>>> {
    let SkillParams { owner, tag, q, include_disabled } = params;
    let order = if q.is_some() { Order::AsGiven } else { Order::Key };
    let filter = SkillFilter { owner, tag, q: q.clone(), include_disabled, caller, enough: page.first()? };
    let page = page.cut(work::read(hive.skills(filter)).await??, order, Found::id)?;
    let items = work::read(hive.skill_views(&page.items, q)).await??;
    Ok(Json(Page { items, next: page.next }))
}

/// Shows a skill.
#[utoipa::path(get, path = "/v1/skills/{id}", tag = "skills", params(("id" = String, Path)),
    responses((status = 200, body = SkillView), Problems))]
pub async fn show(
    State(hive): State<Arc<Hive>>,
    Caller(caller): Caller,
    Name(id): Name<SkillId>,
) -> Answer<Response> {
    let json = hive.skill_json(caller.as_ref(), &id)?;
    Ok(([(header::CONTENT_TYPE, "application/json")], json).into_response())
}

/// References to resolve together.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
#[schema(example = json!({"skills": ["basic-tools@^1", "cron-tools@latest"]}))]
#[serde(deny_unknown_fields)]
pub struct ResolveRequest {
    /// Like `id`, `id@1.2.3`, `id@^1.2`, `id@latest`.
    pub skills: Vec<String>,
    /// Also tell who asked for what.
    #[serde(default)]
    pub explain: bool,
}

/// Resolves references, as an agent's would be; changes nothing.
#[utoipa::path(post, path = "/v1/resolve", tag = "skills", request_body = ResolveRequest,
    params(("Idempotency-Key" = Option<String>, Header)),
    responses((status = 200, body = ResolveView),
        (status = 409, description = "There is no solution; `detail` tells why", body = Problem,
            content_type = "application/problem+json"),
        Problems))]
pub async fn resolve(
    State(hive): State<Arc<Hive>>,
    Body(request): Body<ResolveRequest>,
) -> Answer<Json<ResolveView>> {
    let skills = references(&request.skills)?;
    Ok(Json(work::read(hive.resolve(None, &skills, request.explain)).await??))
}

fn references(written: &[String]) -> Answer<Vec<SkillRef>> {
    let (mut skills, mut errors) = (Vec::new(), Vec::new());
    for (n, text) in written.iter().enumerate() {
        match text.parse::<SkillRef>() {
            Ok(skill) => skills.push(skill),
            Err(e) => errors.push(FieldFault { pointer: format!("/skills/{n}"), detail: e.to_string() }),
        }
    }
    if errors.is_empty() {
        return Ok(skills);
    }
    let mut problem = Problem::new(
        StatusCode::UNPROCESSABLE_ENTITY,
        format!("{} of {} references cannot be read", errors.len(), written.len()),
    );
    problem.errors = errors;
    Err(problem)
}

/// With or without the explanation.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct ExplainParams {
    /// Also tell who asked for what.
    #[serde(default, deserialize_with = "yes_or_no")]
    #[param(default = false)]
    explain: bool,
}

/// What an agent's references resolve to.
#[utoipa::path(get, path = "/v1/agents/{agent}/resolve", tag = "agents",
    params(("agent" = String, Path), ExplainParams),
    responses((status = 200, body = ResolveView), Problems))]
pub async fn resolve_agent(
    State(hive): State<Arc<Hive>>,
    Name(agent): Name<AgentId>,
    Params(params): Params<ExplainParams>,
) -> Answer<Json<ResolveView>> {
    Ok(Json(work::read(hive.resolve(Some(&agent), &[], params.explain)).await??))
}

/// What an update changes.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct Changes {
    /// By agent and skill.
    pub changes: Vec<ChangeView>,
}

/// Resolves anew within the ranges of `skep.toml`, rewrites `skep.lock` and swaps.
#[utoipa::path(post, path = "/v1/update", tag = "skills", request_body = Option<UpdateRequest>,
    params(("Idempotency-Key" = Option<String>, Header)),
    responses((status = 200, body = Changes), Problems))]
pub async fn update(
    State(hive): State<Arc<Hive>>,
    MaybeBody(request): MaybeBody<UpdateRequest>,
) -> Answer<Json<Changes>> {
    let changes = work::write(async move { hive.update(request).await }).await?;
    Ok(Json(Changes { changes }))
}
