//! What one of the two files said, before it is checked against the listing and the other file.

use std::collections::BTreeMap;

use semver::{Version, VersionReq};
use serde_json::Value;

use super::model::{McpServer, Var};
use crate::{
    error::Fault,
    ids::{SecretName, SkillRef},
};

/// The content of one file; a field is empty when the file does not say it.
#[derive(Debug, Default)]
pub(super) struct Draft {
    pub file: &'static str,
    pub id: Option<String>,
    pub name: Option<String>,
    pub version_text: Option<String>,
    pub version: Option<Version>,
    pub description: Option<String>,
    pub context: Vec<String>,
    pub scripts: Vec<String>,
    pub tags: Vec<String>,
    pub env_vars: Vec<SecretName>,
    pub required_env: Vec<SecretName>,
    pub binaries: Vec<String>,
    pub dependencies: Vec<SkillRef>,
    pub system_packages: Vec<String>,
    pub node_version: Option<VersionReq>,
    pub mcp_servers: Vec<McpServer>,
    pub vars: Vec<Var>,
    pub body: Option<String>,
    pub extra: BTreeMap<String, Value>,
    pub errors: Vec<Fault>,
    pub warnings: Vec<Fault>,
    /// Warned about, and errors with `--strict`.
    pub lenient: Vec<Fault>,
    /// What the reference validator says (SKILL.md only).
    pub spec_errors: Vec<String>,
}

impl Draft {
    pub(super) fn new(file: &'static str) -> Self {
        Self { file, ..Self::default() }
    }
}
