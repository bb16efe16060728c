//! `skep skill`: what there is, and whether a folder is a good skill.

use std::path::{Path, PathBuf};

use serde_json::json;

use super::{
    failure::{Failure, Outcome, USAGE},
    hive::{Context, mistakes},
    offline,
    ui::{lines_of, plain, short},
};
use crate::{
    app::types::SkillView,
    config::model::SkillLimits,
    error::Fault,
    ids::SkillId,
    registry::safe_copy::{CopyError, Origin, Policy, fingerprint},
    skill::{digest::digest, load},
};

/// `skep skill`.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// List the skills of the registry
    List {
        /// Only those of `built-in`, `operator` or an agent
        #[arg(long)]
        owner: Option<String>,
        /// Only those with this tag
        #[arg(long)]
        tag: Option<String>,
        /// Disabled ones too
        #[arg(long)]
        all: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show one skill with its versions
    Show {
        /// Which skill
        id: SkillId,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Check a skill's folder; needs no hive and no supervisor
    Validate {
        /// The folder
        #[arg(value_hint = clap::ValueHint::DirPath)]
        path: PathBuf,
        /// Hold it to what publishing asks for
        #[arg(long)]
        strict: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

pub(super) async fn run(context: &Context, command: &Command) -> Outcome {
    match command {
        Command::List { owner, tag, all, json } => {
            let mut query = Vec::new();
            query.extend(owner.as_deref().map(|o| ("owner", o)));
            query.extend(tag.as_deref().map(|t| ("tag", t)));
            if *all {
                query.push(("include_disabled", "true"));
            }
            list(context, &query, *json).await
        }
        Command::Show { id, json } => show(context, id, *json).await,
        Command::Validate { path, strict, json } => validate(context, path, *strict, *json),
    }
}

async fn list(context: &Context, query: &[(&str, &str)], json: bool) -> Outcome {
    let skills: Vec<SkillView> = context.client()?.list("/v1/skills", query).await?;
    if json {
        context.ui.json(&skills)?;
        return Ok(0);
    }
    let rows = skills.iter().map(|skill| {
        vec![
            skill.id.as_str().into(),
            skill.latest_version.as_deref().unwrap_or("-").into(),
            skill.owner.as_str().into(),
            state(skill).into(),
            join(&skill.used_by).into(),
            short(&skill.description, 60).into(),
        ]
    });
    context.ui.table(&["ID", "LATEST", "OWNER", "STATE", "USED BY", "DESCRIPTION"], rows.collect())?;
    Ok(0)
}

fn state(skill: &SkillView) -> String {
    if skill.enabled { skill.trust.clone() } else { "disabled".to_owned() }
}

fn join(list: &[String]) -> String {
    if list.is_empty() { "-".to_owned() } else { list.join(", ") }
}

async fn show(context: &Context, id: &SkillId, json: bool) -> Outcome {
    let skill: SkillView = context.client()?.get(&format!("/v1/skills/{id}"), &[]).await?;
    if json {
        context.ui.json(&skill)?;
        return Ok(0);
    }
    let ui = &context.ui;
    ui.line(format!("{}  {}", skill.id, plain(&skill.name)))?;
    ui.line(lines_of(&skill.description))?;
    ui.line("")?;
    for (what, value) in [
        ("owner", skill.owner.clone()),
        ("source", skill.source.clone()),
        ("state", state(&skill)),
        ("tags", join(&skill.tags)),
        ("used by", join(&skill.used_by)),
        ("registered", skill.registered_at.clone()),
        ("updated", skill.updated_at.clone()),
    ] {
        ui.line(format!("{what:<11} {}", plain(&value)))?;
    }
    ui.line("")?;
    let rows = skill.versions.iter().map(|version| {
        let mut state = vec![version.trust.clone()];
        if version.yanked {
            state.push("yanked".into());
        }
        state.extend(version.deprecated.as_ref().map(|why| format!("deprecated: {why}")));
        vec![version.version.as_str().into(), state.join(", ").into(), version.digest.as_str().into()]
    });
    ui.table(&["VERSION", "STATE", "DIGEST"], rows.collect())?;
    Ok(0)
}

/// What is wrong with the skill in a folder.
struct Checked {
    errors: Vec<Fault>,
    warnings: Vec<Fault>,
    what: Option<String>,
}

fn validate(context: &Context, path: &Path, strict: bool, json: bool) -> Outcome {
    let checked = check(path, strict)?;
    let valid = checked.errors.is_empty();
    if json {
        let told = |faults: &[Fault]| faults.iter().map(ToString::to_string).collect::<Vec<_>>();
        context.ui.json(&json!({
            "valid": valid,
            "errors": told(&checked.errors),
            "warnings": told(&checked.warnings),
        }))?;
        return Ok(if valid { 0 } else { USAGE });
    }
    for warning in &checked.warnings {
        context.ui.warn(warning.to_string());
    }
    if valid {
        context
            .ui
            .line(format!("{} is valid", checked.what.unwrap_or_else(|| path.display().to_string())))?;
        return Ok(0);
    }
    let details = checked.errors.iter().map(ToString::to_string).collect::<Vec<_>>();
    let message = format!("{} has {}:", path.display(), mistakes(details.len()));
    Err(Failure { details, ..Failure::usage(message) })
}

fn check(path: &Path, strict: bool) -> Result<Checked, Failure> {
    // The folder's own name matters, also for `.`.
    let path = path
        .canonicalize()
        .map_err(|e| Failure::usage(format!("cannot look into {}: {e}", path.display())))?;
    if !path.is_dir() {
        return Err(Failure::usage(format!("{} is no folder", path.display()))
            .help("name the folder that holds manifest.json or SKILL.md"));
    }
    let limits = SkillLimits::default();
    let policy = Policy { origin: Origin::Operator, limits };
    let source = match fingerprint(&path, Path::new("."), &policy) {
        Ok(source) => source,
        Err(CopyError::Rejected { mut faults, more, .. }) => {
            if more > 0 {
                faults.push(Fault::new(".", format!("and {more} more")));
            }
            return Ok(Checked { errors: faults, warnings: Vec::new(), what: None });
        }
        Err(e) => return Err(Failure::from(e)),
    };
    let report = load::read(&source, offline::limits(&limits));
    let errors = if strict { report.strict() } else { report.errors.clone() };
    let warnings = report.warnings.into_iter().filter(|w| !errors.contains(w)).collect();
    let what = report.skill.map(|s| format!("{}@{} ({})", s.id, s.version, digest(&source)));
    Ok(Checked { errors, warnings, what })
}
