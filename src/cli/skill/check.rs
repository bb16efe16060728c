//! `skep skill validate`: whether a folder is a good skill. Needs no hive and no supervisor.

use std::path::Path;

use serde_json::json;

use super::super::{
    failure::{Failure, Outcome, USAGE},
    hive::{Context, mistakes},
    offline,
};
use crate::{
    config::model::SkillLimits,
    error::Fault,
    registry::safe_copy::{CopyError, Origin, Policy, fingerprint},
    skill::{digest::digest, load},
};

/// A fault of a file in a skill's folder, seen from where skep runs.
pub(super) fn below(place: &Path, fault: Fault) -> Fault {
    let place = place.display().to_string();
    let place = place.trim_end_matches('/');
    let file = if matches!(fault.file.as_str(), "." | "") {
        place.to_owned()
    } else {
        format!("{place}/{}", fault.file)
    };
    Fault { file, ..fault }
}

/// What is wrong with the skill in a folder.
struct Checked {
    errors: Vec<Fault>,
    warnings: Vec<Fault>,
    what: Option<String>,
}

pub(super) fn validate(context: &Context, path: &Path, strict: bool, json: bool) -> Outcome {
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
