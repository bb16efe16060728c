//! The hive as a whole: what it is, whether it is well, its figures, its end.

use std::sync::Arc;

use axum::{
    Json,
    body::Body,
    extract::State,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use serde::{Deserialize, Serialize};
use tokio_util::io::ReaderStream;
use utoipa::ToSchema;

use super::{
    extract::{MaybeBody, Params},
    metrics,
    page::{Order, Page, PageParams},
    problem::{Problem, Problems},
    work,
};
use crate::app::{
    Hive,
    types::{Finding, HiveView},
};

type Answer<T> = Result<T, Problem>;

/// Shows the hive.
#[utoipa::path(get, path = "/v1/hive", tag = "hive", responses((status = 200, body = HiveView), Problems))]
pub async fn show(State(hive): State<Arc<Hive>>) -> Json<HiveView> {
    Json(hive.view())
}

/// Looks at everything that skep needs, and tells what to do about what is amiss.
#[utoipa::path(get, path = "/v1/doctor", tag = "hive", params(PageParams),
    responses((status = 200, body = Page<Finding>), Problems))]
pub async fn doctor(
    State(hive): State<Arc<Hive>>,
    Params(page): Params<PageParams>,
) -> Answer<Json<Page<Finding>>> {
    let findings = work::read(hive.doctor()).await?;
    page.cut(findings, Order::AsGiven, |f| &f.check).map(Json)
}

/// A backup of the hive as it runs, as `skep backup` writes it, without secrets: a tar in zstd for `skep restore`.
/// An `Idempotency-Key` is accepted and not remembered: a repeat is a backup of its own.
#[utoipa::path(post, path = "/v1/backup", tag = "hive",
    params(("Idempotency-Key" = Option<String>, Header)),
    responses((status = 200, description = "The archive", body = [u8], content_type = "application/zstd"), Problems))]
pub async fn backup(State(hive): State<Arc<Hive>>) -> Answer<Response> {
    let name = format!("attachment; filename=\"{}.tar.zst\"", hive.name);
    let (file, size) = work::write(async move { hive.backup().await }).await?;
    let headers = [
        (header::CONTENT_TYPE, "application/zstd".to_owned()),
        (header::CONTENT_LENGTH, size.to_string()),
        (header::CONTENT_DISPOSITION, name),
    ];
    let pieces = ReaderStream::new(tokio::fs::File::from_std(file));
    Ok((headers, Body::from_stream(pieces)).into_response())
}

/// How to shut down.
#[derive(Debug, Default, Deserialize, Serialize, ToSchema)]
#[schema(example = json!({"stop_agents": true}))]
#[serde(deny_unknown_fields)]
pub struct ShutdownRequest {
    /// Also stop the agents' containers; else they go on and are adopted at the next start.
    #[serde(default)]
    pub stop_agents: bool,
}

/// Ends the supervisor.
#[utoipa::path(post, path = "/v1/shutdown", tag = "hive", request_body = Option<ShutdownRequest>,
    params(("Idempotency-Key" = Option<String>, Header)),
    responses((status = 202, description = "It will end"), Problems))]
pub async fn shutdown(
    State(hive): State<Arc<Hive>>,
    MaybeBody(request): MaybeBody<ShutdownRequest>,
) -> StatusCode {
    hive.shutdown(request.stop_agents);
    StatusCode::ACCEPTED
}

/// Whether this process answers; open to everyone.
#[utoipa::path(get, path = "/healthz", tag = "health", security(()),
    responses((status = 200, body = String, content_type = "text/plain"), Problems))]
pub async fn healthz() -> &'static str {
    "ok\n"
}

/// Whether it can do its work; open to everyone.
#[utoipa::path(get, path = "/readyz", tag = "health", security(()),
    responses((status = 200, body = String, content_type = "text/plain"),
        (status = 503, description = "Not ready; `detail` tells why", body = Problem,
            content_type = "application/problem+json"),
        Problems))]
pub async fn readyz(State(hive): State<Arc<Hive>>) -> Answer<&'static str> {
    match work::read(hive.ready()).await? {
        Ok(()) => Ok("ready\n"),
        Err(why) => Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, why)),
    }
}

/// Figures for Prometheus.
#[utoipa::path(get, path = "/metrics", tag = "health",
    responses((status = 200, body = String, content_type = "text/plain"), Problems))]
pub async fn metrics(State(hive): State<Arc<Hive>>) -> Answer<Response> {
    let agents = work::read(hive.agents()).await?;
    let ready = work::read(hive.ready()).await?.is_ok();
    // Without the database the other figures are told all the same.
    let jobs = work::read(hive.job_figures()).await?.ok();
    let text = metrics::render(&hive.view(), ready, &agents, jobs.as_ref());
    Ok(([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text).into_response())
}
