//! Jobs under the names of the Annabelle documents: `memory_store_skill` and its kin (systems.md A3, A6, A7).
//!
//! What is wrong with a call is an answer, `{"success": false, "error": …}`, which a model can act on. Here are only
//! names and forms; what a job is and may be, `app::jobs` and `scheduler::request` decide.

mod schema;
mod view;

use std::{future::Future, sync::Arc};

use serde_json::{Map, Value, json};

pub(super) use self::schema::tools;
use super::Behalf;
use crate::{
    app::{Result, hive::Hive, jobs::JobFilter, types::AppError},
    ids::AgentId,
};

/// Jobs that are read at once.
const PAGE: usize = 500;

/// None: it is no tool of this kind.
pub(super) async fn call(
    hive: &Arc<Hive>,
    behalf: &Behalf,
    name: &str,
    args: &Map<String, Value>,
) -> Option<Result<Value>> {
    Some(match name {
        schema::STORE => answered(store(hive, behalf, args)).await,
        schema::UPDATE => answered(update(hive, behalf, args)).await,
        schema::LIST => answered(list(hive, behalf, args)).await,
        schema::GET => answered(get(hive, behalf, args)).await,
        schema::DELETE => answered(delete(hive, behalf, args)).await,
        _ => return None,
    })
}

/// The reply in the documents' form. A fault of ours stays one.
pub(super) async fn answered(work: impl Future<Output = Result<Value>>) -> Result<Value> {
    match work.await {
        Ok(data) => Ok(json!({"success": true, "data": data})),
        Err(error) => refusal(error),
    }
}

pub(super) fn is_one(name: &str) -> bool {
    [schema::STORE, schema::UPDATE, schema::LIST, schema::GET, schema::DELETE].contains(&name)
}

/// A refusal as an answer.
pub(super) fn refusal(error: AppError) -> Result<Value> {
    match error {
        error @ (AppError::Internal(_) | AppError::Unavailable(_)) => Err(error),
        error => Ok(json!({"success": false, "error": told(&error)})),
    }
}

/// Everything that is wrong, each with the parameter that it is about, in one line.
fn told(error: &AppError) -> String {
    let faults = error.faults();
    let named: Vec<&str> = faults.iter().map(|fault| fault.trim_start_matches('/')).collect();
    if named.is_empty() { error.to_string() } else { named.join("; ") }
}

pub(super) fn wrong(key: &str, detail: impl Into<String>) -> AppError {
    let detail = detail.into();
    AppError::Invalid { detail: detail.clone(), errors: vec![(format!("/{key}"), detail)] }
}

async fn store(hive: &Arc<Hive>, behalf: &Behalf, args: &Map<String, Value>) -> Result<Value> {
    if args.get("instructions").and_then(Value::as_str).is_none_or(|text| text.trim().is_empty()) {
        let detail = "a skill needs instructions: say what it does, also beside an execution_plan";
        return Err(wrong("instructions", detail));
    }
    let mut body = args.clone();
    if ["agent_id", "agent", "agentId"].iter().all(|key| body.get(*key).is_none_or(Value::is_null)) {
        body.insert("agent_id".to_owned(), behalf.agent.as_str().into());
    }
    let made = hive.create_job(behalf.caller.as_ref(), body.into(), None).await?;
    Ok(view::written(&made))
}

async fn update(hive: &Arc<Hive>, behalf: &Behalf, args: &Map<String, Value>) -> Result<Value> {
    let (id, mut body) = (id_of(args)?, args.clone());
    for key in IDS {
        body.remove(key);
    }
    let changed = hive.update_job(behalf.caller.as_ref(), id, body.into()).await?;
    Ok(view::written(&changed))
}

async fn list(hive: &Arc<Hive>, behalf: &Behalf, args: &Map<String, Value>) -> Result<Value> {
    let given = |key: &str| args.get(key).filter(|value| !value.is_null());
    let enabled = given("enabled").map(boolean).transpose()?;
    let kind = given("trigger_type").map(|value| match value.as_str() {
        Some(kind @ ("cron" | "event" | "manual")) => Ok(kind),
        _ => Err(wrong("trigger_type", "trigger_type is cron, event or manual")),
    });
    let kind = kind.transpose()?;
    let agent = given("agent_id").map(|value| {
        let name = value.as_str().ok_or_else(|| wrong("agent_id", "agent_id is the name of an agent"))?;
        name.parse::<AgentId>().map_err(|e| wrong("agent_id", e.0))
    });
    let filter = JobFilter { agent: agent.transpose()?, enabled, ..JobFilter::default() };
    let (mut skills, mut after) = (Vec::new(), 0);
    loop {
        let jobs = hive.jobs(behalf.caller.as_ref(), filter.clone(), after, PAGE).await?;
        let Some(last) = jobs.last() else { break };
        after = last.id;
        let wanted = jobs.iter().filter(|job| kind.is_none_or(|kind| view::trigger_type(job) == kind));
        skills.extend(wanted.map(view::shown));
        if jobs.len() < PAGE {
            break;
        }
    }
    Ok(json!({"count": skills.len(), "skills": skills}))
}

async fn get(hive: &Arc<Hive>, behalf: &Behalf, args: &Map<String, Value>) -> Result<Value> {
    Ok(view::shown(&hive.job(behalf.caller.as_ref(), id_of(args)?).await?))
}

async fn delete(hive: &Arc<Hive>, behalf: &Behalf, args: &Map<String, Value>) -> Result<Value> {
    let id = id_of(args)?;
    hive.delete_job(behalf.caller.as_ref(), id).await?;
    Ok(json!({"id": id, "deleted": true}))
}

/// What a skill's id may be called.
const IDS: [&str; 3] = ["id", "skill_id", "skillId"];

fn id_of(args: &Map<String, Value>) -> Result<i64> {
    let given = IDS.iter().find_map(|key| args.get(*key).filter(|value| !value.is_null()));
    let given =
        given.ok_or_else(|| wrong("id", "say which skill: its id, as memory_list_skills tells it"))?;
    number(given).ok_or_else(|| wrong("id", format!("id is the number of a skill, not {given}")))
}

/// A whole number, also written as text.
pub(super) fn number(value: &Value) -> Option<i64> {
    value.as_i64().or_else(|| value.as_str()?.trim().parse().ok())
}

fn boolean(value: &Value) -> Result<bool> {
    match value {
        Value::Bool(yes) => Ok(*yes),
        Value::String(text) if text.eq_ignore_ascii_case("true") => Ok(true),
        Value::String(text) if text.eq_ignore_ascii_case("false") => Ok(false),
        Value::Number(n) if n.as_i64() == Some(1) => Ok(true),
        Value::Number(n) if n.as_i64() == Some(0) => Ok(false),
        other => Err(wrong("enabled", format!("enabled is true or false, not {other}"))),
    }
}
