//! `skep skill publish`: a folder becomes a version of the registry, held to the strict rules.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::{
    super::{
        failure::{Failure, Outcome, USAGE},
        hive::{Context, mistakes},
        offline,
    },
    check::below,
};
use crate::{
    app::skills::{Outcome as Came, Published},
    config::model::SkillLimits,
    registry::{
        archive::{self, Format},
        safe_copy::{Origin, Policy},
        store::Store,
    },
    skill::{
        load,
        source::{MANIFEST, SKILL_MD},
    },
};

pub(super) const EXAMPLES: &str = "\
A published version never changes. Unlike `add`, `publish` copies nothing into the hive's folder of skills:
keep the source yourself.

Examples:
  skep skill publish ./note-taking
  skep --host http://127.0.0.1:7117 skill publish ./note-taking";

/// `skep skill publish`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The folder
    #[arg(value_hint = clap::ValueHint::DirPath)]
    path: PathBuf,
    /// Also when it is not newer than all other versions
    #[arg(long)]
    allow_older: bool,
    /// Also what others than skep would find wrong with its SKILL.md
    #[arg(long)]
    lenient: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(context: &Context, args: &Args) -> Outcome {
    let client = context.client()?;
    let at = args
        .path
        .canonicalize()
        .map_err(|e| Failure::usage(format!("cannot look into {}: {e}", args.path.display())))?;
    if ![MANIFEST, SKILL_MD].iter().any(|name| at.join(name).is_file()) {
        let message =
            format!("{} holds no skill: there is neither {MANIFEST} nor {SKILL_MD}", args.path.display());
        return Err(Failure::usage(message).help("name the folder that holds one of them"));
    }
    let temp = tempfile::tempdir()?;
    let limits = SkillLimits::default();
    let staged =
        Store::open(temp.path())?.stage(&at, Path::new("."), &Policy { origin: Origin::Operator, limits })?;
    let report = load::read(staged.source(), offline::limits(&limits));
    let errors = if args.lenient { report.errors.clone() } else { report.strict() };
    if !errors.is_empty() {
        let details = errors.into_iter().map(|f| below(&args.path, f).to_string()).collect::<Vec<_>>();
        let message =
            format!("{} is not published: it has {}:", args.path.display(), mistakes(details.len()));
        return Err(Failure { details, code: USAGE, ..Failure::new(message) });
    }
    let packed = archive::pack(staged.path(), staged.source(), Format::TarZst, Vec::new())?;
    let Some(skill) = report.skill else { return Err(Failure::new("there is no skill")) };
    // With its id where it is known: a name alone may be that of another skill.
    let known = client.get::<Value>(&format!("/v1/skills/{}", skill.id), &[]).await;
    let path = match known {
        Ok(_) => format!("/v1/skills/{}/versions", skill.id),
        Err(e) if e.status == Some(404) => "/v1/skills".to_owned(),
        Err(e) => return Err(e),
    };
    let mut query = Vec::new();
    if args.allow_older {
        query.push(("allow_older", "true"));
    }
    let published: Published = client.upload(&path, &query, "application/zstd", packed).await?;
    if args.json {
        context.ui.json(&published)?;
        return Ok(0);
    }
    for warning in &published.warnings {
        context.ui.warn(warning);
    }
    let done = match published.outcome {
        Came::Same => "is there already, with the same content",
        Came::Created | Came::Updated => "is published",
    };
    context.ui.line(format!("{}@{} {done} ({})", published.id, published.version, published.digest))?;
    Ok(0)
}
