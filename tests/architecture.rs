//! The rules of the house, read from the source: who may use whom, and what stays in one room.
#![allow(clippy::unwrap_used, reason = "helpers of tests are not seen as tests")]

use std::{
    fs,
    path::{Path, PathBuf},
};

/// Floors from below; a module uses only what stands on its own floor or lower. The longest prefix counts.
const FLOORS: &[(&str, u32)] = &[
    ("ids", 1),
    ("error", 1),
    ("fault", 1),
    ("tls", 1),
    ("wire", 1),
    ("paths", 1),
    // Pure.
    ("config::jobs", 2),
    ("config::keys", 2),
    ("config::model", 2),
    ("config::parse", 2),
    ("config::preflight", 2),
    ("config::watched", 2),
    ("config::runs", 2),
    ("config::tools", 2),
    ("config::units", 2),
    ("skill", 2),
    ("registry::archive::listing", 2),
    ("registry::git::url", 2),
    ("registry::index", 2),
    ("registry::names", 2),
    ("resolver", 2),
    ("sandbox::container", 2),
    ("sandbox::spec", 2),
    ("sandbox::prompt", 2),
    ("sandbox::describe", 2),
    ("sandbox::generated", 2),
    ("supervisor::state", 2),
    ("supervisor::plan", 2),
    ("secrets::grants", 2),
    ("secrets::template", 2),
    ("notify::allow", 2),
    ("notify::message", 2),
    ("notify::sign", 2),
    ("notify::throttle", 2),
    ("scheduler", 2),
    ("runs", 2),
    ("tools", 2),
    ("mail", 2),
    // Adapters.
    ("config", 3),
    ("db", 3),
    ("engine", 3),
    ("images", 3),
    ("init", 3),
    ("mcp", 3),
    ("notify", 3),
    ("outbound", 3),
    ("registry", 3),
    ("sandbox", 3),
    ("secrets", 3),
    ("watcher", 3),
    // Use cases and drivers.
    ("app::agent_skills::limit", 2),
    ("app::agent_skills::pace", 2),
    ("app", 4),
    ("supervisor", 4),
    // Edges.
    ("api", 5),
    ("daemon", 6),
    ("cli", 7),
];

struct Source {
    path: PathBuf,
    module: String,
    text: String,
}

/// Every file of the host program's library, with its tests cut off.
fn sources() -> Vec<Source> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut sources = Vec::new();
    for entry in walkdir::WalkDir::new(&root).into_iter().flatten() {
        let inner = entry.path().strip_prefix(&root).unwrap();
        let name = inner.to_string_lossy().into_owned();
        let is_test = name.contains("tests") || name.ends_with("_tests.rs");
        if !name.ends_with(".rs") || name.starts_with("bin/") || name == "lib.rs" || is_test {
            continue;
        }
        let module = name.trim_end_matches(".rs").trim_end_matches("/mod").replace('/', "::");
        let text = fs::read_to_string(entry.path()).unwrap();
        let text = text.split("#[cfg(test)]\nmod ").next().unwrap().to_owned();
        sources.push(Source { path: inner.to_owned(), module, text });
    }
    assert!(sources.len() > 80, "found {} files", sources.len());
    sources
}

fn floor(module: &str) -> Option<u32> {
    FLOORS
        .iter()
        .filter(|(prefix, _)| module == *prefix || module.starts_with(&format!("{prefix}::")))
        .max_by_key(|(prefix, _)| prefix.len())
        .map(|(_, floor)| *floor)
}

/// Paths named in `use crate::…` trees, flattened, and in `crate::…` expressions.
fn used(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find("crate::") {
        let before = rest[..at].chars().next_back();
        rest = &rest[at + "crate::".len()..];
        if before.is_none_or(|c| !c.is_alphanumeric() && c != '_') {
            flatten("", rest, &mut found);
        }
    }
    found
}

fn flatten(prefix: &str, tree: &str, found: &mut Vec<String>) {
    let path: String = tree.chars().take_while(|c| c.is_alphanumeric() || *c == '_' || *c == ':').collect();
    if let Some(inner) = tree[path.len()..].strip_prefix('{') {
        let mut depth = 0;
        let mut start = 0;
        for (i, c) in inner.char_indices() {
            match c {
                '{' => depth += 1,
                '}' if depth == 0 => {
                    flatten(&format!("{prefix}{path}"), inner[start..i].trim(), found);
                    return;
                }
                '}' => depth -= 1,
                ',' if depth == 0 => {
                    flatten(&format!("{prefix}{path}"), inner[start..i].trim(), found);
                    start = i + 1;
                }
                _ => {}
            }
        }
    }
    let whole = format!("{prefix}{path}");
    if !whole.is_empty() {
        found.push(whole.trim_end_matches("::").to_owned());
    }
}

#[test]
fn a_module_uses_only_what_stands_on_its_floor_or_lower() {
    let mut breaches = Vec::new();
    for source in sources() {
        let own = floor(&source.module).unwrap_or_else(|| panic!("{} has no floor", source.module));
        for path in used(&source.text) {
            if let Some(theirs) = floor(&path)
                && theirs > own
            {
                breaches
                    .push(format!("{} (floor {own}) uses {path} (floor {theirs})", source.path.display()));
            }
        }
    }
    assert_eq!(breaches, Vec::<String>::new());
}

#[test]
fn each_library_stays_in_its_room() {
    let rooms: &[(&str, &[&str])] = &[
        ("bollard", &["engine/docker"]),
        ("rusqlite", &["db/"]),
        ("axum", &["api/"]),
        ("rmcp", &["mcp/", "api/mcp"]),
        // Of the crate notify, which shares its name with a module: nothing is watched without naming this.
        ("RecursiveMode", &["watcher/"]),
        ("clap::", &["cli/"]),
        ("indicatif", &["cli/"]),
        ("std::env::var", &["config/"]),
        ("process::exit", &[]),
    ];
    let mut breaches = Vec::new();
    for source in sources() {
        let path = source.path.to_string_lossy().into_owned();
        for (word, allowed) in rooms {
            let code = source.text.lines().filter(|l| !l.trim_start().starts_with("//"));
            let used = code.into_iter().any(|line| {
                line.match_indices(word)
                    .any(|(i, _)| !line[..i].ends_with(|c: char| c.is_alphanumeric() || c == '_'))
            });
            if used && !allowed.iter().any(|room| path.starts_with(room)) {
                breaches.push(format!("{path} uses {word}"));
            }
        }
    }
    assert_eq!(breaches, Vec::<String>::new());
}

#[test]
fn pure_modules_know_no_runtime_no_files_and_no_clock() {
    let forbidden =
        ["tokio::", "std::fs", "std::net::Tcp", "Timestamp::now", "Instant::now", "SystemTime", "getrandom"];
    let mut breaches = Vec::new();
    for source in sources() {
        if floor(&source.module).unwrap() > 2 || source.module.starts_with("wire") {
            continue;
        }
        for word in forbidden {
            if source.text.lines().any(|l| l.contains(word) && !l.trim_start().starts_with("//")) {
                breaches.push(format!("{} uses {word}", source.path.display()));
            }
        }
    }
    assert_eq!(breaches, Vec::<String>::new());
}

#[test]
fn files_are_short_and_begin_by_saying_what_they_are_for() {
    let mut breaches = Vec::new();
    for source in sources() {
        let lines = source.text.lines().count();
        if lines > 500 {
            breaches.push(format!("{} has {lines} lines", source.path.display()));
        }
        if !source.text.starts_with("//!") {
            breaches.push(format!("{} begins without //!", source.path.display()));
        }
    }
    assert_eq!(breaches, Vec::<String>::new());
}

#[test]
fn the_reader_of_use_trees_sees_nested_names() {
    let mut names = used("use crate::{app::{Hive, world::World}, ids::AgentId};\nlet x = crate::db::open();");
    names.sort();
    assert_eq!(names, ["app::Hive", "app::world::World", "db::open", "ids::AgentId"]);
    assert_eq!((floor("config::load"), floor("config::model"), floor("appendix")), (Some(3), Some(2), None));
}
