//! `/v1/secrets…`: names and use. A value comes in by PUT and never goes out, not even in a refusal.

use std::sync::Arc;

use axum::{Json, extract::State, http::StatusCode};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{
    extract::{Name, Params, RawJson, is_list},
    page::{Order, Page, PageParams},
    problem::{Problem, Problems},
    work,
};
use crate::{
    app::{Hive, types::SecretView},
    ids::SecretName,
    secrets::{InvalidValue, SecretValue},
};

type Answer<T> = Result<T, Problem>;

/// Lists the secrets, by name.
#[utoipa::path(get, path = "/v1/secrets", tag = "secrets", params(PageParams),
    responses((status = 200, body = Page<SecretView>), Problems))]
pub async fn list(
    State(hive): State<Arc<Hive>>,
    Params(page): Params<PageParams>,
) -> Answer<Json<Page<SecretView>>> {
    let secrets = work::read(hive.secrets()).await??;
    page.cut(secrets, Order::Key, |s| &s.name).map(Json)
}

/// A secret's value, going in.
#[derive(Deserialize, ToSchema)]
#[schema(example = json!({"value": "correct-horse-battery-staple"}))]
#[serde(deny_unknown_fields)]
pub struct SecretBody {
    /// Not empty, without NUL bytes, at most 64 KiB.
    value: String,
}

/// A secret was set.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct SecretSet {
    /// Its name.
    pub name: String,
    /// What the operator should know, like a value too short to be masked.
    pub warnings: Vec<String>,
}

/// Sets a secret.
#[utoipa::path(put, path = "/v1/secrets/{name}", tag = "secrets", request_body = SecretBody,
    params(("name" = String, Path), ("Idempotency-Key" = Option<String>, Header)),
    responses((status = 200, body = SecretSet), Problems))]
pub async fn set(
    State(hive): State<Arc<Hive>>,
    Name(name): Name<SecretName>,
    RawJson(body): RawJson,
) -> Answer<Json<SecretSet>> {
    // A parser's message may quote what it read.
    let SecretBody { value } = Some(&body)
        .filter(|b| !is_list(b))
        .and_then(|b| serde_json::from_slice(b).ok())
        .ok_or_else(|| Problem::invalid("", "the body must be {\"value\": \"…\"} and nothing else"))?;
    let value = match SecretValue::new(value) {
        Ok(value) if value.is_empty() => Err(InvalidValue::Empty),
        other => other,
    }
    .map_err(|e| Problem::invalid("/value", e.to_string()))?;
    let written = name.to_string();
    let warnings = work::write(async move { hive.set_secret(&name, value).await }).await?;
    Ok(Json(SecretSet { name: written, warnings }))
}

/// Removes a secret.
#[utoipa::path(delete, path = "/v1/secrets/{name}", tag = "secrets",
    params(("name" = String, Path), ("Idempotency-Key" = Option<String>, Header)),
    responses((status = 204, description = "Removed"), Problems))]
pub async fn remove(State(hive): State<Arc<Hive>>, Name(name): Name<SecretName>) -> Answer<StatusCode> {
    work::write(async move { hive.remove_secret(&name).await }).await?;
    Ok(StatusCode::NO_CONTENT)
}
