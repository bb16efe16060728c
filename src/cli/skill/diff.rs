//! `skep skill diff`: what one version changes against another.

use owo_colors::{OwoColorize, Style};
use semver::Version;

use super::super::{
    failure::{Failure, Outcome},
    hive::Context,
    ui::{lines_of, plain},
};
use crate::{
    app::types::SkillView,
    ids::SkillId,
    skill::diff::{Change, Diff},
};

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
    let mut query = vec![("to", to.as_str())];
    query.extend(from.as_deref().map(|from| ("from", from)));
    let diff: Diff = client.get(&format!("/v1/skills/{}/diff", args.id), &query).await?;
    if args.json {
        context.ui.json(&diff)?;
        return Ok(0);
    }
    let title = match from {
        Some(from) => format!("{} {from} → {to}", args.id),
        None => format!("{}@{to} is the first version: all is new", args.id),
    };
    context.ui.line(render(&title, &diff, context.ui.color()))?;
    Ok(0)
}

/// First what matters most to whoever approves: what is asked for. Then the files.
pub(super) fn render(title: &str, diff: &Diff, color: bool) -> String {
    let paint = |text: String, style: Style| if color { text.style(style).to_string() } else { text };
    let by_sign = |line: &str| match line.as_bytes().first() {
        Some(b'+') => paint(line.to_owned(), Style::new().green()),
        Some(b'-') => paint(line.to_owned(), Style::new().red()),
        Some(b'@') => paint(line.to_owned(), Style::new().cyan()),
        _ => line.to_owned(),
    };
    let mut out = vec![paint(title.to_owned(), Style::new().bold())];
    if diff.files.is_empty() && diff.capabilities.is_empty() {
        out.push("no difference".into());
    }
    for capability in &diff.capabilities {
        let sign = if capability.change == Change::Removed { '-' } else { '+' };
        let kind = capability.kind.as_str().replace('_', " ");
        out.push(by_sign(&format!("{sign} asks for {kind}: {}", plain(&capability.value))));
    }
    for file in &diff.files {
        out.push(String::new());
        let change = match file.change {
            Change::Added => "added",
            Change::Removed => "removed",
            Change::Changed => "changed",
        };
        let head = format!("{} ({change})", plain(&file.path));
        out.push(paint(head, Style::new().bold()));
        out.extend(file.text.iter().flat_map(|text| text.lines()).map(|line| by_sign(&lines_of(line))));
        out.extend(file.note.iter().map(|note| plain(note)));
    }
    out.join("\n")
}

/// The two versions that are meant; nothing is older than the first.
fn choose(skill: &SkillView, args: &Args) -> Result<(Option<String>, String), Failure> {
    let newest = || skill.versions.first().map(|v| v.version.clone());
    let to = args.to.as_ref().map(ToString::to_string).or_else(newest);
    let to = to.ok_or_else(|| Failure::new(format!("{} has no version", args.id)))?;
    if let Some(from) = &args.from {
        return Ok((Some(from.to_string()), to));
    }
    // Newest first: what comes after TO is older.
    let older = || skill.versions.iter().skip_while(|v| v.version != to).skip(1);
    let usable =
        older().find(|v| matches!(v.trust.as_str(), "trusted" | "approved")).or_else(|| older().next());
    Ok((usable.map(|from| from.version.clone()), to))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for_comes_before_the_files_and_nothing_drives_the_terminal() {
        let diff: Diff = serde_json::from_str(
            r#"{"files": [
                {"path": "SKILL.md", "change": "changed", "text": "@@ -1 +1 @@\n-old\n+new \u001b[31m\n"},
                {"path": "logo.png", "change": "added", "note": "binary"}],
              "capabilities": [{"kind": "secret", "change": "added", "value": "API_KEY"}],
              "truncated": false}"#,
        )
        .unwrap();
        insta::assert_snapshot!(render("notes 1.0.0 → 1.1.0", &diff, false), @r"
        notes 1.0.0 → 1.1.0
        + asks for secret: API_KEY

        SKILL.md (changed)
        @@ -1 +1 @@
        -old
        +new �[31m

        logo.png (added)
        binary
        ");
    }
}
