//! The words of a request: the contract's, those of `skep.toml`, and those of the Annabelle documents (systems.md A6).
//!
//! Every word is also known in camel case. What a word's value means is not told here.

use crate::config::keys::nearest;

/// A key, and what else it may be called.
pub(super) type Word = (&'static str, &'static [&'static str]);

/// A job; the words of [`TRIGGER`] may stand beside these.
pub(super) const JOB: &[Word] = &[
    ("agent", &["agent_id"]),
    ("name", &[]),
    ("description", &[]),
    ("enabled", &[]),
    ("trigger", &["trigger_config"]),
    ("tool", &["tool_name"]),
    ("args", &["params", "parameters"]),
    ("instructions", &[]),
    ("execution_plan", &[]),
    ("preflight", &[]),
    ("required_tools", &[]),
    ("max_steps", &[]),
    ("timeout", &[]),
    ("missed", &[]),
    ("missed_within", &[]),
    ("overlap", &[]),
    ("retries", &[]),
    ("jitter", &[]),
    ("notify", &[]),
    ("notify_on_completion", &[]),
    ("notify_interval_minutes", &[]),
];

/// `trigger`, `trigger_config`.
pub(super) const TRIGGER: &[Word] = &[
    ("type", &["trigger_type"]),
    ("schedule", &["cron", "cron_expression"]),
    ("every", &["interval"]),
    ("interval_minutes", &[]),
    ("at", &[]),
    ("in_minutes", &[]),
    ("in_hours", &[]),
    ("event", &["events", "event_name"]),
    ("manual", &[]),
    ("timezone", &["time_zone", "tz"]),
];

/// `notify`.
pub(super) const NOTIFY: &[Word] = &[
    ("on_completion", &["notify_on_completion"]),
    ("interval_minutes", &["notify_interval_minutes"]),
    ("targets", &["target"]),
];

/// A step of `execution_plan`; the last ones only name it.
pub(super) const STEP: &[Word] = &[
    ("tool", &["tool_name"]),
    ("args", &["params", "parameters", "arguments"]),
    ("id", &[]),
    ("name", &[]),
    ("description", &[]),
];

/// What a preview asks beside a trigger.
pub(super) const PREVIEW: &[Word] = &[("after", &[]), ("count", &[])];

/// What the supervisor writes about a job; a client that sends back what it got may leave it in.
const READ_ONLY: &[&str] = &[
    "id",
    "tier",
    "origin",
    "disabled_reason",
    "waiting_reason",
    "missing_tools",
    "warnings",
    "next_fire_at",
    "next_fires",
    "last_run",
    "last_run_at",
    "last_run_status",
    "last_run_summary",
    "last_notified_at",
    "consecutive_failures",
    "backoff_until",
    "created_at",
    "updated_at",
];

/// What later versions know.
const LATER: &[&str] = &["keywords", "priority", "model"];

/// What a key is.
pub(super) enum Known {
    /// A word, by its first name.
    Word(&'static str),
    /// Told by the supervisor: passed over.
    ReadOnly,
    /// Not in this version.
    Later,
    /// Unknown; what to do about it.
    No(String),
}

/// Looks a key up among the words that may stand where it stands.
pub(super) fn look_up(written: &str, lists: &[&'static [Word]], whole_job: bool) -> Known {
    let key = snake(written);
    let words = || lists.iter().copied().flatten();
    if let Some((name, _)) = words().find(|(name, aliases)| *name == key || aliases.contains(&key.as_str())) {
        return Known::Word(name);
    }
    if whole_job && READ_ONLY.contains(&key.as_str()) {
        return Known::ReadOnly;
    }
    if LATER.contains(&key.as_str()) {
        return Known::Later;
    }
    let all = words().flat_map(|(name, aliases)| std::iter::once(name).chain(*aliases)).copied();
    Known::No(match (nearest(&key, all), home(&key)) {
        (Some(near), _) => format!("did you mean \"{near}\"?"),
        (None, Some(home)) => format!("it belongs in {home}"),
        (None, None) => {
            let names: Vec<_> = words().map(|(name, _)| *name).collect();
            format!("known keys are {}", names.join(", "))
        }
    })
}

fn home(key: &str) -> Option<&'static str> {
    [("the job itself", JOB), ("trigger", TRIGGER), ("notify", NOTIFY)]
        .into_iter()
        .find(|(_, words)| words.iter().any(|(name, _)| *name == key))
        .map(|(home, _)| home)
}

/// `cronExpression`, `cron-expression` → `cron_expression`.
fn snake(written: &str) -> String {
    let mut key = String::new();
    for c in written.chars() {
        if c.is_ascii_uppercase() && !key.is_empty() && !key.ends_with('_') {
            key.push('_');
        }
        key.push(if c == '-' { '_' } else { c.to_ascii_lowercase() });
    }
    key
}
