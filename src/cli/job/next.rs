//! `skep job next`: fire times to come, of a job or of a schedule that is no job yet.

use serde_json::{Map, Value};

use super::{
    super::{failure::Outcome, hive::Context, ui::plain, when::Clock},
    find, schedule,
};
use crate::app::job_types::Preview;

pub(super) const EXAMPLES: &str = "\
Examples:
  skep job next morning-post
  skep job next --schedule '0 9 * * MON-FRI' --timezone Europe/Berlin --count 10
  skep job next --schedule '30 2 * * *' --after 2027-03-28T00:00:00
A schedule that is no job yet is computed here: no supervisor needs to run.";

/// `skep job next`.
#[derive(Debug, clap::Args)]
#[command(override_usage = "skep job next JOB [OPTIONS]\n       \
    skep job next --schedule CRON [OPTIONS]")]
#[command(group = clap::ArgGroup::new("what").required(true).args(["job", "schedule", "every", "at"]))]
pub struct Args {
    /// Its number, AGENT/NAME, or a name that only one agent has
    job: Option<String>,
    /// Cron: minute, hour, day, month, weekday (with six fields, seconds first); or @daily and friends
    #[arg(long, value_name = "CRON")]
    schedule: Option<String>,
    /// So long after each start, like 30m
    #[arg(long, value_name = "TIME")]
    every: Option<String>,
    /// Once, like 2026-12-24T18:00:00
    #[arg(long, value_name = "WHEN")]
    at: Option<String>,
    /// Time zone, like Europe/Berlin [default: the hive's, else this machine's]
    #[arg(long, value_name = "ZONE", conflicts_with = "job")]
    timezone: Option<String>,
    /// Begin there: 2027-03-28, 2027-03-28T02:00, or with its offset 2027-03-28T02:00+01:00 [default: now]
    #[arg(long, value_name = "WHEN", conflicts_with = "job")]
    after: Option<String>,
    /// So many fire times
    #[arg(short = 'n', long, value_name = "N", default_value_t = 5,
        value_parser = clap::value_parser!(u32).range(1..=1000))]
    count: u32,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(context: &Context, args: &Args) -> Outcome {
    let preview = match &args.job {
        Some(job) => {
            let client = context.client()?;
            let job = find::job(&client, job).await?;
            let count = args.count.to_string();
            client.get(&format!("/v1/jobs/{}/next", job.id), &[("count", &count)]).await?
        }
        None => schedule::preview(context, &args.body()).await?,
    };
    if args.json {
        context.ui.json(&preview)?;
        return Ok(0);
    }
    let clock = Clock::here();
    for line in lines(&preview, &clock) {
        context.ui.line(line)?;
    }
    for note in notes(&preview) {
        context.ui.note(note);
    }
    Ok(0)
}

impl Args {
    /// As `POST /v1/schedules/preview` takes it.
    fn body(&self) -> Map<String, Value> {
        let mut body = Map::new();
        let fields = [
            ("schedule", &self.schedule),
            ("every", &self.every),
            ("at", &self.at),
            ("timezone", &self.timezone),
            ("after", &self.after),
        ];
        for (key, value) in fields {
            body.extend(value.as_deref().map(|value| (key.to_owned(), value.into())));
        }
        body.insert("count".to_owned(), self.count.into());
        body
    }
}

/// A line for each fire time: the day, the time with its offset, and how far off it is.
fn lines(preview: &Preview, clock: &Clock) -> Vec<String> {
    let line = |at: &String| match clock.read(at) {
        Some(time) => {
            let far = if time.timestamp() < clock.now { clock.ago(at) } else { clock.until(at) };
            format!("{}  {far}", time.strftime("%a %Y-%m-%d %H:%M:%S %:z"))
        }
        None => plain(at),
    };
    preview.fires.iter().map(line).collect()
}

/// Why there are none; what a clock change between them does.
fn notes(preview: &Preview) -> Vec<String> {
    let mut notes: Vec<String> = preview.reason.iter().map(|why| plain(why)).collect();
    if preview.fires.is_empty() && notes.is_empty() {
        notes.push("there is no fire time to come".to_owned());
    }
    let offset = |at: &String| at.get(at.len().saturating_sub(6)..).map(str::to_owned);
    if preview.fires.windows(2).any(|pair| offset(&pair[0]) != offset(&pair[1])) {
        notes.push(
            if preview.wildcard {
                "the clocks change in between: fire times in the hour left out are skipped, those in the hour that \
                 comes twice fire twice"
            } else {
                "the clocks change in between: a fire time in the hour left out fires at its end, one in the hour \
                 that comes twice fires the first time only"
            }
            .to_owned(),
        );
    }
    notes
}

#[cfg(test)]
mod tests;
