//! Every key that `skep.toml` knows, in one table: what is not here is an unknown key.
//!
//! Serves the parser (unknown keys, suggestions) and the written reference. It checks no values.

use std::fmt::Write as _;

/// One key of a section.
#[derive(Debug, Clone, Copy)]
pub struct Key {
    /// As written in the file.
    pub name: &'static str,
    /// What may stand there, as an example or a choice.
    pub form: &'static str,
    /// What holds when it is left out.
    pub default: &'static str,
    /// What it means.
    pub doc: &'static str,
}

const fn key(name: &'static str, form: &'static str, default: &'static str, doc: &'static str) -> Key {
    Key { name, form, default, doc }
}

/// The top level of the file.
pub const ROOT: &[Key] = &[
    key("hive", "table", "", "the hive itself"),
    key("api", "table", "", "where the HTTP API listens"),
    key("registry", "table", "", "where skills come from"),
    key("secrets", "table", "", "where secrets are kept"),
    key("defaults", "table", "", "values for all agents: any agent key but skills and jobs"),
    key("agents", "table", "", "the agents, one table each"),
    key("runs", "table", "", "limits and retention of runs"),
    key("notify", "table", "", "who is told of runs"),
    key("tools", "table", "", "parameters that calls of tools are given, and that are taken from them"),
    key("preflight", "array of tables", "", "checks before a run"),
    key("model", "table", "", "the model endpoint"),
];

/// `[hive]`.
pub const HIVE: &[Key] = &[
    key("name", "\"demo\"", "the folder's name", "name of the hive; part of every container's name"),
    key("timezone", "\"Europe/Berlin\"", "the system's", "IANA time zone of the hive"),
    key("default_agent", "\"manager\"", "none", "agent that answers when none is named"),
    key(
        "ca_bundle",
        "\"ca.pem\"",
        "none",
        "PEM file with certificate authorities for image builds, containers and notices; absolute or relative to the hive",
    ),
];

/// `[api]`.
pub const API: &[Key] = &[
    key(
        "listen",
        "\"127.0.0.1:7117\" | \"none\"",
        "\"127.0.0.1:7117\"",
        "TCP address of the API; \"none\" leaves only the unix socket",
    ),
    key(
        "allowed_hosts",
        "[\"localhost\"]",
        "[\"localhost\"]",
        "host names accepted in Host and Origin, beside loopback addresses",
    ),
    key(
        "agent_requests_per_second",
        "50",
        "50",
        "requests that each agent may make at its own socket; four times as many at once",
    ),
];

/// `[registry]`.
pub const REGISTRY: &[Key] = &[
    key(
        "sources",
        "[\"skills\"]",
        "[\"skills\"]",
        "folders with skill sources, relative to the hive or absolute",
    ),
    key(
        "agent_skills",
        "\"manual\" | \"auto\"",
        "\"manual\"",
        "whether skills that agents write need approval",
    ),
    key("poll", "\"2s\"", "", "look at what agents write this often, where their folders tell of no changes"),
    key(
        "environment",
        "[\"CITY\"]",
        "[]",
        "names of the supervisor's own environment that variables of skills may take",
    ),
    key("limits", "table", "", "largest skill accepted"),
];

/// `[registry.limits]`.
pub const LIMITS: &[Key] = &[
    key("files", "2000", "2000", "files a skill"),
    key("total", "\"64MiB\"", "\"64MiB\"", "bytes a skill"),
    key("file", "\"16MiB\"", "\"16MiB\"", "bytes a file"),
    key("manifest", "\"1MiB\"", "\"1MiB\"", "bytes of manifest.json or SKILL.md"),
];

/// `[secrets]`.
pub const SECRETS: &[Key] = &[key(
    "file",
    "\"secrets/env.json\"",
    "\"secrets/env.json\"",
    "JSON object of names and values, relative to the hive",
)];

/// `[notify]`.
pub const NOTIFY: &[Key] = &[
    key(
        "interval_minutes",
        "30",
        "SKILL_NOTIFY_INTERVAL_MINUTES, else 0",
        "least minutes between two notices of one job; 0 is none",
    ),
    key(
        "allow",
        "[\"127.0.0.1:9000\", \"10.0.0.0/8\", \"hooks.lan\"]",
        "[]",
        "loopback, private and link-local targets that may be reached: host, address or network, with a port or any",
    ),
    key("webhook", "array of tables", "none", "addresses that a JSON body is posted to"),
    key("telegram", "array of tables", "none", "chats that a Telegram bot writes into"),
    key("ntfy", "array of tables", "none", "topics of an ntfy server"),
];

/// `[[notify.webhook]]`.
pub const WEBHOOK: &[Key] = &[
    key("name", "\"ops\"", "webhook-1, …", "what jobs call it"),
    key(
        "url",
        "\"https://hooks.example.com/x\"",
        "required",
        "where to; may hold ${SECRET_NAME} behind the host",
    ),
    key("secret", "\"HOOK_SECRET\"", "none", "name of the secret that signs (Standard Webhooks)"),
    key(
        "headers",
        "{ Authorization = \"Bearer ${HOOK_TOKEN}\" }",
        "{}",
        "headers sent as well; may hold ${SECRET_NAME}",
    ),
];

/// `[[notify.telegram]]`.
pub const TELEGRAM: &[Key] = &[
    key("name", "\"me\"", "telegram-1, …", "what jobs call it"),
    key("chat_id", "\"8304042211\" | \"@channel\"", "required", "the chat"),
    key("token", "\"TELEGRAM_TOKEN\"", "required", "name of the secret with the bot's token"),
    key("base_url", "\"https://api.telegram.org\"", "\"https://api.telegram.org\"", "the Bot API"),
];

/// `[[notify.ntfy]]`.
pub const NTFY: &[Key] = &[
    key("name", "\"phone\"", "ntfy-1, …", "what jobs call it"),
    key("url", "\"https://ntfy.sh\"", "required", "the server, without the topic"),
    key("topic", "\"my-alerts\"", "required", "the topic"),
    key("token", "\"NTFY_TOKEN\"", "none", "name of the secret with an access token"),
    key("priority", "1 to 5", "the server's", "how urgent; 5 is the most"),
];

/// `[tools]`; in an agent's table only `defaults`.
pub const TOOLS: &[Key] = &[
    key(
        "defaults",
        "{ send = { chat_id = \"8304042211\" } }",
        "{}",
        "by tool: parameters of calls that leave them out",
    ),
    key("strip", "array of tables", "`teamId` and `slug` of `vercel_*`", "parameters that models invent"),
];

/// `[[tools.strip]]`.
pub const STRIP: &[Key] = &[
    key("tools", "\"vercel_*\"", "required", "names of tools; * stands for anything"),
    key("parameters", "[\"teamId\"]", "required", "what is taken from their calls"),
];

/// `[agents.<id>.tools]`.
pub const AGENT_TOOLS: &[Key] =
    &[key("defaults", "{ send = { chat_id = \"8304042211\" } }", "{}", "as in [tools]; these come first")];

/// `[agents.<id>]`; all but `skills` and `jobs` also in `[defaults]`.
pub const AGENT: &[Key] = &[
    key("description", "\"Writes the weekly report\"", "\"\"", "for people"),
    key("soul", "\"souls/writer.md\"", "none", "file mounted at /soul.md, relative to the hive"),
    key("allow_soul_edit", "true | false", "false", "whether the agent may write /soul.md"),
    key("skills", "[\"basic-tools\", \"cron-tools@^1.0\"]", "[]", "skills it is given"),
    key(
        "secrets",
        "[\"API_KEY\"]",
        "all that its skills declare",
        "narrows the secrets that may be injected; never widens",
    ),
    key("command", "[\"claude\", \"-p\", \"{instructions}\"]", "none", "how agent-tier runs are executed"),
    key("tools", "table", "", "its own default parameters of tools"),
    key("main", "[\"node\", \"server.mjs\"]", "none", "long-running process"),
    key("main_restart", "\"always\" | \"on-failure\" | \"never\"", "\"always\"", "restart policy of main"),
    key("env", "{ LOG_LEVEL = \"info\" }", "{}", "plain environment; merged key by key with [defaults]"),
    key(
        "workspace",
        "\"named\" | \"tmpfs\" | \"./path\"",
        "\"named\"",
        "where /workspace lives: kept in .skep, in memory, or a folder of the hive",
    ),
    key("image", "\"skep-agent:latest\"", "\"skep-agent:latest\"", "container image"),
    key("memory", "\"512MiB\"", "\"512MiB\"", "memory; at least 16MiB"),
    key("cpus", "1.0", "1.0", "processors; 0.01 to 1024"),
    key("pids", "256", "256", "processes and threads; at least 8"),
    key("disk", "\"2GiB\"", "\"2GiB\"", "workspace and custom skills together; above it the agent is paused"),
    key("network", "\"none\" | \"internet\"", "\"none\"", "what it may reach"),
    key("stop_grace", "\"10s\"", "\"10s\"", "time between SIGTERM and SIGKILL; at most 1h"),
    key("runtime", "\"runsc\"", "the engine's", "engine runtime by name"),
    key("autostart", "true | false", "true", "whether it starts with the hive"),
    key("jobs", "array of tables", "none", "what it does by itself, one [[agents.<id>.jobs]] each"),
];

/// `[[agents.<id>.jobs]]`: exactly one of `schedule`, `every`, `at`, `event` and `manual`.
pub const JOB: &[Key] = &[
    key("name", "\"morning-post\"", "", "unique among the agent's jobs"),
    key("description", "\"Posts the greeting\"", "\"\"", "for people"),
    key("enabled", "true | false", "true", "a disabled job enables itself once, when all its tools exist"),
    key(
        "schedule",
        "\"0 9 * * MON-FRI\"",
        "",
        "cron: five fields, six with seconds first, or @daily and friends",
    ),
    key("every", "\"30m\"", "", "interval, counted from the last start; at least 1s"),
    key("at", "\"2026-12-24T18:00:00\"", "", "once"),
    key(
        "event",
        "[\"report\"]",
        "",
        "whenever an event of that name is raised; * at the end stands for the rest",
    ),
    key("manual", "true | false", "false", "only when somebody asks"),
    key("timezone", "\"America/New_York\"", "the hive's", "IANA time zone of schedule and at"),
    key("tool", "\"post-twitter\"", "none", "direct tier: the one tool that is called, without a model"),
    key("args", "{ content = \"Good morning\" }", "{}", "its arguments; at most 96 KiB as JSON"),
    key("instructions", "\"Summarise the week.\"", "none", "agent tier: what the agent's command is told"),
    key(
        "preflight",
        "{ tool = \"inbox\", run_if = \"not_empty\" }",
        "the first [[preflight]] that fits",
        "a tool call before each run, and what its answer must be for the run to start",
    ),
    key("required_tools", "[\"read-file\"]", "[]", "the only tools that an agent-tier run may call"),
    key("max_steps", "10", "10", "tool calls that an agent-tier run may make; 1 to 1000"),
    key("timeout", "\"15m\"", "\"60s\" with a tool, else \"1h\"", "time limit of a run; 1s to 7d"),
    key(
        "missed",
        "\"skip\" | \"last\" | \"all\"",
        "\"last\"",
        "what becomes of fire times that passed while nothing could start",
    ),
    key(
        "missed_within",
        "\"24h\"",
        "\"24h\"; with at no limit",
        "missed fire times that are older never run",
    ),
    key(
        "overlap",
        "\"skip\" | \"queue\" | \"replace\" | \"allow\"",
        "\"skip\"",
        "what happens at a fire time while an earlier run is not over",
    ),
    key("retries", "2", "0", "attempts after the first, when a run fails, times out or is lost; 0 to 10"),
    key("jitter", "\"30s\"", "\"0s\"", "fire times are put off by a stable part of this; at most 24h"),
    key("notify", "table", "", "who is told of its runs"),
];

/// `[agents.<id>.jobs.notify]`.
pub const JOB_NOTIFY: &[Key] = &[
    key("on_completion", "true | false", "true", "also tell of success; failures are always told"),
    key("interval_minutes", "30", "0", "minutes between two notices; 0: as the hive says"),
    key("targets", "[\"ops\"]", "all", "names of targets of the hive's [notify]"),
];

/// `[[preflight]]`: what is written takes the place of the two rules that ship: calendar jobs (`meeting|prep`) look for
/// events of the next two hours, e-mail jobs for new mail.
pub const PREFLIGHT: &[Key] = &[
    key(
        "job",
        "\"meeting|prep\"",
        "every job",
        "pattern that the job's name matches somewhere, in either case",
    ),
    key("requires", "\"gmail_list_events\"", "none", "a tool that the job must require"),
    key("tool", "\"gmail_list_events\"", "required", "the tool that is called before the run"),
    key(
        "args",
        "{ time_min = \"{{now}}\", time_max = \"{{now+2h}}\" }",
        "{}",
        "its arguments; {{now}} is the time, and {{now+2h}} or {{now-1d}} another",
    ),
    key("path", "\"calendars.*.busy\"", "all of it", "where to look in the answer"),
    key(
        "run_if",
        "\"not_empty\" | \"empty\" | { equals = true } | { not_equals = 0 } | { at_least = 3 }",
        "\"not_empty\"",
        "what must be there; else the run is skipped. A check that fails means run",
    ),
];

/// `[model]`.
pub const MODEL: &[Key] = &[
    key(
        "endpoint",
        "\"http://127.0.0.1:11434\"",
        "none",
        "the model endpoint; its address must be public or in notify.allow",
    ),
    key(
        "path",
        "\"/api/tags\"",
        "\"/api/tags\"",
        "what is asked for every minute, to see whether it is there",
    ),
];

/// `[runs]`.
pub const RUNS: &[Key] = &[
    key("max_running", "10", "10", "runs at the same time in the whole hive"),
    key("max_running_per_agent", "4", "4", "runs at the same time of one agent"),
    key("output", "\"8MiB\"", "\"8MiB\"", "output kept of one run, its beginning and its end; at least 4KiB"),
    key("keep_output", "\"14d\"", "\"14d\"", "how long output is kept; at least 1m"),
    key("keep_output_size", "\"1GiB\"", "\"1GiB\"", "output kept in all; the oldest goes first"),
    key("keep_history", "\"90d\"", "\"90d\"", "how long runs are kept in the history; at least 1m"),
];

/// Each section with the header that opens it, in the order of the reference.
pub const SECTIONS: &[(&str, &[Key])] = &[
    ("[hive]", HIVE),
    ("[api]", API),
    ("[registry]", REGISTRY),
    ("[registry.limits]", LIMITS),
    ("[secrets]", SECRETS),
    ("[notify]", NOTIFY),
    ("[[notify.webhook]]", WEBHOOK),
    ("[[notify.telegram]]", TELEGRAM),
    ("[[notify.ntfy]]", NTFY),
    ("[agents.<id>]", AGENT),
    ("[[agents.<id>.jobs]]", JOB),
    ("[agents.<id>.jobs.notify]", JOB_NOTIFY),
    ("[[preflight]]", PREFLIGHT),
    ("[model]", MODEL),
    ("[runs]", RUNS),
    ("[tools]", TOOLS),
    ("[[tools.strip]]", STRIP),
    ("[agents.<id>.tools]", AGENT_TOOLS),
];

/// What people write who come from elsewhere.
const ALIASES: &[(&str, &str)] = &[
    ("environment", "env"),
    ("cmd", "command"),
    ("entrypoint", "main"),
    ("restart", "main_restart"),
    ("restart_policy", "main_restart"),
    ("mem", "memory"),
    ("mem_limit", "memory"),
    ("pids_limit", "pids"),
    ("network_mode", "network"),
    ("stop_grace_period", "stop_grace"),
    ("stop_timeout", "stop_grace"),
    ("tz", "timezone"),
    ("port", "listen"),
    ("address", "listen"),
    ("volume", "workspace"),
    ("storage", "disk"),
    ("cron", "schedule"),
    ("cron_expression", "schedule"),
    ("interval", "every"),
    ("interval_minutes", "every"),
    ("in_minutes", "at"),
    ("in_hours", "at"),
    ("trigger", "schedule"),
    ("prompt", "instructions"),
    ("tools", "required_tools"),
    ("execution_plan", "tool"),
    ("catch_up", "missed"),
    ("concurrency", "max_running"),
];

/// The known word nearest to `written`, if any is near enough to be meant.
pub fn nearest<'k>(written: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    if written.len() > 64 {
        return None;
    }
    let lower = written.to_lowercase().replace('-', "_");
    let tolerance = (lower.chars().count() / 3).max(1);
    known
        .into_iter()
        .filter(|k| k.len().abs_diff(lower.len()) <= 2 * tolerance)
        .map(|k| (strsim::damerau_levenshtein(&lower, &k.to_lowercase().replace('-', "_")), k))
        .filter(|(distance, _)| *distance <= tolerance)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, k)| k)
}

/// The remedy for an unknown key in a section that knows `keys`.
#[must_use]
pub fn advice(written: &str, keys: &[Key]) -> String {
    let names = || keys.iter().map(|k| k.name);
    let alias =
        ALIASES.iter().find(|(from, to)| *from == written && names().any(|n| n == *to)).map(|(_, to)| *to);
    if let Some(near) = alias.or_else(|| nearest(written, names())) {
        return format!("did you mean \"{near}\"?");
    }
    let home = SECTIONS.iter().find(|(_, section)| section.iter().any(|k| k.name == written));
    if let Some((header, _)) = home {
        return format!("\"{written}\" belongs in {header}");
    }
    format!("known keys are {}", names().collect::<Vec<_>>().join(", "))
}

/// The reference of `skep.toml` in Markdown, one table a section.
#[must_use]
pub fn reference() -> String {
    let mut out = String::new();
    for (header, keys) in SECTIONS {
        let cell = |s: &str| s.replace('|', "\\|");
        let rows = keys.iter().map(|k| {
            format!("| `{}` | `{}` | {} | {} |", k.name, cell(k.form), cell(k.default), cell(k.doc))
        });
        let rows = rows.collect::<Vec<_>>().join("\n");
        writeln!(out, "### `{header}`\n\n| key | form | default | meaning |\n|---|---|---|---|\n{rows}\n")
            .unwrap_or_default();
    }
    out
}
