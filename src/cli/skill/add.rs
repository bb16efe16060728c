//! `skep skill add`: skills from folders, archives and git repositories become sources of the hive.
//!
//! They are copied into its folder of skills, so that they are the operator's own files from then on;
//! the supervisor takes them up from there like anything that is written by hand.

mod fetch;
mod place;
mod report;
mod source;
mod uptake;

use std::path::PathBuf;

use self::{
    fetch::{Fetched, fetch},
    place::Importer,
    report::{Line, Outcome as Came, Report},
};
use super::super::{
    failure::{FAILED, Failure, Outcome},
    hive::Context,
    ui::lines_of,
};
use crate::ids::SkillId;

pub(super) const EXAMPLES: &str = "\
Skills are copied into the hive's first source folder (`skills/`), as <id> or <id>@<version>, and are yours
from then on: edit them, commit them. Nothing in there is overwritten without --force. A supervisor that
runs takes them up at once, otherwise the next `skep up` does. What is odd but loads is taken with a
warning (--strict refuses it); one skill that is refused does not keep the others out.

Sources:
  a folder         that is a skill, or holds skills
  an archive       tar, tar.gz, tar.zst or zip, told by its content; - reads standard input
  a git URL        https://…, ssh://… or user@host:path, with #REF or --ref for a branch, tag or commit;
                   also a local repository with --ref

Examples:
  skep skill add ./note-taking
  skep skill add ~/skills --strict
  skep skill add https://github.com/anthropics/skills --path document-skills
  skep skill add https://github.com/obra/superpowers#v4.0.0 --path skills/brainstorming
  curl -fsSL https://example.com/weather.tar.gz | skep skill add -
  skep skill add weather.zip --as forecast";

/// `skep skill add`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Folders, archives, git URLs; - for an archive on standard input
    #[arg(required = true, value_name = "SOURCE", value_hint = clap::ValueHint::AnyPath)]
    sources: Vec<String>,
    /// Branch, tag or full commit id of a git repository [default: its default branch]
    #[arg(long = "ref", value_name = "REF")]
    reference: Option<String>,
    /// Only what is in this folder of the source
    #[arg(long, value_name = "FOLDER")]
    path: Option<PathBuf>,
    /// Take the one skill in by this id
    #[arg(long = "as", value_name = "ID")]
    id: Option<SkillId>,
    /// Refuse what the strict rules refuse
    #[arg(long)]
    strict: bool,
    /// Replace a skill of the folder whose content differs
    #[arg(long)]
    force: bool,
    /// Only show what would be done
    #[arg(long)]
    dry_run: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(context: &Context, args: &Args) -> Outcome {
    if context.host.is_some() {
        return Err(Failure::usage("add copies skills into a hive of this machine")
            .help("`skep --host … skill publish FOLDER` sends one to another machine"));
    }
    let hive = context.hive()?;
    let config = context.config(&hive)?.config;
    let mut importer = Importer::new(&hive, &config, args)?;
    let mut report = Report::default();
    let bar = context.ui.spinner();
    for text in &args.sources {
        let mut told = |line: &str| bar.set_message(super::super::ui::short(line, 200));
        let fetched = match fetch(text, args, &mut told).await {
            Ok(fetched) => fetched,
            // One source that cannot be had does not keep the others out; one alone is a plain failure.
            Err(e) if args.sources.len() == 1 => return Err(e),
            Err(e) => {
                report.lines.push(Line::failed(text, e));
                continue;
            }
        };
        take_all(&fetched, &mut importer, &mut report, &mut told)?;
    }
    importer.finish()?;
    if !args.dry_run {
        let mut told = |line: &str| bar.set_message(line.to_owned());
        report.supervisor = Some(uptake::register(context, &hive, &mut report.lines, &mut told).await?);
    }
    bar.finish_and_clear();
    show(context, args, &report)
}

fn take_all(
    fetched: &Fetched,
    importer: &mut Importer<'_>,
    report: &mut Report,
    told: &mut dyn FnMut(&str),
) -> Result<(), Failure> {
    let found = fetched.scan.candidates.len();
    report.notes.extend(fetched.scan.faults.iter().map(ToString::to_string));
    if found == 0 {
        let message =
            format!("there is no skill in {}: no folder holds manifest.json or SKILL.md", fetched.shown);
        report.lines.push(Line::failed(&fetched.shown, Failure::new(message)));
        return Ok(());
    }
    importer.only_one(found)?;
    for (n, candidate) in fetched.scan.candidates.iter().enumerate() {
        told(&format!("{} of {found}: {}", n + 1, candidate.id));
        report.lines.push(importer.take(fetched, candidate)?);
    }
    Ok(())
}

fn show(context: &Context, args: &Args, report: &Report) -> Outcome {
    let ui = &context.ui;
    let failed = report.count(Came::Failed) > 0;
    if args.json {
        ui.json(&report.json(args.dry_run))?;
        return Ok(if failed { FAILED } else { 0 });
    }
    // What is refused is told by its errors.
    let taken = report.lines.iter().filter(|l| l.outcome != Came::Failed);
    for warning in report.notes.iter().chain(taken.flat_map(|l| &l.warnings)) {
        ui.warn(warning);
    }
    if report.lines.iter().any(|line| line.id.is_some()) {
        report.table(ui)?;
    }
    if let Some(note) = report.supervisor.as_ref().and_then(uptake::Uptake::note) {
        ui.note(note);
    }
    ui.note(report.sum(args.dry_run));
    if !failed {
        return Ok(0);
    }
    let refused: Vec<&Line> = report.lines.iter().filter(|l| l.outcome == Came::Failed).collect();
    let details = refused.iter().flat_map(|l| &l.errors).map(|e| lines_of(e)).collect();
    let message = match refused.as_slice() {
        [one] => format!("{} was not taken in:", one.name()),
        many => format!("{} skills were not taken in:", many.len()),
    };
    let help = refused.iter().flat_map(|l| l.help.iter().cloned()).take(1).collect();
    Err(Failure { details, help, ..Failure::new(message) })
}
