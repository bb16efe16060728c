//! Every refusal and failure as `application/problem+json` (RFC 9457).
//!
//! Statuses are chosen here from what a use case says; nothing here decides what is wrong.

use axum::{
    Json,
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::app::types::AppError;

/// One thing that is wrong with a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FieldFault {
    /// JSON pointer into the body, `?name` for a query parameter, `{name}` for a part of the path, or the
    /// place in a file.
    pub pointer: String,
    /// What is wrong there.
    pub detail: String,
}

/// Why a request was refused or failed (RFC 9457).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Problem {
    /// Always `about:blank`: the status tells the kind.
    #[serde(rename = "type")]
    pub kind: String,
    /// The status in words.
    pub title: String,
    /// HTTP status.
    pub status: u16,
    /// What failed, on which thing, and what to do.
    pub detail: String,
    /// Each fault of bad input.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<FieldFault>,
    /// Seconds until it is worth another try, for the header.
    #[serde(skip)]
    #[schema(ignore)]
    pub retry_after: Option<u64>,
}

impl Problem {
    /// A problem with a status and a sentence.
    pub fn new(status: StatusCode, detail: impl Into<String>) -> Self {
        Self {
            kind: "about:blank".into(),
            title: status.canonical_reason().unwrap_or("Error").into(),
            status: status.as_u16(),
            detail: detail.into(),
            errors: Vec::new(),
            retry_after: None,
        }
    }

    /// Bad input (422) with one place.
    pub fn invalid(pointer: impl Into<String>, detail: impl Into<String>) -> Self {
        let detail = detail.into();
        let mut problem = Self::new(StatusCode::UNPROCESSABLE_ENTITY, detail.clone());
        problem.errors.push(FieldFault { pointer: pointer.into(), detail });
        problem
    }

    /// The caller may not do this (403).
    pub fn forbidden(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, detail)
    }
}

impl From<AppError> for Problem {
    fn from(error: AppError) -> Self {
        let status = match &error {
            AppError::NotFound(_) => StatusCode::NOT_FOUND,
            AppError::Gone(_) => StatusCode::GONE,
            AppError::Forbidden(_) => StatusCode::FORBIDDEN,
            AppError::Conflict(_) | AppError::InUse { .. } => StatusCode::CONFLICT,
            AppError::Invalid { .. } => StatusCode::UNPROCESSABLE_ENTITY,
            AppError::TooMany { .. } => StatusCode::TOO_MANY_REQUESTS,
            AppError::Changed(_) => StatusCode::PRECONDITION_FAILED,
            AppError::Unavailable(_) => StatusCode::SERVICE_UNAVAILABLE,
            AppError::Internal(_) => StatusCode::INTERNAL_SERVER_ERROR,
        };
        let mut problem = Self::new(status, error.to_string());
        if let AppError::TooMany { retry_after, .. } = &error {
            problem.retry_after = Some(retry_after.as_secs() + 1);
        }
        if let AppError::Invalid { errors, .. } | AppError::InUse { errors, .. } = error {
            problem.errors =
                errors.into_iter().map(|(pointer, detail)| FieldFault { pointer, detail }).collect();
        }
        problem
    }
}

/// What a refused or failed answer says, beside its body: for clients that do not read problems.
#[derive(Debug, Clone)]
pub struct Detail(pub String);

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let retry_after = self.retry_after;
        let detail = Detail(self.detail.clone());
        let mut response = (status, Json(self)).into_response();
        response.extensions_mut().insert(detail);
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if let Some(seconds) = retry_after {
            headers.insert(header::RETRY_AFTER, seconds.into());
        }
        match status {
            StatusCode::UNAUTHORIZED => {
                headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"skep\""));
            }
            StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS => {
                headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
            }
            _ => {}
        }
        response
    }
}

/// How the API's description tells of problems: every 4xx and 5xx answer is one.
pub struct Problems;

impl utoipa::IntoResponses for Problems {
    fn responses()
    -> std::collections::BTreeMap<String, utoipa::openapi::RefOr<utoipa::openapi::response::Response>> {
        use utoipa::openapi::{Content, Ref, ResponseBuilder};
        [("4XX", "The request was refused."), ("5XX", "It failed, or cannot be done now.")]
            .into_iter()
            .map(|(status, description)| {
                let schema = Ref::from_schema_name("Problem");
                let response = ResponseBuilder::new()
                    .description(description)
                    .content("application/problem+json", Content::new(Some(schema)))
                    .build();
                (status.to_owned(), response.into())
            })
            .collect()
    }
}
