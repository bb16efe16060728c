//! What may be done with skills and versions that are in the registry.

use std::{
    fs,
    path::{Path, PathBuf},
};

use reqwest::Method;
use serde::Serialize;
use serde_json::{Value, json};

use super::{
    super::{
        ask,
        failure::{FAILED, Failure, Outcome},
        hive::{self, Context},
        ui::plain,
    },
    DeprecateArgs, Exact, IdArgs, RmArgs, RollbackArgs, VersionArgs, YankArgs,
};
use crate::{
    app::{skills::SkillReview, types::SkillView},
    registry::sources,
    skill::scan::Severity,
};

/// `skep skill reject`.
#[derive(Debug, clap::Args)]
pub struct RejectArgs {
    #[command(flatten)]
    of: VersionArgs,
    /// Why, for its author
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

/// Posts, and prints the answer with `--json`, else `done`.
async fn act<B: Serialize>(
    context: &Context,
    path: &str,
    body: Option<&B>,
    json: bool,
    done: &str,
) -> Outcome {
    let response = context.client()?.call(Method::POST, path, body).await?;
    if json {
        let answer: Value = response.json().await.unwrap_or(Value::Null);
        context.ui.json(&answer)?;
    } else {
        context.ui.line(done)?;
    }
    Ok(0)
}

fn path(of: &Exact, verb: &str) -> String {
    format!("/v1/skills/{}/versions/{}/{verb}", of.id, of.version)
}

fn shown(of: &Exact) -> String {
    format!("{}@{}", of.id, of.version)
}

pub(super) async fn yank(context: &Context, args: &YankArgs) -> Outcome {
    let name = shown(&args.version);
    let (verb, done) = if args.undo {
        ("unyank", format!("{name} may be chosen again"))
    } else {
        ("yank", format!("{name} is yanked: it is chosen no more, and stays where skep.lock names it"))
    };
    act::<()>(context, &path(&args.version, verb), None, args.json, &done).await
}

pub(super) async fn deprecate(context: &Context, args: &DeprecateArgs) -> Outcome {
    let name = shown(&args.version);
    if args.message.is_none() && !args.undo {
        return Err(Failure::usage(format!("a message is missing: what is wrong with {name}?")).help(format!(
            "`skep skill deprecate {name} \"use other-skill instead\"`, or --undo to take the warning back"
        )));
    }
    let done = match &args.message {
        Some(message) => format!("{name} is deprecated: {}", plain(message)),
        None => format!("{name} is deprecated no more"),
    };
    let body = json!({ "message": args.message });
    act(context, &path(&args.version, "deprecate"), Some(&body), args.json, &done).await
}

pub(super) async fn approve(context: &Context, args: &VersionArgs) -> Outcome {
    let done = format!("{} is approved: any agent may use it", shown(&args.version));
    let code = act::<()>(context, &path(&args.version, "approve"), None, args.json, &done).await?;
    // Judged on its own: what the scanner says changes nothing.
    if let Ok(review) = context.client()?.get::<SkillReview>(&path(&args.version, "review"), &[]).await {
        let bad = review.findings.iter().filter(|f| f.severity == Severity::Danger).count();
        if bad > 0 {
            context.ui.warn(format!(
                "the scanner found {bad} dangerous places in it; `skep skill review {0}` shows them, `skep skill reject \
                 {0}` takes it back",
                shown(&args.version)
            ));
        }
    }
    Ok(code)
}

pub(super) async fn reject(context: &Context, args: &RejectArgs) -> Outcome {
    let done = format!("{} is rejected", shown(&args.of.version));
    let body = args.reason.as_ref().map(|reason| json!({ "reason": reason }));
    act(context, &path(&args.of.version, "reject"), body.as_ref(), args.of.json, &done).await
}

pub(super) async fn enable(context: &Context, args: &IdArgs, enabled: bool) -> Outcome {
    let (verb, done) = if enabled {
        ("enable", format!("{} is enabled", args.id))
    } else {
        ("disable", format!("{} is disabled: it is resolved no more", args.id))
    };
    let response =
        context.client()?.call::<()>(Method::POST, &format!("/v1/skills/{}/{verb}", args.id), None).await?;
    let answer: Value = response.json().await.unwrap_or(Value::Null);
    if args.json {
        context.ui.json(&answer)?;
        return Ok(0);
    }
    let keep: Vec<&str> =
        answer["usedBy"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let kept = if enabled || keep.is_empty() {
        String::new()
    } else {
        format!("; these keep the version that they have: {}", keep.join(", "))
    };
    context.ui.line(format!("{done}{kept}"))?;
    Ok(0)
}

pub(super) async fn remove(context: &Context, args: &RmArgs) -> Outcome {
    let client = context.client()?;
    let path = format!("/v1/skills/{}", args.id);
    let skill: SkillView = client.get(&path, &[]).await?;
    let folders = folders(context, args);
    let too = match (args.folder, folders.is_empty()) {
        (true, false) => format!(" {} goes, too.", shown_all(&folders)),
        _ => String::new(),
    };
    let question = format!("{} and all of its versions go from the registry.{too} Remove it?", args.id);
    if !args.yes && !ask::sure(context, "rm", &question)? {
        return Ok(FAILED);
    }
    // What is in use is refused; its folders stay then.
    let aside = if args.folder && skill.used_by.is_empty() { set_aside(&folders)? } else { Vec::new() };
    if let Err(refused) = client.call::<()>(Method::DELETE, &path, None).await {
        for (folder, hidden) in aside {
            fs::rename(&hidden, &folder)?;
        }
        let remedy = !args.folder && !folders.is_empty() && skill.used_by.is_empty();
        return Err(if remedy {
            refused.help(format!("add --folder to remove {}, too", shown_all(&folders)))
        } else {
            refused
        });
    }
    for (_, hidden) in aside {
        fs::remove_dir_all(hidden)?;
    }
    context.ui.line(format!("{} is removed", args.id))?;
    Ok(0)
}

fn shown_all(folders: &[PathBuf]) -> String {
    folders.iter().map(|f| hive::shown(f)).collect::<Vec<_>>().join(", ")
}

/// Hides folders under names that are no skills', to be removed or brought back.
fn set_aside(folders: &[PathBuf]) -> Result<Vec<(PathBuf, PathBuf)>, Failure> {
    let mut aside = Vec::new();
    for folder in folders {
        let name = folder.file_name().unwrap_or_default().to_string_lossy();
        let hidden = folder.with_file_name(format!(".skep-rm-{}-{name}", std::process::id()));
        fs::rename(folder, &hidden)
            .map_err(|e| Failure::new(format!("cannot remove {}: {e}", hive::shown(folder))))?;
        aside.push((folder.clone(), hidden));
    }
    Ok(aside)
}

/// Source folders of this hive that state the id.
fn folders(context: &Context, args: &RmArgs) -> Vec<PathBuf> {
    let Ok(hive) = context.hive() else { return Vec::new() };
    if context.host.is_some() {
        return Vec::new();
    }
    let Ok(loaded) = context.config(&hive) else { return Vec::new() };
    let mut found = Vec::new();
    for source in &loaded.config.registry.sources {
        let base = hive.resolve(source);
        let candidates = sources::scan(&base).candidates.into_iter();
        // A source that is itself the skill is not ours to remove.
        let inside = candidates.filter(|c| c.id == args.id.as_str() && c.folder != Path::new("."));
        found.extend(inside.map(|c| base.join(c.folder)));
    }
    found
}

pub(super) async fn rollback(context: &Context, args: &RollbackArgs) -> Outcome {
    let body = json!({
        "skill": args.skill.as_ref().map(|s| &s.id),
        "version": args.skill.as_ref().and_then(|s| s.version.as_ref()),
        "force": args.force,
    });
    let answer: Value =
        context.client()?.exchange(&format!("/v1/agents/{}/rollback", args.agent), &body).await?;
    if args.json {
        context.ui.json(&answer)?;
        return Ok(0);
    }
    let changes = answer["changes"].as_array().cloned().unwrap_or_default();
    if changes.is_empty() {
        return Err(Failure::new(format!("agent {} has the same skills as before", args.agent)));
    }
    let text = |change: &Value, key: &str| change[key].as_str().map_or_else(|| "-".to_owned(), plain);
    let rows =
        changes.iter().map(|c| vec![text(c, "id").into(), text(c, "from").into(), text(c, "to").into()]);
    context.ui.table(&["SKILL", "FROM", "TO"], rows.collect())?;
    Ok(0)
}
