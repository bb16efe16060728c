//! `skep skill diff`: what one version changes against another.

use semver::Version;
use serde_json::Value;

use super::super::{
    failure::{Failure, Outcome},
    hive::Context,
};
use crate::{app::types::SkillView, ids::SkillId};

pub(super) const EXAMPLES: &str = "\
Examples:
  The newest version against the one that was trusted or approved last before it:
    skep skill diff note-taking
  Two versions:
    skep skill diff note-taking 1.0.0 1.2.0";

/// `skep skill diff`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Which skill
    id: SkillId,
    /// The older version [default: the newest before TO that may be used]
    from: Option<Version>,
    /// The newer version [default: the newest]
    to: Option<Version>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(context: &Context, args: &Args) -> Outcome {
    let client = context.client()?;
    let skill: SkillView = client.get(&format!("/v1/skills/{}", args.id), &[]).await?;
    let (from, to) = choose(&skill, args)?;
    let query = [("from", from.as_str()), ("to", to.as_str())];
    let diff: Value = client.get(&format!("/v1/skills/{}/diff", args.id), &query).await?;
    context.ui.json(&diff)?;
    Ok(0)
}

/// The two versions that are meant.
fn choose(skill: &SkillView, args: &Args) -> Result<(String, String), Failure> {
    let newest = || skill.versions.first().map(|v| v.version.clone());
    let to = args.to.as_ref().map(ToString::to_string).or_else(newest);
    let to = to.ok_or_else(|| Failure::new(format!("{} has no version", args.id)))?;
    if let Some(from) = &args.from {
        return Ok((from.to_string(), to));
    }
    // Newest first: what comes after TO is older.
    let older = || skill.versions.iter().skip_while(|v| v.version != to).skip(1);
    let usable =
        older().find(|v| matches!(v.trust.as_str(), "trusted" | "approved")).or_else(|| older().next());
    match usable {
        Some(from) => Ok((from.version.clone(), to)),
        None => Err(Failure::new(format!(
            "{}@{to} is the first version: there is nothing to compare it with",
            args.id
        ))
        .help(format!("`skep skill show {}@{to}` lists its files", args.id))),
    }
}
