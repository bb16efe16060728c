//! `/v1/documents…` and `/v1/document-tools/{tool}`: skills as markdown documents (systems.md B). Whose a document is,
//! the use cases decide.
//!
//! The second is for programs that have the tools' JSON at hand, models above all: parameters and answers as the tools
//! are told, on one route. It stands apart so that no document's name can collide with it.

use std::{str::FromStr, sync::Arc};

use axum::{
    Json,
    extract::{FromRequestParts, State},
    http::{HeaderValue, StatusCode, header, request::Parts},
    response::{IntoResponse, Response},
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::{IntoParams, ToSchema};

use super::{
    access::Caller,
    extract::{Key, MaybeBody, Name, Params, RawJson, parse, yes_or_no},
    page::{Order, Page, PageParams},
    problem::{FieldFault, Problem, Problems},
    work,
};
use crate::{
    app::{
        Hive,
        documents::{self, Deleted, DocumentView, Enabled},
    },
    ids::{InvalidName, SkillId},
    skill::document::{self, Call, Mistake, Tool},
};

const TAG: &str = "documents";
type Answer<T> = Result<T, Problem>;

/// Which documents.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct DocumentParams {
    /// Only those with this tag.
    tag: Option<String>,
    /// Also the disabled ones.
    #[serde(default, deserialize_with = "yes_or_no")]
    #[param(default = false)]
    include_disabled: bool,
}

/// A new document.
#[derive(Debug, Serialize, ToSchema)]
#[schema(example = json!({"name": "quarterly-reports", "title": "Quarterly reports",
    "description": "How the quarterly reports are built", "content": "# Quarterly reports\n\n- Headers are bold.\n", "tags": ["reports"]}))]
pub struct NewDocument {
    /// A slug that no skill has: lowercase letters, digits and hyphens, at most 64.
    pub name: String,
    /// For people, on one line, at most 200 characters.
    pub title: String,
    /// Tells when to read it, at most 1,024 characters.
    pub description: String,
    /// The markdown.
    pub content: String,
    /// At most 50, of at most 64 characters each.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tags: Option<Vec<String>>,
}

/// What is to be changed; what is left out stays.
#[derive(Debug, Serialize, ToSchema)]
#[schema(example = json!({"operation": "find_replace", "find": "bold", "replace": "italic"}))]
pub struct DocumentEdit {
    /// Another title.
    pub title: Option<String>,
    /// Another description.
    pub description: Option<String>,
    /// Other tags, in place of all.
    pub tags: Option<Vec<String>>,
    /// What happens to the content: `replace`, `find_replace`, `append`, `prepend` or `delete`.
    pub operation: Option<String>,
    /// `replace`: the new content; `append`, `prepend`: what is added, as it is; `delete`: what goes.
    pub content: Option<String>,
    /// `find_replace`: an exact piece of the content, which stands there once.
    pub find: Option<String>,
    /// `find_replace`: what takes its place.
    pub replace: Option<String>,
    /// `find_replace`, `delete`: every occurrence.
    pub replace_all: Option<bool>,
}

/// `If-Match`: the version that the caller saw, as `ETag` told it.
pub struct IfMatch(Option<u64>);

impl<S: Send + Sync> FromRequestParts<S> for IfMatch {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let Some(value) = parts.headers.get(header::IF_MATCH) else { return Ok(Self(None)) };
        let text = value.to_str().unwrap_or_default().trim();
        if text == "*" {
            return Ok(Self(None));
        }
        let number = text.strip_prefix('"').and_then(|t| t.strip_suffix('"')).unwrap_or(text);
        number.parse().map(|seen| Self(Some(seen))).map_err(|_| {
            Problem::invalid("If-Match", "If-Match is the version of the document, like \"3\"".to_owned())
        })
    }
}

/// A tool's name in the path.
pub struct ToolName(Tool);

impl FromStr for ToolName {
    type Err = InvalidName;

    fn from_str(name: &str) -> Result<Self, InvalidName> {
        let known = || Tool::ALL.iter().map(|tool| tool.name()).collect::<Vec<_>>().join(", ");
        Tool::named(name)
            .map(Self)
            .ok_or_else(|| InvalidName(format!("{name:?} is no document tool; there are {}", known())))
    }
}

/// With the version as `ETag`.
fn tagged(status: StatusCode, document: DocumentView) -> Response {
    let etag = format!("\"{}\"", document.version);
    let mut response = (status, Json(document)).into_response();
    if let Ok(value) = HeaderValue::from_str(&etag) {
        response.headers_mut().insert(header::ETAG, value);
    }
    response
}

fn refused(mistakes: Vec<Mistake>) -> Problem {
    let first = mistakes.first().map(|m| m.detail.clone()).unwrap_or_default();
    let mut problem = Problem::new(StatusCode::UNPROCESSABLE_ENTITY, first);
    problem.errors =
        mistakes.into_iter().map(|m| FieldFault { pointer: m.pointer, detail: m.detail }).collect();
    problem
}

/// Lists the documents by name, without their contents. An agent sees its own, and what the operator trusts.
#[utoipa::path(get, path = "/v1/documents", tag = TAG, params(DocumentParams, PageParams),
    responses((status = 200, body = Page<DocumentView>), Problems))]
pub async fn list(
    State(hive): State<Arc<Hive>>,
    Caller(caller): Caller,
    Params(params): Params<DocumentParams>,
    Params(page): Params<PageParams>,
) -> Answer<Json<Page<DocumentView>>> {
    let DocumentParams { tag, include_disabled } = params;
    let documents = work::read(hive.documents(caller.as_ref(), tag, include_disabled)).await??;
    page.cut(documents, Order::Key, |d| &d.name).map(Json)
}

/// Makes a document. An agent's is pending until the operator approves it; the operator's is also written to the hive's
/// first skill folder. With an `Idempotency-Key` a repeat within 24 h makes nothing more.
#[utoipa::path(post, path = "/v1/documents", tag = TAG, request_body = NewDocument,
    params(("Idempotency-Key" = Option<String>, Header)),
    responses(
        (status = 201, body = DocumentView, headers(("ETag" = String, description = "Its version"))),
        (status = 409, description = "There is a skill of that name", body = Problem,
            content_type = "application/problem+json"),
        Problems))]
pub async fn create(
    State(hive): State<Arc<Hive>>,
    Caller(caller): Caller,
    key: Key,
    RawJson(body): RawJson,
) -> Answer<Response> {
    let (key, body) = (key.of(caller.as_ref(), &body)?, parse::<Value>(&body)?);
    let Call::Create(new) = document::parse(Tool::CreateSkill, &body).map_err(refused)? else {
        return Err(Problem::invalid("", "this is no new document"));
    };
    let made = work::write(async move { hive.create_document(caller.as_ref(), new, key).await }).await?;
    Ok(tagged(StatusCode::CREATED, made))
}

/// Shows a document with its content.
#[utoipa::path(get, path = "/v1/documents/{name}", tag = TAG, params(("name" = String, Path)),
    responses((status = 200, body = DocumentView, headers(("ETag" = String, description = "Its version"))), Problems))]
pub async fn show(
    State(hive): State<Arc<Hive>>,
    Caller(caller): Caller,
    Name(slug): Name<SkillId>,
) -> Answer<Response> {
    let document = work::read(hive.document(caller.as_ref(), &slug)).await??;
    Ok(tagged(StatusCode::OK, document))
}

/// Changes a document as `update_skill` does, all or nothing; an agent its own alone. With `If-Match` only the version
/// that it names. With an `Idempotency-Key` a repeat within 24 h changes nothing more.
#[utoipa::path(patch, path = "/v1/documents/{name}", tag = TAG, request_body = DocumentEdit,
    params(("name" = String, Path), ("If-Match" = Option<String>, Header, example = "\"3\""),
        ("Idempotency-Key" = Option<String>, Header)),
    responses(
        (status = 200, body = DocumentView, headers(("ETag" = String, description = "Its version"))),
        (status = 412, description = "It has another version by now", body = Problem,
            content_type = "application/problem+json"),
        Problems))]
pub async fn update(
    State(hive): State<Arc<Hive>>,
    Caller(caller): Caller,
    Name(slug): Name<SkillId>,
    IfMatch(seen): IfMatch,
    key: Key,
    RawJson(body): RawJson,
) -> Answer<Response> {
    let (key, body) = (key.of(caller.as_ref(), &body)?, parse::<Value>(&body)?);
    let edit = document::patch(&slug, &body).map_err(refused)?;
    let edited =
        work::write(async move { hive.update_document(caller.as_ref(), &slug, &edit, seen, key).await });
    Ok(tagged(StatusCode::OK, edited.await?))
}

/// Deletes a document; an agent its own alone. One that is not there is answered `{"deleted": false}`.
#[utoipa::path(delete, path = "/v1/documents/{name}", tag = TAG,
    params(("name" = String, Path), ("If-Match" = Option<String>, Header, example = "\"3\""),
        ("Idempotency-Key" = Option<String>, Header)),
    responses(
        (status = 200, body = Deleted),
        (status = 409, description = "It is in use: `errors` names each agent and skill", body = Problem,
            content_type = "application/problem+json"),
        (status = 412, description = "It has another version by now", body = Problem,
            content_type = "application/problem+json"),
        Problems))]
pub async fn remove(
    State(hive): State<Arc<Hive>>,
    Caller(caller): Caller,
    Name(slug): Name<SkillId>,
    IfMatch(seen): IfMatch,
) -> Answer<Json<Deleted>> {
    let deleted = work::write(async move { hive.delete_document(caller.as_ref(), &slug, seen).await });
    Ok(Json(deleted.await?))
}

/// Enables a document: it is listed, and resolved anew. Its version stays.
#[utoipa::path(post, path = "/v1/documents/{name}/enable", tag = TAG,
    params(("name" = String, Path), ("Idempotency-Key" = Option<String>, Header)),
    responses((status = 200, body = Enabled), Problems))]
pub async fn enable(
    State(hive): State<Arc<Hive>>,
    Caller(caller): Caller,
    Name(slug): Name<SkillId>,
) -> Answer<Json<Enabled>> {
    set_enabled(hive, caller, slug, true).await
}

/// Disables a document: it is neither listed nor resolved anew. Its version stays.
#[utoipa::path(post, path = "/v1/documents/{name}/disable", tag = TAG,
    params(("name" = String, Path), ("Idempotency-Key" = Option<String>, Header)),
    responses((status = 200, body = Enabled), Problems))]
pub async fn disable(
    State(hive): State<Arc<Hive>>,
    Caller(caller): Caller,
    Name(slug): Name<SkillId>,
) -> Answer<Json<Enabled>> {
    set_enabled(hive, caller, slug, false).await
}

async fn set_enabled(
    hive: Arc<Hive>,
    caller: Option<crate::ids::AgentId>,
    slug: SkillId,
    enabled: bool,
) -> Answer<Json<Enabled>> {
    let set = work::write(async move { hive.set_document_enabled(caller.as_ref(), &slug, enabled).await });
    Ok(Json(set.await?))
}

/// Lists the document tools with the JSON Schemas of their parameters.
#[utoipa::path(get, path = "/v1/document-tools", tag = TAG,
    responses((status = 200, body = Object, description = "`{items: [{name, description, parameters}], next: null}`"),
        Problems))]
pub async fn tools() -> Json<Value> {
    let items: Vec<Value> = Tool::ALL
        .iter()
        .map(|tool| json!({ "name": tool.name(), "description": tool.description(), "parameters": tool.parameters() }))
        .collect();
    Json(json!({ "items": items, "next": null }))
}

/// Calls a document tool (`create_skill`, `update_skill`, `delete_skill`, `list_skills`, `read_skill`, `enable_skill`,
/// `disable_skill`, `skill_management`) with its parameters; the answer is the tool's.
#[utoipa::path(post, path = "/v1/document-tools/{tool}", tag = TAG,
    params(("tool" = String, Path, example = "read_skill"), ("Idempotency-Key" = Option<String>, Header)),
    request_body(content = Option<Object>, description = "The parameters; left out: none",
        example = json!({"name": "quarterly-reports"})),
    responses((status = 200, body = Object, example = json!({"name": "quarterly-reports", "version": 1})), Problems))]
pub async fn call(
    State(hive): State<Arc<Hive>>,
    Caller(caller): Caller,
    Name(ToolName(tool)): Name<ToolName>,
    key: Key,
    MaybeBody(args): MaybeBody<Value>,
) -> Answer<Json<Value>> {
    let key = key.of(caller.as_ref(), args.to_string().as_bytes())?;
    let called = work::write(async move { documents::tool(&hive, caller.as_ref(), tool, &args, key).await });
    Ok(Json(called.await?))
}
