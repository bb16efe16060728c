//! `manifest.json` (systems.md D1): bytes in, a draft and every fault out.
//!
//! What the registry owns (`owner`, `usedBy`, `registeredAt`, `updatedAt`) is passed over.

use std::fmt;

use semver::{Version, VersionReq};
use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use super::{
    draft::Draft,
    fields::{Fields, shown, split_command},
    source::MANIFEST,
    yaml::{Kind, Node},
};
use crate::{error::Fault, ids::SkillRef};

/// Keys that the registry sets.
const REGISTRY_KEYS: [&str; 4] = ["owner", "usedBy", "registeredAt", "updatedAt"];

/// Keys that the model has a field for.
const KEYS: [&str; 12] = [
    "id",
    "name",
    "version",
    "description",
    "context",
    "scripts",
    "tags",
    "envVars",
    "dependencies",
    "systemPackages",
    "nodeVersion",
    "mcpServers",
];

/// Reads a manifest. Everything wrong with it is in the draft's `errors`.
pub(super) fn parse(bytes: &[u8], limit: u64) -> Draft {
    let mut draft = Draft::new(MANIFEST);
    let object = match object(bytes, limit) {
        Ok(object) => object,
        Err(fault) => {
            draft.errors.push(fault);
            return draft;
        }
    };
    let mut fields = Fields::new(MANIFEST, true);
    for (key, value) in &object {
        if !read_key(&mut draft, &mut fields, key, &Node::from_json(value)) {
            draft.warnings.push(
                Fault::new(MANIFEST, format!("Unknown field: {}", shown(key)))
                    .help("it is kept as it is and has no effect"),
            );
            draft.extra.insert(key.clone(), value.clone());
        }
    }
    require(&mut draft, &object);
    draft.errors.append(&mut fields.problems);
    draft
}

/// The printed checks of D2 that need no listing.
fn require(draft: &mut Draft, object: &Map<String, Value>) {
    for key in ["id", "name", "version", "description"] {
        let missing = match object.get(key) {
            None | Some(Value::Null) => true,
            Some(Value::String(s)) => s.trim().is_empty(),
            Some(_) => false,
        };
        if missing {
            draft.errors.push(Fault::new(MANIFEST, format!("Missing {key}")));
        }
    }
    if let Some(version) = draft.version_text.clone().filter(|v| !v.trim().is_empty()) {
        match Version::parse(&version) {
            Ok(v) => draft.version = Some(v),
            Err(e) => draft.errors.push(
                Fault::new(MANIFEST, "Invalid version format (must be semver)")
                    .help(format!("{:?}: {e}; write MAJOR.MINOR.PATCH", shown(&version))),
            ),
        }
    }
}

fn read_key(draft: &mut Draft, fields: &mut Fields, key: &str, node: &Node) -> bool {
    if node.is_null() && KEYS.contains(&key) {
        return true; // like absent; the required ones are reported as missing
    }
    match key {
        "id" => draft.id = fields.text(key, node),
        "name" => draft.name = fields.text(key, node),
        "version" => draft.version_text = fields.text(key, node),
        "description" => draft.description = fields.text(key, node),
        "context" => draft.context = fields.texts(key, node),
        "scripts" => draft.scripts = fields.texts(key, node),
        "tags" => draft.tags = fields.texts(key, node),
        "envVars" => draft.env_vars = fields.env_names(key, node),
        "dependencies" => {
            draft.dependencies =
                fields.parsed(key, node, |s| s.parse::<SkillRef>().map_err(|e| e.to_string()));
        }
        "systemPackages" => draft.system_packages = fields.parsed(key, node, package),
        "nodeVersion" => {
            if let Some(text) = fields.text(key, node) {
                match node_range(&text) {
                    Ok(range) => draft.node_version = Some(range),
                    Err(reason) => fields.problem(node, reason),
                }
            }
        }
        "mcpServers" => servers(draft, fields, node),
        _ => return REGISTRY_KEYS.contains(&key),
    }
    true
}

fn servers(draft: &mut Draft, fields: &mut Fields, node: &Node) {
    let Kind::Seq(items) = &node.kind else {
        fields.problem(node, format!("mcpServers must be a list, not {}", node.type_name()));
        return;
    };
    if !fields.fits("mcpServers", node) {
        return;
    }
    for (i, item) in items.iter().enumerate() {
        let key = format!("mcpServers[{i}]");
        if let Some(server) = fields.mcp_server(&key, item) {
            if draft.mcp_servers.iter().any(|s| s.name == server.name) {
                fields.problem(item, format!("{key}: there is already a server named {:?}", server.name));
            }
            draft.warnings.extend(words_in_command(&key, item));
            draft.mcp_servers.push(server);
        }
        for (name, _) in item.entries().unwrap_or_default() {
            if !matches!(
                name.as_str(),
                "name"
                    | "type"
                    | "command"
                    | "args"
                    | "env"
                    | "url"
                    | "headers"
                    | "startup_timeout"
                    | "idle_timeout"
            ) {
                draft.warnings.push(
                    Fault::new(MANIFEST, format!("Unknown field: {key}.{}", shown(name)))
                        .help("it has no effect"),
                );
            }
        }
    }
}

/// `command` is one program: with blanks in it and no `args` it is most likely a whole command line.
fn words_in_command(key: &str, server: &Node) -> Option<Fault> {
    let command = server.get("command")?.text().filter(|_| server.get("args").is_none())?;
    let words = split_command(command).filter(|words| words.len() > 1)?;
    let (program, args) = words.split_first()?;
    let args: Vec<String> = args.iter().map(|arg| format!("{arg:?}")).collect();
    let message =
        format!("{key}.command holds blanks, and there are no args: it is taken as the name of one program");
    let help = format!("write \"command\": {program:?}, \"args\": [{}]", args.join(", "));
    Some(Fault::new(MANIFEST, shown(&message)).help(shown(&help)))
}

/// A Debian package name (Debian policy 5.6.1); versions and options are refused.
fn package(text: &str) -> Result<String, String> {
    let mut bytes = text.bytes();
    let lead = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let valid = (2..=128).contains(&text.len())
        && bytes.next().is_some_and(lead)
        && bytes.all(|b| lead(b) || matches!(b, b'+' | b'.' | b'-'));
    if valid {
        Ok(text.to_owned())
    } else {
        Err(format!(
            "{text:?} is not a Debian package name: lowercase letters, digits, `+`, `-` and `.`, at least two characters"
        ))
    }
}

/// npm's way of writing ranges, as far as Cargo's rules have the same: `>=20.0.0`, `^20`, `20.x`,
/// `>=18 <23`.
pub(super) fn node_range(text: &str) -> Result<VersionReq, String> {
    let joined = text.split(',').flat_map(str::split_whitespace).fold(String::new(), |mut out, part| {
        // `>= 20` is one comparator, `>=18 <23` are two.
        let glued = out.ends_with(['>', '<', '=', '^', '~']);
        if !out.is_empty() && !glued {
            out.push(',');
        }
        out.push_str(part);
        out
    });
    VersionReq::parse(&joined).map_err(|e| {
        format!("nodeVersion {text:?} is not a range of versions: {e}; write for example \">=20.0.0\"")
    })
}

/// The object in a manifest's bytes: size, encoding, syntax, no key twice.
fn object(bytes: &[u8], limit: u64) -> Result<Map<String, Value>, Fault> {
    if bytes.len() as u64 > limit {
        return Err(Fault::new(MANIFEST, format!("is larger than {limit} bytes")));
    }
    let text = std::str::from_utf8(bytes).map_err(|e| not_utf8(MANIFEST, bytes, e.valid_up_to()))?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    match serde_json::from_str::<Strict>(text) {
        Ok(Strict(Value::Object(object))) => Ok(object),
        Ok(_) => Err(Fault::new(MANIFEST, "must be a JSON object").at(1, 1)),
        Err(e) => {
            let full = e.to_string();
            let place = format!(" at line {} column {}", e.line(), e.column());
            let reason = full.strip_suffix(&place).unwrap_or(&full);
            Err(Fault::new(MANIFEST, format!("Invalid JSON: {}", shown(reason)))
                .at(e.line().max(1), e.column().max(1)))
        }
    }
}

/// The fault of a file that is not text, with the place of its first bad byte.
pub(super) fn not_utf8(file: &str, bytes: &[u8], valid: usize) -> Fault {
    let good = String::from_utf8_lossy(&bytes[..valid]);
    let line = good.matches('\n').count() + 1;
    let column = good.chars().rev().take_while(|c| *c != '\n').count() + 1;
    Fault::new(file, "is not UTF-8").at(line, column).help("save it as UTF-8")
}

/// A JSON value in which no object has a key twice.
struct Strict(Value);

impl<'de> Deserialize<'de> for Strict {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(StrictVisitor).map(Strict)
    }
}

struct StrictVisitor;

impl<'de> Visitor<'de> for StrictVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }
    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }
    fn visit_bool<E>(self, b: bool) -> Result<Value, E> {
        Ok(b.into())
    }
    fn visit_i64<E>(self, n: i64) -> Result<Value, E> {
        Ok(n.into())
    }
    fn visit_u64<E>(self, n: u64) -> Result<Value, E> {
        Ok(n.into())
    }
    fn visit_f64<E>(self, n: f64) -> Result<Value, E> {
        Ok(n.into())
    }
    fn visit_str<E>(self, s: &str) -> Result<Value, E> {
        Ok(s.into())
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut out = Vec::new();
        while let Some(Strict(v)) = seq.next_element()? {
            out.push(v);
        }
        Ok(Value::Array(out))
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut out = Map::new();
        while let Some(key) = map.next_key::<String>()? {
            if out.contains_key(&key) {
                return Err(de::Error::custom(format!("duplicate key {key:?}")));
            }
            let Strict(value) = map.next_value()?;
            out.insert(key, value);
        }
        Ok(Value::Object(out))
    }
}
