//! What edges pass in and out about tools.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

/// A tool of an agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ToolView {
    /// What calls it; where several have the name, `<server>/<name>`.
    pub name: String,
    /// What it belongs to: a skill (its scripts), an MCP server, or `skep` (the hive's own).
    pub server: String,
    /// `script`, `mcp` or `hive`.
    pub kind: String,
    /// The skill that brings it; null for the hive's own.
    pub skill: Option<String>,
    /// What it does, as it says itself; null when nothing says.
    pub description: Option<String>,
    /// JSON Schema of its arguments; null when nothing says.
    #[schema(value_type = Option<Object>)]
    pub input_schema: Option<Value>,
}

/// How a call of a tool ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ToolReply {
    /// The tool, as it was called.
    pub tool: String,
    /// Whether it worked. A script: it exited with 0 and did not answer `success: false`. A tool of an MCP server: it
    /// did not answer `isError`.
    pub success: bool,
    /// What it answered, secrets masked: as JSON where it is JSON, else as text. Of a script its standard output, at
    /// most 1 MiB.
    #[schema(value_type = Value)]
    pub result: Option<Value>,
    /// Content blocks of an MCP tool, as they came, when they are more than text or say something else than the result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<Object>>)]
    pub content: Option<Value>,
    /// Why it failed.
    pub error: Option<String>,
    /// What is odd about the answer: JSON that ends too early or was cut is taken as text,
    /// and `success: false` counts only as a field of the one JSON object that is printed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// Exit code of a script, 128 + signal when a signal killed it; null when there is none or it is not known.
    pub exit_code: Option<i32>,
    /// Standard error of a script, secrets masked, at most 1 MiB.
    pub stderr: String,
    /// Whether output was cut.
    pub truncated: bool,
    /// From start to proven end, in milliseconds.
    pub duration_ms: u64,
    /// It was ended because its time was up.
    pub timed_out: bool,
    /// The kernel killed it for memory.
    pub oom: bool,
}

impl ToolReply {
    /// Of a call that answered without a process.
    #[must_use]
    pub fn answered(tool: &str, result: Value) -> Self {
        Self {
            tool: tool.to_owned(),
            success: true,
            result: Some(result),
            content: None,
            error: None,
            warnings: Vec::new(),
            exit_code: None,
            stderr: String::new(),
            truncated: false,
            duration_ms: 0,
            timed_out: false,
            oom: false,
        }
    }

    /// Of a tool of the hive, whose answer may say that it failed.
    #[must_use]
    pub fn of_hive(tool: &str, result: Value) -> Self {
        let failed = result.get("success") == Some(&Value::Bool(false));
        let error =
            failed.then(|| result.get("error").and_then(Value::as_str).unwrap_or_default().to_owned());
        Self { success: !failed, error, ..Self::answered(tool, result) }
    }

    /// Of a call that failed without a process.
    #[must_use]
    pub fn failed(tool: &str, error: String) -> Self {
        Self { success: false, result: None, error: Some(error), ..Self::answered(tool, Value::Null) }
    }
}
