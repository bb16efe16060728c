//! `skep skill list`, `search` and `show`: what the registry has.

use semver::Version;
use serde_json::Value;

use super::super::{
    failure::Outcome,
    hive::Context,
    ui::{lines_of, plain, short},
};
use crate::{app::types::SkillView, ids::SkillId};

/// Which skills.
#[derive(Debug)]
pub(super) struct Filter<'a> {
    pub(super) words: &'a [String],
    pub(super) owner: Option<&'a str>,
    pub(super) tag: Option<&'a str>,
    pub(super) all: bool,
}

pub(super) async fn list(context: &Context, filter: &Filter<'_>, json: bool) -> Outcome {
    let words = filter.words.join(" ");
    let mut query = Vec::new();
    query.extend(filter.owner.map(|o| ("owner", o)));
    query.extend(filter.tag.map(|t| ("tag", t)));
    if !filter.words.is_empty() {
        query.push(("q", words.as_str()));
    }
    if filter.all {
        query.push(("include_disabled", "true"));
    }
    let skills: Vec<SkillView> = context.client()?.list("/v1/skills", &query).await?;
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

pub(super) async fn show(context: &Context, id: &SkillId, json: bool) -> Outcome {
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

pub(super) async fn show_version(context: &Context, id: &SkillId, version: &Version, json: bool) -> Outcome {
    let detail: Value = context.client()?.get(&format!("/v1/skills/{id}/versions/{version}"), &[]).await?;
    if json {
        context.ui.json(&detail)?;
        return Ok(0);
    }
    let text = |key: &str| detail[key].as_str().map(plain);
    let ui = &context.ui;
    ui.line(format!("{id}@{version}  {}", text("name").unwrap_or_default()))?;
    if let Some(description) = detail["description"].as_str() {
        ui.line(lines_of(description))?;
    }
    ui.line("")?;
    let mut state = vec![text("trust").unwrap_or_default()];
    if detail["yanked"] == true {
        state.push("yanked".into());
    }
    state.extend(text("deprecated").map(|why| format!("deprecated: {why}")));
    ui.line(format!("{:<11} {}", "state", state.join(", ")))?;
    for key in ["digest", "owner", "source"] {
        if let Some(value) = text(key) {
            ui.line(format!("{key:<11} {value}"))?;
        }
    }
    let files = detail["files"].as_array().into_iter().flatten();
    let rows: Vec<_> = files
        .map(|file| {
            let size = file["size"].as_u64().unwrap_or_default().to_string();
            let mode = if file["executable"] == true { "x" } else { "-" };
            vec![file["path"].as_str().unwrap_or_default().into(), size.into(), mode.into()]
        })
        .collect();
    if !rows.is_empty() {
        ui.line("")?;
        ui.table(&["FILE", "BYTES", "RUN"], rows)?;
    }
    Ok(0)
}
