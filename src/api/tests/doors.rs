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
    ("POST", "/v1/skills", true, false),
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
    ("DELETE", "/v1/skills/{id}", true, false),
    ("GET", "/v1/skills/{id}/diff", true, false),
    ("GET", "/v1/skills/{id}/versions/{version}/review", false, false),
    ("POST", "/v1/skills/{id}/enable", false, false),
    ("POST", "/v1/skills/{id}/disable", false, false),
    ("POST", "/v1/skills/{id}/versions", true, false),
    ("GET", "/v1/skills/{id}/versions/{version}", true, false),
    ("GET", "/v1/skills/{id}/versions/{version}/archive", true, false),
    ("GET", "/v1/skills/{id}/versions/{version}/files/{path}", true, false),
    ("POST", "/v1/skills/{id}/versions/{version}/yank", true, false),
    ("POST", "/v1/skills/{id}/versions/{version}/unyank", false, false),
    ("POST", "/v1/skills/{id}/versions/{version}/deprecate", true, false),
    ("POST", "/v1/skills/{id}/versions/{version}/approve", false, false),
    ("POST", "/v1/skills/{id}/versions/{version}/reject", false, false),
    ("POST", "/v1/agents/{agent}/rollback", false, false),
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
    ("POST", "/v1/runs/{id}/act", true, false),
    ("POST", "/v1/runs/{id}/mcp", true, false),
    ("POST", "/mcp", true, false),
    ("GET", "/mcp", true, false),
    ("DELETE", "/mcp", true, false),
    ("GET", "/v1/tools", true, false),
    ("GET", "/v1/agents/{agent}/tools", true, false),
    ("POST", "/v1/agents/{agent}/tools/{tool}", true, false),
    ("POST", "/v1/tasks", true, false),
    ("GET", "/v1/tasks", true, false),
    ("GET", "/v1/tasks/{id}", true, false),
    ("POST", "/v1/tasks/{id}/cancel", true, false),
    ("GET", "/v1/facts", true, false),
    ("GET", "/v1/agents/{agent}/mail", true, false),
    ("POST", "/v1/mail", true, false),
    ("GET", "/v1/mail/{id}", true, false),
    ("GET", "/v1/mail/{id}/attachments/{name}", true, false),
    ("POST", "/v1/mail/{id}/release", false, false),
    ("POST", "/v1/runs/{id}/cancel", false, false),
    ("GET", "/v1/halt", false, false),
    ("POST", "/v1/halt", false, false),
    ("POST", "/v1/resume", false, false),
    ("GET", "/v1/events", false, false),
    ("POST", "/v1/events", false, false),
    ("GET", "/v1/hive", false, false),
    ("GET", "/v1/doctor", false, false),
    ("POST", "/v1/backup", false, false),
    ("POST", "/v1/shutdown", false, false),
    ("GET", "/api/v1/search", true, false),
    ("GET", "/api/v1/skills", true, false),
    ("GET", "/api/v1/skills/{slug}", true, false),
    ("GET", "/api/v1/skills/{slug}/versions", true, false),
    ("GET", "/api/v1/skills/{slug}/versions/{version}", true, false),
    ("GET", "/api/v1/skills/{slug}/file", true, false),
    ("GET", "/api/v1/resolve", true, false),
    ("GET", "/api/v1/download", true, false),
    ("GET", "/api/v1/whoami", true, false),
    ("GET", "/.well-known/clawhub.json", true, false),
    ("GET", "/.well-known/agent-skills/index.json", true, false),
    ("GET", "/.well-known/agent-skills/{id}/{version}/SKILL.md", true, false),
    ("GET", "/.well-known/agent-skills/{id}/{version}/skill.zip", true, false),
    ("GET", "/healthz", true, true),
    ("GET", "/readyz", true, true),
    ("GET", "/metrics", false, false),
    ("GET", "/openapi.json", false, false),
    ("GET", "/docs", false, false),
];

pub fn filled(path: &str, agent: &str) -> String {
    let of_a_skill = path.starts_with("/v1/skills") || path.starts_with("/.well-known/");
    let id = if of_a_skill { "alpha-tools" } else { "1" };
    // A stream that goes on has no end to wait for.
    let path = if path == "/v1/events" { "/v1/events?follow=false" } else { path };
    path.replace("{agent}", agent)
        .replace("{id}", id)
        .replace("{slug}", "alpha-tools")
        .replace("{name}", "NAME")
        .replace("{version}", "0.0.0")
        .replace("{path}", "SKILL.md")
        .replace("{tool}", "read-file")
}

fn passed(answer: &Answer) -> bool {
    assert!(answer.status < 500 || answer.status == 503, "{answer:?}");
    !matches!(answer.status, 401 | 403)
}

async fn refused(open: &Open, method: &str, path: &str, headers: &[(&str, &str)], status: u16) {
    let answer = open.call_tcp(method, path, headers).await;
    assert_eq!(answer.status, status, "{method} {path} with {headers:?}");
    // What speaks as ClawHub does refuses as ClawHub does.
    if path.starts_with("/api/v1/") {
        assert_eq!(answer.header("content-type"), "text/plain; charset=utf-8");
        assert!(!answer.body.is_empty() && !answer.body.contains('{'), "{answer:?}");
        return;
    }
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
        // Of skills it may change its own.
        let others = answer.body.contains("the skill alpha-tools belongs to operator");
        assert_eq!(passed(&answer) || others, *own, "{method} {path}: {answer:?}");
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

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_calls_too_often_is_asked_to_wait_and_nobody_else_is() {
    let config = "[hive]\nname = 'demo'\n[api]\nagent_requests_per_second = 1\n[agents.writer]\n";
    let open = crate::api::tests::setup::open_with(config).await;
    let mut refused = None;
    for _ in 0..20 {
        let answer = open.call_as_agent("GET", "/v1/agents/writer", "").await;
        if answer.status == 429 {
            refused = Some(answer);
        }
        assert_eq!(open.call("GET", "/v1/agents/writer", "").await.status, 200);
    }
    let refused = refused.expect("twenty at once are more than four");
    assert_eq!((refused.header("retry-after"), refused.json()["status"].as_u64()), ("1", Some(429)));
    assert_eq!(refused.header("content-type"), "application/problem+json");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_doctor_tells_of_targets_without_a_secret_and_of_notices_that_nobody_got() {
    use crate::{
        db,
        notify::message::{About, Notice},
        runs::state::RunStatus,
    };
    let config = "[hive]\nname = 'demo'\n[agents.writer]\n[[notify.telegram]]\nname = 'chat'\nchat_id = '1'\n\
                  token = 'NOT_SET'\n[[notify.webhook]]\nname = 'ops'\nurl = 'https://ops.example/x'\n";
    let open = crate::api::tests::setup::open_with(config).await;
    let told = async || {
        let findings = open.call("GET", "/v1/doctor", "").await.json();
        let of = |f: &&serde_json::Value| f["check"] == "notify";
        let items = findings["items"].as_array().unwrap().clone();
        items.iter().filter(of).map(|f| f["message"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let before = told().await;
    assert!(before.len() == 1 && before[0].contains("chat: the secret NOT_SET is not set"), "{before:?}");
    let now = open.hive.now();
    let lost = move |tx: &db::Tx<'_>| {
        let about = About { hive: "demo".into(), agent: "writer".into(), job: None };
        let notice = Notice::of_run(about, 1, RunStatus::Failed, None, None, now);
        db::outbox::enqueue_all(tx, &["ops"], &notice, now)?;
        let row = db::outbox::heads(tx, &[], 1)?.remove(0);
        db::outbox::given_up(tx, &row, "ops.example answered 410", now)
    };
    open.hive.db.write(lost).await.unwrap();
    let after = told().await;
    assert_eq!(after.len(), 2, "{after:?}");
    assert!(after[1].ends_with("the last one to ops: ops.example answered 410"), "{after:?}");
}
