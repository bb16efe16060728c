//! `/v1/tasks…`, `/v1/facts`: background tasks, and what is kept in mind of those that failed. An agent reaches its own
//! alone: the use cases see to it.

use std::sync::Arc;

use axum::{Json, extract::State, http::StatusCode};
use serde::Deserialize;
use utoipa::IntoParams;

use super::{
    access::Caller,
    extract::{Id, Key, Params, RawJson, parse},
    page::{Page, PageParams},
    problem::{Problem, Problems},
    work,
};
use crate::app::{
    Hive,
    tasks::{FactView, TaskRequest, TaskView},
};

const TAG: &str = "tasks";
type Answer<T> = Result<T, Problem>;

/// Queues a task: a tool call, or several in a row, that nobody waits for. It is tried four times at most. With an
/// `Idempotency-Key` a repeat within 24 h is answered the same.
#[utoipa::path(post, path = "/v1/tasks", tag = TAG, request_body = TaskRequest,
    params(("Idempotency-Key" = Option<String>, Header)),
    responses((status = 202, body = TaskView), Problems))]
pub async fn queue(
    State(hive): State<Arc<Hive>>,
    Caller(caller): Caller,
    key: Key,
    RawJson(body): RawJson,
) -> Answer<(StatusCode, Json<TaskView>)> {
    let (key, request) = (key.of(caller.as_ref(), &body)?, parse::<TaskRequest>(&body)?);
    let task = work::write(async move { hive.queue_task(caller.as_ref(), request, key).await }).await?;
    Ok((StatusCode::ACCEPTED, Json(task)))
}

/// Shows a task.
#[utoipa::path(get, path = "/v1/tasks/{id}", tag = TAG, params(("id" = i64, Path)),
    responses((status = 200, body = TaskView), Problems))]
pub async fn show(
    State(hive): State<Arc<Hive>>,
    Caller(caller): Caller,
    Id(id): Id,
) -> Answer<Json<TaskView>> {
    Ok(Json(work::read(hive.task(caller.as_ref(), id)).await??))
}

/// Which facts.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct FactParams {
    /// Only of this category: `error`.
    category: Option<String>,
}

/// Lists what the hive keeps in mind, the newest first: errors of background tasks.
#[utoipa::path(get, path = "/v1/facts", tag = TAG, params(FactParams, PageParams),
    responses((status = 200, body = Page<FactView>), Problems))]
pub async fn facts(
    State(hive): State<Arc<Hive>>,
    Caller(caller): Caller,
    Params(params): Params<FactParams>,
    Params(page): Params<PageParams>,
) -> Answer<Json<Page<FactView>>> {
    let (before, read) = page.keys()?;
    let facts = work::read(hive.facts(caller.as_ref(), params.category, before, read)).await??;
    Ok(Json(Page::of_keys(facts, read, |fact| fact.id)))
}
