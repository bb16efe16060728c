//! The registry as other registries' clients read it: `/api/v1/…` (ClawHub) and `/.well-known/…`.
//!
//! Behind the same doors as everything else. ClawHub's clients show the body of an error to people, so below `/api/v1/`
//! a refusal is one line of text.

pub(super) mod claw;
pub(super) mod discovery;

use std::str::FromStr;

use axum::{
    body::Body,
    extract::{FromRequestParts, RawPathParams, Request},
    http::{HeaderName, HeaderValue, StatusCode, header, request::Parts},
    middleware::Next,
    response::{IntoResponse, Response},
};
use futures_util::stream;
use semver::Version;

use serde::Deserialize;
use utoipa::IntoParams;

use super::{
    extract::Params,
    problem::{Detail, Problem},
};
use crate::{
    app::{
        faces::{Slug, Which},
        skills::Archive,
    },
    ids::InvalidName,
};

/// Turns problems into what ClawHub's clients expect: text, and 400 for whatever is wrong with a request.
pub async fn in_plain_words(request: Request, next: Next) -> Response {
    let theirs = request.uri().path().starts_with("/api/v1/");
    let response = next.run(request).await;
    let Some(Detail(detail)) = response.extensions().get::<Detail>().filter(|_| theirs).cloned() else {
        return response;
    };
    let (mut parts, _) = response.into_parts();
    if parts.status == StatusCode::UNPROCESSABLE_ENTITY {
        parts.status = StatusCode::BAD_REQUEST;
    }
    parts.headers.remove(header::CONTENT_LENGTH);
    parts.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    Response::from_parts(parts, Body::from(detail))
}

/// How the API's description tells of refusals below `/api/v1/`.
pub struct Refusals;

impl utoipa::IntoResponses for Refusals {
    fn responses()
    -> std::collections::BTreeMap<String, utoipa::openapi::RefOr<utoipa::openapi::response::Response>> {
        use utoipa::openapi::{ContentBuilder, ObjectBuilder, ResponseBuilder, schema::Type};
        let refusal = |(status, description): (&str, &str)| {
            let schema = ObjectBuilder::new().schema_type(Type::String).build();
            let content = ContentBuilder::new().schema(Some(schema)).build();
            let response = ResponseBuilder::new().description(description).content("text/plain", content);
            (status.to_owned(), response.build().into())
        };
        [
            ("410", "Every version that is asked for is yanked."),
            ("4XX", "The request was refused."),
            ("5XX", "It failed, or cannot be done now."),
        ]
        .map(refusal)
        .into()
    }
}

/// Whose skill.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase")]
#[into_params(parameter_in = Query)]
pub struct OwnerParams {
    /// Nothing is found unless the skill belongs to this one.
    owner_handle: Option<String>,
}

impl OwnerParams {
    fn of(self, id: &str, pointer: &str) -> Result<Slug, Problem> {
        let owner = self.owner_handle.map(|o| o.trim().trim_start_matches('@').to_lowercase());
        Ok(Slug {
            id: id.trim().parse().map_err(|e: InvalidName| Problem::invalid(pointer, e.0))?,
            owner: owner.filter(|o| !o.is_empty()),
        })
    }
}

/// `{slug}` or `{id}` with `ownerHandle`, and `{version}` where the path has it.
pub struct At {
    slug: Slug,
    which: Which,
}

impl<S: Send + Sync> FromRequestParts<S> for At {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let Params(owner) = Params::<OwnerParams>::from_request_parts(parts, state).await?;
        let params = RawPathParams::from_request_parts(parts, state)
            .await
            .map_err(|e| Problem::new(StatusCode::BAD_REQUEST, e.body_text()))?;
        let value = |name: &str| params.iter().find(|(n, _)| *n == name).map(|(_, v)| v);
        let id = value("slug").or_else(|| value("id")).unwrap_or_default();
        let version = value("version").map(|v| version("{version}", v)).transpose()?;
        Ok(Self { slug: owner.of(id, "{slug}")?, which: Which { version, tag: None } })
    }
}

fn version(pointer: &str, text: &str) -> Result<Version, Problem> {
    Version::from_str(text)
        .map_err(|e| Problem::invalid(pointer, format!("{text:?} is no version like 1.2.3: {e}")))
}

/// A zip on its way.
fn zip(archive: Archive, name: &str) -> Response {
    let about = [
        (header::CONTENT_TYPE, "application/zip".to_owned()),
        (header::CONTENT_DISPOSITION, format!("attachment; filename=\"{name}.zip\"")),
        (HeaderName::from_static("skep-digest"), archive.digest.to_string()),
    ];
    let pieces = stream::unfold(archive.pieces, async |mut pieces| Some((pieces.recv().await?, pieces)));
    (about, Body::from_stream(pieces)).into_response()
}
