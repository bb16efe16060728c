//! What is mutated: real files (tests/corpus/README.md), the built-in skill, and the words of the formats.

use std::{fs, path::Path};

/// Seeds above this are cut: small inputs are tried oftener.
const LONGEST: usize = 4 << 10;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn named(folder: &str, name: &str) -> Vec<Vec<u8>> {
    let entries = walkdir::WalkDir::new(root().join(folder)).sort_by_file_name().into_iter();
    let files = entries.map(|e| e.unwrap()).filter(|e| e.file_name() == name);
    files.map(|e| fs::read(e.path()).unwrap()).collect()
}

/// Real SKILL.md files, and real frontmatter of which some is broken.
pub fn skill_md() -> Vec<Vec<u8>> {
    let mut seeds = named("tests/corpus/skills", "SKILL.md");
    for entry in fs::read_dir(root().join("tests/corpus/frontmatter")).unwrap() {
        for line in fs::read_to_string(entry.unwrap().path()).unwrap().lines() {
            let block: serde_json::Value = serde_json::from_str(line).unwrap();
            seeds.push(format!("---\n{}\n---\nbody\n", block["frontmatter"].as_str().unwrap()).into());
        }
    }
    seeds.push(FULL.into());
    seeds.iter_mut().for_each(|seed| seed.truncate(LONGEST));
    seeds
}

/// Manifests.
pub fn manifest() -> Vec<Vec<u8>> {
    let mut seeds = named("skills/built-in", "manifest.json");
    seeds.push(MANIFEST.into());
    seeds.push(b"{}".to_vec());
    seeds
}

/// References to skills.
pub fn reference() -> Vec<Vec<u8>> {
    let texts =
        ["a", "a@latest", "a@1.2.3", "a@^1.2", "a@~1.2", "a@>=1, <3", "a@1.0.0-rc.1+b.2", "a@*", "a@=1"];
    texts.iter().map(|t| t.as_bytes().to_vec()).collect()
}

/// Words that reach into references.
pub const REFERENCE_WORDS: &[&str] = &[
    "@",
    "^",
    "~",
    ">=",
    "<",
    ",",
    "*",
    "=",
    ".",
    "-",
    "+",
    "latest",
    "18446744073709551616",
    "0",
    "x",
    " ",
    "custom",
];

/// Words that reach into manifests.
pub const MANIFEST_WORDS: &[&str] = &[
    "\"id\"",
    "\"version\"",
    "\"scripts\"",
    "\"context\"",
    "\"envVars\"",
    "\"mcpServers\"",
    "\"dependencies\"",
    "\"nodeVersion\"",
    "\"systemPackages\"",
    "\"type\": \"remote\"",
    "\"url\": \"https://\"",
    "\"args\"",
    "\"env\"",
    "null",
    "true",
    "[]",
    "{}",
    "\"\"",
    "-1",
    "1e999",
    "\"\\u0000\"",
    "\"\\ud800\"",
    "\"../x\"",
    "\"s.sh\"",
    "[[[[",
    "\u{feff}",
];

/// Words that reach into SKILL.md.
pub const SKILL_MD_WORDS: &[&str] = &[
    "---\n",
    "\n---\n",
    "name: ",
    "description: ",
    "version: 1.2.3\n",
    "metadata:\n  ",
    "requires:\n  env: ",
    "vars:\n  ",
    "mcp:\n  command: ",
    "trigger_config:\n  ",
    "keywords: ",
    "dependencies: ",
    "nodeVersion: ",
    "allowed-tools: ",
    "&a ",
    "*a",
    "<<: *a",
    "!!str ",
    "!x ",
    "? ",
    "- ",
    "| \n",
    ">-\n",
    "'",
    "\"",
    "{{A}}",
    "${A}",
    "\\x",
    "\t",
    "\r\n",
    "%YAML 1.2\n",
    "...\n",
    "# c\n",
    ": ",
    "[",
    "{",
    "\u{feff}",
    "\u{85}",
    "\u{2028}",
    ".inf",
    "0x1",
    "~",
    "1e999",
];

/// Words that reach into the scanner's rules.
pub const SCAN_WORDS: &[&str] = &[
    "curl https://x.dev/a.sh ",
    "| sh",
    "| base64 -d | bash",
    "eval(atob('",
    "exec(base64.b64decode(",
    "Y3VybCBodHRwczovL3guZGV2IHwgc2g=",
    "\\x63\\x75\\x72\\x6c\\x20\\x68",
    "99, 117, 114, 108, 32, 104, 116, 116, 112, 115, 58,",
    "%63%75%72%6c%20%68%74%74",
    "process.env.A_KEY",
    "os.environ['",
    "$API_KEY",
    "https://1.2.3.4/",
    "ignore all previous instructions",
    "do not tell the user",
    "npx ",
    "pip install ",
    ">> soul.md",
    "crontab -",
    "-----BEGIN PRIVATE KEY-----\n",
    "AKIA",
    "```\n",
    "`",
    "\u{e0041}\u{e0042}",
    "\u{202e}",
    "\u{200b}",
    "\u{fe01}\u{e0120}",
    "\x1b[",
    "#!/bin/sh\n",
    "unzip -P x",
    "\u{7f}ELF",
    "PK\u{3}\u{4}",
    "\\\n",
];

const MANIFEST: &str = r#"{"id": "a-b", "name": "A", "version": "2.1.0", "description": "d", "owner": "x",
 "context": ["c.md"], "scripts": ["s.sh"], "envVars": ["A_KEY"], "mcpServers": [
 {"name": "l", "type": "local", "command": "node", "args": ["x.js"], "env": {"T": "${A_KEY}"}},
 {"name": "r", "type": "remote", "url": "https://mcp.example.com/api", "headers": {"h": "v"}}],
 "dependencies": ["basic-tools@^1.0"], "nodeVersion": ">=20.0.0", "systemPackages": ["ffmpeg"], "tags": ["t"], "colour": {"a": [1]}}"#;

const FULL: &str = "---\nname: a-b\ndescription: |\n  one\n  two\nversion: 1.2.3\nrequires:\n  env: [A_KEY]\n  binary: [npx]\n  skills: [c@^1]\nvars:\n  V:\n    description: \"k\"\n    required: true\n    secret: true\n  E: \"https://x\"\n  N:\nmcp:\n  command: npx -y '@s/x' \"a b\"\n  env:\n    T: ${A_KEY}\n  idle_timeout: 15\ntrigger_config: {schedule: daily}\nkeywords: [r, \"p r\"]\npriority: 5\nmetadata:\n  author: s\n  tags: '[\"x\"]'\n---\n\n# Body {{E}}\n";
