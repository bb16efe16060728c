//! The one model that both shapes of a skill are read into (contract.md 2).
//!
//! Holds what was declared, nothing about where it is stored or who may use it.

use std::{collections::BTreeMap, time::Duration};

use semver::{Version, VersionReq};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

use crate::{
    config::units::{format_duration, parse_duration},
    ids::{SecretName, SkillId, SkillRef},
};

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
        /// How long the handshake may take (C5: 30 s).
        #[serde(with = "Counted::<1>")]
        startup_timeout: Duration,
        /// How long nobody calls it before it is stopped (C5: 5 min).
        #[serde(with = "Counted::<60>")]
        idle_timeout: Duration,
    },
    /// Reached over streamable HTTP.
    Remote {
        /// Where.
        url: String,
        /// Headers; values may hold `${NAME}`.
        headers: BTreeMap<String, String>,
    },
}

/// A longer time for a server is taken as this.
pub(super) const LONGEST: Duration = Duration::from_secs(30 * 86_400);

/// How a time is stored: as a number of so many seconds, else as text like `1m30s`.
struct Counted<const SECONDS: u64>;

#[derive(Deserialize)]
#[serde(untagged)]
enum Time {
    Number(u64),
    Text(String),
}

impl<const SECONDS: u64> Counted<SECONDS> {
    fn serialize<S: Serializer>(time: &Duration, to: S) -> Result<S::Ok, S::Error> {
        let seconds = time.as_secs();
        if seconds.is_multiple_of(SECONDS) && time.subsec_nanos() == 0 {
            return to.serialize_u64(seconds / SECONDS);
        }
        to.serialize_str(&format_duration(*time))
    }

    fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
        let time = match Time::deserialize(from)? {
            Time::Number(count) => Duration::from_secs(count.saturating_mul(SECONDS)),
            Time::Text(text) => parse_duration(&text).map_err(D::Error::custom)?,
        };
        Ok(time.min(LONGEST))
    }
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
