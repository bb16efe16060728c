//! Keys, tokens and passwords that stand in the text: they are spent, and they are somebody's.
//!
//! Formats as their issuers print them; besides, long values of names that sound like secrets. What is
//! told of a value is its beginning and its length.

use std::{collections::BTreeSet, sync::LazyLock};

use regex::bytes::Regex;

use super::{
    finding::{
        Findings, Rule,
        Severity::{Danger, Warning},
    },
    pattern::regex,
    text::Text,
};

/// Name of the issuer, and the format; the value is the first group, or all.
const FORMATS: [(&str, &str); 26] = [
    (
        "a private key",
        r"-----BEGIN (?:[A-Z]+ )*PRIVATE KEY(?: BLOCK)?-----\s*\r?\n(?:[^\n-]*: [^\n]*\n)*\s*([A-Za-z0-9+/=\r\n]{40,400})",
    ),
    ("a private key", r"-----BEGIN (?:[A-Z]+ )*PRIVATE KEY-----\\n([A-Za-z0-9+/=\\]{40,400})"),
    ("an AWS access key", r"\b((?:AKIA|ASIA)[A-Z2-7]{16})\b"),
    ("a GitHub token", r"\b(gh[pousr]_[A-Za-z0-9]{36,251})\b"),
    ("a GitHub token", r"\b(github_pat_[A-Za-z0-9_]{60,100})\b"),
    ("a GitLab token", r"\b(glpat-[A-Za-z0-9_-]{20,64})\b"),
    ("a Slack token", r"\b(xox[abeprs]-[A-Za-z0-9-]{20,250})\b"),
    ("a Slack webhook", r"(https://hooks\.slack\.com/(?:services|workflows)/[A-Za-z0-9/]{30,120})"),
    ("a Discord webhook", r"(https://discord(?:app)?\.com/api/webhooks/[0-9]{16,20}/[\w-]{40,100})"),
    ("a Stripe key", r"\b((?:sk|rk)_live_[A-Za-z0-9]{20,247})\b"),
    ("an Anthropic key", r"\b(sk-ant-[A-Za-z0-9_-]{30,200})"),
    ("an OpenAI key", r"\b(sk-(?:proj|svcacct|admin)-[A-Za-z0-9_-]{30,250})"),
    ("an OpenAI key", r"\b(sk-[A-Za-z0-9]{20}T3BlbkFJ[A-Za-z0-9]{20})\b"),
    ("an OpenRouter key", r"\b(sk-or-v1-[a-f0-9]{60,70})\b"),
    ("a Google API key", r"\b(AIza[A-Za-z0-9_-]{35})"),
    ("a Google OAuth secret", r"\b(GOCSPX-[A-Za-z0-9_-]{28})"),
    ("a Hugging Face token", r"\b(hf_[A-Za-z]{34})\b"),
    ("an npm token", r"\b(npm_[A-Za-z0-9]{36})\b"),
    ("a PyPI token", r"\b(pypi-AgE[A-Za-z0-9_-]{50,250})"),
    ("a Telegram bot token", r"\b([0-9]{8,10}:AA[A-Za-z0-9_-]{33})\b"),
    ("a SendGrid key", r"\b(SG\.[A-Za-z0-9_-]{16,32}\.[A-Za-z0-9_-]{40,50})"),
    ("a DigitalOcean token", r"\b(do[opr]_v1_[a-f0-9]{64})\b"),
    ("a Groq key", r"\b(gsk_[A-Za-z0-9]{40,60})\b"),
    ("an age key", r"\b(AGE-SECRET-KEY-1[0-9A-Z]{50,60})\b"),
    ("a JSON web token", r"\b(eyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{20,})"),
    (
        "a password in an address",
        r"\b[a-z][a-z0-9+]{1,20}://[^\s:/@'\x22<>]{1,60}:([^\s:/@'\x22<>{}$*]{6,100})@[\w.-]{3,}",
    ),
];
static KNOWN: LazyLock<Vec<(&str, Regex)>> =
    LazyLock::new(|| FORMATS.iter().map(|(name, format)| (*name, regex(format))).collect());
static NAMED: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r"(?i)\b[\w.-]{0,40}(?:api[_-]?key|secret|token|passwd|password|access[_-]?key|private[_-]?key|bearer)[\w-]{0,20}['\x22]?\s{0,4}(?::|=|=>|:=)\s{0,4}['\x22`]([A-Za-z0-9+/_.~!@#%^&*=-]{20,200})['\x22`]",
    )
});
/// What people write where a key would stand.
static PLACEHOLDER: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r"(?i)example|placeholder|your|xxxx|\.\.\.|changeme|replace|dummy|sample|insert|redacted|fake|test|demo|todo|12345|abcde|<|\$\{|\*\*\*|aaaa|0000|process\.env|os\.environ|password|secret[_-]|hunter2|user:pass",
    )
});
/// Bits a character, below which a value is a word rather than a key.
const ENTROPY: f64 = 3.7;

pub(super) fn check(text: &Text<'_>, findings: &mut Findings) {
    let mut told = BTreeSet::new();
    for (name, format) in KNOWN.iter() {
        for value in format.captures_iter(&text.bytes).filter_map(|hit| hit.get(1)) {
            if !placeholder(name, value.as_bytes()) && told.insert(value.start()) {
                let severity = if *name == "a private key" { Danger } else { Warning };
                if !tell(text, (value.start(), value.as_bytes()), (name, severity), findings) {
                    return;
                }
            }
        }
    }
    for value in NAMED.captures_iter(&text.bytes).filter_map(|hit| hit.get(1)) {
        let bytes = value.as_bytes();
        let mixed = bytes.iter().any(u8::is_ascii_digit) && bytes.iter().any(u8::is_ascii_alphabetic);
        if mixed
            && entropy(bytes) >= ENTROPY
            && !placeholder("", bytes)
            && told.insert(value.start())
            && !tell(text, (value.start(), bytes), ("a value that looks like a secret", Warning), findings)
        {
            return;
        }
    }
}

fn tell(
    text: &Text<'_>,
    (at, value): (usize, &[u8]),
    (name, severity): (&str, super::Severity),
    findings: &mut Findings,
) -> bool {
    let message = format!("Holds {name}: revoke it if it is real, and declare a secret instead");
    findings.push(Rule::SecretLiteral, severity, text.line(at), &masked(value), message)
}

/// The beginning, which tells the format, and the length.
fn masked(value: &[u8]) -> String {
    let shown = if value.len() >= 20 { 4 } else { 0 };
    format!("{}… ({} characters)", String::from_utf8_lossy(&value[..shown]), value.len())
}

fn placeholder(name: &str, value: &[u8]) -> bool {
    let distinct: BTreeSet<u8> = value.iter().copied().collect();
    let key = name == "a private key";
    distinct.len() < 5 || (!key && PLACEHOLDER.is_match(value)) || (key && distinct.len() < 12)
}

/// Shannon's, of the bytes, in bits.
fn entropy(bytes: &[u8]) -> f64 {
    let mut counts = [0_u32; 256];
    bytes.iter().for_each(|b| counts[usize::from(*b)] += 1);
    let length = bytes.len().max(1) as f64;
    counts.iter().filter(|n| **n > 0).map(|n| f64::from(*n) / length).map(|p| -p * p.log2()).sum()
}
