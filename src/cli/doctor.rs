//! `skep doctor`: what is missing, wrong or unsafe on this machine.

use comfy_table::Color;

use super::{
    failure::{FAILED, Failure, Outcome},
    hive::{self, Context},
    ui::Shown,
};
use crate::{app::types::Finding, engine::docker::DockerEngine};

/// `skep doctor`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(context: &Context, args: &Args) -> Outcome {
    let findings = findings(context).await?;
    let failed = findings.iter().any(|f| f.level == "error");
    if args.json {
        context.ui.json(&findings)?;
    } else {
        show(context, &findings)?;
    }
    Ok(if failed { FAILED } else { 0 })
}

/// From the supervisor where one runs: it sees the engine as it uses it.
async fn findings(context: &Context) -> Result<Vec<Finding>, Failure> {
    let hive = context.hive().ok();
    let runs = match &hive {
        Some(hive) => matches!(hive::supervisor(hive), Ok(Some(_))),
        None => false,
    };
    if runs || context.host.is_some() {
        return context.client()?.list("/v1/doctor", &[]).await;
    }
    let engine = DockerEngine::new(context.env.docker_host.as_deref());
    Ok(crate::app::doctor::examine(&engine, hive.as_ref().map(|h| h.root.as_path())).await)
}

fn show(context: &Context, findings: &[Finding]) -> Result<(), Failure> {
    let rows = findings.iter().map(|finding| {
        let (mark, color) = match finding.level.as_str() {
            "ok" => ("ok", Color::Green),
            "warning" => ("warning", Color::Yellow),
            _ => ("error", Color::Red),
        };
        vec![finding.check.as_str().into(), Shown::from(mark).color(color), finding.message.as_str().into()]
    });
    context.ui.table(&["CHECK", "RESULT", "FOUND"], rows.collect())?;
    for finding in findings {
        if let Some(remedy) = &finding.remedy {
            context.ui.line(format!("\n{}: {}", finding.check, super::ui::plain(remedy)))?;
        }
    }
    Ok(())
}
