//! The Prometheus text format (version 0.0.4), written from what the hive and the doors know.
//!
//! Labels are agents' names, statuses and route patterns: their number is bounded.

use std::{collections::BTreeMap, fmt::Write};

use super::observe;
use crate::{
    app::{
        figures::JobFigures,
        types::{AgentView, HiveView},
    },
    supervisor::state::Status,
};

const STATUSES: [Status; 7] = [
    Status::Pending,
    Status::Starting,
    Status::Running,
    Status::Paused,
    Status::Stopping,
    Status::Stopped,
    Status::Failed,
];

/// What `HiveView::engine` says when the container engine answers.
const ENGINE_UP: &str = "ok";

/// All figures.
pub fn render(hive: &HiveView, ready: bool, agents: &[AgentView], jobs: Option<&JobFigures>) -> String {
    let mut text = Text(String::new());
    text.head("skep_info", "gauge", "Always 1; tells the version and the hive.");
    text.line("skep_info", &[("version", &hive.version), ("hive", &hive.name)], 1);
    text.head("skep_ready", "gauge", "1 when the supervisor can do its work.");
    text.line("skep_ready", &[], u8::from(ready));
    text.head("skep_engine_up", "gauge", "1 when the container engine answers.");
    text.line("skep_engine_up", &[], u8::from(hive.engine == ENGINE_UP));
    agents_by_status(&mut text, agents);
    if let Some(jobs) = jobs {
        jobs_and_runs(&mut text, jobs);
    }
    http(&mut text);
    process(&mut text);
    text.0
}

fn agents_by_status(text: &mut Text, agents: &[AgentView]) {
    let mut counts: BTreeMap<&str, usize> = STATUSES.iter().map(|s| (s.as_str(), 0)).collect();
    for agent in agents {
        *counts.entry(agent.status.as_str()).or_default() += 1;
    }
    text.head("skep_agents", "gauge", "Agents by status.");
    for (status, count) in counts {
        text.line("skep_agents", &[("status", status)], count);
    }
    text.head(
        "skep_agent_restarts",
        "gauge",
        "Times that an agent was started again after it ended by itself.",
    );
    for agent in agents {
        text.line("skep_agent_restarts", &[("agent", &agent.id)], agent.restarts);
    }
    text.head("skep_agent_disk_bytes", "gauge", "Bytes of an agent's workspace and custom folder.");
    for agent in agents {
        if let Some(used) = agent.disk_used {
            text.line("skep_agent_disk_bytes", &[("agent", &agent.id)], used);
        }
    }
}

fn jobs_and_runs(text: &mut Text, figures: &JobFigures) {
    let now = &figures.now;
    text.head("skep_jobs", "gauge", "Jobs, by whether they fire by themselves.");
    text.line("skep_jobs", &[("enabled", "true")], now.jobs_enabled);
    text.line("skep_jobs", &[("enabled", "false")], now.jobs_disabled);
    text.head("skep_runs_running", "gauge", "Runs that run.");
    text.line("skep_runs_running", &[], now.runs_running);
    text.head("skep_runs_queued", "gauge", "Runs that wait.");
    text.line("skep_runs_queued", &[], now.runs_queued);
    text.head("skep_run_total", "counter", "Runs that are over, by how they ended.");
    for (status, count) in &figures.ended {
        text.line("skep_run_total", &[("status", status.as_str())], count);
    }
}

fn http(text: &mut Text) {
    let requests = observe::requests();
    text.head("skep_http_requests_total", "counter", "HTTP requests answered.");
    for ((method, route, status), tally) in &requests {
        let labels = [("method", *method), ("route", route), ("status", &status.to_string())];
        text.line("skep_http_requests_total", &labels, tally.count);
    }
    text.head("skep_http_request_seconds_total", "counter", "Time until the answers began.");
    for ((method, route, status), tally) in &requests {
        let labels = [("method", *method), ("route", route), ("status", &status.to_string())];
        text.line("skep_http_request_seconds_total", &labels, tally.time.as_secs_f64());
    }
}

fn process(text: &mut Text) {
    if let Some(bytes) = resident_bytes() {
        text.head("process_resident_memory_bytes", "gauge", "Resident memory of the supervisor.");
        text.line("process_resident_memory_bytes", &[], bytes);
    }
    if let Ok(open) = std::fs::read_dir("/proc/self/fd") {
        text.head("process_open_fds", "gauge", "Open file descriptors of the supervisor.");
        text.line("process_open_fds", &[], open.count());
    }
}

fn resident_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|l| l.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

struct Text(String);

impl Text {
    fn head(&mut self, name: &str, kind: &str, help: &str) {
        self.0.push_str(&format!("# HELP {name} {help}\n# TYPE {name} {kind}\n"));
    }

    fn line(&mut self, name: &str, labels: &[(&str, &str)], value: impl std::fmt::Display) {
        self.0.push_str(name);
        for (n, (label, text)) in labels.iter().enumerate() {
            let begin = if n == 0 { '{' } else { ',' };
            let text = text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            self.0.push(begin);
            // Writing into a String cannot fail.
            write!(self.0, "{label}=\"{text}\"").unwrap_or_default();
        }
        if !labels.is_empty() {
            self.0.push('}');
        }
        writeln!(self.0, " {value}").unwrap_or_default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn label_values_are_escaped() {
        let mut text = Text(String::new());
        text.line("a", &[("b", "x\"y\\z\n"), ("c", "d")], 1);
        assert_eq!(text.0, "a{b=\"x\\\"y\\\\z\\n\",c=\"d\"} 1\n");
    }

    #[test]
    fn this_process_uses_memory() {
        assert!(resident_bytes().unwrap() > 100_000);
    }
}
