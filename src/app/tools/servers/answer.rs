//! From what a server answers to what a caller is told.

use serde_json::Value;

use crate::{app::tools::types::ToolReply, mcp::Answer, secrets::mask::Masker};

/// The result is what is structured; else the text, as JSON where it is JSON. Blocks are told beside it when they are
/// more than text, or their text says something else than what is structured.
pub(super) fn reply(tool: &str, answer: Answer, masker: &Masker) -> ToolReply {
    let texts = |block: &Value| (block["type"] == "text").then(|| block["text"].as_str().map(str::to_owned));
    let text: Vec<String> = answer.content.iter().filter_map(texts).flatten().collect();
    let text = text.join("\n");
    let other =
        |said: &Value| !text.is_empty() && serde_json::from_str::<Value>(&text).ok().as_ref() != Some(said);
    let more = answer.content.iter().any(|block| block["type"] != "text")
        || answer.structured.as_ref().is_some_and(other);
    let masked = |value: Value| masker.mask_json(&value);
    let content = more.then(|| masked(Value::Array(answer.content)));
    let result = match answer.structured {
        Some(structured) => Some(structured),
        None if text.is_empty() && more => None,
        None => Some(serde_json::from_str(&text).unwrap_or_else(|_| Value::String(text.clone()))),
    };
    let result = result.map(masked);
    if !answer.is_error {
        return ToolReply { result, content, ..ToolReply::answered(tool, Value::Null) };
    }
    let said = if text.is_empty() { "it failed and does not say why".to_owned() } else { text };
    let result = result.filter(|value| !value.is_string());
    ToolReply { result, content, ..ToolReply::failed(tool, masker.mask_str(&said).into_owned()) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::secrets::SecretValue;

    fn text(text: &str) -> Value {
        json!({ "type": "text", "text": text })
    }

    #[test]
    fn the_result_is_what_is_structured_else_the_text_as_json_where_it_is_json() {
        let masker = Masker::new([]);
        for (structured, content, result) in [
            (Some(json!({ "n": 1 })), vec![text("{\"n\": 1}")], json!({ "n": 1 })),
            (None, vec![text("{\"a\": [1]}")], json!({ "a": [1] })),
            (None, vec![text("a"), text("b")], json!("a\nb")),
            (None, vec![text("{\"a\": ")], json!("{\"a\": ")),
            (None, vec![], json!("")),
        ] {
            let reply = reply("t", Answer { structured, content, is_error: false }, &masker);
            assert_eq!((reply.success, reply.result, reply.content), (true, Some(result), None));
        }
        let answer = Answer { structured: Some(json!([1])), content: vec![text("one")], is_error: true };
        let both = reply("t", answer, &masker);
        assert_eq!((both.error.as_deref(), both.result), (Some("one"), Some(json!([1]))));
        assert_eq!(both.content, Some(json!([text("one")])), "neither is lost");
        let image = json!({ "type": "image", "data": "AA==", "mimeType": "image/png" });
        let reply = reply("t", Answer { content: vec![image.clone()], ..Answer::default() }, &masker);
        assert_eq!((reply.result, reply.content), (None, Some(json!([image]))));
    }

    #[test]
    fn a_failure_is_told_in_its_words_and_no_secret_with_it() {
        let masker = Masker::new(&[SecretValue::new("hunter22-hunter22").unwrap()]);
        let answer = |content| Answer { structured: None, content, is_error: true };
        let said = reply("t", answer(vec![text("no hunter22-hunter22 here")]), &masker);
        assert_eq!((said.success, said.error.as_deref()), (false, Some("no *** here")));
        let silent = reply("t", answer(vec![]), &masker);
        assert_eq!(silent.error.as_deref(), Some("it failed and does not say why"));
    }
}
