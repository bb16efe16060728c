//! `skep events`: what happened in the hive, in order, and as it happens; raises events too.

mod line;
mod sse;

use std::time::Duration;

use futures_util::StreamExt;
use serde_json::{Value, json};

use super::{
    client::Client,
    failure::{Failure, Outcome},
    hive::Context,
    when::Clock,
};
use crate::app::job_types::EventView;

const PATH: &str = "/v1/events";
/// Between two attempts to reach the supervisor again.
const PAUSE: Duration = Duration::from_secs(1);
/// Events that are shown when nothing else is asked for.
const SOME: u32 = 20;

pub(super) const EXAMPLES: &str = "\
Examples:
  What happened last, and what happens next:
    skep events -n 50 -f
  Only the ends of runs, as lines of JSON:
    skep events -f --name 'run:*' --json
  Raise an event, which starts the jobs that wait for it:
    skep events --raise report --data '{\"month\": \"May\"}'";

/// `skep events`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Go on printing what happens, also when the supervisor is restarted
    #[arg(short, long)]
    follow: bool,
    /// Only events of this name; * at its end stands for the rest
    #[arg(long, value_name = "PATTERN")]
    name: Option<String>,
    /// Only events after the one with this number
    #[arg(long, value_name = "ID")]
    after: Option<i64>,
    /// The last N events [default: 20; with --follow none but new ones]
    #[arg(short = 'n', long = "limit", value_name = "N", conflicts_with = "after")]
    limit: Option<u32>,
    /// Raise an event of this name
    #[arg(long, value_name = "NAME", conflicts_with_all = ["follow", "name", "after", "limit"])]
    raise: Option<String>,
    /// What the raised event says
    #[arg(long, value_name = "JSON", requires = "raise", value_parser = data)]
    data: Option<Value>,
    /// Print each event as a line of JSON
    #[arg(long)]
    json: bool,
}

fn data(text: &str) -> Result<Value, String> {
    serde_json::from_str(text).map_err(|e| format!("this is no JSON: {e}"))
}

pub(super) async fn run(context: &Context, args: &Args) -> Outcome {
    let client = context.client()?;
    if let Some(name) = &args.raise {
        return raise(context, &client, name, args).await;
    }
    if !args.follow {
        past(context, &client, args, args.limit.unwrap_or(SOME)).await?;
        return Ok(0);
    }
    // Where it stands now: a connection that breaks before the first event loses none.
    let newest: Vec<EventView> = client.first(PATH, &[("last", "1")], 1).await?.0;
    let mut last = newest.last().map_or(0, |event| event.id);
    if args.after.is_some() || args.limit.is_some() {
        last = last.max(past(context, &client, args, args.limit.unwrap_or(SOME)).await?);
    }
    follow(context, &client, args, last).await?;
    Ok(0)
}

async fn raise(context: &Context, client: &Client, name: &str, args: &Args) -> Outcome {
    let body = json!({ "name": name, "data": args.data.clone().unwrap_or_else(|| json!({})) });
    let event: EventView = client.exchange(PATH, &body).await?;
    if args.json {
        context.ui.line(serde_json::to_string(&event)?)?;
    } else {
        context.ui.line(format!("raised {} as event {}", super::ui::plain(&event.name), event.id))?;
    }
    Ok(0)
}

/// Prints what happened, oldest first: the last so many, or all after an id. Answers the id of the last.
async fn past(context: &Context, client: &Client, args: &Args, most: u32) -> Result<i64, Failure> {
    let begin = args.after.map_or(("last", most.to_string()), |after| ("after", after.to_string()));
    let mut query = vec![("limit", "1000"), (begin.0, begin.1.as_str())];
    query.extend(args.name.as_deref().map(|name| ("name", name)));
    let mut last = 0;
    for event in client.list::<EventView>(PATH, &query).await? {
        show(context, &event, args.json)?;
        last = event.id;
    }
    Ok(last)
}

fn show(context: &Context, event: &EventView, json: bool) -> Result<(), Failure> {
    if json {
        context.ui.line(serde_json::to_string(event)?)?;
    } else {
        context.ui.line(line::line(event, &Clock::here()))?;
    }
    Ok(())
}

/// Prints what happens, for ever; a supervisor that goes away is waited for.
async fn follow(context: &Context, client: &Client, args: &Args, mut last: i64) -> Result<(), Failure> {
    let query: Vec<_> = args.name.as_deref().map(|name| ("name", name)).into_iter().collect();
    let mut waiting = false;
    let mut reached = false;
    loop {
        let gone = match client.events(PATH, &query, last).await {
            Ok(response) => {
                if std::mem::take(&mut waiting) {
                    context.ui.note("the supervisor is back");
                }
                reached = true;
                print(context, client, response, args.json, &mut last).await?
            }
            Err(failure) => Some(failure),
        };
        if let Some(failure) = gone.filter(|failure| !reached || failure.status.is_some_and(|s| s < 500)) {
            return Err(failure);
        }
        if !std::mem::replace(&mut waiting, true) {
            context.ui.note("the supervisor has gone; waiting for it");
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Prints the events of one connection; answers why it broke, if it did.
async fn print(
    context: &Context,
    client: &Client,
    response: reqwest::Response,
    json: bool,
    last: &mut i64,
) -> Result<Option<Failure>, Failure> {
    let mut reader = sse::Reader::default();
    let mut pieces = response.bytes_stream();
    while let Some(piece) = pieces.next().await {
        let piece = match piece {
            Ok(piece) => piece,
            Err(e) => return Ok(Some(client.broken(&e))),
        };
        for sent in reader.take(&piece) {
            let event: EventView = serde_json::from_str(&sent.data)
                .map_err(|e| Failure::new(format!("cannot read the event {:?}: {e}", sent.data)))?;
            *last = event.id;
            show(context, &event, json)?;
        }
    }
    Ok(None)
}
