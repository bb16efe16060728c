//! `/openapi.json` tells of exactly the routes that exist, and `/docs` shows it.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{
    doors::{ROUTES, filled},
    setup::{JOBS, open, open_with},
};

#[tokio::test(flavor = "multi_thread")]
async fn the_description_lists_exactly_the_routes_that_exist() {
    let open = open().await;
    let api = open.call("GET", "/openapi.json", "").await.json();
    let mut described = BTreeSet::new();
    for (path, item) in api["paths"].as_object().unwrap() {
        for method in item.as_object().unwrap().keys() {
            let method = method.to_uppercase();
            let answer = open.call(&method, &filled(path, "writer"), "").await;
            let missing = answer.status == 405 || answer.body.contains("there is no route");
            assert!(!missing, "{method} {path}: {answer:?}");
            described.insert((method, path.clone()));
        }
    }
    let tabled: BTreeSet<_> = ROUTES.iter().map(|r| (r.0.to_owned(), r.1.to_owned())).collect();
    assert_eq!(described, tabled, "the table of doors.rs has every route");
    let registered = include_str!("../mod.rs");
    assert!(!registered.contains(".route(") && !registered.contains(".nest"), "routes! only");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_description_refers_to_nothing_that_it_does_not_hold() {
    let open = open().await;
    let api = open.call("GET", "/openapi.json", "").await.json();
    assert!(api["openapi"].as_str().unwrap().starts_with("3.1"));
    let mut references = Vec::new();
    collect(&api, &mut references);
    assert!(references.len() > 30);
    for reference in references {
        let pointer = reference.strip_prefix('#').unwrap();
        assert!(api.pointer(pointer).is_some(), "{reference}");
    }
    for path in ["/healthz", "/readyz"] {
        assert_eq!(api["paths"][path]["get"]["security"], serde_json::json!([{}]), "{path} is open");
    }
    assert_eq!(api["security"], serde_json::json!([{"token": []}]));
}

fn collect(value: &Value, into: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            into.extend(map.get("$ref").and_then(Value::as_str).map(ToOwned::to_owned));
            map.values().for_each(|v| collect(v, into));
        }
        Value::Array(items) => items.iter().for_each(|v| collect(v, into)),
        _ => {}
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_shows_every_route_and_loads_nothing() {
    let open = open().await;
    let page = open.call("GET", "/docs", "").await;
    assert_eq!(page.header("content-type"), "text/html; charset=utf-8");
    for (method, path, _, _) in ROUTES {
        assert!(page.body.contains(&format!("<b>{method}</b>{path}")), "{method} {path}");
    }
    for loads in ["<script", "src=", "http://", "https://", "@import", "<link"] {
        assert!(!page.body.contains(loads), "{loads}");
    }
}

/// The example of a body: its own, or its schema's.
fn example<'a>(api: &'a Value, content: &'a Value) -> Option<&'a Value> {
    let schema = &content["schema"];
    // An optional body is null or the schema.
    let one = schema["oneOf"].as_array().and_then(|all| all.iter().find(|s| s["$ref"].is_string()));
    let reference = one.unwrap_or(schema)["$ref"].as_str().and_then(|r| r.strip_prefix('#'));
    let schema = reference.map_or(Some(schema), |pointer| api.pointer(pointer))?;
    content.get("example").or_else(|| schema.get("example"))
}

#[tokio::test(flavor = "multi_thread")]
async fn every_body_has_an_example_and_every_example_is_taken() {
    let open = open_with(JOBS).await;
    let api = open.call("GET", "/openapi.json", "").await.json();
    let (mut sent, mut faults) = (0, Vec::new());
    // Shutting down comes last.
    let mut paths: Vec<_> = api["paths"].as_object().unwrap().iter().collect();
    paths.sort_by_key(|(path, _)| path.as_str() == "/v1/shutdown");
    for (path, item) in paths {
        for (method, operation) in item.as_object().unwrap() {
            let content = operation["requestBody"]["content"].as_object().into_iter().flatten();
            for (kind, content) in content.filter(|(kind, _)| kind.contains("json") || kind.contains("text"))
            {
                let example = example(&api, content);
                let example = example.unwrap_or_else(|| panic!("{method} {path} {kind} has no example"));
                let body = example.as_str().map_or_else(|| example.to_string(), str::to_owned);
                let path = path.replace("/v1/documents/{name}", "/v1/documents/quarterly-reports");
                let path = path.replace("/document-tools/{tool}", "/document-tools/read_skill");
                let path = filled(&path, "writer");
                let headers = [("Content-Type", kind.as_str())];
                let answer = open.call_with(&method.to_uppercase(), &path, &headers, &body).await;
                // What is named in it need not be there; what it says must be understood.
                let folder = *example == json!({"path": "skills/note-taking"});
                if !folder && matches!(answer.status, 400 | 415 | 422 | 500) {
                    faults.push(format!("{method} {path}: {} {}", answer.status, answer.body));
                }
                sent += 1;
            }
        }
    }
    assert!(faults.is_empty() && sent > 20, "{sent} {faults:#?}");
}
