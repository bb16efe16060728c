//! An agent's skills as resources (SEP-2640): `skill://<id>/SKILL.md` and the files beside it. Only what the agent
//! resolved, as it is published.

use std::{collections::BTreeMap, sync::Arc};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use rmcp::{
    ErrorData,
    model::{
        DIRECTORY_MIME_TYPE, ReadResourceResult, Resource, ResourceContents, Skill, SkillFrontmatter,
        SkillResource, SkillResources,
    },
};
use serde_json::json;

use super::server::refused;
use crate::{
    app::{Hive, faces::held::HeldSkill},
    ids::AgentId,
    skill::source::SKILL_MD,
};

/// What clients must take of one skill; a larger one is listed without its files.
const MOST_FILES: usize = 512;
const MOST_BYTES: u64 = 16 << 20;

type Answer<T> = Result<T, ErrorData>;

/// The folder of a skill. Its last part is the name that its SKILL.md says, as clients check.
fn root(skill: &HeldSkill) -> String {
    match skill.name() {
        name if name == skill.id.as_str() => format!("skill://{name}"),
        name => format!("skill://{}/{}", skill.id, escape(name)),
    }
}

/// A path in a URI.
fn escape(path: &str) -> String {
    path.bytes().fold(String::new(), |mut out, b| {
        if b.is_ascii_alphanumeric() || b"-._~/".contains(&b) {
            out.push(char::from(b));
        } else {
            out.push_str(&format!("%{b:02X}"));
        }
        out
    })
}

fn entry(skill: &HeldSkill) -> Option<Skill> {
    let root = root(skill);
    let mut frontmatter = SkillFrontmatter::new(skill.name(), skill.description());
    for (key, value) in &skill.frontmatter {
        if key != "name" && key != "description" {
            frontmatter = frontmatter.with_field(key, value.clone());
        }
    }
    let size: u64 = skill.files.iter().map(|file| file.size).sum();
    let resources = if skill.files.len() > MOST_FILES || size > MOST_BYTES {
        SkillResources::Dynamic
    } else {
        let file = |file: &crate::app::faces::held::HeldFile| {
            SkillResource::new(format!("{root}/{}", escape(&file.path)), file.digest.to_string(), file.size)
        };
        SkillResources::Files(skill.files.iter().map(file).collect())
    };
    let entry = Skill::new(format!("{root}/{SKILL_MD}"), frontmatter, resources);
    match entry.validate() {
        Ok(()) => Some(entry),
        Err(e) => {
            // One that clients would refuse would take the whole list with it.
            tracing::debug!(skill = %skill.id, error = %e, "is not served as an MCP skill");
            None
        }
    }
}

async fn held(hive: &Arc<Hive>, agent: &AgentId) -> Answer<Vec<Arc<HeldSkill>>> {
    hive.held_skills(agent).await.map_err(|e| refused(&e))
}

/// The skills.
pub async fn list(hive: &Arc<Hive>, agent: &AgentId) -> Answer<Vec<Skill>> {
    Ok(held(hive, agent).await?.iter().filter_map(|skill| entry(skill)).collect())
}

/// Their SKILL.md files as resources.
pub async fn resources(hive: &Arc<Hive>, agent: &AgentId) -> Answer<Vec<Resource>> {
    let skills = list(hive, agent).await?.into_iter();
    let shown = |skill: Skill| {
        Resource::new(skill.uri, skill.frontmatter.name)
            .with_description(skill.frontmatter.description)
            .with_mime_type("text/markdown")
    };
    Ok(skills.map(shown).collect())
}

pub fn absent(uri: &str) -> ErrorData {
    ErrorData::resource_not_found("the agent has no such resource", Some(json!({ "uri": uri })))
}

/// One file.
pub async fn read(hive: &Arc<Hive>, agent: &AgentId, uri: String) -> Answer<ReadResourceResult> {
    let skills = held(hive, agent).await?;
    let found = skills.iter().find_map(|skill| {
        let inner = uri.strip_prefix(&root(skill))?.strip_prefix('/')?;
        let file = skill.files.iter().find(|file| escape(&file.path) == inner)?;
        Some((skill, file))
    });
    let (skill, file) = found.ok_or_else(|| absent(&uri))?;
    let bytes = hive.held_file(skill, &file.path).await.map_err(|e| refused(&e))?;
    let kind = kind(&file.path);
    let contents = match String::from_utf8(bytes) {
        Ok(text) => ResourceContents::text(text, uri).with_mime_type(kind.unwrap_or("text/plain")),
        Err(e) => ResourceContents::blob(STANDARD.encode(e.into_bytes()), uri)
            .with_mime_type(kind.unwrap_or("application/octet-stream")),
    };
    Ok(ReadResourceResult::new(vec![contents]))
}

/// What a folder of a skill holds.
pub async fn directory(hive: &Arc<Hive>, agent: &AgentId, uri: &str) -> Answer<Vec<Resource>> {
    let mut inside: BTreeMap<String, Resource> = BTreeMap::new();
    for skill in held(hive, agent).await? {
        let root = root(&skill);
        for file in &skill.files {
            let full = format!("{root}/{}", escape(&file.path));
            let Some(inner) = full.strip_prefix(uri).and_then(|rest| rest.strip_prefix('/')) else {
                continue;
            };
            let (name, resource) = match inner.split_once('/') {
                Some((folder, _)) => {
                    let at = format!("{uri}/{folder}");
                    (folder, Resource::new(at, folder).with_mime_type(DIRECTORY_MIME_TYPE))
                }
                None => {
                    let resource = Resource::new(full.clone(), inner).with_size(file.size);
                    (inner, resource.with_mime_type(kind(&file.path).unwrap_or("text/plain")))
                }
            };
            inside.insert(name.to_owned(), resource);
        }
    }
    if inside.is_empty() {
        return Err(ErrorData::invalid_params(format!("{uri} is no folder of a skill of the agent"), None));
    }
    Ok(inside.into_values().collect())
}

fn kind(path: &str) -> Option<&'static str> {
    Some(match path.rsplit_once('.')?.1 {
        "md" => "text/markdown",
        "json" => "application/json",
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        "svg" => "image/svg+xml",
        "pdf" => "application/pdf",
        "html" => "text/html",
        "csv" => "text/csv",
        _ => return None,
    })
}
