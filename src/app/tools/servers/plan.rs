//! How a server is started, as an agent was prepared: command, environment, place; or address and headers.

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use zeroize::Zeroizing;

use crate::{
    app::tools::desk::ServerKey,
    config::model::Network,
    ids::Digest,
    mcp::{Remote, Rules},
    registry::index::Trust,
    skill::{
        model::{McpServer, McpTransport},
        vars::expand,
    },
    supervisor::prepare::{Preparation, PreparedSkill},
    wire::Environment,
};

/// Handshake and idleness of a remote server, for which nobody says them (systems.md C5).
const STARTUP: Duration = Duration::from_secs(30);
const IDLE: Duration = Duration::from_secs(300);

/// All that a server is started from.
pub(super) struct Plan {
    pub(super) key: ServerKey,
    /// Content of its skill.
    pub(super) digest: Digest,
    pub(super) way: Way,
    /// For the handshake, and for the list of its tools.
    pub(super) startup: Duration,
    pub(super) idle: Duration,
    /// Of all of this: with another hash it is another process.
    pub(super) hash: u64,
}

/// How it is reached.
pub(super) enum Way {
    /// Started in the agent's container.
    Local { argv: Vec<String>, env: Environment, cwd: String },
    /// Over HTTP.
    Remote { url: String, headers: Vec<(String, Zeroizing<String>)>, network: Network },
}

impl Way {
    /// The connection to a remote one, which trusts the certificates in this file too; none: it is local.
    pub(super) fn remote(&self, bundle: Option<PathBuf>) -> Option<Result<Remote, String>> {
        let Self::Remote { url, headers, network } = self else { return None };
        let rules = match network {
            Network::Internet => Rules { public: true, allow: Arc::from([]) },
            Network::None => {
                return Some(Err(
                    "the agent has no network, so a remote server cannot be reached: set its `network`"
                        .to_owned(),
                ));
            }
        };
        Some(Ok(Remote { url: url.clone(), headers: headers.clone(), rules, bundle }))
    }
}

/// The plans for all servers of an agent's usable skills, or which values they miss.
pub(super) fn all(preparation: &Preparation) -> impl Iterator<Item = Result<Plan, String>> {
    let usable = preparation.skills.iter().filter(|prepared| preparation.usable.has(&prepared.skill.id));
    usable.flat_map(move |prepared| {
        prepared.skill.mcp_servers.iter().map(move |server| of(preparation, prepared, server))
    })
}

/// The plan for one.
///
/// # Errors
/// The agent has no such server, cannot use its skill, or lacks values.
pub(super) fn one(preparation: &Preparation, key: &ServerKey) -> Result<Plan, String> {
    let prepared = preparation.skills.iter().find(|prepared| prepared.skill.id == key.skill);
    let found = prepared.and_then(|prepared| {
        let server = prepared.skill.mcp_servers.iter().find(|server| server.name == key.server)?;
        Some((prepared, server))
    });
    let (prepared, server) = found.ok_or_else(|| {
        format!("agent {} has no MCP server {} of skill {}", key.agent, key.server, key.skill)
    })?;
    if let Some(missing) = preparation.usable.unavailable.get(&key.skill) {
        return Err(format!("skill {} cannot be used: it misses {}", key.skill, missing.join(", ")));
    }
    of(preparation, prepared, server)
}

fn of(preparation: &Preparation, prepared: &PreparedSkill, server: &McpServer) -> Result<Plan, String> {
    let skill = &prepared.skill.id;
    let key =
        ServerKey { agent: preparation.config.id.clone(), skill: skill.clone(), server: server.name.clone() };
    // A version that is not approved gets nothing of the operator's.
    let trusted = matches!(prepared.trust, Trust::Trusted | Trust::Approved);
    let secrets = if trusted { preparation.secret_env.clone() } else { Environment::default() };
    let known = preparation.usable.values.get(skill).cloned().unwrap_or_default();
    let variable = |name: &str| {
        let secret = secrets.0.iter().find(|(secret, _)| secret == name).map(|(_, value)| value.clone());
        secret.or_else(|| preparation.spec.env.get(name).cloned())
    };
    let fill = |text: &String| {
        expand(text, &known, variable).map_err(|missing| {
            format!("the MCP server {} of skill {skill} needs values for {}", server.name, missing.join(", "))
        })
    };
    let (way, startup, idle) = match &server.transport {
        McpTransport::Local { command, env, startup_timeout, idle_timeout } => {
            let mut environment = secrets.clone();
            for (name, text) in env {
                environment.0.push((name.clone(), fill(text)?));
            }
            let cwd = format!("/skills/.v/{skill}@{}", prepared.version);
            let way = Way::Local { argv: command.clone(), env: environment, cwd };
            (way, *startup_timeout, *idle_timeout)
        }
        McpTransport::Remote { url, headers } => {
            let mut filled = Vec::new();
            for (name, text) in headers {
                filled.push((name.clone(), Zeroizing::new(fill(text)?)));
            }
            let network = preparation.config.network.clone();
            (Way::Remote { url: url.clone(), headers: filled, network }, STARTUP, IDLE)
        }
    };
    let mut hasher = DefaultHasher::new();
    prepared.digest.0.hash(&mut hasher);
    prepared.version.hash(&mut hasher);
    match &way {
        Way::Local { argv, env, cwd } => (argv, env, cwd).hash(&mut hasher),
        Way::Remote { url, headers, network } => {
            (url, *network == Network::Internet).hash(&mut hasher);
            headers.iter().for_each(|(name, value)| (name, value.as_str()).hash(&mut hasher));
        }
    }
    let hash = hasher.finish();
    Ok(Plan { key, digest: prepared.digest, way, startup, idle, hash })
}
