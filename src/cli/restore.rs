//! `skep restore`: a hive made of a backup, in one step and only when the backup is whole.

use std::path::PathBuf;

use super::{
    backup,
    failure::{Failure, Outcome},
    hive::{self, Context},
};
use crate::app::backup::{RestoreRequest, Restored, restore};

/// `skep restore`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The backup
    #[arg(value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    file: PathBuf,
    /// The new hive's folder [default: --dir, or the current folder]
    #[arg(value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    target: Option<PathBuf>,
    /// Also into a folder that is not empty: what is there is moved aside, not removed
    #[arg(short, long)]
    force: bool,
    /// Only check that the backup is whole; change nothing
    #[arg(long, conflicts_with_all = ["force", "target"])]
    check: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(context: &Context, args: &Args) -> Outcome {
    context.only_here()?;
    let target = args.target.clone().or_else(|| context.dir.clone()).unwrap_or_else(|| PathBuf::from("."));
    // Asked before the folder is replaced.
    let here = std::env::current_dir().ok();
    let request =
        RestoreRequest { file: args.file.clone(), dir: target, force: args.force, check: args.check };
    let restored = backup::work(context, move |progress| restore(&request, progress)).await?;
    if args.json {
        context.ui.json(&restored)?;
    } else {
        let stood_there = restored.dir.as_deref().is_some_and(|dir| here.as_deref() == Some(dir));
        told(context, &restored, stood_there)?;
    }
    Ok(0)
}

fn told(context: &Context, restored: &Restored, stood_there: bool) -> Result<(), Failure> {
    let whose = format!("the hive {} as of {}", restored.head.hive, restored.head.created_at);
    let Some(dir) = &restored.dir else {
        context.ui.line(format!("the backup is whole: {whose}, {} files", restored.files))?;
        return Ok(());
    };
    context.ui.line(format!("{whose} is in {}, {} files", dir.display(), restored.files))?;
    if let Some(replaced) = &restored.replaced {
        context.ui.note(format!("what was there before is in {}", replaced.display()));
    }
    for note in &restored.left_out {
        context.ui.warn(format!("not in the backup: {}", backup::line(note)));
    }
    if !restored.missing_secrets.is_empty() {
        context.ui.warn(format!("set these secrets again: {}", restored.missing_secrets.join(", ")));
    }
    if stood_there {
        context.ui.note("this shell stands in the folder as it was: run `cd .`");
    }
    context.ui.note(format!("start it with `skep --dir {} up`", hive::shown(dir)));
    Ok(())
}
