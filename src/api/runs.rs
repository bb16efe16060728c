//! `/v1/runs…`: the history, output as it comes, and the end of what runs. An agent sees its own runs alone.

use std::sync::Arc;

use axum::{Json, extract::State, http::StatusCode, response::Response};
use serde::Deserialize;
use utoipa::IntoParams;

use super::{
    access::Caller,
    agents::{StreamName, streamed},
    extract::{Id, Params, yes_or_no},
    jobs::agent_named,
    page::{Page, PageParams},
    problem::{Problem, Problems},
    work,
};
use crate::{
    app::{Hive, RunOutputRequest, job_types::RunView, runs::RunFilter},
    runs::state::RunStatus,
};

const TAG: &str = "runs";
type Answer<T> = Result<T, Problem>;

/// Which runs.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct RunParams {
    /// Only this agent's.
    agent: Option<String>,
    /// Only this job's.
    job: Option<i64>,
    /// Only `queued`, `running`, `succeeded`, `failed`, `timed_out`, `cancelled`, `skipped` or `lost` ones.
    status: Option<String>,
}

/// Lists the runs that are kept, newest first; an agent gets its own.
#[utoipa::path(get, path = "/v1/runs", tag = TAG, params(RunParams, PageParams),
    responses((status = 200, body = Page<RunView>), Problems))]
pub async fn list(
    State(hive): State<Arc<Hive>>,
    Caller(caller): Caller,
    Params(params): Params<RunParams>,
    Params(page): Params<PageParams>,
) -> Answer<Json<Page<RunView>>> {
    let RunParams { agent, job, status } = params;
    let status = status.map(|word| {
        RunStatus::parse(&word).ok_or_else(|| {
            let known = RunStatus::ALL.map(RunStatus::as_str).join(", ");
            Problem::invalid("?status", format!("{word:?} is no status; there are {known}"))
        })
    });
    let filter = RunFilter { agent: agent_named(agent)?, job, status: status.transpose()? };
    let (before, read) = page.keys()?;
    let runs = work::read(hive.runs(caller.as_ref(), filter, before, read)).await??;
    Ok(Json(Page::of_keys(runs, read, |run| run.id)))
}

/// Shows a run.
#[utoipa::path(get, path = "/v1/runs/{id}", tag = TAG, params(("id" = i64, Path)),
    responses((status = 200, body = RunView), Problems))]
pub async fn show(
    State(hive): State<Arc<Hive>>,
    Caller(caller): Caller,
    Id(id): Id,
) -> Answer<Json<RunView>> {
    Ok(Json(work::read(hive.run(caller.as_ref(), id)).await??))
}

/// Which of a run's output.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct OutputParams {
    /// Go on until the run is over.
    #[serde(default, deserialize_with = "yes_or_no")]
    #[param(default = false)]
    follow: bool,
    /// Only this one; else both as they came.
    #[param(inline)]
    stream: Option<StreamName>,
}

/// The output of a run, secrets masked.
#[utoipa::path(get, path = "/v1/runs/{id}/output", tag = TAG, params(("id" = i64, Path), OutputParams),
    responses((status = 200, body = String, content_type = "text/plain"), Problems))]
pub async fn output(
    State(hive): State<Arc<Hive>>,
    Caller(caller): Caller,
    Id(id): Id,
    Params(params): Params<OutputParams>,
) -> Answer<Response> {
    let request = RunOutputRequest { follow: params.follow, stream: params.stream.map(Into::into) };
    Ok(streamed(work::read(hive.run_output(caller.as_ref(), id, request)).await??))
}

/// Ends a run: one that waits never starts, one that runs is terminated, and killed after a grace.
#[utoipa::path(post, path = "/v1/runs/{id}/cancel", tag = TAG,
    params(("id" = i64, Path), ("Idempotency-Key" = Option<String>, Header)),
    responses((status = 202, description = "It will be done; the run as it is now", body = RunView), Problems))]
pub async fn cancel(State(hive): State<Arc<Hive>>, Id(id): Id) -> Answer<(StatusCode, Json<RunView>)> {
    let run = work::write(async move { hive.cancel_run(id).await }).await?;
    Ok((StatusCode::ACCEPTED, Json(run)))
}
