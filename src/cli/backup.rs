//! `skep backup`: the whole hive in one file, from its files directly.

use std::{path::PathBuf, sync::Arc, sync::atomic::AtomicBool, sync::atomic::Ordering};

use indicatif::{HumanBytes, ProgressBar};

use super::{
    failure::{Failure, Outcome},
    hive::{self, Context},
};
use crate::app::backup::{BackupError, BackupRequest, Progress, Report, archive::Note, create};

pub(super) const CONTENTS: &str = "\
It reads the hive's files directly: a supervisor may run and goes on, and none needs to. The database
is copied as of one moment; then follow the skills that it names, the agents' workspaces, custom
skills and kept outputs of runs, skep.toml, skep.lock, souls, skill sources (without .git) and
variables.json. A file that an agent writes meanwhile is read again, and told when it never held still.

Not in it: secrets, the token and secret variables (without --with-secrets), a file of an agent's that
holds the value of a secret, FIFOs, sockets and devices, containers, images, skep's own logs. Of each
workspace at most twice its agent's `disk` is taken. Everything left out is told.

The file is a tar in zstd with the SHA-256 of every file; `skep restore` compares them.";

/// `skep backup`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The file to write, like hive.tar.zst
    #[arg(value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    file: PathBuf,
    /// Also secrets, the token and secret variables: keep the file as you keep them
    #[arg(long)]
    with_secrets: bool,
    /// Replace a file that is there
    #[arg(short, long)]
    force: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(context: &Context, args: &Args) -> Outcome {
    context.only_here()?;
    let hive = context.hive()?;
    let config = context.config(&hive)?.config;
    let request = BackupRequest {
        paths: hive,
        config,
        file: args.file.clone(),
        with_secrets: args.with_secrets,
        replace: args.force,
    };
    let report = work(context, move |progress| create(&request, progress)).await?;
    if args.json {
        context.ui.json(&report)?;
    } else {
        told(context, &report)?;
    }
    Ok(0)
}

fn told(context: &Context, report: &Report) -> Result<(), Failure> {
    context.ui.line(format!(
        "{}: {} files of the hive {}, {} ({} before compression)",
        hive::shown(&report.file),
        report.files,
        report.head.hive,
        HumanBytes(report.size),
        HumanBytes(report.bytes)
    ))?;
    for note in &report.warnings {
        context.ui.warn(line(note));
    }
    for note in &report.left_out {
        context.ui.warn(format!("left out {}", line(note)));
    }
    if report.head.with_secrets {
        context.ui.warn("the secrets are in it: whoever can read this file has them");
    }
    Ok(())
}

/// A note in one line.
pub(super) fn line(note: &Note) -> String {
    format!("{}: {}", super::ui::plain(&note.path), super::ui::plain(&note.reason))
}

/// Does long work on a thread of its own, shows how it goes, and ends it cleanly on Ctrl-C.
pub(super) async fn work<T: Send + 'static>(
    context: &Context,
    work: impl FnOnce(Progress) -> Result<T, BackupError> + Send + 'static,
) -> Result<T, Failure> {
    let spinner = context.ui.spinner();
    let ended = Arc::new(AtomicBool::new(false));
    let mut job = tokio::task::spawn_blocking({
        let progress = progress(spinner.clone(), ended.clone());
        move || work(progress)
    });
    let outcome = tokio::select! {
        outcome = &mut job => outcome,
        _ = tokio::signal::ctrl_c() => {
            ended.store(true, Ordering::Relaxed);
            job.await
        }
    };
    spinner.finish_and_clear();
    outcome?.map_err(|e| match e {
        BackupError::Refused { message, help } => Failure::new(message).help(help),
        e => Failure::from(e),
    })
}

fn progress(spinner: ProgressBar, ended: Arc<AtomicBool>) -> Progress {
    let (mut files, mut bytes) = (0_u64, 0);
    Box::new(move |path, more| {
        (files, bytes) = (files + 1, bytes + more);
        spinner.set_message(format!("{files} files, {}: {}", HumanBytes(bytes), super::ui::plain(path)));
        if ended.load(Ordering::Relaxed) {
            return Err(std::io::Error::other("it was interrupted; nothing was changed"));
        }
        Ok(())
    })
}
