//! Who calls, and what they may do: the operator everything, an agent what the list here names.
//!
//! What is not listed is forbidden to agents, also routes that do not exist.

use axum::{
    extract::{FromRequestParts, MatchedPath, RawPathParams, Request, rejection::RawPathParamsRejection},
    http::{Method, StatusCode, request::Parts},
    middleware::Next,
    response::{IntoResponse, Response},
};

use super::problem::Problem;
use crate::ids::AgentId;

/// On whose behalf a request comes; put into its extensions by the door that it came through.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Access {
    /// The operator's socket, or TCP with the token.
    Operator,
    /// This agent's door.
    Agent(AgentId),
}

/// What an agent may read (contract.md 5, last paragraph). In paths with `{agent}`: only itself.
const AGENT_READS: &[&str] = &[
    "/healthz",
    "/readyz",
    "/v1/skills",
    "/v1/skills/{id}",
    "/v1/documents",
    "/v1/documents/{name}",
    "/v1/document-tools",
    "/v1/skills/{id}/diff",
    "/v1/skills/{id}/versions/{version}",
    "/v1/skills/{id}/versions/{version}/archive",
    "/v1/skills/{id}/versions/{version}/files/{*path}",
    "/v1/agents/{agent}",
    "/v1/agents/{agent}/prompt",
    "/v1/agents/{agent}/logs",
    "/v1/jobs",
    "/v1/jobs/{id}",
    "/v1/jobs/{id}/next",
    "/v1/runs",
    "/v1/runs/{id}",
    "/v1/runs/{id}/output",
    "/v1/runs/{id}/tools",
    "/v1/tools",
    "/mcp",
    "/v1/tasks",
    "/v1/tasks/{id}",
    "/v1/facts",
    "/v1/agents/{agent}/tools",
    "/v1/agents/{agent}/mail",
    "/v1/mail/{id}",
    "/v1/mail/{id}/attachments/{name}",
    "/api/v1/search",
    "/api/v1/skills",
    "/api/v1/skills/{slug}",
    "/api/v1/skills/{slug}/versions",
    "/api/v1/skills/{slug}/versions/{version}",
    "/api/v1/skills/{slug}/file",
    "/api/v1/resolve",
    "/api/v1/download",
    "/api/v1/whoami",
    "/.well-known/clawhub.json",
    "/.well-known/agent-skills/index.json",
    "/.well-known/agent-skills/{id}/{version}/SKILL.md",
    "/.well-known/agent-skills/{id}/{version}/skill.zip",
];

/// What an agent may do beside reading. Whose the thing is, the use case decides.
const AGENT_DOES: &[(Method, &str)] = &[
    (Method::POST, "/v1/documents"),
    (Method::PATCH, "/v1/documents/{name}"),
    (Method::DELETE, "/v1/documents/{name}"),
    (Method::POST, "/v1/documents/{name}/enable"),
    (Method::POST, "/v1/documents/{name}/disable"),
    (Method::POST, "/v1/document-tools/{tool}"),
    (Method::POST, "/v1/skills"),
    (Method::DELETE, "/v1/skills/{id}"),
    (Method::POST, "/v1/skills/{id}/versions"),
    (Method::POST, "/v1/skills/{id}/versions/{version}/yank"),
    (Method::POST, "/v1/skills/{id}/versions/{version}/deprecate"),
    (Method::POST, "/v1/jobs"),
    (Method::PATCH, "/v1/jobs/{id}"),
    (Method::DELETE, "/v1/jobs/{id}"),
    (Method::POST, "/v1/jobs/{id}/run"),
    (Method::POST, "/v1/jobs/{id}/pause"),
    (Method::POST, "/v1/jobs/{id}/resume"),
    (Method::POST, "/v1/schedules/preview"),
    (Method::POST, "/v1/runs/{id}/tools/{tool}"),
    (Method::POST, "/v1/runs/{id}/act"),
    (Method::POST, "/v1/runs/{id}/mcp"),
    (Method::POST, "/mcp"),
    (Method::DELETE, "/mcp"),
    (Method::POST, "/v1/agents/{agent}/tools/{tool}"),
    (Method::POST, "/v1/tasks"),
    (Method::POST, "/v1/tasks/{id}/cancel"),
    (Method::POST, "/v1/mail"),
];

/// Who calls, for use cases: an agent, or as none the operator.
pub struct Caller(pub Option<AgentId>);

impl<S: Send + Sync> FromRequestParts<S> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        match parts.extensions.get() {
            Some(Access::Operator) => Ok(Self(None)),
            Some(Access::Agent(agent)) => Ok(Self(Some(agent.clone()))),
            None => Err(Problem::forbidden("nobody vouches for this request")),
        }
    }
}

impl Access {
    /// Whether the caller may use a route.
    ///
    /// # Errors
    /// 403 that says what is forbidden.
    pub fn check(&self, method: &Method, route: Option<&str>, agent: Option<&str>) -> Result<(), Problem> {
        let Self::Agent(caller) = self else { return Ok(()) };
        if route.is_some_and(|r| r.contains("{agent}")) && agent != Some(caller.as_str()) {
            return Err(Problem::forbidden(format!("agent {caller} may not reach another agent's things")));
        }
        let reads = matches!(*method, Method::GET | Method::HEAD);
        if reads && route.is_some_and(|r| AGENT_READS.contains(&r)) {
            return Ok(());
        }
        if AGENT_DOES.iter().any(|(m, r)| m == method && Some(*r) == route) {
            return Ok(());
        }
        Err(Problem::forbidden(format!("agent {caller} may not do this; it is the operator's")))
    }
}

/// Lets through what the caller may do. A request of nobody is refused.
pub async fn enforce(
    path: Option<MatchedPath>,
    params: Result<RawPathParams, RawPathParamsRejection>,
    request: Request,
    next: Next,
) -> Response {
    let Some(access) = request.extensions().get::<Access>().cloned() else {
        return Problem::forbidden("nobody vouches for this request").into_response();
    };
    let agent = params.iter().flatten().find(|(name, _)| *name == "agent").map(|(_, value)| value);
    if let Err(problem) = access.check(request.method(), path.as_ref().map(MatchedPath::as_str), agent) {
        return problem.into_response();
    }
    let response = next.run(request).await;
    // What went wrong inside is the operator's to know: it may name paths of the host.
    if access != Access::Operator && response.status() == StatusCode::INTERNAL_SERVER_ERROR {
        return Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "the supervisor failed; its log tells why")
            .into_response();
    }
    response
}
