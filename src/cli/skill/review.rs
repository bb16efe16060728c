//! `skep skill review`: what the scanner finds in a version, and what it changes.

use owo_colors::{OwoColorize, Style};

use super::{
    super::{
        failure::{Failure, Outcome},
        hive::Context,
        ui::plain,
    },
    MaybeExact, diff,
};
use crate::{
    app::{skills::SkillReview, types::SkillView},
    skill::scan::{Finding, Severity},
};

pub(super) const EXAMPLES: &str = "\
Examples:
  skep skill review weather             the newest version that waits for approval, else the newest
  skep skill review weather@1.0.1";

/// `skep skill review`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Which skill or version, like `weather` or `weather@1.0.1`
    #[arg(value_name = "ID[@VERSION]")]
    of: MaybeExact,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(context: &Context, args: &Args) -> Outcome {
    let client = context.client()?;
    let id = &args.of.id;
    let version = match &args.of.version {
        Some(version) => version.to_string(),
        None => choose(&client.get(&format!("/v1/skills/{id}"), &[]).await?)?,
    };
    let review: SkillReview = client.get(&format!("/v1/skills/{id}/versions/{version}/review"), &[]).await?;
    if args.json {
        context.ui.json(&review)?;
        return Ok(0);
    }
    context.ui.line(render(&review, context.ui.color()))?;
    Ok(0)
}

fn choose(skill: &SkillView) -> Result<String, Failure> {
    let pending = skill.versions.iter().find(|v| v.trust == "pending");
    let version = pending.or_else(|| skill.versions.first());
    version.map(|v| v.version.clone()).ok_or_else(|| Failure::new(format!("{} has no version", skill.id)))
}

fn render(review: &SkillReview, color: bool) -> String {
    let paint = |text: String, style: Style| if color { text.style(style).to_string() } else { text };
    let head = format!("{}@{} is {}", review.id, review.version, review.trust);
    let mut out = vec![paint(head, Style::new().bold())];
    out.extend(review.findings.iter().flat_map(|finding| {
        let style = match finding.severity {
            Severity::Danger => Style::new().red(),
            Severity::Warning => Style::new().yellow(),
            Severity::Info => Style::new(),
        };
        let [head, rest @ ..] = lines(finding);
        std::iter::once(paint(head, style)).chain(rest)
    }));
    if review.findings.is_empty() {
        out.push("the scanner found nothing".into());
    }
    out.push(String::new());
    let title = match &review.compared_with {
        Some(before) => format!("{} {before} → {}", review.id, review.version),
        None => "No version of it was accepted before: all is new".to_owned(),
    };
    out.push(diff::render(&title, &review.diff, color));
    out.join("\n")
}

fn lines(finding: &Finding) -> [String; 3] {
    let name = |value: serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    let severity = name(serde_json::to_value(finding.severity).unwrap_or_default());
    let rule = name(serde_json::to_value(finding.rule).unwrap_or_default());
    [
        format!("{severity}: {rule} in {}:{}", plain(&finding.file), finding.line),
        format!("    {}", plain(&finding.evidence)),
        format!("    {}", plain(&finding.message)),
    ]
}
