//! Packages that are run or installed without a version: what runs is decided anew each time.

use std::{collections::BTreeSet, sync::LazyLock};

use regex::bytes::Regex;

use super::{
    declared::Declared,
    finding::{
        Findings, Rule,
        Severity::{Info, Warning},
    },
    pattern::regex,
    text::Text,
};
use crate::skill::model::{McpTransport, Skill};

const MESSAGE: &str = "Takes whatever version is newest that day: name the version";

static RUNNER: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r"\b(npx|bunx|uvx|(?:pnpm|yarn)\s+dlx|pipx\s+run|uv\s+tool\s+run|(?:npm|pnpm)\s+(?:install|i|add)|(?:yarn|bun)\s+(?:global\s+)?add|pip3?\s+install|uv\s+(?:pip\s+|tool\s+)?(?:install|add)|pipx\s+install|gem\s+install|cargo\s+install|go\s+(?:install|run))[ \t]+([^\n`;|&>)#]{1,300})",
    )
});
/// Where a command is only spoken of.
static SPOKEN: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r"(?i)\A[ \t]*(?:#|//|\*|--|r?\x22{3})|\b(?:print|echo|printf|raise|warn\w*|error|info|note|log\w*|help|run|requires|exit|throw|console)\b",
    )
});

pub(super) fn check(text: &Text<'_>, findings: &mut Findings) {
    let fenced = if text.is_prose() { fences(text) } else { Vec::new() };
    let mut told = BTreeSet::new();
    for hit in RUNNER.captures_iter(&text.bytes) {
        let (Some(whole), Some(runner), Some(rest)) = (hit.get(0), hit.get(1), hit.get(2)) else { continue };
        let (runner, rest) =
            (String::from_utf8_lossy(runner.as_bytes()), String::from_utf8_lossy(rest.as_bytes()));
        let words: Vec<&str> = rest.split_whitespace().collect();
        let Some(package) = unpinned(&runner, &words) else { continue };
        if text.is_prose() && !is_code(text, whole.start(), &fenced) {
            continue;
        }
        let near = text.near(&whole.range());
        let severity = if text.is_script() && !SPOKEN.is_match(near) { Warning } else { Info };
        // A package once a file, unless it is worse there.
        if !told.insert((package.to_owned(), severity)) {
            continue;
        }
        let message = format!("{package}: {MESSAGE}");
        if !findings.at(text, whole.range(), (Rule::UnpinnedRunner, severity), &message) {
            break;
        }
    }
}

/// MCP servers that are started with a runner.
pub(super) fn servers(skill: &Skill, declared: &Declared, findings: &mut Findings) {
    for server in &skill.mcp_servers {
        let McpTransport::Local { command, .. } = &server.transport else { continue };
        let line = command.join(" ");
        let package = RUNNER.captures(line.as_bytes()).and_then(|hit| {
            let runner = String::from_utf8_lossy(hit.get(1)?.as_bytes()).into_owned();
            let rest = String::from_utf8_lossy(hit.get(2)?.as_bytes()).into_owned();
            unpinned(&runner, &rest.split_whitespace().collect::<Vec<_>>()).map(str::to_owned)
        });
        if let Some(package) = package {
            let (file, at) = declared.place(&package);
            findings.open(file);
            findings.push(Rule::UnpinnedRunner, Warning, at, &line, format!("{package}: {MESSAGE}"));
        }
    }
}

/// The first package without a version among a command's words.
fn unpinned<'a>(runner: &str, words: &[&'a str]) -> Option<&'a str> {
    let installs = runner.contains("install") || runner.contains("add") || runner.ends_with(" i");
    let mut rest = words.iter().copied();
    while let Some(word) = rest.next() {
        let word = word.trim_matches(['"', '\'', ',', '`']);
        if let Some((flag, value)) = word.split_once('=').filter(|(flag, _)| flag.starts_with('-')) {
            match flag {
                "--from" | "--package" => return version_missing(runner, value).then_some(value),
                "--version" => return None,
                _ => continue,
            }
        }
        match word {
            "--from" | "--package" | "-p" => {
                let value = rest.next()?;
                return version_missing(runner, value).then_some(value);
            }
            "--version" | "-v" | "--path" | "--git" => return None,
            "-r" | "--requirement" | "-e" | "--editable" | "-c" | "--constraint" | "-i" | "--index-url"
            | "--extra-index-url" | "--python" | "--with" | "--prefix" | "--target" | "-t" => {
                rest.next();
            }
            flag if flag.starts_with('-') => {}
            package if !is_package(package) => return None,
            package if version_missing(runner, package) => return Some(package),
            _ if !installs => return None,
            _ => {}
        }
    }
    None
}

/// Words that follow a command in a sentence.
const WORDS: [&str; 20] = [
    "a", "an", "and", "after", "any", "as", "at", "before", "for", "from", "if", "in", "is", "it", "of",
    "on", "or", "the", "to", "with",
];

/// A name in a registry, rather than a path, a variable or a word of a sentence.
fn is_package(word: &str) -> bool {
    let start = word.strip_prefix('@').unwrap_or(word);
    start.starts_with(|c: char| c.is_ascii_alphanumeric())
        && word.bytes().all(|b| b.is_ascii_alphanumeric() || b"@/._-[]=<>~^!,*+".contains(&b))
        && !WORDS.contains(&word)
        && !word.ends_with(['.', ','])
        && ![".", ".txt", ".toml", ".whl", ".tgz", ".py", ".sh"].iter().any(|end| word.ends_with(end))
}

fn version_missing(runner: &str, package: &str) -> bool {
    let package = package.trim_matches(['"', '\'', ',', '`']);
    let python = ["pip", "uv"].iter().any(|r| runner.starts_with(r));
    let named = package.rfind('@').filter(|at| *at > 0).map(|at| &package[at + 1..]);
    match named {
        Some(version) => matches!(version, "latest" | "next" | "main" | "master" | "HEAD" | ""),
        None if python => !package.contains("=="),
        None if runner.starts_with("go") => package.contains('/') && package.contains('.'),
        None => true,
    }
}

/// Code blocks of a markdown text.
fn fences(text: &Text<'_>) -> Vec<std::ops::Range<usize>> {
    let mut blocks = Vec::new();
    let mut open: Option<(usize, &[u8])> = None;
    let mut at = 0;
    for line in text.bytes.split_inclusive(|b| *b == b'\n') {
        let start = line.trim_ascii_start();
        let fence = [&b"```"[..], b"~~~"].into_iter().find(|fence| start.starts_with(fence));
        match (open, fence) {
            (None, Some(fence)) => open = Some((at, fence)),
            (Some((from, mark)), Some(fence)) if mark == fence => {
                blocks.push(from..at);
                open = None;
            }
            _ => {}
        }
        at += line.len();
    }
    blocks.extend(open.map(|(from, _)| from..at));
    blocks
}

/// In a block, in backticks, or at the beginning of a line.
fn is_code(text: &Text<'_>, at: usize, fenced: &[std::ops::Range<usize>]) -> bool {
    let index = fenced.partition_point(|block| block.end <= at);
    let before = text.before(at);
    fenced.get(index).is_some_and(|block| block.contains(&at))
        || before.iter().filter(|b| **b == b'`').count() % 2 == 1
        || before.iter().all(|b| b.is_ascii_whitespace() || *b == b'$')
}
