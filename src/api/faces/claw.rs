//! `/api/v1/…`: what ClawHub's clients need to list, search, inspect, resolve and download; and where they find it.

use std::sync::Arc;

use axum::{
    Json,
    extract::State,
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::{At, OwnerParams, Refusals, version, zip};
use crate::{
    api::{
        access::Caller,
        extract::Params,
        page::{Order, PageParams},
        problem::{Problem, Problems},
        work,
    },
    app::{
        Hive,
        faces::{
            Candidate, Which,
            claw::{
                ClawDetail, ClawHit, ClawListed, ClawOwner, ClawResolved, ClawSort, ClawVersion,
                ClawVersionDetail, whoami as who,
            },
        },
    },
};

type Answer<T> = Result<T, Problem>;

/// Items of a page: by default, and at most.
const LIMIT: (u32, u32) = (25, 200);

fn limit(asked: Option<u32>) -> usize {
    asked.unwrap_or(LIMIT.0).clamp(1, LIMIT.1) as usize
}

/// What is searched for.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct SearchParams {
    /// Words; the last may be the beginning of one.
    q: String,
    /// Results at most: 25 unless told, never more than 200.
    #[param(value_type = Option<u64>)]
    limit: Option<u32>,
    /// `exact`: `q` is a slug.
    #[param(inline)]
    mode: Option<Mode>,
}

/// How is searched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// By slug.
    Exact,
}

/// What was found.
#[derive(Debug, Serialize, ToSchema)]
pub struct Results {
    /// The best first.
    results: Vec<ClawHit>,
}

/// Searches skills, as ClawHub's clients do.
#[utoipa::path(get, path = "/api/v1/search", tag = "faces", operation_id = "claw_search", params(SearchParams),
    responses((status = 200, body = Results), Refusals))]
pub async fn search(
    State(hive): State<Arc<Hive>>,
    Params(params): Params<SearchParams>,
) -> Answer<Json<Results>> {
    let results =
        work::read(hive.claw_search(&params.q, params.mode.is_some(), limit(params.limit))).await??;
    Ok(Json(Results { results }))
}

/// Which part of a list.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct ListParams {
    /// Items at most: 25 unless told, never more than 200.
    #[param(value_type = Option<u64>)]
    limit: Option<u32>,
    /// `nextCursor` of the page before.
    cursor: Option<String>,
}

impl ListParams {
    fn page(self) -> PageParams {
        PageParams::new(limit(self.limit), self.cursor.map(|c| c.trim().to_owned()))
    }
}

/// In which order.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct SortParams {
    /// By default what changed last comes first, and with `prefix` what comes first by slug.
    #[param(inline)]
    sort: Option<ClawSort>,
    /// How their slugs begin.
    #[serde(default)]
    prefix: String,
}

/// A page of skills.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Skills {
    items: Vec<ClawListed>,
    /// The cursor of the next page; null at the end.
    next_cursor: Option<String>,
}

/// Lists the skills that others may use, as ClawHub's clients do.
#[utoipa::path(get, path = "/api/v1/skills", tag = "faces", operation_id = "claw_list",
    params(ListParams, SortParams), responses((status = 200, body = Skills), Refusals))]
pub async fn list(
    State(hive): State<Arc<Hive>>,
    Params(params): Params<ListParams>,
    Params(SortParams { sort, prefix }): Params<SortParams>,
) -> Answer<Json<Skills>> {
    let by_default = if prefix.is_empty() { ClawSort::Updated } else { ClawSort::Name };
    let all = hive.claw_skills(sort.unwrap_or(by_default), &prefix);
    let page = params.page().cut(all, Order::AsGiven, Candidate::slug)?;
    let items = work::read(hive.claw_listed(page.items)).await??;
    Ok(Json(Skills { items, next_cursor: page.next }))
}

/// Shows a skill.
#[utoipa::path(get, path = "/api/v1/skills/{slug}", tag = "faces", operation_id = "claw_show",
    params(("slug" = String, Path, example = "cron-tools"), OwnerParams),
    responses((status = 200, body = ClawDetail), Refusals))]
pub async fn show(State(hive): State<Arc<Hive>>, at: At) -> Answer<Json<ClawDetail>> {
    Ok(Json(work::read(hive.claw_skill(&at.slug)).await??))
}

/// A page of versions.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Versions {
    items: Vec<ClawVersion>,
    /// The cursor of the next page; null at the end.
    next_cursor: Option<String>,
}

/// Lists the versions of a skill that are not yanked, newest first.
#[utoipa::path(get, path = "/api/v1/skills/{slug}/versions", tag = "faces", operation_id = "claw_versions",
    params(("slug" = String, Path, example = "cron-tools"), OwnerParams, ListParams),
    responses((status = 200, body = Versions), Refusals))]
pub async fn versions(
    State(hive): State<Arc<Hive>>,
    at: At,
    Params(params): Params<ListParams>,
) -> Answer<Json<Versions>> {
    let all = work::read(hive.claw_versions(&at.slug)).await??;
    let page = params.page().cut(all, Order::AsGiven, |v| v.version.as_str())?;
    Ok(Json(Versions { items: page.items, next_cursor: page.next }))
}

/// A skill's name beside a version.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Named {
    slug: String,
    display_name: String,
}

/// A version with its skill's name.
#[derive(Debug, Serialize, ToSchema)]
pub struct VersionShown {
    skill: Named,
    version: ClawVersionDetail,
}

/// Shows a version with its files. Its content is compared with its digest.
#[utoipa::path(get, path = "/api/v1/skills/{slug}/versions/{version}", tag = "faces",
    operation_id = "claw_version",
    params(("slug" = String, Path, example = "cron-tools"), ("version" = String, Path, example = "1.0.0"), OwnerParams),
    responses((status = 200, body = VersionShown), Refusals))]
pub async fn show_version(State(hive): State<Arc<Hive>>, at: At) -> Answer<Json<VersionShown>> {
    let (version, display_name) = work::read(hive.claw_version(&at.slug, &at.which)).await??;
    Ok(Json(VersionShown { skill: Named { slug: at.slug.id.to_string(), display_name }, version }))
}

/// Which version.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct WhichParams {
    /// Exactly this one; without it the newest.
    version: Option<String>,
    /// `latest`.
    tag: Option<String>,
}

impl WhichParams {
    fn which(self) -> Answer<Which> {
        let given = |text: Option<String>| text.filter(|t| !t.trim().is_empty());
        let exact = given(self.version).map(|v| version("?version", v.trim())).transpose()?;
        Ok(Which { version: exact, tag: given(self.tag) })
    }
}

/// Which file.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct FileParams {
    /// Relative to the skill's folder.
    #[param(example = "SKILL.md")]
    path: String,
}

/// One file of a version: `text/plain` when it is UTF-8.
#[utoipa::path(get, path = "/api/v1/skills/{slug}/file", tag = "faces", operation_id = "claw_file",
    params(("slug" = String, Path, example = "cron-tools"), OwnerParams, FileParams, WhichParams),
    responses((status = 200, description = "Its bytes",
        content(([u8] = "application/octet-stream"), (String = "text/plain"))), Refusals))]
pub async fn file(
    State(hive): State<Arc<Hive>>,
    at: At,
    Params(file): Params<FileParams>,
    Params(which): Params<WhichParams>,
) -> Answer<Response> {
    let which = which.which()?;
    let bytes = work::read(hive.claw_file(&at.slug, &which, &file.path)).await??;
    let text = std::str::from_utf8(&bytes).is_ok_and(|t| !t.contains('\0'));
    let kind = if text { "text/plain; charset=utf-8" } else { "application/octet-stream" };
    Ok(([(header::CONTENT_TYPE, kind)], bytes).into_response())
}

/// Which skill.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct SlugParams {
    /// Its id.
    #[param(example = "cron-tools")]
    slug: String,
}

/// Which folder.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct HashParams {
    /// The fingerprint of its text files: 64 hex digits.
    #[param(
        pattern = "^[0-9a-fA-F]{64}$",
        example = "0000000000000000000000000000000000000000000000000000000000000000"
    )]
    hash: String,
}

/// Tells which version stands in a folder, by its fingerprint, and which is the newest.
#[utoipa::path(get, path = "/api/v1/resolve", tag = "faces", operation_id = "claw_resolve",
    params(SlugParams, OwnerParams, HashParams), responses((status = 200, body = ClawResolved), Refusals))]
pub async fn resolve(
    State(hive): State<Arc<Hive>>,
    Params(SlugParams { slug }): Params<SlugParams>,
    Params(owner): Params<OwnerParams>,
    Params(HashParams { hash }): Params<HashParams>,
) -> Answer<Json<ClawResolved>> {
    let mut fingerprint = [0; 32];
    hex::decode_to_slice(&hash, &mut fingerprint)
        .map_err(|_| Problem::invalid("?hash", "the hash is not a SHA-256 of 64 hex digits"))?;
    let slug = owner.of(&slug, "?slug")?;
    Ok(Json(work::read(hive.claw_resolve(&slug, &fingerprint)).await??))
}

/// A version as a zip, with a SKILL.md also where the skill has none of its own: the same bytes each time.
#[utoipa::path(get, path = "/api/v1/download", tag = "faces", operation_id = "claw_download",
    params(SlugParams, OwnerParams, WhichParams),
    responses((status = 200, description = "The zip", body = [u8], content_type = "application/zip",
        headers(("Skep-Digest" = String))), Refusals))]
pub async fn download(
    State(hive): State<Arc<Hive>>,
    Params(SlugParams { slug }): Params<SlugParams>,
    Params(owner): Params<OwnerParams>,
    Params(which): Params<WhichParams>,
) -> Answer<Response> {
    let (slug, which) = (owner.of(&slug, "?slug")?, which.which()?);
    let (version, archive) = work::read(hive.claw_download(&slug, &which)).await??;
    Ok(zip(archive, &format!("{}-{version}", slug.id)))
}

/// The caller.
#[derive(Debug, Serialize, ToSchema)]
pub struct User {
    #[serde(flatten)]
    name: ClawOwner,
    /// `admin` for the operator, `user` for an agent.
    role: String,
}

/// Who calls.
#[derive(Debug, Serialize, ToSchema)]
pub struct Whoami {
    user: User,
}

/// Tells who calls, by which clients see that their token is right.
#[utoipa::path(get, path = "/api/v1/whoami", tag = "faces", operation_id = "claw_whoami",
    responses((status = 200, body = Whoami), Refusals))]
pub async fn whoami(Caller(caller): Caller) -> Json<Whoami> {
    let role = if caller.is_some() { "user" } else { "admin" };
    Json(Whoami { user: User { name: who(caller.as_ref()), role: role.to_owned() } })
}

/// Where the API is.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Place {
    api_base: String,
    auth_base: String,
}

/// Tells ClawHub's clients where the API is: here, by the name that they called.
#[utoipa::path(get, path = "/.well-known/clawhub.json", tag = "faces", operation_id = "claw_place",
    params(("X-Forwarded-Proto" = Option<String>, Header, description = "`https` when a proxy speaks TLS")),
    responses((status = 200, body = Place), Problems))]
pub async fn place(headers: HeaderMap) -> Answer<Json<Place>> {
    let host = headers.get(header::HOST).and_then(|h| h.to_str().ok());
    let host =
        host.ok_or_else(|| Problem::new(StatusCode::BAD_REQUEST, "a request has exactly one Host header"))?;
    let secure = headers.get("x-forwarded-proto").is_some_and(|p| p.as_bytes() == b"https");
    let base = format!("{}://{host}", if secure { "https" } else { "http" });
    Ok(Json(Place { api_base: base.clone(), auth_base: base }))
}
