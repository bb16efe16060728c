//! `/v1/jobs…` and `/v1/schedules/preview`. An agent reaches its own jobs alone: the use cases see to it.

use std::sync::Arc;

use axum::{Json, extract::State, http::StatusCode};
use serde::Deserialize;
use serde_json::Value;
use utoipa::IntoParams;

use super::{
    access::Caller,
    extract::{Body, Id, Key, Params, RawJson, maybe_yes_or_no, parse},
    page::{Page, PageParams},
    problem::{Problem, Problems},
    work,
};
use crate::{
    app::{
        Hive,
        job_types::{JobRequest, JobView, JobWritten, Preview, PreviewRequest, RunView},
        jobs::JobFilter,
    },
    ids::AgentId,
};

const TAG: &str = "jobs";
const TRIGGERS: [&str; 5] = ["cron", "interval", "one-shot", "event", "manual"];
/// Fire times that are told when no count is asked for, and the most.
const FIRES: (usize, usize) = (5, 1000);
type Answer<T> = Result<T, Problem>;

/// Which jobs.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct JobParams {
    /// Only this agent's.
    agent: Option<String>,
    /// Only enabled, or only disabled ones.
    #[serde(default, deserialize_with = "maybe_yes_or_no")]
    enabled: Option<bool>,
    /// Only `cron`, `interval`, `one-shot`, `event` or `manual` ones.
    trigger: Option<String>,
    /// Only of this name.
    name: Option<String>,
}

/// Lists the jobs, by id; an agent gets its own.
#[utoipa::path(get, path = "/v1/jobs", tag = TAG, params(JobParams, PageParams),
    responses((status = 200, body = Page<JobView>), Problems))]
pub async fn list(
    State(hive): State<Arc<Hive>>,
    Caller(caller): Caller,
    Params(params): Params<JobParams>,
    Params(page): Params<PageParams>,
) -> Answer<Json<Page<JobView>>> {
    let JobParams { agent, enabled, trigger, name } = params;
    if let Some(other) = trigger.as_ref().filter(|t| !TRIGGERS.contains(&t.as_str())) {
        let known = TRIGGERS.join(", ");
        return Err(Problem::invalid("?trigger", format!("{other:?} is no trigger; there are {known}")));
    }
    let filter = JobFilter { agent: agent_named(agent)?, enabled, trigger, name };
    let (after, read) = page.keys()?;
    let jobs = work::read(hive.jobs(caller.as_ref(), filter, after.unwrap_or(0), read)).await??;
    Ok(Json(Page::of_keys(jobs, read, |job| job.id)))
}

/// An agent in the query.
pub(super) fn agent_named(name: Option<String>) -> Answer<Option<AgentId>> {
    let agent = name.map(|name| name.parse::<AgentId>());
    agent.transpose().map_err(|e| Problem::invalid("?agent", e.0))
}

/// Makes a job. An agent makes it for itself. With an `Idempotency-Key` a repeat within 24 h is answered the same.
#[utoipa::path(post, path = "/v1/jobs", tag = TAG, request_body = JobRequest,
    params(("Idempotency-Key" = Option<String>, Header)),
    responses((status = 201, body = JobWritten), Problems))]
pub async fn create(
    State(hive): State<Arc<Hive>>,
    Caller(caller): Caller,
    key: Key,
    RawJson(body): RawJson,
) -> Answer<(StatusCode, Json<JobWritten>)> {
    let (key, body) = (key.of(caller.as_ref(), &body)?, parse::<Value>(&body)?);
    let written = work::write(async move { hive.create_job(caller.as_ref(), body, key).await }).await?;
    Ok((StatusCode::CREATED, Json(written)))
}

/// Shows a job.
#[utoipa::path(get, path = "/v1/jobs/{id}", tag = TAG, params(("id" = i64, Path)),
    responses((status = 200, body = JobView), Problems))]
pub async fn show(
    State(hive): State<Arc<Hive>>,
    Caller(caller): Caller,
    Id(id): Id,
) -> Answer<Json<JobView>> {
    Ok(Json(work::read(hive.job(caller.as_ref(), id)).await??))
}

/// Changes what is written of a job; null puts a key back to its default. A job of `skep.toml` is changed there.
#[utoipa::path(patch, path = "/v1/jobs/{id}", tag = TAG, request_body = JobRequest,
    params(("id" = i64, Path), ("Idempotency-Key" = Option<String>, Header)),
    responses((status = 200, body = JobWritten), Problems))]
pub async fn update(
    State(hive): State<Arc<Hive>>,
    Caller(caller): Caller,
    Id(id): Id,
    Body(body): Body<Value>,
) -> Answer<Json<JobWritten>> {
    Ok(Json(work::write(async move { hive.update_job(caller.as_ref(), id, body).await }).await?))
}

/// Removes a job. What waits of it is cancelled, what runs goes on; its history stays.
#[utoipa::path(delete, path = "/v1/jobs/{id}", tag = TAG,
    params(("id" = i64, Path), ("Idempotency-Key" = Option<String>, Header)),
    responses((status = 204, description = "Removed"), Problems))]
pub async fn remove(State(hive): State<Arc<Hive>>, Caller(caller): Caller, Id(id): Id) -> Answer<StatusCode> {
    work::write(async move { hive.delete_job(caller.as_ref(), id).await }).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Runs a job now, also a disabled one. With an `Idempotency-Key` a repeat within 24 h is answered the same.
#[utoipa::path(post, path = "/v1/jobs/{id}/run", tag = TAG,
    params(("id" = i64, Path), ("Idempotency-Key" = Option<String>, Header)),
    responses((status = 202, description = "It will be done; the new run", body = RunView), Problems))]
pub async fn run(
    State(hive): State<Arc<Hive>>,
    Caller(caller): Caller,
    Id(id): Id,
    key: Key,
) -> Answer<(StatusCode, Json<RunView>)> {
    let key = key.of(caller.as_ref(), b"")?;
    let run = work::write(async move { hive.run_job(caller.as_ref(), id, key).await }).await?;
    Ok((StatusCode::ACCEPTED, Json(run)))
}

/// Disables a job until somebody resumes it. What runs of it goes on; what waits is cancelled, unless somebody asked
/// for it.
#[utoipa::path(post, path = "/v1/jobs/{id}/pause", tag = TAG,
    params(("id" = i64, Path), ("Idempotency-Key" = Option<String>, Header)),
    responses((status = 200, body = JobView), Problems))]
pub async fn pause(
    State(hive): State<Arc<Hive>>,
    Caller(caller): Caller,
    Id(id): Id,
) -> Answer<Json<JobView>> {
    Ok(Json(work::write(async move { hive.pause_job(caller.as_ref(), id).await }).await?))
}

/// Enables a job: failures are forgotten, and it fires from now on, never what passed.
#[utoipa::path(post, path = "/v1/jobs/{id}/resume", tag = TAG,
    params(("id" = i64, Path), ("Idempotency-Key" = Option<String>, Header)),
    responses((status = 200, body = JobView), Problems))]
pub async fn resume(
    State(hive): State<Arc<Hive>>,
    Caller(caller): Caller,
    Id(id): Id,
) -> Answer<Json<JobView>> {
    Ok(Json(work::write(async move { hive.resume_job(caller.as_ref(), id).await }).await?))
}

/// How many.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct NextParams {
    /// Fire times at most.
    #[param(minimum = 1, maximum = 1000, default = 5)]
    count: Option<usize>,
}

/// The next fire times of a job, with its jitter; or why there are none.
#[utoipa::path(get, path = "/v1/jobs/{id}/next", tag = TAG, params(("id" = i64, Path), NextParams),
    responses((status = 200, body = Preview), Problems))]
pub async fn next(
    State(hive): State<Arc<Hive>>,
    Caller(caller): Caller,
    Id(id): Id,
    Params(params): Params<NextParams>,
) -> Answer<Json<Preview>> {
    let (default, most) = FIRES;
    let count = params.count.unwrap_or(default);
    if !(1..=most).contains(&count) {
        return Err(Problem::invalid("?count", format!("count is {count}; it must be 1 to {most}")));
    }
    Ok(Json(work::read(hive.job_fires(caller.as_ref(), id, count)).await??))
}

/// When a schedule would fire.
#[utoipa::path(post, path = "/v1/schedules/preview", tag = TAG, request_body = PreviewRequest,
    params(("Idempotency-Key" = Option<String>, Header)),
    responses((status = 200, body = Preview), Problems))]
pub async fn preview(
    State(hive): State<Arc<Hive>>,
    Caller(caller): Caller,
    Body(body): Body<Value>,
) -> Answer<Json<Preview>> {
    Ok(Json(hive.preview_schedule(caller.as_ref(), &body)?))
}
