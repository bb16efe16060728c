//! What a script does, in one sentence (systems.md D16): its schema's description, else its first comment.
//!
//! Pure. (A script's answer to `--describe` is asked for elsewhere, inside the container.)

/// Lines looked at before giving up.
const MAX_LINES: usize = 60;

/// The description of a script: the `description` of its schema file, else the first sentence of
/// its first comment. None when it has neither.
///
/// A first line `#!…` is no comment, nor is one that only names the file, a linter's or encoding mark.
#[must_use]
pub fn script_description(script: &str, schema_json: Option<&str>) -> Option<String> {
    let from_schema = schema_json
        .and_then(|text| serde_json::from_str::<serde_json::Value>(text).ok())
        .and_then(|schema| Some(schema.get("description")?.as_str()?.to_owned()))
        .and_then(|text| first_sentence(&text));
    from_schema.or_else(|| from_comments(script))
}

fn from_comments(script: &str) -> Option<String> {
    let script = script.strip_prefix('\u{feff}').unwrap_or(script);
    let mut lines = script.lines().take(MAX_LINES).peekable();
    if lines.peek().is_some_and(|l| l.starts_with("#!")) {
        lines.next();
    }
    let mut text: Vec<&str> = Vec::new();
    // The mark that ends the comment we are in: `*/`, `"""` or `'''`; none outside of one.
    let mut until: Option<&str> = None;
    for line in lines {
        let line = line.trim();
        let words = if let Some(end) = until {
            let (words, closed) = match line.split_once(end) {
                Some((words, _)) => (words, true),
                None => (line, false),
            };
            if closed {
                until = None;
            }
            words.trim_start_matches('*').trim()
        } else if let Some((words, open)) = opening(line) {
            until = open;
            words
        } else if line.is_empty() || is_prologue(line) {
            ""
        } else {
            break; // code
        };
        let words = words.trim();
        let ended = until.is_none() && words.is_empty();
        if words.is_empty() || is_noise(words) {
            if !text.is_empty() && (ended || words.is_empty()) {
                break;
            }
        } else {
            text.push(words);
        }
    }
    first_sentence(&text.join(" "))
}

/// The words of a line that is or begins a comment, and what ends it when it goes on.
fn opening(line: &str) -> Option<(&str, Option<&'static str>)> {
    for (start, end) in [("/*", "*/"), ("\"\"\"", "\"\"\""), ("'''", "'''"), ("r\"\"\"", "\"\"\"")] {
        if let Some(rest) = line.strip_prefix(start) {
            let rest = rest.trim_start_matches('*');
            return Some(match rest.split_once(end) {
                Some((words, _)) => (words, None),
                // `/**/` and the like: the end was taken for stars.
                None if rest == "/" => ("", None),
                None => (rest, Some(end)),
            });
        }
    }
    line.strip_prefix("//")
        .map(|rest| rest.trim_start_matches(['/', '!']))
        .or_else(|| line.strip_prefix('#').map(|rest| rest.trim_start_matches(['#', '!'])))
        .map(|words| (words, None))
}

/// Code that may stand before the first comment.
fn is_prologue(line: &str) -> bool {
    let bare = line.trim_end_matches(';').trim_matches(['"', '\'']);
    bare == "use strict" || bare == "@echo off" || line.starts_with("set -")
}

/// A comment that says nothing about what the script does.
fn is_noise(words: &str) -> bool {
    let lower = words.to_ascii_lowercase();
    let marks = [
        "eslint",
        "@ts-",
        "ts-",
        "prettier-",
        "biome-",
        "shellcheck ",
        "pylint:",
        "noqa",
        "type:",
        "-*-",
        "vim:",
        "copyright",
        "spdx-",
        "(c) ",
        "<reference",
        "deno-",
        "@license",
        "/ script",
    ];
    marks.iter().any(|m| lower.starts_with(m))
        || lower.starts_with("coding:")
        || lower.starts_with("coding=")
        || is_file_name(words)
        || !words.chars().any(char::is_alphanumeric)
}

/// `scripts/post-twitter.ts`: no spaces, and an extension.
fn is_file_name(words: &str) -> bool {
    let name = words.rsplit('/').next().unwrap_or(words);
    !words.contains(char::is_whitespace)
        && name.rsplit_once('.').is_some_and(|(stem, ext)| {
            !stem.is_empty() && (1..=5).contains(&ext.len()) && ext.bytes().all(|b| b.is_ascii_alphanumeric())
        })
}

/// Up to the first full stop that ends a sentence, without it; on one line.
#[must_use]
pub fn first_sentence(text: &str) -> Option<String> {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut end = text.len();
    for (at, _) in text.match_indices(". ") {
        let word = text[..at].rsplit(' ').next().unwrap_or("");
        let next = text[at + 2..].chars().next();
        // Not after "e.g", "i.e", "v1" and the like, nor before a small letter.
        if !word.contains('.') && !next.is_some_and(char::is_lowercase) {
            end = at;
            break;
        }
    }
    let sentence = text[..end].trim().trim_end_matches('.').trim_end();
    (!sentence.is_empty()).then(|| sentence.to_owned())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_first_comment_describes_a_script() {
        let table: &[(&str, Option<&str>)] = &[
            ("// scripts/post-twitter.ts\n\nimport x;\n// Validate\n", None),
            (
                "// scripts/post-twitter.ts\n// Post a tweet to Twitter.\nimport x",
                Some("Post a tweet to Twitter"),
            ),
            (
                "#!/bin/bash\n# scripts/check-status.sh\n\n# Simple health check\ncurl",
                Some("Simple health check"),
            ),
            ("#!/usr/bin/env node\n// Reads a file. Also more.\n", Some("Reads a file")),
            ("/* One line. */\ncode", Some("One line")),
            ("/**\n * Doc over\n * two lines\n *\n * @param x y\n */", Some("Doc over two lines")),
            ("\"\"\"Python doc.\n\nMore.\n\"\"\"", Some("Python doc")),
            ("#!/usr/bin/env python3\n# -*- coding: utf-8 -*-\n'''\nDoes it\n'''\n", Some("Does it")),
            ("#!/bin/bash\nset -euo pipefail\n# After the options\n", Some("After the options")),
            ("/* eslint-disable */\n// Real words, e.g. this one. Next.", Some("Real words, e.g. this one")),
            ("// Uses API v1.2 of x. Then y", Some("Uses API v1.2 of x")),
            ("\u{feff}#!/bin/sh\r\n# Windows ends\r\n", Some("Windows ends")),
            ("/**/\n// Two", Some("Two")),
            ("// One paragraph\n// goes on\n\n// Another", Some("One paragraph goes on")),
            ("const a = 1; // no\n// neither\n", None),
            ("import os\n# too late", None),
            ("#!/bin/sh", None),
            ("", None),
            ("# -----\n# Framed\n# -----\n", Some("Framed")),
        ];
        for (script, expected) in table {
            assert_eq!(script_description(script, None).as_deref(), *expected, "{script:?}");
        }
    }

    #[test]
    fn the_schema_goes_before_the_comment_when_it_says_something() {
        let script = "# Comment";
        for (schema, expected) in [
            (r#"{"description": "From the schema.\nMore."}"#, "From the schema"),
            (r#"{"description": ""}"#, "Comment"),
            (r#"{"description": 3}"#, "Comment"),
            ("not json", "Comment"),
            ("[]", "Comment"),
        ] {
            let told = script_description(script, Some(schema));
            assert_eq!(told.as_deref(), Some(expected), "{schema}");
        }
    }

    proptest! {
        #[test]
        fn a_description_is_always_one_line(script in "([#/*\"' \n.a-z-]|\\PC){0,80}") {
            if let Some(told) = script_description(&script, None) {
                prop_assert!(!told.is_empty() && !told.contains('\n'));
            }
        }
    }
}
