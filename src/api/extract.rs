//! What a handler takes from a request: names in the path, query parameters, JSON bodies.
//!
//! Each refusal is a problem that points at what is wrong. Bodies are bounded in size and time.

use std::{str::FromStr, time::Duration};

use axum::{
    extract::{FromRequest, FromRequestParts, Query, RawPathParams, Request, rejection::QueryRejection},
    http::{HeaderMap, StatusCode, header, request::Parts},
};
use bytes::Bytes;
use serde::{
    Deserialize, Deserializer,
    de::{DeserializeOwned, Error as _},
};
use serde_path_to_error::Segment;

use super::problem::Problem;
use crate::{
    app::jobs::{OnceKey, once_key},
    ids::{AgentId, InvalidName},
};

/// A body that takes longer to arrive is refused.
pub(super) const BODY_TIMEOUT: Duration = Duration::from_secs(30);

/// The first parameter of the path, as a name.
pub struct Name<T>(pub T);

impl<S, T> FromRequestParts<S> for Name<T>
where
    S: Send + Sync,
    T: FromStr<Err = InvalidName>,
{
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let params = RawPathParams::from_request_parts(parts, state)
            .await
            .map_err(|e| Problem::new(StatusCode::BAD_REQUEST, e.body_text()))?;
        let (name, value) = params
            .iter()
            .next()
            .ok_or_else(|| Problem::new(StatusCode::NOT_FOUND, "the path names nothing"))?;
        value.parse().map(Name).map_err(|e: InvalidName| Problem::invalid(format!("{{{name}}}"), e.0))
    }
}

/// The number `{id}` of the path.
pub struct Id(pub i64);

impl<S: Send + Sync> FromRequestParts<S> for Id {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let Name(Number(id)) = Name::from_request_parts(parts, state).await?;
        Ok(Self(id))
    }
}

struct Number(i64);

impl FromStr for Number {
    type Err = InvalidName;

    fn from_str(text: &str) -> Result<Self, InvalidName> {
        text.parse().map(Self).map_err(|_| InvalidName(format!("{text:?} is not a number")))
    }
}

/// `Idempotency-Key`, and the route that it holds for.
pub struct Key {
    key: Option<String>,
    route: String,
}

impl<S: Send + Sync> FromRequestParts<S> for Key {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let header = parts.headers.get("idempotency-key");
        let key = header.map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
        Ok(Self { key, route: format!("{} {}", parts.method, parts.uri.path()) })
    }
}

impl Key {
    /// What tells the request of this caller with this body from others.
    ///
    /// # Errors
    /// 422: it cannot be a key.
    pub fn of(self, caller: Option<&AgentId>, body: &[u8]) -> Result<Option<OnceKey>, Problem> {
        let key = self.key.map(|key| once_key(caller, self.route, &key, body));
        Ok(key.transpose()?)
    }
}

/// Query parameters; unknown ones are ignored, wrong values refused.
pub struct Params<T>(pub T);

impl<S, T> FromRequestParts<S> for Params<T>
where
    S: Send + Sync,
    T: DeserializeOwned,
{
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        match Query::from_request_parts(parts, state).await {
            Ok(Query(params)) => Ok(Self(params)),
            Err(rejection) => Err(query_problem(&rejection)),
        }
    }
}

fn query_problem(rejection: &QueryRejection) -> Problem {
    let text = rejection.body_text();
    let text = text.strip_prefix("Failed to deserialize query string: ").unwrap_or(&text);
    match text.split_once(": ") {
        Some((name, why)) if name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') => {
            Problem::invalid(format!("?{name}"), format!("the query parameter {name} is wrong: {why}"))
        }
        _ => Problem::invalid("?", format!("the query is wrong: {text}")),
    }
}

/// A yes or no in a query, as people write it: `true`, `1` or nothing after the name; `false` or `0`.
///
/// # Errors
/// Any other text.
pub fn yes_or_no<'de, D: Deserializer<'de>>(from: D) -> Result<bool, D::Error> {
    match String::deserialize(from)?.as_str() {
        "true" | "1" | "" => Ok(true),
        "false" | "0" => Ok(false),
        other => Err(D::Error::custom(format!("{other:?} is neither true nor false"))),
    }
}

/// As [`yes_or_no`], for what may be left out.
///
/// # Errors
/// Any other text.
pub fn maybe_yes_or_no<'de, D: Deserializer<'de>>(from: D) -> Result<Option<bool>, D::Error> {
    yes_or_no(from).map(Some)
}

/// A JSON body's bytes, not parsed yet: for values that no message may show.
pub struct RawJson(pub Bytes);

impl<S: Send + Sync> FromRequest<S> for RawJson {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        if !is_json(request.headers()) {
            return Err(not_json());
        }
        read(request, state).await.map(Self)
    }
}

/// A JSON body.
pub struct Body<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Body<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        let RawJson(bytes) = RawJson::from_request(request, state).await?;
        parse(&bytes).map(Self)
    }
}

/// A JSON body that may be left out.
pub struct MaybeBody<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned + Default> FromRequest<S> for MaybeBody<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        let json = is_json(request.headers());
        let bytes = read(request, state).await?;
        // The description has such a body as one that may be null.
        match (bytes.is_empty() || json && bytes.trim_ascii() == b"null", json) {
            (true, _) => Ok(Self(T::default())),
            (false, true) => parse(&bytes).map(Self),
            (false, false) => Err(not_json()),
        }
    }
}

/// A text body (`text/markdown` or `text/plain`) in UTF-8.
pub struct Text(pub String);

impl<S: Send + Sync> FromRequest<S> for Text {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        if !matches!(media_type(request.headers()).as_deref(), Some("text/markdown" | "text/plain")) {
            return Err(Problem::new(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "send the text with Content-Type text/markdown or text/plain",
            ));
        }
        let bytes = read(request, state).await?;
        let text = std::str::from_utf8(&bytes).map_err(|e| {
            Problem::invalid("", format!("the text is not UTF-8 at byte {}", e.valid_up_to()))
        })?;
        Ok(Self(text.to_owned()))
    }
}

/// The essence of `Content-Type`, in lower case.
pub fn media_type(headers: &HeaderMap) -> Option<String> {
    let value = headers.get(header::CONTENT_TYPE)?.to_str().ok()?;
    Some(value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase())
}

/// Whether a body is announced as JSON.
pub fn is_json(headers: &HeaderMap) -> bool {
    media_type(headers)
        .is_some_and(|t| t == "application/json" || (t.starts_with("application/") && t.ends_with("+json")))
}

/// The refusal of any other body.
pub fn not_json() -> Problem {
    Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "send JSON with Content-Type application/json")
}

async fn read<S: Send + Sync>(request: Request, state: &S) -> Result<Bytes, Problem> {
    match tokio::time::timeout(BODY_TIMEOUT, Bytes::from_request(request, state)).await {
        Ok(Ok(bytes)) => Ok(bytes),
        Ok(Err(rejection)) if rejection.status() == StatusCode::PAYLOAD_TOO_LARGE => {
            Err(Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "the body is larger than this route accepts"))
        }
        Ok(Err(rejection)) => Err(Problem::new(rejection.status(), rejection.body_text())),
        Err(_) => Err(Problem::new(
            StatusCode::REQUEST_TIMEOUT,
            format!("the body did not arrive within {} seconds", BODY_TIMEOUT.as_secs()),
        )),
    }
}

/// A JSON body from its bytes.
///
/// # Errors
/// 400 when it is not JSON, 422 when it is not what is asked for.
pub fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
    if is_list(bytes) {
        return Err(Problem::invalid("", "the body must be a JSON object, not a list"));
    }
    let mut from = serde_json::Deserializer::from_slice(bytes);
    let value = serde_path_to_error::deserialize(&mut from).map_err(|e| {
        if e.inner().is_data() {
            Problem::invalid(pointer(e.path()), e.inner().to_string())
        } else {
            Problem::new(StatusCode::BAD_REQUEST, format!("the body is not JSON: {}", e.inner()))
        }
    })?;
    from.end().map_err(|e| {
        Problem::new(StatusCode::BAD_REQUEST, format!("the body is more than one JSON value: {e}"))
    })?;
    Ok(value)
}

/// Serde takes a list for a struct's fields in order; the description does not.
pub fn is_list(json: &[u8]) -> bool {
    json.trim_ascii_start().first() == Some(&b'[')
}

/// RFC 6901.
fn pointer(path: &serde_path_to_error::Path) -> String {
    path.iter()
        .map(|segment| match segment {
            Segment::Seq { index } => format!("/{index}"),
            Segment::Map { key } => format!("/{}", key.replace('~', "~0").replace('/', "~1")),
            Segment::Enum { variant } => format!("/{variant}"),
            Segment::Unknown => "/?".to_owned(),
        })
        .collect()
}
