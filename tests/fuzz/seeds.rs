//! What is mutated: real files (tests/corpus/README.md), the built-in skill, and the words of the formats.

use std::{fs, io::Write, path::Path};

/// Seeds above this are cut: small inputs are tried oftener.
const LONGEST: usize = 4 << 10;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn named(folder: &str, name: &str) -> Vec<Vec<u8>> {
    let entries = walkdir::WalkDir::new(root().join(folder)).sort_by_file_name().into_iter();
    let files = entries.map(Result::unwrap).filter(|e| e.file_name() == name);
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

/// Edits of a new document, and of real ones.
pub fn documents() -> Vec<Vec<u8>> {
    let new = [EDITS, JSON_EDITS].map(|edits| edits.as_bytes().to_vec());
    let mut seeds = Vec::new();
    for mut head in skill_md().into_iter().step_by(5) {
        head.truncate(1 << 10);
        seeds.push([&head[..], b"\n%%\n", EDITS.as_bytes()].concat());
        // As many of each kind: what was made here is held to more.
        seeds.extend(new.clone());
    }
    seeds
}

const EDITS: &str = "append \\n- c\ntitle A \"title\": x\nfind b=>bb\nprepend # T\\n\ntags a, b,a\ndescription one\\ntwo\n\
    find-all b=>\ndelete # T\nboth x=>y\nreplace ---\\nname: z\\n---\\n\ndelete-all -\n";
const JSON_EDITS: &str = "{\"title\": \"T\", \"tags\": [\"a\", \"b\"]}\n\
    {\"operation\": \"find_replace\", \"find\": \"a\", \"replace\": null, \"replace_all\": true}\n\
    {\"operation\": \"append\", \"content\": \"\\u0000\", \"description\": \"d\"}\n";
pub const DOCUMENT_WORDS: &[&str] = &[
    "\nappend ",
    "\nprepend ",
    "\nreplace ",
    "\ndelete ",
    "\ndelete-all ",
    "\nfind ",
    "\nfind-all ",
    "=>",
    "\ntitle ",
    "\ndescription ",
    "\ntags ",
    "\nboth ",
    "%%\n",
    "\\n",
    "\\n---\\n",
    "---",
    "\\0",
    "\u{feff}",
    "\r\\n",
    ": ",
    "#",
    "- ",
    "'",
    "\"",
    "|",
    ">",
    "{}",
    "[]",
    "null",
    "true",
    "~",
    "!!str",
    "&a",
    "*a",
    "0x1f",
    "1e3",
    "2026-01-01",
    "é",
    "\u{2028}",
    "\u{85}",
    "\u{a0}",
    "\u{202e}",
    "\u{1b}",
    "\t",
    " ",
    "aa",
    "ß",
    "İ",
    "metadata:\n  tags: x\n",
    "version: 1.0.0\n",
];

/// References to skills.
pub fn reference() -> Vec<Vec<u8>> {
    let texts =
        ["a", "a@latest", "a@1.2.3", "a@^1.2", "a@~1.2", "a@>=1, <3", "a@1.0.0-rc.1+b.2", "a@*", "a@=1"];
    texts.iter().map(|t| t.as_bytes().to_vec()).collect()
}

/// Small archives of every format, with what is refused among what is taken.
pub fn archive() -> Vec<Vec<u8>> {
    let plain =
        tar_of(&[("a/SKILL.md", b"---\nname: a\ndescription: d\n---\n"), ("a/scripts/x.sh", b"#!/bin/sh\n")]);
    let two =
        tar_of(&[("a/SKILL.md", b"---\ndescription: d\n---\n"), ("b/manifest.json", MANIFEST.as_bytes())]);
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    gzip.write_all(&plain).unwrap();
    let zstd = zstd::encode_all(&plain[..], 1).unwrap();
    let mut seeds =
        vec![zip_of(zip::CompressionMethod::Stored), zip_of(zip::CompressionMethod::Deflated), zstd];
    seeds.extend([gzip.finish().unwrap(), linked(), two, plain]);
    seeds
}

fn header(size: u64) -> tar::Header {
    let mut header = tar::Header::new_ustar();
    header.set_size(size);
    header.set_mode(0o755);
    header
}

fn tar_of(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    for (path, bytes) in files {
        builder.append_data(&mut header(bytes.len() as u64), path, *bytes).unwrap();
    }
    builder.into_inner().unwrap()
}

/// With links, and a name so long that it stands in an entry of its own.
fn linked() -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    for (kind, name) in [(tar::EntryType::Symlink, "a/out"), (tar::EntryType::Link, "a/hard")] {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(kind);
        header.set_size(0);
        builder.append_link(&mut header, name, "../../etc/passwd").unwrap();
    }
    let long = format!("a/{}/f", "long/".repeat(60));
    let mut header = tar::Header::new_gnu();
    header.set_size(1);
    header.set_mode(0o644);
    builder.append_data(&mut header, long, &b"x"[..]).unwrap();
    builder.into_inner().unwrap()
}

fn zip_of(method: zip::CompressionMethod) -> Vec<u8> {
    let mut writer = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    let options = zip::write::SimpleFileOptions::default().compression_method(method).unix_permissions(0o755);
    for path in ["a/SKILL.md", "a/x.sh"] {
        writer.start_file(path, options).unwrap();
        writer.write_all(b"---\nname: a\ndescription: d\n---\n").unwrap();
    }
    writer.finish().unwrap().into_inner()
}

/// Words that reach into archives.
pub const ARCHIVE_WORDS: &[&str] = &[
    "ustar\0",
    "ustar  \0",
    "../",
    "/",
    "a/../../x",
    "SKILL.md",
    "manifest.json",
    "\0\0\0\0\0\0\0\0",
    "77777777777",
    "\u{0}\u{0}\u{0}\u{7f}",
    "PK\u{1}\u{2}",
    "PK\u{3}\u{4}",
    "PK\u{5}\u{6}",
    "PK\u{6}\u{6}",
    "PK\u{6}\u{7}",
    "11 path=/x\n",
    "16 size=99999999\n",
    "GNU.sparse.major=1\n",
    "././@LongLink",
    "L",
    "x",
    "g",
    "S",
    "1",
    "2",
    "5",
    "\n",
    "\\",
    "CON",
    "\u{1}\u{0}",
];

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
