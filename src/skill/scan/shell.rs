//! Code that nobody approved: fetched and run, decoded and run, or packed so that scanners cannot look.

use std::{collections::BTreeSet, sync::LazyLock};

use regex::bytes::Regex;

use super::{
    finding::{
        Findings, Rule,
        Severity::{Danger, Warning},
    },
    pattern::{Pattern, Table, regex},
    text::Text,
};

const REMOTE: &str = "Fetches code and runs it: what runs is not in this version and can change at any time";
const DECODES: &str = "Decodes a text and runs it: read the decoded text, and ask why it is encoded";
const PACKED: &str = "An archive with a password: nothing can look into it before it is unpacked";

const fn always(rule: Rule, expression: &'static str, message: &'static str) -> Pattern {
    Pattern { rule, severity: Danger, in_prose: Danger, expression, unless: None, message }
}

const PATTERNS: &[Pattern] = &[
    // curl … | sh, also with steps between and line continuations; an interpreter only when it reads its program
    // from standard input (`| python -m json.tool` and `| python -c '…'` read data).
    always(
        Rule::PipeToShell,
        r#"(?i)\b(?:curl|wget|aria2c|lynx|fetch)\s+(?:[^\n|;]|\\\r?\n)*?(?:https?:|ftp:|\$|[a-z0-9-]+\.[a-z]{2,}|-[a-z])(?:[^\n;]|\\\r?\n)*?\|[\s\\]*(?:(?:sudo|doas|exec|nohup|command|env|time)\s+(?:-\S+\s+|\w+=\S*\s+)*)*["']?(?:/\S*/)?(?:(?:ba|z|da|k|a|fi|c|tc)?sh\b(?:[^\w.=:/-]|$|[ \t]+-)|(?:python[0-9.]*|node|perl|ruby|php|osascript|deno|bun|pwsh|powershell|lua)[ \t]*(?:$|[;&|)"'`#]|-[ \t]*(?:$|[;&|)"'`\s])))"#,
        REMOTE,
    ),
    always(
        Rule::PipeToShell,
        r"\b(?:(?:ba|z|da|k|a)?sh|source|python[0-9.]*|node|perl|ruby)\b(?:\s+-\S+)*\s+<\(\s*(?:curl|wget)\b|(?:^|[\s;&|])\.\s+<\(\s*(?:curl|wget)\b",
        REMOTE,
    ),
    always(
        Rule::PipeToShell,
        r#"\b(?:(?:ba|z|da|k|a)?sh|python[0-9.]*|node|perl|ruby|php)\s+-\w*[ce]\w*\s+["']?(?:\$\(|`)\s*(?:curl|wget)\b|\beval\s+["']?(?:\$\(|`)\s*(?:curl|wget)\b"#,
        REMOTE,
    ),
    always(
        Rule::PipeToShell,
        r"(?i)\b(?:iex|invoke-expression)\b[^\n]*?\b(?:iwr|irm|curl|wget|invoke-webrequest|invoke-restmethod|downloadstring|net\.webclient)\b|\b(?:iwr|irm|curl|wget|invoke-webrequest|invoke-restmethod|downloadstring)\b[^\n]*?\|\s*(?:iex|invoke-expression)\b",
        REMOTE,
    ),
    always(
        Rule::PipeToShell,
        r"(?i)\bmshta(?:\.exe)?\s+https?:|\bregsvr32(?:\.exe)?\s[^\n]*?/i:https?:|\bcertutil(?:\.exe)?\s[^\n]*?-urlcache\b|\bbitsadmin(?:\.exe)?\s[^\n]*?/transfer\b",
        REMOTE,
    ),
    always(
        Rule::PipeToShell,
        r"(?:^|[^.\w])(?:exec|eval|execSync|loadstring|new\s+Function)\s*\([^\n;]{0,80}?(?:requests\.get|urlopen|await\s+fetch|await\s*\(\s*await\s+fetch|urllib[0-9.]*\.request|httpx\.get|axios\.get|Net::HTTP|URI\.open|file_get_contents\s*\(\s*.https?)",
        REMOTE,
    ),
    always(
        Rule::DecodeAndExecute,
        r"\b(?:base64\s+(?:[^\n|;]*?\s)?(?:-d|-D|--decode|-di|-id)\b|base32\s+(?:-d|--decode)\b|xxd\s+(?:-\w+\s+)*-\w*r|openssl\s+(?:enc|base64|aes[^\s]*)\s[^\n|]*?-d\b|uudecode\b|gunzip\b|zcat\b|rev\b|tr\s+['\x22]?[A-Za-z]-[A-Za-z]\S*\s)[^\n;]*?\|[\s\\]*(?:(?:sudo|exec|nohup|env)\s+(?:-\S+\s+)*)*(?:/\S*/)?(?:(?:ba|z|da|k|a)?sh\b(?:[^\w.=:/-]|$|[ \t]+-)|(?:python[0-9.]*|node|perl|ruby|php)[ \t]*(?:$|[;&|)\x22'`#]|-[ \t]*$))",
        DECODES,
    ),
    always(
        Rule::DecodeAndExecute,
        r#"(?:\beval\s+["']?|\b(?:ba|z|da|k|a)?sh\s+-\w*c\s+["']?|\b(?:source|(?:ba|z|da|k|a)?sh|\.)\s+<|\bpython[0-9.]*\s+-c\s+["']?)(?:\$\(|`|\()[^\n)`]*?\b(?:base64\s[^\n)`]*?(?:-d|-D|--decode)\b|base32\s+-d\b|xxd\s+[^\n)`]*?-\w*r|uudecode\b)"#,
        DECODES,
    ),
    always(
        Rule::DecodeAndExecute,
        r"(?:^|[^.\w])(?:exec|eval|execfile|loadstring|assert|__import__\(.(?:os|subprocess).\)\.(?:system|popen))\s*\([^\n]{0,120}?(?:b64decode|b32decode|b16decode|b85decode|a85decode|bytes\.fromhex|unhexlify|marshal\.loads|codecs\.decode|zlib\.decompress|gzip\.decompress|base64_decode|gzinflate|str_rot13|Base64\.(?:strict_)?decode64|atob\s*\(|unescape\s*\(|String\.fromCharCode|Buffer\.from\s*\([^\n)]{0,400}?['\x22](?:base64|hex)|\.pack\s*\(.H\*)",
        DECODES,
    ),
    always(
        Rule::DecodeAndExecute,
        r"\b(?:new\s+Function|Function|execSync|spawnSync|os\.system|subprocess\.\w+|vm\.runIn\w+|setTimeout|child_process\.exec\w*)\s*\([^\n;]{0,60}?(?:b64decode\s*\(|atob\s*\(|String\.fromCharCode|Buffer\.from\s*\([^\n)]{0,400}?['\x22](?:base64|hex))",
        DECODES,
    ),
    always(
        Rule::DecodeAndExecute,
        r"(?i)\b(?:powershell|pwsh)(?:\.exe)?\s[^\n]*?-e(?:c|nc|ncodedcommand)?\s+['\x22]?[a-z0-9+/]{20,}|\b(?:iex|invoke-expression)\b[^\n]*?frombase64string|frombase64string[^\n]*?\|\s*(?:iex|invoke-expression)\b",
        DECODES,
    ),
    always(
        Rule::ReverseShell,
        r"/dev/(?:tcp|udp)/[^\s/]+/|\b(?:ba|z|da|k|a)?sh\s+-i\s*(?:[<>&0-9]|\|)|\b(?:nc|ncat|netcat)\b[^\n|;]*?\s-\w*[ec]\s*(?:/\w+)*/?(?:(?:ba|z|da)?sh|cmd)\b|\bmkfifo\b[^\n]*?\|\s*(?:nc|ncat|netcat)\b|\bsocat\b[^\n]*?\bexec:|os\.dup2\s*\(\s*\w+\.fileno\(\)\s*,\s*[012]",
        "Hands a shell to somebody outside",
    ),
    always(
        Rule::ArchivePassword,
        r"\bunzip\s+(?:[^\n|;&]*?\s)?-\w*P\s*[^\s-]|\b7z[azr]?\s+[xe]\s[^\n|;&]*?(?:^|\s)-p[^\s-]\S*|\bunrar\s+[xe]\s[^\n|;&]*?(?:^|\s)-p[^\s-]\S*|\bbsdtar\s[^\n|;&]*?--passphrase\b",
        PACKED,
    ),
    Pattern {
        rule: Rule::ArchivePassword,
        severity: Warning,
        in_prose: Warning,
        expression: r"(?i)\bextractall\s*\([^\n)]*?\bpwd\s*=|\b(?:unzip|extract|unpack|decompress|open)\b[^\n]{0,80}?\b(?:zip|archive|7z|rar)\b[^\n]{0,40}?\b(?:with|using)\s+(?:the\s+)?pass(?:word|code|phrase)\b[\s:]*(?:is\s+)?[`'\x22*\w]|\b(?:zip|archive|7z|rar)(?:\s+file)?(?:'s)?\s+pass(?:word|code)\s*(?:is|:|=)\s*[`'\x22*\w]",
        unless: None,
        message: PACKED,
    },
];

static TABLE: LazyLock<Table> = LazyLock::new(|| Table::new(PATTERNS));

/// A file that is fetched: its name as told, or as the address ends. Two expressions, since one with both would
/// have to read a line to its end for each hit.
static FETCHED: LazyLock<[Regex; 2]> = LazyLock::new(|| {
    [
        regex(
            r"\b(?:curl|wget|aria2c)\s[^\n]*?(?:-o|-O|--output|--output-document|>)[ =]*['\x22]?([\w./~$\{\}-]{2,200})",
        ),
        regex(
            r"\b(?:curl|wget)\s[^\n]*?https?://[^\s'\x22|;&]*/([\w.-]{1,100}\.(?:sh|py|bash|pl|rb|js|bin|run|exe|AppImage))\b",
        ),
    ]
});
/// A file that is run, or made runnable.
static RUN: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r"(?:^|[\s;&|(`'\x22])(?:(?:(?:ba|z|da|k|a)?sh|source|\.|python[0-9.]*|node|perl|ruby|open|start)(?:\s+-\w+)*|chmod\s+[-+\w,]{2,9})\s+['\x22]?([\w./~$\{\}-]{2,200})|(?:^|[;&|(]|\bsudo)[ \t]*['\x22]?((?:\./|/|~/|\$)[\w./$\{\}-]{1,200})",
    )
});
/// A value that is decoded; its name.
static DECODED: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r"\b([A-Za-z_]\w*)\s*=\s*[^\n]{0,200}?(?:b64decode|b32decode|b85decode|a85decode|bytes\.fromhex|unhexlify|marshal\.loads|zlib\.decompress|atob\s*\(|String\.fromCharCode|base64\s+(?:-d|--decode)|base64_decode|Buffer\.from\s*\([^\n]{0,400}?['\x22](?:base64|hex))",
    )
});
/// A value that is run; its name.
static EXECUTED: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r#"(?:^|[^.\w])(?:exec|eval|execSync|new\s+Function|Function|os\.system|loadstring|compile)\s*\(\s*([A-Za-z_]\w*)\b|\beval\s+["']?\$\{?(\w+)|\b(?:ba|z)?sh\s+-c\s+["']?\$\{?(\w+)"#,
    )
});

/// Lines between fetching a file and running it.
const SOON: usize = 8;
/// Bytes of them that are looked at.
const MAX_SOON: usize = 2048;

pub(super) fn check(text: &Text<'_>, findings: &mut Findings) {
    TABLE.check(text, findings);
    fetched_then_run(text, findings);
    decoded_then_run(text, findings);
}

fn fetched_then_run(text: &Text<'_>, findings: &mut Findings) {
    let hits = FETCHED.iter().flat_map(|fetched| fetched.captures_iter(&text.bytes));
    for (whole, name) in hits.filter_map(|hit| Some((hit.get(0)?, hit.get(1)?))) {
        let name = base(name.as_bytes());
        let after = soon(text, whole.end());
        let mut runs = RUN.captures_iter(after).filter_map(|run| run.get(1).or(run.get(2)));
        if !name.is_empty() && runs.any(|run| base(run.as_bytes()) == name) {
            let severity = if text.is_prose() { Warning } else { Danger };
            if !findings.at(text, whole.range(), (Rule::PipeToShell, severity), REMOTE) {
                break;
            }
        }
    }
}

/// What stands in the next few lines.
fn soon<'a>(text: &'a Text<'_>, at: usize) -> &'a [u8] {
    let mut end = at;
    for _ in 0..SOON {
        end = (text.line_range(end).end + 1).min(text.bytes.len());
    }
    &text.bytes[at..end.min(at + MAX_SOON)]
}

fn base(path: &[u8]) -> &[u8] {
    path.rsplit(|b| *b == b'/').next().unwrap_or(path)
}

fn decoded_then_run(text: &Text<'_>, findings: &mut Findings) {
    let decoded: BTreeSet<&[u8]> =
        DECODED.captures_iter(&text.bytes).filter_map(|c| c.get(1)).map(|name| name.as_bytes()).collect();
    if decoded.is_empty() {
        return;
    }
    for hit in EXECUTED.captures_iter(&text.bytes) {
        let name = hit.get(1).or(hit.get(2)).or(hit.get(3));
        if let (Some(whole), Some(name)) = (hit.get(0), name)
            && decoded.contains(name.as_bytes())
            && !findings.at(text, whole.range(), (Rule::DecodeAndExecute, Danger), DECODES)
        {
            break;
        }
    }
}
