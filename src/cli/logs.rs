//! `skep logs`: what an agent's main process wrote.

use futures_util::StreamExt;

use super::{failure::Outcome, hive::Context};
use crate::ids::AgentId;

/// `skep logs`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Which agent
    agent: AgentId,
    /// Go on printing what comes
    #[arg(short, long)]
    follow: bool,
    /// Only the last N lines
    #[arg(short = 'n', long, value_name = "N")]
    tail: Option<u64>,
    /// Begin each line with its time
    #[arg(short, long)]
    timestamps: bool,
    /// Only one of the two streams
    #[arg(long, value_name = "STREAM", value_parser = ["stdout", "stderr"])]
    stream: Option<String>,
}

pub(super) async fn run(context: &Context, args: &Args) -> Outcome {
    let tail = args.tail.map(|n| n.to_string());
    let mut query = Vec::new();
    if args.follow {
        query.push(("follow", "true"));
    }
    query.extend(tail.as_deref().map(|n| ("tail", n)));
    if args.timestamps {
        query.push(("timestamps", "true"));
    }
    query.extend(args.stream.as_deref().map(|s| ("stream", s)));
    let client = context.client()?;
    let response = client.stream(&format!("/v1/agents/{}/logs", args.agent), &query).await?;
    let mut pieces = response.bytes_stream();
    while let Some(piece) = pieces.next().await {
        let piece = piece.map_err(|e| client.broken(&e))?;
        context.ui.bytes(&piece)?;
    }
    Ok(0)
}
