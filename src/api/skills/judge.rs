//! What is said about skills and versions, deleting, and going back. Whose a skill is, the use cases see to.

use std::sync::Arc;

use axum::{Json, extract::State, http::StatusCode};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{Answer, Changes, versions::Exact};
use crate::{
    api::{
        access::Caller,
        extract::{Body, MaybeBody, Name},
        problem::{Problem, Problems},
        work,
    },
    app::{
        Hive,
        skills::Verdict,
        types::{RollbackRequest, SkillVersionView, SkillView},
    },
    ids::{AgentId, SkillId},
};

type Said = Answer<Json<SkillVersionView>>;

async fn say(hive: Arc<Hive>, caller: Option<AgentId>, at: Exact, verdict: Verdict) -> Said {
    let work = async move { hive.judge_version(caller.as_ref(), &at.id, &at.version, verdict).await };
    Ok(Json(work::write(work).await?))
}

/// Hides a version from new resolutions; whoever has it locked keeps it. An agent may do so with what it owns.
#[utoipa::path(post, path = "/v1/skills/{id}/versions/{version}/yank", tag = "skills",
    params(("id" = String, Path), ("version" = String, Path), ("Idempotency-Key" = Option<String>, Header)),
    responses((status = 200, body = SkillVersionView), Problems))]
pub async fn yank(State(hive): State<Arc<Hive>>, Caller(caller): Caller, at: Exact) -> Said {
    say(hive, caller, at, Verdict::Yank).await
}

/// Hides a version no longer.
#[utoipa::path(post, path = "/v1/skills/{id}/versions/{version}/unyank", tag = "skills",
    params(("id" = String, Path), ("version" = String, Path), ("Idempotency-Key" = Option<String>, Header)),
    responses((status = 200, body = SkillVersionView), Problems))]
pub async fn unyank(State(hive): State<Arc<Hive>>, Caller(caller): Caller, at: Exact) -> Said {
    say(hive, caller, at, Verdict::Unyank).await
}

/// Why a version should not be used.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
#[schema(example = json!({"message": "use note-keeping instead"}))]
#[serde(deny_unknown_fields)]
pub struct DeprecateRequest {
    /// Warns whoever resolves it; null: no longer.
    #[schema(example = "use note-keeping instead")]
    pub message: Option<String>,
}

/// Warns whoever resolves a version, or no longer. An agent may do so with what it owns.
#[utoipa::path(post, path = "/v1/skills/{id}/versions/{version}/deprecate", tag = "skills",
    params(("id" = String, Path), ("version" = String, Path), ("Idempotency-Key" = Option<String>, Header)),
    request_body = DeprecateRequest, responses((status = 200, body = SkillVersionView), Problems))]
pub async fn deprecate(
    State(hive): State<Arc<Hive>>,
    Caller(caller): Caller,
    at: Exact,
    Body(request): Body<DeprecateRequest>,
) -> Said {
    say(hive, caller, at, Verdict::Deprecate(request.message)).await
}

/// Approves a version that an agent wrote: others may resolve it, and it is given what it asks for.
#[utoipa::path(post, path = "/v1/skills/{id}/versions/{version}/approve", tag = "skills",
    params(("id" = String, Path), ("version" = String, Path), ("Idempotency-Key" = Option<String>, Header)),
    responses((status = 200, body = SkillVersionView),
        (status = 409, description = "It is not an agent's", body = Problem,
            content_type = "application/problem+json"), Problems))]
pub async fn approve(State(hive): State<Arc<Hive>>, Caller(caller): Caller, at: Exact) -> Said {
    say(hive, caller, at, Verdict::Approve).await
}

/// Why a version is rejected.
#[derive(Debug, Default, Deserialize, Serialize, ToSchema)]
#[schema(example = json!({"reason": "it sends the workspace to a host that it does not name"}))]
#[serde(deny_unknown_fields)]
pub struct RejectRequest {
    /// For its author.
    #[serde(default)]
    #[schema(example = "it sends the workspace to a host that it does not name")]
    pub reason: Option<String>,
}

/// Rejects a version that an agent wrote: nobody resolves it, also not its author.
#[utoipa::path(post, path = "/v1/skills/{id}/versions/{version}/reject", tag = "skills",
    params(("id" = String, Path), ("version" = String, Path), ("Idempotency-Key" = Option<String>, Header)),
    request_body = Option<RejectRequest>, responses((status = 200, body = SkillVersionView),
        (status = 409, description = "It is not an agent's", body = Problem,
            content_type = "application/problem+json"), Problems))]
pub async fn reject(
    State(hive): State<Arc<Hive>>,
    Caller(caller): Caller,
    at: Exact,
    MaybeBody(request): MaybeBody<RejectRequest>,
) -> Said {
    say(hive, caller, at, Verdict::Reject(request.reason)).await
}

/// Enables a skill.
#[utoipa::path(post, path = "/v1/skills/{id}/enable", tag = "skills",
    params(("id" = String, Path), ("Idempotency-Key" = Option<String>, Header)),
    responses((status = 200, body = SkillView), Problems))]
pub async fn enable(
    State(hive): State<Arc<Hive>>,
    Caller(caller): Caller,
    Name(id): Name<SkillId>,
) -> Answer<Json<SkillView>> {
    Ok(Json(work::write(async move { hive.enable_skill(caller.as_ref(), &id, true).await }).await?))
}

/// Disables a skill: it is not resolved anew; whoever has it locked keeps it.
#[utoipa::path(post, path = "/v1/skills/{id}/disable", tag = "skills",
    params(("id" = String, Path), ("Idempotency-Key" = Option<String>, Header)),
    responses((status = 200, body = SkillView), Problems))]
pub async fn disable(
    State(hive): State<Arc<Hive>>,
    Caller(caller): Caller,
    Name(id): Name<SkillId>,
) -> Answer<Json<SkillView>> {
    Ok(Json(work::write(async move { hive.enable_skill(caller.as_ref(), &id, false).await }).await?))
}

/// Deletes a skill with all versions. An agent may do so with what it owns.
#[utoipa::path(delete, path = "/v1/skills/{id}", tag = "skills",
    params(("id" = String, Path), ("Idempotency-Key" = Option<String>, Header)),
    responses((status = 204, description = "Deleted"),
        (status = 409, description = "It is in use: `errors` names each agent and skill; or it is built in, or its \
            source folder is still there", body = Problem, content_type = "application/problem+json"),
        Problems))]
pub async fn remove(
    State(hive): State<Arc<Hive>>,
    Caller(caller): Caller,
    Name(id): Name<SkillId>,
) -> Answer<StatusCode> {
    work::write(async move { hive.delete_skill(caller.as_ref(), &id).await }).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Gives an agent the versions that it had before, without a restart. Without a body everything that was locked before
/// the last change; a second time goes back again.
#[utoipa::path(post, path = "/v1/agents/{agent}/rollback", tag = "agents",
    params(("agent" = String, Path), ("Idempotency-Key" = Option<String>, Header)),
    request_body = Option<RollbackRequest>, responses((status = 200, body = Changes),
        (status = 409, description = "There is nothing to go back to, or skep.toml does not admit it", body = Problem,
            content_type = "application/problem+json"), Problems))]
pub async fn rollback(
    State(hive): State<Arc<Hive>>,
    Name(agent): Name<AgentId>,
    MaybeBody(request): MaybeBody<RollbackRequest>,
) -> Answer<Json<Changes>> {
    let changes = work::write(async move { hive.rollback(&agent, &request).await }).await?;
    Ok(Json(Changes { changes }))
}
