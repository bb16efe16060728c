//! Environment variables that scripts read and the skill does not declare.

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

static READ: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r"\bprocess\.env(?:\.|\[\s*['\x22`])([A-Za-z_]\w*)|\b(?:Deno|Bun)\.env\.(?:get\(\s*['\x22])?([A-Za-z_]\w*)|\benviron(?:\.get\(|\.pop\(|\.setdefault\(|\[)\s*['\x22]([A-Za-z_]\w*)|\b(?:getenv|Getenv|LookupEnv|env::var)\(\s*['\x22]([A-Za-z_]\w*)|\bENV(?:\[|\.fetch\()\s*['\x22]([A-Za-z_]\w*)|(?i:\$env:([A-Za-z_]\w*))",
    )
});
static TAKEN_APART: LazyLock<Regex> = LazyLock::new(|| regex(r"\{([^{}\n]{1,400})\}\s*=\s*process\.env\b"));
static IN_SHELL: LazyLock<Regex> = LazyLock::new(|| regex(r"\$\{?([A-Z][A-Z0-9_]{2,})"));
static ASSIGNED: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r"(?:^|[\s;&|(])([A-Za-z_]\w*)(?:\+|\[[^\]\n]*\])?=|\bfor\s+([A-Za-z_]\w*)\s+in\b|\bread\s+(?:-\w+\s+(?:'[^'\n]*'\s+|\x22[^\x22\n]*\x22\s+)?)*([A-Za-z_]\w*)|\bgetopts\s+\S+\s+([A-Za-z_]\w*)",
    )
});
static SHELL: LazyLock<Regex> = LazyLock::new(|| regex(r"\A#!\s*\S*(?:/env\s+|/)(?:ba|z|da|k|a)?sh\b"));

/// What every container or shell has, and switches without weight.
const ORDINARY: [&str; 62] = [
    "HOME",
    "HOSTNAME",
    "LANG",
    "LANGUAGE",
    "PATH",
    "PWD",
    "OLDPWD",
    "SHELL",
    "TERM",
    "COLORTERM",
    "TMPDIR",
    "TMP",
    "TEMP",
    "TZ",
    "USER",
    "USERNAME",
    "LOGNAME",
    "EDITOR",
    "VISUAL",
    "PAGER",
    "DISPLAY",
    "CI",
    "DEBUG",
    "VERBOSE",
    "NO_COLOR",
    "FORCE_COLOR",
    "LOG_LEVEL",
    "PORT",
    "HOST",
    "EUID",
    "UID",
    "PPID",
    "RANDOM",
    "SECONDS",
    "LINENO",
    "BASH_SOURCE",
    "BASH_VERSION",
    "BASH_REMATCH",
    "BASH_LINENO",
    "BASHPID",
    "FUNCNAME",
    "PIPESTATUS",
    "IFS",
    "OPTARG",
    "OPTIND",
    "REPLY",
    "OSTYPE",
    "HOSTTYPE",
    "MACHTYPE",
    "COLUMNS",
    "LINES",
    "SHLVL",
    "ENV",
    "EOF",
    "APPDATA",
    "LOCALAPPDATA",
    "USERPROFILE",
    "PROGRAMFILES",
    "SYSTEMROOT",
    "COMSPEC",
    "WINDIR",
    "SHELLOPTS",
];
const ORDINARY_PREFIXES: [&str; 8] =
    ["SKEP_", "LC_", "XDG_", "NODE_", "PYTHON", "npm_", "GITHUB_RUN", "VITE_"];

fn ordinary(name: &str) -> bool {
    ORDINARY.contains(&name) || ORDINARY_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

/// Whether a name sounds like a secret.
fn secret(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    [
        "KEY",
        "TOKEN",
        "SECRET",
        "PASSW",
        "PASSPHRASE",
        "CREDENTIAL",
        "AUTH",
        "PRIVATE",
        "COOKIE",
        "SESSION",
        "DSN",
    ]
    .iter()
    .any(|word| name.contains(word))
}

pub(super) fn check(text: &Text<'_>, declared: &Declared, findings: &mut Findings) {
    let mut told = BTreeSet::new();
    for (at, name) in names(text) {
        if declared.has_env(&name) || ordinary(&name) || !told.insert(name.clone()) {
            continue;
        }
        let (severity, message) = if secret(&name) {
            (Warning, format!("Reads the variable {name}, which sounds like a secret and is not declared"))
        } else {
            (Info, format!("Reads the variable {name}, which is not declared"))
        };
        if !findings.at(text, at..at + 1, (Rule::UndeclaredEnvironment, severity), &message) {
            break;
        }
    }
}

/// Names that are read, and where.
fn names(text: &Text<'_>) -> Vec<(usize, String)> {
    let owned = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let mut found = Vec::new();
    for hit in READ.captures_iter(&text.bytes) {
        found.extend(hit.iter().skip(1).flatten().map(|m| (m.start(), owned(m.as_bytes()))));
    }
    for list in TAKEN_APART.captures_iter(&text.bytes).filter_map(|hit| hit.get(1)) {
        let names = list.as_bytes().split(|b| *b == b',').map(|item| {
            let end = item.iter().position(|b| matches!(b, b':' | b'=')).unwrap_or(item.len());
            owned(item[..end].trim_ascii())
        });
        found.extend(names.filter(|n| !n.is_empty() && !n.starts_with('.')).map(|n| (list.start(), n)));
    }
    if is_shell(text) {
        let assigned: BTreeSet<&[u8]> = ASSIGNED
            .captures_iter(&text.bytes)
            .filter_map(|hit| hit.iter().skip(1).flatten().next().map(|m| m.as_bytes()))
            .collect();
        let read = IN_SHELL.captures_iter(&text.bytes).filter_map(|hit| hit.get(1));
        found.extend(
            read.filter(|m| !assigned.contains(m.as_bytes())).map(|m| (m.start(), owned(m.as_bytes()))),
        );
    }
    found
}

fn is_shell(text: &Text<'_>) -> bool {
    text.is_shell() || SHELL.is_match(&text.bytes)
}
