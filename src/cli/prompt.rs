//! `skep prompt`: the prompt that an agent is given.

use std::io::IsTerminal;

use super::{failure::Outcome, hive::Context, ui::lines_of};
use crate::ids::AgentId;

/// `skep prompt`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Which agent
    agent: AgentId,
}

pub(super) async fn run(context: &Context, args: &Args) -> Outcome {
    let client = context.client()?;
    let response = client.stream(&format!("/v1/agents/{}/prompt", args.agent), &[]).await?;
    let text = response.text().await.map_err(|e| client.broken(&e))?;
    if std::io::stdout().is_terminal() {
        context.ui.bytes(lines_of(&text).as_bytes())?;
    } else {
        context.ui.bytes(text.as_bytes())?;
    }
    Ok(0)
}
