//! `edit_system_prompt` (systems.md B8): the five operations of documents on the agent's soul, where the operator allows
//! it.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::{Behalf, Described};
use crate::{
    app::{Result, documents, hive::Hive, types::AppError},
    ids::SkillId,
    skill::document::{Mistake, Operation, Tool, patch},
    supervisor::soul,
};

pub(super) const NAME: &str = "edit_system_prompt";
/// As documents are edited; a soul has no title, description or tags.
const PARAMETERS: [&str; 5] = ["operation", "content", "find", "replace", "replace_all"];

/// One edit at a time: each is made of what the one before left.
static EDITING: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

pub(super) fn tools() -> Vec<Described> {
    let mut schema = Tool::UpdateSkill.parameters();
    if let Some(properties) = schema["properties"].as_object_mut() {
        properties.retain(|name, _| PARAMETERS.contains(&name.as_str()));
        properties["operation"]["description"] = "What happens to the text.".into();
    }
    schema["required"] = json!(["operation"]);
    vec![Described {
        name: NAME,
        description:
            "Changes your own system prompt, which is the file /soul.md; it holds from your next run on."
                .to_owned(),
        input_schema: schema,
    }]
}

pub(super) async fn call(hive: &Arc<Hive>, behalf: &Behalf, args: &Map<String, Value>) -> Result<Value> {
    let agent = &behalf.agent;
    let found = hive.find_agent(agent)?;
    let allowed = hive.world().config.agents.get(agent).is_some_and(|config| config.allow_soul_edit);
    if !allowed {
        return Err(AppError::Forbidden(format!(
            "agent {agent} may not edit its soul: the operator has not set allow_soul_edit"
        )));
    }
    let operation = operation(args)?;
    let _one = EDITING.lock().await;
    // What it wrote into the file itself a moment ago counts.
    soul::take_over(hive, &found).await;
    let edited = operation.apply(&hive.soul(agent).await?);
    let edited = edited.map_err(|mistake| documents::invalid(vec![mistake]))?;
    if let Some(c) = edited.chars().find(|c| c.is_control() && !matches!(c, '\n' | '\r' | '\t')) {
        return Err(AppError::Invalid {
            detail: format!("a soul is plain text: the control character {c:?} cannot be in it"),
            errors: Vec::new(),
        });
    }
    hive.set_soul(agent, &edited).await?;
    Ok(json!({ "edited": true, "characters": edited.chars().count() }))
}

fn operation(args: &Map<String, Value>) -> Result<Operation> {
    let strange = args.keys().filter(|key| !PARAMETERS.contains(&key.as_str()));
    let known = PARAMETERS.join(", ");
    let mut mistakes: Vec<Mistake> = strange
        .map(|key| Mistake {
            pointer: format!("/{}", key.replace('~', "~0").replace('/', "~1")),
            detail: format!("{key:?} is no parameter; there are {known}"),
        })
        .collect();
    if mistakes.is_empty() {
        // Parameters are read as those of a document, whose name plays no part.
        let any: SkillId = "soul".parse().map_err(|e| AppError::Internal(format!("{e}")))?;
        match patch(&any, &Value::Object(args.clone())) {
            Ok(edit) => match edit.operation {
                Some(operation) => return Ok(operation),
                None => mistakes.push(Mistake {
                    pointer: "/operation".to_owned(),
                    detail: "operation is missing".to_owned(),
                }),
            },
            Err(wrong) => mistakes = wrong,
        }
    }
    Err(documents::invalid(mistakes))
}
