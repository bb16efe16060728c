//! The catalogue of an agent's tools (systems.md A17). Pure.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::Tool;
use crate::sandbox::describe::first_sentence;

/// A tool with what models are told of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Listed {
    /// The tool.
    pub tool: Tool,
    /// What it does; empty when nothing says.
    pub description: String,
    /// JSON Schema of its arguments; none: nothing says.
    pub input_schema: Option<Value>,
}

/// By group, then by name.
pub fn sort(tools: &mut [Listed]) {
    tools.sort_by(|a, b| (&a.tool.group, &a.tool.name).cmp(&(&b.tool.group, &b.tool.name)));
}

/// What `get_tool_catalog` answers: `{"success": true, "data": {"summary", "catalog": {server: [{name, description}]}}}`,
/// first sentences, grouped and sorted.
#[must_use]
pub fn answer(tools: &[Listed]) -> Value {
    let mut groups: BTreeMap<&str, Vec<(&str, String)>> = BTreeMap::new();
    for listed in tools {
        let line = (listed.tool.name.as_str(), first_sentence(&listed.description).unwrap_or_default());
        groups.entry(&listed.tool.group).or_default().push(line);
    }
    let summary = format!("{} across {}", count(tools.len(), "tool"), count(groups.len(), "MCP server"));
    let catalog: BTreeMap<&str, Vec<Value>> = groups
        .into_iter()
        .map(|(group, mut lines)| {
            lines.sort();
            let shown = |(name, description)| json!({"name": name, "description": description});
            (group, lines.into_iter().map(shown).collect())
        })
        .collect();
    json!({"success": true, "data": {"summary": summary, "catalog": catalog}})
}

fn count(n: usize, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(server: &str, name: &str, description: &str) -> Listed {
        let tool = Tool::of_server("web".parse().unwrap(), server, name, false);
        Listed { tool, description: description.into(), input_schema: None }
    }

    #[test]
    fn the_catalogue_is_grouped_by_server_and_sorted_with_first_sentences() {
        let tools = [
            listed("searcher", "web_search", "Search the web. Uses v1.2 of an API."),
            listed("gmail", "gmail_send", "Send an e-mail"),
            listed("searcher", "news", "Is there news?\n\nMore."),
        ];
        assert_eq!(
            answer(&tools),
            json!({"success": true, "data": {"summary": "3 tools across 2 MCP servers", "catalog": {
                "gmail": [{"name": "gmail_send", "description": "Send an e-mail"}],
                "searcher": [
                    {"name": "news", "description": "Is there news? More"},
                    {"name": "web_search", "description": "Search the web"},
                ],
            }}})
        );
        assert_eq!(answer(&tools[..1])["data"]["summary"], "1 tool across 1 MCP server");
    }
}
