//! The table of who may use which route.

use super::{
    client::{Answer, bearer},
    setup::{Open, open},
};

/// Method, path, whether an agent may (for itself), whether it is open without a token.
pub const ROUTES: &[(&str, &str, bool, bool)] = &[
    ("GET", "/v1/agents", false, false),
    ("GET", "/v1/agents/{agent}", true, false),
    ("POST", "/v1/agents/{agent}/start", false, false),
    ("POST", "/v1/agents/{agent}/stop", false, false),
    ("POST", "/v1/agents/{agent}/restart", false, false),
    ("GET", "/v1/agents/{agent}/prompt", true, false),
    ("GET", "/v1/agents/{agent}/logs", true, false),
    ("GET", "/v1/agents/{agent}/soul", false, false),
    ("PUT", "/v1/agents/{agent}/soul", false, false),
    ("POST", "/v1/agents/{agent}/exec", false, false),
    ("GET", "/v1/agents/{agent}/attach", false, false),
    ("GET", "/v1/agents/{agent}/resolve", false, false),
    ("GET", "/v1/skills", true, false),
    ("GET", "/v1/skills/{id}", true, false),
    ("GET", "/v1/documents", true, false),
    ("POST", "/v1/documents", true, false),
    ("GET", "/v1/documents/{name}", true, false),
    ("PATCH", "/v1/documents/{name}", true, false),
    ("DELETE", "/v1/documents/{name}", true, false),
    ("POST", "/v1/documents/{name}/enable", true, false),
    ("POST", "/v1/documents/{name}/disable", true, false),
    ("GET", "/v1/document-tools", true, false),
    ("POST", "/v1/document-tools/{tool}", true, false),
    ("POST", "/v1/resolve", false, false),
    ("POST", "/v1/update", false, false),
    ("GET", "/v1/secrets", false, false),
    ("PUT", "/v1/secrets/{name}", false, false),
    ("DELETE", "/v1/secrets/{name}", false, false),
    ("GET", "/v1/jobs", true, false),
    ("POST", "/v1/jobs", true, false),
    ("GET", "/v1/jobs/{id}", true, false),
    ("PATCH", "/v1/jobs/{id}", true, false),
    ("DELETE", "/v1/jobs/{id}", true, false),
    ("POST", "/v1/jobs/{id}/run", true, false),
    ("POST", "/v1/jobs/{id}/pause", true, false),
    ("POST", "/v1/jobs/{id}/resume", true, false),
    ("GET", "/v1/jobs/{id}/next", true, false),
    ("POST", "/v1/schedules/preview", true, false),
    ("GET", "/v1/runs", true, false),
    ("GET", "/v1/runs/{id}", true, false),
    ("GET", "/v1/runs/{id}/output", true, false),
    ("GET", "/v1/runs/{id}/tools", true, false),
    ("POST", "/v1/runs/{id}/tools/{tool}", true, false),
    ("POST", "/v1/runs/{id}/cancel", false, false),
    ("GET", "/v1/halt", false, false),
    ("POST", "/v1/halt", false, false),
    ("POST", "/v1/resume", false, false),
    ("GET", "/v1/events", false, false),
    ("POST", "/v1/events", false, false),
    ("GET", "/v1/hive", false, false),
    ("GET", "/v1/doctor", false, false),
    ("POST", "/v1/shutdown", false, false),
    ("GET", "/healthz", true, true),
    ("GET", "/readyz", true, true),
    ("GET", "/metrics", false, false),
    ("GET", "/openapi.json", false, false),
    ("GET", "/docs", false, false),
];

pub fn filled(path: &str, agent: &str) -> String {
    let id = if path.starts_with("/v1/skills") { "alpha-tools" } else { "1" };
    // A stream that goes on has no end to wait for.
    let path = if path == "/v1/events" { "/v1/events?follow=false" } else { path };
    path.replace("{agent}", agent)
        .replace("{id}", id)
        .replace("{name}", "NAME")
        .replace("{tool}", "read-file")
}

fn passed(answer: &Answer) -> bool {
    assert!(answer.status < 500 || answer.status == 503, "{answer:?}");
    !matches!(answer.status, 401 | 403)
}

async fn refused(open: &Open, method: &str, path: &str, headers: &[(&str, &str)], status: u16) {
    let answer = open.call_tcp(method, path, headers).await;
    assert_eq!(answer.status, status, "{method} {path} with {headers:?}");
    assert_eq!(answer.json()["status"], status);
    assert_eq!(answer.header("content-type"), "application/problem+json");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_operator_may_use_every_route_on_the_socket_and_on_tcp_with_the_token() {
    let open = open().await;
    for (method, path, _, _) in ROUTES {
        let path = filled(path, "writer");
        assert!(passed(&open.call(method, &path, "").await), "{method} {path}");
        let headers = [("Host", open.host()), ("Authorization", bearer())];
        let headers = headers.each_ref().map(|(n, v)| (*n, v.as_str()));
        assert!(passed(&open.call_tcp(method, &path, &headers).await), "{method} {path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tcp_without_the_token_reaches_health_only() {
    let open = open().await;
    let (host, right) = (open.host(), bearer());
    let wrong = [
        vec![],
        vec![("Authorization", "Bearer wrong")],
        vec![("Authorization", "Bearer ")],
        vec![("Authorization", right.trim_start_matches("Bearer "))],
        vec![("Authorization", "Basic correct-horse-battery-staple")],
        vec![("Authorization", right.as_str()), ("Authorization", "Bearer wrong")],
    ];
    for (method, path, _, free) in ROUTES {
        let path = filled(path, "writer");
        for wrong in &wrong {
            let headers = [vec![("Host", host.as_str())], wrong.clone()].concat();
            if *free {
                assert!(passed(&open.call_tcp(method, &path, &headers).await), "{path}");
            } else {
                refused(&open, method, &path, &headers, 401).await;
            }
        }
    }
    refused(&open, "GET", "/nowhere", &[("Host", &host)], 401).await;
    refused(&open, "GET", "/healthz/../v1/agents", &[("Host", &host)], 401).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_foreign_host_or_origin_is_refused_on_every_route_even_with_the_token() {
    let open = open().await;
    let (host, token) = (open.host(), bearer());
    let (evil, other_port) = (format!("evil.example:{}", open.port), "http://127.0.0.1:1".to_owned());
    for (method, path, _, _) in ROUTES {
        let path = filled(path, "writer");
        for (host, origin) in [
            (evil.as_str(), None),
            ("127.0.0.1:1", None),
            ("evil.example", None),
            (host.as_str(), Some("http://evil.example")),
            (host.as_str(), Some(other_port.as_str())),
            (host.as_str(), Some("null")),
            (host.as_str(), Some("file://")),
        ] {
            let mut headers = vec![("Host", host), ("Authorization", token.as_str())];
            headers.extend(origin.map(|o| ("Origin", o)));
            refused(&open, method, &path, &headers, 403).await;
        }
    }
    refused(&open, "GET", "/healthz", &[("Host", &host), ("Host", &evil)], 400).await;
    refused(&open, "GET", "/healthz", &[], 400).await;
    let absolute = format!("http://{evil}/healthz");
    refused(&open, "GET", &absolute, &[("Host", &host)], 403).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn our_own_names_and_pages_are_let_in() {
    let open = open().await;
    let token = bearer();
    for host in [open.host(), format!("localhost:{}", open.port), "hive.example".to_owned()] {
        let origin = format!("http://{host}");
        let headers =
            [("Host", host.as_str()), ("Authorization", token.as_str()), ("Origin", origin.as_str())];
        assert_eq!(open.call_tcp("GET", "/v1/agents", &headers).await.status, 200, "{host}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_reads_what_is_its_own_and_nothing_else() {
    let open = open().await;
    for (method, path, own, _) in ROUTES {
        let answer = open.call_as_agent(method, &filled(path, "writer"), "").await;
        assert_eq!(passed(&answer), *own, "{method} {path}: {answer:?}");
        if path.contains("{agent}") {
            for other in ["reader", "nobody", "Writer", "%77riter%00", "%ff"] {
                let answer = open.call_as_agent(method, &filled(path, other), "").await;
                assert_eq!(answer.status, 403, "{method} {path} of {other}: {answer:?}");
            }
        }
        if *own {
            let tabled = |method| ROUTES.iter().any(|r| r.0 == method && r.1 == *path && r.2);
            for method in ["POST", "PUT", "PATCH", "DELETE"].into_iter().filter(|m| !tabled(*m)) {
                let answer = open.call_as_agent(method, &filled(path, "writer"), "").await;
                assert_eq!(answer.status, 403, "{method} {path}: {answer:?}");
            }
        }
    }
    let answer = open.call_as_agent("GET", "/v1/halt", "").await;
    assert_eq!((answer.status, answer.json()["title"].as_str()), (403, Some("Forbidden")));
}
