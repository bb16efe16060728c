//! `skep ps`: the agents and how they are.

use comfy_table::Color;

use super::{
    failure::Outcome,
    halt,
    hive::Context,
    ui::{Shown, since},
    when::Clock,
};
use crate::{
    app::{
        job_types::HaltView,
        types::{AgentView, HiveView},
    },
    supervisor::state::Status,
};

/// `skep ps`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(context: &Context, args: &Args) -> Outcome {
    let client = context.client()?;
    let agents: Vec<AgentView> = client.list("/v1/agents", &[]).await?;
    if args.json {
        context.ui.json(&agents)?;
        return Ok(0);
    }
    let hive: HiveView = client.get("/v1/hive", &[]).await?;
    let halts: HaltView = client.get("/v1/halt", &[]).await?;
    show(context, &agents, &halts)?;
    about(context, &hive);
    Ok(0)
}

/// The table of agents; a halt of the whole hive stands below.
pub(super) fn show(
    context: &Context,
    agents: &[AgentView],
    halts: &HaltView,
) -> Result<(), super::failure::Failure> {
    let clock = Clock::here();
    let rows = agents.iter().map(|agent| row(agent, halts, &clock)).collect();
    context.ui.table(&HEAD, rows)?;
    for agent in agents {
        for warning in warnings(agent).iter().skip(1) {
            context.ui.warn(format!("agent {}: {warning}", agent.id));
        }
    }
    if let Some(since) = &halts.hive {
        context.ui.warn(halt::hive_is_halted(since, &clock));
    }
    Ok(())
}

/// What the operator should know of the hive as a whole.
pub(super) fn about(context: &Context, hive: &HiveView) {
    if !hive.config_faults.is_empty() {
        context.ui.warn(format!("refused, so what was in force stays so: {}", hive.config_faults.join("; ")));
    }
    for warning in &hive.warnings {
        context.ui.warn(warning);
    }
    for line in &hive.progress {
        context.ui.note(super::ui::plain(line));
    }
}

const HEAD: [&str; 6] = ["AGENT", "STATUS", "SKILLS", "RESTARTS", "SINCE", "NOTE"];

fn row(agent: &AgentView, halts: &HaltView, clock: &Clock) -> Vec<Shown> {
    let halted = halts.agents.get(&agent.id).map(|since| format!("halted since {}", clock.wall(since)));
    vec![
        agent.id.as_str().into(),
        Shown::from(agent.status.as_str()).color(color(agent.status)),
        agent.skills.len().to_string().into(),
        agent.restarts.to_string().into(),
        agent.started_at.as_deref().map_or_else(|| "-".to_owned(), |at| since(at, clock.now)).into(),
        note(agent, halted).into(),
    ]
}

/// The most urgent thing to know, and how many more there are.
fn note(agent: &AgentView, halted: Option<String>) -> String {
    let mut notes: Vec<String> = agent.reason.iter().cloned().chain(halted).collect();
    if !agent.missing_secrets.is_empty() {
        notes.push(format!("missing secrets: {}", agent.missing_secrets.join(", ")));
    }
    if let Some(main) = agent.main.as_ref().filter(|main| main.state != "running") {
        let code = main.exit_code.map(|c| format!(", exit code {c}")).unwrap_or_default();
        let why = main.error.as_deref().map(|e| format!(": {e}")).unwrap_or_default();
        let memory = if main.oom { ", out of memory" } else { "" };
        notes.push(format!("main: {}{code}{memory}{why}", main.state));
    }
    match warnings(agent).as_slice() {
        [] => {}
        [only] => notes.push((*only).clone()),
        [first, more @ ..] => notes.push(format!("{first} (and {} more, below)", more.len())),
    }
    notes.join("; ")
}

/// Those that the notes do not tell otherwise: of missing secrets.
fn warnings(agent: &AgentView) -> Vec<&String> {
    let told = |warning: &str| {
        agent.missing_secrets.iter().any(|name| warning.starts_with(&format!("secret {name} is not set")))
    };
    agent.warnings.iter().filter(|w| !told(w)).collect()
}

fn color(status: Status) -> Color {
    match status {
        Status::Running => Color::Green,
        Status::Failed => Color::Red,
        Status::Stopped => Color::DarkGrey,
        Status::Pending | Status::Starting | Status::Stopping | Status::Paused => Color::Yellow,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::ui::render_table;

    fn agent(id: &str, status: Status) -> AgentView {
        AgentView {
            id: id.into(),
            description: String::new(),
            status,
            reason: None,
            image: "i".into(),
            skills: vec![],
            missing_secrets: vec![],
            unavailable: vec![],
            warnings: vec![],
            container_id: None,
            started_at: None,
            restarts: 0,
            main: None,
            network: "none".into(),
            memory: 1,
            disk_used: None,
        }
    }

    #[test]
    fn the_table_tells_what_is_wrong_with_an_agent() {
        let mut ok = agent("manager", Status::Running);
        ok.started_at = Some("2026-01-02T00:00:00Z".into());
        let mut bad = agent("writer", Status::Failed);
        bad.reason = Some("no skill\nx".into());
        bad.missing_secrets = vec!["A".into(), "B".into()];
        bad.warnings = vec!["first".into(), "second".into()];
        bad.restarts = 3;
        let clock = Clock { now: "2026-01-02T00:05:00Z".parse().unwrap(), zone: jiff::tz::TimeZone::UTC };
        let halts = HaltView {
            agents: [("manager".to_owned(), "2026-01-02T00:03:00Z".to_owned())].into(),
            ..HaltView::default()
        };
        let rows = vec![row(&ok, &halts, &clock), row(&bad, &halts, &clock)];
        insta::assert_snapshot!(render_table(&HEAD, rows, false), @r"
        AGENT    STATUS   SKILLS  RESTARTS  SINCE  NOTE
        manager  running  0       0         5 min  halted since Fri 00:03
        writer   failed   0       3         -      no skill x; missing secrets: A, B; first (and 1 more, below)
        ");
    }
}
