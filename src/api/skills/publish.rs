//! `POST /v1/skills` and `POST /v1/skills/{id}/versions`: an archive as it arrives, or a folder of a source.

use std::{io, sync::Arc, time::Duration};

use axum::{
    Json,
    body::Body as HttpBody,
    extract::{FromRequest, Request, State},
    http::{HeaderMap, StatusCode},
};
use bytes::Bytes;
use futures_util::StreamExt;
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;
use utoipa::{IntoParams, ToSchema};

use super::Answer;
use crate::{
    api::{
        access::Caller,
        extract::{Key, Name, Params, RawJson, is_json, media_type, parse, yes_or_no},
        problem::{Problem, Problems},
        work,
    },
    app::{
        self, Hive,
        skills::{Only, Outcome, PublishOptions, Published, Uploaded},
    },
    ids::{AgentId, SkillId},
    registry::{archive::Format, index::Owner},
};

/// Between two pieces of a body.
const PATIENCE: Duration = Duration::from_secs(30);

/// How to publish.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct PublishParams {
    /// Also a version that is not newer than all others.
    #[serde(default, deserialize_with = "yes_or_no")]
    #[param(default = false)]
    allow_older: bool,
    /// Refuse also what is odd but loads.
    #[serde(default, deserialize_with = "yes_or_no")]
    #[param(default = false)]
    strict: bool,
}

/// A folder of one of the hive's sources.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
#[schema(example = json!({"path": "skills/note-taking"}))]
#[serde(deny_unknown_fields)]
pub struct FolderRequest {
    /// Relative to the hive.
    #[schema(example = "skills/note-taking")]
    pub path: String,
}

/// Registers a skill, or a new version of one: a tar in gzip or zstd (also a plain tar or a zip) with the skill at its
/// top or in one folder, or as JSON a folder of the hive's sources (the operator alone). An agent becomes the owner of
/// what it registers, and registers versions only of skills that it owns.
#[utoipa::path(post, path = "/v1/skills", tag = "skills",
    params(PublishParams, ("Idempotency-Key" = Option<String>, Header)),
    request_body(content(([u8] = "application/gzip"), ([u8] = "application/zstd"), ([u8] = "application/x-tar"),
        ([u8] = "application/zip"), (FolderRequest = "application/json"))),
    responses((status = 201, description = "Registered", body = Published),
        (status = 200, description = "The same content was there already", body = Published),
        (status = 403, description = "The id belongs to somebody else", body = Problem,
            content_type = "application/problem+json"),
        (status = 409, description = "The version exists with other content (both digests are told), or is not newer \
            than all others", body = Problem, content_type = "application/problem+json"),
        (status = 429, description = "The agent registered too many; `Retry-After` tells when it may go on",
            body = Problem, content_type = "application/problem+json"),
        (status = 422, description = "Invalid; `errors` has every reason", body = Problem,
            content_type = "application/problem+json"),
        Problems))]
pub async fn register(
    State(hive): State<Arc<Hive>>,
    Caller(caller): Caller,
    Params(params): Params<PublishParams>,
    key: Key,
    request: Request,
) -> Answer<(StatusCode, Json<Published>)> {
    let how = PublishOptions { allow_older: params.allow_older, strict: params.strict, ..Default::default() };
    publish(hive, caller, key, request, how).await
}

/// Registers a new version of a skill; the body is as for `POST /v1/skills`.
#[utoipa::path(post, path = "/v1/skills/{id}/versions", tag = "skills",
    params(("id" = String, Path, example = "note-taking"), PublishParams,
        ("Idempotency-Key" = Option<String>, Header)),
    request_body(content(([u8] = "application/gzip"), ([u8] = "application/zstd"), ([u8] = "application/x-tar"),
        ([u8] = "application/zip"), (FolderRequest = "application/json"))),
    responses((status = 201, description = "Registered", body = Published),
        (status = 200, description = "The same content was there already", body = Published),
        (status = 403, description = "The id belongs to somebody else", body = Problem,
            content_type = "application/problem+json"),
        (status = 404, description = "There is no such skill", body = Problem,
            content_type = "application/problem+json"),
        (status = 409, description = "The version exists with other content (both digests are told), or is not newer \
            than all others", body = Problem, content_type = "application/problem+json"),
        (status = 429, description = "The agent registered too many; `Retry-After` tells when it may go on",
            body = Problem, content_type = "application/problem+json"),
        (status = 422, description = "Invalid, or another skill; `errors` has every reason", body = Problem,
            content_type = "application/problem+json"),
        Problems))]
pub async fn add_version(
    State(hive): State<Arc<Hive>>,
    Caller(caller): Caller,
    Name(id): Name<SkillId>,
    Params(params): Params<PublishParams>,
    key: Key,
    request: Request,
) -> Answer<(StatusCode, Json<Published>)> {
    let how = PublishOptions {
        allow_older: params.allow_older,
        strict: params.strict,
        only: Some(Only::NewVersion),
        expect_id: Some(id),
        ..Default::default()
    };
    publish(hive, caller, key, request, how).await
}

async fn publish(
    hive: Arc<Hive>,
    caller: Option<AgentId>,
    key: Key,
    request: Request,
    how: PublishOptions,
) -> Answer<(StatusCode, Json<Published>)> {
    if is_json(request.headers()) {
        let RawJson(body) = RawJson::from_request(request, &()).await?;
        let key = key.of(caller.as_ref(), &body)?;
        let FolderRequest { path } = parse(&body)?;
        if let Some(agent) = caller {
            return Err(Problem::forbidden(format!(
                "agent {agent} cannot name folders of the host: send the skill as an archive (application/gzip)"
            )));
        }
        let work = async move {
            let staged = hive.stage_folder(&path).await?;
            let how = PublishOptions { source: path, key, ..how };
            hive.publish(&Owner::Operator, staged, how).await
        };
        return work::write(work).await.map(answer);
    }
    let format = format(request.headers())?;
    let uploaded = unpack(&hive, format, request.into_body()).await;
    if let (Some(agent), Err(refused)) = (&caller, &uploaded) {
        hive.announce_refused(agent, how.expect_id.as_ref(), refused).await;
    }
    let Uploaded { staged, sha256 } = uploaded?;
    let key = key.of(caller.as_ref(), &sha256)?;
    let work = async move {
        match caller {
            Some(agent) => {
                let expected = how.expect_id.clone();
                let how = PublishOptions { source: format!("sent by agent {agent}"), key, ..how };
                let published = hive.publish_own(&agent, staged, how).await;
                if let Err(refused) = &published {
                    hive.announce_refused(&agent, expected.as_ref(), refused).await;
                }
                published
            }
            None => {
                let how = PublishOptions { source: "sent by the operator".to_owned(), key, ..how };
                hive.publish(&Owner::Operator, staged, how).await
            }
        }
    };
    work::write(work).await.map(answer)
}

fn answer(published: Published) -> (StatusCode, Json<Published>) {
    let status = match published.outcome {
        Outcome::Created | Outcome::Updated => StatusCode::CREATED,
        Outcome::Same => StatusCode::OK,
    };
    (status, Json(published))
}

fn format(headers: &HeaderMap) -> Answer<Format> {
    match media_type(headers).as_deref() {
        Some("application/gzip" | "application/x-gzip") => Ok(Format::TarGz),
        Some("application/zstd") => Ok(Format::TarZst),
        Some("application/x-tar") => Ok(Format::Tar),
        Some("application/zip") => Ok(Format::Zip),
        _ => Err(Problem::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "send the skill as a tar with Content-Type application/gzip or application/zstd (also application/x-tar, \
             application/zip), or JSON with the path of its folder",
        )),
    }
}

/// Hands the body on as it arrives; a refused archive is not read to its end.
async fn unpack(hive: &Arc<Hive>, format: Format, body: HttpBody) -> app::Result<Uploaded> {
    let (sender, pieces) = mpsc::channel::<io::Result<Bytes>>(4);
    let feed = async move {
        let mut body = body.into_data_stream();
        loop {
            let piece = match tokio::time::timeout(PATIENCE, body.next()).await {
                Ok(None) => return,
                Ok(Some(Ok(piece))) => Ok(piece),
                Ok(Some(Err(e))) => Err(io::Error::other(e)),
                Err(_) => Err(io::Error::other(format!("nothing came for {} seconds", PATIENCE.as_secs()))),
            };
            let over = piece.is_err();
            if sender.send(piece).await.is_err() || over {
                return;
            }
        }
    };
    let (unpacked, ()) = tokio::join!(hive.unpack_upload(format, pieces), feed);
    unpacked
}
