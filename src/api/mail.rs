//! `/v1/mail…` and `/v1/agents/{agent}/mail`. An agent reaches what it wrote or got alone: the use cases see to it.

use std::sync::Arc;

use axum::{
    Json,
    body::Body as HttpBody,
    extract::{Path, State, rejection::PathRejection},
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use serde::Deserialize;
use tokio_util::io::ReaderStream;
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
    mail::{
        Folder, Party,
        types::{MailRequest, MailView},
    },
};

const TAG: &str = "mail";
type Answer<T> = Result<T, Problem>;

/// Which messages.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct BoxParams {
    /// `inbox` (what came), `sent`, or `queue` (what waits for an answer, or is held).
    r#box: Option<String>,
    /// Only those with all of these words.
    q: Option<String>,
}

/// Lists the messages of an agent, or of the `operator`; newest first.
#[utoipa::path(get, path = "/v1/agents/{agent}/mail", tag = TAG,
    params(("agent" = String, Path), BoxParams, PageParams),
    responses((status = 200, body = Page<MailView>), Problems))]
pub async fn list(
    State(hive): State<Arc<Hive>>,
    path: Result<Path<String>, PathRejection>,
    Params(params): Params<BoxParams>,
    Params(page): Params<PageParams>,
) -> Answer<Json<Page<MailView>>> {
    let Path(of) = path.map_err(|e| Problem::new(e.status(), e.body_text()))?;
    let of: Party = of.parse().map_err(|e: crate::ids::InvalidName| Problem::invalid("{agent}", e.0))?;
    let folder = match params.r#box.as_deref() {
        None | Some("inbox") => Folder::Inbox,
        Some("sent") => Folder::Sent,
        Some("queue") => Folder::Queue,
        Some(other) => {
            let why = format!("{other:?} is no box; there are inbox, sent and queue");
            return Err(Problem::invalid("?box", why));
        }
    };
    let (before, read) = page.keys()?;
    let found = work::read(hive.mailbox(of, folder, params.q, before, read)).await??;
    Ok(Json(Page::of_keys(found, read, |mail| mail.id)))
}

/// Sends a message, in the caller's name. Whether it arrives is told by `status` and `deliveries`. With an
/// `Idempotency-Key` a repeat within 24 h is answered the same.
#[utoipa::path(post, path = "/v1/mail", tag = TAG, request_body = MailRequest,
    params(("Idempotency-Key" = Option<String>, Header)),
    responses((status = 201, body = MailView), Problems))]
pub async fn send(
    State(hive): State<Arc<Hive>>,
    Caller(caller): Caller,
    key: Key,
    RawJson(body): RawJson,
) -> Answer<(StatusCode, Json<MailView>)> {
    let (key, request) = (key.of(caller.as_ref(), &body)?, parse::<MailRequest>(&body)?);
    let sent = work::write(async move { hive.send_mail(caller.as_ref(), request, key).await }).await?;
    Ok((StatusCode::CREATED, Json(sent)))
}

/// Shows a message. Of what came to the caller, that is its having read it.
#[utoipa::path(get, path = "/v1/mail/{id}", tag = TAG, params(("id" = i64, Path)),
    responses((status = 200, body = MailView), Problems))]
pub async fn show(
    State(hive): State<Arc<Hive>>,
    Caller(caller): Caller,
    Id(id): Id,
) -> Answer<Json<MailView>> {
    Ok(Json(work::read(hive.mail(caller.as_ref(), id)).await??))
}

/// A file that came with a message.
#[utoipa::path(get, path = "/v1/mail/{id}/attachments/{name}", tag = TAG,
    params(("id" = i64, Path), ("name" = String, Path)),
    responses((status = 200, description = "Its bytes", body = Vec<u8>, content_type = "application/octet-stream"),
        Problems))]
pub async fn attachment(
    State(hive): State<Arc<Hive>>,
    Caller(caller): Caller,
    Id(id): Id,
    path: Result<Path<(String, String)>, PathRejection>,
) -> Answer<Response> {
    let Path((_, name)) = path.map_err(|e| Problem::new(e.status(), e.body_text()))?;
    let file = work::read(hive.mail_file(caller.as_ref(), id, &name)).await??;
    let file = tokio::fs::File::open(&file).await.map_err(|e| {
        Problem::new(StatusCode::INTERNAL_SERVER_ERROR, format!("{} cannot be read: {e}", file.display()))
    })?;
    let headers = [
        (header::CONTENT_TYPE, "application/octet-stream"),
        (header::CONTENT_DISPOSITION, "attachment"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    Ok((headers, HttpBody::from_stream(ReaderStream::new(file))).into_response())
}

/// Lets a held message go on; its thread counts anew.
#[utoipa::path(post, path = "/v1/mail/{id}/release", tag = TAG,
    params(("id" = i64, Path), ("Idempotency-Key" = Option<String>, Header)),
    responses((status = 200, body = MailView), Problems))]
pub async fn release(State(hive): State<Arc<Hive>>, Id(id): Id) -> Answer<Json<MailView>> {
    Ok(Json(work::write(async move { hive.release_mail(id).await }).await?))
}
