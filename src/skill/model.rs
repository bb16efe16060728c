//! The one model that both shapes of a skill are read into (contract.md 2).
//!
//! Holds what was declared, nothing about where it is stored or who may use it.

use std::collections::BTreeMap;

use semver::{Version, VersionReq};
use serde::{Deserialize, Serialize};

use crate::ids::{SecretName, SkillId, SkillRef};

/// Which files the skill was read from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Shape {
    /// `manifest.json` alone.
    Manifest,
    /// `SKILL.md` alone.
    SkillMd,
    /// Both, agreeing on what both say.
    Both,
}

/// A skill as declared by its folder.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Skill {
    /// Unique id; equals the folder's name for SKILL.md skills.
    pub id: SkillId,
    /// Name for people (a manifest's or SKILL.md's `name`, else the id).
    pub name: String,
    /// `0.0.0` when the source states none (a SKILL.md without `version`).
    pub version: Version,
    /// What the skill enables.
    pub description: String,
    /// Which shape it has on disk.
    pub shape: Shape,
    /// Markdown files loaded into the prompt, in order, relative to the folder.
    pub context: Vec<String>,
    /// Executable scripts, relative to the folder.
    pub scripts: Vec<String>,
    /// Secrets that it declares, from every place that declares one (contract.md 2), sorted, no duplicates.
    pub secrets: Vec<SecretName>,
    /// MCP servers (`mcpServers` of a manifest, `mcp` of a SKILL.md).
    pub mcp_servers: Vec<McpServer>,
    /// Skills it needs (`dependencies`, `requires.skills`).
    pub dependencies: Vec<SkillRef>,
    /// The oldest Node.js it runs on, as a range (`>=20.0.0`).
    pub node_version: Option<VersionReq>,
    /// Debian packages it needs in the image.
    pub system_packages: Vec<String>,
    /// Binaries that must be on PATH in the container (`requires.binary`).
    pub binaries: Vec<String>,
    /// Environment that must be present (`requires.env`); also in `secrets`.
    pub required_env: Vec<SecretName>,
    /// Variables of a SKILL.md (systems.md C3).
    pub vars: Vec<Var>,
    /// Tags, for listing and search.
    pub tags: Vec<String>,
    /// The markdown below SKILL.md's frontmatter.
    pub body: Option<String>,
    /// Frontmatter or manifest keys that the model has no field for, as they were.
    pub extra: BTreeMap<String, serde_json::Value>,
}

/// An MCP server that a skill brings.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct McpServer {
    /// Name within the skill.
    pub name: String,
    /// How it is reached.
    #[serde(flatten)]
    pub transport: McpTransport,
}

/// How an MCP server is reached.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum McpTransport {
    /// Started inside the agent's container, working directory the skill's folder.
    Local {
        /// Program and its arguments.
        command: Vec<String>,
        /// Environment; values may hold `${NAME}`.
        env: BTreeMap<String, String>,
        /// Seconds to wait for the handshake (C5: 30).
        startup_timeout: u64,
        /// Minutes without a call before it is stopped (C5: 5).
        idle_timeout: u64,
    },
    /// Reached over streamable HTTP.
    Remote {
        /// Where.
        url: String,
        /// Headers; values may hold `${NAME}`.
        headers: BTreeMap<String, String>,
    },
}

/// A variable of a SKILL.md (systems.md C3).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Var {
    /// Its name, as in `{{NAME}}`.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// Value when no source has one.
    pub default: Option<String>,
    /// Unresolved makes the skill unavailable.
    pub required: bool,
    /// Shown as `***` everywhere but in the container.
    pub secret: bool,
}
