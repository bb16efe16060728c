//! What a skill declares, against what its last approved version did and what its files mention.

use std::collections::BTreeSet;

use super::{
    Context,
    finding::{
        Findings, Rule,
        Severity::{Info, Warning},
    },
    text::Text,
};
use crate::skill::{
    diff::{
        Change,
        capability::{CapabilityKind, host_of},
        capability_changes,
    },
    model::{McpTransport, Skill},
    source::{MANIFEST, SKILL_MD},
};

/// Declarations, and the text of the files that make them.
pub(super) struct Declared {
    env: BTreeSet<String>,
    hosts: BTreeSet<String>,
    /// Secrets that nothing mentioned so far.
    unmentioned: BTreeSet<String>,
    declaring: Vec<(&'static str, String)>,
}

impl Declared {
    pub(super) fn of(skill: &Skill) -> Self {
        let mut env: BTreeSet<String> = skill.secrets.iter().map(ToString::to_string).collect();
        env.extend(skill.vars.iter().map(|var| var.name.clone()));
        let mut texts: Vec<&str> = skill.vars.iter().filter_map(|var| var.default.as_deref()).collect();
        for server in &skill.mcp_servers {
            match &server.transport {
                McpTransport::Local { command, env: own, .. } => {
                    env.extend(own.keys().cloned());
                    texts.extend(command.iter().chain(own.keys()).chain(own.values()).map(String::as_str));
                }
                McpTransport::Remote { url, headers } => {
                    texts.push(url);
                    texts.extend(headers.values().map(String::as_str));
                }
            }
        }
        let body = skill.body.as_deref().unwrap_or_default();
        let used = |name: &str| body.contains(name) || texts.iter().any(|text| text.contains(name));
        Self {
            hosts: texts.iter().filter_map(|text| host_of(text)).collect(),
            unmentioned: skill.secrets.iter().map(ToString::to_string).filter(|name| !used(name)).collect(),
            env,
            declaring: Vec::new(),
        }
    }

    /// Takes note of a file's text.
    pub(super) fn seen(&mut self, path: &str, text: &Text<'_>) {
        let content = String::from_utf8_lossy(&text.bytes);
        match path {
            MANIFEST => self.declaring.insert(0, (MANIFEST, content.into_owned())),
            SKILL_MD => self.declaring.push((SKILL_MD, content.into_owned())),
            ".env.example" => {}
            _ => self.unmentioned.retain(|name| !content.contains(name.as_str())),
        }
    }

    pub(super) fn has_env(&self, name: &str) -> bool {
        self.env.contains(name)
    }

    pub(super) fn has_host(&self, host: &str) -> bool {
        self.hosts.contains(host)
    }

    /// The file and line where something is declared; the first line when it is not found as it stands.
    pub(super) fn place(&self, value: &str) -> (&'static str, usize) {
        let found = self.declaring.iter().find_map(|(path, text)| {
            text.find(value).map(|at| (*path, text[..at].matches('\n').count() + 1))
        });
        found.unwrap_or_else(|| (self.declaring.first().map_or(SKILL_MD, |(path, _)| path), 1))
    }
}

/// What is asked for now and was not in the last approved version.
pub(super) fn growth(context: &Context<'_>, declared: &Declared, findings: &mut Findings) {
    let Some(previous) = context.previous else { return };
    let changes = capability_changes(Some(previous), context.skill);
    for change in changes.into_iter().filter(|c| c.change == Change::Added) {
        use CapabilityKind as K;
        let severity = match change.kind {
            K::Secret | K::Host | K::McpServer | K::AllowedTool | K::Trigger => Warning,
            K::Package | K::Binary | K::Dependency | K::Script => Info,
        };
        let needle = change.value.split_once(": ").map_or(change.value.as_str(), |(name, _)| name);
        let (file, line) = declared.place(needle);
        findings.open(file);
        findings.push(
            Rule::CapabilityGrowth,
            severity,
            line,
            &format!("{}: {}", change.kind.as_str(), change.value),
            format!(
                "Version {} asks for this, the approved {} did not",
                context.skill.version, previous.version
            ),
        );
    }
}

/// Secrets that are asked for and not mentioned anywhere.
pub(super) fn unused(declared: &Declared, findings: &mut Findings) {
    for name in &declared.unmentioned {
        let (file, line) = declared.place(name);
        findings.open(file);
        let message =
            "This secret is asked for, and no text or script of the skill mentions it: ask what it is for";
        findings.push(Rule::UnusedSecret, Info, line, name, message);
    }
}
