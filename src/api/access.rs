//! Who calls, and what they may do: the operator everything, an agent what the lists here name, and a process of an
//! agent-tier run what its run may (systems.md A13).
//!
//! What is not listed is forbidden to them, also routes that do not exist.

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
    /// The same, and a process of this agent-tier run.
    Run {
        /// Whose door.
        agent: AgentId,
        /// The run that it is held to.
        run: i64,
    },
    /// This agent's door, while an agent-tier run goes on, and nobody can tell whether the caller belongs to it.
    Unknown(AgentId),
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

/// What the processes of an agent-tier run may: with `{id}`, of their own run. At `/mcp` they find what is at its own
/// endpoint.
const RUN_MAY: &[(Method, &str)] = &[
    (Method::GET, "/healthz"),
    (Method::GET, "/readyz"),
    (Method::GET, "/v1/runs/{id}"),
    (Method::GET, "/v1/runs/{id}/output"),
    (Method::GET, "/v1/runs/{id}/tools"),
    (Method::POST, "/v1/runs/{id}/tools/{tool}"),
    (Method::POST, "/v1/runs/{id}/mcp"),
    (Method::POST, "/mcp"),
];

/// Who calls, for use cases: an agent, or as none the operator.
pub struct Caller(pub Option<AgentId>);

impl<S: Send + Sync> FromRequestParts<S> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        match parts.extensions.get::<Access>() {
            Some(access) => Ok(Self(access.agent().cloned())),
            None => Err(Problem::forbidden("nobody vouches for this request")),
        }
    }
}

impl Access {
    /// Whose door it is; none: the operator's.
    pub fn agent(&self) -> Option<&AgentId> {
        match self {
            Self::Operator => None,
            Self::Agent(agent) | Self::Run { agent, .. } | Self::Unknown(agent) => Some(agent),
        }
    }

    /// Whether the caller may use a route with these values of its parameters.
    ///
    /// # Errors
    /// 403 that says what is forbidden.
    pub fn check(
        &self,
        method: &Method,
        route: Option<&str>,
        value: impl Fn(&str) -> Option<String>,
    ) -> Result<(), Problem> {
        let caller = match self {
            Self::Operator => return Ok(()),
            Self::Agent(caller) => caller,
            Self::Run { run, .. } => return held(*run, method, route, value("id").as_deref()),
            Self::Unknown(agent) => {
                return Err(Problem::forbidden(format!(
                    "an agent-tier run of agent {agent} goes on, and nobody can tell whether this connection is of it: \
                     connect again, from a process that lives on until it is answered"
                )));
            }
        };
        if route.is_some_and(|r| r.contains("{agent}")) && value("agent").as_deref() != Some(caller.as_str())
        {
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

fn held(run: i64, method: &Method, route: Option<&str>, id: Option<&str>) -> Result<(), Problem> {
    // HEAD as GET, as everywhere.
    let method = if *method == Method::HEAD { &Method::GET } else { method };
    let listed = RUN_MAY.iter().any(|(m, r)| m == method && Some(*r) == route);
    if listed && id.is_none_or(|id| id == run.to_string()) {
        return Ok(());
    }
    Err(Problem::forbidden(format!(
        "this process belongs to run {run}, which is held to the `required_tools` and `max_steps` of its job: name what it \
         needs there, and call it with `skep run TOOL`, /v1/runs/{run}/tools/{{tool}} or /v1/runs/{run}/mcp"
    )))
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
    let value = |wanted: &str| {
        let mut values = params.iter().flatten();
        values.find(|(name, _)| *name == wanted).map(|(_, value)| value.to_owned())
    };
    if let Err(problem) = access.check(request.method(), path.as_ref().map(MatchedPath::as_str), value) {
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
