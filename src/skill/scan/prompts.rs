//! Orders to the model: against its user, or fetched at run time.
//!
//! Words only; an order put otherwise is not found. Comments count as text: models read them.

use std::sync::LazyLock;

use super::{
    finding::{
        Findings, Rule,
        Severity::{Danger, Info, Warning},
    },
    pattern::{Pattern, Table},
    text::Text,
};

const AGAINST: &str = "Orders the model to set its instructions aside";
const SECRET: &str = "Orders the model to keep something from its user: see what";
const FETCHED: &str =
    "Lets the model follow text from the network: it is not in this version and can change at any time";

const fn both(
    rule: Rule,
    severity: super::Severity,
    expression: &'static str,
    message: &'static str,
) -> Pattern {
    Pattern { rule, severity, in_prose: severity, expression, unless: None, message }
}

const PATTERNS: &[Pattern] = &[
    Pattern {
        rule: Rule::ModelInstruction,
        severity: Danger,
        in_prose: Danger,
        expression: r"(?i)\b(?:ignore|disregard|forget|override|bypass|discard)\s+(?:(?:all|any|every|the|your|these|those|of|my|our)\s+){0,3}(?:previous|prior|above|earlier|preceding|system|existing|original|former|safety|developer)\s+(?:(?:safety|system|security|user)\s+)?(?:instructions?|rules|prompts?|guidelines|directives|constraints|messages|context|restrictions)\b",
        unless: Some(
            r"(?i)\b(?:such\s+as|e\.g\.|like|contains?|detect\w*|attempts?|injection|attack\w*|jailbreak\w*|never|don'?t|do\s+not|refuse|resist\w*|phrases?|patterns?|treat)\b",
        ),
        message: AGAINST,
    },
    // The same words where somebody speaks about such orders: worth a look, not an alarm.
    Pattern {
        rule: Rule::ModelInstruction,
        severity: Info,
        in_prose: Info,
        expression: r"(?i)\b(?:ignore|disregard|forget|override|bypass|discard)\s+(?:(?:all|any|every|the|your|these|those|of|my|our)\s+){0,3}(?:previous|prior|above|earlier|preceding|system|existing|original|former|safety|developer)\s+(?:(?:safety|system|security|user)\s+)?(?:instructions?|rules|prompts?|guidelines|directives|constraints|messages|context|restrictions)\b[^\n]*",
        unless: None,
        message: "Speaks of setting instructions aside: see whether it warns or orders",
    },
    Pattern {
        rule: Rule::ModelInstruction,
        severity: Danger,
        in_prose: Danger,
        expression: r"(?i)\b(?:do\s+not|don'?t|never|must\s+not|should\s+not|without)\s+(?:ever\s+)?(?:tell|telling|inform|informing|notify|notifying|alert|alerting|reveal(?:ing)?(?:\s+(?:this|it|that))?\s+to|mention(?:ing)?(?:\s+(?:this|it|that|these|any\s+of\s+this))\s+to|show(?:ing)?\s+(?:this|it|that)\s+to|disclos(?:e|ing)\s+(?:this|it|that)\s+to|report(?:ing)?\s+(?:this|it|that)\s+to)\s+(?:the\s+|your\s+|any\s+)?(?:users?|humans?|operators?|owners?|people|anyone|anybody|them|him|her)\b(?:\s+(?:about|of|that|what|why)|\s*[.,;:!)]|\s*$|\s+(?:before|when|while|and)\b)",
        unless: None,
        message: SECRET,
    },
    both(
        Rule::ModelInstruction,
        Danger,
        r"(?i)\b(?:hide|conceal|keep)\s+(?:this|it|that|these|the\s+\w+)\s+(?:hidden\s+|secret\s+)?from\s+(?:the\s+|your\s+)?(?:users?|humans?|operators?|owners?)\b|\b(?:secretly|covertly|stealthily)\s+(?:send|upload|post|copy|run|execute|install|download|exfiltrate|forward|append|write|collect|record|read|add)\b|\bexfiltrate\s+(?:the|all|any|this|these|your|user)\b",
        SECRET,
    ),
    Pattern {
        rule: Rule::ModelInstruction,
        severity: Warning,
        in_prose: Warning,
        expression: r"(?i)\b(?:run|execute|send|upload|install|push|post|transfer|pay|buy|download|proceed|approve|accept)\b[^\n.]{0,60}?\bwithout\s+(?:asking|confirming|(?:any\s+|user\s+|the\s+user'?s?\s+|explicit\s+|further\s+)*(?:confirmation|consent|approval|permission)|telling|informing|prompting|notifying)\b",
        unless: Some(r"(?i)\b(?:do\s+not|don'?t|never|only\s+(?:when|if)|unless)\b"),
        message: "Lets the model act without asking: see what it does",
    },
    both(
        Rule::ModelInstruction,
        Danger,
        r"(?i)<\|?(?:im_start|im_end|start_header_id|endoftext|begin_of_text)\|?>|\[/?INST\]|<</?SYS>>|^\s*</?(?:system|system-reminder|system_prompt|important_system)>\s*$",
        "Imitates the marks that separate roles in a conversation: the model may take it for its operator",
    ),
    both(
        Rule::ModelInstruction,
        Danger,
        r"(?i)\byou\s+are\s+(?:now\s+)?(?:in\s+)?(?:DAN\b|(?:developer|god|jailbreak|unrestricted)\s+mode|jailbroken|no\s+longer\s+(?:bound|restricted|limited))|\b(?:reveal|print|output|repeat|leak)\s+(?:your|the)\s+(?:full\s+|entire\s+|hidden\s+)?system\s+prompt\b",
        AGAINST,
    ),
    both(
        Rule::RemoteInstruction,
        Danger,
        r"(?i)\b(?:follow|obey|execute|run|apply|perform|carry\s+out)\s+(?:all\s+|any\s+|the\s+|its\s+|every\s+)*(?:latest\s+|current\s+|updated\s+|new\s+)*(?:instructions?|steps|commands|directions|orders|tasks|prompts?)\s+(?:\w+\s+){0,4}?(?:at|from|on|in|found\s+at|returned\s+by|served\s+at|provided\s+by)\s+[`<(\x22']*(?:https?://|\$\{?\w*URL)",
        FETCHED,
    ),
    both(
        Rule::RemoteInstruction,
        Danger,
        r"(?i)\b(?:fetch|download|retrieve|get|load|curl|wget|open|visit|read|check|go\s+to)\b[^\n]{0,60}?https?://[^\s)>\x22'`]+[^\n]{0,60}?\b(?:and|then)\b[^\n]{0,25}?\b(?:follow|obey|execute|do|apply|perform|carry\s+out)\b[^\n]{0,30}?\b(?:instructions?|steps|commands|directions|orders|says?|it|them|told|tells?)\b",
        FETCHED,
    ),
    both(
        Rule::RemoteInstruction,
        Warning,
        r"(?i)\b(?:latest|current|up-to-date|updated|additional|further|remote)\s+(?:instructions?|prompts?|commands|orders|rules|guidelines)\b[^\n]{0,40}?\b(?:at|from|in)\s+[`<(\[\x22']*https?://|\b(?:fetch|webfetch|retrieve|load)\b[^\n]{0,60}?\b(?:instructions?|guidelines|rules|prompts?)\b[^\n]{0,40}?https?://",
        FETCHED,
    ),
];

static TABLE: LazyLock<Table> = LazyLock::new(|| Table::new(PATTERNS));

pub(super) fn check(text: &Text<'_>, findings: &mut Findings) {
    TABLE.check(text, findings);
}
