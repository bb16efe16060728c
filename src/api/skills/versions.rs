//! One version of a skill: what it declares and holds, its files, archives and differences.

use std::sync::Arc;

use axum::{
    Json,
    body::Body as HttpBody,
    extract::{FromRequestParts, RawPathParams, State},
    http::{HeaderMap, StatusCode, header, request::Parts},
    response::{IntoResponse, Response},
};
use futures_util::stream;
use semver::Version;
use serde::Deserialize;
use utoipa::{IntoParams, ToSchema};

use super::Answer;
use crate::{
    api::{
        access::Caller,
        extract::{Name, Params},
        problem::{Problem, Problems},
        work,
    },
    app::{
        Hive,
        skills::{Archive, SkillReview},
        types::SkillVersionDetail,
    },
    ids::SkillId,
    registry::archive::Format,
    skill::diff::Diff,
};

/// `{id}`, `{version}` and, where the path has it, `{path}`.
pub struct Exact {
    pub id: SkillId,
    pub version: Version,
    path: String,
}

impl<S: Send + Sync> FromRequestParts<S> for Exact {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let params = RawPathParams::from_request_parts(parts, state)
            .await
            .map_err(|e| Problem::new(StatusCode::BAD_REQUEST, e.body_text()))?;
        let value = |name: &str| params.iter().find(|(n, _)| *n == name).map(|(_, v)| v).unwrap_or_default();
        let id = value("id").parse().map_err(|e: crate::ids::InvalidName| Problem::invalid("{id}", e.0))?;
        let version = version("{version}", value("version"))?;
        Ok(Self { id, version, path: value("path").to_owned() })
    }
}

fn version(pointer: &str, text: &str) -> Result<Version, Problem> {
    text.parse().map_err(|e| Problem::invalid(pointer, format!("{text:?} is no version like 1.2.3: {e}")))
}

/// Shows a version with what it declares and its files. Its content is compared with its digest.
#[utoipa::path(get, path = "/v1/skills/{id}/versions/{version}", tag = "skills",
    params(("id" = String, Path, example = "cron-tools"), ("version" = String, Path, example = "1.0.0")),
    responses((status = 200, body = SkillVersionDetail), Problems))]
pub async fn show(
    State(hive): State<Arc<Hive>>,
    Caller(caller): Caller,
    at: Exact,
) -> Answer<Json<SkillVersionDetail>> {
    hive.may_read(caller.as_ref(), &at.id, &at.version)?;
    Ok(Json(work::read(hive.skill_version(&at.id, &at.version)).await??))
}

/// One file of a version: `text/plain` when it is UTF-8.
#[utoipa::path(get, path = "/v1/skills/{id}/versions/{version}/files/{*path}", tag = "skills",
    params(("id" = String, Path, example = "cron-tools"), ("version" = String, Path, example = "1.0.0"),
        ("path" = String, Path, description = "Relative to the skill's folder; may hold `/`", example = "SKILL.md")),
    responses((status = 200, description = "Its bytes",
        content(([u8] = "application/octet-stream"), (String = "text/plain"))), Problems))]
pub async fn file(State(hive): State<Arc<Hive>>, Caller(caller): Caller, at: Exact) -> Answer<Response> {
    hive.may_read(caller.as_ref(), &at.id, &at.version)?;
    let bytes = work::read(hive.skill_file(&at.id, &at.version, &at.path)).await??;
    let text = std::str::from_utf8(&bytes).is_ok_and(|t| !t.contains('\0'));
    let kind = if text { "text/plain; charset=utf-8" } else { "application/octet-stream" };
    Ok(([(header::CONTENT_TYPE, kind)], bytes).into_response())
}

/// How an archive is packed.
#[derive(Debug, Clone, Copy, Default, Deserialize, ToSchema)]
pub(super) enum Packing {
    #[default]
    #[serde(rename = "tar.gz")]
    Gzip,
    #[serde(rename = "tar.zst")]
    Zstd,
}

/// Which archive.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct ArchiveParams {
    /// `tar.gz` or `tar.zst`.
    #[serde(default)]
    #[param(value_type = String, pattern = "^tar[.](gz|zst)$", default = "tar.gz")]
    format: Packing,
}

/// A version as an archive: the same bytes each time. `Skep-Digest` is the digest of what it holds.
#[utoipa::path(get, path = "/v1/skills/{id}/versions/{version}/archive", tag = "skills",
    params(("id" = String, Path, example = "cron-tools"), ("version" = String, Path, example = "1.0.0"),
        ArchiveParams, ("If-None-Match" = Option<String>, Header)),
    responses((status = 200, description = "The archive",
            content(([u8] = "application/gzip"), ([u8] = "application/zstd")),
            headers(("ETag" = String), ("Skep-Digest" = String))),
        (status = 304, description = "It is the one that `If-None-Match` names"), Problems))]
pub async fn archive(
    State(hive): State<Arc<Hive>>,
    Caller(caller): Caller,
    at: Exact,
    Params(params): Params<ArchiveParams>,
    headers: HeaderMap,
) -> Answer<Response> {
    hive.may_read(caller.as_ref(), &at.id, &at.version)?;
    let (format, kind, ending) = match params.format {
        Packing::Gzip => (Format::TarGz, "application/gzip", "tar.gz"),
        Packing::Zstd => (Format::TarZst, "application/zstd", "tar.zst"),
    };
    let Archive { digest, pieces } = work::read(hive.skill_archive(&at.id, &at.version, format)).await??;
    let tag = format!("\"{digest}.{ending}\"");
    let own = [(header::ETAG, tag.clone())];
    if headers.get(header::IF_NONE_MATCH).is_some_and(|known| known.as_bytes() == tag.as_bytes()) {
        return Ok((StatusCode::NOT_MODIFIED, own).into_response());
    }
    let name = format!("attachment; filename=\"{}-{}.{ending}\"", at.id, at.version);
    let about = [
        (header::CONTENT_TYPE, kind.to_owned()),
        (header::CONTENT_DISPOSITION, name),
        (header::HeaderName::from_static("skep-digest"), digest.to_string()),
    ];
    let body = stream::unfold(pieces, async |mut pieces| Some((pieces.recv().await?, pieces)));
    Ok((own, about, HttpBody::from_stream(body)).into_response())
}

/// Which versions.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct DiffParams {
    /// The older version; none: the newest before `to` that is trusted or approved, else the newest before it; before
    /// the first one there is nothing, and everything is new.
    #[param(example = "1.0.0")]
    from: Option<String>,
    /// The newer version; none: the newest.
    #[param(example = "1.1.0")]
    to: Option<String>,
}

/// What differs between two versions: files with their text, and what is asked for.
#[utoipa::path(get, path = "/v1/skills/{id}/diff", tag = "skills",
    params(("id" = String, Path, example = "cron-tools"), DiffParams),
    responses((status = 200, body = Diff), Problems))]
pub async fn diff(
    State(hive): State<Arc<Hive>>,
    Caller(caller): Caller,
    Name(id): Name<SkillId>,
    Params(params): Params<DiffParams>,
) -> Answer<Json<Diff>> {
    let named = |key: &str, text: Option<String>| {
        text.filter(|v| !v.is_empty()).map(|v| version(key, &v)).transpose()
    };
    let (from, to) = (named("?from", params.from)?, named("?to", params.to)?);
    let (from, to) = hive.diff_sides(caller.as_ref(), &id, from, to)?;
    for version in from.iter().chain([&to]) {
        hive.may_read(caller.as_ref(), &id, version)?;
    }
    Ok(Json(work::read(hive.skill_diff(&id, from.as_ref(), &to)).await??))
}

/// What to look at before a version is approved: findings of the scanner, each with rule, file, line and decoded
/// evidence, and what changed since the last version that is trusted or approved. The operator's alone.
#[utoipa::path(get, path = "/v1/skills/{id}/versions/{version}/review", tag = "skills",
    params(("id" = String, Path, example = "cron-tools"), ("version" = String, Path, example = "1.0.0")),
    responses((status = 200, body = SkillReview), Problems))]
pub async fn review(State(hive): State<Arc<Hive>>, at: Exact) -> Answer<Json<SkillReview>> {
    Ok(Json(work::read(hive.skill_review(&at.id, &at.version)).await??))
}
