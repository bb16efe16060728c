//! `/openapi.json`, generated from the handlers, and `/docs`, a page of it that needs no script.

use std::sync::LazyLock;

use axum::{
    http::header,
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use serde_json::{Map, Value};
use utoipa::openapi::{
    OpenApi, SecurityRequirement,
    security::{HttpAuthScheme, HttpBuilder, SecurityScheme},
};

use super::problem::{Problem, Problems};

struct Documents {
    json: Bytes,
    html: Bytes,
}

/// The same for every door; made when first asked for.
static DOCUMENTS: LazyLock<Documents> = LazyLock::new(|| {
    let api = describe(super::routes().into_openapi());
    let value = serde_json::to_value(&api).unwrap_or_default();
    Documents { json: value.to_string().into(), html: page(&value).into() }
});

/// The description of this API (OpenAPI 3.1).
#[utoipa::path(get, path = "/openapi.json", tag = "description",
    responses((status = 200, body = Object, content_type = "application/json"), Problems))]
pub async fn openapi() -> Response {
    ([(header::CONTENT_TYPE, "application/json")], DOCUMENTS.json.clone()).into_response()
}

/// This description as a page.
#[utoipa::path(get, path = "/docs", tag = "description",
    responses((status = 200, body = String, content_type = "text/html"), Problems))]
pub async fn docs() -> Response {
    let policy = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'";
    let headers =
        [(header::CONTENT_TYPE, "text/html; charset=utf-8"), (header::CONTENT_SECURITY_POLICY, policy)];
    (headers, DOCUMENTS.html.clone()).into_response()
}

fn describe(mut api: OpenApi) -> OpenApi {
    // The router's way of writing that a parameter may hold slashes.
    let paths = std::mem::take(&mut api.paths.paths);
    api.paths.paths = paths.into_iter().map(|(path, item)| (path.replace("{*", "{"), item)).collect();
    api.info.title = "skep".into();
    api.info.version = env!("CARGO_PKG_VERSION").into();
    api.info.description = Some(
        "On the hive's unix socket no token is needed; on TCP the bearer token of `.skep/token`. Errors are \
         `application/problem+json` (below `/api/v1/`, as ClawHub's clients expect, `text/plain`). Writes accept `Idempotency-Key`: for new jobs, runs, events and skills, and for \
         documents and their changes, the answer is kept for 24 hours, and a repeat does nothing more; all others but \
         `exec` and `rollback` may be repeated without harm, so their keys are not kept."
            .into(),
    );
    let components = api.components.get_or_insert_default();
    components.schemas.insert("Problem".into(), <Problem as utoipa::PartialSchema>::schema());
    let mut more = Vec::new();
    <Problem as utoipa::ToSchema>::schemas(&mut more);
    components.schemas.extend(more);
    let token = SecurityScheme::Http(HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build());
    components.add_security_scheme("token", token);
    api.security = Some(vec![SecurityRequirement::new("token", [""; 0])]);
    api
}

const STYLE: &str = "body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;\
    color:#222;background:#fff}h3{margin:2rem 0 .3rem}code,pre{font:14px/1.4 ui-monospace,monospace}\
    pre{background:#f4f4f4;padding:.7rem;overflow:auto}b{display:inline-block;min-width:4rem}\
    td,th{text-align:left;padding:.1rem 1rem .1rem 0;vertical-align:top}\
    @media(prefers-color-scheme:dark){body{color:#ddd;background:#181818}pre{background:#242424}a{color:#8bf}}";

fn page(api: &Value) -> String {
    let mut out = format!(
        "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content=\"width=device-width\">\
         <title>skep API</title><style>{STYLE}</style><h1>skep {}</h1><p>{}</p><h2>Routes</h2>",
        escape(&text(&api["info"]["version"])),
        escape(&text(&api["info"]["description"])),
    );
    for (path, item) in entries(&api["paths"]) {
        for (method, operation) in entries(item) {
            route(&mut out, path, method, operation);
        }
    }
    out.push_str("<h2>Schemas</h2>");
    for (name, schema) in entries(&api["components"]["schemas"]) {
        let shown = serde_json::to_string_pretty(schema).unwrap_or_default();
        out.push_str(&format!("<h3 id=\"{0}\">{0}</h3><pre>{1}</pre>", escape(name), escape(&shown)));
    }
    out.push_str("</html>\n");
    out
}

fn route(out: &mut String, path: &str, method: &str, operation: &Value) {
    out.push_str(&format!(
        "<h3><code><b>{}</b>{}</code></h3><p>{} {}</p><table>",
        escape(&method.to_uppercase()),
        escape(path),
        escape(&text(&operation["summary"])),
        escape(&text(&operation["description"])),
    ));
    for parameter in operation["parameters"].as_array().into_iter().flatten() {
        let place = format!("{} ({})", text(&parameter["name"]), text(&parameter["in"]));
        row(out, &place, &escape(&text(&parameter["description"])));
    }
    for (kind, content) in entries(&operation["requestBody"]["content"]) {
        row(out, "body", &format!("{} {}", escape(kind), shape(&content["schema"])));
    }
    for (status, response) in entries(&operation["responses"]) {
        let shapes =
            entries(&response["content"]).map(|(k, c)| format!("{} {}", escape(k), shape(&c["schema"])));
        let shapes: Vec<String> = shapes.collect();
        row(out, status, &format!("{} {}", escape(&text(&response["description"])), shapes.join(", ")));
    }
    out.push_str("</table>");
}

fn row(out: &mut String, head: &str, cell: &str) {
    out.push_str(&format!("<tr><th>{}<td>{cell}", escape(head)));
}

fn shape(schema: &Value) -> String {
    let reference = text(&schema["$ref"]);
    match reference.rsplit_once('/') {
        Some((_, name)) => format!("<a href=\"#{0}\">{0}</a>", escape(name)),
        None => escape(&text(&schema["type"])),
    }
}

fn entries(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flat_map(Map::iter)
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
