//! Around every request: counters, a line in the log, headers on every answer, panics caught.
//!
//! Knows routes by their pattern; values from paths, queries and bodies stay out of counters and log.

use std::{
    any::Any,
    collections::BTreeMap,
    sync::{LazyLock, Mutex, PoisonError},
    time::{Duration, Instant},
};

use axum::{
    extract::{MatchedPath, Request},
    http::{HeaderMap, HeaderValue, Method, StatusCode, header},
    middleware::Next,
    response::{IntoResponse, Response},
};

use super::{
    extract::{is_json, media_type, not_json},
    problem::Problem,
};

/// Method, route and status of a request.
pub type Kind = (&'static str, String, u16);

/// How often, and how long until the answer began.
#[derive(Debug, Clone, Copy, Default)]
pub struct Tally {
    /// Requests.
    pub count: u64,
    /// Time in all.
    pub time: Duration,
}

/// All doors of this process count together.
static REQUESTS: LazyLock<Mutex<BTreeMap<Kind, Tally>>> = LazyLock::new(Mutex::default);

/// The requests so far.
pub fn requests() -> BTreeMap<Kind, Tally> {
    REQUESTS.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// Counts, logs, and dresses the answer.
pub async fn observe(path: Option<MatchedPath>, request: Request, next: Next) -> Response {
    let begin = Instant::now();
    let method = method_name(request.method());
    let mut response = next.run(request).await;
    let (route, status) = (path.as_ref().map_or("none", MatchedPath::as_str), response.status().as_u16());
    let took = begin.elapsed();
    tracing::debug!(method, route, status, ?took, "answered");
    {
        let mut requests = REQUESTS.lock().unwrap_or_else(PoisonError::into_inner);
        let tally = requests.entry((method, route.to_owned(), status)).or_default();
        tally.count += 1;
        tally.time += took;
    }
    dress(response.headers_mut());
    response
}

/// Callers may invent methods; counters must not grow with them.
fn method_name(method: &Method) -> &'static str {
    let known = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];
    known.into_iter().find(|m| *m == method.as_str()).unwrap_or("other")
}

fn dress(headers: &mut HeaderMap) {
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers
        .entry(header::CONTENT_SECURITY_POLICY)
        .or_insert(HeaderValue::from_static("default-src 'none'; frame-ancestors 'none'"));
}

/// Archives of skills.
const ARCHIVES: [&str; 5] =
    ["application/gzip", "application/x-gzip", "application/zstd", "application/x-tar", "application/zip"];

/// Refuses what an HTML form can send: writes take JSON, the soul text by PUT, and skills archives.
pub async fn refuse_forms(path: Option<MatchedPath>, request: Request, next: Next) -> Response {
    let writes = matches!(*request.method(), Method::POST | Method::PUT | Method::PATCH | Method::DELETE);
    let path = path.as_ref().map_or("", MatchedPath::as_str);
    let soul = path.ends_with("/soul");
    let publishes = matches!(path, "/v1/skills" | "/v1/skills/{id}/versions")
        && media_type(request.headers()).is_some_and(|kind| ARCHIVES.contains(&kind.as_str()));
    if writes && !soul && !publishes && media_type(request.headers()).is_some() && !is_json(request.headers())
    {
        return not_json().into_response();
    }
    next.run(request).await
}

/// The answer when a handler panicked.
#[expect(clippy::needless_pass_by_value, reason = "the layer asks for this signature")]
pub fn panicked(panic: Box<dyn Any + Send + 'static>) -> Response {
    let why = panic.downcast_ref::<String>().map(String::as_str);
    let why = why.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
    tracing::error!(panic = why, "a request handler panicked");
    Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "the supervisor failed; its log tells why")
        .into_response()
}
