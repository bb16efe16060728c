//! `get_tool_catalog` (systems.md A17).

use std::sync::Arc;

use serde_json::{Value, json};

use super::{Behalf, Described};
use crate::{
    app::{Result, hive::Hive},
    tools::catalogue::answer,
};

pub(super) const NAME: &str = "get_tool_catalog";

pub(super) fn tools() -> Vec<Described> {
    vec![Described {
        name: NAME,
        description: "List every tool that can be called, grouped by MCP server or skill.".to_owned(),
        input_schema: json!({"type": "object", "properties": {}}),
    }]
}

pub(super) async fn call(hive: &Arc<Hive>, behalf: &Behalf) -> Result<Value> {
    Ok(answer(&hive.catalogue(&behalf.agent).await?))
}
