//! How skills are read: the documented examples, every printed message, and hostile bytes.

mod hostile;
mod manifest;
mod requirements;
mod skill_md;

use super::{
    load::{Report, read},
    source::{Limits, Source},
};

const GOOD: &str = r##"{
  "id": "social-media-apis", "name": "Social Media APIs", "version": "2.1.0",
  "description": "Post to Twitter", "owner": "built-in",
  "context": ["context/instructions.md"], "scripts": ["scripts/post.ts"],
  "envVars": ["TWITTER_API_KEY"],
  "mcpServers": [
    {"name": "social-mcp", "type": "local", "command": "node", "args": ["mcp/server.js"]},
    {"name": "external-api", "type": "remote", "url": "https://mcp.example.com/api"}],
  "dependencies": ["basic-tools@1.0.0"], "nodeVersion": ">=20.0.0",
  "systemPackages": ["chromium", "ffmpeg"], "tags": ["social"],
  "usedBy": ["x"], "registeredAt": "2024", "updatedAt": "2024", "colour": {"a": [1]}
}"##;

fn files(manifest: &[u8]) -> Source {
    Source::from_memory(&[
        ("manifest.json", manifest, false),
        ("context/instructions.md", b"# How", false),
        ("scripts/post.ts", b"", false),
        (".env.example", b"TWITTER_API_KEY=", false),
    ])
}

fn manifest(text: &str) -> Report {
    read(&files(text.as_bytes()), Limits::default())
}

fn skill_md(text: impl AsRef<[u8]>) -> Report {
    read(&Source::from_memory(&[("SKILL.md", text.as_ref(), false)]).named("a-skill"), Limits::default())
}

fn messages(report: &Report) -> Vec<&str> {
    report.errors.iter().map(|e| e.message.as_str()).collect()
}

const FULL: &str = r#"---
name: code-review
description: Review code changes
version: 1.2.3
requires:
  env:
    - GITHUB_TOKEN
  binary: [npx]
  skills: [base-assistant]
vars:
  API_KEY:
    description: "key"
    required: true
    secret: true
  ENDPOINT: "https://api.example.com"
  COUNT: 1.10
  TIMEOUT:
mcp:
  command: npx -y '@scope/server github' "a b"
  env:
    TOKEN: ${GITHUB_TOKEN}
    KEY: x-${OTHER}-${ENDPOINT}
    HOME: ${HOME}
  idle_timeout: 15
next_skill: review-summary
conditional_next_skills:
  critical: security-audit
keywords: [review, "pull request"]
priority: 5
license: MIT
metadata:
  author: someone
  tags: '["x", "y"]'
---

# Body with {{ENDPOINT}}
"#;
