//! `skep ps`: the agents and how they are.

use comfy_table::Color;
use jiff::Timestamp;

use super::{
    failure::Outcome,
    hive::Context,
    ui::{Shown, since},
};
use crate::{
    app::types::{AgentView, HiveView},
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
    show(context, &agents)?;
    let hive: HiveView = client.get("/v1/hive", &[]).await?;
    about(context, &hive);
    Ok(0)
}

/// The table of agents.
pub(super) fn show(context: &Context, agents: &[AgentView]) -> Result<(), super::failure::Failure> {
    let now = Timestamp::now();
    let rows = agents.iter().map(|agent| row(agent, now)).collect();
    context.ui.table(&HEAD, rows)?;
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

fn row(agent: &AgentView, now: Timestamp) -> Vec<Shown> {
    vec![
        agent.id.as_str().into(),
        Shown::from(agent.status.as_str()).color(color(agent.status)),
        agent.skills.len().to_string().into(),
        agent.restarts.to_string().into(),
        agent.started_at.as_deref().map_or_else(|| "-".to_owned(), |at| since(at, now)).into(),
        note(agent).into(),
    ]
}

/// The most urgent thing to know, and how many more there are.
fn note(agent: &AgentView) -> String {
    let mut notes: Vec<String> = agent.reason.iter().cloned().collect();
    if !agent.missing_secrets.is_empty() {
        notes.push(format!("missing secrets: {}", agent.missing_secrets.join(", ")));
    }
    if let Some(main) = agent.main.as_ref().filter(|main| main.state != "running") {
        let code = main.exit_code.map(|c| format!(", exit code {c}")).unwrap_or_default();
        let why = main.error.as_deref().map(|e| format!(": {e}")).unwrap_or_default();
        let memory = if main.oom { ", out of memory" } else { "" };
        notes.push(format!("main: {}{code}{memory}{why}", main.state));
    }
    // Those about missing secrets are told above.
    let told = |warning: &str| {
        agent.missing_secrets.iter().any(|name| warning.starts_with(&format!("secret {name} is not set")))
    };
    let warnings: Vec<&String> = agent.warnings.iter().filter(|w| !told(w)).collect();
    match warnings.as_slice() {
        [] => {}
        [only] => notes.push((*only).clone()),
        [first, more @ ..] => notes.push(format!("{first} (and {} more)", more.len())),
    }
    notes.join("; ")
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
        let now = "2026-01-02T00:05:00Z".parse().unwrap();
        let rows = vec![row(&ok, now), row(&bad, now)];
        insta::assert_snapshot!(render_table(&HEAD, rows, false), @r"
        AGENT    STATUS   SKILLS  RESTARTS  SINCE  NOTE
        manager  running  0       0         5 min
        writer   failed   0       3         -      no skill x; missing secrets: A, B; first (and 1 more)
        ");
    }
}
