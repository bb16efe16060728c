//! The document tools (systems.md B3, C9) as functions from JSON to JSON, with the parameters and answers that models
//! are told. Errors are the tool's errors; whoever serves the tools words them.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{DocumentView, invalid};
use crate::{
    app::{Result, hive::Hive, jobs::OnceKey},
    ids::AgentId,
    skill::document::{Call, Tool, parse},
};

macro_rules! functions {
    ($($name:ident $tool:ident $answer:literal,)*) => {$(
        #[doc = concat!("`", stringify!($name), "` → `", $answer, "`. The caller is an agent, or none: the operator.")]
        ///
        /// # Errors
        /// What is wrong with the parameters, and why it cannot be done.
        pub async fn $name(hive: &Arc<Hive>, caller: Option<&AgentId>, args: &Value) -> Result<Value> {
            tool(hive, caller, Tool::$tool, args, None).await
        }
    )*};
}

functions! {
    create_skill CreateSkill "{name, version: 1}",
    update_skill UpdateSkill "{name, version}",
    delete_skill DeleteSkill "{deleted}",
    list_skills ListSkills "{skills: [{name, title, description, tags, source, version}]}",
    read_skill ReadSkill "{name, title, description, content, tags, source, version}",
    enable_skill EnableSkill "{name, enabled}",
    disable_skill DisableSkill "{name, enabled}",
    skill_management SkillManagement "what the tool of its operation answers",
}

/// Calls a tool. With a key a repeat of the same call is answered without doing it again.
///
/// # Errors
/// What is wrong with the parameters, and why it cannot be done.
pub async fn tool(
    hive: &Arc<Hive>,
    caller: Option<&AgentId>,
    tool: Tool,
    args: &Value,
    key: Option<OnceKey>,
) -> Result<Value> {
    Ok(match parse(tool, args).map_err(invalid)? {
        Call::Create(new) => written(&hive.create_document(caller, new, key).await?),
        Call::Update(update) => {
            written(&hive.update_document(caller, &update.slug, &update.edit, None, key).await?)
        }
        Call::Delete(slug) => json!(hive.delete_document(caller, &slug, None).await?),
        Call::List { tag, include_disabled } => {
            let documents = hive.documents(caller, tag, include_disabled).await?;
            json!({ "skills": documents.into_iter().map(shown).collect::<Vec<_>>() })
        }
        Call::Read(slug) => shown(hive.document(caller, &slug).await?),
        Call::SetEnabled(slug, enabled) => json!(hive.set_document_enabled(caller, &slug, enabled).await?),
    })
}

fn written(document: &DocumentView) -> Value {
    json!({ "name": document.name, "version": document.version })
}

fn shown(document: DocumentView) -> Value {
    let DocumentView { name, title, description, content, tags, source, version, .. } = document;
    match content {
        Some(content) => json!({
            "name": name, "title": title, "description": description, "content": content, "tags": tags,
            "source": source, "version": version,
        }),
        None => json!({
            "name": name, "title": title, "description": description, "tags": tags, "source": source,
            "version": version,
        }),
    }
}
