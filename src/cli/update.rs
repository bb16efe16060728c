//! `skep update`: newer skill versions within what `skep.toml` allows.

use super::{failure::Outcome, hive::Context};
use crate::{
    app::types::{ChangeView, UpdateRequest},
    ids::{AgentId, SkillId},
};

/// `skep update`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Only these agents [default: all]
    #[arg(value_name = "AGENT")]
    agents: Vec<AgentId>,
    /// Only this skill; may be given several times [default: all]
    #[arg(long = "skill", value_name = "ID")]
    skills: Vec<SkillId>,
    /// Show the changes, write nothing
    #[arg(long)]
    dry_run: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, serde::Deserialize, serde::Serialize)]
struct Changes {
    changes: Vec<ChangeView>,
}

pub(super) async fn run(context: &Context, args: &Args) -> Outcome {
    let request = UpdateRequest {
        agents: args.agents.iter().map(ToString::to_string).collect(),
        skills: args.skills.iter().map(ToString::to_string).collect(),
        dry_run: args.dry_run,
    };
    let answer: Changes = context.client()?.exchange("/v1/update", &request).await?;
    if args.json {
        context.ui.json(&answer)?;
        return Ok(0);
    }
    if answer.changes.is_empty() {
        context.ui.note("everything is up to date");
        return Ok(0);
    }
    let rows = answer.changes.iter().map(|change| {
        let version = |v: &Option<String>| v.clone().unwrap_or_else(|| "-".to_owned()).into();
        vec![
            change.agent.as_str().into(),
            change.id.as_str().into(),
            version(&change.from),
            version(&change.to),
        ]
    });
    context.ui.table(&["AGENT", "SKILL", "FROM", "TO"], rows.collect())?;
    if args.dry_run {
        context.ui.note("nothing was written: that was a dry run");
    }
    Ok(0)
}
