//! `skep tools` and `skep call`: what an agent can call, and one call of it.

use std::{io::Read, time::Duration};

use serde_json::{Map, Value};

use super::{
    client::Client,
    failure::{FAILED, Failure, Outcome},
    hive::Context,
    ui::short,
};
use crate::{
    api::ToolPage,
    app::tools::types::{ToolReply, ToolView},
    ids::AgentId,
    scheduler::job::DIRECT_TIMEOUT,
};

pub(super) const CALL_EXAMPLES: &str = "\
Examples:
  skep call writer read-file '{\"path\": \"notes.md\"}'
  echo '{\"query\": \"bees\"}' | skep call writer brave/search -

Prints what the tool answered. Ends with 0 when it worked, with 1 when it failed.";

/// For a call, which has a time limit of its own; its server may be started first.
const PATIENCE: Duration = DIRECT_TIMEOUT.saturating_add(Duration::from_secs(90));
/// Characters of a description.
const DESCRIPTION: usize = 80;

/// `skep tools`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Whose [default: the hive's default agent]
    agent: Option<AgentId>,
    /// Print JSON, with the schemas of the arguments
    #[arg(long)]
    json: bool,
}

/// `skep call`.
#[derive(Debug, clap::Args)]
pub struct CallArgs {
    /// Whose tool; it is called in this agent's container
    agent: AgentId,
    /// As `skep tools` names it
    tool: String,
    /// Its arguments, a JSON object; - reads standard input [default: none]
    #[arg(value_name = "JSON")]
    args: Option<String>,
    /// Print the whole answer as JSON: also errors, output on standard error, and how long it took
    #[arg(long)]
    json: bool,
}

pub(super) async fn list(context: &Context, args: &Args) -> Outcome {
    let client = context.client()?;
    let (tools, warnings) = all(&client, args.agent.as_ref()).await?;
    if args.json {
        context.ui.json(&tools)?;
        warnings.iter().for_each(|warning| context.ui.warn(warning));
        return Ok(0);
    }
    let row = |tool: &ToolView| {
        let description = tool.description.as_deref().unwrap_or_default();
        [&tool.server, &tool.name, &short(description, DESCRIPTION)].map(|cell| cell.clone().into()).into()
    };
    context.ui.table(&["SERVER", "TOOL", "DESCRIPTION"], tools.iter().map(row).collect())?;
    warnings.iter().for_each(|warning| context.ui.warn(warning));
    Ok(0)
}

/// Every tool, page by page, and what the list does not show.
async fn all(client: &Client, agent: Option<&AgentId>) -> Result<(Vec<ToolView>, Vec<String>), Failure> {
    let mut tools = Vec::new();
    let mut cursor: Option<String> = None;
    loop {
        let mut query = vec![("limit", "1000")];
        query.extend(agent.map(|agent| ("agent", agent.as_str())));
        query.extend(cursor.as_deref().map(|cursor| ("cursor", cursor)));
        let page: ToolPage = client.get("/v1/tools", &query).await?;
        tools.extend(page.items);
        if page.next.is_none() || page.next == cursor {
            return Ok((tools, page.warnings));
        }
        cursor = page.next;
    }
}

pub(super) async fn call(context: &Context, args: &CallArgs) -> Outcome {
    if args.tool.trim().is_empty() {
        let help = format!("`skep tools {}` lists its tools", args.agent);
        return Err(Failure::usage("the name of a tool is missing").help(help));
    }
    let arguments = arguments(args.args.as_deref())?;
    let client = context.client()?;
    let path = format!("/v1/agents/{}/tools/{}", args.agent, path_part(&args.tool));
    let reply: ToolReply = client.exchange_within(&path, &arguments, PATIENCE).await?;
    if args.json {
        context.ui.json(&reply)?;
        return Ok(if reply.success { 0 } else { FAILED });
    }
    match &reply.result {
        Some(Value::String(text)) => context.ui.text(text)?,
        Some(value) => context.ui.json(value)?,
        None => {}
    }
    for warning in &reply.warnings {
        context.ui.warn(warning);
    }
    if reply.truncated && reply.warnings.is_empty() {
        context.ui.warn("the output was cut after 1 MiB");
    }
    if reply.success {
        return Ok(0);
    }
    let why = reply.error.unwrap_or_else(|| "it does not say why".to_owned());
    Err(Failure::new(format!("{} failed: {why}", args.tool)))
}

fn arguments(given: Option<&str>) -> Result<Map<String, Value>, Failure> {
    let mut text = given.unwrap_or("{}").to_owned();
    if text == "-" {
        text.clear();
        std::io::stdin()
            .read_to_string(&mut text)
            .map_err(|e| Failure::new(format!("cannot read standard input: {e}")))?;
    }
    serde_json::from_str(&text).map_err(|e| {
        Failure::usage(format!("the arguments are no JSON object: {e}"))
            .help("write them like '{\"path\": \"notes.md\"}'")
    })
}

/// A name as one part of a path.
fn path_part(name: &str) -> String {
    let kept = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.' | b'~');
    name.bytes().map(|b| if kept(b) { char::from(b).to_string() } else { format!("%{b:02X}") }).collect()
}
