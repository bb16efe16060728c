//! What a skill asks for, as a flat set that can be compared and shown.
//!
//! Knows declarations only; what the files do with them is for the scanner.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use super::visible::one_line;
use crate::skill::model::{McpServer, McpTransport, Skill};

/// What sort of thing a skill asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum CapabilityKind {
    /// A secret that it wants injected.
    Secret,
    /// A host that it talks to through a remote MCP server.
    Host,
    /// An MCP server: its name, then its command or address.
    McpServer,
    /// A tool that it wants allowed (`allowed-tools` of a SKILL.md).
    AllowedTool,
    /// A job that it makes by itself (`trigger_config`).
    Trigger,
    /// A Debian package for the image.
    Package,
    /// A program that must be on the PATH.
    Binary,
    /// Another skill.
    Dependency,
    /// A script that becomes a tool.
    Script,
}

impl CapabilityKind {
    /// As in JSON.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Secret => "secret",
            Self::Host => "host",
            Self::McpServer => "mcp_server",
            Self::AllowedTool => "allowed_tool",
            Self::Trigger => "trigger",
            Self::Package => "package",
            Self::Binary => "binary",
            Self::Dependency => "dependency",
            Self::Script => "script",
        }
    }
}

/// One thing that a skill asks for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Capability {
    /// What sort of thing.
    pub kind: CapabilityKind,
    /// Which, on one line, safe to print.
    pub value: String,
}

/// Everything that a skill asks for.
#[must_use]
pub fn capabilities(skill: &Skill) -> BTreeSet<Capability> {
    use CapabilityKind as K;
    let mut all = BTreeSet::new();
    let mut add = |kind, value: &str| {
        all.insert(Capability { kind, value: one_line(value) });
    };
    skill.secrets.iter().for_each(|s| add(K::Secret, s.as_str()));
    for server in &skill.mcp_servers {
        add(K::McpServer, &described(server));
        if let McpTransport::Remote { url, .. } = &server.transport
            && let Some(host) = host_of(url)
        {
            add(K::Host, &host);
        }
    }
    skill.extra.get("allowed-tools").into_iter().flat_map(tools).for_each(|t| add(K::AllowedTool, &t));
    if let Some(trigger) = skill.extra.get("trigger_config") {
        add(K::Trigger, &trigger.to_string());
    }
    skill.system_packages.iter().for_each(|p| add(K::Package, p));
    skill.binaries.iter().for_each(|b| add(K::Binary, b));
    skill.dependencies.iter().for_each(|d| add(K::Dependency, &d.to_string()));
    skill.scripts.iter().for_each(|s| add(K::Script, s));
    all
}

fn described(server: &McpServer) -> String {
    match &server.transport {
        McpTransport::Local { command, .. } => format!("{}: {}", server.name, command.join(" ")),
        McpTransport::Remote { url, .. } => format!("{}: {url}", server.name),
    }
}

/// The host of a URL, in lower case and without user and port.
#[must_use]
pub fn host_of(url: &str) -> Option<String> {
    let (_, rest) = url.split_once("://")?;
    let authority = rest.split(['/', '?', '#']).next()?;
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let host = match host.strip_prefix('[') {
        Some(v6) => v6.split(']').next()?,
        None => host.split(':').next()?,
    };
    (!host.is_empty()).then(|| host.to_ascii_lowercase())
}

/// `allowed-tools`: one text with blanks or commas between (not within parentheses), or a list.
fn tools(value: &Value) -> Vec<String> {
    match value {
        Value::Array(items) => {
            items.iter().map(|i| i.as_str().map_or_else(|| i.to_string(), str::to_owned)).collect()
        }
        Value::String(text) => {
            let mut depth = 0_usize;
            let separates = |c: char| {
                match c {
                    '(' => depth += 1,
                    ')' => depth = depth.saturating_sub(1),
                    _ => {}
                }
                depth == 0 && (c.is_whitespace() || c == ',')
            };
            text.split(separates).filter(|t| !t.is_empty()).map(str::to_owned).collect()
        }
        other => vec![other.to_string()],
    }
}
