//! The SKILL.md that a manifest-only skill gets in the view, since agent programs look for nothing else.
//!
//! Pure. It holds what the format of agentskills.io knows and points at the rest; it never stands in the store.

use super::prompt::one_line;
use crate::skill::model::{Shape, Skill};

/// The longest description that the format allows, in characters.
const MAX_DESCRIPTION: usize = 1024;

/// The generated text; none for a skill that has a SKILL.md of its own.
#[must_use]
pub fn skill_md(skill: &Skill) -> Option<String> {
    if skill.shape != Shape::Manifest {
        return None;
    }
    let mut description = one_line(&skill.description);
    if description.is_empty() {
        description = one_line(&skill.name);
    }
    let description: String = description.chars().take(MAX_DESCRIPTION).collect();
    let quoted = |text: &str| serde_json::Value::from(text).to_string(); // JSON strings are YAML too
    let mut out = format!(
        "---\nname: {}\ndescription: {}\nmetadata:\n  version: {}\n---\n\n# {}\n\n{description}\n",
        quoted(skill.id.as_str()),
        quoted(&description),
        quoted(&skill.version.to_string()),
        one_line(&skill.name),
    );
    for (heading, paths) in [("Instructions", &skill.context), ("Scripts", &skill.scripts)] {
        if !paths.is_empty() {
            out.push_str(&format!("\n## {heading}\n\n"));
            for path in paths {
                let path = one_line(path);
                out.push_str(&format!("- [{path}](<{path}>)\n"));
            }
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn skill(description: &str) -> Skill {
        Skill {
            id: "123".parse().unwrap(),
            name: "Social Media APIs".into(),
            version: "2.1.0".parse().unwrap(),
            description: description.into(),
            shape: Shape::Manifest,
            context: vec!["context/instructions.md".into()],
            scripts: vec!["scripts/post-twitter.ts".into()],
            secrets: vec![],
            mcp_servers: vec![],
            dependencies: vec![],
            node_version: None,
            system_packages: vec![],
            binaries: vec![],
            required_env: vec![],
            vars: vec![],
            tags: vec![],
            body: None,
            extra: BTreeMap::new(),
        }
    }

    #[test]
    fn a_manifest_becomes_a_skill_md_that_agent_programs_read() {
        assert_eq!(
            skill_md(&skill("Post: to \"X\"")).unwrap(),
            "---
name: \"123\"
description: \"Post: to \\\"X\\\"\"
metadata:
  version: \"2.1.0\"
---

# Social Media APIs

Post: to \"X\"

## Instructions

- [context/instructions.md](<context/instructions.md>)

## Scripts

- [scripts/post-twitter.ts](<scripts/post-twitter.ts>)
"
        );
        let own = Skill { shape: Shape::Both, ..skill("x") };
        assert_eq!(skill_md(&own), None);
    }

    #[test]
    fn the_frontmatter_is_valid_whatever_the_manifest_says() {
        for description in ["a\n---\nname: evil", "", "#: {[!&*", "\u{1f600}\t\\", &"é".repeat(3_000)] {
            let text = skill_md(&skill(description)).unwrap();
            let yaml = text.split("---\n").nth(1).unwrap();
            let read: serde_json::Value = serde_saphyr::from_str(yaml).unwrap();
            assert_eq!(read["name"], "123");
            let told = read["description"].as_str().unwrap();
            assert!((1..=1024).contains(&told.chars().count()), "{description}");
        }
    }
}
