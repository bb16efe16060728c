//! `/v1/tasks…`, `/v1/facts`: background tasks, and what is kept in mind of those that failed. An agent reaches its own
//! alone: the use cases see to it.

use std::sync::Arc;

use axum::{Json, extract::State, http::StatusCode};
use serde::Deserialize;
use utoipa::IntoParams;

use super::{
    access::Caller,
    extract::{Id, Key, Params, RawJson, parse},
    jobs::agent_named,
    page::{Page, PageParams},
    problem::{Problem, Problems},
    work,
};
use crate::app::{
    Hive,
    tasks::{FactView, TaskFilter, TaskRequest, TaskStatus, TaskView},
};

const TAG: &str = "tasks";
type Answer<T> = Result<T, Problem>;

/// Queues a task: a tool call, or several in a row, that nobody waits for. It is tried four times at most, each time from
/// its first step on: what it does is done at least once. What fails for wrong arguments is not tried again. With an
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

/// Which tasks.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct TaskParams {
    /// Only this agent's.
    agent: Option<String>,
    /// Only `queued`, `running`, `completed` or `failed` ones.
    status: Option<String>,
}

/// Lists the tasks that are kept, newest first; an agent gets its own.
#[utoipa::path(get, path = "/v1/tasks", tag = TAG, params(TaskParams, PageParams),
    responses((status = 200, body = Page<TaskView>), Problems))]
pub async fn list(
    State(hive): State<Arc<Hive>>,
    Caller(caller): Caller,
    Params(params): Params<TaskParams>,
    Params(page): Params<PageParams>,
) -> Answer<Json<Page<TaskView>>> {
    let status = params.status.map(|word| {
        TaskStatus::parse(&word).ok_or_else(|| {
            let known = TaskStatus::ALL.map(TaskStatus::as_str).join(", ");
            Problem::invalid("?status", format!("{word:?} is no status; there are {known}"))
        })
    });
    let filter = TaskFilter { agent: agent_named(params.agent)?, status: status.transpose()? };
    let (before, read) = page.keys()?;
    let tasks = work::read(hive.tasks(caller.as_ref(), filter, before, read)).await??;
    Ok(Json(Page::of_keys(tasks, read, |task| task.id)))
}

/// Ends a task, which fails: what waits never starts, what runs is terminated, and killed after a grace.
#[utoipa::path(post, path = "/v1/tasks/{id}/cancel", tag = TAG,
    params(("id" = i64, Path), ("Idempotency-Key" = Option<String>, Header)),
    responses((status = 202, description = "It will be done; the task as it is now", body = TaskView), Problems))]
pub async fn cancel(
    State(hive): State<Arc<Hive>>,
    Caller(caller): Caller,
    Id(id): Id,
) -> Answer<(StatusCode, Json<TaskView>)> {
    let task = work::write(async move { hive.cancel_task(caller.as_ref(), id).await }).await?;
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
