//! The hive's own tools, under the names that models are told. What each does is a use case of its noun; here are their
//! descriptions and the way from a name to it.

mod catalogue;
mod documents;
mod jobs;
mod mail;
mod soul;
mod tasks;

use std::sync::Arc;

use serde_json::{Map, Value};

use crate::{
    app::{Result, hive::Hive, types::AppError},
    ids::AgentId,
    tools::Tool,
};

/// On whose behalf a tool of the hive is called.
#[derive(Debug, Clone)]
pub struct Behalf {
    /// Who decides: an agent, or none: the operator.
    pub caller: Option<AgentId>,
    /// Whose tools these are: the agent that calls, or that the operator chose.
    pub agent: AgentId,
}

/// What models are told of a tool.
pub(super) struct Described {
    pub(super) name: &'static str,
    pub(super) description: String,
    pub(super) input_schema: Value,
}

/// Every tool of the hive.
fn all() -> &'static [Described] {
    static ALL: std::sync::LazyLock<Vec<Described>> = std::sync::LazyLock::new(|| {
        [catalogue::tools(), documents::tools(), jobs::tools(), mail::tools(), soul::tools(), tasks::tools()]
            .into_iter()
            .flatten()
            .collect()
    });
    &ALL
}

/// Their names.
#[must_use]
pub fn tools() -> Vec<Tool> {
    all().iter().map(|tool| Tool::of_hive(tool.name)).collect()
}

/// Description and schema of one.
pub(super) fn described(name: &str) -> (String, Option<Value>) {
    let found = all().iter().find(|tool| tool.name == name);
    found.map_or_else(Default::default, |tool| (tool.description.clone(), Some(tool.input_schema.clone())))
}

/// What a tool answers whose arguments are not what it takes.
///
/// # Errors
/// The same, of a tool that has no form for it.
pub(super) fn refused(name: &str, error: AppError) -> Result<Value> {
    if jobs::is_one(name) || mail::is_one(name) || tasks::is_one(name) {
        jobs::refusal(error)
    } else {
        Err(error)
    }
}

/// Calls one.
///
/// # Errors
/// What is wrong with the arguments, and why it cannot be done.
pub async fn call(hive: &Arc<Hive>, behalf: &Behalf, name: &str, args: &Map<String, Value>) -> Result<Value> {
    if name == catalogue::NAME {
        return catalogue::call(hive, behalf).await;
    }
    if name == soul::NAME {
        return soul::call(hive, behalf, args).await;
    }
    if let Some(answer) = documents::call(hive, behalf, name, args).await {
        return answer;
    }
    if let Some(answer) = jobs::call(hive, behalf, name, args).await {
        return answer;
    }
    if let Some(answer) = mail::call(hive, behalf, name, args).await {
        return answer;
    }
    if let Some(answer) = tasks::call(hive, behalf, name, args).await {
        return answer;
    }
    Err(AppError::NotFound(format!("the hive has no tool {name:?}")))
}
