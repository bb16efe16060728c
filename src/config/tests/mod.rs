//! Behaviour of `skep.toml` as its writers meet it: what is accepted, and how mistakes are told.

mod accepted;
mod jobs;
mod notify;
mod preflight;
mod refused;
mod shown;

use super::parse;
use crate::error::Fault;

/// The example of the contract, with what this version refuses left out.
const EXAMPLE: &str = r#"
[hive]
name = "demo"
timezone = "Europe/Berlin"
default_agent = "writer"

[api]
listen = "127.0.0.1:7117"
allowed_hosts = ["localhost"]

[registry]
sources = ["skills"]
agent_skills = "manual"

[secrets]
file = "secrets/env.json"

[defaults]
image = "skep-agent:latest"
memory = "512MiB"
cpus = 1.0
pids = 256
disk = "2GiB"
network = "none"
stop_grace = "10s"

[agents.writer]
description = "Writes the weekly report"
soul = "souls/writer.md"
allow_soul_edit = false
skills = ["social-media-apis@2.1.0", "basic-tools", "cron-tools@^1.0"]
secrets = ["TWITTER_API_KEY"]
command = ["claude", "-p", "{instructions}"]
main = ["node", "server.mjs"]
env = { LOG_LEVEL = "info" }
workspace = "named"

[[agents.writer.jobs]]
name = "morning-post"
schedule = "0 9 * * MON-FRI"
timezone = "America/New_York"
tool = "post-twitter"
args = { content = "Good morning" }

[[agents.writer.jobs]]
name = "weekly-report"
schedule = "0 18 * * SUN"
instructions = "Summarise the week."
required_tools = ["read-file", "write-file"]
max_steps = 10
timeout = "15m"
missed = "last"
overlap = "skip"

[runs]
max_running = 10
max_running_per_agent = 4
[notify]
[tools.defaults.telegram_send_message]
chat_id = "8304042211"
[[tools.strip]]
tools = "vercel_*"
parameters = ["teamId", "slug"]
[[preflight]]
[model]
"#;

fn faults(text: &str) -> Vec<Fault> {
    parse(text, "skep.toml").map(|(config, _)| config).unwrap_err()
}

/// The one fault of a text: line, column, message, help.
fn only(text: &str) -> (usize, usize, String, String) {
    let mut all = faults(text);
    assert_eq!(all.len(), 1, "{text}\n{all:#?}");
    let f = all.remove(0);
    (f.line.unwrap(), f.column.unwrap(), f.message, f.help.unwrap_or_default())
}

fn warnings(text: &str) -> Vec<String> {
    let (_, warnings) = parse(text, "skep.toml").unwrap();
    warnings.iter().map(ToString::to_string).collect()
}
