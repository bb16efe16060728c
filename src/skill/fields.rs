//! Reading typed fields out of a tree, noting every value of a wrong type instead of stopping at the
//! first one. Both shapes are read with it: a manifest strictly, a SKILL.md leniently.

use std::{collections::BTreeMap, time::Duration};

use super::{
    model::{LONGEST, McpServer, McpTransport, Var},
    yaml::{Kind, Node},
};
use crate::{
    config::units::parse_duration,
    error::Fault,
    ids::{SecretName, is_hidden},
};

/// For an MCP server's handshake, and for its idleness (systems.md C5).
const STARTUP_TIMEOUT: Duration = Duration::from_secs(30);
const IDLE_TIMEOUT: Duration = Duration::from_secs(300);

/// The shape of `vars`, for those who wrote another.
const VARS: &str = "write each name as a key: `vars: { CITY: \"Berlin\", API_KEY: { description: \"…\", required: true, \
    secret: true } }`";

/// Most items of a list and entries of a map: a fault is told for each, and lists are compared.
pub(super) const MAX_ITEMS: usize = 1_000;

/// Text for a message: control characters and other invisible ones are written as escapes.
pub(super) fn shown(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if is_hidden(c) {
            out.extend(c.escape_default());
        } else {
            out.push(c);
        }
    }
    out
}

/// Walks a tree and keeps what it found wrong.
pub(super) struct Fields {
    /// The file that the tree came from.
    pub file: &'static str,
    /// A manifest's values must have the JSON type asked for; YAML scalars are text anyway.
    pub strict: bool,
    /// What was wrong.
    pub problems: Vec<Fault>,
}

impl Fields {
    pub(super) fn new(file: &'static str, strict: bool) -> Self {
        Self { file, strict, problems: Vec::new() }
    }

    /// Notes a problem with a value.
    pub(super) fn problem(&mut self, node: &Node, message: impl AsRef<str>) {
        let mut fault = Fault::new(self.file, shown(message.as_ref()));
        if node.line > 0 {
            fault = fault.at(node.line, node.column);
        }
        self.problems.push(fault);
    }

    fn wrong_type(&mut self, key: &str, node: &Node, wanted: &str) {
        self.problem(node, format!("{key} must be {wanted}, not {}", node.type_name()));
    }

    /// Whether a list or map has at most [`MAX_ITEMS`]; noted when not.
    pub(super) fn fits(&mut self, key: &str, node: &Node) -> bool {
        let length = match &node.kind {
            Kind::Scalar { .. } => 0,
            Kind::Seq(items) => items.len(),
            Kind::Map(entries) => entries.len(),
        };
        if length > MAX_ITEMS {
            self.problem(node, format!("{key} has {length} items, at most {MAX_ITEMS}"));
        }
        length <= MAX_ITEMS
    }

    /// A string.
    pub(super) fn text(&mut self, key: &str, node: &Node) -> Option<String> {
        let typed = self.strict && node.type_name() != "a string";
        match node.text() {
            Some(text) if !typed => Some(text.to_owned()),
            _ => {
                self.wrong_type(key, node, "a string");
                None
            }
        }
    }

    /// A list of strings; each wrong item is named by its index. In YAML also one string of items
    /// separated by commas, or a list encoded as JSON.
    pub(super) fn texts(&mut self, key: &str, node: &Node) -> Vec<String> {
        if !self.fits(key, node) {
            return Vec::new();
        }
        match &node.kind {
            Kind::Seq(items) => items
                .iter()
                .enumerate()
                .filter_map(|(i, item)| self.text(&format!("{key}[{i}]"), item))
                .collect(),
            Kind::Scalar { text, .. } if !self.strict && !node.is_null() => text
                .split(',')
                .map(str::trim)
                .filter(|s| !s.is_empty())
                .take(MAX_ITEMS)
                .map(str::to_owned)
                .collect(),
            Kind::Scalar { .. } if !self.strict => Vec::new(),
            _ => {
                self.wrong_type(key, node, "a list of strings");
                Vec::new()
            }
        }
    }

    /// A list of strings, each parsed; what does not parse is noted with its reason.
    pub(super) fn parsed<T>(
        &mut self,
        key: &str,
        node: &Node,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Vec<T> {
        let mut out = Vec::new();
        for text in self.texts(key, node) {
            match parse(&text) {
                Ok(value) => out.push(value),
                Err(reason) => self.problem(node, format!("{key}: {reason}")),
            }
        }
        out
    }

    /// Names of environment variables.
    pub(super) fn env_names(&mut self, key: &str, node: &Node) -> Vec<SecretName> {
        self.parsed(key, node, |s| s.parse::<SecretName>().map_err(|e| e.to_string()))
    }

    /// A map of strings.
    fn text_map(&mut self, key: &str, node: &Node) -> BTreeMap<String, String> {
        let Some(entries) = node.entries() else {
            if !node.is_null() || self.strict {
                self.wrong_type(key, node, "a map of strings");
            }
            return BTreeMap::new();
        };
        if !self.fits(key, node) {
            return BTreeMap::new();
        }
        entries.iter().filter_map(|(k, v)| Some((k.clone(), self.text(&format!("{key}.{k}"), v)?))).collect()
    }

    fn env_map(&mut self, key: &str, node: &Node) -> BTreeMap<String, String> {
        let mut map = self.text_map(key, node);
        map.retain(|name, _| {
            let valid = name.parse::<SecretName>();
            if let Err(e) = &valid {
                self.problem(node, format!("{key}: {e}"));
            }
            valid.is_ok()
        });
        map
    }

    /// A time: a whole number above 0 of its unit (its name, and its seconds), or one with units of its own.
    fn time(&mut self, key: &str, node: &Node, unit: (&str, u64), default: Duration) -> Duration {
        let text = node.text().unwrap_or_default();
        let counted = text.parse::<u64>().map(|n| Duration::from_secs(n.saturating_mul(unit.1)));
        match counted.map_or_else(|_| parse_duration(text), Ok) {
            Ok(time) if !time.is_zero() => time.min(LONGEST),
            _ => {
                let wanted =
                    format!("a whole number of {} above 0, or a time like \"90s\" or \"1h30m\"", unit.0);
                self.problem(node, format!("{key} must be {wanted}"));
                default
            }
        }
    }

    /// `mcp` of a SKILL.md (systems.md C5): the command is one string, split like a shell would.
    pub(super) fn mcp(&mut self, name: &str, node: &Node) -> Option<McpServer> {
        if node.entries().is_none() {
            self.wrong_type("mcp", node, "a map");
            return None;
        }
        let Some(command) = node.get("command") else {
            self.problem(node, "mcp.command is missing");
            return None;
        };
        let command = match &command.kind {
            Kind::Seq(_) => self.texts("mcp.command", command),
            _ => {
                let line = self.text("mcp.command", command)?;
                match split_command(&line) {
                    Some(words) => words,
                    None => {
                        self.problem(command, "mcp.command has a quote that is not closed");
                        return None;
                    }
                }
            }
        };
        if command.first().is_none_or(String::is_empty) {
            self.problem(node, "mcp.command is empty");
            return None;
        }
        Some(McpServer { name: name.to_owned(), transport: self.local("mcp", node, command) })
    }

    fn local(&mut self, key: &str, node: &Node, command: Vec<String>) -> McpTransport {
        let mut time = |name: &str, unit, default| {
            node.get(name).map_or(default, |n| self.time(&format!("{key}.{name}"), n, unit, default))
        };
        let startup_timeout = time("startup_timeout", ("seconds", 1), STARTUP_TIMEOUT);
        let idle_timeout = time("idle_timeout", ("minutes", 60), IDLE_TIMEOUT);
        McpTransport::Local {
            command,
            env: node.get("env").map(|n| self.env_map(&format!("{key}.env"), n)).unwrap_or_default(),
            startup_timeout,
            idle_timeout,
        }
    }

    /// One entry of a manifest's `mcpServers`.
    pub(super) fn mcp_server(&mut self, key: &str, node: &Node) -> Option<McpServer> {
        if node.entries().is_none() {
            self.wrong_type(key, node, "a map");
            return None;
        }
        let name = match node.get("name") {
            Some(n) => self.text(&format!("{key}.name"), n),
            None => {
                self.problem(node, format!("{key}.name is missing"));
                None
            }
        };
        if let Some(n) = &name
            && (n.is_empty() || n.len() > 64 || n.contains(|c: char| c.is_control() || c == '/'))
        {
            self.problem(
                node,
                format!(
                    "{key}.name {n:?} is not usable: 1 to 64 characters without `/` and control characters"
                ),
            );
        }
        let kind = match node.get("type") {
            Some(n) => self.text(&format!("{key}.type"), n)?,
            None if node.get("url").is_some() => "remote".to_owned(),
            None => "local".to_owned(),
        };
        let transport = match kind.as_str() {
            "local" => self.local_server(key, node)?,
            "remote" => self.remote_server(key, node)?,
            other => {
                self.problem(node, format!("{key}.type must be \"local\" or \"remote\", not {other:?}"));
                return None;
            }
        };
        Some(McpServer { name: name?, transport })
    }

    fn local_server(&mut self, key: &str, node: &Node) -> Option<McpTransport> {
        let Some(program) = node.get("command") else {
            self.problem(node, format!("{key}.command is missing"));
            return None;
        };
        let mut command = vec![self.text(&format!("{key}.command"), program)?];
        if command[0].trim().is_empty() {
            self.problem(program, format!("{key}.command is empty"));
            return None;
        }
        if let Some(args) = node.get("args") {
            command.extend(self.texts(&format!("{key}.args"), args));
        }
        Some(self.local(key, node, command))
    }

    fn remote_server(&mut self, key: &str, node: &Node) -> Option<McpTransport> {
        let Some(url) = node.get("url") else {
            self.problem(node, format!("{key}.url is missing"));
            return None;
        };
        let url = self.text(&format!("{key}.url"), url)?;
        let host = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"));
        if host.is_none_or(str::is_empty) || url.contains(|c: char| c.is_control() || c == ' ') {
            self.problem(node, format!("{key}.url {url:?} must begin with https:// or http://"));
        }
        Some(McpTransport::Remote {
            url,
            headers: node
                .get("headers")
                .map(|n| self.text_map(&format!("{key}.headers"), n))
                .unwrap_or_default(),
        })
    }

    /// `vars` of a SKILL.md (systems.md C3): full, shorthand (a scalar is the default) or bare.
    pub(super) fn vars(&mut self, node: &Node) -> Vec<Var> {
        let Some(entries) = node.entries() else {
            if !node.is_null() {
                self.wrong_type("vars", node, "a map of names");
                if let Some(fault) = self.problems.last_mut() {
                    fault.help = Some(VARS.to_owned());
                }
            }
            return Vec::new();
        };
        if !self.fits("vars", node) {
            return Vec::new();
        }
        let mut vars = Vec::new();
        for (name, value) in entries {
            if let Err(e) = name.parse::<SecretName>() {
                self.problem(value, format!("vars: {e}"));
                continue;
            }
            vars.push(self.var(name.clone(), value));
        }
        vars
    }

    fn var(&mut self, name: String, value: &Node) -> Var {
        let mut var = Var { name, description: String::new(), default: None, required: false, secret: false };
        match &value.kind {
            Kind::Scalar { .. } => var.default = quoted_or_text(value),
            Kind::Seq(_) => {
                self.wrong_type(&format!("vars.{}", var.name), value, "a map or a string");
            }
            Kind::Map(entries) => {
                for (key, v) in entries {
                    let path = format!("vars.{}.{key}", var.name);
                    match key.as_str() {
                        "description" if v.is_null() => {}
                        "description" => var.description = self.text(&path, v).unwrap_or_default(),
                        "default" => match v.kind {
                            Kind::Scalar { .. } => var.default = quoted_or_text(v),
                            _ => self.wrong_type(&path, v, "a string"),
                        },
                        "required" => var.required = self.flag(&path, v),
                        // When in doubt, hide.
                        "secret" => var.secret = self.flag(&path, v) || v.text() != Some("false"),
                        _ => self.problem(v, format!("{path} is not known")),
                    }
                }
            }
        }
        var
    }

    fn flag(&mut self, key: &str, node: &Node) -> bool {
        match node.text() {
            Some(t) if t.eq_ignore_ascii_case("true") => true,
            Some(t) if t.eq_ignore_ascii_case("false") => false,
            _ => {
                self.wrong_type(key, node, "true or false");
                false
            }
        }
    }
}

/// A scalar's text; `""` is a value, nothing at all is none.
fn quoted_or_text(node: &Node) -> Option<String> {
    match &node.kind {
        Kind::Scalar { text, plain: false } => Some(text.clone()),
        _ => node.text().map(str::to_owned),
    }
}

/// Splits a command into words: blanks separate, quotes group, a backslash takes the next character
/// as it is. Nothing is expanded. None when a quote is not closed.
#[must_use]
pub(super) fn split_command(line: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut chars = line.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\'' => {
                let w = word.get_or_insert_default();
                loop {
                    match chars.next()? {
                        '\'' => break,
                        c => w.push(c),
                    }
                }
            }
            '"' => {
                let w = word.get_or_insert_default();
                loop {
                    match chars.next()? {
                        '"' => break,
                        '\\' => match chars.next()? {
                            c @ ('"' | '\\' | '$' | '`') => w.push(c),
                            c => w.extend(['\\', c]),
                        },
                        c => w.push(c),
                    }
                }
            }
            '\\' => word.get_or_insert_default().push(chars.next()?),
            c if c.is_whitespace() => words.extend(word.take()),
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    Some(words)
}

/// The names in `${NAME}` within a text.
pub(super) fn placeholders(text: &str) -> Vec<&str> {
    text.split("${")
        .skip(1)
        .filter_map(|rest| rest.split_once('}').map(|(name, _)| name))
        .filter(|name| name.parse::<SecretName>().is_ok())
        .collect()
}
