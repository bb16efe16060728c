//! Reaching for what is not the skill's: keys and wallets, what agents read as their own mind, and places
//! from which something starts again.

use std::sync::LazyLock;

use super::{
    finding::{
        Findings, Rule,
        Severity::{Danger, Info, Warning},
    },
    pattern::{Pattern, Table},
    text::Text,
};

const KEYS: &str = "Reaches for keys, wallets or stored passwords: see why, and where the content goes";
const MEMORY: &str = "Writes what agents read as their own orders or memory, or into other skills: it would outlive this skill";
const STAYS: &str =
    "Sets up something that starts again by itself or lets somebody in: ask why a skill needs it";

macro_rules! mind {
    () => {
        r"(?:\bsoul\.md|\bCLAUDE(?:\.local)?\.md|\bAGENTS?\.md|\bGEMINI\.md|\bMEMORY\.md|\bmemory/[\w.-]+\.md|\.cursorrules|\.windsurfrules|\bcopilot-instructions\.md|/skills/custom/[\w./$\{\}-]*|\.claude/(?:settings[\w.]*|(?:agents|commands|hooks|memory)[\w./-]*)|\.mcp\.json)"
    };
}
macro_rules! skills {
    () => {
        r"\.(?:claude|agents)/skills/?"
    };
}

const PATTERNS: &[Pattern] = &[
    Pattern {
        rule: Rule::CredentialAccess,
        severity: Danger,
        in_prose: Warning,
        expression: r"(?i)\.ssh/(?:id_\w+|\*|identity)|\bid_(?:rsa|ed25519|ecdsa)\b|\.aws/credentials|\.config/gcloud/(?:application_default_credentials|credentials)|\.netrc\b|\.git-credentials|\.docker/config\.json|\.kube/config\b|/proc/(?:self|\d+|1|\*|\$\w+)/environ|/etc/shadow\b|\.gnupg/(?:private|secring)|\.config/gh/hosts\.yml",
        unless: Some(
            r"(?i)\.gitignore|never\s+(?:commit|read|access)|do\s+not\s+(?:commit|read|access)|\.pub\b",
        ),
        message: KEYS,
    },
    Pattern {
        rule: Rule::CredentialAccess,
        severity: Danger,
        in_prose: Warning,
        expression: r"(?i)\bwallet\.dat\b|\bLogin Data\b|\bcookies\.sqlite\b|\blogins\.json\b|\bkey4\.db\b|\bsecurity\s+(?:find-generic-password|find-internet-password|dump-keychain)|login\.keychain|/(?:Exodus|Electrum|Ethereum|Atomic)/(?:wallets?|keystore)|\bnkbihfbeogaeaoehlefnkodbefgpgknn\b|\bmetamask\b[^\n]{0,40}\bvault\b",
        unless: None,
        message: KEYS,
    },
    Pattern {
        rule: Rule::CredentialAccess,
        severity: Danger,
        in_prose: Danger,
        expression: r"\b(?:printenv|env|export\s+-p|set)\s*\|\s*(?:curl|nc|ncat|base64|wget|gzip)\b|\b(?:curl|wget|nc)\b[^\n]*?\$\((?:printenv|env)\)|\b(?:curl|wget)\b[^\n]*?(?:--data\S*|-d|-F|--upload-file|-T)[ =]?[^\n]*?@?(?:~|\$HOME)?/\.(?:ssh|aws|gnupg|netrc|env)\b|(?:fetch|axios\.post|requests\.post|urlopen)\s*\([^\n]*?(?:JSON\.stringify\(process\.env\)|dict\(os\.environ\)|\bos\.environ\s*[,)])",
        unless: None,
        message: "Sends the environment or key files away",
    },
    Pattern {
        rule: Rule::CredentialAccess,
        severity: Danger,
        in_prose: Warning,
        expression: r"169\.254\.169\.254|\bmetadata\.google\.internal\b|\b100\.100\.100\.200\b",
        unless: Some(r"(?i)\b(?:block|deny|denied|forbid|refuse|except)\w*\b|169\.254\.169\.254/32"),
        message: "Asks the cloud's metadata service, which hands out keys of the machine",
    },
    Pattern {
        rule: Rule::CredentialAccess,
        severity: Warning,
        in_prose: Warning,
        expression: r"JSON\.stringify\(\s*process\.env\s*[,)]|json\.dumps\(\s*dict\(os\.environ\)",
        unless: None,
        message: "Writes out the whole environment, secrets included: see where it goes",
    },
    Pattern {
        rule: Rule::MemoryWrite,
        severity: Danger,
        in_prose: Danger,
        expression: concat!(
            r"(?i)(?:>>|\b(?:echo|cat|printf|curl|wget|jq|sed|awk|node|python[0-9.]*)\b[^\n]*?>|\btee\s+(?:-a\s+)?|\bsed\s+-i\S*\s[^\n|;]*?)\s*['\x22]?[\w./~$\{\}-]*",
            mind!(),
            r"|\b(?:cp|mv|ln|install)\s+[^\n|;&]*?\s['\x22]?[\w./~$\{\}-]*",
            mind!(),
            r"['\x22]?[ \t]*(?:$|[;&|)`]|2>)"
        ),
        unless: None,
        message: MEMORY,
    },
    // How a skill is installed by hand, elsewhere.
    Pattern {
        rule: Rule::MemoryWrite,
        severity: Warning,
        in_prose: Info,
        expression: concat!(
            r"(?i)\b(?:cp|mv|ln|install|git\s+clone)\s+[^\n|;&]*?\s['\x22]?[\w./~$\{\}-]*",
            skills!(),
            r"[\w./$\{\}-]*['\x22]?[ \t]*(?:$|[;&|)`]|2>)|>\s*['\x22]?[\w./~$\{\}-]*",
            skills!()
        ),
        unless: None,
        message: "Copies into a folder of skills: see that it is its own",
    },
    Pattern {
        rule: Rule::MemoryWrite,
        severity: Danger,
        in_prose: Warning,
        expression: concat!(
            r"(?i)(?:writeFile(?:Sync)?|appendFile(?:Sync)?|createWriteStream)\s*\([^\n;]{0,120}?",
            mind!()
        ),
        unless: None,
        message: MEMORY,
    },
    Pattern {
        rule: Rule::MemoryWrite,
        severity: Danger,
        in_prose: Warning,
        expression: concat!(
            r"(?i)\bopen\s*\([^\n;)]{0,120}?",
            mind!(),
            r"[^\n;]{0,30}?,\s*(?:mode\s*=\s*)?['\x22][wax]|",
            mind!(),
            r"['\x22]?\s*\)\.(?:write_text|open\(['\x22][wa])"
        ),
        unless: None,
        message: MEMORY,
    },
    Pattern {
        rule: Rule::MemoryWrite,
        severity: Warning,
        in_prose: Warning,
        expression: concat!(
            r"(?i)(?:^|[\s*`-])(?:add|append|write|save|insert|put|store|copy|prepend|inject)\s[^\n]{0,80}?\b(?:to|into|in)\s+(?:the\s+|your\s+|its\s+|their\s+|user'?s?\s+)?[`'\x22*]*[\w./~$-]*",
            mind!(),
            r"|(?i)(?:^|[\s*`-])(?:update|modify|edit|overwrite|replace|rewrite|change)\s+(?:the\s+|your\s+|its\s+)?[`'\x22*]*[\w./~$-]*",
            mind!()
        ),
        unless: Some(
            r"(?i)\b(?:do\s+not|don'?t|never|must\s+not|should\s+not|avoid)\b[^\n]{0,40}\b(?:add|append|write|save|insert|put|store|copy|update|modify|edit|overwrite|replace|change)",
        ),
        message: MEMORY,
    },
    Pattern {
        rule: Rule::Persistence,
        severity: Danger,
        in_prose: Warning,
        expression: r"(?i)\bcrontab\s+(?:-\s*(?:$|[\s;&|'\x22`)])|-[^\slreu]|[\w./~$]+\s*$)|\|\s*crontab\b|/etc/cron\.\w+/|/var/spool/cron|\bsystemctl\s+(?:--user\s+)?enable\b|\.config/systemd/user|/etc/systemd/system/|\blaunchctl\s+(?:load|bootstrap)\b|Library/Launch(?:Agents|Daemons)|\bschtasks\s+/create\b|CurrentVersion\\+Run\b|authorized_keys\b|/etc/(?:rc\.local|profile\.d/|ld\.so\.preload)|\bLD_PRELOAD=",
        unless: None,
        message: STAYS,
    },
    Pattern {
        rule: Rule::Persistence,
        severity: Danger,
        in_prose: Warning,
        expression: r"(?:>>?|\btee\s+(?:-a\s+)?)\s*['\x22]?[\w/~$\{\}]*\.(?:bashrc|bash_profile|profile|zshrc|zprofile|zshenv)\b|\.git/hooks/(?:pre|post|commit)-?\w*|core\.hooksPath",
        unless: None,
        message: STAYS,
    },
    Pattern {
        rule: Rule::Persistence,
        severity: Warning,
        in_prose: Info,
        expression: r"\bskep\s+(?:job|skill|secret|approve)\s+(?:add|set|publish|approve)\b|/skep/api\.sock|\bSKEP_API\b",
        unless: None,
        message: "Speaks to the supervisor by itself: see which jobs, skills or tasks it makes",
    },
];

static TABLE: LazyLock<Table> = LazyLock::new(|| Table::new(PATTERNS));

pub(super) fn check(text: &Text<'_>, findings: &mut Findings) {
    TABLE.check(text, findings);
}
