//! Tools and their answers as MCP has them. What an MCP server of a skill answered passes as it came.

use std::sync::Arc;

use rmcp::model::{CallToolResult, ContentBlock, JsonObject, Tool, ToolAnnotations};
use serde_json::{Value, json};

use super::names::shown;
use crate::{
    app::tools::types::{ToolReply, ToolView},
    tools::normalise::relaxed,
};

/// A tool of an agent; `hints` are MCP's annotations where its server gave some.
pub fn tool(view: ToolView, hints: Option<Value>) -> Tool {
    let hints = hints.and_then(|hints| serde_json::from_value::<ToolAnnotations>(hints).ok());
    // Some clients want a description of everything.
    let said = view.description.unwrap_or_else(|| match view.kind.as_str() {
        "script" => format!("A script of the skill {}.", view.server),
        _ => format!("A tool of the MCP server {}.", view.server),
    });
    let tool = Tool::new(shown(&view.name), said, schema(view.input_schema));
    match hints {
        Some(hints) => tool.with_annotations(hints),
        None => tool,
    }
}

/// What models are shown of a schema (systems.md A16). A tool without one takes any object; one of something else would
/// be refused by clients.
pub fn schema(schema: Option<Value>) -> Arc<JsonObject> {
    let mut schema = match schema.map(|schema| relaxed(&schema)) {
        Some(Value::Object(schema)) => schema,
        _ => JsonObject::new(),
    };
    if schema.get("type") != Some(&json!("object")) {
        schema.insert("type".into(), "object".into());
    }
    Arc::new(schema)
}

/// How a call ended.
pub fn result(reply: ToolReply) -> CallToolResult {
    let text = match (&reply.error, &reply.result) {
        // The hive's own tools say in their answer that they failed.
        (Some(_), Some(value @ Value::Object(_))) if !reply.success && reply.exit_code.is_none() => {
            value.to_string()
        }
        (Some(error), _) if !reply.success => error.clone(),
        (_, None) => String::new(),
        (_, Some(Value::String(text))) => text.clone(),
        (_, Some(value)) => value.to_string(),
    };
    let mut content: Vec<ContentBlock> = match reply.content {
        Some(Value::Array(blocks)) => blocks.into_iter().map(block).collect(),
        _ => vec![ContentBlock::text(text)],
    };
    content.extend(reply.warnings.iter().map(|said| ContentBlock::text(format!("[skep: {said}]"))));
    let mut result =
        if reply.success { CallToolResult::success(content) } else { CallToolResult::error(content) };
    result.structured_content = reply.result.filter(Value::is_object);
    result
}

/// A call that could not be made, or whose tool refused.
pub fn failed(why: impl Into<String>) -> CallToolResult {
    CallToolResult::error(vec![ContentBlock::text(why)])
}

/// A kind of content that is not known here is told as its JSON.
fn block(block: Value) -> ContentBlock {
    let text = block.to_string();
    serde_json::from_value(block).unwrap_or_else(|_| ContentBlock::text(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown_as(reply: ToolReply) -> Value {
        let mut value = serde_json::to_value(result(reply)).unwrap();
        value.as_object_mut().unwrap().remove("resultType");
        value
    }

    #[test]
    fn answers_are_text_and_objects_are_structured_too() {
        let of = |value: Value| shown_as(ToolReply::answered("t", value));
        let text = |text: &str| json!([{ "type": "text", "text": text }]);
        assert_eq!(of(json!("plain")), json!({ "content": text("plain"), "isError": false }));
        assert_eq!(of(json!([1, 2])), json!({ "content": text("[1,2]"), "isError": false }));
        let object = json!({ "b": 1, "a": [true] });
        let expected = json!({ "content": text("{\"b\":1,\"a\":[true]}"), "isError": false, "structuredContent": object });
        assert_eq!(of(object), expected);
        let cut =
            ToolReply { warnings: vec!["it was cut".into()], ..ToolReply::answered("t", json!("{\"a\":")) };
        let told =
            json!([{ "type": "text", "text": "{\"a\":" }, { "type": "text", "text": "[skep: it was cut]" }]);
        assert_eq!(shown_as(cut)["content"], told, "whoever reads it knows that it is not whole");
        let failed = ToolReply::failed("t", "no disk".into());
        assert_eq!(shown_as(failed), json!({ "content": text("no disk"), "isError": true }));
    }

    #[test]
    fn blocks_of_a_server_pass_as_they_came() {
        let blocks = json!([
            { "type": "text", "text": "t", "annotations": { "priority": 1.0 } },
            { "type": "image", "data": "aGk=", "mimeType": "image/png" },
            { "type": "audio", "data": "aGk=", "mimeType": "audio/wav" },
            { "type": "resource", "resource": { "uri": "test://x", "mimeType": "text/plain", "text": "x" } },
            { "type": "resource_link", "uri": "test://y", "name": "y" },
        ]);
        let reply = ToolReply { content: Some(blocks.clone()), ..ToolReply::answered("t", json!("t")) };
        assert_eq!(shown_as(reply)["content"], blocks);
        let failed = ToolReply {
            content: Some(blocks.clone()),
            result: Some(json!({ "code": 7 })),
            ..ToolReply::failed("t", "t".into())
        };
        let shown = shown_as(failed);
        assert_eq!((&shown["content"], &shown["structuredContent"]), (&blocks, &json!({ "code": 7 })));
        let strange = json!([{ "type": "hologram", "data": 1 }]);
        let reply = ToolReply { content: Some(strange.clone()), ..ToolReply::answered("t", json!("t")) };
        assert_eq!(shown_as(reply)["content"][0]["text"], strange[0].to_string());
    }

    #[test]
    fn every_schema_is_one_of_an_object() {
        for odd in [None, Some(json!(true)), Some(json!({})), Some(json!({ "type": "string" }))] {
            assert_eq!(schema(odd)["type"], "object");
        }
        let fine =
            json!({ "type": "object", "properties": { "a": { "type": "string" } }, "required": ["a"] });
        assert_eq!(Value::Object((*schema(Some(fine.clone()))).clone()), fine);
    }
}
