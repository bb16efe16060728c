//! `/.well-known/agent-skills/…`: agent-skills discovery 0.2.0.

use std::sync::Arc;

use axum::{
    Json,
    extract::State,
    http::header,
    response::{IntoResponse, Response},
};

use super::{At, zip};
use crate::{
    api::{
        problem::{Problem, Problems},
        work,
    },
    app::{Hive, faces::discovery::DiscoveryIndex},
};

type Answer<T> = Result<T, Problem>;

/// The index of the skills that others may use (agent-skills discovery 0.2.0).
#[utoipa::path(get, path = "/.well-known/agent-skills/index.json", tag = "faces", operation_id = "discovery_index",
    responses((status = 200, body = DiscoveryIndex), Problems))]
pub async fn index(State(hive): State<Arc<Hive>>) -> Answer<Json<DiscoveryIndex>> {
    Ok(Json(work::read(hive.discovery_index()).await??))
}

/// The SKILL.md of a version: its own, or the one that agents see.
#[utoipa::path(get, path = "/.well-known/agent-skills/{id}/{version}/SKILL.md", tag = "faces",
    operation_id = "discovery_text",
    params(("id" = String, Path, example = "cron-tools"), ("version" = String, Path, example = "1.0.0")),
    responses((status = 200, description = "Its bytes", body = String, content_type = "text/markdown"), Problems))]
pub async fn text(State(hive): State<Arc<Hive>>, at: At) -> Answer<Response> {
    let bytes = work::read(hive.discovery_text(&at.slug, &at.which)).await??;
    Ok(([(header::CONTENT_TYPE, "text/markdown; charset=utf-8")], bytes).into_response())
}

/// A version as a zip, with a SKILL.md also where the skill has none of its own: the same bytes each time.
#[utoipa::path(get, path = "/.well-known/agent-skills/{id}/{version}/skill.zip", tag = "faces",
    operation_id = "discovery_archive",
    params(("id" = String, Path, example = "cron-tools"), ("version" = String, Path, example = "1.0.0")),
    responses((status = 200, description = "The zip", body = [u8], content_type = "application/zip",
        headers(("Skep-Digest" = String))), Problems))]
pub async fn archive(State(hive): State<Arc<Hive>>, at: At) -> Answer<Response> {
    let archive = work::read(hive.discovery_archive(&at.slug, &at.which)).await??;
    Ok(zip(archive, at.slug.id.as_str()))
}
