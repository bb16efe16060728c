//! `skep skill list`, `search` and `show`: what the registry has.

use semver::Version;

use super::super::{
    failure::Outcome,
    hive::Context,
    ui::{lines_of, plain, short},
};
use crate::{
    app::types::{SkillVersionDetail, SkillView},
    ids::SkillId,
};

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
    if skills.is_empty() && !filter.words.is_empty() {
        context.ui.line(format!("no skill is found for {words:?}"))?;
        return Ok(0);
    }
    let rows = skills.iter().map(|skill| {
        vec![
            skill.id.as_str().into(),
            skill.latest_version.as_deref().unwrap_or("-").into(),
            skill.owner.as_str().into(),
            state(skill).into(),
            join(&skill.used_by).into(),
            short(skill.snippet.as_deref().unwrap_or(&skill.description), 60).into(),
        ]
    });
    let said = if filter.words.is_empty() { "DESCRIPTION" } else { "FOUND" };
    context.ui.table(&["ID", "LATEST", "OWNER", "STATE", "USED BY", said], rows.collect())?;
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
        let state = states(&version.trust, version.yanked, version.deprecated.as_deref());
        vec![version.version.as_str().into(), state.into(), version.digest.as_str().into()]
    });
    ui.table(&["VERSION", "STATE", "DIGEST"], rows.collect())?;
    Ok(0)
}

pub(super) async fn show_version(context: &Context, id: &SkillId, version: &Version, json: bool) -> Outcome {
    let path = format!("/v1/skills/{id}/versions/{version}");
    let detail: SkillVersionDetail = context.client()?.get(&path, &[]).await?;
    if json {
        context.ui.json(&detail)?;
        return Ok(0);
    }
    let ui = &context.ui;
    let declared = |key: &str| detail.manifest[key].as_str().unwrap_or_default();
    ui.line(format!("{id}@{version}  {}", plain(declared("name"))))?;
    ui.line(lines_of(declared("description")))?;
    ui.line("")?;
    let state = states(&detail.trust, detail.yanked, detail.deprecated.as_deref());
    for (what, value) in [
        ("source", &detail.source),
        ("state", &state),
        ("digest", &detail.digest),
        ("registered", &detail.registered_at),
    ] {
        ui.line(format!("{what:<11} {}", plain(value)))?;
    }
    ui.line("")?;
    let rows = detail.files.iter().map(|file| {
        let run = if file.executable { "yes" } else { "-" };
        vec![file.path.as_str().into(), file.size.to_string().into(), run.into()]
    });
    ui.table(&["FILE", "BYTES", "EXECUTABLE"], rows.collect())?;
    Ok(0)
}

/// `trusted, yanked, deprecated: why`
fn states(trust: &str, yanked: bool, deprecated: Option<&str>) -> String {
    let mut state = vec![trust.to_owned()];
    if yanked {
        state.push("yanked".into());
    }
    state.extend(deprecated.map(|why| format!("deprecated: {why}")));
    state.join(", ")
}
