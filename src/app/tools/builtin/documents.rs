//! The document tools and `skill_management` (systems.md B3, C9).

use std::sync::Arc;

use serde_json::{Map, Value};

use super::{Behalf, Described};
use crate::{
    app::{Result, documents, hive::Hive},
    skill::document::Tool,
};

pub(super) fn tools() -> Vec<Described> {
    let described = |tool: &Tool| Described {
        name: tool.name(),
        description: tool.description().to_owned(),
        input_schema: tool.parameters(),
    };
    Tool::ALL.iter().map(described).collect()
}

/// None: it is no tool of this kind.
pub(super) async fn call(
    hive: &Arc<Hive>,
    behalf: &Behalf,
    name: &str,
    args: &Map<String, Value>,
) -> Option<Result<Value>> {
    let tool = Tool::named(name)?;
    Some(documents::tool(hive, behalf.caller.as_ref(), tool, &Value::Object(args.clone()), None).await)
}
